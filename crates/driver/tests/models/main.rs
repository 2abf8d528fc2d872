//! Races between a driver and its device, in every interleaving up to `loom`'s bound of preemptions.
//!
//! A failure prints the interleaving; `LOOM_LOG=trace cargo test -p warikomi-driver --test models NAME`
//! shows it step by step.

mod baton;
#[path = "../../../shared/tests/model/event.rs"]
mod event;
#[path = "../../../shared/tests/model/explore.rs"]
mod explore;
mod receive;
mod send;
#[path = "../../../shared/tests/model/words.rs"]
mod words;

use explore::explore;
