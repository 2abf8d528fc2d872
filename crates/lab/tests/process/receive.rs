//! Packets through driver processes.

use std::thread::sleep;
use std::time::Duration;
use warikomi_lab::Error;

use warikomi_clock::{Span, Time};
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::Progress;
use warikomi_lab::inject::{Application, inject};
use warikomi_measure::Warning;
use warikomi_protocol::commands::Counters;
use warikomi_session::Session;
use warikomi_target::Interrupted;
use warikomi_wire::{Wire, WireCounters};

use crate::{injected, options, perfect, plan, session, started};

#[test]
fn every_strategy_takes_every_packet() {
    let mut repeated = Vec::new();
    for strategy in Strategy::ALL {
        println!("{strategy}");
        let mut session = session(strategy);
        let plan = plan(1_500, Span::from_us(20), 10_000);
        let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
        let totals = run.ledger.totals();
        assert_eq!((totals.injected, totals.unaccounted), (10_000, 0), "{strategy}");
        assert_eq!(totals.lost, 0, "{strategy}: what is on the ring is taken");
        assert_eq!((totals.accepted, totals.no_descriptor), (10_000, 0), "{strategy}: {totals:?}");
        let figures = &run.result.figures;
        assert!(figures["driver_polls"].as_u64() > Some(0), "{strategy}: {figures:?}");
        session.stop().unwrap();
    }
}

#[test]
fn every_strategy_that_interrupts_has_interrupts_raised_and_handled_and_polling_needs_none() {
    let mut repeated = Vec::new();
    for strategy in Strategy::ALL {
        println!("{strategy}");
        let mut options = options(strategy);
        options.settings.insert("strategy".into(), strategy.name().into());
        let mut session = started(&options);
        // Longer than a strategy polls for before it sleeps.
        let plan = plan(1_500, Span::from_us(500), 500);
        let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
        let interrupts = run.result.interrupts.unwrap();
        let handler = run.result.intervals.as_ref().unwrap().handler.as_ref();
        let warned = run.result.warnings.iter().any(|warning| warning.what.contains("the handler"));
        assert!(!warned, "{strategy}: {:?}", run.result.warnings);
        if strategy == Strategy::Poll {
            assert_eq!((interrupts.raised, interrupts.handled), (0, 0), "{strategy}");
            assert_eq!(handler, None, "{strategy}");
        } else {
            // On a machine that is busy, one interrupt may be for many packets: here for 10, while a driver
            // that is woken by nothing but the end of its sleep has some few in these 250 ms.
            let least = interrupts.raised.min(interrupts.handled);
            assert!(least > 50, "{strategy}: {interrupts:?}");
            assert!(interrupts.handled <= interrupts.raised, "{strategy}: {interrupts:?}");
            assert!(handler.unwrap().all.count > 0, "{strategy}");
        }
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
fn what_keeps_us_while_we_keep_house_is_a_hiccup_and_explains_what_is_lost() {
    const KEPT: Duration = Duration::from_millis(40);
    let mut session = session(Strategy::Interrupt);
    let plan = plan(1_500, Span::from_us(38), 10_000);
    let mut kept = false;
    let mut keep = |_: Progress<'_>| {
        if !std::mem::replace(&mut kept, true) {
            sleep(KEPT);
        }
    };
    let run = inject(&mut session, &plan, Application::default(), 1, &mut keep).unwrap();
    session.stop().unwrap();
    let hiccups = run.hiccups.support.summary();
    assert!(kept && hiccups.longest_ns >= KEPT.as_nanos() as f64, "{hiccups:?}");
    run.explain_loss().unwrap();
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

/// A cable on which somebody else talks all the time.
#[derive(Debug)]
struct Chatter {
    due: Time,
}

impl Wire for Chatter {
    fn transmit(&mut self, _: Time, _: &[u8]) {}

    fn next_arrival(&self) -> Time {
        self.due
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        (self.due <= now).then(|| {
            // More often than anybody can ask the driver what it has counted.
            self.due = now + Span::from_us(2);
            vec![0xff; 60]
        })
    }

    fn counters(&self) -> WireCounters {
        WireCounters::default()
    }
}

#[test]
fn counts_that_are_never_at_rest_are_said_to_be_none_of_one_moment() {
    let wire = Box::new(Chatter { due: Time::ZERO });
    let never = Interrupted::default();
    let options = options(Strategy::Poll);
    let mut session = Session::start_process(&options, wire, &never, &mut |_| ()).unwrap();
    let run = injected(&mut session, &plan(1_500, Span::from_us(100), 200));
    session.stop().unwrap();
    assert_eq!(run.ledger.totals().injected, 200);
    let said = |warning: &&Warning| warning.what.contains("not of one moment");
    assert_eq!(run.result.warnings.iter().filter(said).count(), 1);
}

#[test]
fn packets_for_an_application_that_is_not_there_are_refused() {
    let mut session = session(Strategy::Poll);
    let plan = Plan { receiver: Receiver::Application, ..plan(1_500, Span::from_us(20), 10) };
    let refused = inject(&mut session, &plan, Application::default(), 1, &mut |_| ());
    assert!(matches!(refused, Err(Error::NoApplication)));
}
