//! Process targets whose drivers behave badly, and what it costs the support side: an error.
//!
//! A driver here is this very test binary, run again to be one test, [`drivers::part`].

mod drivers;
mod failure;
mod leaks;
mod sandbox;
mod scribble;
mod seats;
mod speed;
mod starter;

use std::time::Duration;

use drivers::Behaviour;
use warikomi_clock::TscClock;
use warikomi_process::{Orders, ProcessOptions, ProcessTarget, Program};
use warikomi_target::{Interrupted, TargetError};

/// What a target is started with whose driver behaves like this.
fn options(behaviour: Behaviour) -> ProcessOptions {
    running(drivers::program(behaviour))
}

fn running(driver: Program) -> ProcessOptions {
    ProcessOptions {
        driver,
        dma_bytes: 1 << 20,
        orders: Orders::default(),
        above: None,
        core: None,
        // Other tests run at the same time.
        shared_core: true,
        live: None,
        confined: true,
    }
}

fn try_start(options: ProcessOptions) -> Result<ProcessTarget, TargetError> {
    let nic = warikomi_testbench::card("rtl8168");
    let clock = TscClock::calibrate().unwrap();
    ProcessTarget::start(options, nic, clock, Interrupted::default())
}

fn start(behaviour: Behaviour) -> ProcessTarget {
    try_start(options(behaviour)).unwrap_or_else(|error| panic!("{error}"))
}

fn error_of(started: Result<ProcessTarget, TargetError>) -> TargetError {
    match started {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

/// Longer than anything here takes, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);
