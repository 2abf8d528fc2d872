//! The PHY as phylib uses it.

use warikomi_clock::Span;
use warikomi_nic::{Link, Nic, Offer, RxOutcome};

use super::driver::{Lab, STATION, frame_to};

const SETTLED: Span = Span::from_ms(25);

#[test]
fn linux_finds_a_driver_for_its_phy() {
    let mut lab = Lab::new();
    assert_eq!((lab.mdio_read(2), lab.mdio_read(3)), (0x001c, 0xc912));
}

#[test]
fn the_link_is_up_from_the_start() {
    let mut lab = Lab::new();
    assert_eq!(lab.r8(0x6c), 0x13, "1,000 Mbit/s, link, full duplex");
    assert_eq!(lab.mdio_read(1) & 0x0024, 0x0024);
    assert_eq!(lab.mdio_read(10) & 0x0800, 0x0800, "the partner does 1000BASE-T");
    assert_eq!(lab.mdio_read(5), 0x41e1);
}

#[test]
fn pages_other_than_the_first_hold_what_is_written() {
    let mut lab = Lab::new();
    // rtl8168c_1_hw_phy_config writes to registers 0, 1 and 3 of page 2.
    lab.mdio_write(0x1f, 2);
    lab.mdio_write(0, 0x88d4);
    lab.mdio_write(1, 0x82b1);
    assert_eq!((lab.mdio_read(0), lab.mdio_read(1), lab.mdio_read(0x1f)), (0x88d4, 0x82b1, 2));
    lab.mdio_write(0x1f, 0);
    assert_eq!((lab.mdio_read(0), lab.mdio_read(2)), (0x1140, 0x001c));
}

#[test]
fn pulling_the_cable_is_told_and_stays_visible_until_read() {
    let mut lab = Lab::open();
    lab.plug(Link::Down);
    assert_eq!((lab.r16(0x3e), lab.raised(), lab.r8(0x6c)), (0x20, 1, 0));
    lab.w16(0x3e, 0xffff);
    lab.plug(Link::Up { mbps: 1_000 });
    assert_eq!(lab.r16(0x3e), 0, "negotiating");
    lab.wait(SETTLED);
    assert_eq!((lab.r16(0x3e), lab.r8(0x6c)), (0x20, 0x13));
    assert_eq!(lab.mdio_read(1) & 4, 0, "latched low");
    assert_eq!(lab.mdio_read(1) & 4, 4);
    assert!(lab.nic.receiving());
}

#[test]
fn the_best_common_speed_is_chosen() {
    for (partner, advertise, control, status) in [
        (1_000, 0x0de1, 0x0300, 0x13),
        (100, 0x0de1, 0x0300, 0x0b),
        (10, 0x0de1, 0x0300, 0x07),
        (1_000, 0x0de1, 0x0000, 0x0b), // gigabit not advertised
        (1_000, 0x0061, 0x0000, 0x07),
        (1_000, 0x0081, 0x0000, 0x0a), // 100 Mbit/s half duplex only
        (100, 0x0001, 0x0300, 0x00),   // nothing in common
        (0, 0x0de1, 0x0300, 0x00),
    ] {
        let mut lab = Lab::open();
        lab.plug(Link::Up { mbps: partner });
        lab.mdio_write(4, advertise);
        lab.mdio_write(9, control);
        lab.mdio_write(0, 0x1340);
        assert_eq!(lab.mdio_read(0) & 0x0200, 0, "restart clears itself");
        assert_eq!(lab.r8(0x6c), 0);
        lab.wait(SETTLED);
        assert_eq!(lab.r8(0x6c), status, "partner {partner}, {advertise:#x}, {control:#x}");
    }
}

#[test]
fn a_forced_speed_needs_a_partner_that_has_it() {
    for (bmcr, partner, status) in
        [(0x2100, 1_000, 0x0b), (0x0000, 100, 0x06), (0x0140, 100, 0), (0x2000, 10, 0)]
    {
        let mut lab = Lab::open();
        lab.plug(Link::Up { mbps: partner });
        lab.mdio_write(0, bmcr);
        lab.wait(SETTLED);
        assert_eq!(lab.r8(0x6c), status, "{bmcr:#x} with {partner}");
        assert_eq!(lab.mdio_read(5), 0, "no negotiation, no ability");
    }
}

/// Advertisement, 1000BASE-T control and control register of a card, as a driver writes them.
type Settings = (u16, u16, u16);

/// What both cards of a cable have for a link, of which each is told what the other offers.
fn cabled(ends: [Settings; 2]) -> [u8; 2] {
    let mut labs = [Lab::open(), Lab::open()];
    for (lab, (advertise, gigabit, control)) in labs.iter_mut().zip(ends) {
        lab.mdio_write(4, advertise);
        lab.mdio_write(9, gigabit);
        lab.mdio_write(0, control);
    }
    let offers = labs.each_ref().map(|lab| lab.nic.offered_link());
    let [first, second] = &mut labs;
    first.plug(offers[1]);
    second.plug(offers[0]);
    labs.map(|mut lab| {
        lab.wait(SETTLED);
        lab.r8(0x6c)
    })
}

