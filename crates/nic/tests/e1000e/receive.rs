use etherparse::PacketBuilder;
use warikomi_nic::{RxError, RxFault, RxOutcome};
use warikomi_pci::Width;

use super::driver::{Lab, Mode, RING, RX_RING, SECOND_RX_RING, STATION, frame_to};

const DD_EOP: u32 = 3;

fn udp(port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .udp(port, 9)
        .write(&mut frame, &[7; 30])
        .unwrap();
    frame
}

fn tcp(port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .tcp(port, 9, 1, 100)
        .write(&mut frame, &[7; 30])
        .unwrap();
    frame
}

#[test]
fn frames_come_in_order_round_the_ring_and_their_account_is_right() {
    let mut lab = Lab::open(Mode::Msix);
    for lap in 0..4_usize {
        let frames: Vec<_> = (0..100).map(|i| frame_to(STATION, lap * 100 + i)).collect();
        for frame in &frames {
            assert_eq!(lab.receive(frame), RxOutcome::OnRing);
        }
        let head = lab.r32(0x2810);
        let taken: Vec<_> = lab.rx().into_iter().map(|frame| frame.bytes).collect();
        assert_eq!(taken, frames, "without check sequence");
        assert_eq!(head, lab.rx_next);
    }
    let counted = lab.progress();
    assert_eq!((counted.on_ring, counted.accepted), (400, 400));
}

#[test]
fn a_ring_that_is_full_misses_frames_and_says_so() {
    let mut lab = Lab::open(Mode::Msix);
    for _ in 0..RING - 1 {
        assert_eq!(lab.receive(&frame_to(STATION, 46)), RxOutcome::OnRing);
    }
    assert_eq!(lab.receive(&frame_to(STATION, 46)), RxOutcome::NoDescriptor);
    assert_eq!(lab.messages(), [0, 2], "a queue's, and the overrun");
    assert_eq!(lab.r32(0xc0) & 0x50, 0x50, "RXO, and RXDMT0 before it");
    assert_eq!((lab.r32(0x4010), lab.r32(0x40a0)), (1, 1), "MPC and RNBC");
    assert_eq!(lab.rx().len() as u32, RING - 1);
    assert_eq!(lab.receive(&frame_to(STATION, 46)), RxOutcome::OnRing);
}

#[test]
fn checksums_are_looked_at() {
    let mut lab = Lab::open(Mode::Msix);
    let mut wrong = udp(1);
    *wrong.last_mut().unwrap() ^= 1;
    for frame in [udp(1), tcp(1), wrong, frame_to(STATION, 46)] {
        lab.receive(&frame);
    }
    let seen: Vec<_> = lab.rx().into_iter().map(|frame| frame.status).collect();
    // UDPCS comes with TCPCS, which is of either transport (i210, table 7-6).
    let (ip, tcp, udp, ignore) = (0x40, 0x20, 0x30, 0x04);
    let expected =
        [DD_EOP | ip | udp, DD_EOP | ip | tcp, DD_EOP | ip | udp | 0x2000_0000, DD_EOP | ignore];
    assert_eq!(seen, expected);
}

#[test]
fn a_check_sequence_is_stripped_or_not() {
    let mut lab = Lab::open(Mode::Msix);
    let frame = frame_to(STATION, 46);
    let rctl = lab.r32(0x100);
    lab.w32(0x100, rctl & !(1 << 26));
    lab.receive(&frame);
    let got = lab.rx();
    assert_eq!(got[0].bytes.len(), 64);
    assert_eq!(got[0].bytes[..60], frame[..]);
}

#[test]
fn a_tag_is_taken_out_and_only_listed_ones_come_in() {
    let mut lab = Lab::open(Mode::Msix);
    let mut tagged = udp(1);
    tagged.splice(12..12, [0x81, 0, 0x20, 0x07]);
    lab.receive(&tagged);
    let got = lab.rx();
    assert_eq!((got[0].status & 8, &got[0].bytes), (0, &tagged), "not without CTRL.VME");
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl | 1 << 30);
    lab.receive(&tagged);
    let got = lab.rx();
    assert_eq!((got[0].status & 0x18, got[0].tag, &got[0].bytes), (0x18, 0x2007, &udp(1)));
    let rctl = lab.r32(0x100);
    lab.w32(0x100, rctl | 1 << 18);
    assert_eq!(lab.receive(&tagged), RxOutcome::Filtered);
    lab.w32(0x5600, 1 << 7);
    assert_eq!(lab.receive(&tagged), RxOutcome::OnRing);
}

#[test]
fn the_filter_lets_in_what_it_is_told() {
    let mut lab = Lab::open(Mode::Msix);
    let (other, group) = (frame_to([2, 0, 0, 0, 0, 7], 46), frame_to([1, 0, 0x5e, 0, 0, 1], 46));
    assert_eq!(lab.receive(&other), RxOutcome::Filtered);
    assert_eq!(lab.receive(&group), RxOutcome::Filtered);
    // e1000e_update_mc_addr_list_generic: this group is bit 0x010 of the table, 12 bits from the last two bytes.
    lab.w32(0x5200, 1 << 0x10);
    assert_eq!(lab.receive(&group), RxOutcome::OnRing);
    let rctl = lab.r32(0x100);
    lab.w32(0x100, rctl | 0x18);
    assert_eq!(lab.receive(&other), RxOutcome::OnRing);
}

