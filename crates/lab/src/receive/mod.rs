//! Ways to receive, compared on the same device and the same traffic: what each costs the processor,
//! loses and delays, while a compute job wants the same processor.
//!
//! Here is what all targets have in common: the traffic, the row of a result, and how work that was
//! done says what receiving took. A module for each kind of target has its strategies. A row's keys are the
//! same for every target, and the advice chooses among the rows for a budget of the processor.

pub mod advice;
mod claim;
mod columns;
mod doubts;
mod flags;
pub mod kernel;
mod losses;
mod made;
pub mod process;
mod row;
pub mod simulated;
mod stall;
mod traffic;
mod work;

pub use claim::{Claim, Found, Verdict, judge};
pub use flags::Receive;
pub use losses::Losses;
pub use made::Received;
pub use row::{Burst, Row};
pub use stall::Stall;
pub use traffic::Traffic;
pub use work::Work;
