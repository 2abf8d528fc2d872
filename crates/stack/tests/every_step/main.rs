//! A driver that is killed at every single store, one after the other, and at every pair of stores: what
//! the card has accepted reaches the layer above exactly once and in order, what was handed over is on
//! the wire exactly once and in order, and no buffer is lost.
//!
//! Everything is in one thread and in virtual time, and follows from a seed. Card, driver with its loop, channel
//! and baton are the real ones. A run that fails says which it was:
//! `replay(SCENARIO, KILLS)` in a test repeats it.

mod frame;
mod mortal;
mod process;
mod supervise;
mod user;
mod world;

use std::panic::catch_unwind;

use rand_chacha::rand_core::Rng;
use warikomi_clock::{Seed, Span};
use warikomi_driver::state::{Baton, How, Turn};

use crate::process::Process;
use crate::supervise::{Summary, run};
use crate::world::{Scenario, World};

/// A scenario with a little of everything: more frames than descriptors both ways, damaged ones, ones that
/// cannot be sent, hand-overs.
fn scenario(seed: u64) -> Scenario {
    Scenario {
        seed,
        passes: 18,
        hand_over_before: vec![6, 12],
        frames: 20,
        descriptors: 5,
        buffers: 14,
        bus: None,
    }
}

/// The same with a card of which a transfer takes longer than a look at the rings.
fn slow(seed: u64) -> Scenario {
    Scenario { bus: Some("pci-64-66,wait=5us"), ..scenario(seed) }
}

/// A short one, for all pairs.
fn short(seed: u64) -> Scenario {
    Scenario {
        passes: 4,
        hand_over_before: vec![2],
        frames: 6,
        descriptors: 3,
        buffers: 8,
        ..scenario(seed)
    }
}

/// Runs it, and says how to repeat it if it fails.
fn replay(scenario: &Scenario, kills: &[u64]) -> Summary {
    let outcome = catch_unwind(|| run(scenario, kills));
    outcome.unwrap_or_else(|_| panic!("to repeat it: replay(&{scenario:?}, &{kills:?})"))
}

/// The least number of stores for which this is true of a run whose first driver is killed there.
fn least_stores(scenario: &Scenario, is_so: impl Fn(Summary) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1 << 20);
    while low + 1 < high {
        let middle = (low + high) / 2;
        (low, high) =
            if is_so(replay(scenario, &[middle])) { (low, middle) } else { (middle, high) };
    }
    high
}

/// Stores of the first driver until its device is set up: who dies before has it reset.
fn set_up_stores(scenario: &Scenario) -> u64 {
    least_stores(scenario, |summary| summary.resets == 0)
}

/// Kills the next driver after `before` at every store from `from` on, as long as it lives so long; what
/// each run came to.
fn kill_at_every_store<'a>(
    scenario: &'a Scenario,
    before: &'a [u64],
    from: u64,
) -> impl Iterator<Item = (u64, Summary)> + 'a {
    (from..)
        .map(move |stores| (stores, replay(scenario, &[before, &[stores]].concat())))
        .take_while(|(_, summary)| {
            summary.killed > before.iter().filter(|it| **it != NEVER).count()
        })
}

const NEVER: u64 = u64::MAX;

#[test]
fn without_a_kill_everything_comes_through_and_a_run_repeats_itself() {
    for seed in 0..20 {
        for scenario in [scenario(seed), slow(seed), short(seed)] {
            let summary = replay(&scenario, &[]);
            assert_eq!((summary.killed, summary.resets, summary.lost), (0, 0, 0));
            assert!(summary.frames.0 > 3 && summary.frames.1 > 3, "{summary:?}");
            assert_eq!(summary, replay(&scenario, &[]));
        }
    }
}

