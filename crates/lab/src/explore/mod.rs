//! An interrupt at every instruction, in turn, and what comes of each.
//!
//! The places are the instructions of functions, or the register accesses of an operation. First all of them are
//! looked for at once (`coverage`): of what no operation reaches nothing can be said but that. Then each place that
//! was reached is struck in a trial of its own, in a target that goes on from one to the next; a target that a trial
//! has spoilt is replaced. What looks wrong is tried again, because a machine that stops us for long looks like a
//! driver that is late.

mod case;
mod columns;
mod counted;
mod coverage;
mod flags;
mod lines;
mod places;
mod row;
mod sources;
mod stage;
mod tried;

use std::collections::BTreeSet;

use self::coverage::coverage;
use self::places::instructions;
use crate::error::Error;
use crate::strike::Scene;

pub use crate::strike::Operation;
pub use flags::Explore;

/// The places in the driver's code that an operation reaches, as `at` takes them.
pub(crate) fn reached_by(scene: &mut Scene, operation: Operation) -> Result<Vec<String>, Error> {
    let mut left: BTreeSet<_> = instructions(&scene.program, &[])?.into_iter().collect();
    let mut reached = coverage(scene, &mut left, operation)?;
    reached.sort();
    Ok(reached.iter().map(ToString::to_string).collect())
}
