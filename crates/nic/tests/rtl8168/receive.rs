use proptest::prelude::*;
use warikomi_nic::{Frame, Link, Nic, RxFault, RxOutcome, fcs};
use warikomi_pci::Width;
use warikomi_testbench::cards::step::{self, Step, TxRequest};
use warikomi_testbench::history::live_through;
use warikomi_testbench::{RTL8168, Subject};

use super::driver::{EOR, FS, LS, Lab, OWN, RX_BUFFERS, RX_RING, STATION, STRIDE, frame_to};

const GROUP: [u8; 6] = [0x01, 0, 0x5e, 0, 0, 1];

#[test]
fn a_frame_arrives_as_r8169_expects_it() {
    let mut lab = Lab::open();
    assert!(lab.nic.receiving());
    let frame = frame_to(STATION, 1_000);
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    assert_eq!(lab.raised(), 1);
    assert_eq!(lab.r16(0x3e), 0x0001);
    let got = lab.rx();
    let (opts1, opts2, bytes) = &got[0];
    assert_eq!(opts1 & 0x3fff, frame.len() as u32 + 4);
    assert_eq!(opts1 >> 14, (FS | LS | 1 << 26) >> 14, "own address, no error, not IP");
    assert_eq!(bytes[..frame.len()], frame);
    assert_eq!(bytes[frame.len()..], fcs(&frame).to_le_bytes());
    assert_eq!((*opts2, got.len()), (0, 1));
}

#[test]
fn the_ring_wraps_where_its_end_is_marked() {
    let mut lab = Lab::open();
    for i in 0..1_000_u16 {
        let mut frame = frame_to(STATION, 100);
        frame[14..16].copy_from_slice(&i.to_be_bytes());
        assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
        if i % 7 == 0 {
            lab.rx();
        }
    }
    let first = lab.word(RX_RING + 16 * 255);
    assert_eq!(first & EOR, EOR, "the mark stays");
}

#[test]
fn frames_beyond_the_last_free_descriptor_are_missed_and_counted() {
    let mut lab = Lab::open();
    let frame = frame_to(STATION, 100);
    for _ in 0..256 {
        assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    }
    for _ in 0..3 {
        assert_eq!(lab.receive(&frame), RxOutcome::NoDescriptor);
    }
    assert_eq!(lab.r16(0x3e), 0x0011, "RxOK and RxOverflow");
    assert_eq!(lab.r32(0x4c), 3);
    lab.w32(0x4c, 0xdead);
    assert_eq!(lab.r32(0x4c), 0, "any write clears it");
    assert_eq!(lab.rx().len(), 256);
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing, "and it goes on");
}

#[test]
fn a_frame_larger_than_a_buffer_spans_descriptors() {
    let mut lab = Lab::open();
    for i in 0..256 {
        let end = if i == 255 { EOR } else { 0 };
        // The second of every three has no room at all.
        let size = if i % 3 == 1 { 0 } else { 256 };
        lab.put(RX_RING + 16 * i, &[OWN | end | size]);
    }
    let frame = frame_to(STATION, 600);
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    let opts: Vec<u32> = (0..5).map(|i| lab.word(RX_RING + 16 * i)).collect();
    let marks: Vec<u32> = opts.iter().map(|word| word & (OWN | FS | LS)).collect();
    assert_eq!(marks, [FS, 0, 0, LS, OWN], "first, empty, middle, last, untouched");
    assert_eq!(opts[3] & 0x3fff, frame.len() as u32 + 4);
    let mut whole = Vec::new();
    for (index, bytes) in [(0, 256), (2, 256), (3, frame.len() + 4 - 512)] {
        whole.extend(lab.bytes(RX_BUFFERS + STRIDE * index, bytes));
    }
    assert_eq!(whole[..frame.len()], frame);
}

#[test]
fn a_ring_without_any_room_misses_frames_and_does_not_hang() {
    let mut lab = Lab::open();
    for i in 0..1_024 {
        lab.put(RX_RING + 16 * i, &[OWN]);
    }
    assert_eq!(lab.receive(&frame_to(STATION, 100)), RxOutcome::NoDescriptor);
    let frame = frame_to(STATION, 100);
    lab.put(RX_RING + 16 * 3, &[OWN | 200]);
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing, "one buffer far behind is enough");
}

#[test]
fn vlan_tags_are_stripped_when_asked_for() {
    let mut lab = Lab::open();
    let mut tagged = frame_to(STATION, 200);
    let plain = tagged.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
    assert_eq!(lab.receive(&tagged), RxOutcome::OnRing);
    let (opts1, opts2, bytes) = lab.rx().remove(0);
    assert_eq!(
        opts2,
        0x1_0000 | u32::from(0x6005_u16.swap_bytes()),
        "as rtl8169_rx_vlan_tag reads"
    );
    assert_eq!((opts1 & 0x3fff, &bytes[..plain.len()]), (plain.len() as u32 + 4, &plain[..]));
    lab.w16(0xe0, 0x2020);
    assert_eq!(lab.receive(&tagged), RxOutcome::OnRing);
    let (_, opts2, bytes) = lab.rx().remove(0);
    assert_eq!((opts2, &bytes[..tagged.len()]), (0, &tagged[..]));
}

