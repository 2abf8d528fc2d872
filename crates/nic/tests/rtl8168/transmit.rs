use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use warikomi_clock::Span;
use warikomi_nic::{Link, Nic};
use warikomi_pci::Width;

use super::driver::{EOR, FS, HIGH_RING, LS, Lab, OWN, TX_BUFFERS, TX_RING, frame_to};

/// A TCP frame from 10.9.0.1 to 10.9.0.2 with the checksum fields zeroed.
fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .tcp(1, 5_001, 1_000, 4_096)
        .write(&mut frame, payload)
        .unwrap();
    frame[24..26].fill(0);
    frame[50..52].fill(0);
    frame
}

fn assert_checksums(frame: &[u8]) -> Vec<u8> {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(etherparse::NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("no TCP") };
    let right = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
    assert_eq!(tcp.checksum(), right);
    tcp.payload().to_vec()
}

#[test]
fn a_scattered_frame_goes_out_whole_and_its_descriptors_come_back() {
    let mut lab = Lab::open();
    let frame = frame_to([0xff; 6], 100);
    lab.xmit(&[&frame[..30], &frame[30..31], &frame[31..]], [0, 0]);
    assert_eq!(lab.sent(), [frame]);
    for i in 0..3 {
        assert_eq!(lab.word(TX_RING + 16 * i) & OWN, 0);
    }
    assert_eq!(lab.r16(0x3e), 0x84, "TxOK and TxDescUnavail");
    assert_eq!((lab.raised(), lab.r8(0x38)), (1, 0));
    let counted = lab.nic.counters();
    assert_eq!((counted.doorbells, counted.tx_descriptors), (1, 3));
}

#[test]
fn the_ring_wraps_and_one_doorbell_is_enough_for_many() {
    let mut lab = Lab::open();
    let frames: Vec<_> = (0..1_000_usize).map(|i| frame_to([i as u8; 6], 46 + i)).collect();
    for burst in frames.chunks(200) {
        for frame in burst {
            lab.queue(&[frame], [0, 0]);
        }
        lab.w8(0x38, 0x40);
    }
    assert_eq!(lab.sent(), frames);
    let counted = lab.nic.counters();
    assert_eq!((counted.doorbells, counted.tx_descriptors), (5, 1_000));
}

#[test]
fn short_frames_are_padded() {
    let mut lab = Lab::open();
    lab.xmit(&[&[7; 20]], [0, 0]);
    let mut expected = vec![7; 20];
    expected.resize(60, 0);
    assert_eq!(lab.sent(), [expected]);
}

#[test]
fn a_chain_that_is_not_complete_waits() {
    let mut lab = Lab::open();
    let frame = frame_to([0xff; 6], 100);
    lab.queue(&[&frame[..50], &frame[50..]], [0, 0]);
    let second = lab.word(TX_RING + 16);
    lab.put(TX_RING + 16, &[second & !OWN]);
    lab.w8(0x38, 0x40);
    assert!(lab.sent().is_empty());
    assert_eq!(lab.word(TX_RING) & OWN, OWN, "the first is not given back");
    lab.put(TX_RING + 16, &[second]);
    lab.w8(0x38, 0x40);
    assert_eq!(lab.sent(), [frame]);
}

#[test]
fn the_high_priority_ring_is_a_ring_of_its_own() {
    let mut lab = Lab::open();
    let frame = frame_to([0xff; 6], 100);
    lab.put_bytes(TX_BUFFERS, &frame);
    lab.put(HIGH_RING, &[OWN | EOR | FS | LS | frame.len() as u32, 0, TX_BUFFERS as u32, 0]);
    lab.w32(0x28, HIGH_RING as u32);
    lab.w8(0x38, 0x40);
    assert!(lab.sent().is_empty());
    lab.w8(0x38, 0x80);
    assert_eq!(lab.sent(), [frame]);
}

#[test]
fn tags_are_inserted() {
    let mut lab = Lab::open();
    let frame = frame_to([0xff; 6], 100);
    lab.xmit(&[&frame], [0, 1 << 17 | u32::from(0x6005_u16.swap_bytes())]);
    let mut tagged = frame;
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
    assert_eq!(lab.sent(), [tagged]);
}

#[test]
fn checksums_are_filled_in() {
    let mut lab = Lab::open();
    let frame = tcp(&[9; 333]);
    lab.xmit(&[&frame[..54], &frame[54..]], [0, 1 << 29 | 1 << 30 | 34 << 18]);
    let sent = lab.sent();
    assert_eq!(assert_checksums(&sent[0]), [9; 333]);
}

/// A frame without its tag, which is that of a service.
fn behind_service_tag(mut frame: Vec<u8>) -> Vec<u8> {
    assert_eq!(frame.drain(12..16).collect::<Vec<_>>(), [0x88, 0xa8, 0x00, 0x05]);
    frame
}

