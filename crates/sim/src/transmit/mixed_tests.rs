//! A watching driver against each fixed choice, on the same mixed load: simulated, so that one seed is one result.

use proptest::prelude::*;
use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_protocol::commands::{LoadPhase, MixedLoad};
use warikomi_stack::buffers::BufferKind;
use warikomi_stack::send::Transport;

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
        transport: Transport::Udp,
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

/// By how much the watching driver is behind the best fixed choice of each phase, and how far it is ahead of the best
/// single one over the whole, by the geometric mean of rates. A choice that comes to a dead-lock is none.
fn against_fixed(load: &MixedLoad, old: bool) -> (Vec<f64>, Option<f64>) {
    let rates = |way| {
        let found = judged(&options(load.clone(), old, way))?;
        Some(found.iter().map(pps).collect::<Vec<f64>>())
    };
    let fixed: Vec<Vec<f64>> = FIXED.into_iter().filter_map(rates).collect();
    let ours = rates(watching()).expect("what waits by interrupt comes to no dead-lock");
    let best = |phase: usize| fixed.iter().map(|rates| rates[phase]).fold(0.0, f64::max);
    let regrets = ours.iter().enumerate().map(|(phase, pps)| 1.0 - pps / best(phase)).collect();
    let score = |rates: &[f64]| rates.iter().map(|pps| pps.ln()).sum::<f64>() / rates.len() as f64;
    let of_fixed = fixed.iter().map(|rates| score(rates)).reduce(f64::max);
    (regrets, of_fixed.map(|of_fixed| (score(&ours) - of_fixed).exp() - 1.0))
}

#[test]
fn over_a_mixed_load_it_is_close_to_the_best_choice_of_each_phase_and_ahead_of_any_one() {
    for old in [false, true] {
        let (regrets, ahead) = against_fixed(&load(), old);
        assert!(regrets.iter().all(|regret| *regret < 0.02), "{regrets:?}");
        assert!(ahead.unwrap() > 0.002, "{ahead:?}, {regrets:?}");
    }
}

#[test]
fn the_receive_side_gives_buffers_back_sooner_than_the_next_transmissions_would() {
    let held = |way| {
        let found = judged(&options(load(), true, way)).unwrap();
        let last = found.last().unwrap();
        (last.wait_ns.unwrap()[0], last.interrupts)
    };
    let (adaptive, _) = held((Completion::Adaptive(Thresholds::default()), Bounce::Auto));
    let (watching, interrupts) = held(watching());
    assert!(watching < adaptive * 2 / 3, "{watching} ns, {adaptive} ns");
    assert_eq!(interrupts, 0, "and no interrupt is taken for it");
}

#[test]
fn what_comes_meanwhile_is_read_and_one_seed_is_one_history() {
    let options = options(load(), false, watching());
    let [first, again] = [(); 2].map(|()| run(&options).unwrap());
    assert_eq!(first, again);
    let last = first.sent.phases.last().unwrap();
    assert!((495..=505).contains(&last.received) && last.receive_missing == 0, "{last:?}");
    let quiet = MixedLoad { receive_interval_ps: 0, ..load() };
    let quiet = run(&super::mixed_tests::options(quiet, false, watching())).unwrap();
    assert_eq!(quiet.sent.received, 0);
}

#[test]
fn a_fixed_choice_that_comes_to_a_dead_lock_ends_there() {
    let outcome = run(&options(load(), false, (Completion::InterruptFree, Bounce::All))).unwrap();
    assert!(outcome.sent.dead_locked);
    let before: Vec<bool> = outcome.sent.phases.iter().map(|sent| sent.dead_locked).collect();
    assert_eq!(before.iter().filter(|locked| **locked).count(), 1);
    assert_eq!(before.last(), Some(&true));
}

/// Phases of so many messages that one more or less at the end matters little: no long blocks, which would end in the
/// middle.
fn phases() -> impl Strategy<Value = Vec<LoadPhase>> {
    let size = prop_oneof![16u32..300, 300u32..4_000, 4_000u32..=16_384];
    let sizes = prop::collection::vec(size, 1..4);
    let compute_us = prop_oneof![Just(0u64), 1u64..80];
    let phase = (sizes, 0u64..3, compute_us)
        .prop_map(|(sizes, block, compute_us)| phase(&sizes, block, compute_us));
    prop::collection::vec(phase, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever is sent, and however fast frames come: each packet arrives as it was sent, every buffer comes back, and
    /// who may wait by interrupt comes to no dead-lock.
    #[test]
    fn whatever_the_mix_everything_that_was_sent_comes_back(
        phases in phases(),
        receive_us in prop_oneof![Just(0u64), 5u64..200],
        old in any::<bool>(),
    ) {
        let load = MixedLoad { phases, receive_interval_ps: receive_us * 1_000_000, ..load() };
        let found = judged(&options(load, old, watching()));
        prop_assert!(found.is_some_and(|phases| phases.iter().all(|sent| sent.sent > 0)));
    }
}
