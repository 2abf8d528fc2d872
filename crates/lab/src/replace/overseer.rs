//! The supervisor of a target: here, between two passes, or on the target's core.

use warikomi_live::{Beside, Event, Policy, Program, Supervisor};
use warikomi_process::ProcessTarget;
use warikomi_target::TargetError;

/// Watches and replaces the drivers of a target.
pub(super) enum Overseer {
    /// In the support side's thread.
    Here(Box<Supervisor>),
    /// In a thread of its own on the target's core.
    Beside(Beside),
}

impl Overseer {
    /// Takes over a target that runs the driver `program`; on this core with this nice value, if that is said.
    pub(super) fn start(
        policy: Policy,
        program: Program,
        target: &mut ProcessTarget,
        beside: Option<(usize, i32)>,
    ) -> Result<Overseer, TargetError> {
        match beside {
            None => Ok(Overseer::Here(Box::new(Supervisor::new(policy, program, target)))),
            Some(place) => Beside::start(policy, program, target, place).map(Overseer::Beside),
        }
    }

    /// Does what is due; to be called beside each poll of the target.
    #[inline]
    pub(super) fn step(
        &mut self,
        target: &mut ProcessTarget,
    ) -> Result<Option<Event>, TargetError> {
        match self {
            Overseer::Here(supervisor) => supervisor.step(target),
            Overseer::Beside(beside) => beside.step(target),
        }
    }

    /// Whether the next request would find a warm driver.
    pub(super) fn is_ready(&self, target: &mut ProcessTarget) -> bool {
        match self {
            Overseer::Here(supervisor) => supervisor.is_ready(target),
            Overseer::Beside(beside) => beside.is_ready(),
        }
    }

    /// Asks for a replacement; whether it was taken.
    pub(super) fn replace(
        &mut self,
        program: &Program,
        target: &mut ProcessTarget,
    ) -> Result<bool, TargetError> {
        match self {
            Overseer::Here(supervisor) => Ok(supervisor.replace(program, target)?.is_ok()),
            Overseer::Beside(beside) => {
                beside.replace(program);
                Ok(true)
            }
        }
    }
}
