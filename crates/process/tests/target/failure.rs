//! Drivers that do not start, end, stall or are killed: each a clear error, and nothing left behind.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_clock::Seed;
use warikomi_pci::{Interrupt, MsiMessage};
use warikomi_process::Program;
use warikomi_protocol::commands::{Counters, LinkState, ReceiveStatus};
use warikomi_target::{CardId, Handlers, Target, TargetError};

use crate::drivers::Behaviour;
use crate::leaks::{is_alive, must_go};
use crate::{LONG, error_of, options, running, start, try_start};

#[test]
fn a_driver_works_and_stops_when_it_is_told() {
    let mut target = start(Behaviour::Good);
    let id = target.process_id();
    target.serve_for(Duration::from_millis(20)).unwrap();
    let target: &mut dyn Target = &mut target;
    let link = target.ask(LinkState { interface: None }, Duration::ZERO).unwrap();
    assert_eq!((link.up, link.speed_mbps), (true, Some(1_000)));
    assert!(target.counters().accesses > 2);
    let begun = Instant::now();
    target.stop().unwrap();
    assert!(!is_alive(id));
    assert!(begun.elapsed() < LONG);
}

#[test]
fn every_interrupt_is_handled_once_and_at_a_time() {
    const COUNT: usize = 20_000;
    let mut target = start(Behaviour::Good);
    target.log(COUNT);
    for _ in 0..COUNT {
        let (_, host) = target.card(CardId::FIRST).unwrap();
        host.interrupts.signal(Interrupt::Msi(MsiMessage { address: 0, data: 0 }));
        target.poll().unwrap();
    }
    let deadline = Instant::now() + LONG;
    let handled = |target: &mut dyn Target| {
        let counters = target.ask(Counters { interface: None }, Duration::ZERO).unwrap();
        counters.driver["interrupts"]
    };
    while handled(&mut target) < COUNT as u64 {
        assert!(Instant::now() < deadline, "they are not handled");
    }
    let log = target.take_log();
    assert_eq!((log.len(), target.counters().interrupts_sent), (COUNT, COUNT as u64));
    // A busy machine may let the driver come too late for some times; counts are never wrong.
    let timed = log.iter().filter(|record| record.handled != warikomi_clock::Time::NEVER);
    let timed: Vec<_> = timed.collect();
    let lost = target.counters().bad_stamps as usize;
    assert_eq!(timed.len() + lost, COUNT);
    assert!(timed.iter().all(|record| record.raised <= record.handled));
    target.stop().unwrap();
}

#[test]
fn what_nobody_can_answer_is_refused() {
    let mut target = start(Behaviour::Good);
    let target: &mut dyn Target = &mut target;
    let error = target.ask(ReceiveStatus {}, Duration::ZERO).unwrap_err();
    assert!(matches!(error, TargetError::Refused { .. }), "{error}");
}

#[test]
fn a_driver_that_is_never_ready_is_an_error() {
    let error = error_of(try_start(options(Behaviour::NeverReady)));
    assert!(matches!(error, TargetError::DriverNotReady { .. }), "{error}");
}

#[test]
fn a_driver_that_ends_at_once_is_an_error_with_what_it_printed() {
    let error = error_of(try_start(options(Behaviour::EndsAtOnce)));
    assert!(matches!(error, TargetError::PartEnded { part: "driver", .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("exit status: 3") && error.contains("nothing to do for me"), "{error}");
}

#[test]
fn a_driver_that_fails_is_an_error_with_its_last_words() {
    let error = error_of(try_start(options(Behaviour::Fails)));
    assert!(matches!(error, TargetError::DriverFailed { .. }), "{error}");
    assert!(error.to_string().contains("the cable tastes of oak"), "{error}");
}

#[test]
fn what_cannot_be_run_is_said_to_be() {
    for path in ["/etc/hostname", "/no/such/file"] {
        let program = Program { path: path.into(), ..Program::default() };
        let error = error_of(try_start(running(program)));
        assert!(matches!(error, TargetError::CannotRun { part: "driver", .. }), "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn a_driver_that_closes_its_socket_is_an_error() {
    // It may do so before we have seen that it was ready.
    let error = match try_start(options(Behaviour::HangsUp)) {
        Ok(mut target) => target.serve_for(LONG).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, TargetError::PartHungUp { part: "driver", .. }), "{error}");
}

#[test]
fn a_driver_that_stalls_has_no_counts_and_is_ended_all_the_same() {
    let mut target = start(Behaviour::Stalls);
    let id = target.process_id();
    target.serve_for(Duration::from_millis(20)).unwrap();
    let target: &mut dyn Target = &mut target;
    let error = target.ask(Counters { interface: None }, Duration::ZERO).unwrap_err();
    assert!(matches!(error, TargetError::NoCounts { .. }), "{error}");
    assert!(error.to_string().contains("its loop has neither come by"), "{error}");
    target.stop().unwrap();
    assert!(!is_alive(id));
}

#[test]
fn a_driver_that_is_killed_at_any_moment_is_an_error() {
    let seed = Seed(warikomi_clock::read_tsc());
    let mut random = seed.0 | 1;
    for round in 0..12 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let after = Duration::from_micros(random % 60_000);
        println!("seed {seed:?}, round {round}: killed after {after:?}");
        let mut options = options(Behaviour::Good);
        options.shared_core = round % 2 == 0;
        let mut target = try_start(options).unwrap_or_else(|error| panic!("{error}"));
        let id = target.process_id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            kill(Pid::from_raw(id as i32), Signal::SIGKILL).unwrap();
        });
        let error = target.serve_for(LONG).unwrap_err();
        killer.join().unwrap();
        assert!(matches!(error, TargetError::PartEnded { part: "driver", .. }), "{error}");
        assert!(error.to_string().contains("SIGKILL"), "{error}");
    }
}

#[test]
fn a_target_that_is_dropped_takes_its_driver_along() {
    let target = start(Behaviour::Stalls);
    let id = target.process_id();
    drop(target);
    must_go(id, LONG);
}
