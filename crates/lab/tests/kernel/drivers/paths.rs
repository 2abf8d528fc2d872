//! What is tried with every driver. Each function is a path: it fails where the driver does not get along with its card,
//! and is `None` where it cannot be tried.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_inject::{Plan, Warmup};
use warikomi_lab::Watch;
use warikomi_lab::replace::kernel::{Options, Traffic, replace};
use warikomi_lab::replace::{Load, Row};
use warikomi_nic::{Link, Nic};
use warikomi_protocol::answers::{self, InterruptKind};
use warikomi_protocol::commands::{
    Configure, Pktgen, ReadFile, SelfTest, Transmit, TransmitTcp, VlanAdd, WaitInterface, WriteFile,
};
use warikomi_session::{GuestSettings, Session, SessionOptions, bring_up_again};
use warikomi_target::CardId;
use warikomi_wire::{HEADER_BYTES, Responder};

use super::Pair;
use crate::ask::{counters, link, on_the_wire};
use crate::bring::{image_with_more_drivers, plan, sink, started, wait_until, wire};
use crate::hotplug::send;
use crate::perfect::attempt;
use crate::sizes::{USUAL_BYTES, all_arrive};

fn nic(session: &mut Session) -> &mut dyn Nic {
    session.target.card(CardId::FIRST).unwrap().0
}

fn interface(session: &mut Session, pair: &Pair) -> answers::Interface {
    let wanted = WaitInterface::of(pair.driver, 0);
    session.target.ask(wanted, Duration::ZERO).unwrap()
}

/// Ends what was tried. Nothing that the kernel holds for a fault was printed.
fn stop(session: Session) -> Option<()> {
    let console = session.target.console().to_string();
    assert!(!console.contains("cut here"), "{console}");
    session.stop().unwrap();
    Some(())
}

pub(super) fn probe(pair: &Pair) -> Option<()> {
    let options = pair.options()?;
    let mut session = started(&options, sink());
    let found = interface(&mut session, pair);
    assert_eq!(found.mac, "02:57:4b:00:00:01");
    for (name, value) in [("class", "0x020000"), ("device", pair.device)] {
        let file = ReadFile { path: format!("/sys/bus/pci/devices/{}/{name}", found.pci_address) };
        assert_eq!(session.target.ask(file, Duration::ZERO).unwrap().text.trim(), value);
    }
    let state = link(&mut session);
    assert_eq!((state.carrier, state.speed_mbps), (true, Some(pair.mbps)));
    assert_eq!(state.duplex.as_deref(), Some("full"));
    let kind = counters(&mut session).interrupt_kind;
    // Without our bridge a driver has a message, of whichever kind.
    assert!(kind == pair.interrupts || !options.bridge && kind != InterruptKind::Intx, "{kind:?}");
    assert_eq!(session.target.counters().intx_undeliverable, 0);
    stop(session)
}

pub(super) fn link_flap(pair: &Pair) -> Option<()> {
    let mut session = pair.with_sink()?;
    let speeds = [(Link::Down, None), (Link::Up { mbps: 100 }, Some(100))];
    for (cable, speed) in speeds.into_iter().cycle().take(4) {
        let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
        nic.set_link(&mut host, cable);
        // Some drivers ask their PHY every two seconds only.
        wait_until(&mut session, "the driver has noticed", |session| {
            let state = link(session);
            state.carrier == speed.is_some() && (speed.is_none() || state.speed_mbps == speed)
        });
    }
    all_arrive(&mut session, &[200], pair.backlog)?;
    stop(session)
}

pub(super) fn receive(pair: &Pair) -> Option<()> {
    let mut session = pair.with_sink()?;
    all_arrive(&mut session, &USUAL_BYTES, pair.backlog)?;
    stop(session)
}

pub(super) fn transmit(pair: &Pair) -> Option<()> {
    let mut session = pair.with_sink()?;
    for payload_bytes in [18, 1_472] {
        let before = on_the_wire(&mut session);
        let command = Pktgen {
            interface: None,
            count: 2_000,
            payload_bytes,
            burst: 1,
            destination: "10.9.0.2:9".into(),
            destination_mac: "02:57:4b:00:00:02".into(),
            timeout_ms: 20_000,
        };
        let sent = session.target.ask(command, Duration::from_secs(25)).unwrap();
        assert_eq!((sent.sent, sent.errors, sent.timed_out), (2_000, 0, false));
        wait_until(&mut session, "all is on the wire", |session| {
            on_the_wire(session) - before >= 2_000
        });
        assert_eq!(counters(&mut session).interface["tx_errors"], 0);
    }
    stop(session)
}