#[test]
fn checksums_are_judged_when_asked_for() {
    let mut lab = Lab::open();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64)
        .tcp(1, 2, 3, 4);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[5; 500]).unwrap();
    lab.receive(&frame);
    frame[200] ^= 1;
    lab.receive(&frame);
    lab.w16(0xe0, 0x2040);
    lab.receive(&frame);
    let verdicts: Vec<u32> = lab.rx().iter().map(|(opts1, ..)| opts1 & 0x7_c000).collect();
    assert_eq!(verdicts, [1 << 17, 1 << 17 | 1 << 14, 0], "right, wrong, not asked");
}

#[test]
fn the_filter_follows_its_registers() {
    let mut lab = Lab::open();
    let outcome = |lab: &mut Lab, to| lab.receive(&frame_to(to, 100));
    assert_eq!(outcome(&mut lab, [2; 6]), RxOutcome::Filtered);
    assert_eq!(outcome(&mut lab, GROUP), RxOutcome::OnRing);
    lab.w32(0x0c, 0);
    lab.w32(0x08, 0);
    assert_eq!(outcome(&mut lab, GROUP), RxOutcome::Filtered);
    lab.w32(0x44, 0xc70f);
    assert_eq!(outcome(&mut lab, [2; 6]), RxOutcome::OnRing, "promiscuous");
    lab.w32(0x44, 0xc702);
    assert_eq!(outcome(&mut lab, [0xff; 6]), RxOutcome::Filtered);
    // rtl_rar_set.
    lab.w8(0x50, 0xc0);
    lab.w32(0x04, 0x0202);
    lab.w32(0x00, 0x0202_0202);
    lab.w8(0x50, 0x00);
    assert_eq!(outcome(&mut lab, [2; 6]), RxOutcome::OnRing, "the new address");
    assert_eq!(lab.nic.mac_address(), [2; 6]);
    lab.w32(0x00, 0);
    assert_eq!(lab.nic.mac_address(), [2; 6], "locked");
    lab.w8(0x50, 0x40);
    assert_eq!((lab.nic.mac_address(), lab.r8(0x50)), (STATION, 0), "loaded from the EEPROM again");
}

#[test]
fn sizes_are_limited_as_told() {
    let mut lab = Lab::open();
    assert_eq!(lab.receive(&frame_to(STATION, 16_379 - 14)), RxOutcome::OnRing, "the longest");
    assert_eq!(lab.rx()[0].0 & 0x3fff, 16_383);
    assert_eq!(lab.receive(&frame_to(STATION, 16_380 - 14)), RxOutcome::Filtered);
    lab.w16(0xda, 1_518);
    assert_eq!(lab.receive(&frame_to(STATION, 1_500)), RxOutcome::OnRing);
    assert_eq!(lab.receive(&frame_to(STATION, 1_501)), RxOutcome::Filtered);
    lab.w32(0x44, 0xc72e);
    assert_eq!(lab.receive(&frame_to(STATION, 1_501)), RxOutcome::OnRing, "errors are accepted");
    lab.rx();
    assert_eq!(lab.receive(&frame_to(STATION, 9_000)), RxOutcome::OnRing);
    assert_eq!(lab.rx()[0].0 & 0x0060_0000, 0x0060_0000, "RxRWT and RxRES");
}

#[test]
fn damaged_and_short_frames_come_in_only_if_wanted() {
    let mut lab = Lab::open();
    let frame = frame_to(STATION, 100);
    let faulty = |lab: &mut Lab, bytes: &[u8], fault| {
        lab.host(|nic, host| nic.receive_faulty(host, Frame { bytes, fcs: 1 }, fault))
    };
    assert_eq!(faulty(&mut lab, &frame, RxFault::Crc), RxOutcome::Filtered);
    assert_eq!(faulty(&mut lab, &frame, RxFault::Alignment), RxOutcome::Filtered);
    assert_eq!(lab.receive(&frame[..40]), RxOutcome::Filtered);
    assert_eq!(lab.receive(&frame[..3]), RxOutcome::Filtered);
    assert_eq!(lab.r16(0x3e), 0);
    lab.w32(0x44, 0xc73e);
    assert_eq!(faulty(&mut lab, &frame, RxFault::Crc), RxOutcome::OnRing);
    assert_eq!(lab.receive(&frame[..40]), RxOutcome::OnRing);
    let bits: Vec<u32> = lab.rx().iter().map(|(opts1, ..)| opts1 & 0x0078_0000).collect();
    assert_eq!(bits, [0x0028_0000, 0x0030_0000], "RxRES with RxCRC, with RxRUNT");
    assert_eq!(lab.r16(0x3e), 0x0002, "RxErr");
}

