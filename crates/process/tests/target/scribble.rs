//! A driver that writes anything anywhere, in all the memory that it shares, costs the support side nothing but an error.

use std::net::Ipv4Addr;
use std::time::Duration;

use warikomi_clock::{Seed, TscClock};
use warikomi_nic::Frame;
use warikomi_pci::{Interrupt, MsiMessage};
use warikomi_process::{Above, ProcessOptions, ProcessTarget, Program, Succession, Way};
use warikomi_stack::{Chain, ChainOptions, Station, Topology, Waiting};
use warikomi_target::{CardId, Target, TargetCounters, TargetError};

use crate::drivers::{Behaviour, wild};
use crate::leaks::Holdings;
use crate::{running, try_start};

/// How long each of the three kinds of harm lasts; seconds in the environment say otherwise.
fn span(otherwise: Duration) -> Duration {
    let seconds = std::env::var("WARIKOMI_SCRIBBLE_SECONDS").ok();
    seconds.map_or(otherwise, |text| Duration::from_secs(text.parse().unwrap()))
}

/// Serves and injects until the driver ends; the number of passes, and what was counted.
fn survive(behaviour: Behaviour, span: Duration, seed: Seed) -> (u64, TargetCounters) {
    let mut target =
        try_start(running(wild(behaviour, span, seed))).unwrap_or_else(|error| panic!("{error}"));
    let mut passes = 0;
    let error = loop {
        if let Err(error) = work(&mut target, &mut passes) {
            break error;
        }
    };
    // A state that happens to be "failed" is believed, and is an error, too.
    let told = matches!(error, TargetError::PartEnded { .. } | TargetError::DriverFailed { .. });
    assert!(told, "{error}");
    let counters = target.counters();
    println!("{behaviour:?}: {passes} passes, {counters:?}");
    target.stop().unwrap();
    (passes, counters)
}

/// Serves for a moment, with a frame and an interrupt.
fn work(target: &mut ProcessTarget, passes: &mut u64) -> Result<(), TargetError> {
    let passed = (0..256).try_for_each(|_| target.poll().map(|_| *passes += 1));
    let (nic, mut host) = target.card(CardId::FIRST).unwrap();
    nic.receive(&mut host, Frame::new(&[0x5a; 1_500]));
    nic.rx_progress(&mut host, usize::MAX);
    host.interrupts.signal(Interrupt::Msi(MsiMessage { address: 0, data: 0 }));
    // The machine may have one core for both.
    std::thread::yield_now();
    passed.and_then(|()| target.housekeep())
}

fn no_program(name: &str) -> Program {
    unreachable!("{name} is above the driver")
}

/// A target whose driver can be replaced, with packet memory and nothing above it: the driver shares all that there is to
/// share.
fn with_everything(driver: Program) -> ProcessOptions {
    let mut chain = Chain::build(&ChainOptions {
        topology: Topology::Application,
        application_buffers: 256,
        stack_buffers: 0,
        buffer_bytes: 2_048,
        station: Station {
            mac: [2, 0, 0, 0, 0, 1],
            address: Ipv4Addr::new(10, 9, 0, 1),
            prefix_bits: 24,
        },
        hosts: Vec::new(),
        tcp_port: None,
        waiting: Waiting::Wait,
        copy_out: false,
        tsc_hz: TscClock::calibrate().unwrap().ticks_per_second() as u64,
    })
    .unwrap();
    (chain.parts, chain.control) = (Vec::new(), None);
    let succession = Succession {
        way: Way::SharedState,
        store: None,
        priorities: None,
        creation_reads: 0,
        starter: None,
    };
    ProcessOptions {
        above: Some(Above { chain, program: no_program, application: None }),
        live: Some(succession),
        ..running(driver)
    }
}

/// Serves a live target until its driver has ended, and looks at all that a supervisor looks at; the number of wild
/// batons that it saw, and what was counted.
fn survive_live(span: Duration, seed: Seed) -> (u64, TargetCounters) {
    let options = with_everything(wild(Behaviour::Fuzzes, span, seed));
    let mut target = try_start(options).unwrap_or_else(|error| panic!("{error}"));
    let generation = target.served();
    let (mut passes, mut batons) = (0, 0u64);
    loop {
        work(&mut target, &mut passes).unwrap_or_else(|error| panic!("{error}"));
        let baton = target.baton();
        batons += u64::from(baton.generation != generation || baton.owner != 0);
        target.work_waits();
        let seat = target.seat(generation).unwrap();
        if seat.ended.is_some() {
            break;
        }
    }
    let counters = target.counters();
    println!("live: {passes} passes, {batons} wild batons, {counters:?}");
    target.stop().unwrap();
    (batons, counters)
}

fn survive_all(span: Duration) {
    let given = std::env::var("WARIKOMI_TEST_SEED").ok();
    let seed = given.map_or_else(warikomi_clock::read_tsc, |text| text.parse().unwrap());
    println!(
        "WARIKOMI_TEST_SEED={seed} cargo test -p warikomi-process --test target scribble::a_driver"
    );
    let seed = Seed(seed);
    // The first round allocates what stays. It is short, so a busy machine may let nothing happen in it.
    survive(Behaviour::Fuzzes, Duration::from_millis(200), seed);
    survive_live(Duration::from_millis(200), seed);
    let before = Holdings::now();
    for behaviour in [Behaviour::Scribbles, Behaviour::Fuzzes] {
        let (passes, counters) = survive(behaviour, span, seed);
        assert!(passes > 1_000, "{passes}");
        assert!(counters.corrupt_rings > 0 && counters.bad_stamps > 0, "{counters:?}");
        assert!(counters.accesses > 0 || behaviour == Behaviour::Scribbles, "{counters:?}");
    }
    let (batons, counters) = survive_live(span, seed);
    assert!(batons > 0 && counters.corrupt_rings > 0 && counters.accesses > 0, "{counters:?}");
    before.must_not_have_grown();
}

/// Run in a process of its own, so that other tests' descriptors and children are not counted.
#[test]
fn a_driver_that_scribbles_over_its_region_costs_nothing_but_an_error() {
    alone("scribble::for_some_seconds");
}

/// The same for a minute.
#[test]
#[ignore = "takes a minute; scripts/test-long"]
fn a_driver_that_scribbles_for_a_minute_costs_nothing_but_an_error() {
    alone("scribble::for_a_minute");
}

const ALONE: &str = "WARIKOMI_TEST_ALONE";

fn alone(test: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let all = ["Scribbles: ", "Fuzzes: ", "live: "];
    let done = all.iter().all(|one| text.contains(one));
    assert!(output.status.success() && done, "{text}{errors}");
}

#[test]
#[ignore = "another test starts it, in a process of its own"]
fn for_some_seconds() {
    if std::env::var_os(ALONE).is_some() {
        survive_all(span(Duration::from_millis(2_500)));
    }
}

#[test]
#[ignore = "another test starts it, in a process of its own"]
fn for_a_minute() {
    if std::env::var_os(ALONE).is_some() {
        survive_all(span(Duration::from_secs(20)));
    }
}
