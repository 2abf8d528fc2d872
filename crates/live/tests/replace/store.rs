//! The data store dies, or does not answer, at different moments of a replacement.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_clock::Span;
use warikomi_live::{Event, Policy, Way};
use warikomi_target::Target;

use crate::programs::{as_good, good};
use crate::rig::{Rig, freeze, policy};

fn rig() -> Rig {
    // A driver that cannot reach the store keeps its device, and only time tells that it does.
    let policy = Policy { hand_over_within: Span::from_ms(1_000), ..policy(Way::DataStore) };
    let mut rig = Rig::new(policy);
    rig.wait_until_ready();
    rig
}

fn store(rig: &mut Rig) -> Pid {
    // It may just be starting.
    let id = rig.until(|rig| {
        assert_eq!(rig.pass(), None);
        rig.target.store_process()
    });
    Pid::from_raw(id as i32)
}

/// Another store comes in the place of one that has been killed.
fn must_be_followed(rig: &mut Rig, gone: Pid) {
    rig.until(|rig| {
        assert_eq!(rig.pass(), None);
        rig.target.store_process().filter(|&id| id as i32 != gone.as_raw())
    });
}

fn must_be_rolled_back(rig: &mut Rig) {
    match rig.next_event() {
        Event::RolledBack { .. } => {}
        other => panic!("{other:?}{}", rig.target.console()),
    }
    rig.must_flow();
}

#[test]
fn a_store_that_does_not_answer_keeps_the_old_driver_in_place() {
    let mut rig = rig();
    freeze(store(&mut rig));
    rig.replace(&good());
    must_be_rolled_back(&mut rig);
    // The next store is handed the sockets of this one.
    let gone = store(&mut rig);
    kill(gone, Signal::SIGKILL).unwrap();
    must_be_followed(&mut rig, gone);
    rig.wait_until_ready();
    rig.replace(&good());
    rig.next_replacement();
    rig.must_flow();
    rig.finish().must_be_complete();
}

#[test]
fn a_store_that_dies_before_it_is_needed_is_followed_by_another() {
    let mut rig = rig();
    for _ in 0..4 {
        kill(store(&mut rig), Signal::SIGKILL).unwrap();
        rig.replace(&as_good());
        // In time for the driver's patience, or not.
        match rig.next_event() {
            Event::Replaced(_) | Event::RolledBack { .. } => {}
            other => panic!("{other:?}{}", rig.target.console()),
        }
        rig.must_flow();
        rig.wait_until_ready();
    }
    rig.finish().must_be_complete();
}

#[test]
fn a_store_that_dies_with_what_it_was_given_gives_the_device_back() {
    let mut rig = rig();
    let to = rig.status().spare.unwrap();
    // It will not ask before the store is gone.
    rig.freeze(to);
    assert_eq!(rig.replace(&good()), to);
    rig.until(|rig| {
        assert_eq!(rig.pass(), None);
        (rig.target.baton().generation == to).then_some(())
    });
    let gone = store(&mut rig);
    kill(gone, Signal::SIGKILL).unwrap();
    must_be_followed(&mut rig, gone);
    rig.signal(to, Signal::SIGCONT);
    must_be_rolled_back(&mut rig);
    rig.wait_until_ready();
    rig.replace(&good());
    rig.next_replacement();
    rig.must_flow();
    rig.finish().must_be_complete();
}
