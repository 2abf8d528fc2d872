//! A watching driver against each fixed choice, on the same mixed load: simulated, so that one seed is one result.

use proptest::prelude::*;
use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_protocol::commands::{LoadPhase, MixedLoad};
use warikomi_stack::buffers::BufferKind;

use super::*;

fn phase(sizes_bytes: &[u32], block: u64, compute_us: u64) -> LoadPhase {
    LoadPhase { sizes_bytes: sizes_bytes.to_vec(), block, compute_ps: compute_us * 1_000_000 }
}

/// Short messages, medium ones, long ones, a mix, and an application that computes.
fn load() -> MixedLoad {
    MixedLoad {
        phases: vec![
            phase(&[64], 1, 0),
            phase(&[4_096], 1, 0),
            phase(&[65_507], 1, 0),
            phase(&[64, 1_472, 16_384], 0, 0),
            phase(&[4_096], 1, 30),
            phase(&[64], 1, 60),
        ],
        phase_ps: 10_000_000_000,
        rounds: 2,
        receive_interval_ps: 20_000_000,
    }
}

fn options(mixed: MixedLoad, old: bool, way: (Completion, Bounce)) -> Options {
    let mut sizes_bytes: Vec<u32> =
        mixed.phases.iter().flat_map(|phase| phase.sizes_bytes.clone()).collect();
    sizes_bytes.sort_unstable();
    sizes_bytes.dedup();
    let plan = SendPlan {
        sizes_bytes,
        block: 1,
        seed: 1,
        count: 10_000_000,
        warmup: 0,
        interval_ps: 0,
        buffers: BufferKind::Mbuf { cluster_bytes: 2_048 },
        checksum: true,
        completion: way.0,
        bounce: way.1,
        alignment_bytes: 1,
        send_buffer_bytes: 1 << 20,
        mtu_bytes: warikomi_driver::by_name("oc48").unwrap().info().max_mtu_bytes(),
        run_id: 7,
        mixed: Some(mixed),
    };
    let mut options = Options {
        plan,
        nic: NicOptions::of("oc48"),
        driver: "oc48".to_owned(),
        costs: SendCosts::default(),
        stalls: Vec::new(),
    };
    if old {
        options.costs = SendCosts::FITTED_BSD_2004;
        options.nic.bus = Some("fitted-2004".parse().unwrap());
    }
    options
}

fn watching() -> (Completion, Bounce) {
    (Completion::AdaptiveWatching(Thresholds::default()), Bounce::Auto)
}

const FIXED: [(Completion, Bounce); 4] = [
    (Completion::Interrupt, Bounce::None),
    (Completion::Interrupt, Bounce::All),
    (Completion::InterruptFree, Bounce::None),
    (Completion::InterruptFree, Bounce::All),
];

/// What came of each phase behind the first round, if nothing was lost, and every buffer came back.
fn judged(options: &Options) -> Option<Vec<Sent>> {
    let outcome = run(options).unwrap_or_else(|error| panic!("{error}: {options:?}"));
    if outcome.sent.dead_locked {
        return None;
    }
    let mixed = options.plan.mixed.as_ref().unwrap();
    assert_eq!(outcome.seen.wrong(outcome.sent.sent), None, "{options:?}");
    assert!(outcome.sent.pools_full, "{options:?}");
    assert_eq!(outcome.sent.phases.len(), mixed.phases.len() * mixed.rounds as usize);
    Some(outcome.sent.phases[mixed.phases.len()..].to_vec())
}

fn pps(sent: &Sent) -> f64 {
    sent.sent as f64 * 1e9 / sent.took_ns as f64
}

#[test]
fn show() {
    for old in [false, true] {
        let adaptive = (Completion::Adaptive(Thresholds::default()), Bounce::Auto);
        for way in FIXED.into_iter().chain([adaptive, watching()]) {
            let found = judged(&options(load(), old, way));
            println!("{old} {} {}", way.0, way.1);
            for sent in found.iter().flatten() {
                println!(
                    "   {:9.0} pps busy {:5.1}% intr/p {:.3} asked/p {:.3} bounced/p {:.1} wait {:?} us, received {} missing {} sleeps {}",
                    pps(sent),
                    100.0 * sent.busy_ns as f64 / sent.took_ns as f64,
                    sent.interrupts as f64 / sent.sent as f64,
                    sent.asked as f64 / sent.sent as f64,
                    sent.bounced_bytes as f64 / sent.sent as f64,
                    sent.wait_ns.map(|all| all.map(|ns| ns / 1_000)),
                    sent.received,
                    sent.receive_missing,
                    sent.sleeps
                );
            }
        }
    }
}
