use etherparse::{IpNumber, PacketBuilder};
use warikomi_nic::{RxError, RxFault, RxOutcome};

use super::driver::{Lab, Mode, RING, STATION, frame_to, tcp, udp};

const DD_EOP: u32 = 3;

#[test]
fn frames_come_in_order_round_the_ring_and_their_account_is_right() {
    let mut lab = Lab::open(Mode::Msix);
    for lap in 0..4_usize {
        let frames: Vec<_> = (0..100).map(|i| frame_to(STATION, lap * 100 + i)).collect();
        for frame in &frames {
            assert_eq!(lab.receive(frame), RxOutcome::OnRing);
        }
        let taken: Vec<_> = lab.rx(0).into_iter().map(|frame| frame.bytes).collect();
        assert_eq!(taken, frames, "without check sequence");
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
    assert_eq!((lab.r32(0x4010), lab.r32(0x40a0)), (1, 1), "MPC and RNBC");
    assert_eq!(lab.rx(0).len() as u32, RING - 1);
    assert_eq!(lab.receive(&frame_to(STATION, 46)), RxOutcome::OnRing);
}

#[test]
fn a_driver_may_be_told_that_descriptors_run_out() {
    let mut lab = Lab::open(Mode::Msix);
    lab.w32(0xd0, 0x10);
    // SRRCTL: when 32 are left.
    lab.w32(0x280c, 0x0220_0402);
    for _ in 0..RING - 1 - 32 - 1 {
        lab.receive(&frame_to(STATION, 46));
    }
    assert_eq!(lab.messages(), [1]);
    lab.receive(&frame_to(STATION, 46));
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0xc0) & 0x10, 0x10, "RXDMT0");
}

#[test]
fn checksums_are_looked_at_and_kinds_of_packets_told() {
    let mut lab = Lab::open(Mode::Msix);
    let mut wrong = udp(1);
    *wrong.last_mut().unwrap() ^= 1;
    for frame in [udp(1), tcp(1, &[7; 30]), wrong, frame_to(STATION, 46)] {
        lab.receive(&frame);
    }
    let taken = lab.rx(0);
    let seen: Vec<_> = taken.iter().map(|frame| frame.status).collect();
    // UDPCS comes with L4I, which is of every transport (i210, table 7-6).
    let (ip, tcp, udp, ignore) = (0x40, 0x20, 0x30, 0x04);
    let expected =
        [DD_EOP | ip | udp, DD_EOP | ip | tcp, DD_EOP | ip | udp | 0x2000_0000, DD_EOP | ignore];
    assert_eq!(seen, expected);
    let kinds: Vec<_> = taken.iter().map(|frame| frame.words[0]).collect();
    assert_eq!(kinds, [0x217, 0x111, 0x217, 0]);
}

/// A packet of SCTP to the station: the checksum of its header is that of RFC 3309's algorithm, computed bit by bit.
fn sctp(v6: bool) -> Vec<u8> {
    let mut packet = vec![0x30, 0x39, 0x13, 0x89, 1, 2, 3, 4, 0, 0, 0, 0];
    packet.extend([0, 3, 0, 21, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
    let mut crc = u32::MAX;
    for bit in packet.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1))) {
        crc = crc >> 1 ^ if (crc ^ bit) & 1 != 0 { 0x82f6_3b78 } else { 0 };
    }
    packet[8..12].copy_from_slice(&(!crc).to_le_bytes());
    let mut frame = Vec::new();
    let ethernet = PacketBuilder::ethernet2([2; 6], STATION);
    let ip = if v6 {
        ethernet.ipv6([0xfd; 16], [0xfe; 16], 64)
    } else {
        ethernet.ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
    };
    ip.write(&mut frame, IpNumber(132), &packet).unwrap();
    frame
}

#[test]
fn the_checksum_of_sctp_is_looked_at_if_the_driver_wants_that() {
    // igb_setup_mrqc sets E1000_RXCSUM_CRCOFL.
    let mut lab = Lab::open(Mode::Msix);
    for (v6, ip, kind) in [(false, 0x40, 0x410), (true, 0, 0x440)] {
        let mut frame = sctp(v6);
        for wrong in [0, 0x2000_0000] {
            assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
            let got = &lab.rx(0)[0];
            assert_eq!((got.status, got.words[0] & 0xfff0), (DD_EOP | ip | 0x20 | wrong, kind));
            *frame.last_mut().unwrap() ^= 1;
        }
    }
    let rxcsum = lab.r32(0x5000);
    assert_eq!(rxcsum & 0x800, 0x800);
    lab.w32(0x5000, rxcsum & !0x800);
    lab.receive(&sctp(true));
    let got = &lab.rx(0)[0];
    assert_eq!((got.status, got.words[0] & 0xfff0), (DD_EOP | 0x04, 0x440), "not looked at");
}