#[test]
fn a_service_tag_that_the_driver_has_put_in_changes_nothing() {
    // r8169 of an interface of 802.1ad, whose tag it has no place for in a descriptor.
    let mut lab = Lab::open();
    for (payload, opts, frames) in
        [(333, [0, 1 << 29 | 1 << 30 | 38 << 18], 1), (3_000, [1 << 26 | 38 << 18, 1_448 << 18], 3)]
    {
        let mut frame = tcp(&vec![9; payload]);
        frame.splice(12..12, [0x88, 0xa8, 0x00, 0x05]);
        lab.xmit(&[&frame], opts);
        let sent: Vec<_> = lab.sent().into_iter().map(behind_service_tag).collect();
        let whole: Vec<u8> = sent.iter().flat_map(|frame| assert_checksums(frame)).collect();
        assert_eq!((sent.len(), whole), (frames, vec![9; payload]));
    }
    assert_eq!(lab.r16(0x3e) & 8, 0, "TxErr");
}

#[test]
fn large_sends_are_segmented() {
    let mut lab = Lab::open();
    let payload: Vec<u8> = (0..20_000_u32).map(|i| (i / 7) as u8).collect();
    let frame = tcp(&payload);
    let pieces: Vec<&[u8]> = frame.chunks(4_000).collect();
    lab.xmit(&pieces, [1 << 26 | 34 << 18, 1_448 << 18 | 1 << 17 | 0x0500]);
    let sent = lab.sent();
    assert_eq!(sent.len(), 14);
    let whole: Vec<u8> = sent
        .iter()
        .flat_map(|frame| {
            assert_eq!(frame[12..16], [0x81, 0x00, 0x00, 0x05], "every segment has its tag");
            let mut untagged = frame.clone();
            untagged.drain(12..16);
            assert_checksums(&untagged)
        })
        .collect();
    assert_eq!(whole, payload);
    assert_eq!(lab.r16(0x3e), 0x84);
}

#[test]
fn what_cannot_be_sent_is_given_back_and_reported() {
    let mut lab = Lab::open();
    let frame = frame_to([0xff; 6], 9_000);
    lab.xmit(&[&frame], [0, 0]);
    assert_eq!(lab.r16(0x3e), 0x88, "longer than MaxTxPacketSize: TxErr");
    lab.w16(0x3e, 0xffff);
    lab.xmit(&[&tcp(&[0; 3_000])], [1 << 26 | 34 << 18, 0]);
    assert_eq!(lab.r16(0x3e), 0x88, "segments of no size");
    lab.w16(0x3e, 0xffff);
    lab.plug(Link::Down);
    lab.w16(0x3e, 0xffff);
    lab.xmit(&[&frame_to([0xff; 6], 100)], [0, 0]);
    assert_eq!(lab.r16(0x3e), 0x88, "no link");
    assert!(lab.sent().is_empty());
    for i in 0..3 {
        assert_eq!(lab.word(TX_RING + 16 * i) & OWN, 0, "descriptor {i}");
    }
}

#[test]
fn a_chain_without_beginning_or_end_does_not_stop_the_ring_for_good() {
    let mut lab = Lab::open();
    lab.put(TX_RING, &[OWN | LS | 60, 0, TX_BUFFERS as u32, 0]);
    lab.cur_tx = 1;
    let frame = frame_to([0xff; 6], 100);
    lab.xmit(&[&frame], [0, 0]);
    assert_eq!(lab.sent(), [frame]);
    assert_eq!(lab.r16(0x3e), 0x8c, "TxErr for the one, TxOK for the other");
    let mut lab = Lab::open();
    for i in 0..1_200 {
        lab.put(TX_RING + 16 * i, &[OWN | FS | 60, 0, TX_BUFFERS as u32, 0]);
    }
    lab.w8(0x38, 0x40);
    assert_eq!(lab.word(TX_RING + 16 * 1_023) & OWN, 0);
    assert_eq!(lab.word(TX_RING + 16 * 1_024) & OWN, OWN, "beyond the bound");
}

#[test]
fn an_empty_frame_is_an_error() {
    let mut lab = Lab::open();
    lab.put(TX_RING, &[OWN | FS | LS, 0, TX_BUFFERS as u32, 0]);
    lab.w8(0x38, 0x40);
    assert_eq!((lab.r16(0x3e), lab.sent().len()), (0x88, 0));
}

#[test]
fn a_dma_error_stops_the_transmitter_until_reset() {
    let mut lab = Lab::open();
    let frame = frame_to([0xff; 6], 100);
    lab.queue(&[&frame], [0, 0]);
    lab.put(TX_RING + 12, &[0x7fff_ffff]);
    lab.w8(0x38, 0x40);
    assert_eq!((lab.r16(0x3e), lab.word(TX_RING) & OWN), (0x8000, OWN));
    lab.put(TX_RING + 12, &[0]);
    lab.w8(0x38, 0x40);
    assert!(lab.sent().is_empty(), "halted");
    lab.init_rings();
    lab.reset_work();
    lab.xmit(&[&frame], [0, 0]);
    assert_eq!(lab.sent(), [frame]);
}

