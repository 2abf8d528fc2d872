//! `warikomi round-trip`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use serde_json::json;
use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_measure::published;
use warikomi_measure::{
    Machine, RunResult, TargetInfo, Thresholds, TimeBase, Warning, table, texts, warnings,
};
use warikomi_process::Orders;
use warikomi_session::TargetArguments;
use warikomi_sim::round_trip::{RoundTripOptions, round_trips};
use warikomi_sim::{CostModel, CostsFile};
use warikomi_stack::RoundTripPlan;
use warikomi_target::TargetError;
use warikomi_wire::Echo;

use super::columns;
use super::real::measure;
use super::row::Row;
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::watch::Watch;

/// The longest time of the line and the other end.
const LONGEST_DELAY: Span = Span::from_ms(1_000);

/// How long a small message takes there and back: from the request to send it until the application has the answer,
/// for each way to receive.
///
/// The application is in the driver's own process (a user-level network interface). The host at the other end of the
/// line sends each datagram back; the next one goes when the answer is there.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RoundTrip {
    #[command(flatten)]
    target: TargetArguments,
    /// Ways to receive, with commas [default: all that there are to choose from]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    strategies: Vec<Strategy>,
    /// Poll times T of hybrid in microseconds, with commas [default: 100]
    #[arg(long, value_name = "US,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    polls: Vec<u32>,
    /// Messages, behind the warm-up
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(1..=RoundTripPlan::MOST_MESSAGES))]
    count: u64,
    /// Messages at the beginning whose times are not kept
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(0..=RoundTripPlan::MOST_MESSAGES))]
    warmup: u64,
    /// Payload of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    size: u32,
    /// The line both ways, and the other end: what is added to each round trip
    #[arg(long, value_name = "TIME", default_value = "1us")]
    delay: Span,
    /// A message without an answer is lost after this time, and the next one goes
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    timeout: Span,
    /// Virtual time: driver, card and application in one thread, and work takes what is declared
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// Costs of virtual time, as `warikomi calibrate` prints them [default: declared ones]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "virtual_time")]
    costs: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  warikomi round-trip
      Every way to receive, beside the time that was published of a small message.
  warikomi round-trip --strategies hybrid,interrupt --polls 5,100 --size 64
      Two of them; a poll time that is shorter than the round trip sleeps in each.
  warikomi round-trip --virtual
      The same of declared costs.";

/// What the plan in `result.json` says.
#[derive(Serialize)]
struct Asked {
    #[serde(serialize_with = "texts")]
    strategies: Vec<Strategy>,
    count: u64,
    warmup: u64,
    payload_bytes: u32,
    delay_ns: f64,
    timeout_ns: f64,
}

impl Experiment for RoundTrip {
    const NAME: &'static str = "round-trip";
    const ABOUT: &'static str = "How long a small message takes there and back";
    const PUBLISHED: Option<&'static str> = Some(published::HYBRID_RECEIVE);

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let (plan, strategies) = (self.plan()?, self.ways()?);
        self.target.refuse_ways()?;
        let asked = Asked {
            strategies: strategies.clone(),
            count: plan.count,
            warmup: plan.warmup,
            payload_bytes: plan.payload_bytes,
            delay_ns: self.delay.as_ns(),
            timeout_ns: plan.timeout.as_ns(),
        };
        let (result, _) = match self.virtual_time {
            true => self.run_in_virtual_time(&plan, &asked, watch)?,
            false => self.run_in_process(&plan, &asked, watch)?,
        };
        Ok(Conclusion::new(result))
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

impl RoundTrip {
    fn plan(&self) -> Result<RoundTripPlan, Error> {
        let plan = RoundTripPlan {
            payload_bytes: self.size,
            run_id: 1,
            warmup: self.warmup,
            count: self.count,
            timeout: self.timeout,
        };
        plan.check().map_err(Error::impossible)?;
        if self.delay > LONGEST_DELAY || self.delay >= self.timeout {
            return Err(Error::impossible(format!(
                "no answer comes before --delay {}: choose up to {LONGEST_DELAY}, and less than --timeout {}",
                self.delay, self.timeout
            )));
        }
        Ok(plan)
    }

