//! A card with two queues, two vectors and two BARs below a driver process: what is told apart.

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::trace::{Happening, Reader, Recorded, Tape};
use warikomi_lab::ProcessSessionOptions;
use warikomi_nic::NicOptions;
use warikomi_testbench::cards::duo;

use crate::{injected, options, plan, program, started};

fn duo_options(strategy: Strategy) -> ProcessSessionOptions {
    ProcessSessionOptions {
        driver: "duo".into(),
        program: program("driver duo"),
        nic: NicOptions::of("duo"),
        make_nic: duo::make,
        ..options(strategy)
    }
}
