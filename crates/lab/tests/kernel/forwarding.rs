//! Packets into one card, which the guest's kernel forwards over two unmodified drivers to the wire of another.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_inject::{Forwarding, Plan, Receiver, Warmup};
use warikomi_lab::inject::{Application, Injected, inject};
use warikomi_nic::{Link, NicOptions};
use warikomi_protocol::commands::LinkState;
use warikomi_session::{Exit, SecondCard, Session, SessionOptions};

use crate::bring::{image_with_more_drivers, options_with, plan, sink, started, wait_until};

const COUNT: u64 = 300;

fn model_of(driver: &str) -> NicOptions {
    let mut models = warikomi_nic::MODELS.iter();
    let model = models.find(|model| model.linux_drivers.contains(&driver)).expect("a model");
    NicOptions::of(model.name)
}

/// Two cards with these drivers; nothing if the kernel was not built with them.
fn forwards(forwarding: Forwarding, drivers: [&str; 2]) -> Option<Session> {
    let [first, second] = drivers;
    let second = SecondCard {
        driver: second.into(),
        nic: model_of(second),
        wire: "sink".parse().expect("a wire"),
        forwarding,
    };
    let options = SessionOptions {
        driver: first.into(),
        nic: model_of(first),
        second: Some(second),
        ..options_with(&image_with_more_drivers()?)
    };
    Some(started(&options, sink()))
}

fn asked(interval: Span, count: u64) -> Plan {
    let warmup = Warmup::NONE;
    Plan { receiver: Receiver::SecondCard, warmup, ..plan(200, interval, count) }
}

fn frames_out(session: &mut Session) -> u64 {
    session.target.card(Exit::CARD).unwrap().0.wire().counters().tx_frames
}

/// All of it is accounted for, whatever became of it.
fn forwarded(session: &mut Session, plan: &Plan, run_id: u32) -> Injected {
    let (before, application) = (frames_out(session), Application::default());
    let injected = inject(session, plan, application, run_id, &mut |_| ()).unwrap();
    injected.check().unwrap_or_else(|error| panic!("{error}: {:?}", injected.result.figures));
    let figures = &injected.result.figures;
    assert_eq!(figures["departed_altered"], 0);
    // The wire itself has seen what the ledger calls delivered, and what is not of the run.
    let others = figures["departed_of_others"].as_u64().unwrap();
    assert_eq!(frames_out(session) - before, injected.ledger.totals().delivered + others);
    injected
}

fn pass_through(forwarding: Forwarding, drivers: [&str; 2]) {
    let Some(mut session) = forwards(forwarding, drivers) else { return };
    let settings = &session.info.settings;
    assert_eq!(settings["through"], forwarding.name());
    assert_eq!(
        (&*session.info.driver, &settings["second_driver"]),
        (drivers[0], &drivers[1].into())
    );
    // A pause of this machine may cost packets, and then not every time.
    let injected = (1..=10)
        .map(|run| forwarded(&mut session, &asked(Span::from_us(300), COUNT), run))
        .find(|injected| injected.ledger.totals().delivered == COUNT)
        .expect("a run in which all are forwarded");
    let totals = injected.ledger.totals();
    assert_eq!((totals.accepted, totals.lost, totals.unclaimed), (COUNT, 0, 0), "{totals:?}");
    let transit = injected.result.transit_ns.expect("how long it took");
    assert_eq!(transit.count, COUNT);
    let behind = |row: warikomi_measure::Row| row.delivered > row.injected;
    assert!(injected.ledger.rows().all(behind), "nothing leaves before it has come");
    let figures = &injected.result.figures;
    let routed = if forwarding == Forwarding::Bridge { 0 } else { COUNT };
    assert_eq!(figures["ip_forwarded"], routed);
    assert!(figures["second_driver_sent"].as_u64() >= Some(COUNT), "{figures:?}");
    session.stop().unwrap();
}

#[test]
fn one_driver_routes_to_itself() {
    pass_through(Forwarding::Route, ["r8169", "r8169"]);
}

#[test]
fn drivers_of_different_cards_route() {
    pass_through(Forwarding::Route, ["igb", "8139too"]);
}

#[test]
fn one_driver_bridges_to_itself() {
    pass_through(Forwarding::Bridge, ["e1000e", "e1000e"]);
}

#[test]
fn drivers_of_different_cards_bridge() {
    pass_through(Forwarding::Bridge, ["r8169", "e1000e"]);
}

#[test]
fn one_driver_is_bonded_to_itself() {
    pass_through(Forwarding::Bond, ["igb", "igb"]);
}

#[test]
fn drivers_of_different_cards_are_bonded() {
    pass_through(Forwarding::Bond, ["r8169", "e1000e"]);
}

fn set_cable(session: &mut Session, link: Link) {
    let (nic, mut host) = session.target.card(Exit::CARD).unwrap();
    nic.set_link(&mut host, link);
    let interface = session.exit.as_ref().map(|exit| exit.interface.clone());
    wait_until(session, "the driver has seen the cable", |session| {
        let state = LinkState { interface: interface.clone() };
        session.target.ask(state, Duration::ZERO).unwrap().carrier == (link != Link::Down)
    });
}

/// What the first driver has taken and a cable that is pulled does not let out is lost behind it, and said to be.
#[test]
fn without_the_second_cable_packets_are_lost_behind_the_first_driver() {
    let Some(mut session) = forwards(Forwarding::Route, ["r8169", "igb"]) else { return };
    set_cable(&mut session, Link::Down);
    let injected = forwarded(&mut session, &asked(Span::from_us(300), COUNT), 1);
    let totals = injected.ledger.totals();
    assert_eq!((totals.delivered, totals.lost_on_ring), (0, 0), "{totals:?}");
    assert_eq!(totals.lost_in_stack, totals.accepted, "{totals:?}");
    assert!(totals.accepted > 0 && totals.missed() + totals.accepted == COUNT, "{totals:?}");
    let said = injected.result.warnings.iter().find(|warning| warning.what.contains("second card"));
    let said = &said.expect("a warning").what;
    assert!(said.contains(&format!("ip_forwarded {}", totals.accepted)), "{said}");
    set_cable(&mut session, Link::Up { mbps: 1_000 });
    let again = forwarded(&mut session, &asked(Span::from_us(300), COUNT), 2);
    assert!(again.ledger.totals().delivered > 0, "{:?}", again.ledger.totals());
    session.stop().unwrap();
}

/// As fast as possible: the first card's ring overruns, or the queue before the second driver.
#[test]
fn what_comes_too_fast_is_missed_or_lost_and_all_else_leaves() {
    let Some(mut session) = forwards(Forwarding::Bridge, ["r8169", "8139too"]) else { return };
    let injected = forwarded(&mut session, &asked(Span::ZERO, 20_000), 1);
    let totals = injected.ledger.totals();
    assert!(totals.no_descriptor > 0, "{totals:?}");
    assert_eq!(totals.delivered + totals.lost_in_stack, totals.accepted, "{totals:?}");
    let departed = injected.ledger.rows().filter(|row| row.delivered.is_some()).count() as u64;
    assert!(departed > 0 && departed == totals.delivered, "{totals:?}");
    session.stop().unwrap();
}
