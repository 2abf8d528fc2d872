//! A card that is pulled out while frames come, and plugged in again: the driver lets go of the one, and finds
//! the other.

use std::time::Duration;

use warikomi_clock::{Seed, Span};
use warikomi_inject::{Addresses, Fault, FaultSchedule, Faulty, FrameTemplate, Plan};
use warikomi_lab::inject::Injected;
use warikomi_measure::Verdict;
use warikomi_protocol::commands::ReadFile;
use warikomi_session::{Session, SessionOptions, bring_up_again};
use warikomi_target::{CardId, Target};

use crate::ask::received;
use crate::bring::{options, plan, sink, started, wait_until};
use crate::perfect::injected;

const DRIVER: &str = "r8169";
const UNPLUGGED: &str = "device-unplugged:at=5ms,for=20ms";

/// Puts a card into the slot that will be pulled out, and begins to wait for that.
fn prepare(session: &mut Session, fault: &str) {
    let fault: Fault = fault.parse().unwrap();
    let schedule = FaultSchedule::new(&[fault], Seed(1));
    let slot = session.target.slot(CardId::FIRST).unwrap();
    if Faulty::of(&mut **slot).is_none() {
        slot.change(|nic| Box::new(Faulty::new(nic, FaultSchedule::new(&[], Seed(1)))));
    }
    let now = session.target.clock().now();
    let faulty = Faulty::of(session.target.card(CardId::FIRST).unwrap().0).unwrap();
    *faulty.schedule() = schedule;
    faulty.schedule().start(now);
}

fn replugs(session: &mut Session) -> u64 {
    Faulty::of(session.target.card(CardId::FIRST).unwrap().0).unwrap().replugs()
}

/// Sends a frame every 50 µs, whatever becomes of it.
pub(crate) fn send(target: &mut dyn Target, count: u64) {
    let mac = target.card(CardId::FIRST).unwrap().0.mac_address();
    let mut frames = FrameTemplate::new(&Addresses::to_guest(mac), 200, 1).unwrap();
    for sequence in 0..count {
        let (nic, mut host) = target.card(CardId::FIRST).unwrap();
        nic.receive(&mut host, frames.frame(sequence));
        target.serve_for(Duration::from_micros(50)).unwrap();
    }
}

fn has_interface(session: &mut Session) -> bool {
    let file = ReadFile { path: "/sys/class/net/eth0/ifindex".into() };
    session.target.ask(file, Duration::ZERO).is_ok()
}

/// Whichever attachment is asked for: virt-pci has no hotplug.
fn session_by_the_bridge() -> Session {
    let options = SessionOptions { bridge: true, ..options() };
    started(&options, sink())
}

#[test]
fn a_card_is_pulled_out_under_traffic_and_found_again_ten_times() {
    let mut session = session_by_the_bridge();
    for round in 1..=10 {
        prepare(&mut session, "device-unplugged:at=5ms,for=300ms");
        send(&mut *session.target, 200);
        wait_until(&mut session, "the interface is gone", |session| !has_interface(session));
        assert_eq!(replugs(&mut session), round - 1, "it was gone while the card was out");
        wait_until(&mut session, "the card is back", |session| replugs(session) == round);
        bring_up_again(&mut *session.target, DRIVER).unwrap_or_else(|error| panic!("{error}"));
        let before = received(&mut session);
        send(&mut *session.target, 100);
        assert_eq!(received(&mut session) - before, 100, "round {round}");
    }
    let marks = session.target.agent().unwrap().fault_marks().unwrap();
    let console = session.target.console().to_string();
    assert!(marks == 0 && !console.contains("cut here"), "{console}");
    session.stop().unwrap();
}

#[test]
fn a_guest_that_has_not_noticed_that_a_card_was_out_takes_the_new_one_for_what_it_is() {
    let mut session = session_by_the_bridge();
    prepare(&mut session, "device-unplugged:at=1ms,for=1us");
    send(&mut *session.target, 40);
    assert_eq!(replugs(&mut session), 1);
    bring_up_again(&mut *session.target, DRIVER).unwrap_or_else(|error| panic!("{error}"));
    let before = received(&mut session);
    send(&mut *session.target, 100);
    assert_eq!(received(&mut session) - before, 100);
    session.stop().unwrap();
}

#[test]
fn an_injection_goes_on_and_ends_with_a_driver_that_works() {
    let mut session = session_by_the_bridge();
    let plan =
        Plan { faults: vec![UNPLUGGED.parse().unwrap()], ..plan(500, Span::from_us(50), 1_000) };
    let Injected { result, ledger, .. } = injected(&mut session, &plan);
    let report = result.faults.expect("a run with faults has a report on them");
    let totals = ledger.totals();
    assert_eq!(report.findings[0].injected, 1);
    assert_eq!(report.findings[0].verdict, Verdict::LostPackets, "{:?}", report.evidence);
    assert_eq!(report.evidence.probe_accepted, report.evidence.probe_packets);
    assert!(totals.accepted >= 50 && totals.not_receiving >= 400, "{totals:?}");
    session.stop().unwrap();
}

#[test]
fn virt_pci_has_no_slot_that_a_card_can_be_pulled_out_of() {
    let options = SessionOptions { bridge: false, ..options() };
    let mut session = started(&options, sink());
    let (_, host) = session.target.card(CardId::FIRST).unwrap();
    assert!(!host.interrupts.has_hotplug());
    session.stop().unwrap();
}
