//! `warikomi histories` and `warikomi calibrate`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use warikomi_clock::{Seed, TscClock};
use warikomi_sim::Pair;
use warikomi_sim::calibrate::calibrate;
use warikomi_sim::history::{Histories, HistoryError, histories};

use crate::output::{self, Cleared};

/// Runs random histories of the process target in virtual time, and has each judged by checkers that
/// stand apart from it: every packet accounted for once, every buffer with one owner and back in the
/// end, packets in order, and progress once nothing goes wrong any more. A seed is a history; the
/// first that is wrong is printed with the command that repeats it.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many histories
    #[arg(long, value_name = "N", default_value_t = 20_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// The seed of the first; the next have the numbers behind it
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Let faults strike, and parts stall and die
    #[arg(long)]
    faults: bool,
    /// The driver
    #[arg(long, default_value = warikomi_driver::DEFAULT_DRIVER)]
    driver: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Histories between two looks of the progress bar.
const STEP: u64 = 100;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let &Arguments { count, seed, faults, .. } = arguments;
    let Some(pair) = Pair::by_name(&arguments.driver) else {
        let names: Vec<_> = warikomi_driver::DRIVERS.iter().map(|info| info.name).collect();
        bail!("there is no driver called {}; there are: {}", arguments.driver, names.join(", "));
    };
    let bar = Cleared(output::bar("{bar:32} {percent:>3}% {elapsed} {eta} left"));
    bar.0.set_length(count);
    let clock = TscClock::calibrate().context("cannot tell how long it takes")?;
    let start = clock.now();
    let wanted = Histories { seed: Seed(seed), count, faults };
    let done = histories(&wanted, &pair, &mut |tried| {
        if tried % STEP == 0 {
            bar.0.set_position(tried);
        }
    });
    let took = clock.now().since(start).as_secs();
    drop(bar);
    let summary = match done {
        Ok(summary) => summary,
        Err(HistoryError::Wrong(failure)) => {
            eprintln!("warikomi: {failure}");
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    if arguments.json {
        let object = json!({
            "time_base": "virtual",
            "seed": seed,
            "faults": faults,
            "histories": summary.histories,
            "packets": summary.packets,
            "delivered": summary.delivered,
            "events": summary.events,
            "restarts": summary.restarts,
            "driver_failures": summary.failures,
            "digest": summary.digest,
            "took_s": took,
        });
        println!("{object:#}");
    } else {
        println!(
            "{} histories from seed {seed}: none is wrong ({})\n\
             {} packets, {} delivered, {} events judged\n\
             {} parts were started again, {} of them drivers that gave up by themselves\n\
             digest of all: {}",
            summary.histories,
            output::spoken(Duration::from_secs_f64(took)),
            summary.packets,
            summary.delivered,
            summary.events,
            summary.restarts,
            summary.failures,
            summary.digest,
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures what virtual time charges for copying, registers, sleeping and waking on this machine, and
/// prints it as TOML. It takes about a second; leave the machine alone meanwhile.
#[derive(Args)]
pub(crate) struct CalibrateArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_calibrate(arguments: &CalibrateArguments) -> Result<ExitCode> {
    let calibration = calibrate()?;
    if arguments.json {
        println!("{:#}", serde_json::to_value(&calibration)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("# Measured on this machine, but for what is marked.");
    let sections = [
        ("costs", "receiving", serde_json::to_value(calibration.costs)?),
        (
            "send",
            "sending; without a system call, because all of it is one process",
            serde_json::to_value(calibration.send)?,
        ),
    ];
    for (section, about, costs) in sections {
        println!("\n# {about}\n[{section}]");
        for (name, value) in costs.as_object().into_iter().flatten() {
            let declared = calibration.declared.contains(name);
            println!(
                "{name} = {value}{}",
                if declared { "  # declared, not measured" } else { "" }
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
