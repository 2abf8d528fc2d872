//! Ways to receive in a driver of our own, in a process of its own.
//!
//! The receiver shares its core with a compute job of the same priority. What receiving takes is the
//! processor time of the target's processes, as a share of what they and the job have had together.
//! A new target is started for each row, so that no row knows anything of another.

mod application;
mod bench;
mod children;
mod competitor;
mod compute;
mod options;
mod quota;
mod search;

use warikomi_measure::{TimeBase, table};

use self::bench::Bench;
use super::doubts::Doubts;
use super::made::{Made, Received};
use super::row::Row;
use crate::error::Error;
use crate::watch::Watch;

pub use application::program;
pub use bench::BringUp;
pub(super) use options::Case;
pub use options::{BUFFER_BYTES, Options};

/// Compares the ways to receive, one after the other.
pub fn receive(
    options: &Options,
    bring_up: &mut BringUp<'_>,
    watch: &mut Watch,
) -> Result<Received, Error> {
    let name = |case: &Case| case.strategy.name().to_owned();
    let made = watch.each(&options.cases(), name, |case, watch| {
        let mut bench = Bench { options, bring_up, watch, doubts: Doubts::default() };
        let (row, bursts) = match options.find_smallest_buffer {
            true => search::smallest_buffer(&mut bench, case)?,
            false => bench.carry_out(case)?,
        };
        Ok(Made { row, bursts, doubts: bench.doubts })
    })?;
    let (mut target, machine) = watch.seen();
    // These are different in each row.
    target.settings.clear();
    let describe = |rows: &[Row]| table("receive", TimeBase::Real, machine, target, options, rows);
    Ok(Received::of(made, describe).judged(options))
}
