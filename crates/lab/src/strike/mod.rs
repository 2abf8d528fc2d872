//! An interrupt struck at a place in a driver that runs in a kernel: what `at` and `explore` share.

mod code;
mod condition;
mod frames;
mod gate;
mod grip;
mod napi;
mod operation;
mod place;
mod registers;
mod scene;
mod striker;
mod striking;
mod trial;
mod verdict;
mod watched;

pub(crate) use code::{KernelCode, driver_code, program, stack_before_the_access};
pub(crate) use condition::{Check, Condition, checks, condition_help};
pub(crate) use grip::Grip;
pub(crate) use operation::operation_help;
pub(crate) use place::{StrikePlace, resolve};
pub(crate) use scene::Scene;
pub(crate) use striker::{Delivery, Strike, Striker, StrikerHook, Struck, Where};
pub(crate) use striking::striking_help;
pub(crate) use trial::{Attempt, stack_at_place};
pub(crate) use verdict::{report_in, unanswering};

pub use operation::{OPERATIONS, Operation};
pub use striking::Striking;
pub use trial::Trial;
pub use verdict::Verdict;
