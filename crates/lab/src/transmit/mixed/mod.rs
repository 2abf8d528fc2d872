//! A mixed load: an adaptive driver that watches more resources against each fixed choice.
//!
//! Each choice of completion and bounce buffer carries out the whole load by itself: all phases one behind the other
//! and over again, while frames come. The first round is not measured, so what adapts itself knows what there is; that
//! it must find its way from each phase to the next is measured. What comes of it is [`table`]'s.

mod choice;
mod load;
mod table;

use warikomi_driver::DriverInfo;
use warikomi_measure::{Thresholds as Warnings, TimeBase, warnings};
use warikomi_sim::transmit::SendCosts;
use warikomi_stack::send::{SendPlan, Transport};

use self::choice::{Choice, Run, choices};
pub use self::load::{Load, Phase};
pub(super) use self::table::describe;
pub use self::table::{ALLOWED_REGRET_SHARE, MixedRow, Verdict};
use super::made::Transmitted;
use super::options::{Case, Messages, Options, driver};
use super::series::{Bench, judge, look};
use super::traffic::Traffic;
use super::{real, simulated};
use crate::error::Error;
use crate::watch::Watch;

/// No message takes less than this, in nanoseconds: so many messages a run has at most.
const LEAST_MESSAGE_NS: u64 = 50;

/// A choice as a sender carries the load out.
fn plan(
    options: &Options,
    info: &DriverInfo,
    load: &Load,
    (buffers, completion, bounce): Choice,
    run_id: u32,
) -> SendPlan {
    let traffic = Traffic::Size(0);
    let case = Case { traffic, buffers, completion, bounce, transport: Transport::Udp };
    let most = load.all().as_ps() / (LEAST_MESSAGE_NS * 1_000);
    SendPlan {
        sizes_bytes: load.sizes_bytes(),
        mixed: Some(load.to_command()),
        ..options.plan(info, &case, Messages { count: most.max(1), warmup: 0 }, run_id)
    }
}

/// All choices, one after the other.
fn runs(
    options: &Options,
    load: &Load,
    choices: &[Choice],
    bench: &mut dyn Bench,
    watch: &mut Watch,
) -> Result<Vec<Run>, Error> {
    let info = driver(&options.driver)?;
    let mut runs = Vec::new();
    for (number, &choice) in choices.iter().enumerate() {
        let (buffers, completion, bounce) = choice;
        let name = format!("mixed load, {buffers}, {completion}, bounce {bounce}");
        watch.progress(number as u64, choices.len() as u64, &name);
        let outcome = watch.step(&format!("run {}: {name}", number + 1), |watch| {
            let plan = plan(options, info, load, choice, number as u32 + 1);
            let (outcome, seen) = bench.send(&plan, look(bounce), watch)?;
            match judge(&outcome, &seen, &plan) {
                None => Ok(outcome),
                Some(what) => Err(Error::Wrong { row: name.clone(), what }),
            }
        })?;
        runs.push(Run { choice, outcome });
    }
    Ok(runs)
}

/// What is to be carried out, if it can be.
fn checked(options: &Options, load: &Load) -> Result<(Vec<Choice>, Vec<SendPlan>), Error> {
    let info = driver(&options.driver)?;
    let choices = choices(options)?;
    let plans: Vec<SendPlan> =
        choices.iter().map(|&choice| plan(options, info, load, choice, 0)).collect();
    plans.iter().try_for_each(|plan| plan.validate(info.max_frame_bytes))?;
    Ok((choices, plans))
}

/// In real time, in one process.
pub fn in_real_time(
    options: &Options,
    load: &Load,
    watch: &mut Watch,
) -> Result<Transmitted, Error> {
    let (choices, plans) = checked(options, load)?;
    let runs = real::with_bench(options, &plans, watch, |bench, watch| {
        runs(options, load, &choices, bench, watch)
    })?;
    let mut found = table::found(options, load, TimeBase::Real, watch.seen(), &runs);
    found.result.warnings = warnings(&found.result, &Warnings::default());
    Ok(found)
}

/// In virtual time, asked of declared costs: one seed is one history, so the load has one round that is measured.
pub fn in_virtual_time(
    options: &Options,
    load: &Load,
    costs: &SendCosts,
    watch: &mut Watch,
) -> Result<Transmitted, Error> {
    let load = &Load { rounds: 1, ..load.clone() };
    let (choices, _) = checked(options, load)?;
    let runs = runs(options, load, &choices, &mut simulated::bench(options, costs), watch)?;
    let seen = simulated::seen(options);
    let mut found = table::found(options, load, TimeBase::Virtual, seen, &runs);
    simulated::note_costs(&mut found, options, costs);
    Ok(found)
}
