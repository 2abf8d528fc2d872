use super::*;
use crate::virtual_time::planted::{Bug, Planted};

fn sound() -> Box<dyn NicDriver> {
    warikomi_driver::by_name("rtl8168").unwrap()
}

fn all_are_right(seed: u64, count: u64, faults: bool) -> Summary {
    let wanted = Histories { seed: Seed(seed), count, faults };
    match histories(&wanted, &sound, &mut |_| ()) {
        Ok(summary) => summary,
        Err(error) => panic!("{error}"),
    }
}

// The 20,000 histories of `make test`, in pieces that run beside each other.

#[test]
fn ten_thousand_histories_are_right() {
    let summary = all_are_right(1, 10_000, false);
    assert_eq!(summary.histories, 10_000);
    assert_eq!((summary.restarts, summary.failures), (0, 0));
    assert!(summary.delivered > summary.packets / 3, "{summary:?}");
}

#[test]
fn ten_thousand_histories_with_faults_and_kills_are_right() {
    let summary = all_are_right(1, 10_000, true);
    assert_eq!(summary.histories, 10_000);
    assert!(summary.restarts > 1_000 && summary.failures > 100, "{summary:?}");
    assert!(summary.delivered > summary.packets / 4, "{summary:?}");
}

/// The histories that these seeds have, in whatever profile this is compiled. When a change of the
/// model, the driver, a strategy, the random choices or the events is meant to change histories, copy
/// the new ones from the message of the test that fails, once in each profile:
/// `cargo test -p warikomi-lab --lib golden` and the same with `--release`.
const GOLDEN: [(u64, bool, &str); 4] = [
    (1, false, "611927a12122dedc692da73d328bf6a7a13702b8a48d44174fad0e9b8eb99830"),
    (2, true, "e494da631f6583801f1dec3dc476170579d62236323bfcf89e20a3b956576ffd"),
    (3, false, "2b96ff371f3cd56ca76c5a10c2a1dd9aa0b99df1f436b8f0093fd2e7f3e04b17"),
    (4, true, "7f0a5ae9bb9d994b88958a9bb53451c37e469fca10c9ff03cff6b96c9cf26bb3"),
];

#[test]
fn golden_seeds_have_the_digests_that_they_always_had() {
    let digest = |(seed, faults, _): &(u64, bool, &str)| {
        history(Seed(*seed), *faults, &sound).unwrap().0.digest
    };
    let now: Vec<String> = GOLDEN.iter().map(digest).collect();
    let again: Vec<String> = GOLDEN.iter().map(digest).collect();
    assert_eq!(now, again, "one seed, two histories");
    assert_eq!(now, GOLDEN.map(|(_, _, digest)| digest));
}

#[test]
fn another_seed_is_another_history() {
    let digest = |seed| history(Seed(seed), false, &sound).unwrap().0.digest;
    assert_ne!(digest(1), digest(2));
}

/// Tries histories until the bug shows; who has found it, in how many.
fn found_by(bug: Bug, faults: bool) -> (Vec<&'static str>, u64, Failure) {
    const MOST: u64 = 5_000;
    let make = || -> Box<dyn NicDriver> { Box::new(Planted::new(sound(), bug)) };
    let wanted = Histories { seed: Seed(1), count: MOST, faults };
    match histories(&wanted, &make, &mut |_| ()) {
        Err(HistoryError::Wrong(failure)) => {
            let checkers = failure.violations.iter().map(|found| found.checker).collect();
            (checkers, failure.seed, *failure)
        }
        other => panic!("{bug:?} was not found in {MOST} histories: {other:?}"),
    }
}

#[test]
fn a_driver_that_sleeps_without_a_last_look_is_found() {
    let (checkers, seed, failure) = found_by(Bug::NoLastLook, false);
    assert!(checkers.contains(&"progress"), "{failure}");
    let repeat = format!("warikomi histories --count 1 --seed {seed}");
    assert!(failure.to_string().ends_with(&repeat), "{failure}");
}

#[test]
fn a_driver_that_leaks_the_buffers_of_damaged_frames_is_found() {
    let (checkers, _, failure) = found_by(Bug::LeaksRefused, true);
    assert!(checkers.contains(&"balance"), "{failure}");
}

#[test]
fn a_driver_that_delivers_twice_is_found() {
    let (checkers, _, failure) = found_by(Bug::DeliversTwice, false);
    assert!(checkers.contains(&"ownership") && checkers.contains(&"ledger"), "{failure}");
}

#[test]
fn a_driver_that_drops_a_good_frame_is_found() {
    let (checkers, _, failure) = found_by(Bug::DropsGood, false);
    assert_eq!(checkers, ["ledger"], "{failure}");
}

#[test]
fn a_driver_that_swaps_two_frames_is_found() {
    let (checkers, _, failure) = found_by(Bug::Swaps, false);
    assert_eq!(checkers, ["order"], "{failure}");
}