/// The longest frame that driver and card both take.
pub(super) fn jumbo(pair: &Pair) -> Option<()> {
    let options = pair.options()?;
    let settings = GuestSettings { mtu: Some(pair.mtu_bytes), ..options.settings.clone() };
    let mut session = started(&SessionOptions { settings, ..options }, sink());
    let longest = pair.mtu_bytes as usize + HEADER_BYTES;
    all_arrive(&mut session, &[60, 1_514, 1_515, longest - 1, longest], pair.backlog)?;
    stop(session)
}

pub(super) fn vlan(pair: &Pair) -> Option<()> {
    let capture = tempfile::NamedTempFile::new().unwrap();
    let kind = format!("pcap:{}", capture.path().display());
    let mut session = started(&pair.options()?, wire(&kind));
    let address_cidr = "10.9.7.1/24".into();
    let vlan = VlanAdd { interface: None, vlan: 7, address_cidr, header_with_tag: false };
    session.target.ask(vlan, Duration::ZERO).unwrap();
    let before = on_the_wire(&mut session);
    let tagged = Transmit {
        count: 10,
        payload_bytes: 200,
        destination: "10.9.7.2:5002".into(),
        run_id: 1,
        interval_us: 0,
        vlan: Some(7),
        timeout_ms: 5_000,
    };
    session.target.ask(tagged, Duration::from_secs(5)).unwrap();
    wait_until(&mut session, "a frame is on the wire", |session| on_the_wire(session) > before);
    nic(&mut session).wire().finish().unwrap();
    // That address is no one's, so what goes out is the question whose it is, with the VLAN's tag.
    let frames = std::fs::read(capture.path()).unwrap();
    let tagged_arp = [0x81, 0x00, 0x00, 0x07, 0x08, 0x06];
    assert!(frames.windows(6).any(|bytes| bytes == tagged_arp));
    stop(session)
}

/// TCP is cut into segments by the card, and checksummed by it: the peer takes none that is not right.
pub(super) fn segmentation(pair: &Pair) -> Option<()> {
    const BYTES: u64 = 2_000_000;
    let responder = Responder::default();
    let responses = responder.responses();
    let mut session = started(&pair.options()?, Box::new(responder));
    let offloads = ["sg", "tx", "tso"].map(|name| (name.to_owned(), true)).into();
    let wanted = Configure { offloads, ..Configure::report_only() };
    let in_force = session.target.ask(wanted, Duration::ZERO).unwrap().after.offloads;
    assert!(in_force["tx-tcp-segmentation"]);
    let send = TransmitTcp {
        count_bytes: BYTES,
        write_bytes: 65_536,
        destination: "10.9.0.2:5001".into(),
        timeout_ms: 10_000,
    };
    let before = (on_the_wire(&mut session), nic(&mut session).counters().tx_descriptors);
    let sent = session.target.ask(send, Duration::from_secs(30)).unwrap();
    assert_eq!(sent.sent_bytes, BYTES);
    wait_until(&mut session, "all of it has arrived", |_| responses.tcp_bytes() >= BYTES);
    assert_eq!(responses.tcp_bytes(), BYTES, "and no more");
    assert_eq!(responses.tcp_wrong_bytes(), 0, "as they were sent");
    let frames = on_the_wire(&mut session) - before.0;
    let descriptors = nic(&mut session).counters().tx_descriptors - before.1;
    assert!(frames > descriptors, "{frames} frames out of {descriptors} descriptors");
    stop(session)
}

/// The kernel's counts, and the card's own where ethtool shows them, are the ledger's.
pub(super) fn statistics(pair: &Pair) -> Option<()> {
    let mut session = pair.with_sink()?;
    let counted = |session: &mut Session| {
        let counted = counters(session);
        let by_card = pair.counter.map(|name| counted.driver[name]);
        let errors = counted.interface["rx_errors"] + counted.interface["rx_dropped"];
        (counted.interface["rx_packets"], by_card, errors)
    };
    let before = counted(&mut session);
    let warmup = Warmup::NONE;
    let plan = Plan { warmup, ..plan(500, Span::from_us(100), 1_000) };
    let accepted = attempt(&mut session, &plan).ledger.totals().accepted;
    assert!(accepted > 0);
    // A driver may read its card's counters every two seconds.
    wait_until(&mut session, "the counters are those of the ledger", |session| {
        let after = counted(session);
        let by_card =
            after.1.zip(before.1).is_none_or(|(after, before)| after - before >= accepted);
        after.0 - before.0 >= accepted && by_card
    });
    let after = counted(&mut session);
    assert_eq!((after.0 - before.0, after.2), (accepted, before.2));
    assert!(after.1.zip(before.1).is_none_or(|(after, before)| after - before == accepted));
    stop(session)
}

