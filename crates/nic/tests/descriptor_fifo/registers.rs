use warikomi_nic::{Nic, NicOptions, build};
use warikomi_pci::{PciFunction, Width};
use warikomi_testbench::Bench;

use super::card::*;

#[test]
fn registers_hold_what_the_data_sheet_says() {
    let mut card = Card::open(None);
    for (offset, value) in [
        (0x00, 0x3834_434f),
        (CONTROL, TX_ENABLE | RX_ENABLE),
        (0x08, 1),
        (0x0c, 2_400),
        (STATUS, 0),
        (MASK, 0x3f),
        (0x18, 65_535),
        (0x30, 0),
        (0x38, 0),
        (0x3c, 256),
        (TX_REMAINING, 0),
        (0x5c, 256),
        (RX_REMAINING, 0),
    ] {
        assert_eq!(card.get(offset), value, "{offset:#x}");
    }
    let mac = card.read(0x20, Width::B8).to_le_bytes();
    assert_eq!((&mac[..6], &mac[6..]), (&STATION[..], &[0, 0][..]));
    assert_eq!(card.nic.mac_address(), STATION);
    assert_eq!(card.nic.config_read(0, Width::B4), 0x0c48_1234);
    assert_eq!(card.nic.config_read(8, Width::B4), 0x0200_0001);
}

#[test]
fn only_accesses_of_a_registers_width_and_halves_of_eight_bytes_count() {
    let mut card = Card::open(None);
    card.write(0x68, Width::B8, 0x1234_5678_9abc_d000);
    assert_eq!(card.read(0x68, Width::B8), 0x1234_5678_9abc_d000);
    assert_eq!((card.get(0x68), card.get(0x6c)), (0x9abc_d000, 0x1234_5678));
    card.set(0x6c, 1);
    card.set(0x68, 0x2fff);
    assert_eq!(card.read(0x68, Width::B8), 0x1_0000_2000, "rings begin at multiples of 4,096");
    for (offset, width) in [
        (MASK, Width::B1),
        (MASK, Width::B2),
        (STATUS, Width::B8),
        (0x68, Width::B2),
        (0x69, Width::B4),
        (0x70, Width::B4),
        (0xffc, Width::B4),
    ] {
        card.write(offset, width, 0);
        assert_eq!(card.read(offset, width), 0, "{offset:#x} {width}");
    }
    assert_eq!((card.get(MASK), card.read(0x68, Width::B8)), (0x3f, 0x1_0000_2000));
}

#[test]
fn the_level_follows_status_and_mask() {
    let mut card = Card::open(None);
    let interrupts = |card: &Card| card.nic.counters().interrupts;
    card.set(MASK, 0);
    card.send(&filler(60, 0));
    card.settle();
    assert_eq!((card.get(STATUS), interrupts(&card)), (TX_DONE, 0));
    card.set(MASK, TX_DONE);
    assert_eq!(interrupts(&card), 1);
    card.set(MASK, RX_DONE);
    card.set(MASK, TX_DONE);
    assert_eq!(interrupts(&card), 2);
    card.set(STATUS, RX_DONE);
    assert_eq!((card.get(STATUS), interrupts(&card)), (TX_DONE, 2), "a 1 clears, and no other bit");
    card.set(STATUS, TX_DONE);
    card.send(&filler(60, 0));
    card.settle();
    assert_eq!(interrupts(&card), 3);
    card.set(CONTROL, RESET);
    assert_eq!((card.get(STATUS), card.get(MASK), card.get(CONTROL)), (0, 0, 0));
}

#[test]
fn line_rate_and_mtu_are_shown() {
    let options = NicOptions {
        line_rate_bps: Some(100_000_000_000),
        mtu: Some(9_000),
        ..NicOptions::of("oc48")
    };
    let mut bench = Bench::cabled(|wire| build(&options, wire).unwrap()).commanded(6);
    assert_eq!(bench.read(0x0c, Width::B4), 100_000);
    assert_eq!(bench.read(0x18, Width::B4), 9_000);
    bench.host(|nic, host| nic.power_on(host));
    let mut bench = bench.commanded(6);
    assert_eq!(bench.read(0x18, Width::B4), 9_000, "that is how it is built");
}
