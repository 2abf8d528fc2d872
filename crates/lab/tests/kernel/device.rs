//! The driver and its device: probe, link, reload.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_nic::Link;
use warikomi_protocol::answers::DriverOrigin;
use warikomi_protocol::commands::{
    LinkDown, LinkUp, LoadDriver, ReadFile, Renegotiate, UnloadDriver, WaitInterface,
};
use warikomi_session::SessionOptions;
use warikomi_target::CardId;

use crate::ask::{counters, link};
use crate::bring::{
    image_with_drivers_built_in, options, plan, session, sink, started, wait_until,
};
use crate::perfect::{attempt, injected};

fn plug(session: &mut warikomi_session::Session, link: Link) {
    let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
    nic.set_link(&mut host, link);
}

#[test]
fn the_driver_recognises_the_chip_and_its_address() {
    let mut session = session("sink");
    let interface = WaitInterface::of("r8169", 0);
    let found = session.target.ask(interface, Duration::ZERO).unwrap();
    assert_eq!(found.mac, "02:57:4b:00:00:01");
    let class = ReadFile { path: format!("/sys/bus/pci/devices/{}/class", found.pci_address) };
    assert_eq!(session.target.ask(class, Duration::ZERO).unwrap().text.trim(), "0x020000");
    let state = link(&mut session);
    assert_eq!((state.carrier, state.speed_mbps), (true, Some(1_000)));
    assert_eq!(state.duplex.as_deref(), Some("full"));
    session.stop().unwrap();
}

#[test]
fn the_link_follows_the_cable() {
    let mut session = session("sink");
    plug(&mut session, Link::Down);
    wait_until(&mut session, "the driver sees the link down", |session| !link(session).carrier);
    plug(&mut session, Link::Up { mbps: 100 });
    wait_until(&mut session, "it comes back at 100 Mbit/s", |session| {
        let state = link(session);
        state.carrier && state.speed_mbps == Some(100)
    });
    let run = injected(&mut session, &plan(500, Span::from_us(100), 200));
    assert_eq!(run.ledger.totals().delivered, 200);
    session.stop().unwrap();
}

#[test]
fn the_driver_can_take_the_interface_down_and_up_and_renegotiate() {
    let mut session = session("sink");
    assert!(!session.target.ask(LinkDown { interface: None }, Duration::ZERO).unwrap().up);
    let up = LinkUp { interface: None, address_cidr: None, timeout_ms: 5_000 };
    let up = session.target.ask(up, Duration::from_secs(5)).unwrap();
    assert!(up.state.carrier);
    let before = link(&mut session).carrier_changes;
    session.target.ask(Renegotiate { interface: None }, Duration::ZERO).unwrap();
    wait_until(&mut session, "the link went and came", |session| {
        let state = link(session);
        state.carrier && state.carrier_changes > before
    });
    let run = injected(&mut session, &plan(500, Span::from_us(100), 200));
    assert_eq!(run.ledger.totals().delivered, 200);
    session.stop().unwrap();
}

#[test]
fn the_module_can_be_reloaded_again_and_again() {
    let mut session = session("sink");
    for round in 0..3 {
        let unload = UnloadDriver { name: "r8169".into() };
        session.target.ask(unload, Duration::from_secs(5)).unwrap();
        let load = LoadDriver { name: "r8169".into(), params: vec![] };
        let loaded = session.target.ask(load, Duration::from_secs(5)).unwrap();
        assert_eq!(loaded.origin, DriverOrigin::Loaded);
        let wait = WaitInterface::of("r8169", 5_000);
        session.target.ask(wait, Duration::from_secs(5)).unwrap();
        let up =
            LinkUp { interface: None, address_cidr: Some("10.9.0.1/24".into()), timeout_ms: 5_000 };
        session.target.ask(up, Duration::from_secs(5)).unwrap();
        let run = injected(&mut session, &plan(500, Span::from_us(100), 200));
        assert_eq!(run.ledger.totals().delivered, 200, "round {round}");
    }
    session.stop().unwrap();
}

#[test]
#[ignore = "boots a kernel of its own: minutes to build; scripts/test-long"]
fn a_driver_that_is_built_in_works_as_well() {
    let image = image_with_drivers_built_in();
    let options = SessionOptions {
        kernel: image.kernel(),
        initramfs: image.initramfs(),
        bridge: image.info().bridge,
        ..options()
    };
    let mut session = started(&options, sink());
    assert_eq!(session.info.settings["driver_is"], "built_in");
    let run = injected(&mut session, &plan(500, Span::from_us(100), 200));
    assert_eq!(run.ledger.totals().delivered, 200);
    let unload = UnloadDriver { name: "r8169".into() };
    assert!(session.target.ask(unload, Duration::ZERO).is_err(), "it cannot be unloaded");
    session.stop().unwrap();
}

#[test]
fn the_hardware_counters_agree_with_the_ledger() {
    let mut session = session("sink");
    let before = counters(&mut session).driver;
    let mut plan = plan(500, Span::from_us(100), 1_000);
    plan.warmup.count = 0;
    let totals = attempt(&mut session, &plan).ledger.totals();
    let after = counters(&mut session).driver;
    let counted = |name: &str| after[name] - before[name];
    // A driver that had no core for as long as the ring lasts has missed some.
    assert_eq!((totals.injected, counted("rx_missed")), (1_000, totals.no_descriptor));
    assert_eq!(counted("rx_packets"), 1_000 - totals.no_descriptor);
    assert_eq!(after["rx_errors"], 0);
    session.stop().unwrap();
}
