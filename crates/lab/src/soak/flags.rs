//! `warikomi soak`.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use warikomi_clock::Span;
use warikomi_measure::{Machine, RunResult, TargetInfo, TimeBase, Warning, as_object};
use warikomi_session::LINUX_DRIVER;

use super::canary::{self, Canary};
use super::columns;
use super::kernel::{KernelArguments, Places};
use super::row::Made;
use super::seeds::{Batch, Seeds};
use super::trial::{Draw, Targets};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::watch::Watch;

/// Seeds that are tried if nothing else is said.
const SEEDS: u64 = 2_000;

/// Seeds of a case: a tenth of a second without a kernel.
const OF_A_CASE: u64 = 100;

/// Tries random histories in virtual time for as long as you like: topologies, strategies, loads, faults, deaths and
/// changes of hands of driver processes; and loads, ways, costs, faults and places in the code of a real kernel with its
/// unmodified driver, which receives and sends.
/// Checkers that stand apart from the system judge each. First they must find bugs that are planted.
///
/// A seed is a history. One that is wrong is printed with its seed, what the checkers say, and the command that repeats
/// it; --shrink makes it shorter first.
///
/// Examples: warikomi soak --for 1h, warikomi soak --seeds 1..100000 --shard 1/4
#[derive(Args)]
pub struct Soak {
    /// Where drivers run [default: both, or process if there is no kernel for virtual time]
    #[arg(long, value_enum)]
    target: Option<TargetName>,
    #[command(flatten)]
    kernel: KernelArguments,
    /// The seeds, in this order: 4711, 1..500 (both included), 1000.. (for as long as --for says), or several with
    /// commas [default: 1..2000; with --for, 1..]
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<Seeds>,
    /// For how long: 10min, 1h. The seed that is being tried then is the last
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Span>,
    /// Leave out of a history that is wrong what it does not need to be wrong
    #[arg(long)]
    shrink: bool,
    /// Try no more once N histories are wrong
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    stop_after: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TargetName {
    /// Driver processes, in the simulation
    Process,
    /// A real kernel whose time is virtual (warikomi kernel build --virtual)
    Kernel,
    /// Both: one seed in 500 is a kernel's
    Both,
}

/// What the plan in `result.json` says.
#[derive(Serialize)]
struct Asked {
    seeds: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_s: Option<f64>,
    shrink: bool,
}

impl Experiment for Soak {
    const NAME: &'static str = "soak";
    const ABOUT: &'static str =
        "Random histories of both targets for as long as you like, each judged";
    const SHARDS: bool = true;

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let seeds = self.seeds(watch)?;
        let name: TargetName = watch.step("target", |_| self.target())?;
        let targets = match name {
            TargetName::Process => Targets::Process,
            TargetName::Kernel => Targets::Kernel,
            TargetName::Both => Targets::Both,
        };
        let (kernel, places) = (self.kernel.clone(), Places::default());
        let mut draw = Draw { targets, kernel, shrink: self.shrink, places };
        let canaries = canaries(&draw, watch)?;
        let made = self.soak(&seeds, &mut draw, watch)?;
        let mut result = RunResult::new(Self::NAME, TimeBase::Virtual, Machine::default());
        result.target = target_info(&draw);
        let for_s = self.time.map(|time| time.as_secs());
        result.plan = as_object(&Asked { seeds: seeds.to_string(), for_s, shrink: self.shrink });
        if self.target.is_none() && name == TargetName::Process {
            result.warnings.push(Warning {
                what:
                    "no history of a kernel was tried, because there is no kernel for virtual time"
                        .into(),
                hint: "warikomi kernel build --virtual".into(),
            });
        }
        columns::fill(&mut result, &canaries, &made);
        let histories = made.iter().flat_map(|case| case.targets.values());
        let histories = histories.map(|counts| counts.histories).sum();
        let found: Vec<_> = columns::findings(&made).cloned().collect();
        let failed = found.first().map(|first| Error::Soaked {
            found: found.len(),
            histories,
            seed: first.seed,
            what: first.what.clone(),
            command: first.command.clone(),
            history: first.history.clone(),
        });
        let mut conclusion = Conclusion::new(result).with_table("findings", found);
        conclusion.failed = failed;
        Ok(conclusion)
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

impl Soak {
    /// The seeds; it is an error if there would be no end of them, or if shards cannot share them.
    fn seeds(&self, watch: &Watch) -> Result<Seeds, Error> {
        if self.time.is_some() && watch.is_sharded() {
            return Err(Error::impossible(
                "how many seeds --for comes to is not known before, so they cannot be divided into shards; say which: \
                 --seeds 1..100000, or run a soak on each machine with other seeds: --for 1h --seeds 1000000..",
            ));
        }
        let all = || Seeds::up_to(self.time.is_none().then_some(SEEDS));
        let seeds = self.seeds.clone().unwrap_or_else(all);
        match seeds.is_endless() && self.time.is_none() {
            true => Err(Error::impossible(format!(
                "there is no end to the seeds {seeds}; say for how long (--for 1h), or the last (1..500)"
            ))),
            false => Ok(seeds),
        }
    }

