//! `warikomi replace`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, ValueHint};
use warikomi_clock::{Seed, Span};
use warikomi_inject::FrameBytes;
use warikomi_lab::replace::{
    EVERY, INTERVALS, Load, MOST_REPLACEMENTS, Options, Plan, Progress, Replaced, Soak, replace,
};
use warikomi_process::Way;
use warikomi_target::Interrupted;

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use crate::replace_kernel::Asked;
use warikomi_session::TargetArguments;
use warikomi_session::flags::{given as flags, refuse};

/// Replaces the driver while it sends and receives, and proves what was lost: how long it takes, what the
/// workload notices of it, and what happened to every frame.
///
/// Ways: reload (stop, forget, reset the card, start; as an unloaded and loaded module), data-store (the new
/// driver is created, the old one's state goes through a store process), shared-state (the state lives in
/// memory that belongs to no driver, and a warm driver takes it over in place). Loads: idle; busy (the published
/// workload: 1,000 times send 1,024 bytes over TCP and compute 1 ms); heavy (the same, with datagrams sent as
/// fast as it goes and frames received at --interval). In each trial the driver is replaced once, at a random
/// moment.
///
/// Every frame is judged by its number, at the application and on the wire, and the TCP stream at its other
/// end. A way that promises to lose nothing and does fails the run. The claim rests on arithmetic: free receive
/// descriptors times the interval between frames must exceed the gap; it stands beside each row, and --edge
/// measures where it ends.
///
/// Keeps plan.toml, result.json, replacements.csv and timeline.csv in a directory of its own; `warikomi report`
/// draws them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    what: PlanArguments,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warikomi replace
      The published measurement, in all ways and under all loads, five trials each.
  warikomi replace --way shared-state --load heavy --trials 100 --kill
      A hundred kills at random moments, under full load in both directions.
  warikomi replace --way shared-state --load heavy --every 20ms --count 10000
      A soak: ten thousand replacements, while nothing may be lost and nothing may grow.
  warikomi replace --way shared-state --to ./my-driver
      From a driver of ours to a program of your own, and back again.
  warikomi replace --way shared-state --load heavy --edge
      How few receive descriptors bridge the gap, as predicted and as measured.
  warikomi replace --target kernel
      The same of a real kernel: rmmod and insmod of its driver.";

#[derive(Args)]
#[command(next_help_heading = "Replacements")]
struct PlanArguments {
    /// Ways to replace, with commas [default: all]
    #[arg(long = "way", value_name = "NAME,...", value_delimiter = ',')]
    ways: Vec<Way>,
    /// Loads, with commas [default: all]
    #[arg(long = "load", value_name = "NAME,...", value_delimiter = ',')]
    loads: Vec<Load>,
    /// Trials of each way under each load [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_REPLACEMENTS))]
    trials: Option<u64>,
    /// Length of a trial when idle and under heavy load, 10ms to 1min [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = trial)]
    trial: Option<Span>,
    /// Kills the driver rather than asking it to hand over
    #[arg(long)]
    kill: bool,
    /// A soak: a replacement in every such time, 1ms to 1min [default, with --for or --count: 100ms]
    #[arg(long, value_name = "TIME", value_parser = every)]
    every: Option<Span>,
    /// How long the soak of each row is, such as 1h
    #[arg(long = "for", value_name = "TIME", conflicts_with = "count")]
    span: Option<Span>,
    /// How many replacements the soak of each row has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_REPLACEMENTS))]
    count: Option<u64>,
    /// The driver that replaces --driver, and is replaced by it again: one of ours, or the path of a program
    /// [default: the same]
    #[arg(long, value_name = "NAME|PATH", value_hint = ValueHint::ExecutablePath)]
    to: Option<String>,
    /// Where the randomness starts from [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Time between two frames that arrive under heavy load [default: 10us]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Span>,
    /// Their length in bytes, without check sequence [default: 1024]
    #[arg(long, value_name = "BYTES")]
    size: Option<FrameBytes>,
    /// Looks for the fewest receive descriptors with which nothing is lost, besides
    #[arg(long)]
    edge: bool,
}

/// Time between replacements of a soak, unless it is given.
const USUAL_EVERY: Span = Span::from_ms(100);

fn within(text: &str, range: std::ops::RangeInclusive<Span>) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let said = || format!("{span} is not possible: choose {} to {}", range.start(), range.end());
    range.contains(&span).then_some(span).ok_or_else(said)
}

fn every(text: &str) -> Result<Span, String> {
    within(text, EVERY)
}

fn interval(text: &str) -> Result<Span, String> {
    within(text, INTERVALS)
}

fn trial(text: &str) -> Result<Span, String> {
    within(text, Span::from_ms(10)..=Span::from_ms(60_000))
}

