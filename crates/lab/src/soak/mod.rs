//! Random histories of both targets, for as long as one likes.
//!
//! A seed is a history: of driver processes in the simulation (`process`), or of a real kernel in virtual time
//! (`kernel`), drawn as a command line that an other experiment takes. So what was drawn can be repeated without a soak,
//! and a shorter history is a shorter command line. Checkers that know what was asked for and what was seen, and
//! nothing of the system in between, judge it (`warikomi_sim::checkers`, `kernel/checkers.rs`). Before anything else
//! they must find bugs that are planted (`canary`).

mod canary;
mod columns;
mod flags;
mod history;
mod kernel;
mod process;
mod row;
mod seeds;
mod trial;

pub use flags::Soak;
