//! A strict card of a target: what it has found, in a result, and who says what a card does not see.

mod findings;
mod mappings;
mod shadow;
mod witness;

pub(crate) use self::findings::{add, describe, not_looked_at, steps};
pub use self::witness::call;
