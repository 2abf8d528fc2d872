use warikomi_nic::{Nic, NicOptions, build, wire::CountedSink};
use warikomi_pci::{Host, Interrupt, IntrLine, PciFunction, SharedMemory, Width};

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
    card.run();
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
    card.run();
    assert_eq!(interrupts(&card), 3);
    card.set(CONTROL, RESET);
    assert_eq!((card.get(STATUS), card.get(MASK), card.get(CONTROL)), (0, 0, 0));
}

struct Ignored;

impl IntrLine for Ignored {
    fn signal(&mut self, _interrupt: Interrupt) {}
}

#[test]
fn line_rate_and_mtu_are_shown() {
    let options = NicOptions {
        line_rate_bps: Some(100_000_000_000),
        mtu: Some(9_000),
        ..NicOptions::of("oc48")
    };
    let mut nic = build(&options, Box::new(CountedSink::new())).unwrap();
    let memory = SharedMemory::anonymous(0, 4_096).unwrap();
    let now = warikomi_clock::Time::ZERO;
    let mut host = Host { now, memory: &memory, interrupts: &mut Ignored };
    nic.config_write(&mut host, 4, Width::B2, 6);
    assert_eq!(nic.bar_read(&mut host, 0, 0x0c, Width::B4), 100_000);
    assert_eq!(nic.bar_read(&mut host, 0, 0x18, Width::B4), 9_000);
    nic.power_on(&mut host);
    nic.config_write(&mut host, 4, Width::B2, 6);
    assert_eq!(nic.bar_read(&mut host, 0, 0x18, Width::B4), 9_000, "that is how it is built");
}
