//! What carries the same load out: each fixed choice, and what adapts itself.

use warikomi_driver::transmit::{Bounce, Completion, Thresholds};
use warikomi_stack::buffers::BufferKind;

use super::super::options::Options;
use super::super::row::Outcome;
use crate::error::Error;

/// A choice: buffers, a completion strategy, and a bounce buffer.
pub(super) type Choice = (BufferKind, Completion, Bounce);

/// What came of the whole load with one choice.
pub(super) struct Run {
    pub(super) choice: Choice,
    pub(super) outcome: Outcome,
}

/// The choices: each fixed completion strategy with each fixed bounce buffer, then what adapts itself, the driver that
/// watches more last.
pub(super) fn choices(options: &Options) -> Result<Vec<Choice>, Error> {
    let fixed = options.completions.iter().filter(|completion| completion.is_fixed());
    let bounces = options.bounces.iter().filter(|it| !matches!(it, Bounce::Auto | Bounce::Dummy));
    let (fixed, bounces): (Vec<_>, Vec<_>) = (fixed.collect(), bounces.collect());
    if fixed.is_empty() || bounces.is_empty() {
        return Err(Error::impossible(
            "--mixed compares with fixed choices, and there is none; give --completions with interrupt or \
             interrupt-free among them, and --bounces with none, a number or all",
        ));
    }
    let given = options.completions.iter().copied();
    let watching = given.clone().find(|completion| completion.watches());
    let watching = watching.unwrap_or(Completion::AdaptiveWatching(Thresholds::default()));
    let adaptive = given.filter(|it| !it.is_fixed() && !it.watches()).chain([watching]);
    let adaptive: Vec<Completion> = adaptive.collect();
    let mut all = Vec::new();
    for &buffers in &options.buffers {
        // One piece is contiguous as it is.
        let most = if buffers == BufferKind::Contiguous { 1 } else { bounces.len() };
        for &completion in &fixed {
            all.extend(bounces[..most].iter().map(|bounce| (buffers, *completion, **bounce)));
        }
        all.extend(adaptive.iter().map(|completion| (buffers, *completion, Bounce::Auto)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(options: &Options) -> Vec<String> {
        let choices = choices(options).unwrap();
        let name = |(buffers, completion, bounce)| format!("{buffers} {completion} {bounce}");
        choices.into_iter().map(name).collect()
    }

    #[test]
    fn each_fixed_choice_stands_beside_what_adapts_itself() {
        let options = Options {
            buffers: vec![BufferKind::Mbuf { cluster_bytes: 2_048 }, BufferKind::Contiguous],
            bounces: vec![Bounce::None, Bounce::All, Bounce::Auto],
            ..Options::default()
        };
        let expected = [
            "mbuf-2k interrupt none",
            "mbuf-2k interrupt all",
            "mbuf-2k interrupt-free none",
            "mbuf-2k interrupt-free all",
            "mbuf-2k adaptive-published auto",
            "mbuf-2k adaptive auto",
            "mbuf-2k adaptive-watching auto",
            "contiguous interrupt none",
            "contiguous interrupt-free none",
            "contiguous adaptive-published auto",
            "contiguous adaptive auto",
            "contiguous adaptive-watching auto",
        ];
        assert_eq!(names(&options), expected);
        let none = Options { completions: vec![], ..options };
        assert!(choices(&none).unwrap_err().to_string().contains("there is none"));
    }

    #[test]
    fn thresholds_that_were_given_are_those_of_the_driver_that_watches() {
        let watching = "adaptive-watching:10%,30%".parse().unwrap();
        let options = Options {
            buffers: vec![BufferKind::Contiguous],
            completions: vec![Completion::Interrupt, watching],
            ..Options::default()
        };
        assert_eq!(
            names(&options),
            ["contiguous interrupt none", "contiguous adaptive-watching:10%,30% auto"]
        );
    }
}
