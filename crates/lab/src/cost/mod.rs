//! What a packet costs: the support side to send, the target to receive, by frame length.
//!
//! The send side is timed call by call. The receive side is taken apart in two ways that do not share
//! an assumption. The cost of a saturated target against the frame length is nearly a line: what
//! grows with the length is copying, the rest is protocol processing. And where `perf` is permitted,
//! the functions in which the target spends its time are sampled: those that copy, and the rest.

mod columns;
mod fit;
mod flags;
mod made;
mod receive;
mod remarks;
mod row;
mod sampling;
mod send;

pub use fit::Line;
pub use flags::Cost;
pub use made::{CostOptions, Costs, cost};
pub use row::Row;
pub use send::{CALLS, COUNTED, Call};
