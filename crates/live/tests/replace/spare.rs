//! The driver that is kept ready.

use nix::sys::signal::Signal;
use procfs::process::Process;
use warikomi_clock::Span;
use warikomi_live::{Backoff, Event, Policy, Way};
use warikomi_process::may_be_raised;

use crate::programs::{Bad, bad, good};
use crate::rig::{Rig, policy};

#[test]
fn a_spare_that_is_killed_is_made_anew() {
    let mut rig = Rig::new(policy(Way::SharedState));
    for _ in 0..3 {
        rig.wait_until_ready();
        let spare = rig.status().spare.unwrap();
        rig.signal(spare, Signal::SIGKILL);
        match rig.next_event() {
            Event::SpareFailed { why, next_after: Some(_) } => {
                assert!(why.contains("signal: 9"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        rig.until(|rig| {
            assert_eq!(rig.pass(), None);
            let now = rig.status().spare;
            now.is_some_and(|now| now != spare).then_some(())
        });
    }
    // One that dies just when it is wanted.
    rig.wait_until_ready();
    let spare = rig.status().spare.unwrap();
    rig.signal(spare, Signal::SIGKILL);
    assert_eq!(rig.replace(&good()), spare);
    match rig.next_event() {
        Event::RolledBack { refused, .. } => assert_eq!(refused, spare),
        other => panic!("{other:?}"),
    }
    rig.must_flow();
    rig.finish().must_be_complete();
}

#[test]
fn one_that_keeps_failing_is_given_up_until_the_next_replacement() {
    let mut backoff = Backoff::default();
    backoff.give_up_after = 3;
    let policy = Policy { backoff, ..policy(Way::SharedState) };
    // What it takes the driver for cannot be started again.
    let mut rig = Rig::with_supervised(policy, bad(Bad::EndsAtOnce));
    let delays = [(); 3].map(|()| match rig.next_event() {
        Event::SpareFailed { why, next_after } => {
            assert!(why.contains("exit status: 3"), "{why}");
            next_after
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(delays, [Some(Span::from_ms(5)), Some(Span::from_ms(15)), None]);
    (0..500).for_each(|_| assert_eq!(rig.pass(), None));
    rig.replace(&good());
    rig.next_replacement();
    rig.wait_until_ready();
    rig.finish().must_be_complete();
}

/// Where the core is always busy, what comes after everything would never start.
#[test]
fn one_that_takes_long_no_longer_comes_last() {
    if !may_be_raised() {
        return warikomi_testbench::skipped("without CAP_SYS_NICE all processes are equal");
    }
    let mut rig = Rig::with_supervised(policy(Way::SharedState), bad(Bad::IsNeverWarm));
    let spare = rig.until(|rig| {
        assert_eq!(rig.pass(), None);
        rig.status().spare
    });
    let process = rig.process(spare);
    let nice = |process| Process::new(process).unwrap().stat().unwrap().nice;
    assert_eq!(nice(process.as_raw()), 10);
    rig.until(|rig| {
        assert_eq!(rig.pass(), None);
        (nice(process.as_raw()) == 0).then_some(())
    });
    rig.finish().must_be_complete();
}
