//! How long a pass is that finds nothing: printed, not judged, because machines are shared.

use warikomi_target::Target;

use crate::drivers::Behaviour;
use crate::start;

#[test]
#[ignore = "a measurement"]
fn an_idle_pass() {
    const PASSES: u64 = 10_000_000;
    let mut target = start(Behaviour::Stalls);
    let target: &mut dyn Target = &mut target;
    let begun = target.poll().unwrap().at;
    for _ in 1..PASSES {
        target.poll().unwrap();
    }
    let took = target.poll().unwrap().at.since(begun);
    println!("an idle pass takes {:.1} ns", took.as_ns() / PASSES as f64);
}
