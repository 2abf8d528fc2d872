//! What is left behind: nothing, neither after many replacements nor when the supervisor's own process is
//! killed. Each test has a process of its own, so that nothing of other tests is counted.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use warikomi_live::{Event, Way};

use crate::LONG;
use crate::programs::good;
use crate::rig::Rig;
use crate::sudden::patient;

const ALONE: &str = "WARIKOMI_TEST_ALONE";

fn alone(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    command
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// What this process holds of the system.
#[derive(Debug, PartialEq, Eq)]
struct Holdings {
    descriptors: usize,
    threads: usize,
    children: usize,
    shared_maps: usize,
}

impl Holdings {
    fn now() -> Holdings {
        let entries = |path: &str| std::fs::read_dir(path).unwrap().count();
        let us = std::process::id().to_string();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Holdings {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            children: processes().filter(|process| process.parent == us).count(),
            shared_maps: maps.lines().filter(|line| line.contains("memfd:warikomi")).count(),
        }
    }
}

struct Process {
    state: String,
    parent: String,
    session: String,
}

fn processes() -> impl Iterator<Item = Process> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit(") ").next()?.split(' ').map(str::to_owned);
        Some(Process { state: fields.next()?, parent: fields.next()?, session: fields.nth(1)? })
    })
}

/// Replaces by plan and by killing, until all that had to leave have left, and the thread that started the
/// last one too: a driver can be warm before that thread says so.
fn replace_many(rig: &mut Rig, rounds: u32) {
    for round in 0..rounds {
        rig.wait_until_ready();
        if round % 4 == 3 {
            let generation = rig.status().generation;
            rig.signal(generation, Signal::SIGKILL);
        } else {
            rig.replace(&good());
        }
        rig.until(|rig| matches!(rig.pass(), Some(Event::Replaced(_))).then_some(()));
    }
    rig.wait_until_ready();
    rig.until(|rig| {
        assert_eq!(rig.pass(), None);
        let seats = rig.target.seats();
        let mut started = |&seat: &u32| rig.target.seat(seat).unwrap().process_id.is_some();
        (seats.len() == 2 && seats.iter().all(&mut started)).then_some(())
    });
}

#[test]
fn many_replacements_leave_nothing_behind() {
    let output = alone("soak::two_hundred_replacements").output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("200 replacements"), "{text}{errors}");
}

#[test]
#[ignore = "another test starts it, in a process of its own"]
fn two_hundred_replacements() {
    if !is_alone() {
        return;
    }
    for way in [Way::SharedState, Way::DataStore] {
        let mut rig = Rig::new(patient(way));
        replace_many(&mut rig, 20);
        let before = Holdings::now();
        replace_many(&mut rig, 200);
        assert_eq!(Holdings::now(), before);
        println!("{way:?}: 200 replacements, {before:?}");
        rig.finish().must_be_in_order();
    }
}

#[test]
fn when_the_supervisor_is_killed_everything_ends() {
    for wait_ms in [0, 30, 200] {
        let mut service = alone("soak::for_ever").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(service.stdout.take().unwrap()).lines();
        let named = |line: String| line.strip_prefix("session ").map(str::to_owned);
        let session = lines.find_map(|line| named(line.unwrap())).unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        service.kill().unwrap();
        service.wait().unwrap();
        let deadline = Instant::now() + LONG;
        let lives = |process: &Process| process.session == session && process.state != "Z";
        while processes().any(|process| lives(&process)) {
            assert!(Instant::now() < deadline, "processes of the session {session} stay");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Replaces until it is killed.
#[test]
#[ignore = "another test starts it, in a process of its own"]
fn for_ever() {
    if !is_alone() {
        return;
    }
    let mut rig = Rig::new(patient(Way::SharedState));
    // All parts are in one, which is not ours.
    let first = rig.target.seat(1).unwrap().process_id.unwrap();
    let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(first as i32))).unwrap();
    assert_ne!(Ok(session), nix::unistd::getsid(None));
    println!("\nsession {session}");
    loop {
        replace_many(&mut rig, 1);
    }
}
