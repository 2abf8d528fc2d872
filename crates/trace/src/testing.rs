//! A trace made by hand, for tests.

use std::rc::Rc;

use warikomi_clock::Time;
use warikomi_nic::{MODELS, Nic, NicOptions, build};
use warikomi_pci::Host;
use warikomi_testbench::Bench;

use crate::{Header, Recorded, Tape};

/// What `calls` do to a NIC that no driver has set up, each at its time in picoseconds, as a trace.
pub(crate) fn trace_of<T>(
    calls: impl IntoIterator<Item = (u64, T)>,
    mut call: impl FnMut(T, &mut dyn Nic, &mut Host<'_>),
) -> Vec<u8> {
    let tape = Rc::new(Tape::with_capacity(1 << 16));
    let options = NicOptions::of(MODELS[0].name);
    let card = |wire| Recorded::around(build(&options, wire).unwrap(), Rc::clone(&tape));
    let mut bench = Bench::cabled(card);
    for (ps, what) in calls {
        bench.now = Time::from_ps(ps);
        bench.host(|nic, host| call(what, nic, host));
    }
    let header = Header {
        version: String::new(),
        driver: "r8169".into(),
        model: options.model.clone(),
        kernel: None,
        mac: [0; 6],
        run_id: 0,
        wire: "sink".into(),
        plan: None,
    };
    let mut bytes = Vec::new();
    tape.write_to(&header, &mut bytes).unwrap();
    bytes
}
