//! That a driver is in order for a strict card.

use warikomi_driver::Link;

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