    /// Each way to receive, one that polls for a time with each of the times.
    fn ways(&self) -> Result<Vec<Strategy>, Error> {
        let hybrid = |us: u32| Strategy::Hybrid { poll_time: Span::from_us(us.into()) };
        let all = [Strategy::Interrupt, Strategy::Poll, Strategy::Napi { budget: 64 }, hybrid(100)];
        let chosen = if self.strategies.is_empty() { &all[..] } else { &self.strategies };
        let mut ways = Vec::new();
        for &strategy in chosen {
            let has_time = matches!(strategy, Strategy::Hybrid { .. }) && !self.polls.is_empty();
            match has_time {
                true => ways.extend(self.polls.iter().map(|&us| hybrid(us))),
                false => ways.push(strategy),
            }
        }
        let any_polls = ways.iter().any(|way| matches!(way, Strategy::Hybrid { .. }));
        if !self.polls.is_empty() && !any_polls {
            return Err(Error::impossible(
                "--polls is for hybrid, and --strategies does not name it; leave --polls out",
            ));
        }
        self.budget_for(&mut ways)?;
        Ok(ways)
    }

    /// The share of a processor that was asked for is that of the ways that keep to one.
    fn budget_for(&self, ways: &mut [Strategy]) -> Result<(), Error> {
        let Some(asked) = self.target.cpu_budget() else { return Ok(()) };
        let mut found = false;
        for way in ways {
            if let Ok(budgeted) = way.with_cpu_budget(asked) {
                (*way, found) = (budgeted, true);
            }
        }
        match found {
            true => Ok(()),
            false => Err(Error::impossible(
                "--cpu-budget is for auto, and --strategies does not name it; leave --cpu-budget out",
            )),
        }
    }

    fn run_in_process(
        &self,
        plan: &RoundTripPlan,
        asked: &Asked,
        watch: &mut Watch,
    ) -> Result<(RunResult, Vec<Row>), Error> {
        let prepared = self.target.prepare_direct()?;
        let mut bring_up = |orders: &Orders, watch: &mut Watch| {
            watch.start_on(&prepared.with_orders(orders), Box::new(Echo::new(self.delay)))
        };
        let rows = watch.each(&asked.strategies, name, |&strategy, watch| {
            measure(plan, strategy, &mut bring_up, watch)
        })?;
        let (mut target, machine) = watch.seen();
        // These are different in each row.
        target.settings.clear();
        let mut result = table(Self::NAME, TimeBase::Real, machine, target, asked, &rows);
        result.warnings = warnings(&result, &Thresholds::default());
        result.warnings.extend(lost(&rows));
        Ok((result, rows))
    }

    fn run_in_virtual_time(
        &self,
        plan: &RoundTripPlan,
        asked: &Asked,
        watch: &mut Watch,
    ) -> Result<(RunResult, Vec<Row>), Error> {
        self.target.refuse_kernel_for_direct()?;
        let driver = self.target.simulated_driver()?;
        let costs = match &self.costs {
            None => CostModel::default(),
            Some(path) => CostsFile::read(path)?.costs,
        };
        let interrupted = watch.interrupted.clone();
        let rows = watch.each(&asked.strategies, name, |&strategy, _| {
            let options = RoundTripOptions {
                plan: *plan,
                strategy,
                driver: driver.name.to_owned(),
                delay: self.delay,
                costs,
            };
            let found = round_trips(&options, &|| interrupted.is_set())?;
            let found = found.ok_or(TargetError::Interrupted)?;
            Ok(Row {
                sleeps: found.sleeps,
                interrupts: Some(found.interrupts),
                digest: Some(found.digest),
                ..Row::new(strategy, found.counts, &found.round_trips_ns)
            })
        })?;
        let target = TargetInfo::of_simulated(driver.name, driver.name);
        let (base, machine) = (TimeBase::Virtual, Machine::default());
        let mut result = table(Self::NAME, base, machine, target, asked, &rows);
        result.figures.insert("costs".into(), json!(costs));
        result.warnings.extend(lost(&rows));
        Ok((result, rows))
    }
}

fn name(strategy: &Strategy) -> String {
    strategy.name().to_owned()
}

/// What is to be said of messages that were lost.
fn lost(rows: &[Row]) -> Option<Warning> {
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    (lost > 0).then(|| Warning {
        what: format!("{lost} messages had no answer in time"),
        hint: "repeat when nothing else runs on these cores, or give a longer --timeout".to_owned(),
    })
}
