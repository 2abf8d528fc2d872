//! What only the 82574L and the unmodified e1000e have; the rest is in [`drivers`](crate::drivers).

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_nic::NicOptions;
use warikomi_protocol::answers::InterruptKind;
use warikomi_protocol::commands::Counters;
use warikomi_session::{GuestSettings, Session, SessionOptions};
use warikomi_testbench::skipped;

use crate::bring::{image_with_more_drivers, options_with, plan, try_session};
use crate::perfect::perfect;

/// e1000e with its card; `parameters` are the module's. Without our bridge it has MSI alone.
fn options(parameters: &[&str]) -> Option<SessionOptions> {
    Some(SessionOptions {
        driver: "e1000e".into(),
        driver_parameters: parameters.iter().map(|one| (*one).to_owned()).collect(),
        nic: NicOptions::of("e1000e"),
        ..options_with(&image_with_more_drivers()?)
    })
}

fn started(options: &SessionOptions) -> Session {
    try_session(options, "sink").unwrap_or_else(|error| panic!("{error}"))
}

fn counters(session: &mut Session) -> warikomi_protocol::answers::Counters {
    session.target.ask(Counters { interface: None }, Duration::ZERO).unwrap()
}

#[test]
fn it_takes_three_vectors() {
    let Some(options) = options(&[]) else { return };
    if !options.bridge {
        return skipped("virt-pci has one vector");
    }
    let mut session = started(&options);
    let counted = counters(&mut session);
    assert_eq!(counted.interrupt_kind, InterruptKind::MsiX);
    assert_eq!(counted.interrupts.len(), 3, "{:?}", counted.interrupts);
    session.stop().unwrap();
}

#[test]
fn frames_of_every_size_are_received_by_each_kind_of_interrupt() {
    let modes = [
        ("IntMode=2", InterruptKind::MsiX),
        ("IntMode=1", InterruptKind::Msi),
        ("IntMode=0", InterruptKind::Intx),
    ];
    let mut repeated = Vec::new();
    for (mode, kind) in modes {
        // No throttling: each packet has its interrupt.
        let Some(options) = options(&[mode, "InterruptThrottleRate=0"]) else { return };
        if !options.bridge && kind != InterruptKind::Msi {
            continue;
        }
        let mut session = started(&options);
        assert_eq!(counters(&mut session).interrupt_kind, kind);
        for size in [60, 61, 64, 300, 1_024, 1_513, 1_514] {
            let plan = plan(size, Span::from_us(200), 500);
            let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
            let ledger = run.ledger.totals();
            let seen = (ledger.accepted, ledger.delivered, ledger.unaccounted);
            assert_eq!(seen, (500, 500, 0), "{mode}: {size} bytes");
        }
        session.stop().unwrap();
    }
}

#[test]
fn long_frames_come_in_split_buffers() {
    let Some(options) = options(&[]) else { return };
    let settings = GuestSettings { mtu: Some(4_000), ..options.settings };
    let mut session = started(&SessionOptions { settings, ..options });
    let mut repeated = Vec::new();
    for size in [60, 1_514, 4_014] {
        let plan = plan(size, Span::from_us(300), 300);
        let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
        assert_eq!(run.ledger.totals().delivered, 300, "{size} bytes");
    }
    let counted = counters(&mut session);
    assert!(counted.driver["rx_header_split"] >= 900, "{:?}", counted.driver);
    session.stop().unwrap();
}
