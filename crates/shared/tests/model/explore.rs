//! Trying interleavings, for the models of every crate.

use std::io::Write;
use std::panic::Location;
use std::time::{Duration, Instant};
use std::{env, io};

/// If this is set, interleavings are not bounded by their preemptions; each model has as many seconds as it says.
const ALL: &str = "WARIKOMI_ALL_INTERLEAVINGS";

/// Tries every interleaving with at most this many preemptions; or all of them, as far as time allows.
#[track_caller]
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    let Ok(seconds) = env::var(ALL) else {
        builder.preemption_bound = Some(preemptions);
        return builder.check(model);
    };
    let limit = Duration::from_secs(seconds.parse().expect("WARIKOMI_ALL_INTERLEAVINGS=SECONDS"));
    builder.preemption_bound = None;
    builder.max_duration = Some(limit);
    // How many are tried between two looks at the time.
    builder.checkpoint_interval = 1_000;
    let begun = Instant::now();
    builder.check(model);
    if begun.elapsed() >= limit {
        // Past the harness, which keeps what a test that passes prints.
        let place = Location::caller();
        writeln!(
            io::stderr(),
            "\nskipped: {place}: interleavings that {seconds} s were too short for"
        )
        .expect("standard error");
    }
}