#[test]
fn nothing_is_sent_without_bus_mastering_or_with_the_transmitter_off() {
    let mut lab = Lab::open();
    lab.queue(&[&frame_to([0xff; 6], 100)], [0, 0]);
    lab.w8(0x37, 0x08);
    lab.w8(0x38, 0x40);
    assert_eq!(lab.r16(0x3e), 0);
    lab.w8(0x37, 0x0c);
    lab.config(0x04, Width::B2, 0x0402);
    lab.w8(0x38, 0x40);
    assert_eq!((lab.r16(0x3e), lab.sent().len()), (0x8000, 0));
}

#[test]
fn a_walk_that_hits_its_bound_goes_on_by_itself() {
    let mut lab = Lab::open();
    // 40 large sends of 400 segments are more than one walk sends.
    let frame = tcp(&[1; 4_000]);
    for _ in 0..40 {
        lab.queue(&[&frame], [1 << 26 | 34 << 18, 10 << 18]);
    }
    lab.w8(0x38, 0x40);
    let first = lab.sent().len();
    assert!((4_096..16_000).contains(&first), "{first}");
    let mut rest = 0;
    for _ in 0..10 {
        lab.wait(Span::from_us(1));
        rest += lab.sent().len();
    }
    assert_eq!(first + rest, 16_000);
}

#[test]
fn the_tally_is_dumped_and_reset() {
    let mut lab = Lab::open();
    let dump = |lab: &mut Lab, command: u32| {
        lab.w32(0x14, 0);
        lab.w32(0x10, super::driver::TALLY as u32);
        lab.w32(0x10, super::driver::TALLY as u32 | command);
        assert_eq!(lab.r32(0x10) & 9, 0, "done");
        lab.bytes(super::driver::TALLY, 64)
    };
    for to in [super::driver::STATION, [0xff; 6], [0xff; 6], [1; 6], [1; 6], [1; 6]] {
        lab.receive(&frame_to(to, 100));
    }
    lab.xmit(&[&frame_to([0xff; 6], 100)], [0, 0]);
    lab.xmit(&[&frame_to([0xff; 6], 9_000)], [0, 0]);
    for _ in 0..253 {
        lab.receive(&frame_to([0xff; 6], 100));
    }
    let bytes = dump(&mut lab, 8);
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((u64_at(0), u64_at(8), u64_at(16)), (1, 256, 1), "sent, received, send errors");
    assert_eq!((u64_at(40), u64_at(48), bytes[56]), (1, 252, 3), "unicast, broadcast, multicast");
    assert_eq!(bytes[28], 3, "missed");
    dump(&mut lab, 1);
    assert_eq!(dump(&mut lab, 8), [0; 64]);
    lab.w32(0x14, 0xffff_ffff);
    lab.w16(0x3e, 0xffff);
    lab.w32(0x10, 8);
    assert_eq!((lab.r16(0x3e), lab.r32(0x10)), (0x8000, 0), "nowhere to write to");
}

proptest! {
    #[test]
    fn frames_go_out_unchanged_however_they_are_cut(
        frames in prop::collection::vec((60usize..3_000, prop::collection::vec(1usize..900, 0..6)), 1..40),
    ) {
        let mut lab = Lab::open();
        for (i, (bytes, cuts)) in frames.iter().enumerate() {
            let mut frame = frame_to([0xff; 6], bytes - 14);
            frame[20] = i as u8;
            let (mut pieces, mut rest) = (Vec::new(), &frame[..]);
            for cut in cuts {
                let (piece, behind) = rest.split_at((*cut).min(rest.len() - 1));
                if !piece.is_empty() {
                    pieces.push(piece);
                }
                rest = behind;
            }
            pieces.push(rest);
            lab.xmit(&pieces, [0, 0]);
            prop_assert_eq!(lab.sent(), std::slice::from_ref(&frame));
        }
        prop_assert_eq!(lab.nic.counters().dma_errors, 0);
    }
}

#[test]
fn a_chain_that_leads_round_and_never_ends_is_an_error() {
    let mut lab = Lab::open();
    for _ in 0..10 {
        lab.xmit(&[&frame_to([1; 6], 100)], [0, 0]);
    }
    lab.sent();
    for i in 0..256 {
        let end = if i == 5 || i == 255 { EOR } else { 0 };
        lab.put(TX_RING + 16 * i, &[OWN | end | if i == 10 { FS } else { 0 } | 1, 0, 0, 0]);
    }
    lab.w8(0x38, 0x40);
    assert!(lab.sent().is_empty());
    assert_eq!(lab.r16(0x3e) & 0x08, 0x08, "TxErr");
}
