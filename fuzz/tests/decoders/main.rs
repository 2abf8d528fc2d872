//! Hostile input for every decoder of what others write: a target for each.
//!
//! A target is a test. Without a fuzzer it runs on random bytes for as long as `BOLERO_RANDOM_TEST_TIME_MS` says,
//! a second unless that is set; `scripts/fuzz` runs the same targets under libFuzzer. What the bytes mean is the
//! target's own: a file of [`harness::Seeds`] with a few edits, or a choice of steps.
//!
//! What fails is shrunk, and printed with the variable that repeats it:
//! `BOLERO_RANDOM_SEED=N cargo test -p warikomi-fuzz --test decoders TARGET`.

mod agent_lines;
mod captures;
mod cards;
mod channels;
mod control;
mod drivers;
mod frames;
mod harness;
mod kernel;
mod plans;
mod results;
mod selftests;
mod state;
mod store;
mod traces;
mod vm;
mod windows;
