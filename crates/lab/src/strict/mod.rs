//! A strict card of a target: what it has found, in a result, and who says what a card does not see.
//!
//! An experiment that has the flag takes in [`StrictArguments`](warikomi_session::StrictArguments) and says so by
//! [`Experiment::strict`](crate::Experiment::strict). The rest is done here and by the [`Watch`]: it makes the cards
//! of its targets strict, calls witnesses, and takes what was found when it is told of a target.

mod findings;
mod mappings;
mod modules;
mod shadow;
mod witness;

use warikomi_session::Strictness;

use crate::error::Error;
use crate::experiment::Conclusion;
use crate::watch::Watch;

pub(crate) use self::findings::{Found, describe};
pub use self::witness::call;

/// Adds what was found to a conclusion, and fails it if that was asked for.
pub(crate) fn conclude(
    mut conclusion: Conclusion,
    strictness: Option<Strictness>,
    watch: &Watch,
) -> Conclusion {
    if let Some(found) = watch.found() {
        found.put(&mut conclusion.result);
    }
    let steps = findings::steps(&conclusion.result);
    if strictness == Some(Strictness::Fail) && steps > 0 {
        conclusion.failed.get_or_insert(Error::NotStrict { steps });
    }
    conclusion
}