    /// Which targets there are to be. It is an error if a kernel is asked for, and there is none.
    fn target(&self) -> Result<TargetName, Error> {
        let asked = match self.target {
            None if self.kernel.are_given() => Some(TargetName::Both),
            asked => asked,
        };
        match asked {
            Some(TargetName::Process) if self.kernel.are_given() => Err(Error::impossible(
                "--kernel, --kernel-version, --driver and --model are for histories of a kernel; leave them or --target process \
                 out",
            )),
            Some(TargetName::Process) => Ok(TargetName::Process),
            Some(name) => self.kernel.refuse_without().map(|()| name),
            None if self.kernel.refuse_without().is_ok() => Ok(TargetName::Both),
            None => Ok(TargetName::Process),
        }
    }

    /// Tries the seeds.
    fn soak(&self, seeds: &Seeds, draw: &mut Draw, watch: &mut Watch) -> Result<Vec<Made>, Error> {
        let info = target_info(draw);
        let of_a_case = if draw.targets == Targets::Kernel { 1 } else { OF_A_CASE };
        let mut wrong = 0;
        let mut case = |batch: &Batch, watch: &mut Watch| {
            watch.saw_target(&info, TimeBase::Virtual);
            // What is behind enough findings is a case without histories.
            let made = match wrong < self.stop_after {
                true => draw.case(*batch, watch)?,
                false => Made { seeds: batch.to_string(), ..Made::default() },
            };
            wrong += made.findings.len() as u64;
            Ok::<_, Error>(made)
        };
        let Some(time) = self.time else {
            let batches: Vec<Batch> = seeds.batches(of_a_case).collect();
            return watch.each(&batches, Batch::to_string, case);
        };
        let (mut made, mut took_s, mut found) = (Vec::new(), 0.0, 0);
        for batch in seeds.batches(of_a_case) {
            if took_s >= time.as_secs() || found >= self.stop_after || watch.interrupted.is_set() {
                break;
            }
            let at_work = format!("seeds {batch}");
            watch.progress(took_s as u64, time.as_secs() as u64, &at_work);
            let one: Made = watch.step(&at_work, |watch| case(&batch, watch))?;
            took_s += one.took_s;
            found += one.findings.len() as u64;
            made.push(one);
        }
        Ok(made)
    }
}

/// Plants bugs, and has them found.
fn canaries(draw: &Draw, watch: &mut Watch) -> Result<Vec<Canary>, Error> {
    let mut canaries: Vec<Canary> = Vec::new();
    if draw.targets != Targets::Kernel {
        watch.waiting("bugs that are planted in driver processes");
        canaries.extend(watch.step("planted in driver processes", |watch| {
            canary::of_process(&mut canary::as_it_is(watch))
        })?);
    }
    if draw.targets != Targets::Process {
        watch.waiting("bugs that are planted at a kernel's card");
        canaries.extend(watch.step("planted at a kernel's card", |watch| {
            canary::of_kernel(&draw.kernel, &mut canary::as_it_is(watch))
        })?);
    }
    Ok(canaries)
}

/// What the histories of all seeds have in common.
fn target_info(draw: &Draw) -> TargetInfo {
    let (process, kernel) = (draw.targets != Targets::Kernel, draw.targets != Targets::Process);
    let ours = warikomi_driver::DRIVERS.iter().map(|info| info.name).filter(|_| process);
    let linux = draw.kernel.driver.as_deref().unwrap_or(LINUX_DRIVER);
    let drivers: Vec<&str> = ours.chain(kernel.then_some(linux)).collect();
    let models: Vec<&str> = warikomi_nic::MODELS.iter().map(|model| model.name).collect();
    let kind = match draw.targets {
        Targets::Process => "process",
        Targets::Kernel => "kernel",
        Targets::Both => "process and kernel",
    };
    TargetInfo {
        kind: kind.to_owned(),
        driver: drivers.join(", "),
        model: models.join(", "),
        ..TargetInfo::default()
    }
}
