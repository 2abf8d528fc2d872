//! A history of the kernel target as it was drawn.

use clap::{Args, FromArgMatches};
use warikomi_session::Session;
use warikomi_target::TargetError;

use super::arguments::{KernelArguments, experiment};
use super::line::Line;
use super::planted::Bug;
use crate::error::Error;
use crate::experiment::Experiment;

/// A history of the kernel target.
#[derive(Clone, Debug)]
pub(in crate::soak) struct KernelHistory {
    pub(super) line: Line,
    pub(super) kernel: Vec<String>,
    /// What is planted, to be found.
    pub(super) bug: Option<Bug>,
}

impl KernelHistory {
    pub(super) fn of(
        line: Line,
        kernel: &KernelArguments,
        bug: Option<Bug>,
    ) -> Result<KernelHistory, Error> {
        let kernel = kernel.words_of(line.kind)?;
        Ok(KernelHistory { line, kernel, bug })
    }

    /// The words behind the experiment's name.
    pub(super) fn words(&self) -> Vec<String> {
        [self.line.words(), self.kernel.clone()].concat()
    }

    /// The experiment that has it.
    pub(super) fn experiment<E: Experiment + Args + FromArgMatches>(&self) -> Result<E, Error> {
        experiment(&self.words())
    }
}

/// Marks of harm that the kernel has set.
pub(super) fn harm(session: &mut Session) -> Result<u64, TargetError> {
    session.target.agent().map_or(Ok(0), |agent| agent.fault_marks())
}
