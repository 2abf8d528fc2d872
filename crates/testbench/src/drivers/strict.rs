//! That a driver is in order for a strict card.

use warikomi_driver::Link;
use warikomi_nic::strict::{FindingKind, Misuse, Place, Transfer, Witness};

use super::rig::Rig;
use crate::cards::Subject;
use crate::frame::frame;

/// A driver takes no step that it must not take, from its first look at the card to its last.
pub fn a_strict_card_has_nothing_against_it(subject: &Subject) {
    let mut rig = Rig::new(&subject.clone().strict(), 16, 2_048);
    for _ in 0..2 {
        rig.init(16).expect("a driver that opens its card");
        for round in 0..40 {
            rig.with(|driver, hw| driver.arm(hw)).unwrap();
            rig.bench.receive(&frame(60 + round, round));
            rig.bench.receive(&frame(1_500, round));
            rig.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap();
            // One comes while it polls.
            rig.poll(1).unwrap();
            rig.bench.receive(&frame(700, round));
            while rig.poll(4).unwrap() > 0 {}
            let [head, tail] = [&[0x5a; 60][..], &[0xa5; 500]];
            for token in 0..3 {
                assert!(rig.put(&[head, tail], 4 * round as u32 + token).unwrap());
            }
            rig.kick();
            assert_eq!(rig.reclaim().len(), 3);
        }
        rig.with(|driver, hw| driver.transmit_interrupts(hw, true)).unwrap();
        rig.put(&[&[1; 60]], 900).unwrap();
        rig.kick();
        rig.with(|driver, hw| driver.acknowledge(hw, 0)).unwrap();
        rig.with(|driver, hw| driver.transmit_interrupts(hw, false)).unwrap();
        rig.plug(warikomi_nic::Link::Down);
        assert_eq!(rig.with(|driver, hw| driver.link(hw)), Ok(Link::Down));
        rig.plug(warikomi_nic::Link::Up { mbps: subject.card.link_mbps() });
        rig.with(|driver, hw| driver.arm(hw)).unwrap();
        rig.quiesce().0.expect("a driver that stops");
    }
    let found = rig.bench.nic.strict().expect("a strict card").findings();
    assert_eq!(found.list(), []);
}

/// Says that all memory to which the card writes was freed, and that none from which it reads was mapped.
#[derive(Debug)]
struct Accuser;

impl Witness for Accuser {
    fn objection(&mut self, transfer: Transfer) -> Option<Misuse> {
        assert!(transfer.bytes > 0, "{transfer:?}");
        let kind = if transfer.writes { FindingKind::Freed } else { FindingKind::NotMapped };
        Some(Misuse { kind, what: "so it says", source: "the witness" })
    }

    fn stack(&mut self) -> Vec<String> {
        vec!["in_the_driver".into()]
    }
}

/// A witness is asked about each transfer, of a frame that comes and of one that goes.
pub fn what_a_witness_objects_to_is_found_with_its_stack(subject: &Subject) {
    let mut rig = Rig::new(&subject.clone().strict(), 16, 2_048);
    rig.bench.nic.strict().expect("a strict card").call(Box::new(Accuser));
    rig.init(16).expect("a driver that opens its card");
    rig.bench.receive(&frame(700, 1));
    rig.with(|driver, hw| driver.on_interrupt(hw, 0)).unwrap();
    while rig.poll(4).unwrap() > 0 {}
    rig.put(&[&[1; 60]], 1).unwrap();
    rig.kick();
    let found = rig.bench.nic.strict().expect("a strict card").findings();
    let kinds = || found.list().iter().map(|finding| finding.kind);
    assert!(kinds().any(|kind| kind == FindingKind::NotMapped), "{found:?}");
    assert!(kinds().any(|kind| kind == FindingKind::Freed), "{found:?}");
    for finding in found.list() {
        assert_eq!((finding.place, finding.source), (Place::Memory, "the witness"));
        assert!(finding.what.ends_with("so it says"), "{finding:?}");
        assert_eq!(finding.stack, ["in_the_driver"]);
    }
}
