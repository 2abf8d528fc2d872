use warikomi_nic::{Link, RxOutcome};

use super::driver::{Lab, Mode};

const LINK_UP: u32 = 2;
const BROADCAST: [u8; 60] = [0xff; 60];

#[test]
fn a_change_of_the_link_is_told_and_the_registers_know_its_speed() {
    let mut lab = Lab::open(Mode::Msix);
    assert_eq!(lab.r32(8) & 0xc3, 0x83, "1,000 Mbit/s, full duplex");
    lab.plug(Link::Down);
    assert_eq!(lab.messages(), [2]);
    assert_eq!(lab.r32(0xc0) & 0x0100_0004, 0x0100_0004, "LSC and OTHER");
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    assert_eq!(lab.receive(&[0xff; 60]), RxOutcome::NotReceiving);
    lab.w32(0xd0, 0x0100_0004);
    lab.us(1);
    lab.plug(Link::Up { mbps: 100 });
    assert!(lab.messages().is_empty(), "it negotiates");
    lab.us(30_000);
    assert_eq!(lab.messages(), [2]);
    assert_eq!(lab.r32(8) & 0xc3, 0x43);
    assert_eq!(lab.mdio_read(17) & 0xec00, 0x6c00, "M88E1000_PHY_SPEC_STATUS");
    assert_eq!(lab.receive(&[0xff; 60]), RxOutcome::OnRing);
}

#[test]
fn a_phy_that_is_reset_negotiates_anew() {
    let mut lab = Lab::open(Mode::Msix);
    lab.mdio_write(0, 0x9140);
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    lab.us(30_000);
    assert_ne!(lab.r32(8) & LINK_UP, 0);
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl | 1 << 31);
    assert_eq!(lab.r32(0), ctrl, "the bit is back by itself");
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    lab.us(30_000);
    assert_ne!(lab.mdio_read(1) & 0x24, 0, "negotiated, and link");
}

#[test]
fn a_speed_that_is_forced_takes_effect_by_a_reset_of_the_phy() {
    let mut lab = Lab::open(Mode::Msix);
    lab.mdio_write(0, 0x2100);
    lab.mdio_write(0, 0xa100);
    lab.us(30_000);
    assert_eq!(lab.mdio_read(0), 0x2100);
    assert_eq!(lab.r32(8) & 0xc3, 0x43, "100 Mbit/s, full duplex");
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl | 1 << 31);
    lab.us(30_000);
    assert_eq!((lab.mdio_read(0), lab.r32(8) & 0xc3), (0x1140, 0x83), "as it was delivered");
}

#[test]
fn pages_are_selected_as_marvell_does_it() {
    let mut lab = Lab::new(Mode::Intx);
    lab.mdio_write(22, 2);
    lab.mdio_write(21, 0x1234);
    assert_eq!(lab.mdio_read(2), 0x0141, "the first sixteen are the same on all");
    lab.mdio_write(0, 0x1940);
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    lab.mdio_write(22, 0);
    assert_eq!((lab.mdio_read(21), lab.mdio_read(0)), (0, 0x1940));
    lab.mdio_write(22, 2);
    assert_eq!(lab.mdio_read(21), 0x1234);
}

#[test]
fn there_is_one_phy() {
    let mut lab = Lab::new(Mode::Intx);
    lab.w32(0x20, 0x0840_0000 | 2 << 16);
    assert_ne!(lab.r32(0x20) & 0x4000_0000, 0, "an error");
}

#[test]
fn a_link_that_the_driver_does_not_want_is_none() {
    let mut lab = Lab::open(Mode::Msix);
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl & !0x40);
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    assert_eq!(lab.messages(), [2]);
}

#[test]
fn what_is_sent_comes_back_by_the_loopback_of_the_phy() {
    // e1000_integrated_phy_loopback.
    let mut lab = Lab::open(Mode::Msix);
    lab.mdio_write(22, 769);
    lab.mdio_write(0, 0x4140);
    lab.us(30_000);
    assert_eq!(lab.r32(8) & 0xc3, 0x83, "1,000 Mbit/s, full duplex, whatever is at the other end");
    lab.plug(Link::Down);
    assert_eq!(lab.r32(8) & 0xc3, 0x83);
    assert_eq!(lab.receive(&BROADCAST), RxOutcome::NotReceiving, "the cable is cut off");
    assert!(lab.rx().is_empty());
    lab.xmit(&[&BROADCAST]);
    lab.us(1);
    let back: Vec<_> = lab.rx().into_iter().map(|received| received.bytes).collect();
    assert_eq!(back, [BROADCAST]);
    assert!(lab.sent().is_empty());
    lab.mdio_write(0, 0x1140);
    lab.us(30_000);
    assert_eq!(lab.r32(8) & LINK_UP, 0, "it is pulled");
    lab.plug(Link::Up { mbps: 1_000 });
    lab.us(30_000);
    lab.xmit(&[&BROADCAST]);
    lab.us(1);
    assert!(lab.rx().is_empty());
    assert_eq!(lab.sent(), [BROADCAST]);
}
