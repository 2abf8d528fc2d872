//! Several drivers at one device: one is served, and no other has any effect.

use std::time::Instant;

use warikomi_process::{How, Priorities, ProcessOptions, ProcessTarget, Succession, Wanted, Way};
use warikomi_target::{CardId, Target, TargetError};

use crate::drivers::{Behaviour, program};
use crate::leaks::is_alive;
use crate::{LONG, options, try_start};

pub(crate) const USUAL: Succession = Succession {
    way: Way::SharedState,
    store: None,
    priorities: None,
    creation_reads: 0,
    starter: None,
};

fn live(behaviour: Behaviour) -> ProcessTarget {
    live_as(behaviour, USUAL)
}

fn live_as(behaviour: Behaviour, succession: Succession) -> ProcessTarget {
    let options = ProcessOptions { live: Some(succession), ..options(behaviour) };
    try_start(options).unwrap_or_else(|error| panic!("{error}"))
}

/// A process's nice value (proc(5), `/proc/[pid]/stat`: the 19th value; the second ends with the last bracket).
pub(crate) fn nice_of(process_id: u32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat")).unwrap();
    let behind_name = stat.rsplit_once(')').unwrap().1;
    behind_name.split_whitespace().nth(16).unwrap().parse().unwrap()
}

#[test]
fn drivers_have_the_priority_that_they_were_given_from_their_start_on() {
    let priorities = Some(Priorities { drivers: 7, ..Priorities::default() });
    let mut target = live_as(Behaviour::Good, Succession { priorities, ..USUAL });
    let first = target.served();
    let second = target.prepare(&program(Behaviour::Good), Wanted::Soon).unwrap();
    until(&mut target, |target| target.seat(second).unwrap().process_id.is_some());
    for generation in [first, second] {
        assert_eq!(nice_of(target.seat(generation).unwrap().process_id.unwrap()), 7);
    }
    assert!(!target.are_drivers_first());
    target.serve_seat(second);
    assert_eq!(nice_of(target.seat(second).unwrap().process_id.unwrap()), 7);
}

#[test]
fn a_driver_that_gets_the_device_before_it_is_known_to_run_comes_first_all_the_same() {
    let mut target = live(Behaviour::Good);
    let first = target.served();
    let second = target.prepare(&program(Behaviour::Good), Wanted::Soon).unwrap();
    assert_eq!(target.seat(second).unwrap().process_id, None);
    target.serve_seat(second);
    until(&mut target, |target| target.seat(second).unwrap().process_id.is_some());
    let nice = [first, second].map(|of| nice_of(target.seat(of).unwrap().process_id.unwrap()));
    let usual = nice_of(std::process::id());
    assert_eq!(nice, if target.are_drivers_first() { [-10, -10] } else { [usual, usual] });
}

#[test]
fn a_creation_waits_for_the_disk_or_says_that_there_is_none() {
    let good = program(Behaviour::Good);
    let mut target = live_as(Behaviour::Good, Succession { creation_reads: 3, ..USUAL });
    let next = target.prepare(&good, Wanted::Soon).unwrap();
    let came_of = |target: &mut ProcessTarget| {
        let seat = target.seat(next).unwrap();
        (seat.process_id.is_some(), seat.ended)
    };
    until(&mut target, |target| came_of(target) != (false, None));
    let (is_there, why_not) = came_of(&mut target);
    assert_eq!(is_there, warikomi_process::can_be_read(&good.path).is_ok(), "{why_not:?}");
    assert!(is_there || why_not.unwrap().contains("cannot be started"));
}

#[test]
fn a_target_ends_with_drivers_that_are_just_being_started() {
    for _ in 0..5 {
        let mut target = live(Behaviour::Good);
        for _ in 0..4 {
            target.prepare(&program(Behaviour::Good), Wanted::Soon).unwrap();
        }
        target.stop().unwrap();
    }
}

/// Serves until something is so.
pub(crate) fn until(target: &mut ProcessTarget, mut done: impl FnMut(&mut ProcessTarget) -> bool) {
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
    let second = target.prepare(&program(Behaviour::Good), Wanted::Soon).unwrap();
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
        let next = target.prepare(&program(behaviour), Wanted::Soon).unwrap();
        until(&mut target, |target| target.seat(next).unwrap().is_over());
        until(&mut target, |target| target.end_seat(next));
    }
    let mut nothing = program(Behaviour::Good);
    nothing.path = "/no/such/file".into();
    let next = target.prepare(&nothing, Wanted::Soon).unwrap();
    until(&mut target, |target| target.seat(next).unwrap().is_over());
    let ended = target.seat(next).unwrap().ended.unwrap();
    assert!(ended.contains("it cannot be started"), "{ended}");
    until(&mut target, |target| target.end_seat(next) && target.end_seat(first));
    assert!(target.seats().is_empty() && target.process_ids().is_empty());
    let last = target.prepare(&program(Behaviour::Good), Wanted::Soon).unwrap();
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
