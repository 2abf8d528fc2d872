//! `warikomi explore`.

use std::path::PathBuf;

use clap::Args;
use warikomi_measure::RunResult;
use warikomi_session::{TargetArguments, VirtualFlag};

use super::case::Case;
use super::columns;
use super::lines;
use super::places::{Instruction, instructions, marked, one_a_line};
use super::row::Explored;
use super::sources::Sources;
use super::stage::{Plan, Stage};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::strike::{
    Condition, OPERATIONS, Operation, Striking, checks, condition_help, operation_help,
    striking_help,
};
use crate::watch::Watch;

/// Delivers an interrupt at every instruction of functions of the unmodified driver, in turn, and gives a verdict
/// for each: every packet accounted for; or lost, stuck, doubled, late, a warning or a report of the kernel, an
/// oops, a hang; with the command that repeats it.
///
/// Locks, memory, lines and stacks are known in a kernel made by `warikomi kernel build --debug`.
///
/// Examples: warikomi explore --function rtl8169_poll --function rtl_rx,
/// warikomi explore --accesses --operation 'ip link set eth0 down'
#[derive(Args)]
pub struct Explore {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    time: VirtualFlag,
    /// A function of the driver, also one that is inlined; may be repeated [default: all of them]
    #[arg(long = "function", value_name = "NAME", conflicts_with = "accesses")]
    functions: Vec<String>,
    /// Only the places to which the driver's source gives names (include/warikomi_here.h)
    #[arg(long, conflicts_with_all = ["functions", "accesses"])]
    here: bool,
    /// Not instructions, but each register access of the operations, in turn
    #[arg(long)]
    accesses: bool,
    /// Two interrupts: at each place, and then at each place, the next time that it is reached. One place a line of
    /// the source, because n places make n times n pairs; --shard divides them
    #[arg(long, conflicts_with = "accesses")]
    pairs: bool,
    /// Only where this holds; of several, all of them; of pairs, at the first place
    #[arg(long = "if", value_name = "CONDITION", conflicts_with = "accesses", long_help = condition_help())]
    conditions: Vec<Condition>,
    /// What the driver is made to do; may be repeated [default: all of them]
    #[arg(long = "operation", value_name = "OPERATION", long_help = operation_help())]
    operations: Vec<Operation>,
    /// What strikes
    #[arg(long, value_name = "WHAT", default_value_t = Striking::Packet, long_help = striking_help())]
    deliver: Striking,
    /// Try no more places once something is wrong at this number of them; not for --shard
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stop_after: Option<u64>,
    /// Where the driver's source is, for the text of its lines in the report [default: where the driver was made]
    #[arg(long, value_name = "DIR", conflicts_with = "accesses")]
    source: Option<PathBuf>,
}

impl Explore {
    /// These functions, in these operations; in all if there are none.
    pub fn of(target: TargetArguments, functions: &[&str], operations: &[Operation]) -> Explore {
        Explore {
            target,
            time: VirtualFlag { virtual_time: false },
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            here: false,
            accesses: false,
            pairs: false,
            conditions: Vec::new(),
            operations: operations.to_vec(),
            deliver: Striking::Packet,
            stop_after: None,
            source: None,
        }
    }
}

impl Experiment for Explore {
    const NAME: &'static str = "explore";
    const SHARDS: bool = true;
    const ABOUT: &'static str = "Deliver an interrupt at every instruction of the driver, in turn";

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let striking = self.deliver.clone();
        self.operations.iter().try_for_each(|operation| striking.check(*operation))?;
        let virtual_time = self.time.virtual_time;
        self.operations.iter().try_for_each(|operation| operation.check(virtual_time))?;
        striking.check_then(self.pairs)?;
        if self.stop_after.is_some() && watch.is_sharded() {
            return Err(Error::impossible(
                "--stop-after is about all that a run finds, and a shard does not know what others find; leave it out, \
                 or make the run whole",
            ));
        }
        let prepared = self.target.prepare_to_debug(&self.time)?;
        let conditions = checks(&self.conditions, &prepared)?;
        let all = || OPERATIONS.iter().map(|(operation, _, _)| *operation);
        let operations = match self.operations.is_empty() {
            true => all()
                .filter(|one| striking.check(*one).is_ok() && one.check(virtual_time).is_ok())
                .collect(),
            false => self.operations.clone(),
        };
        let held = self.conditions.iter().map(|condition| format!(" --if '{condition}'"));
        let in_virtual_time = if self.time.virtual_time { " --virtual" } else { "" };
        let flags = [self.target.as_written(), in_virtual_time.to_owned()];
        let flags = held.chain(flags).collect::<String>();
        let stop_after = self.stop_after;
        let plan = Plan { striking, conditions, operations, stop_after, flags };
        let mut stage = Stage::new(&prepared, plan);
        let (cases, places) = match self.accesses {
            true => (accesses(&mut stage, watch)?, Vec::new()),
            false => self.instructions(&mut stage, watch)?,
        };
        let made = watch.each(&cases, ToString::to_string, |case, watch| {
            stage.look_around(&places, watch)?;
            stage.explore(case, watch)
        });
        stage.end_scene(watch);
        let explored: Vec<Explored> = made?;
        let (info, machine) = watch.seen();
        let mut result = RunResult::new(Self::NAME, watch.time_base(), machine);
        result.target = info;
        let rows = explored.iter().map(|place| place.row.clone()).collect::<Vec<_>>();
        let bad = rows.iter().filter(|row| row.verdict.is_bad()).count();
        let sources = Sources::of(&prepared, self.source.as_deref());
        let firsts: Vec<_> = cases.iter().filter_map(Case::instruction).cloned().collect();
        let lines = lines::rows(&firsts, &explored, &sources);
        columns::fill(&mut result, explored, lines);
        let mut conclusion = Conclusion::new(result).with_table("places", rows);
        conclusion.failed = (bad > 0).then_some(Error::Found { places: bad });
        Ok(conclusion)
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

impl Explore {
    /// The instructions, as cases and as places.
    fn instructions(
        &self,
        stage: &mut Stage<'_>,
        watch: &mut Watch,
    ) -> Result<(Vec<Case>, Vec<Instruction>), Error> {
        let places: Vec<Instruction> = watch.step("places", |watch| {
            let program = stage.scene(watch)?.program.clone();
            if self.here { marked(&program) } else { instructions(&program, &self.functions) }
        })?;
        if !self.pairs {
            return Ok((places.iter().cloned().map(Case::Instruction).collect(), places));
        }
        let places = one_a_line(&places);
        let pairs = places.iter().flat_map(|place| {
            places.iter().map(move |then| Case::Pair(place.clone(), then.clone()))
        });
        Ok((pairs.collect(), places))
    }
}

/// Each register access of each operation.
fn accesses(stage: &mut Stage<'_>, watch: &mut Watch) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for operation in stage.operations() {
        let count: u64 = watch.step(&format!("accesses of {operation}"), |watch| {
            stage.scene(watch)?.count_accesses(operation)
        })?;
        cases.extend((1..=count).map(|nth| Case::Access(nth, operation)));
    }
    Ok(cases)
}
