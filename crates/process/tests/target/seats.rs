//! Several drivers at one device: one is served, and no other has any effect.

use std::time::Instant;

use warikomi_process::{How, ProcessOptions, ProcessTarget, Way};
use warikomi_target::{CardId, Target, TargetError};

use crate::drivers::{Behaviour, program};
use crate::leaks::is_alive;
use crate::{LONG, options, try_start};

fn live(behaviour: Behaviour) -> ProcessTarget {
    let options = ProcessOptions { live: Some(Way::SharedState), ..options(behaviour) };
    try_start(options).unwrap_or_else(|error| panic!("{error}"))
}

/// Serves until something is so.
fn until(target: &mut ProcessTarget, mut done: impl FnMut(&mut ProcessTarget) -> bool) {
    let deadline = Instant::now() + LONG;
    while !done(target) {
        assert!(Instant::now() < deadline, "nothing happens any more{}", target.console());
        target.poll().unwrap();
        target.housekeep().unwrap_or_else(|error| panic!("{error}"));
        std::thread::yield_now();
    }
}

#[test]
fn what_a_fenced_driver_asks_for_has_no_effect_and_is_counted() {
    let mut target = live(Behaviour::Good);
    let first = target.served();
    let second = target.prepare(&program(Behaviour::Good)).unwrap();
    assert_eq!((target.seats(), target.served()), (vec![first, second], first));
    until(&mut target, |target| target.seat(second).unwrap().process_id.is_some());
    // It asks, and nobody answers.
    let beats = |target: &mut ProcessTarget, of: u32| target.seat(of).unwrap().heartbeat;
    let served_until = beats(&mut target, first) + 100;
    until(&mut target, |target| beats(target, first) >= served_until);
    assert_eq!((beats(&mut target, second), target.fenced_accesses()), (0, 0));
    let accesses = target.counters().accesses;
    target.serve_seat(second);
    // Each writes a register and reads it back; it would end if it found what the other wrote.
    until(&mut target, |target| beats(target, second) >= 100);
    until(&mut target, |target| target.fenced_accesses() > 0);
    let stands_at = beats(&mut target, first);
    let served_until = beats(&mut target, second) + 100;
    until(&mut target, |target| beats(target, second) >= served_until);
    assert_eq!(beats(&mut target, first), stands_at);
    assert!(target.counters().accesses > accesses, "counts go on");
    let id = target.seat(first).unwrap().process_id.unwrap();
    until(&mut target, |target| target.end_seat(first));
    assert_eq!((target.seats(), target.seat(first)), (vec![second], None));
    assert!(!is_alive(id) && target.process_id() != id);
    target.stop().unwrap();
}

#[test]
fn the_end_of_a_driver_is_not_the_end_of_a_live_target() {
    let mut target = live(Behaviour::Good);
    let first = target.served();
    for behaviour in [Behaviour::EndsAtOnce, Behaviour::Fails, Behaviour::HangsUp] {
        let next = target.prepare(&program(behaviour)).unwrap();
        until(&mut target, |target| target.seat(next).unwrap().is_over());
        until(&mut target, |target| target.end_seat(next));
    }
    let mut nothing = program(Behaviour::Good);
    nothing.path = "/no/such/file".into();
    let next = target.prepare(&nothing).unwrap();
    until(&mut target, |target| target.seat(next).unwrap().is_over());
    let ended = target.seat(next).unwrap().ended.unwrap();
    assert!(ended.contains("it cannot be started"), "{ended}");
    until(&mut target, |target| target.end_seat(next) && target.end_seat(first));
    assert!(target.seats().is_empty() && target.process_ids().is_empty());
    let last = target.prepare(&program(Behaviour::Good)).unwrap();
    target.serve_seat(last);
    target.give_baton(last, How::Died);
    until(&mut target, |target| target.seat(last).unwrap().heartbeat > 10);
    let baton = target.baton();
    assert_eq!((baton.generation, baton.how, baton.owner), (last, How::Died, 0));
    target.stop().unwrap();
}

#[test]
fn a_card_that_is_not_there_is_an_error_and_never_another_card() {
    let mut target = try_start(options(Behaviour::Good)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(target.cards(), 1);
    assert!(target.card(CardId::FIRST).is_ok() && target.memory(CardId::FIRST).is_some());
    for number in [1, 2, u8::MAX] {
        let other = CardId(number);
        let slot = target.slot(other).map(|_| ());
        for outcome in [slot, target.card(other).map(|_| ())] {
            let none =
                matches!(outcome, Err(TargetError::NoCard { card, cards: 1 }) if card == other);
            assert!(none, "{outcome:?}");
        }
        assert!(target.memory(other).is_none() && target.handlers(other).is_none());
    }
    target.stop().unwrap();
}
