//! Parts in a session of their own, started by a process that does nothing else.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getsid};
use warikomi_process::programs;
use warikomi_process::{Priorities, ProcessOptions, ProcessTarget, Program, Succession, Wanted};
use warikomi_target::{Target, TargetError};

use crate::drivers::{Behaviour, program};
use crate::leaks::{is_alive, must_go};
use crate::seats::{USUAL, nice_of, until};
use crate::{LONG, error_of, options, try_start};

const STARTER: &str = "WARIKOMI_TEST_STARTER";

/// This binary as a starter.
fn starter() -> Program {
    let arguments = ["--exact", "starter::part", "--ignored", "--nocapture"];
    Program {
        path: std::env::current_exe().unwrap(),
        arguments: arguments.map(Into::into).into(),
        environment: vec![(STARTER.into(), "1".into())],
    }
}

#[test]
#[ignore = "another test starts it, in a process of its own"]
fn part() {
    if std::env::var_os(STARTER).is_some() {
        let ended = programs::starter::main();
        assert!(ended.is_ok(), "{ended:?}");
        std::process::exit(0);
    }
}

fn started_by(starter: Program, succession: Succession) -> Result<ProcessTarget, TargetError> {
    let live = Some(Succession { starter: Some(starter), ..succession });
    try_start(ProcessOptions { live, ..options(Behaviour::Good) })
}

fn start() -> ProcessTarget {
    started_by(starter(), USUAL).unwrap_or_else(|error| panic!("{error}"))
}

/// Process id of another driver, once it has one.
fn another(target: &mut ProcessTarget, program: &Program) -> u32 {
    let next = target.prepare(program, Wanted::Soon).unwrap();
    until(target, |target| target.seat(next).unwrap().process_id.is_some());
    target.seat(next).unwrap().process_id.unwrap()
}

/// How the next driver has ended, which is no good.
fn end_of(target: &mut ProcessTarget, program: &Program) -> String {
    let next = target.prepare(program, Wanted::Soon).unwrap();
    until(target, |target| target.seat(next).unwrap().is_over());
    let ended = target.seat(next).unwrap().ended.unwrap();
    until(target, |target| target.end_seat(next));
    ended
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}

/// The leader of its session.
fn session_of(id: u32) -> Pid {
    getsid(Some(pid(id))).unwrap()
}

#[test]
fn all_parts_are_in_one_session_that_is_not_ours() {
    let mut target = start();
    let first = target.process_id();
    let second = another(&mut target, &program(Behaviour::Good));
    let session = session_of(first);
    assert_eq!(session_of(second), session);
    assert_ne!(session, getsid(None).unwrap());
    assert!(session != pid(first) && session != pid(second), "it is the starter's");
    for id in [first, second] {
        assert_eq!(getpgid(Some(pid(id))), Ok(pid(id)), "it can be ended with what it starts");
        let stat = procfs::process::Process::new(id.cast_signed()).unwrap().stat().unwrap();
        assert_eq!(stat.ppid, session.as_raw(), "its starter looks after it");
    }
    target.stop().unwrap();
    for id in [first, second, session.as_raw().cast_unsigned()] {
        assert!(!is_alive(id), "{id} is left");
    }
}

#[test]
fn they_have_the_claims_that_they_were_given() {
    let priorities = Some(Priorities { drivers: 7, ..Priorities::default() });
    let mut target = started_by(starter(), Succession { priorities, ..USUAL }).unwrap();
    let first = target.process_id();
    let second = another(&mut target, &program(Behaviour::Good));
    assert_eq!([first, second].map(nice_of), [7, 7]);
    assert_eq!(nice_of(session_of(first).as_raw().cast_unsigned()), nice_of(std::process::id()));
}

#[test]
fn a_program_gets_all_of_its_variables_however_long_they_are() {
    let mut target = start();
    let mut long = program(Behaviour::Good);
    let text = "x".repeat(100_000);
    long.environment.push(("WARIKOMI_TEST_LONG".into(), text.clone().into()));
    let id = another(&mut target, &long);
    let process = procfs::process::Process::new(id.cast_signed()).unwrap();
    // A starter knows of its process a moment before the system knows the process's variables.
    until(&mut target, |_| !process.environ().unwrap().is_empty());
    let environment = process.environ().unwrap();
    let of = |name: &str| environment.get(std::ffi::OsStr::new(name)).cloned();
    assert_eq!(of("WARIKOMI_TEST_LONG"), Some(text.into()));
    assert_eq!(of("PATH"), std::env::var_os("PATH"));
    assert_eq!(of(STARTER), None, "what only the starter was told");
}

#[test]
fn what_cannot_be_started_says_why_and_others_can() {
    let mut target = start();
    let at = |path: &str| Program { path: path.into(), ..program(Behaviour::Good) };
    for (path, why) in [("/no/such/file", "No such file"), ("/etc/passwd", "ermission denied")] {
        let ended = end_of(&mut target, &at(path));
        assert!(ended.contains("it cannot be started") && ended.contains(why), "{path}: {ended}");
    }
    let ended = end_of(&mut target, &program(Behaviour::EndsAtOnce));
    assert!(ended.contains("exit status: 3"), "{ended}");
    another(&mut target, &program(Behaviour::Good));
    target.stop().unwrap();
}

#[test]
fn a_target_whose_starter_ends_ends_with_an_error_that_says_so() {
    let mut target = start();
    let first = target.process_id();
    let starter = session_of(first);
    kill(starter, Signal::SIGKILL).unwrap();
    must_go(starter.as_raw().cast_unsigned(), LONG);
    let deadline = Instant::now() + LONG;
    let error = loop {
        match target.housekeep() {
            Err(error) => break error,
            Ok(()) => assert!(Instant::now() < deadline, "it is not missed"),
        }
    };
    let ended = matches!(error, TargetError::PartEnded { part: "starter", .. });
    assert!(ended && error.to_string().contains("SIGKILL"), "{error}");
    target.stop().unwrap();
    must_go(first, LONG);
}

#[test]
fn what_is_no_starter_is_an_error() {
    let begun = Instant::now();
    for (path, why) in [("/no/such/file", "No such file"), ("/bin/true", "has ended")] {
        let program = Program { path: path.into(), ..Program::default() };
        let error = error_of(started_by(program, USUAL)).to_string();
        assert!(error.contains("starter") && error.contains(why), "{path}: {error}");
    }
    assert!(begun.elapsed() < LONG);
}

#[test]
fn a_target_ends_with_drivers_that_are_just_being_started() {
    for _ in 0..5 {
        let mut target = start();
        let starter = session_of(target.process_id());
        for _ in 0..4 {
            target.prepare(&program(Behaviour::Good), Wanted::Soon).unwrap();
        }
        target.stop().unwrap();
        drop(target);
        let left = procfs::process::all_processes().unwrap().flatten();
        let left = left.filter_map(|process| process.stat().ok());
        let left: Vec<_> = left
            .filter(|stat| stat.session == starter.as_raw() && !['Z', 'X'].contains(&stat.state))
            .map(|stat| stat.comm)
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
