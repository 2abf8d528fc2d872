//! Who the chip is, its EEPROM, its PHY, its timer and its locks.

use warikomi_clock::Span;
use warikomi_nic::{Link, NicOptions, build};
use warikomi_pci::Width;
use warikomi_testbench::{Bench, MEMORY_AND_MASTER};
use warikomi_wire::CountedSink;

use crate::too::{STATION, Too};

/// read_eeprom of 8139too.c.
fn read_eeprom(too: &mut Too, location: u32, address_bits: u32) -> u16 {
    let command = location | 6 << address_bits;
    too.w8(0x50, 0x80);
    too.w8(0x50, 0x88);
    for bit in (0..=4 + address_bits).rev() {
        let data = if command >> bit & 1 != 0 { 0x02 } else { 0 };
        too.w8(0x50, 0x88 | data);
        too.w8(0x50, 0x8c | data);
        too.r8(0x50);
    }
    too.w8(0x50, 0x88);
    let mut value = 0;
    for _ in 0..16 {
        too.w8(0x50, 0x8c);
        value = value << 1 | u16::from(too.r8(0x50) & 1);
        too.w8(0x50, 0x88);
    }
    too.w8(0x50, 0);
    value
}

#[test]
fn the_revision_says_which_driver_it_is_for() {
    for (model, revision) in [("rtl8139", 0x10), ("rtl8139cp", 0x20)] {
        let nic = build(&NicOptions::of(model), Box::new(CountedSink::new())).unwrap();
        let mut bench = Bench::around(nic);
        assert_eq!(bench.config_read(0, Width::B4), 0x8139_10ec);
        assert_eq!(bench.config_read(8, Width::B1), revision);
        assert_eq!(bench.config_read(0x3d, Width::B1), 1, "INTA#");
        assert_eq!(bench.capability(5), None, "no messages");
        let bars: Vec<_> = bench.nic.bars().iter().map(|bar| (bar.index, bar.bytes)).collect();
        assert_eq!(bars, [(0, 256), (1, 256)]);
    }
}

#[test]
fn the_driver_reads_the_address_from_the_eeprom() {
    let mut too = Too::new();
    assert_ne!(read_eeprom(&mut too, 0, 8), 0x8129);
    assert_eq!(read_eeprom(&mut too, 0, 6), 0x8129);
    let words = [7, 8, 9].map(|at| read_eeprom(&mut too, at, 6));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(bytes, STATION);
}

/// rtl8139_tx_interrupt of 8139too.c writes this bit alone.
#[test]
fn the_command_to_clear_an_abort_is_not_read_back() {
    let mut too = Too::new();
    too.w32(0x40, 0x0300_0601);
    assert_eq!(too.r32(0x40), 0x7700_0600);
}

#[test]
fn what_is_locked_is_written_only_when_it_is_unlocked() {
    let mut too = Too::new();
    too.w32(0x00, 0x1111_1111);
    too.w16(0x62, 0);
    assert_eq!((too.r32(0x00), too.r16(0x62)), (0x004b_5702, 0x3100));
    too.w8(0x50, 0xc0);
    too.w32(0x00, 0x1111_1111);
    assert_eq!(too.r32(0x00), 0x1111_1111);
    too.w8(0x50, 0x40);
    assert_eq!((too.r32(0x00), too.r8(0x50)), (0x004b_5702, 0), "loaded anew");
}

#[test]
fn a_cable_that_is_pulled_is_seen_in_every_register_that_tells() {
    let mut too = Too::open();
    assert_eq!(
        (too.r16(0x64) & 0x24, too.r8(0x58) & 0x0c, too.r16(0x74) & 0xc00),
        (0x24, 0, 0x400)
    );
    too.plug(Link::Down);
    assert_eq!(too.r16(0x3e) & 0x20, 0x20, "link change");
    assert_eq!((too.r16(0x64) & 0x24, too.r8(0x58) & 0x04, too.r16(0x74) & 0xc00), (0, 4, 0x800));
    assert_eq!(too.r16(0x68), 0, "no partner");
    too.plug(Link::Up { mbps: 10 });
    too.wait(Span::from_ms(100));
    assert_eq!((too.r16(0x64) & 0x04, too.r8(0x58) & 0x0c, too.r16(0x68)), (4, 8, 0x4061));
    too.plug(Link::Up { mbps: 1_000 });
    too.wait(Span::from_ms(100));
    assert_eq!((too.r8(0x58) & 0x0c, too.r16(0x68)), (0, 0x41e1), "100 Mbit/s are the most");
}

#[test]
fn the_timer_interrupts_at_its_count() {
    let mut too = Too::open();
    too.w32(0x54, 1_000);
    too.w32(0x48, 0);
    too.wait(Span::from_us(29));
    assert_eq!(too.r16(0x3e) & 0x4000, 0);
    too.wait(Span::from_us(1));
    assert_eq!(too.r16(0x3e) & 0x4000, 0x4000);
    assert_eq!(too.r32(0x48), 1_000);
}

#[test]
fn ports_and_memory_lead_to_the_same_registers() {
    let mut too = Too::open();
    too.bar_write(0, 0x4c, Width::B4, 7);
    assert_eq!(too.bar_read(0, 0x00, Width::B4), 0x004b_5702);
    assert_eq!(too.r32(0x00), 0x004b_5702);
}

/// iPXE writes there to tell an RTL8169 from this chip (realtek.c, realtek_detect), and drove it as one.
#[test]
fn what_is_written_where_no_register_is_is_not_kept() {
    for model in ["rtl8139", "rtl8139cp"] {
        let mut bench = Bench::of(model).commanded(MEMORY_AND_MASTER);
        for offset in [0x06, 0x53, 0x5f, 0x76, 0xda, 0xdc, 0xee] {
            bench.write(offset, Width::B2, 0xffff);
        }
        assert_eq!(bench.read(0xda, Width::B2), 0, "{model}");
        for offset in [0x06, 0x07, 0x53, 0x5f, 0x76, 0x77, 0xdc, 0xdd, 0xee, 0xef] {
            assert_eq!(bench.read(offset, Width::B1), 0, "{model}, {offset:#x}");
        }
    }
}
