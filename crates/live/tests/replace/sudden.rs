//! Drivers that are killed.

use nix::sys::signal::Signal;
use warikomi_clock::{Seed, Span};
use warikomi_live::{Backoff, Event, Kind, Policy, Replacement, Service, Way};

use crate::programs::{Bad, as_good, bad, good};
use crate::rig::{BUFFERS, Rig, policy};

const ROUNDS: u64 = 12;

/// What comes of a death: it is told, and another driver goes on.
fn recovery(rig: &mut Rig, from: u32) -> Replacement {
    match rig.next_event() {
        Event::Failed { generation, .. } => assert_eq!(generation, from),
        other => panic!("{other:?}"),
    }
    let replaced = rig.next_replacement();
    assert_eq!((replaced.kind, replaced.from), (Kind::Recovery, from), "{replaced:?}");
    replaced
}

/// Nothing is ever given up.
pub(crate) fn patient(way: Way) -> Policy {
    let mut backoff = Backoff::default();
    (backoff.give_up_after, backoff.longest) = (u32::MAX, Span::from_ms(10));
    Policy { backoff, ..policy(way) }
}

fn kill_again_and_again(way: Way) -> Rig {
    let seed = Seed(warikomi_clock::read_tsc());
    println!("seed {seed:?}");
    let mut random = seed.0 | 1;
    let mut rig = Rig::new(patient(way));
    for round in 0..ROUNDS {
        if round % 2 == 0 && way != Way::Reload {
            rig.wait_until_ready();
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        for _ in 0..random % 2_000 {
            assert_eq!(rig.pass(), None);
        }
        let generation = rig.status().generation;
        rig.signal(generation, Signal::SIGKILL);
        let replaced = recovery(&mut rig, generation);
        assert_eq!(replaced.reset, way != Way::SharedState);
        rig.must_flow();
    }
    assert_eq!(rig.status().recovered, ROUNDS);
    rig
}

#[test]
fn with_shared_state_a_kill_loses_nothing() {
    kill_again_and_again(Way::SharedState).finish().must_be_complete();
}

#[test]
fn without_shared_state_a_kill_loses_what_was_on_the_ring() {
    let outcome = kill_again_and_again(Way::Reload).finish();
    outcome.must_be_in_order();
    let lost = outcome.accepted - outcome.received.delivered;
    assert!(lost <= ROUNDS * u64::from(BUFFERS), "{outcome:?}");
}

#[test]
fn two_kills_in_a_row() {
    let mut rig = Rig::new(patient(Way::SharedState));
    for _ in 0..4 {
        rig.wait_until_ready();
        let status = rig.status();
        rig.signal(status.generation, Signal::SIGKILL);
        // The one that is to take over dies just then, too.
        rig.signal(status.spare.unwrap(), Signal::SIGKILL);
        rig.until(|rig| matches!(rig.pass(), Some(Event::Replaced(_))).then_some(()));
        rig.must_flow();
    }
    rig.finish().must_be_in_order();
}

#[test]
fn a_driver_that_is_killed_while_it_is_to_hand_over() {
    let mut rig = Rig::new(patient(Way::SharedState));
    for _ in 0..4 {
        rig.wait_until_ready();
        let from = rig.status().generation;
        // It will not see the order.
        rig.freeze(from);
        rig.replace(&good());
        (0..200).for_each(|_| assert_eq!(rig.pass(), None));
        rig.signal(from, Signal::SIGKILL);
        let replaced = recovery(&mut rig, from);
        assert!(!replaced.reset);
        rig.must_flow();
    }
    rig.finish().must_be_complete();
}

#[test]
fn one_that_does_not_hand_over_in_time_goes_on() {
    let mut rig =
        Rig::new(Policy { hand_over_within: Span::from_ms(100), ..patient(Way::SharedState) });
    rig.wait_until_ready();
    let from = rig.status().generation;
    rig.freeze(from);
    let to = rig.replace(&as_good());
    let begun = std::time::Instant::now();
    while begun.elapsed().as_millis() < 400 {
        assert_eq!(rig.pass(), None, "whether it has seen the order is not known");
    }
    rig.signal(from, Signal::SIGCONT);
    // It may still have been in the middle of it.
    match rig.next_event() {
        Event::RolledBack { kept, refused, .. } => assert_eq!((kept, refused), (from, to)),
        Event::Replaced(replaced) => assert_eq!((replaced.from, replaced.to), (from, to)),
        other => panic!("{other:?}"),
    }
    rig.must_flow();
    rig.finish().must_be_complete();
}

#[test]
fn what_keeps_failing_is_given_up_until_somebody_asks() {
    let mut backoff = Backoff::default();
    backoff.give_up_after = 4;
    let policy = Policy { backoff, spare: false, ..policy(Way::SharedState) };
    // What it takes the driver for cannot be started again.
    let mut rig = Rig::with_supervised(policy, bad(Bad::EndsAtOnce));
    rig.signal(1, Signal::SIGKILL);
    let mut delays = Vec::new();
    loop {
        match rig.next_event() {
            Event::Failed { next_after, .. } => delays.push(next_after),
            Event::GivenUp { why } => break assert!(why.contains("exit status: 3"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(delays, [Span::ZERO, Span::from_ms(10), Span::from_ms(20)]);
    assert!(matches!(rig.status().service, Service::GivenUp(_)));
    (0..500).for_each(|_| assert_eq!(rig.pass(), None));
    rig.replace(&good());
    let replaced = rig.next_replacement();
    assert!(replaced.reset);
    rig.must_flow();
    rig.finish().must_be_in_order();
}
