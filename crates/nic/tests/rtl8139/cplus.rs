//! The descriptor rings of the C+ mode.

use etherparse::PacketBuilder;
use warikomi_nic::{Link, RxOutcome, checksums_good, fcs};

use crate::cp::{Cp, OWN, STATS};
use crate::too::{STATION, frame_to};

const WHOLE: u32 = 0x3000_0000;

fn udp(payload: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], STATION).ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64);
    builder.udp(7, 9).write(&mut frame, &vec![0x5a; payload]).unwrap();
    frame
}

fn tcp(payload: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], STATION).ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64);
    builder.tcp(7, 9, 1_000, 4_000).write(&mut frame, &vec![0x5a; payload]).unwrap();
    frame
}

#[test]
fn frames_come_in_order_with_their_marks_round_the_ring() {
    let mut cp = Cp::open();
    for number in 0..200 {
        let frame = frame_to(STATION, 50 + number);
        assert_eq!(cp.receive(&frame), RxOutcome::OnRing);
        let found = cp.rx();
        let [(opts1, 0, bytes)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(opts1 & 0xbfff_e000, WHOLE | 1 << 25, "{opts1:#x}");
        assert_eq!(bytes[..frame.len()], frame);
        assert_eq!(bytes[frame.len()..], fcs(&frame).to_le_bytes());
    }
    assert_eq!(cp.progress().accepted, 200);
    assert!(cp.line.messages() == 0 && !cp.line.level());
}

#[test]
fn a_ring_of_sixty_four_that_is_full_misses_frames() {
    let mut cp = Cp::open();
    for _ in 0..64 {
        assert_eq!(cp.receive(&frame_to([0xff; 6], 50)), RxOutcome::OnRing);
    }
    assert_eq!(cp.receive(&frame_to([0xff; 6], 50)), RxOutcome::NoDescriptor);
    assert_eq!((cp.r16(0x3e) & 0x10, cp.r32(0x4c)), (0x10, 1));
    assert_eq!(cp.rx().len(), 64);
}

#[test]
fn checksums_are_judged_and_tags_taken_out() {
    let mut cp = Cp::open();
    for (mut frame, protocol, fail) in [(udp(60), 2, 1 << 14), (tcp(60), 1, 1 << 13)] {
        cp.receive(&frame);
        assert_eq!(cp.rx()[0].0 >> 13 & 0x1f, protocol << 3);
        *frame.last_mut().unwrap() ^= 1;
        cp.receive(&frame);
        let status = cp.rx()[0].0;
        assert_eq!((status >> 16 & 3, status & 0xe000), (protocol, fail));
    }
    let mut tagged = udp(60);
    tagged.splice(12..12, [0x81, 0, 0x12, 0x34]);
    cp.receive(&tagged);
    let (_, opts2, bytes) = cp.rx().remove(0);
    assert_eq!(opts2, 1 << 16 | 0x3412);
    assert_eq!(bytes[..bytes.len() - 4], udp(60));
}

#[test]
fn pieces_make_one_frame_and_short_ones_are_padded() {
    let mut cp = Cp::open();
    let frame = frame_to([0xff; 6], 700);
    for _ in 0..30 {
        let last = cp.xmit(&[&frame[..14], &frame[14..500], &frame[500..]], [0, 0]);
        assert_eq!(cp.sent(), std::slice::from_ref(&frame));
        assert_eq!(cp.word(last) & (OWN | 0x00ff_0000), 0, "it went well");
    }
    assert_eq!(cp.r16(0x3e) & 0x8c, 0x84, "sent, and none is left");
    cp.xmit(&[&frame[..42]], [0, 0]);
    assert_eq!(cp.sent()[0].len(), 60);
}

#[test]
fn checksums_tags_and_segments_are_made() {
    let mut cp = Cp::open();
    for (mut frame, bit) in [(udp(100), 1 << 17), (tcp(100), 1 << 16)] {
        frame[24..26].fill(0);
        cp.xmit(&[&frame], [1 << 18 | bit, 0]);
        assert!(checksums_good(&cp.sent()[0]));
    }
    cp.xmit(&[&udp(100)], [0, 1 << 17 | 0x3412]);
    assert_eq!(cp.sent()[0][12..16], [0x81, 0, 0x12, 0x34]);
    cp.xmit(&[&tcp(3_000)], [1 << 27 | 1_000 << 16, 0]);
    let sent = cp.sent();
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1_054; 3]);
    assert!(sent.iter().all(|segment| checksums_good(segment)));
}

#[test]
fn a_service_tag_that_the_driver_has_put_in_changes_nothing() {
    // 8139cp of an interface of 802.1ad, whose tag it has no place for in a descriptor.
    let mut cp = Cp::open();
    for (payload, opts1, frames) in [(100, 1 << 18 | 1 << 16, 1), (3_000, 1 << 27 | 1_000 << 16, 3)]
    {
        let mut frame = tcp(payload);
        frame[24..26].fill(0);
        frame[50..52].fill(0);
        frame.splice(12..12, [0x88, 0xa8, 0x00, 0x05]);
        cp.xmit(&[&frame], [opts1, 0]);
        let sent = cp.sent();
        assert_eq!(sent.len(), frames);
        for mut frame in sent {
            assert_eq!(frame.drain(12..16).collect::<Vec<_>>(), [0x88, 0xa8, 0x00, 0x05]);
            assert!(checksums_good(&frame));
        }
    }
}

#[test]
fn without_a_link_the_descriptor_says_so() {
    let mut cp = Cp::open();
    cp.plug(Link::Down);
    let last = cp.xmit(&[&frame_to([0xff; 6], 50)], [0, 0]);
    assert_eq!(cp.word(last) & (OWN | 0x00a0_0000), 0x00a0_0000);
    assert_eq!(cp.r16(0x3e) & 0x0c, 0x08);
}

#[test]
fn the_tally_is_dumped_where_the_driver_wants_it() {
    let mut cp = Cp::open();
    cp.xmit(&[&frame_to([0xff; 6], 50)], [0, 0]);
    cp.receive(&frame_to([0xff; 6], 50));
    cp.receive(&frame_to(STATION, 50));
    cp.w32(0x14, 0);
    cp.w32(0x10, STATS as u32 | 8);
    assert_eq!(cp.r32(0x10) & 8, 0, "it is done");
    let at = |offset| cp.word(STATS + offset);
    assert_eq!((at(0), at(8), at(40), at(48)), (1, 2, 1, 1));
    cp.w32(0x10, STATS as u32 | 1);
    cp.w32(0x10, STATS as u32 | 8);
    assert_eq!(cp.word(STATS), 0);
}

#[test]
fn a_driver_that_stops_and_starts_again_finds_its_rings_at_their_begin() {
    let mut cp = Cp::open();
    cp.receive(&frame_to([0xff; 6], 50));
    assert_eq!(cp.rx().len(), 1);
    cp.receive(&frame_to([0xff; 6], 50));
    cp.stop_hw();
    assert_eq!(cp.receive(&frame_to([0xff; 6], 50)), RxOutcome::NotReceiving);
    assert_eq!(cp.progress().abandoned, 1);
    cp.refill();
    cp.start_hw();
    assert_eq!(cp.receive(&frame_to([0xff; 6], 50)), RxOutcome::OnRing);
    assert_eq!(cp.rx().len(), 1, "in the first descriptor");
}
