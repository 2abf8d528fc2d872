//! A driver that writes anything anywhere costs the support side nothing but an error.

use std::time::Duration;

use warikomi_clock::Seed;
use warikomi_nic::Frame;
use warikomi_pci::{Interrupt, MsiMessage};
use warikomi_target::{CardId, Target, TargetError};

use crate::drivers::{Behaviour, wild};
use crate::leaks::Holdings;
use crate::{running, try_start};

/// How long each of the two kinds of harm lasts; seconds in the environment say otherwise.
fn span(otherwise: Duration) -> Duration {
    let seconds = std::env::var("WARIKOMI_SCRIBBLE_SECONDS").ok();
    seconds.map_or(otherwise, |text| Duration::from_secs(text.parse().unwrap()))
}

/// Serves and injects until the driver ends; the number of passes.
fn survive(behaviour: Behaviour, span: Duration, seed: Seed) -> u64 {
    let mut target =
        try_start(running(wild(behaviour, span, seed))).unwrap_or_else(|error| panic!("{error}"));
    let frame = [0x5a; 1_500];
    let mut passes = 0;
    let error = loop {
        let passed = (0..256).try_for_each(|_| target.poll().map(|_| passes += 1));
        let (nic, mut host) = target.card(CardId::FIRST).unwrap();
        nic.receive(&mut host, Frame::new(&frame));
        nic.rx_progress(&mut host, usize::MAX);
        host.interrupts.signal(Interrupt::Msi(MsiMessage { address: 0, data: 0 }));
        if let Err(error) = passed.and_then(|()| target.housekeep()) {
            break error;
        }
        // The machine may have one core for both.
        std::thread::yield_now();
    };
    // A state that happens to be "failed" is believed, and is an error, too.
    let told = matches!(error, TargetError::PartEnded { .. } | TargetError::DriverFailed { .. });
    assert!(told, "{error}");
    let counters = target.counters();
    println!("{behaviour:?}: {passes} passes, {counters:?}");
    assert!(counters.corrupt_rings > 0 && counters.bad_stamps > 0, "{counters:?}");
    if behaviour == Behaviour::Fuzzes {
        assert!(counters.accesses > 0, "{counters:?}");
    }
    target.stop().unwrap();
    passes
}

fn survive_all(span: Duration) {
    let seed = Seed(warikomi_clock::read_tsc());
    println!("seed {seed:?}");
    // The first round allocates what stays.
    survive(Behaviour::Fuzzes, Duration::from_millis(200), seed);
    let before = Holdings::now();
    for behaviour in [Behaviour::Scribbles, Behaviour::Fuzzes] {
        let passes = survive(behaviour, span, seed);
        assert!(passes > 1_000);
    }
    before.must_not_have_grown();
}

/// Run in a process of its own, so that other tests' descriptors and children are not counted.
#[test]
fn a_driver_that_scribbles_over_its_region_costs_nothing_but_an_error() {
    alone("scribble::for_some_seconds");
}

/// The same for a minute.
#[test]
#[ignore = "takes two minutes"]
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
    assert!(output.status.success() && text.contains("Fuzzes: "), "{text}{errors}");
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
        survive_all(span(Duration::from_secs(60)));
    }
}