impl PlanArguments {
    fn plan(&self, driver: &str, buffers: u64) -> Result<Plan> {
        let usual = Plan::default();
        let or = |given: &Option<u64>, usual: u64| given.unwrap_or(usual);
        let plan = Plan {
            ways: if self.ways.is_empty() { usual.ways } else { self.ways.clone() },
            loads: if self.loads.is_empty() { usual.loads } else { self.loads.clone() },
            trials: or(&self.trials, usual.trials),
            trial_ms: self.trial.map_or(usual.trial_ms, |span| span.as_ps() / 1_000_000_000),
            kill: self.kill,
            driver: driver.to_owned(),
            to: self.to.clone().unwrap_or_else(|| driver.to_owned()),
            seed: Seed(or(&self.seed, usual.seed.0)),
            interval_ns: self.interval.map_or(usual.interval_ns, Span::as_ns),
            frame_bytes: self.size.map_or(usual.frame_bytes, |size| size.0),
            buffers,
            edge: self.edge,
            soak: self.soak(),
        };
        plan.validate()?;
        Ok(plan)
    }

    fn soak(&self) -> Option<Soak> {
        let asked = self.every.is_some() || self.span.is_some() || self.count.is_some();
        let every = self.every.unwrap_or(USUAL_EVERY);
        let fit = |span: Span| (span.as_ps() / every.as_ps().max(1)).max(1);
        let count = self.count.or(self.span.map(fit)).unwrap_or(MOST_REPLACEMENTS);
        asked.then(|| Soak { count, every_ms: every.as_us() / 1e3 })
    }
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    if arguments.target.asks_for_kernel() {
        refuse(&arguments.of_process(), "process")?;
        return arguments.of_kernel().run(invocation);
    }
    let options = arguments.options()?;
    let mut found = measure(&options, &invocation.interrupted)?;
    output::describe_and_print(&mut found.result, arguments.json);
    let directory = invocation.new_run(&arguments.runs, "replace")?;
    directory.write_table("replacements", &found.lines)?;
    directory.write_table("timeline", &found.timeline)?;
    directory.write_result(&found.result)?;
    eprintln!("kept in {}", directory.path().display());
    ensure!(
        found.broken.is_empty(),
        "lost what was promised not to be lost: {}; this is a bug of driver, stack or supervisor, or the traffic \
         is more than this machine can receive: try a longer --interval",
        found.broken.join("; ")
    );
    Ok(if invocation.interrupted.is_set() {
        ExitCode::from(output::EXIT_INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}

impl Arguments {
    /// Flags that were given and mean nothing to a kernel.
    fn of_process(&self) -> Vec<&'static str> {
        let what = &self.what;
        flags([
            ("--way", !what.ways.is_empty()),
            ("--trial", what.trial.is_some()),
            ("--kill", what.kill),
            ("--every", what.every.is_some()),
            ("--for", what.span.is_some()),
            ("--count", what.count.is_some()),
            ("--to", what.to.is_some()),
            ("--edge", what.edge),
        ])
    }

    fn of_kernel(&self) -> Asked<'_> {
        Asked {
            target: &self.target,
            loads: &self.what.loads,
            trials: self.what.trials,
            interval: self.what.interval,
            frame_bytes: self.what.size.map(|size| size.0),
            seed: self.what.seed,
            runs: &self.runs,
            json: self.json,
        }
    }

    fn options(&self) -> Result<Options> {
        let session = self.target.prepare_live()?;
        let plan = self.what.plan(&session.driver, session.orders.buffers)?;
        let to = warikomi_session::flags::program(&plan.to)?;
        Ok(Options { plan, session, to })
    }
}

fn measure(options: &Options, interrupted: &Interrupted) -> Result<Replaced> {
    let bar = Cleared::over_rows();
    let mut progress = |progress: Progress<'_>| {
        bar.show(progress.done as usize, progress.all as usize, progress.row);
    };
    Ok(replace(options, interrupted, &mut progress)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(arguments: &[&str]) -> Result<Plan> {
        use clap::Parser;
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            what: PlanArguments,
        }
        Command::try_parse_from([&["replace"], arguments].concat())?.what.plan("rtl8168", 0)
    }

    #[test]
    fn without_flags_it_is_the_published_measurement() {
        assert_eq!(plan_of(&[]).unwrap(), Plan::default());
    }

    #[test]
    fn a_soak_is_as_long_as_its_time_or_its_count() {
        let soak = |arguments: &[&str]| plan_of(arguments).unwrap().soak;
        let hour = soak(&["--every", "100ms", "--for", "1h"]);
        assert_eq!(hour, Some(Soak { count: 36_000, every_ms: 100.0 }));
        assert_eq!(soak(&["--count", "7"]), Some(Soak { count: 7, every_ms: 100.0 }));
        assert_eq!(soak(&["--every", "20ms"]).unwrap().count, MOST_REPLACEMENTS);
        assert_eq!(soak(&["--trials", "3"]), None);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let refused = |arguments: &[&str]| plan_of(arguments).unwrap_err().to_string();
        assert!(refused(&["--way", "magic"]).contains("shared-state"));
        assert!(refused(&["--load", "lazy"]).contains("heavy"));
        assert!(refused(&["--every", "1us"]).contains("1 ms"));
        assert!(refused(&["--interval", "1s"]).contains("100 ns"));
        assert!(refused(&["--size", "59"]).contains("60"));
        assert!(refused(&["--for", "1h", "--count", "3"]).contains("cannot be used with"));
    }
}
