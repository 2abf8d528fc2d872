//! The four slots.

use warikomi_nic::{Link, Nic};

use crate::too::{Too, frame_to};

const OWN: u32 = 0x2000;
const OK: u32 = 0x8000;

#[test]
fn frames_go_out_slot_by_slot_as_they_are() {
    let mut too = Too::open();
    for number in 0..9 {
        let frame = frame_to([0xff; 6], 50 + 100 * number);
        let slot = too.xmit(&frame);
        assert_eq!(slot, number as u64 % 4);
        assert_eq!(too.sent(), std::slice::from_ref(&frame));
        let status = too.r32(0x10 + 4 * slot);
        assert_eq!(status & (OWN | OK | 0x4000_0000), OWN | OK);
        assert_eq!(status & 0x1fff, frame.len() as u32);
    }
    assert_eq!(too.r16(0x3e) & 0x0c, 0x04);
    assert_eq!(too.r16(0x60), 0xf00f, "all are the driver's, and went well");
    assert_eq!(too.nic.counters().doorbells, 9);
}

#[test]
fn slots_are_used_in_turn() {
    let mut too = Too::open();
    let at = too.r32(0x24);
    too.put_bytes(at.into(), &frame_to([0xff; 6], 50));
    too.w32(0x14, 64);
    assert!(too.sent().is_empty(), "the first is still the driver's");
    too.w32(0x10, 60);
    assert_eq!(too.sent().len(), 2);
}

#[test]
fn what_was_given_before_goes_out_when_the_transmitter_is_switched_on() {
    let mut too = Too::open();
    too.w8(0x37, 0x08);
    too.xmit(&frame_to([0xff; 6], 50));
    assert!(too.sent().is_empty());
    too.w8(0x37, 0x0c);
    assert_eq!(too.sent().len(), 1);
}

#[test]
fn what_cannot_be_sent_is_given_back_as_aborted() {
    let mut too = Too::open();
    too.w32(0x10, 1_793);
    assert_eq!(too.r32(0x10) & (OWN | OK | 0x4000_0000), OWN | 0x4000_0000);
    assert_eq!(too.r16(0x3e) & 0x0c, 0x08);
    too.plug(Link::Down);
    too.w32(0x14, 60);
    assert_eq!(too.r32(0x14) & (OWN | OK | 0xc000_0000), OWN | 0xc000_0000);
    assert!(too.sent().is_empty());
    assert_eq!(too.r16(0x60) >> 4 & 0xf, 0x3, "of the first two");
}

#[test]
fn a_failed_transfer_is_a_system_error_until_a_reset() {
    let mut too = Too::open();
    too.w32(0x20, 0xf000_0000);
    too.w32(0x10, 60);
    assert_eq!(too.r16(0x3e) & 0x8000, 0x8000);
    assert_eq!(too.r32(0x10) & OWN, 0, "it is still the chip's");
    too.hw_start();
    too.xmit(&frame_to([0xff; 6], 50));
    assert_eq!(too.sent().len(), 1);
}