#[test]
fn two_cards_agree_on_what_both_can_do() {
    const ALL: Settings = (0x0de1, 0x0300, 0x1340);
    for (ends, links) in [
        ([ALL, ALL], [0x13, 0x13]),
        ([ALL, (0x0061, 0x0000, 0x1340)], [0x07, 0x07]),
        // What is best for one of them, the other does not have.
        ([(0x0181, 0x0000, 0x1340), (0x01e1, 0x0200, 0x1340)], [0x0b, 0x0b]),
        ([(0x0061, 0x0000, 0x1340), (0x0181, 0x0300, 0x1340)], [0, 0]),
        ([ALL, (0x0de1, 0x0300, 0x0800)], [0, 0]), // power-down
        // Forced, both to the same or not.
        ([(0, 0, 0x2100), (0, 0, 0x2100)], [0x0b, 0x0b]),
        ([(0, 0, 0x0140), (0, 0, 0x0140)], [0x13, 0x13]),
        ([(0, 0, 0x2100), (0, 0, 0x0100)], [0, 0]),
        // One that negotiates finds out the speed, not the duplex mode, and not 1,000 Mbit/s (28.2.3.1).
        ([(0, 0, 0x2100), ALL], [0x0b, 0x0a]),
        ([(0, 0, 0x0100), ALL], [0x07, 0x06]),
        ([(0, 0, 0x0140), ALL], [0, 0]),
        ([(0, 0, 0x2100), (0x0061, 0x0300, 0x1340)], [0, 0]),
    ] {
        assert_eq!(cabled(ends), links, "{ends:04x?}");
    }
}

#[test]
fn a_partner_that_does_not_negotiate_sends_no_page() {
    let mut lab = Lab::open();
    lab.plug(Link::Phy(Offer::from_bits(0x0180).unwrap()));
    lab.wait(SETTLED);
    assert_eq!((lab.mdio_read(5), lab.mdio_read(6), lab.mdio_read(10)), (0x0080, 0, 0));
    lab.plug(Link::Phy(Offer::from_bits(0x1180).unwrap()));
    lab.wait(SETTLED);
    assert_eq!((lab.mdio_read(5), lab.mdio_read(6)), (0x4181, 3));
    assert_eq!(Offer::from_bits(0x0001), None);
}

#[test]
fn power_down_takes_the_link_and_power_up_brings_it_back() {
    let mut lab = Lab::open();
    lab.mdio_write(0, 0x1940);
    assert_eq!((lab.r8(0x6c), lab.receive(&frame_to(STATION, 90))), (0, RxOutcome::NotReceiving));
    lab.wait(SETTLED);
    assert_eq!(lab.r8(0x6c), 0);
    lab.mdio_write(0, 0x1140);
    lab.wait(SETTLED);
    assert_eq!((lab.r8(0x6c), lab.receive(&frame_to(STATION, 90))), (0x13, RxOutcome::OnRing));
}

#[test]
fn a_phy_reset_restores_its_defaults_and_renegotiates() {
    let mut lab = Lab::open();
    lab.mdio_write(4, 0x0001);
    lab.mdio_write(0, 0x9340);
    assert_eq!((lab.mdio_read(0), lab.mdio_read(4)), (0x1140, 0x0de1), "the bit clears itself");
    lab.wait(SETTLED);
    assert_eq!(lab.r8(0x6c), 0x13);
}

#[test]
fn a_chip_reset_leaves_the_phy_alone_and_power_on_does_not() {
    let mut lab = Lab::open();
    lab.mdio_write(4, 0x0061);
    lab.plug(Link::Up { mbps: 100 });
    lab.wait(SETTLED);
    lab.cleanup();
    assert_eq!((lab.mdio_read(4), lab.r8(0x6c)), (0x0061, 0x07));
    lab.host(|nic, host| nic.power_on(host));
    lab.config(4, warikomi_pci::Width::B2, 6);
    assert_eq!((lab.mdio_read(4), lab.r8(0x6c)), (0x0de1, 0x0b), "the cable is still in");
}

#[test]
fn restarting_over_and_over_needs_one_timer() {
    let mut lab = Lab::open();
    for _ in 0..10_000 {
        lab.mdio_write(0, 0x1340);
        lab.now += Span::from_us(1);
    }
    lab.wait(Span::from_ms(10));
    assert_eq!(lab.r8(0x6c), 0, "20 ms since the last restart are not over");
    lab.wait(Span::from_ms(10));
    assert_eq!(lab.r8(0x6c), 0x13);
}
