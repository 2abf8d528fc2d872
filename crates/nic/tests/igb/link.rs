use warikomi_nic::{Link, RxOutcome};

use super::driver::{Lab, Mode};

const LINK_UP: u32 = 2;
const BROADCAST: [u8; 60] = [0xff; 60];

#[test]
fn a_change_of_the_link_is_told_and_the_registers_know_its_speed() {
    let mut lab = Lab::open(Mode::Msix);
    assert_eq!(lab.r32(8) & 0xc3, 0x83, "1,000 Mbit/s, full duplex");
    assert_eq!(lab.mdio_read(0x11) & 0xc002, 0xc000, "IGP01E1000_PSSR_SPEED_1000MBPS");
    lab.plug(Link::Down);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0xc0) & 4, 4, "LSC");
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    assert_eq!(lab.receive(&[0xff; 60]), RxOutcome::NotReceiving);
    lab.w32(0x1524, 1);
    lab.plug(Link::Up { mbps: 100 });
    assert!(lab.messages().is_empty(), "it negotiates");
    lab.us(30_000);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(8) & 0xc3, 0x43);
    assert_eq!(lab.mdio_read(0x11) & 0xc000, 0x4000);
    assert_eq!(lab.receive(&[0xff; 60]), RxOutcome::OnRing);
}

#[test]
fn a_phy_that_is_reset_negotiates_anew() {
    let mut lab = Lab::open(Mode::Msix);
    // igb_phy_hw_reset.
    let ctrl = lab.r32(0);
    lab.w32(0, ctrl | 1 << 31);
    assert_eq!(lab.r32(0), ctrl, "the bit is back by itself");
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    lab.us(30_000);
    assert_ne!(lab.r32(8) & LINK_UP, 0);
    assert_ne!(lab.mdio_read(1) & 0x24, 0, "negotiated, and link");
    // igb_get_cable_length_igp_2: a pair's gain is neither 0 nor beyond its table.
    for pair in [0x11b1, 0x12b1, 0x14b1, 0x18b1] {
        assert_eq!(lab.mdio_read(pair) >> 9 & 0x7f, 4);
    }
}

#[test]
fn a_phy_that_is_powered_down_has_no_link() {
    let mut lab = Lab::open(Mode::Msix);
    lab.mdio_write(0, 0x1940);
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    lab.us(30_000);
    assert_eq!(lab.r32(8) & LINK_UP, 0);
    lab.mdio_write(0, 0x1140);
    lab.us(30_000);
    assert_ne!(lab.r32(8) & LINK_UP, 0);
}

#[test]
fn what_is_sent_comes_back_by_the_loopback_of_the_phy() {
    // igb_integrated_phy_loopback.
    let mut lab = Lab::open(Mode::Msix);
    lab.mdio_write(0, 0x4140);
    lab.us(30_000);
    assert_eq!(lab.r32(8) & 0xc3, 0x83, "1,000 Mbit/s, full duplex, whatever is at the other end");
    lab.plug(Link::Down);
    assert_eq!(lab.r32(8) & 0xc3, 0x83);
    assert_eq!(lab.receive(&BROADCAST), RxOutcome::NotReceiving, "the cable is cut off");
    assert!(lab.rx(0).is_empty());
    lab.xmit(0, &[&BROADCAST]);
    lab.us(1);
    let back: Vec<_> = lab.rx(0).into_iter().map(|received| received.bytes).collect();
    assert_eq!(back, [BROADCAST]);
    assert!(lab.sent().is_empty());
    lab.mdio_write(0, 0x1140);
    lab.us(30_000);
    assert_eq!(lab.r32(8) & LINK_UP, 0, "it is pulled");
    lab.plug(Link::Up { mbps: 1_000 });
    lab.us(30_000);
    lab.xmit(0, &[&BROADCAST]);
    lab.us(1);
    assert!(lab.rx(0).is_empty());
    assert_eq!(lab.sent(), [BROADCAST]);
}
