//! Writes runs with figures that are made up, to look at a report without measuring for hours:
//! `cargo run --release -p warikomi-lab --example synthetic_runs -- DIR`, then
//! `warikomi report DIR/*`.

#[path = "../tests/report/fixtures.rs"]
#[allow(dead_code)]
mod fixtures;

use std::path::Path;

fn main() {
    let directory = std::env::args_os().nth(1).expect("give a directory to write the runs into");
    let runs = Path::new(&directory);
    fixtures::sweep(runs, 1, 1.0);
    fixtures::sweep(runs, 2, 1.1);
    fixtures::accuracy(runs);
    fixtures::cost(runs);
    fixtures::receive(runs);
    fixtures::transmit(runs);
    fixtures::kernel_transmit(runs);
    fixtures::replace(runs);
    fixtures::explore(runs);
}
