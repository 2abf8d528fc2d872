//! `warikomi replace`.

use clap::{Args, ValueHint};
use warikomi_clock::{Seed, Span};
use warikomi_inject::{FrameBytes, LineRate};
use warikomi_live::{Program, Way};
use warikomi_measure::RunResult;
use warikomi_measure::published;
use warikomi_process::{MOST_READS, MOST_STORE_CLIENTS, StateIo, can_be_read, may_be_raised};
use warikomi_session::flags::{given, program, refuse};
use warikomi_session::{StrictArguments, Strictness, TargetArguments};

use super::claims::Claim;
use super::plan::{
    EVERY, INTERVALS, Load, MOST_REPLACEMENTS, Options, Plan, STORE_INTERVALS, Soak, Spare,
};
use super::{columns, kernel, series};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::values::span_within;
use crate::watch::Watch;

/// Replaces the driver while it sends and receives, and proves what was lost: how long it takes, what the
/// workload notices of it, and what happened to every frame.
///
/// Ways: reload (stop, forget, reset the card, start; as an unloaded and loaded module), data-store (the new
/// driver is created, the old one's state goes through a store process), shared-state (the state lives in
/// memory that belongs to no driver, and a warm driver takes it over in place). Loads: idle; busy (the published
/// workload: 1,000 times send 1,024 bytes over TCP and compute 1 ms); heavy (the same, with datagrams sent as
/// fast as it goes and frames received at --interval). In each trial the driver is replaced once, at a random
/// moment. The time to replace is the published one: from the request to the return of its result, the new
/// process's creation included; --spare kept has that behind it already.
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
pub struct Replace {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    strict: StrictArguments,
    #[command(flatten)]
    what: PlanArguments,
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
    /// Whether a driver process is kept ready (kept) or created when it is asked for, as in the published systems
    /// (none), with commas [default: both; with --to none]
    #[arg(long = "spare", value_name = "NAME,...", value_delimiter = ',')]
    spares: Vec<Spare>,
    /// Trials of each way under each load [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_REPLACEMENTS))]
    trials: Option<u64>,
    /// Length of a trial when idle and under heavy load, 10ms to 1min [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = trial)]
    trial: Option<Span>,
    /// When the data store serves what belongs to a replacement: in-turn, as the published system, or first, before
    /// what others ask for [default: in-turn]
    #[arg(long, value_name = "NAME")]
    state_io: Option<StateIo>,
    /// How many clients ask the data store again and again, and have nothing to do with drivers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_STORE_CLIENTS)))]
    store_load: Option<u32>,
    /// How often each of them asks, 10us to 1s [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = store_interval, requires = "store_load")]
    store_interval: Option<Span>,
    /// What processes claim of the core that they share, with commas, such as
    /// requester=high,drivers=low,stack=low,application=low,store=low: nice values, high (-10) or low (10); 0 for one
    /// that is not named [default: drivers come first, where that is allowed]
    #[arg(long = "priority", value_name = "WHO=NICE,...", value_delimiter = ',')]
    priorities: Vec<Claim>,
    /// The supervisor, which asks for replacements, too, is on the core of store, driver, stack and application; the
    /// card on the other, alone
    #[arg(long)]
    one_core: bool,
    /// How many reads from the disk the creation of each driver process waits for; published: 10 [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_READS)))]
    creation_io: Option<u32>,
    /// The line that frames leave on, such as 100M [default: one that takes no time]
    #[arg(long, value_name = "RATE")]
    line_rate: Option<LineRate>,
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

fn every(text: &str) -> Result<Span, String> {
    span_within(text, EVERY)
}

fn interval(text: &str) -> Result<Span, String> {
    span_within(text, INTERVALS)
}

fn store_interval(text: &str) -> Result<Span, String> {
    span_within(text, STORE_INTERVALS)
}

fn trial(text: &str) -> Result<Span, String> {
    span_within(text, Span::from_ms(10)..=Span::from_ms(60_000))
}

impl PlanArguments {
    /// Flags that were given and mean nothing to a kernel.
    fn of_process(&self) -> Vec<&'static str> {
        given([
            ("--way", !self.ways.is_empty()),
            ("--spare", !self.spares.is_empty()),
            ("--state-io", self.state_io.is_some()),
            ("--store-load", self.store_load.is_some()),
            ("--store-interval", self.store_interval.is_some()),
            ("--priority", !self.priorities.is_empty()),
            ("--one-core", self.one_core),
            ("--creation-io", self.creation_io.is_some()),
            ("--trial", self.trial.is_some()),
            ("--kill", self.kill),
            ("--every", self.every.is_some()),
            ("--for", self.span.is_some()),
            ("--count", self.count.is_some()),
            ("--to", self.to.is_some()),
            ("--edge", self.edge),
        ])
    }

