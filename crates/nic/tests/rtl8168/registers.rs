//! How registers answer to accesses of every kind, and what the driver reads while it probes.

use warikomi_clock::Span;
use warikomi_nic::Nic;
use warikomi_pci::{PciFunction, Width};

use super::driver::{BAR, Lab};

#[test]
fn linux_recognises_the_chip() {
    let mut lab = Lab::new();
    let id = lab.host(|nic, _| nic.config_read(0, Width::B4));
    assert_eq!(id, 0x8168_10ec);
    assert_eq!((lab.r32(0x40) >> 20) & 0xfcf, 0x3c0);
    lab.w32(0x40, 0);
    assert_eq!(lab.r32(0x40), 0x3c00_0000, "the version cannot be overwritten");
}

#[test]
fn the_capabilities_are_where_they_were_promised() {
    let mut lab = Lab::new();
    let mut read = |offset, width| lab.host(|nic, _| nic.config_read(offset, width));
    let mut at = read(0x34, Width::B1);
    let mut found = Vec::new();
    while at != 0 {
        found.push((at, read(at as u16, Width::B1)));
        at = read(at as u16 + 1, Width::B1);
    }
    assert_eq!(found, [(0x40, 0x01), (0x50, 0x05), (0x70, 0x10)], "PM, MSI, PCI Express");
    assert_eq!(read(0x52, Width::B2) & 0x80, 0x80, "64-bit MSI");
    // pcie_set_readrq.
    lab.config(0x78, Width::B2, 0x5810);
    assert_eq!(lab.host(|nic, _| nic.config_read(0x78, Width::B2)), 0x5810);
}

#[test]
fn reset_restores_what_it_should_and_nothing_else() {
    let mut lab = Lab::open();
    lab.w32(0x08, 0x1234_5678);
    lab.w16(0xe2, 0x1111);
    lab.w8(0x37, 0x1c);
    assert_eq!((lab.r8(0x37), lab.r16(0x3c), lab.r16(0x3e), lab.r16(0xe2)), (0, 0, 0, 0));
    assert_eq!((lab.r32(0x44), lab.r32(0x08)), (0, 0x1234_5678));
    assert!(!lab.nic.receiving());
}

#[test]
fn accesses_may_be_of_any_width_and_anywhere() {
    let mut lab = Lab::new();
    lab.w8(0x50, 0xc0);
    for (i, byte) in [2, 0x11, 0x22, 0x33, 0x44, 0x55].into_iter().enumerate() {
        lab.w8(i as u64, byte);
    }
    assert_eq!(lab.nic.mac_address(), [2, 0x11, 0x22, 0x33, 0x44, 0x55]);
    assert_eq!(lab.r32(0x01), 0x4433_2211, "across registers");
    lab.w16(0x03, 0xbbaa);
    assert_eq!(lab.nic.mac_address(), [2, 0x11, 0x22, 0xaa, 0xbb, 0x55]);
    lab.write(0x08, Width::B8, 0x0102_0304_0506_0708);
    assert_eq!((lab.r8(0x08), lab.r8(0x0f), lab.r32(0x0c)), (8, 1, 0x0102_0304));
    lab.w16(0xe5, 0xabcd);
    assert_eq!(lab.r32(0xe4), 0x00ab_cd00);
    assert_eq!(lab.read(0xfe, Width::B8), 0, "beyond the last register");
    assert_eq!((lab.r32(0x100), lab.r32(0xffc)), (0, 0));
}

#[test]
fn configuration_registers_are_locked_until_unlocked() {
    let mut lab = Lab::new();
    lab.w8(0x54, 0xff);
    assert_eq!(lab.r8(0x54), 0);
    lab.w8(0x50, 0xc0);
    lab.w8(0x54, 0x04);
    lab.w8(0x50, 0x00);
    assert_eq!(lab.r8(0x54), 0x04);
}

#[test]
fn windows_shake_hands_with_bit_31() {
    let mut lab = Lab::new();
    for window in [0x60, 0x68, 0x74, 0x80, 0xb4, 0xb8, 0xdc] {
        lab.w32(window, 0x0003_0000);
        assert_ne!(lab.r32(window) & 0x8000_0000, 0, "{window:#x}: data is there");
        lab.w32(window, 0x8003_1234);
        assert_eq!(lab.r32(window) & 0x8000_0000, 0, "{window:#x}: written");
    }
    lab.w32(0x70, 0xcafe_f00d);
    lab.w32(0x74, 0x8000_f0e0);
    lab.w32(0x70, 0);
    lab.w32(0x74, 0x0000_f0e0);
    assert_eq!(lab.r32(0x70), 0xcafe_f00d, "what ERI stored");
}

#[test]
fn a_bar_that_is_not_there_reads_as_ones() {
    let mut lab = Lab::new();
    let read = |lab: &mut Lab, bar, offset| {
        lab.host(|nic, host| nic.bar_read(host, bar, offset, Width::B4))
    };
    assert_eq!(read(&mut lab, 4, 0), 0xffff_ffff);
    assert_eq!(read(&mut lab, BAR, 0xffe), 0xffff_ffff);
    assert_eq!(read(&mut lab, BAR, u64::MAX), 0xffff_ffff);
    lab.config(0x04, Width::B2, 0);
    assert_eq!(read(&mut lab, BAR, 0), 0xffff_ffff, "memory decoding is off");
    assert_eq!(lab.nic.counters().stray, 4);
}

#[test]
fn the_counter_runs() {
    let mut lab = Lab::new();
    lab.w32(0x48, 77);
    assert_eq!(lab.r32(0x48), 0, "a write starts it anew");
    lab.wait(Span::from_us(1));
    assert_eq!(lab.r32(0x48), 125);
}
