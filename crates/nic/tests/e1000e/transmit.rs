use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use warikomi_nic::{Link, Nic};

use super::driver::{DATA, DEXT, EOP, IFCS, Lab, Mode, RING, RS, TSE, VLE, frame_to};

/// A TCP frame as Linux hands it over for segmentation (e1000_tso): the length is not known, and the sum of the pseudo
/// header is without it.
fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .tcp(1, 5_001, 1_000, 4_096)
        .write(&mut frame, payload)
        .unwrap();
    frame[16..18].fill(0);
    frame[24..26].fill(0);
    let sum: u32 = [0x0a09, 0x0001, 0x0a09, 0x0002, 6].iter().sum();
    frame[50..52].copy_from_slice(&(sum as u16).to_be_bytes());
    frame
}

fn checked(frame: &[u8]) -> (u32, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("no TCP") };
    let right = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
    assert_eq!(tcp.checksum(), right);
    (tcp.sequence_number(), tcp.payload().to_vec())
}

#[test]
fn a_scattered_frame_goes_out_whole_and_its_last_descriptor_is_marked() {
    let mut lab = Lab::open(Mode::Msix);
    let frame = frame_to([0xff; 6], 100);
    lab.xmit(&[&frame[..30], &frame[30..31], &frame[31..]]);
    assert_eq!(lab.sent(), [frame]);
    assert_eq!([0, 1, 2].map(|index| lab.tx_status(index)), [0, 0, 1], "DD where RS was");
    assert_eq!(lab.r32(0x3810), 3);
    assert_eq!(lab.messages(), [1]);
    let counted = lab.nic.counters();
    assert_eq!((counted.doorbells, counted.tx_descriptors), (2, 3), "with that of the opening");
    assert_eq!((lab.r32(0x4080), lab.r32(0x40f4)), (1, 1), "GPTC and BPTC");
}

#[test]
fn the_ring_wraps() {
    let mut lab = Lab::open(Mode::Msix);
    let frames: Vec<_> = (0..1_000_usize).map(|i| frame_to([i as u8; 6], 46 + i)).collect();
    for burst in frames.chunks(200) {
        burst.iter().for_each(|frame| lab.queue(&[frame], IFCS, 0));
        lab.w32(0x3818, lab.tx_next);
    }
    assert_eq!(lab.sent(), frames);
    assert_eq!(lab.r32(0x3810), 1_000 % RING);
}

#[test]
fn short_frames_are_padded_if_the_driver_wants_that() {
    let mut lab = Lab::open(Mode::Msix);
    lab.xmit(&[&[7; 20]]);
    let mut expected = vec![7; 20];
    expected.resize(60, 0);
    assert_eq!(lab.sent(), [expected]);
    let tctl = lab.r32(0x400);
    lab.w32(0x400, tctl & !8);
    lab.xmit(&[&[7; 20]]);
    assert_eq!(lab.sent(), [[7; 20]]);
}

#[test]
fn a_frame_that_brings_its_check_sequence_is_sent_without_another() {
    let mut lab = Lab::open(Mode::Msix);
    let mut frame = frame_to([0xff; 6], 100);
    frame.extend([1, 2, 3, 4]);
    lab.queue(&[&frame], 0, 0);
    lab.w32(0x3818, lab.tx_next);
    assert_eq!(lab.sent(), [&frame[..114]]);
}

#[test]
fn what_is_queued_while_the_transmitter_is_off_goes_when_it_is_on() {
    let mut lab = Lab::open(Mode::Msix);
    let tctl = lab.r32(0x400);
    lab.w32(0x400, tctl & !2);
    lab.xmit(&[&[7; 60]]);
    assert!(lab.sent().is_empty());
    lab.w32(0x400, tctl);
    assert_eq!(lab.sent(), [[7; 60]]);
}

#[test]
fn a_context_has_the_checksum_filled_in() {
    let mut lab = Lab::open(Mode::Msix);
    for (udp, kind) in [(false, 1 << 24), (true, 0)] {
        let mut frame = Vec::new();
        let ip = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64);
        if udp {
            ip.udp(1, 2).write(&mut frame, &[9; 77]).unwrap();
        } else {
            ip.tcp(1, 2, 3, 4).write(&mut frame, &[9; 77]).unwrap();
        }
        let right = frame.clone();
        let offset = if udp { 40 } else { 50 };
        // The pseudo header's sum, as CHECKSUM_PARTIAL has it.
        let bytes = (frame.len() - 34) as u32;
        let words = [0x0a09, 0x0001, 0x0a09, 0x0002, bytes, if udp { 17 } else { 6 }];
        let sum: u32 = words.iter().sum();
        let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
        frame[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
        lab.queue_words([0, 34 | (offset as u32) << 8, DEXT | kind, 0]);
        lab.queue(&[&frame[..40], &frame[40..]], DATA | IFCS, 0x200);
        lab.w32(0x3818, lab.tx_next);
        assert_eq!(lab.sent(), [right]);
    }
}