#[test]
fn nothing_is_received_before_the_receiver_is_on_or_without_a_link() {
    let mut lab = Lab::new();
    let frame = frame_to(STATION, 100);
    assert!(!lab.nic.receiving());
    assert_eq!(lab.receive(&frame), RxOutcome::NotReceiving);
    let mut lab = Lab::open();
    lab.plug(Link::Down);
    assert!(!lab.nic.receiving());
    assert_eq!(lab.receive(&frame), RxOutcome::NotReceiving);
    let mut lab = Lab::open();
    lab.w8(0x37, 0x04);
    assert_eq!(lab.receive(&frame), RxOutcome::NotReceiving);
}

#[test]
fn a_dma_error_stops_reception_until_reset() {
    let mut lab = Lab::open();
    let frame = frame_to(STATION, 100);
    lab.put(RX_RING + 8, &[0xffff_0000, 0xffff_ffff]);
    assert_eq!(lab.receive(&frame), RxOutcome::DmaError);
    assert_eq!(lab.r16(0x3e), 0x8000);
    assert_eq!(lab.word(RX_RING) & OWN, OWN, "the descriptor is not given back");
    lab.put(RX_RING + 8, &[RX_BUFFERS as u32, 0]);
    assert_eq!(lab.receive(&frame), RxOutcome::DmaError, "halted");
    assert_eq!(lab.nic.counters().dma_errors, 1, "and not trying any more");
    let status = |lab: &mut Lab| {
        lab.host(|nic, _| warikomi_pci::PciFunction::config_read(nic, 6, Width::B2))
    };
    assert_eq!(status(&mut lab) & 0x2000, 0x2000, "received master abort");
    lab.reset_work();
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
}

/// What is cleared is what there was when it was written, whether it had been read or not.
#[test]
fn a_master_abort_that_was_not_read_can_be_cleared() {
    let mut lab = Lab::open();
    lab.put(RX_RING + 8, &[0xffff_0000, 0xffff_ffff]);
    assert_eq!(lab.receive(&frame_to(STATION, 100)), RxOutcome::DmaError);
    lab.config(0x06, Width::B2, 0x2000);
    let status = lab.host(|nic, _| warikomi_pci::PciFunction::config_read(nic, 6, Width::B2));
    assert_eq!(status & 0x2000, 0);
}

#[test]
fn without_bus_mastering_nothing_moves() {
    let mut lab = Lab::open();
    lab.config(0x04, Width::B2, 0x0402);
    assert_eq!(lab.receive(&frame_to(STATION, 100)), RxOutcome::DmaError);
    assert_eq!(lab.word(RX_RING) & OWN, OWN);
}

proptest! {
    #[test]
    fn frames_arrive_unchanged_and_in_order(
        frames in prop::collection::vec((60usize..3_000, any::<u8>()), 1..100),
        lengths in 2u16..50, size in 64u32..2_000,
    ) {
        let mut lab = Lab::new();
        lab.rx_len = lengths;
        lab.init_rings();
        lab.reset_work();
        for i in 0..lengths {
            let at = RX_RING + 16 * u64::from(i);
            lab.put(at, &[lab.word(at) & !0x3fff | size]);
        }
        for (bytes, fill) in frames {
            let mut frame = frame_to(STATION, bytes - 14);
            frame[20..].fill(fill);
            let needed = (frame.len() + 4).div_ceil(size as usize);
            let outcome = lab.receive(&frame);
            if needed > usize::from(lengths) {
                prop_assert_eq!(outcome, RxOutcome::NoDescriptor);
                continue;
            }
            prop_assert_eq!(outcome, RxOutcome::OnRing);
            let mut whole = Vec::new();
            for piece in 0..needed {
                let at = RX_RING + 16 * u64::from(lab.cur_rx);
                let opts1 = lab.word(at);
                prop_assert_eq!(opts1 & FS != 0, piece == 0);
                prop_assert_eq!(opts1 & LS != 0, piece + 1 == needed);
                let rest = frame.len() + 4 - whole.len();
                let buffer = RX_BUFFERS + STRIDE * u64::from(lab.cur_rx);
                whole.extend(lab.bytes(buffer, rest.min(size as usize)));
                lab.put(at, &[OWN | opts1 & EOR | size]);
                lab.cur_rx = (lab.cur_rx + 1) % lengths;
            }
            prop_assert_eq!(&whole[..frame.len()], &frame[..]);
            prop_assert_eq!(&whole[frame.len()..], fcs(&frame).to_le_bytes());
        }
    }
}

/// Frames come back from the wire to a ring of empty buffers: to find that none has room, a card looks at all of it.
#[test]
fn a_full_ring_is_looked_at_once_a_poll() {
    let empty =
        Step::Ring { address: step::RX_RING, words: [1 << 31, 0, 0, 0], length: 1_024, end: false };
    let frame = Step::Transmit(TxRequest { opts: [0, 0], pieces: 1, bytes: 60 });
    let negotiated = Step::Wait { us: 100_000 };
    let mut steps = vec![Step::Open { length: 256, size: 2_048 }, negotiated, empty];
    steps.extend(vec![frame; 200]);
    steps.extend(vec![Step::Next; 40]);
    live_through(&Subject::of(RTL8168), &steps).unwrap();
}