    /// All ways that can have the spares, and the store, that were asked for.
    fn usual_ways(&self) -> Vec<Way> {
        let can = |way: &Way| {
            let spare = self.spares != [Spare::Kept] || *way != Way::Reload;
            spare && (self.store_load.is_none() || *way == Way::DataStore)
        };
        Way::ALL.into_iter().filter(can).collect()
    }

    fn in_process(&self, driver: &str, buffers: u64) -> Result<Plan, Error> {
        let usual = Plan::default();
        let plan = Plan {
            ways: if self.ways.is_empty() { self.usual_ways() } else { self.ways.clone() },
            loads: if self.loads.is_empty() { usual.loads } else { self.loads.clone() },
            spares: if self.spares.is_empty() { usual.spares } else { self.spares.clone() },
            trials: self.trials.unwrap_or(usual.trials),
            trial_ms: self.trial.map_or(usual.trial_ms, |span| span.as_ps() / 1_000_000_000),
            kill: self.kill,
            driver: driver.to_owned(),
            to: self.to.clone().unwrap_or_else(|| driver.to_owned()),
            seed: self.seed.map_or(usual.seed, Seed),
            interval_ns: self.interval.map_or(usual.interval_ns, Span::as_ns),
            frame_bytes: self.size.map_or(usual.frame_bytes, |size| size.0),
            buffers,
            state_io: self.state_io.unwrap_or(usual.state_io),
            store_load: self.store_load.unwrap_or(usual.store_load),
            store_interval_ns: self.store_interval.map_or(usual.store_interval_ns, Span::as_ns),
            priorities: self.priorities.clone(),
            one_core: self.one_core,
            creation_io: self.creation_io.unwrap_or(usual.creation_io),
            line_rate_bps: self.line_rate.map(|rate| rate.0),
            edge: self.edge,
            soak: self.soak(),
        };
        if self.state_io.is_some() && !plan.ways.contains(&Way::DataStore) {
            return Err(Error::impossible(
                "--state-io is for a data store, and no way that is named has one; name data-store as well",
            ));
        }
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

    fn in_kernel(&self) -> Result<kernel::Options, Error> {
        let usual = kernel::Options::default();
        let trials = self.trials.map_or(Ok(usual.trials), u32::try_from);
        Ok(kernel::Options {
            loads: if self.loads.is_empty() { usual.loads } else { self.loads.clone() },
            trials: trials
                .map_err(|_| Error::impossible("so many trials take years; give fewer"))?,
            interval: self.interval.unwrap_or(usual.interval),
            frame_bytes: self.size.map_or(usual.frame_bytes, |size| size.0),
            seed: self.seed.map_or(usual.seed, Seed),
            ..usual
        })
    }
}

impl Experiment for Replace {
    const NAME: &'static str = "replace";
    const ABOUT: &'static str =
        "Replace a driver while it sends and receives: how long it takes, and that nothing is lost";
    const PUBLISHED: Option<&'static str> = Some(published::DRIVER_REPLACEMENT);

    fn strict(&self) -> Option<Strictness> {
        self.strict.strict
    }

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        match self.target.asks_for_kernel() {
            true => self.run_in_kernel(watch),
            false => self.run_in_process(watch),
        }
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

impl Replace {
    fn run_in_process(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let mut session = self.target.prepare_live()?;
        session.nic.strict = watch.is_strict();
        let plan = self.what.in_process(&session.driver, session.orders.buffers)?;
        let to = program(&plan.to)?;
        possible_here(&plan, [&session.program, &to])?;
        session.nic.line_rate_bps = plan.line_rate_bps;
        let found = series::replace(&Options { plan, session, to }, watch)?;
        let broken = found.broken.join("; ");
        let mut conclusion = Conclusion::new(found.result)
            .with_table("replacements", found.lines)
            .with_table("timeline", found.timeline);
        conclusion.failed = (!broken.is_empty()).then_some(Error::PromiseBroken(broken));
        Ok(conclusion)
    }