#[test]
fn a_core_that_is_taken_while_the_driver_arms_is_a_hiccup_and_a_sleep_is_none() {
    let world = World::new(&scenario(0));
    let mut driver = Process::new(&world, 1, u64::MAX, 5);
    Baton::new(world.area.clone()).give(Turn { generation: 1, how: How::Start });
    driver.begin().expect("the card works");
    let mut hiccups = |away| driver.hiccups_while_it_arms(away).expect("the card works");
    assert_eq!(hiccups(Span::from_us(1)), 0);
    assert!(hiccups(Span::from_ms(1)) > 0);
}

#[test]
fn a_kill_at_any_store_once_the_card_is_set_up_costs_nothing() {
    for seed in 0..10 {
        for scenario in [scenario(seed), slow(seed)] {
            let mut runs = 0;
            for (_, summary) in kill_at_every_store(&scenario, &[], set_up_stores(&scenario)) {
                assert_eq!((summary.resets, summary.lost), (0, 0));
                runs += 1;
            }
            assert!(runs > 100, "{runs}");
        }
    }
}

#[test]
fn a_kill_at_any_store_costs_nothing_when_the_transmit_ring_has_gone_round() {
    let scenario =
        Scenario { hand_over_before: Vec::new(), frames: 1_400, buffers: 40, ..scenario(0) };
    let all = least_stores(&scenario, |summary| summary.killed == 0);
    let mut runs = 0;
    for (_, summary) in kill_at_every_store(&scenario, &[], all - 800) {
        assert_eq!((summary.resets, summary.lost, summary.frames.1), (0, 0, 1_120));
        runs += 1;
    }
    assert_eq!(runs, 800);
}

#[test]
fn a_kill_at_any_store_of_setting_up_has_the_card_reset() {
    let scenario = short(0);
    let mut lost = 0;
    for stores in 0..set_up_stores(&scenario) {
        let summary = replay(&scenario, &[stores]);
        assert_eq!((summary.killed, summary.resets), (1, 1), "{stores}");
        lost += summary.lost;
    }
    // Frames came in between the card's start and the settings: the only ones that a death can cost.
    assert!(lost > 0);
}

#[test]
fn any_number_of_kills_at_random_stores_cost_nothing() {
    for seed in 0..20 {
        // Long enough for the transmit ring to go round.
        let scenario = Scenario {
            passes: 300,
            hand_over_before: (0..300).step_by(23).collect(),
            frames: 2_500,
            descriptors: 16,
            buffers: 80,
            ..scenario(seed)
        };
        let mut chances = Seed(seed).generator();
        let set_up = set_up_stores(&scenario);
        let kills: Vec<u64> = (0..20).map(|_| chances.next_u64() % 2_000).collect();
        let first = set_up + kills[0];
        let summary = replay(&scenario, &[&[first], &kills[1..]].concat());
        assert_eq!((summary.resets, summary.lost), (0, 0), "{summary:?}");
        assert!(summary.killed > 5 && summary.frames.1 == 2_000, "{summary:?}");
    }
}

#[test]
fn a_new_driver_that_dies_before_it_has_accepted_leaves_the_device_to_the_old_one() {
    for seed in 0..10 {
        let scenario = scenario(seed);
        let mut rolled_back = 0;
        for (_, summary) in kill_at_every_store(&scenario, &[NEVER], 0) {
            assert_eq!((summary.killed, summary.resets, summary.lost), (1, 0, 0));
            rolled_back += summary.rolled_back;
        }
        // Its stores before it has accepted: a register and the owner word. On a quiet ring it rings no doorbell.
        assert_eq!(rolled_back, 2);
    }
}

#[test]
fn two_kills_at_any_two_stores_cost_nothing() {
    let (mut runs, mut rolled_back) = (0, 0);
    for seed in 0..2 {
        let scenario = short(seed);
        for (first, _) in kill_at_every_store(&scenario, &[], set_up_stores(&scenario)) {
            for (_, summary) in kill_at_every_store(&scenario, &[first], 0) {
                assert_eq!((summary.resets, summary.lost), (0, 0));
                runs += 1;
                rolled_back += summary.rolled_back;
            }
        }
    }
    assert!(runs > 1_000 && rolled_back == 0, "{runs} pairs");
}
