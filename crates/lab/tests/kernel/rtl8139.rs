//! The RTL8139 in both its modes: 8139too and 8139cp, unmodified, with their interrupts by the pin.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_lab::Watch;
use warikomi_lab::replace::kernel::{Options, Traffic, replace};
use warikomi_lab::replace::{Load, Row};
use warikomi_nic::{Link, NicOptions};
use warikomi_protocol::answers::InterruptKind;
use warikomi_protocol::commands::{Counters, Pktgen};
use warikomi_session::{Session, SessionOptions};
use warikomi_target::{CardId, Interrupted};
use warikomi_testbench::skipped;
use warikomi_wire::{Wire, WireKind};

use crate::bring::{options, plan, wait_until};
use crate::perfect::injected;

/// Each driver, and the model that it binds to.
const DRIVERS: [(&str, &str); 2] = [("8139too", "rtl8139"), ("8139cp", "rtl8139cp")];

/// How the driver is brought up, if cards are attached so that INTx reaches it.
fn options_for((driver, model): (&str, &str)) -> Option<SessionOptions> {
    let options = options();
    if !options.bridge {
        skipped("virt-pci has no INTx");
        return None;
    }
    Some(SessionOptions { driver: driver.into(), nic: NicOptions::of(model), ..options })
}

fn started(options: &SessionOptions, wire: Box<dyn Wire>) -> Session {
    Session::start(options, wire, &Interrupted::default(), &mut |_| ())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn sink() -> Box<dyn Wire> {
    "sink".parse::<WireKind>().unwrap().build().unwrap()
}

#[test]
fn each_driver_binds_to_its_own_chip_and_receives_every_size() {
    for which in DRIVERS {
        let Some(options) = options_for(which) else { return };
        let mut session = started(&options, sink());
        let counters = session.target.ask(Counters { interface: None }, Duration::ZERO).unwrap();
        assert_eq!(counters.interrupt_kind, InterruptKind::Intx);
        for size in [60, 61, 64, 300, 1_024, 1_513, 1_514] {
            let run = injected(&mut session, &plan(size, Span::from_us(200), 500));
            let ledger = run.ledger.totals();
            let seen = (ledger.accepted, ledger.delivered, ledger.unaccounted);
            assert_eq!(seen, (500, 500, 0), "{which:?}: {size} bytes");
        }
        assert_eq!(session.target.counters().intx_undeliverable, 0);
        session.stop().unwrap();
    }
}

#[test]
fn what_each_driver_sends_is_on_the_wire() {
    for which in DRIVERS {
        let Some(options) = options_for(which) else { return };
        let mut session = started(&options, sink());
        for payload_bytes in [18, 1_472] {
            let before = session.target.card(CardId::FIRST).unwrap().0.wire().counters().tx_frames;
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
            assert_eq!((sent.sent, sent.errors, sent.timed_out), (2_000, 0, false), "{which:?}");
            wait_until(&mut session, "all is on the wire", |session| {
                let nic = session.target.card(CardId::FIRST).unwrap().0;
                nic.wire().counters().tx_frames - before >= 2_000
            });
        }
        session.stop().unwrap();
    }
}

#[test]
fn a_cable_that_is_pulled_and_plugged_is_noticed() {
    for which in DRIVERS {
        let Some(options) = options_for(which) else { return };
        let mut session = started(&options, sink());
        for link in [Link::Down, Link::Up { mbps: 100 }] {
            let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
            nic.set_link(&mut host, link);
            session.target.serve_for(Duration::from_millis(300)).unwrap();
        }
        let run = injected(&mut session, &plan(200, Span::from_us(200), 500));
        assert_eq!(run.ledger.totals().delivered, 500, "{which:?}");
        session.stop().unwrap();
    }
}

#[test]
fn each_module_is_replaced_again_and_again() {
    for which in DRIVERS {
        let Some(options) = options_for(which) else { return };
        let (host, traffic) = Traffic::with_host();
        let mut session = started(&options, Box::new(host));
        let asked = Options { loads: vec![Load::Idle], trials: 3, ..Options::default() };
        let replaced = replace(&mut session, &options, &traffic, &asked, &mut Watch::unobserved());
        let rows = replaced.unwrap_or_else(|error| panic!("{error}")).rows.unwrap();
        let row = serde_json::Value::Object(rows.into_iter().next().expect("a row"));
        let row: Row = serde_json::from_value(row).unwrap();
        assert_eq!((row.replacements, row.lost), (3, 0), "{which:?} {row:?}");
        session.stop().unwrap();
    }
}