    fn run_in_kernel(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        refuse(&self.what.of_process(), "process")?;
        let options = self.what.in_kernel()?;
        let mut prepared = self.target.prepare()?;
        if let Some(LineRate(bps)) = self.what.line_rate {
            prepared.attach_by(None, Some(bps));
        }
        let Some(brought_up) = prepared.kernel() else {
            return Err(Error::impossible("this is no kernel"));
        };
        let (host, traffic) = kernel::Traffic::with_host();
        let mut session = watch.start_on(&prepared, Box::new(host))?;
        let result = kernel::replace(&mut session, brought_up, &traffic, &options, watch)?;
        session.stop()?;
        Ok(Conclusion::new(result))
    }
}

/// Refuses what this machine, or this user, cannot have.
fn possible_here(plan: &Plan, programs: [&Program; 2]) -> Result<(), Error> {
    if plan.priorities.iter().any(|claim| claim.nice < 0) && !may_be_raised() {
        return Err(Error::impossible(
            "a nice value below 0 needs the right to raise a process (CAP_SYS_NICE), which root has; run as root, or \
             give 0 to 19",
        ));
    }
    for program in programs.iter().filter(|_| plan.creation_io > 0) {
        can_be_read(&program.path).map_err(|error| {
            let path = program.path.display();
            Error::impossible(format!(
                "--creation-io reads {path} from its disk, past the page cache, and that is not possible ({error}); put \
                 it on a disk whose file system has O_DIRECT, or leave the flag out"
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(arguments: &[&str]) -> Result<Plan, Box<dyn std::error::Error>> {
        use clap::Parser;
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            what: PlanArguments,
        }
        let command = Command::try_parse_from([&["replace"], arguments].concat())?;
        Ok(command.what.in_process("rtl8168", 0)?)
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
    fn a_spare_or_a_store_leaves_out_ways_that_have_none() {
        let plan = plan_of(&["--spare", "kept"]).unwrap();
        assert_eq!(plan.ways, [Way::DataStore, Way::SharedState]);
        assert_eq!(plan_of(&["--spare", "none"]).unwrap().ways, Way::ALL);
        assert_eq!(plan_of(&["--store-load", "3"]).unwrap().ways, [Way::DataStore]);
        let often = plan_of(&["--store-load", "3", "--store-interval", "250us"]).unwrap();
        assert_eq!(often.store_interval_ns, 250_000.0);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let refused = |arguments: &[&str]| plan_of(arguments).unwrap_err().to_string();
        assert!(refused(&["--way", "magic"]).contains("shared-state"));
        assert!(refused(&["--load", "lazy"]).contains("heavy"));
        assert!(refused(&["--state-io", "last"]).contains("in-turn"));
        assert!(refused(&["--state-io", "first", "--way", "reload"]).contains("name data-store"));
        assert!(refused(&["--priority", "card=high"]).contains("requester, drivers"));
        assert!(refused(&["--priority", "requester=0"]).contains("--one-core"));
        assert!(refused(&["--creation-io", "1001"]).contains("1000"));
        assert!(refused(&["--line-rate", "100M"]).contains("a longer --interval"));
        assert!(refused(&["--store-interval", "1ms"]).contains("--store-load"));
        assert!(refused(&["--store-load", "1", "--store-interval", "1us"]).contains("10 µs"));
        assert!(refused(&["--spare", "two"]).contains("kept"));
        assert!(refused(&["--way", "reload", "--spare", "kept"]).contains("by reload"));
        assert!(refused(&["--to", "./mine", "--spare", "kept"]).contains("--to names another"));
        assert!(refused(&["--every", "1us"]).contains("1 ms"));
        assert!(refused(&["--interval", "1s"]).contains("100 ns"));
        assert!(refused(&["--size", "59"]).contains("60"));
        assert!(refused(&["--for", "1h", "--count", "3"]).contains("cannot be used with"));
    }
}