/// The driver tests its card, twice, and goes on behind it.
pub(super) fn self_test(pair: &Pair) -> Option<()> {
    let mut session = pair.with_sink()?;
    for _ in 0..2 {
        let test = SelfTest { interface: None };
        let tested = session.target.ask(test, Duration::from_secs(60)).unwrap();
        let good = tested.results.values().all(|&result| result == 0);
        assert!(tested.passed && good && tested.results.len() == 5, "{tested:?}");
    }
    bring_up_again(&mut *session.target, pair.driver).unwrap_or_else(|error| panic!("{error}"));
    all_arrive(&mut session, &[60, 1_514], pair.backlog)?;
    stop(session)
}

/// A flood is counted to the packet, and the driver goes on behind it.
pub(super) fn overrun(pair: &Pair) -> Option<()> {
    let mut session = pair.with_sink()?;
    let warmup = Warmup::NONE;
    let flood = Plan { warmup, ..plan(60, Span::ZERO, 100_000) };
    let ledger = attempt(&mut session, &flood).ledger.totals();
    assert!(ledger.no_descriptor > 0, "no ring is that long: {ledger:?}");
    let known = ledger.no_descriptor + ledger.accepted + ledger.lost_on_ring;
    assert_eq!((ledger.planned, known), (100_000, 100_000), "{ledger:?}");
    all_arrive(&mut session, &[60], pair.backlog)?;
    stop(session)
}

/// The module is taken out and loaded again; first with nothing to do, then under traffic.
pub(super) fn reload(pair: &Pair) -> Option<()> {
    let options = pair.options()?;
    let (host, traffic) = Traffic::with_host();
    let mut session = started(&options, Box::new(host));
    let loads = vec![Load::Idle, Load::Busy];
    let asked = Options { loads, trials: 2, ..Options::default() };
    let replaced = replace(&mut session, &options, &traffic, &asked, &mut Watch::unobserved());
    for row in replaced.unwrap_or_else(|error| panic!("{error}")).rows.unwrap() {
        let row: Row = serde_json::from_value(serde_json::Value::Object(row)).unwrap();
        assert_eq!(row.replacements, 2, "{row:?}");
        assert!(row.load != "idle" || row.lost == 0, "{row:?}");
    }
    stop(session)
}

/// The kernel puts the card to sleep, and wakes it after a second (Documentation/power/basic-pm-debugging.rst).
pub(super) fn suspend(pair: &Pair) -> Option<()> {
    let mut session = started(&pair.options_on(&image_with_more_drivers()?)?, sink());
    let write = |session: &mut Session, path: &str, text: &str| {
        let write = WriteFile { path: path.into(), text: text.into() };
        session.target.ask(write, Duration::from_secs(20)).unwrap();
    };
    write(&mut session, "/sys/module/suspend/parameters/pm_test_delay", "1");
    write(&mut session, "/sys/power/pm_test", "platform");
    for _ in 0..2 {
        write(&mut session, "/sys/power/state", "freeze");
        bring_up_again(&mut *session.target, pair.driver).unwrap_or_else(|error| panic!("{error}"));
        all_arrive(&mut session, &[500], pair.backlog)?;
    }
    stop(session)
}

/// The driver is made to leave its card while frames come, and to take it again.
pub(super) fn unbind(pair: &Pair) -> Option<()> {
    let mut session = pair.with_sink()?;
    let address = interface(&mut session, pair).pci_address;
    for _ in 0..3 {
        for what in ["unbind", "bind"] {
            send(&mut *session.target, 100);
            let path = format!("/sys/bus/pci/drivers/{}/{what}", pair.driver);
            let write = WriteFile { path, text: address.clone() };
            session.target.ask(write, Duration::from_secs(5)).unwrap();
        }
        bring_up_again(&mut *session.target, pair.driver).unwrap_or_else(|error| panic!("{error}"));
        all_arrive(&mut session, &[500], pair.backlog)?;
    }
    stop(session)
}