#[test]
fn what_is_too_long_or_damaged_is_counted_and_not_received() {
    let mut lab = Lab::open(Mode::Msix);
    assert_eq!(lab.receive(&frame_to(STATION, 1_505)), RxOutcome::Filtered);
    assert_eq!(lab.receive(&frame_to(STATION, 1_504)), RxOutcome::OnRing, "1,522 with all");
    assert_eq!(lab.r32(0x40ac), 1, "ROC");
    assert_eq!(lab.receive(&frame_to(STATION, 46)[..59]), RxOutcome::Filtered);
    assert_eq!(lab.r32(0x40a4), 1, "RUC");
    assert_eq!(lab.receive(&frame_to(STATION, 46)[..13]), RxOutcome::Filtered, "not even a header");
    assert_eq!((lab.r32(0x40a4), lab.r32(0x4040)), (1, 3), "RUC, and RLEC of all three");
    let frame = frame_to(STATION, 46);
    assert_eq!(lab.receive_faulty(&frame, RxFault::Crc), RxOutcome::Filtered);
    assert_eq!(lab.r32(0x4000), 1, "CRCERRS");
    let reported = RxFault::Reported(RxError::Crc);
    assert_eq!(lab.receive_faulty(&frame, reported), RxOutcome::OnRingDamaged);
    lab.rx();
    let rctl = lab.r32(0x100);
    lab.w32(0x100, rctl | 4);
    assert_eq!(lab.receive_faulty(&frame, RxFault::Crc), RxOutcome::OnRing);
    assert_eq!(lab.rx()[0].status & 0x0100_0000, 0x0100_0000, "CE");
}

#[test]
fn a_long_frame_takes_as_many_descriptors_as_it_needs() {
    let mut lab = Lab::open(Mode::Msix);
    let rctl = lab.r32(0x100);
    lab.w32(0x100, rctl | 0x20);
    let frame = frame_to(STATION, 4_986);
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    let got = lab.rx();
    let ends: Vec<_> = got.iter().map(|piece| piece.status & 3).collect();
    assert_eq!(ends, [1, 1, 3]);
    assert_eq!(got.into_iter().flat_map(|piece| piece.bytes).collect::<Vec<_>>(), frame);
}

#[test]
fn flows_are_spread_over_both_queues_by_their_hash() {
    let mut lab = Lab::open(Mode::Msix);
    // The key and the first case of Microsoft's "Verifying the RSS Hash Calculation".
    let key: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    for (at, word) in (0x5c80..).step_by(4).zip(key.as_chunks().0) {
        lab.w32(at, u32::from_le_bytes(*word));
    }
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([66, 9, 149, 187], [161, 142, 100, 80], 64)
        .tcp(2_794, 1_766, 1, 100)
        .write(&mut frame, &[])
        .unwrap();
    frame.resize(60, 0);
    // The hash is 0x51ccc178: entry 0x78 of the table.
    lab.w32(0x5c00 + 0x78, 0x80);
    lab.w32(0x2900, SECOND_RX_RING as u32);
    lab.w32(0x2908, 16 * RING);
    lab.put(SECOND_RX_RING, &[0x70_0000, 0, 0, 0]);
    lab.w32(0x2918, 8);
    assert_eq!(lab.steer(&frame).queue, 0, "RSS is off");
    let got = lab.rx();
    assert_eq!(got[0].words, [0, 0]);
    lab.w32(0x5818, 0x0033_0001);
    assert_eq!(lab.steer(&frame).queue, 1);
    let descriptor = [0, 4, 8].map(|at| lab.word(SECOND_RX_RING + at));
    assert_eq!(descriptor[..2], [0x101, 0x51cc_c178], "TCP over IPv4, queue 1");
    assert_eq!(descriptor[2] & 3, 3);
    assert_eq!(lab.bytes(0x70_0000, 60), frame);
    assert_eq!(lab.steer(&frame_to(STATION, 46)).queue, 0, "no IP, so no hash");
}

#[test]
fn tcp_over_ipv6_is_hashed_by_either_bit() {
    let mut lab = Lab::open(Mode::Msix);
    (0..10).for_each(|word| lab.w32(0x5c80 + 4 * word, 0x9e37_79b9_u32.rotate_left(word as u32)));
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], STATION)
        .ipv6([0xfd; 16], [0xfe; 16], 64)
        .tcp(2_794, 1_766, 1, 100)
        .write(&mut frame, &[])
        .unwrap();
    // E1000_MRQC_RSS_FIELD_IPV6_TCP_EX, which is the chip's, E1000_MRQC_RSS_FIELD_IPV6_TCP, and what e1000e sets.
    let hashes = [0x0004_0001, 0x0020_0001, 0x0037_0001].map(|mrqc| {
        lab.w32(0x5818, mrqc);
        lab.receive(&frame);
        lab.rx()[0].words
    });
    assert_eq!(hashes[0][0], 3, "TCP over IPv6");
    assert_ne!(hashes[0][1], 0);
    assert_eq!(hashes, [hashes[0]; 3]);
    lab.w32(0x5818, 0x0010_0001);
    lab.receive(&frame);
    assert_eq!(lab.rx()[0].words[0], 5, "IPv6");
}

#[test]
fn legacy_descriptors_have_their_own_places() {
    let mut lab = Lab::open(Mode::Msix);
    lab.w32(0x5008, 0);
    lab.w32(0x5000, 0x300);
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl | 1 << 30);
    let mut tagged = udp(1);
    tagged.splice(12..12, [0x81, 0, 0x20, 0x07]);
    assert_eq!(lab.receive(&tagged), RxOutcome::OnRing);
    let [length, last] = [8, 12].map(|at| lab.word(RX_RING + at));
    assert_eq!(length & 0xffff, 72);
    assert_ne!(length >> 16, 0, "the packet's checksum");
    assert_eq!(last, 0x2007_007b, "tag, no errors, DD, EOP, VP, UDPCS, TCPCS, IPCS");
    assert_eq!(lab.read(0x2810, Width::B4), 1);
}
