//! New drivers that are no good: the old one goes on, or its program does.

use warikomi_clock::Span;
use warikomi_live::{Backoff, Event, Policy, Service, Way};

use crate::programs::{Bad, bad, good};
use crate::rig::{Rig, policy};

/// Little patience with what never comes, and much with a driver that may have lost its core.
fn impatient(way: Way) -> Policy {
    let mut backoff = Backoff::default();
    backoff.success_after = Span::from_ms(60_000);
    let (warm_within, accept_within) = (Span::from_ms(3_000), Span::from_ms(2_000));
    let (silent_for, stuck_for) = (Span::from_ms(3_000), Span::from_ms(3_000));
    Policy { backoff, warm_within, accept_within, silent_for, stuck_for, ..policy(way) }
}

/// Replaces by one that is no good, and waits until the service runs again with the program before.
fn endure(way: Way, how: Bad) -> (Rig, Vec<Event>) {
    let mut rig = Rig::new(impatient(way));
    rig.must_flow();
    rig.replace(&bad(how));
    let mut events = vec![rig.next_event()];
    rig.until(|rig| {
        events.extend(rig.pass());
        let status = rig.status();
        (status.service == Service::Running && status.program == good()).then_some(())
    });
    println!("{way:?}, {how:?}: {events:?}");
    rig.must_flow();
    (rig, events)
}

#[test]
fn one_that_has_not_accepted_the_device_is_rolled_back() {
    for how in
        [Bad::EndsAtOnce, Bad::IsNeverWarm, Bad::EndsWithBaton, Bad::HangsWithBaton, Bad::Refuses]
    {
        let (mut rig, events) = endure(Way::SharedState, how);
        let [Event::RolledBack { kept: 1, why, .. }] = &events[..] else { panic!("{events:?}") };
        let expected = match how {
            Bad::EndsAtOnce => "exit status: 3",
            Bad::IsNeverWarm => "was not warm in time",
            Bad::EndsWithBaton => "exit status: 0",
            Bad::HangsWithBaton => "did not accept the device in time",
            _ => "garbage!",
        };
        assert!(why.contains(expected), "{how:?}: {why}");
        assert_eq!(rig.status().rolled_back, 1);
        rig.finish().must_be_complete();
    }
}

#[test]
fn one_that_has_accepted_the_device_is_recovered_from_without_a_loss() {
    for how in [Bad::EndsOnceAccepted, Bad::HangsOnceAccepted, Bad::NeverBeats, Bad::DoesNoWork] {
        let (rig, events) = endure(Way::SharedState, how);
        let Some(Event::Replaced(last)) = events.last() else { panic!("{events:?}") };
        assert!(!last.reset, "{events:?}");
        rig.finish().must_be_complete();
    }
}

#[test]
fn one_that_leaves_nonsense_costs_a_reset() {
    let (rig, events) = endure(Way::SharedState, Bad::LeavesNonsense);
    let Some(Event::Replaced(last)) = events.last() else { panic!("{events:?}") };
    assert!(last.reset, "{events:?}");
    rig.finish().must_be_in_order();
}

#[test]
fn after_a_reload_the_program_before_is_started_again() {
    for how in [Bad::EndsAtOnce, Bad::Refuses, Bad::HangsOnceAccepted] {
        let (rig, events) = endure(Way::Reload, how);
        let Some(Event::Replaced(last)) = events.last() else { panic!("{events:?}") };
        assert!(last.reset, "{events:?}");
        rig.finish().must_be_in_order();
    }
}

#[test]
fn a_spare_that_is_never_warm_is_made_anew_and_nobody_waits_for_it() {
    let policy = Policy { warm_within: Span::from_ms(300), ..impatient(Way::SharedState) };
    let mut rig = Rig::with_supervised(policy, bad(Bad::IsNeverWarm));
    let mut spares = std::collections::BTreeSet::new();
    let mut late = 0;
    rig.until(|rig| {
        match rig.pass() {
            Some(Event::SpareFailed { why, .. }) if why == "it was not warm in time" => late += 1,
            None => {}
            other => panic!("{other:?}"),
        }
        spares.extend(rig.status().spare);
        (spares.len() >= 3).then_some(())
    });
    assert_eq!(late, 2);
    rig.finish().must_be_complete();
}
