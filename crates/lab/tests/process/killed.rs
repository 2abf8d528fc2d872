//! A part that is killed, at whatever moment: an error that names it, and nothing is left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::{Duration, Instant};
use warikomi_lab::Error;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_clock::{Seed, Span, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::inject::{Application, inject};
use warikomi_session::SessionError;
use warikomi_stack::Topology;
use warikomi_target::TargetError;

use crate::{PART, along, plan, try_start};

/// Each path with parts to kill; the driver alone is the target crate's own test.
const PATHS: [(Topology, &[&str]); 3] = [
    (Topology::Direct, &["driver"]),
    (Topology::Application, &["driver", "application"]),
    (Topology::Stack, &["driver", "stack", "application"]),
];

/// Kills of each.
const ROUNDS: usize = 4;

/// The latest moment of a kill after the part's start: some are killed before the link is up.
const LATEST_US: u64 = 60_000;

/// Longer than anything here takes, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);

const ALONE: &str = "WARIKOMI_TEST_ALONE";
const SEED: &str = "WARIKOMI_TEST_SEED";

/// Run in a process of its own, so that other tests' parts and descriptors are not taken for these.
#[test]
fn any_part_may_be_killed_at_any_moment() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::rounds", "--ignored", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("nothing is left"), "{said}{errors}");
}

#[test]
#[ignore = "another test starts it, in a process of its own"]
fn rounds() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let given = std::env::var(SEED).ok();
    let seed = Seed(given.map_or_else(read_tsc, |seed| seed.parse().unwrap()));
    println!("{SEED}={}", seed.0);
    let mut random = seed.0 | 1;
    let before = Holdings::now();
    for (topology, parts) in PATHS {
        for &part in parts {
            for round in 0..ROUNDS {
                // xorshift64
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let after = Duration::from_micros(random % LATEST_US);
                let case = format!("{topology:?}, round {round}: {part} killed after {after:?}");
                println!("{case}");
                let error = killed(topology, part, after);
                let names_it =
                    matches!(&error, TargetError::PartEnded { part: ended, .. } if *ended == part);
                assert!(names_it && error.to_string().contains("SIGKILL"), "{case}: {error}");
                assert_eq!(Holdings::now(), before, "{case}");
            }
        }
    }
    println!("nothing is left");
}

/// The error of a target, one of whose parts is killed so long after its start.
fn killed(topology: Topology, part: &'static str, after: Duration) -> TargetError {
    let killer = thread::spawn(move || {
        let deadline = Instant::now() + LONG;
        let id = loop {
            if let Some(&id) = children().iter().find(|&&id| is_part(id, part)) {
                break id;
            }
            assert!(Instant::now() < deadline, "there is no {part}");
            thread::sleep(Duration::from_micros(200));
        };
        thread::sleep(after);
        kill(Pid::from_raw(id as i32), Signal::SIGKILL).unwrap();
    });
    let strategy = Strategy::Hybrid { poll_time: Span::from_us(100) };
    let error = match try_start(&along(topology, strategy)) {
        Err(SessionError::Target(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(mut session) => {
            must_be_in_memory_only(&session.target.process_ids());
            // It would take minutes.
            let plan = Plan {
                receiver: Receiver::Application,
                ..plan(1_500, Span::from_us(50), 10_000_000)
            };
            match inject(&mut session, &plan, Application::default(), 1, &mut |_| ()) {
                Err(Error::Target(error)) => error,
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("{part} was not missed"),
            }
        }
    };
    killer.join().unwrap();
    error
}

/// What this process holds of the system.
#[derive(Debug, PartialEq)]
struct Holdings {
    descriptors: BTreeSet<String>,
    children: Vec<u32>,
}

impl Holdings {
    fn now() -> Holdings {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        // The descriptor with which this directory is read is among them each time.
        let named = files.map(|file| {
            let target = std::fs::read_link(file.path()).unwrap_or_default();
            format!("{:?} {}", file.file_name(), target.display())
        });
        let own = format!("/proc/{}/fd", std::process::id());
        let descriptors = named.filter(|name| !name.ends_with(&own)).collect();
        Holdings { descriptors, children: children() }
    }
}

fn children() -> Vec<u32> {
    let us = std::process::id().to_string();
    let of_us = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(us.as_str())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(of_us).collect()
}

fn is_part(id: u32, name: &str) -> bool {
    let wanted = format!("{PART}={name}");
    let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// What parts share with us has no name in a file system, so that nothing can be left there.
fn must_be_in_memory_only(parts: &[u32]) {
    for id in parts.iter().copied().chain([std::process::id()]) {
        let maps = std::fs::read(format!("/proc/{id}/maps")).unwrap_or_default();
        let named = OsStr::from_bytes(&maps).to_string_lossy().contains("/dev/shm/");
        assert!(!named, "the process {id} has a file in /dev/shm");
    }
}
