//! Runs with everything in order. What goes wrong is in `history`.

use std::time::Instant;

use warikomi_clock::{Seed, Span};
use warikomi_driver::strategy::Strategy;

use super::*;

pub(super) fn options() -> Options {
    Options {
        traffic: Traffic {
            burst_bytes: 50_000,
            frame_bytes: 1_500,
            line_rate_bps: 10_000_000_000,
            load_share: 0.2,
            random_gaps: true,
            bursts: 100,
        },
        strategy: Strategy::Hybrid { poll_time: Span::from_us(100) },
        topology: Topology::Direct,
        buffers: 256,
        buffer_bytes: 2048,
        compute: true,
        real_time: false,
        costs: CostModel::default(),
        scheduler: SchedulerModel::default(),
        sleep_timeout: None,
        every_idle_look: false,
        way: Way::default(),
        sends: None,
        seed: Seed(1),
        disturbances: Disturbances::default(),
    }
}

const TOPOLOGIES: [Topology; 3] =
    [Topology::Direct, Topology::Application, Topology::StackAndApplication];

#[test]
fn looks_that_are_left_out_make_no_difference() {
    for topology in TOPOLOGIES {
        for strategy in Strategy::ALL {
            for compute in [false, true] {
                let mut options = Options { strategy, topology, compute, ..options() };
                options.traffic.bursts = 20;
                let quick = run(&options, "rtl8168").unwrap();
                let slow = Options { every_idle_look: true, ..options };
                assert_eq!(quick, run(&slow, "rtl8168").unwrap(), "{topology:?} {strategy:?}");
            }
        }
    }
}

/// Not a test of anything: what a million packets take.
/// `cargo test --release -p warikomi-lab --lib -- --ignored --nocapture a_million`
#[test]
#[ignore = "a measurement"]
fn a_million_packets() {
    for topology in TOPOLOGIES {
        // One that stays awake is carried out look by look.
        for strategy in Strategy::ALL.into_iter().filter(|&one| one != Strategy::Awake) {
            let mut options = Options { strategy, topology, ..options() };
            options.traffic.bursts = 1_000_000_u64.div_ceil(options.traffic.frames_per_burst());
            let start = Instant::now();
            let outcome = run(&options, "rtl8168").unwrap();
            let took = start.elapsed().as_secs_f64();
            println!(
                "{topology:?} {strategy}: {took:.2} s for {} packets, {} events, virtual {:.2} s, \
                 CPU {:.3}, lost {:.4}, sleeps {}",
                outcome.counts.injected,
                outcome.events,
                outcome.elapsed.as_secs(),
                outcome.cpu_share,
                outcome.counts.lost_share(),
                outcome.counts.sleeps
            );
        }
    }
}
