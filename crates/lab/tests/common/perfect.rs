//! Runs that lose nothing.

use std::time::{Duration, Instant};

use warikomi_clock::read_tsc;
use warikomi_inject::Plan;
use warikomi_lab::inject::{Application, Backlog, Injected, inject};
use warikomi_session::Session;
use warikomi_testbench::skipped;

/// Runs that a test may repeat in all.
const MOST_REPEATED: usize = 20;

/// Carries a plan out once, and insists that every packet is accounted for.
pub(crate) fn attempt(session: &mut Session, plan: &Plan) -> Injected {
    let run_id = read_tsc() as u32;
    let run = inject(session, plan, Application::default(), run_id, &mut |_| ()).unwrap();
    run.check().unwrap();
    run
}

/// Carries a plan out so that every packet arrives. A run that loses some is repeated if pauses of either
/// side explain each of them, and noted in `repeated`, which bounds a whole test: `None`, and the test counts as
/// skipped, if others have the cores too often for it. A loss that nothing explains fails the test.
#[track_caller]
pub(crate) fn perfect(
    session: &mut Session,
    plan: &Plan,
    repeated: &mut Vec<String>,
) -> Option<Injected> {
    perfect_if(session, plan, repeated, Backlog::Taken)
}

/// The same of a driver that may not take all that is on its ring.
#[track_caller]
pub(crate) fn perfect_if(
    session: &mut Session,
    plan: &Plan,
    repeated: &mut Vec<String>,
    backlog: Backlog,
) -> Option<Injected> {
    loop {
        let run = attempt(session, plan);
        let explained = match run.explain_loss_if(backlog) {
            Ok(explained) if explained.lost == 0 => return Some(run),
            Ok(explained) => {
                println!("repeated: {explained}");
                explained.to_string()
            }
            Err(why) => {
                let (ledger, result) = (run.ledger.totals(), &run.result);
                panic!("{why}; {ledger:?} {:?} {:?}", result.machine, result.warnings)
            }
        };
        repeated.push(explained.clone());
        if repeated.len() > MOST_REPEATED {
            skipped(&format!("others had the cores too often, the last time: {explained}"));
            return None;
        }
    }
}

/// Carries a plan out that may lose packets; repeated, for some time, while pauses of either side explain that.
pub(crate) fn injected(session: &mut Session, plan: &Plan) -> Injected {
    // A process that takes half of each tenth of a second leaves few runs alone, so some attempts are not enough.
    const PATIENCE: Duration = Duration::from_secs(30);
    let begun = Instant::now();
    loop {
        let run = attempt(session, plan);
        // One with faults is not repeated: the driver is no longer what it was.
        let repeat = run.explain_loss().is_ok_and(|explained| explained.lost > 0);
        if !repeat || !plan.faults.is_empty() || begun.elapsed() > PATIENCE {
            return run;
        }
    }
}
