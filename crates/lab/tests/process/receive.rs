//! Packets through driver processes.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_guest::commands::Counters;
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::inject::{Application, InjectError, inject};

use crate::{injected, options, plan, session, started};

#[test]
fn every_strategy_takes_every_packet() {
    for strategy in Strategy::ALL {
        let mut session = session(strategy);
        let run = injected(&mut session, &plan(1_500, Span::from_us(20), 10_000));
        let totals = run.ledger.totals();
        assert_eq!((totals.injected, totals.unaccounted), (10_000, 0), "{strategy}");
        assert_eq!(totals.lost, 0, "{strategy}: what is on the ring is taken");
        assert_eq!(totals.accepted + totals.no_descriptor, 10_000, "{strategy}");
        let disturbed = run.result.machine.was_disturbed();
        assert!(disturbed || totals.accepted == 10_000, "{strategy}: {totals:?}");
        let figures = &run.result.figures;
        assert!(figures["driver_polls"].as_u64() > Some(0), "{strategy}: {figures:?}");
        session.stop().unwrap();
    }
}

#[test]
fn frames_of_any_length_and_bursts_are_taken() {
    let mut session = session(Strategy::Napi { budget: 64 });
    for size in [60, 1_514, 9_000, 16_379] {
        let plan = Plan { packets_per_interrupt: 8, ..plan(size, Span::from_us(100), 1_000) };
        let run = injected(&mut session, &plan);
        let totals = run.ledger.totals();
        assert_eq!((totals.unaccounted, totals.lost), (0, 0), "{size} bytes");
        assert_eq!(totals.accepted + totals.no_descriptor, 1_000, "{size} bytes");
    }
    session.stop().unwrap();
}

#[test]
fn a_saturated_driver_loses_packets_and_none_is_unaccounted() {
    let mut options = options(Strategy::Interrupt);
    options.orders.buffers = 16;
    let mut session = started(&options);
    let run = inject(
        &mut session,
        &plan(1_500, Span::ZERO, 50_000),
        Application::default(),
        1,
        &mut |_| (),
    );
    let totals = run.unwrap().ledger.totals();
    assert_eq!((totals.injected, totals.unaccounted, totals.lost), (50_000, 0, 0));
    assert_eq!(totals.accepted + totals.no_descriptor, 50_000);
    session.stop().unwrap();
}

#[test]
fn handlers_tell_of_themselves() {
    let mut session = session(Strategy::Interrupt);
    let run = injected(&mut session, &plan(1_500, Span::from_us(500), 500));
    let interrupts = run.result.interrupts.unwrap();
    assert!(interrupts.raised > 0 && interrupts.handled <= interrupts.raised);
    let target = &mut *session.target;
    let counted = target.ask(Counters { interface: None }, Duration::ZERO).unwrap();
    assert_eq!(counted.driver["interrupts"], target.counters().interrupts_sent);
    assert!(run.interrupts.iter().all(|record| record.raised <= record.handled));
    session.stop().unwrap();
}

#[test]
fn packets_for_an_application_that_is_not_there_are_refused() {
    let mut session = session(Strategy::Poll);
    let plan = Plan { receiver: Receiver::Application, ..plan(1_500, Span::from_us(20), 10) };
    let refused = inject(&mut session, &plan, Application::default(), 1, &mut |_| ());
    assert!(matches!(refused, Err(InjectError::NoApplication)));
}
