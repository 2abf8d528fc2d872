//! Races between a driver and its device, in every interleaving up to `loom`'s bound of preemptions.
//!
//! A failure prints the interleaving; `LOOM_LOG=trace cargo test -p warikomi-driver --test models NAME`
//! shows it step by step.

mod baton;
#[path = "../../../shared/tests/model/event.rs"]
mod event;
mod receive;
mod send;
#[path = "../../../shared/tests/model/words.rs"]
mod words;

/// Explores interleavings with at most so many preemptions.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}
