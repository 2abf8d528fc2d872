//! Replacing a driver under traffic, and proving that nothing was lost.
//!
//! A [`Plan`] says which ways are tried under which loads. For each pair a target is brought up whose driver is
//! supervised; the workload runs, and at random moments within it the driver is replaced. What came of it is
//! judged from outside: by the numbers of frames, at the application and on the wire. A kernel's driver, which
//! is a module, is replaced in [`kernel`].

mod claims;
mod columns;
mod edge;
mod flags;
mod gaps;
mod growth;
pub mod kernel;
mod made;
mod overseer;
mod places;
mod plan;
mod replacer;
mod row;
mod series;
mod supervised;
mod tally;
mod workload;

pub use claims::{Claim, Claimant, ParseClaimError};
pub use flags::Replace;
pub use made::Replaced;
pub use plan::{Load, Options, ParseLoadError, ParseSpareError, Plan, Soak, Spare};
pub use row::{Row, Spread};
pub use series::replace;
pub use tally::{Line, Moment};
