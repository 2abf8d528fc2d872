//! A strict card of a target: what it has found, in a result, and who says what a card does not see.
//!
//! An experiment that has the flag takes in [`StrictArguments`](warikomi_session::StrictArguments) and says so by
//! [`Experiment::strict`](crate::Experiment::strict). The rest is done for it. The [`Watch`](crate::Watch) makes the
//! cards of its targets strict, calls witnesses, and takes what was found when it is told of a target;
//! [`carry_out`](crate::carry_out) adds that to the result.

mod findings;
mod mappings;
mod modules;
mod shadow;
mod witness;

pub(crate) use self::findings::{Found, describe, steps};
pub use self::witness::call;