#[test]
fn a_frame_that_is_longer_than_a_buffer_goes_into_several() {
    let mut lab = Lab::open(Mode::Msix);
    for payload in [2_034, 2_035, 9_000] {
        let frame = frame_to(STATION, payload);
        assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
        let taken = lab.rx(0);
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].bytes, frame);
        assert_eq!(taken[0].status & DD_EOP, DD_EOP);
    }
    // RLPML: what the driver wants at most, with check sequence.
    lab.w32(0x5004, 1_522);
    assert_eq!(lab.receive(&frame_to(STATION, 1_504)), RxOutcome::OnRing);
    assert_eq!(lab.receive(&frame_to(STATION, 1_505)), RxOutcome::Filtered);
    assert_eq!(lab.receive(&frame_to(STATION, 46)[..59]), RxOutcome::Filtered);
    assert_eq!([0x40ac, 0x40a4, 0x4040].map(|at| lab.r32(at)), [1, 1, 2], "ROC, RUC, RLEC");
}

#[test]
fn what_a_queue_drops_the_mac_has_received() {
    // i210, figure 7-24: RQDPC is behind GPRC, and RPTHC behind RQDPC; 8.18.66: HGORC includes what is dropped.
    let mut lab = Lab::open_queues(Mode::Msix, 2);
    for _ in 0..RING + 1 {
        lab.receive(&frame_to([0xff; 6], 46));
    }
    let counted = [0xc030, 0x4010, 0x4074, 0x4078, 0x405c, 0x4104].map(|at| lab.r32(at));
    let all = RING + 1;
    assert_eq!(counted, [2, 0, all, all, all, all - 2], "RQDPC, MPC, GPRC, BPRC, PRC64, RPTHC");
    assert_eq!([0x4088, 0x4128].map(|at| lab.r32(at)), [64 * all; 2], "GORC and HGORC");
}

#[test]
fn a_tag_is_taken_out_and_only_listed_ones_come_in() {
    let mut lab = Lab::open(Mode::Msix);
    let mut tagged = udp(1);
    tagged.splice(12..12, [0x81, 0, 0x20, 0x07]);
    lab.receive(&tagged);
    let got = lab.rx(0);
    assert_eq!((got[0].status & 8, &got[0].bytes), (0, &tagged), "not without CTRL.VME");
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl | 1 << 30);
    lab.receive(&tagged);
    let got = lab.rx(0);
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
    // The last of 24 addresses (igb_rar_set_index).
    lab.w32(0x54e0 + 8 * 7, 0x0000_0002);
    lab.w32(0x54e4 + 8 * 7, 0x8000_0700);
    assert_eq!(lab.receive(&other), RxOutcome::OnRing);
    lab.w32(0x5200, 1 << 0x10);
    assert_eq!(lab.receive(&group), RxOutcome::OnRing);
    let rctl = lab.r32(0x100);
    lab.w32(0x100, rctl | 0x18);
    assert_eq!(lab.receive(&frame_to([4; 6], 46)), RxOutcome::OnRing);
}

#[test]
fn descriptors_of_the_old_kind_have_it_too() {
    let mut lab = Lab::open(Mode::Msix);
    lab.w32(0x280c, 0);
    lab.w32(0x5000, 0);
    let frame = frame_to(STATION, 200);
    lab.receive(&frame);
    let at = lab.rx_descriptor(0, 0);
    assert_eq!(lab.word(at + 8) & 0xffff, frame.len() as u32);
    assert_eq!(lab.word(at + 12) & 0xff, 7, "DD, EOP, IXSM");
    assert_eq!(lab.progress().accepted, 0);
    lab.put(at + 12, &[0]);
    assert_eq!(lab.progress().accepted, 1);
}

#[test]
fn damaged_frames_are_counted_and_come_in_if_they_are_wanted() {
    let mut lab = Lab::open(Mode::Msix);
    let frame = frame_to(STATION, 46);
    assert_eq!(lab.receive_faulty(&frame, RxFault::Crc), RxOutcome::Filtered);
    assert_eq!(lab.r32(0x4000), 1, "CRCERRS");
    let reported = RxFault::Reported(RxError::TooLong);
    assert_eq!(lab.receive_faulty(&frame, reported), RxOutcome::OnRingDamaged);
    assert_eq!(lab.rx(0)[0].status >> 31, 1, "RXE");
    let rctl = lab.r32(0x100);
    lab.w32(0x100, rctl | 4);
    assert_eq!(lab.receive_faulty(&frame, RxFault::Crc), RxOutcome::OnRing);
    assert_eq!(lab.rx(0)[0].status & 0x0100_0000, 0x0100_0000, "CE");
}

#[test]
fn a_failed_transfer_halts_reception_until_a_reset() {
    let mut lab = Lab::open(Mode::Msix);
    let at = lab.rx_descriptor(0, 0);
    lab.put(at, &[0, 0xff]);
    assert_eq!(lab.receive(&frame_to(STATION, 46)), RxOutcome::DmaError);
    assert_eq!(lab.receive(&frame_to(STATION, 46)), RxOutcome::DmaError);
    lab.reset_hw();
    assert_eq!(lab.receive(&frame_to(STATION, 46)), RxOutcome::NotReceiving);
}
