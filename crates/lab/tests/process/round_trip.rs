//! `round-trip` on a driver process. How long a message takes depends on the machine; that each is answered by the
//! host, none before the line's own time is over, and how a driver waits for it, does not.

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_lab::Watch;
use warikomi_lab::round_trip::{Row, measure};
use warikomi_session::{ProcessSessionOptions, Session};
use warikomi_stack::{RoundTripPlan, Topology};
use warikomi_target::Interrupted;
use warikomi_wire::{CountedSink, Echo, Wire};

use crate::along;

const PLAN: RoundTripPlan = RoundTripPlan {
    payload_bytes: 32,
    run_id: 0,
    warmup: 20,
    count: 200,
    // Longer than a busy machine takes a core away.
    timeout: Span::from_ms(5_000),
};

/// The messages of a plan, to what is at the other end of the line.
fn round_trips(plan: &RoundTripPlan, strategy: Strategy, other_end: fn() -> Box<dyn Wire>) -> Row {
    let mut bring_up = |orders: &_, _: &mut Watch| {
        let options =
            ProcessSessionOptions { orders: *orders, ..along(Topology::Direct, strategy) };
        let interrupted = Interrupted::default();
        Ok(Session::start_process(&options, other_end(), &interrupted, &mut |_| ())?)
    };
    let found = measure(plan, strategy, &mut bring_up, &mut Watch::unobserved());
    found.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_message_is_answered_whatever_way_it_is_received() {
    let delay = Span::from_us(2);
    for strategy in [
        Strategy::Interrupt,
        Strategy::Poll,
        Strategy::Napi { budget: 64 },
        Strategy::Hybrid { poll_time: Span::from_us(100) },
    ] {
        let row = round_trips(&PLAN, strategy, || Box::new(Echo::new(Span::from_us(2))));
        let counts = (row.sent, row.answered, row.lost, row.strays);
        assert_eq!(counts, (220, 220, 0, 0), "{row:?}");
        let took = row.round_trip_ns.unwrap();
        assert!(
            took.min > delay.as_ns() && took.p50 >= took.min && took.max >= took.p99,
            "{row:?}"
        );
        if strategy == Strategy::Poll {
            assert_eq!((row.sleeps, row.interrupts), (0, Some(0)), "{row:?}");
        }
    }
}

#[test]
fn a_driver_that_waits_for_longer_than_it_polls_is_woken_for_each_message() {
    let strategy = Strategy::Hybrid { poll_time: Span::from_us(1) };
    let row = round_trips(&PLAN, strategy, || Box::new(Echo::new(Span::from_ms(1))));
    assert_eq!((row.answered, row.lost), (220, 0), "{row:?}");
    assert!(row.sleeps >= 220 && row.interrupts.unwrap() >= 220, "{row:?}");
}

#[test]
fn messages_that_no_host_answers_are_lost_and_the_run_ends() {
    let plan = RoundTripPlan { warmup: 1, count: 3, timeout: Span::from_ms(2), ..PLAN };
    for strategy in [Strategy::Poll, Strategy::Interrupt] {
        let row = round_trips(&plan, strategy, || Box::new(CountedSink::new()));
        assert_eq!(
            (row.sent, row.answered, row.lost, row.round_trip_ns),
            (4, 0, 4, None),
            "{row:?}"
        );
    }
}
