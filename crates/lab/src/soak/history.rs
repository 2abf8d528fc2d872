//! What histories of both targets have in common: each is drawn from a seed, run, judged, and, if it is wrong, made
//! shorter for as long as the same checker finds something.

use crate::error::Error;
use crate::watch::Watch;

/// A history that a seed has drawn, whole or shortened.
pub(super) trait History: Clone {
    /// Where its driver runs.
    const TARGET: &'static str;

    /// What was drawn that others do not have; counted in the result.
    fn features(&self) -> Vec<String>;

    /// The command that repeats it.
    fn command(&self) -> String;

    /// Shorter ones: each with one thing less. The most that can be saved comes first.
    fn shorter(&self) -> Vec<Self>;

    /// Runs it, and has it judged.
    fn run(&self, watch: &mut Watch) -> Result<Judged, Error>;
}

/// What came of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) packets: u64,
    pub(super) delivered: u64,
    /// The same for the same history, always.
    pub(super) digest: String,
    /// What is wrong, by one line of each checker that found something.
    pub(super) violations: Vec<Violation>,
}

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) checker: &'static str,
    pub(super) what: String,
}

impl Violation {
    pub(super) fn by(checker: &'static str, what: impl Into<String>) -> Violation {
        Violation { checker, what: what.into() }
    }
}

/// The checker that finds that a history does not come to its end.
pub(super) const END: &str = "end";

/// The checker that finds that a history is not the same again.
pub(super) const REPEATS: &str = "repeats";

/// Runs it again, and adds it to what is wrong if that is another history.
pub(super) fn compare<H: History>(
    history: &H,
    judged: &mut Judged,
    watch: &mut Watch,
) -> Result<(), Error> {
    let again = history.run(watch)?;
    if again != *judged {
        let what = format!(
            "the same seed is another history: first {} of {} packets delivered, digest {}; then {} of {}, {}",
            judged.delivered,
            judged.packets,
            judged.digest,
            again.delivered,
            again.packets,
            again.digest
        );
        judged.violations.push(Violation::by(REPEATS, what));
    }
    Ok(())
}

/// A shorter history in which `fails` is still true: what can be left out is left out, until nothing can or `tries`
/// histories have been run.
pub(super) fn shrink<H: History>(
    mut history: H,
    tries: u32,
    mut fails: impl FnMut(&H) -> Result<bool, Error>,
) -> Result<H, Error> {
    let mut left = tries;
    'shorter: loop {
        for candidate in history.shorter() {
            if left == 0 {
                return Ok(history);
            }
            left -= 1;
            if fails(&candidate)? {
                history = candidate;
                continue 'shorter;
            }
        }
        return Ok(history);
    }
}

/// Whether one of these checkers has found something: what a shorter history must still show.
pub(super) fn found_by(judged: &Judged, checkers: &[&'static str]) -> bool {
    judged.violations.iter().any(|violation| checkers.contains(&violation.checker))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, of which some make it wrong.
    #[derive(Clone, Debug, PartialEq)]
    struct Numbers(Vec<u32>);

    impl History for Numbers {
        const TARGET: &'static str = "numbers";

        fn features(&self) -> Vec<String> {
            Vec::new()
        }

        fn command(&self) -> String {
            String::new()
        }

        fn shorter(&self) -> Vec<Numbers> {
            let without = |left_out: usize| {
                let kept = self.0.iter().enumerate().filter(|(at, _)| *at != left_out);
                Numbers(kept.map(|(_, number)| *number).collect())
            };
            (0..self.0.len()).map(without).collect()
        }

        fn run(&self, _: &mut Watch) -> Result<Judged, Error> {
            Ok(Judged { packets: self.0.len() as u64, ..Judged::default() })
        }
    }

    #[test]
    fn what_is_not_needed_is_left_out() {
        let fails = |numbers: &Numbers| Ok(numbers.0.contains(&7) && numbers.0.contains(&3));
        let all = Numbers((0..20).collect());
        assert_eq!(shrink(all.clone(), 1_000, fails).unwrap(), Numbers(vec![3, 7]));
        let tries = std::cell::Cell::new(0);
        let counted = |numbers: &Numbers| {
            tries.set(tries.get() + 1);
            fails(numbers)
        };
        assert!(shrink(all, 5, counted).unwrap().0.len() > 10);
        assert_eq!(tries.get(), 5);
    }

    #[test]
    fn a_history_that_is_not_the_same_again_is_wrong() {
        let (history, mut watch) = (Numbers(vec![1]), Watch::unobserved());
        let mut judged = history.run(&mut watch).unwrap();
        compare(&history, &mut judged, &mut watch).unwrap();
        assert!(judged.violations.is_empty());
        judged.digest = "another".into();
        compare(&history, &mut judged, &mut watch).unwrap();
        assert!(found_by(&judged, &[REPEATS]) && !found_by(&judged, &["order"]));
    }
}
