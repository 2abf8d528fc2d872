//! Which places an operation reaches.

use std::collections::BTreeSet;

use warikomi_target::TargetError;

use super::places::{Instruction, by_address};
use crate::error::Error;
use crate::strike::{Operation, Scene};

/// An operation is repeated until it has reached nothing new this number of times.
const NOTHING_NEW: u32 = 3;

/// Looks which of these places an operation reaches, and takes them out of those that are left. What becomes of the
/// target is no matter here: a trial will say.
pub(super) fn coverage(
    scene: &mut Scene,
    left: &mut BTreeSet<Instruction>,
    operation: Operation,
) -> Result<Vec<Instruction>, Error> {
    let places = by_address(&scene.program, left.iter());
    scene.seek(&places.keys().copied().collect::<Vec<_>>())?;
    let mut all = Vec::new();
    let mut idle = 0;
    while idle < NOTHING_NEW && !left.is_empty() {
        let run = scene.run(operation);
        let reached = scene.take_reached();
        idle = if reached.is_empty() { idle + 1 } else { 0 };
        let reached: Vec<_> = reached.iter().filter_map(|address| places.get(address)).collect();
        left.retain(|place| !reached.contains(&place));
        all.extend(reached.into_iter().cloned());
        match run {
            Err(Error::Target(error)) if !matches!(error, TargetError::Interrupted) => break,
            other => other?,
        }
    }
    Ok(all)
}
