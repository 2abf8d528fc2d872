//! A trace made by hand, for tests.

use std::rc::Rc;

use warikomi_clock::Time;
use warikomi_inject::trace::{Header, Recorded, Tape};
use warikomi_nic::wire::CountedSink;
use warikomi_nic::{MODELS, Nic, NicOptions, build};
use warikomi_pci::{Host, IntrLine, SharedMemory};

struct Nowhere;

impl IntrLine for Nowhere {
    fn signal(&mut self, _: warikomi_pci::Interrupt) {}
}

/// What `calls` do to a NIC that no driver has set up, each at its time in picoseconds, as a trace.
pub(crate) fn trace_of<T>(
    calls: impl IntoIterator<Item = (u64, T)>,
    mut call: impl FnMut(T, &mut dyn Nic, &mut Host<'_>),
) -> Vec<u8> {
    let tape = Rc::new(Tape::with_capacity(1 << 16));
    let model = MODELS[0].name;
    let nic = build(&NicOptions::of(model), Box::new(CountedSink::new())).unwrap();
    let mut nic = Recorded::around(nic, Rc::clone(&tape));
    let memory = SharedMemory::anonymous(0, 0x1000).unwrap();
    for (ps, what) in calls {
        let now = Time::from_ps(ps);
        call(what, &mut *nic, &mut Host { now, memory: &memory, interrupts: &mut Nowhere });
    }
    let header = Header {
        version: String::new(),
        driver: "r8169".into(),
        model: model.into(),
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
