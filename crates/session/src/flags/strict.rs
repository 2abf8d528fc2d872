//! The flag that makes the card strict; of experiments that show what it finds.

use clap::{Args, ValueEnum};

use crate::error::SessionError;

/// What follows from a step that the driver must not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Strictness {
    /// The result lists it, with a warning
    Warn,
    /// The run fails, too
    Fail,
}

/// Whether the card names the steps that a driver must not take.
#[derive(Args, Clone)]
#[command(next_help_heading = "Driver and target")]
pub struct StrictArguments {
    /// A strict card: it names the steps that a driver must not take, such as a ring that is switched on before
    /// its address is given; alone the flag means warn
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true,
        default_missing_value = "warn")]
    pub strict: Option<Strictness>,
}

impl StrictArguments {
    /// Refuses the flag where the target is a model in one thread.
    pub fn refuse_if_simulated(&self, simulated: bool) -> Result<(), SessionError> {
        match self.strict.filter(|_| simulated) {
            None => Ok(()),
            Some(_) => Err(SessionError::impossible(
                "--strict is for real time, and for kernels; leave it out, or leave --virtual and --both out",
            )),
        }
    }
}