#[test]
fn a_long_packet_is_cut_into_segments_with_a_tag_each() {
    let mut lab = Lab::open(Mode::Msix);
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl | 1 << 30);
    let payload: Vec<u8> = (0..10_000_u32).map(|i| i as u8).collect();
    let frame = tcp(&payload);
    let context = [14 | 24 << 8 | 33 << 16, 34 | 50 << 8];
    let command = DEXT | TSE | 3 << 24 | payload.len() as u32;
    lab.queue_words([context[0], context[1], command, 54 << 8 | 1_448 << 16]);
    let upper = 0x300 | 0x2007 << 16;
    lab.queue(&[&frame[..54], &frame[54..4_000], &frame[4_000..]], DATA | TSE | VLE | IFCS, upper);
    lab.w32(0x3818, lab.tx_next);
    let sent = lab.sent();
    assert_eq!(sent.len(), 7);
    let mut whole = Vec::new();
    for mut segment in sent {
        assert_eq!(segment[12..16], [0x81, 0, 0x20, 0x07]);
        segment.drain(12..16);
        let (sequence, piece) = checked(&segment);
        assert_eq!(sequence, 1_000 + whole.len() as u32);
        whole.extend(piece);
    }
    assert_eq!(whole, payload);
    assert_eq!(lab.r32(0x40f8), 1, "TSCTC");
    assert_eq!(lab.r32(0x4080), 7, "GPTC");
}

#[test]
fn a_long_packet_behind_a_service_tag_is_cut_where_its_context_says() {
    // e1000_tso of an interface of 802.1ad, whose tag e1000e has no place for in a descriptor.
    let mut lab = Lab::open(Mode::Msix);
    let payload: Vec<u8> = (0..4_000_u32).map(|i| i as u8).collect();
    let mut frame = tcp(&payload);
    frame.splice(12..12, [0x88, 0xa8, 0x00, 0x05]);
    let command = DEXT | TSE | 3 << 24 | payload.len() as u32;
    lab.queue_words([18 | 28 << 8 | 37 << 16, 38 | 54 << 8, command, 58 << 8 | 1_448 << 16]);
    lab.queue(&[&frame], DATA | TSE | IFCS, 0x300);
    lab.w32(0x3818, lab.tx_next);
    let mut whole = Vec::new();
    for mut segment in lab.sent() {
        assert_eq!(segment.drain(12..16).collect::<Vec<_>>(), [0x88, 0xa8, 0x00, 0x05]);
        whole.extend(checked(&segment).1);
    }
    assert_eq!(whole, payload);
    assert_eq!((lab.r32(0x40f8), lab.r32(0x40fc)), (1, 0), "TSCTC and TSCTFC");
}

#[test]
fn a_chain_that_is_no_frame_is_given_back_and_the_next_goes_out() {
    let mut lab = Lab::open(Mode::Msix);
    lab.queue_words([0, 0, IFCS | EOP | RS, 0]);
    lab.queue_words([0, 0, IFCS | 60, 0]);
    lab.queue_words([0, 0, DEXT | RS, 0]);
    lab.xmit(&[&[7; 60]]);
    assert_eq!(lab.sent(), [[7; 60]]);
    assert_eq!([0, 2, 3].map(|index| lab.tx_status(index)), [1, 1, 1]);
}

#[test]
fn the_second_queue_sends_too() {
    let mut lab = Lab::open(Mode::Msix);
    lab.w32(0xe4, 0x800a_b908);
    lab.put(0x3_8000, &[0x60_0000, 0, IFCS | EOP | RS | 60, 0]);
    lab.put_bytes(0x60_0000, &[3; 60]);
    lab.w32(0x3900, 0x3_8000);
    lab.w32(0x3908, 128);
    lab.w32(0xd0, 0x0080_0000);
    lab.w32(0x3918, 1);
    assert_eq!(lab.sent(), [[3; 60]]);
    assert_eq!(lab.messages(), [3], "TXQ1 has vector 3");
}

#[test]
fn without_a_link_descriptors_wait_for_one() {
    // e1000_watchdog_task: "If the link is lost the controller stops DMA".
    let mut lab = Lab::open(Mode::Msix);
    lab.plug(Link::Down);
    lab.messages();
    lab.xmit(&[&[7; 60]]);
    lab.us(100_000);
    assert!(lab.sent().is_empty() && lab.messages().is_empty());
    assert_eq!((lab.tx_status(0), lab.r32(0x3810), lab.r32(0x4080)), (0, 0, 0), "TDH and GPTC");
    lab.plug(Link::Up { mbps: 1_000 });
    assert!(lab.sent().is_empty(), "it negotiates");
    lab.us(30_000);
    assert_eq!(lab.sent(), [[7; 60]]);
    assert_eq!((lab.tx_status(0), lab.r32(0x3810), lab.r32(0x4080)), (1, 1, 1));
}

#[test]
fn what_waits_for_a_link_is_gone_by_a_reset() {
    let mut lab = Lab::open(Mode::Msix);
    lab.plug(Link::Down);
    lab.xmit(&[&[7; 60]]);
    lab.reset_hw();
    lab.plug(Link::Up { mbps: 1_000 });
    lab.us(30_000);
    lab.w32(0x400, 0x0103_f0fa);
    assert!(lab.sent().is_empty());
    assert_eq!(lab.tx_status(0), 0);
}
