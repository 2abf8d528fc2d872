//! What the cards of the family have of their own.

use warikomi_clock::{Span, Time};
use warikomi_nic::descriptor_fifo::{self, GE10, OC48, OC192};
use warikomi_nic::{Nic, RxOutcome};
use warikomi_pci::{PciFunction, Width};

use super::card::*;

/// Each card with what its data sheet says of it: ID, device, Mbit/s, MTU.
const SHEETS: [(&descriptor_fifo::Card, &[u8; 4], u64, u32, u32); 3] = [
    (&OC48, b"OC48", 0x0c48, 2_400, 65_535),
    (&OC192, b"O192", 0x0192, 9_600, 65_535),
    (&GE10, b"GE10", 0x10e0, 10_000, 16_114),
];

#[test]
fn each_card_says_what_its_data_sheet_says() {
    for (which, id, device, line_mbps, mtu) in SHEETS {
        let mut card = Card::of(which, None, None, None);
        assert_eq!(card.get(0x00), u32::from_le_bytes(*id));
        assert_eq!(card.nic.config_read(0, Width::B4), device << 16 | 0x1234);
        assert_eq!((card.get(0x0c), card.get(0x18)), (line_mbps, mtu));
        assert_eq!(card.nic.info().max_frame_bytes, mtu as usize + 14);
    }
}

/// When the line is free again behind so many frames of this length.
fn line_takes(which: &'static descriptor_fifo::Card, frames: u64, bytes: usize) -> Span {
    let mut card = Card::of(which, None, None, None);
    // Of the frames behind the card's memory it is the line that says when they are sent.
    for _ in 0..frames {
        card.send(&filler(bytes, 1));
        card.poll();
    }
    card.settle();
    let sent: Vec<Time> = card.wire.sent_at().into_iter().map(|sent| sent.0).collect();
    assert_eq!(sent.len() as u64, frames);
    sent[frames as usize - 1].since(sent[frames as usize - 2])
}

#[test]
fn ethernet_puts_24_bytes_around_each_frame_and_sonet_nothing() {
    let bits = |bytes: u64, bps: u64| Span::from_ps((bytes * 8 * 1_000_000_000_000).div_ceil(bps));
    assert_eq!(line_takes(&GE10, 100, 16_128), bits(16_152, 10_000_000_000));
    assert_eq!(line_takes(&OC192, 100, 16_128), bits(16_128, 9_600_000_000));
}

#[test]
fn a_short_frame_is_padded_where_the_line_is_ethernet() {
    let frame = filler(42, 3);
    let mut card = Card::of(&GE10, None, None, None);
    card.put_bytes(BUFFERS, &filler(100, 9));
    card.send(&frame);
    card.settle();
    let padded = [&frame[..], &[0; 18]].concat();
    assert_eq!(card.wire.sent_at()[0].1, padded);
    let mut card = Card::of(&OC192, None, None, None);
    card.send(&frame);
    card.settle();
    assert_eq!(card.wire.sent_at()[0].1, frame);
}

#[test]
fn what_is_longer_than_the_mtu_or_a_runt_does_not_pass() {
    let mut card = Card::of(&GE10, None, None, None);
    card.send(&filler(16_129, 0));
    card.settle();
    assert_eq!((card.wire.sent_at().len(), card.status() & TX_OVERRUN), (0, TX_OVERRUN));
    card.push_buffer(BUFFERS, 20_000);
    for (bytes, outcome) in
        [(16_129, RxOutcome::Filtered), (59, RxOutcome::Filtered), (60, RxOutcome::OnRing)]
    {
        let frame = [&STATION[..], &filler(bytes - 6, 2)].concat();
        assert_eq!(card.receive(&frame), outcome, "{bytes}");
    }
}
