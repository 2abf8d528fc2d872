//! The seeds of a case, one after the other: drawn, run, judged, and made shorter if they are wrong.

use std::time::Instant;

use warikomi_clock::{Dice, Seed};
use warikomi_target::TargetError;

use super::history::{History, Judged, compare, found_by, shrink};
use super::kernel::{KernelArguments, KernelHistory, Places, as_typed};
use super::process::ProcessHistory;
use super::row::{Finding, Made};
use super::seeds::Batch;
use crate::error::Error;
use crate::watch::Watch;

/// Of both targets, the share of seeds that are a kernel's (one in ...): then both take about as long.
const ONE_IN: u64 = 500;

/// The share of histories that are made twice (one in ...).
const TWICE_OF_PROCESS: u64 = 50;
const TWICE_OF_KERNEL: u64 = 4;

/// Shorter histories that are tried: some seconds of a process, two minutes of a kernel.
const TRIES_OF_PROCESS: u32 = 2_000;
const TRIES_OF_KERNEL: u32 = 120;

/// So that choices of a soak do not depend on those of a history of the same seed.
const SALT: u64 = 0x736f_616b;

/// Which targets there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Targets {
    Process,
    Kernel,
    Both,
}

/// What every history is drawn with.
#[derive(Debug)]
pub(super) struct Draw {
    pub(super) targets: Targets,
    pub(super) kernel: KernelArguments,
    pub(super) shrink: bool,
    /// What is known of the driver's code.
    pub(super) places: Places,
}

/// What a target's histories are tried with.
struct Limits {
    twice: bool,
    tries: u32,
    /// More that the command needs to try the seed again.
    words: Vec<String>,
}

impl Draw {
    /// Tries these seeds.
    pub(super) fn case(&mut self, batch: Batch, watch: &mut Watch) -> Result<Made, Error> {
        let begun = Instant::now();
        let mut made = Made { seeds: batch.to_string(), ..Made::default() };
        for seed in batch.seeds() {
            if watch.interrupted.is_set() {
                return Err(TargetError::Interrupted.into());
            }
            self.seed(seed, &mut made, watch)?;
        }
        made.took_s = begun.elapsed().as_secs_f64();
        Ok(made)
    }

    fn seed(&mut self, seed: u64, made: &mut Made, watch: &mut Watch) -> Result<(), Error> {
        let mut dice = Seed(seed ^ SALT).dice();
        if self.is_kernels(&mut dice) {
            let twice = dice.one_in(TWICE_OF_KERNEL);
            let words = self.kernel.words();
            let limits = Limits { twice, tries: TRIES_OF_KERNEL, words };
            let history =
                KernelHistory::draw(seed, &mut dice, &self.kernel, &mut self.places, watch)?;
            self.history(&history, seed, &limits, made, watch)
        } else {
            let twice = dice.one_in(TWICE_OF_PROCESS);
            let limits = Limits { twice, tries: TRIES_OF_PROCESS, words: Vec::new() };
            let history = ProcessHistory::draw(seed, &mut dice);
            self.history(&history, seed, &limits, made, watch)
        }
    }

    /// Whether a seed is a kernel's. The choice is made in any case, so that what follows is the same for a seed
    /// whatever targets there are.
    fn is_kernels(&self, dice: &mut Dice) -> bool {
        let one_in = dice.one_in(ONE_IN);
        match self.targets {
            Targets::Process => false,
            Targets::Kernel => true,
            Targets::Both => one_in,
        }
    }

    fn history<H: History>(
        &self,
        history: &H,
        seed: u64,
        limits: &Limits,
        made: &mut Made,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        let found = judged(history, limits.twice, watch)?;
        let counts = made.targets.entry(H::TARGET.to_owned()).or_default();
        counts.add(history, &found, limits.twice);
        if found.violations.is_empty() {
            return Ok(());
        }
        let checkers: Vec<&'static str> = found.violations.iter().map(|one| one.checker).collect();
        let short = match self.shrink {
            false => history.clone(),
            true => shrink(history.clone(), limits.tries, |shorter| {
                let twice = checkers == [super::history::REPEATS];
                Ok(found_by(&judged(shorter, twice, watch)?, &checkers))
            })?,
        };
        let said = found.violations.iter().map(|one| format!("{}: {}", one.checker, one.what));
        let again = ["warikomi", "soak", "--target", H::TARGET].map(str::to_owned).into_iter();
        let again = again.chain(limits.words.iter().cloned());
        made.findings.push(Finding {
            seed,
            target: H::TARGET.to_owned(),
            checkers: checkers.join(", "),
            what: said.collect::<Vec<_>>().join("; "),
            command: as_typed(again.chain(["--seeds".to_owned(), seed.to_string()])),
            history: short.command(),
        });
        Ok(())
    }
}

/// Runs a history, twice if that is asked for, and has it judged.
fn judged<H: History>(history: &H, twice: bool, watch: &mut Watch) -> Result<Judged, Error> {
    let mut judged = history.run(watch)?;
    if twice {
        compare(history, &mut judged, watch)?;
    }
    Ok(judged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(targets: Targets) -> Draw {
        let (kernel, places) = (KernelArguments::default(), Places::default());
        Draw { targets, kernel, shrink: false, places }
    }

    #[test]
    fn a_seed_is_the_same_history_among_others_and_of_both_targets() {
        let mut watch = Watch::unobserved();
        let mut counts = |targets, first, last| {
            let made = draw(targets).case(Batch { first, last }, &mut watch).unwrap();
            assert!(made.findings.is_empty(), "{:?}", made.findings);
            made.targets["process"].clone()
        };
        let all = counts(Targets::Process, 1, 20);
        assert_eq!((all.histories, all.wrong), (20, 0));
        assert_eq!(all, counts(Targets::Both, 1, 20), "no seed up to 20 is a kernel's");
        assert_eq!(counts(Targets::Process, 7, 7), counts(Targets::Both, 7, 7));
        assert_ne!(counts(Targets::Process, 7, 7).digest, counts(Targets::Process, 8, 8).digest);
    }

    #[test]
    fn of_both_targets_some_seeds_are_a_kernels() {
        let draw = draw(Targets::Both);
        let is_kernels = |seed: &u64| draw.is_kernels(&mut Seed(seed ^ SALT).dice());
        let kernels = (1..=10 * ONE_IN).filter(is_kernels).count();
        assert!((3..30).contains(&kernels), "{kernels}");
    }
}
