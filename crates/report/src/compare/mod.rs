//! Two runs side by side: is a difference more than the noise of the repetitions?

mod collect;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use warikomi_measure::layout::{Better, Unit};
use warikomi_measure::{Repeat, RunResult, rank_sum};

use crate::read::Run;
use collect::{Figure, Key, collect};

/// What counts as a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The probability at or below which a difference is called more than noise: above 0, below 1.
    pub alpha: f64,
    /// The least difference that matters, as a share of A (0.05 is 5%).
    pub threshold_share: f64,
}

/// What is said of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is worse, beyond noise and threshold.
    Worse,
    /// B is better, beyond noise and threshold.
    Better,
    /// B differs, beyond noise and threshold, and neither way is better.
    Differs,
    /// The difference is beyond noise, but smaller than the threshold.
    BelowThreshold,
    /// The difference is within the noise of the repetitions.
    WithinNoise,
    /// So few repetitions cannot differ beyond noise.
    TooFewRepeats,
    /// There are no repetitions on one side or on both.
    NoRepeats,
}

/// A figure that both runs have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its name, with its unit.
    pub figure: String,
    /// Title of the figure.
    #[serde(skip)]
    pub title: String,
    /// Unit of the figure.
    #[serde(skip)]
    pub unit: Unit,
    /// The frame length that it belongs to, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What else it belongs to, such as a place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Its value in A: the median of the repetitions if there are any.
    pub a: f64,
    /// Its value in B.
    pub b: f64,
    /// By how much B is more than A, as a share of A; absent if A is 0 and B is not.
    pub difference_share: Option<f64>,
    /// Repetitions in A.
    pub repeats_a: usize,
    /// Repetitions in B.
    pub repeats_b: usize,
    /// The probability of a difference like this by chance; absent without repetitions.
    pub p: Option<f64>,
    /// Whether the difference is significant.
    pub verdict: Verdict,
}

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run's directory.
    pub a: String,
    /// The second run's directory.
    pub b: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The test, in words.
    pub test: String,
    /// The probability at or below which a difference is more than noise.
    pub alpha: f64,
    /// The least difference that matters, as a share of A.
    pub threshold_share: f64,
    /// Figures that could be tested. By chance alone this many times `alpha` are called different.
    pub tested: usize,
    /// What differs between the runs besides the figures.
    pub cautions: Vec<String>,
    /// The figures, by frame length and name.
    pub figures: Vec<Compared>,
}

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum CompareError {
    /// They are of different experiments.
    #[error("A is of the experiment '{a}' and B of '{b}': compare runs of the same experiment")]
    Experiments {
        /// That of A.
        a: String,
        /// That of B.
        b: String,
    },
    /// They share no figure.
    #[error("these runs have no figure in common: are they of the same sizes and settings?")]
    NothingInCommon,
}

impl Comparison {
    /// Whether B is worse in anything.
    pub fn is_worse(&self) -> bool {
        self.figures.iter().any(|figure| figure.verdict == Verdict::Worse)
    }

    /// Whether anything could be tested at all.
    pub fn can_tell(&self) -> bool {
        self.tested > 0
    }
}

/// Compares B with A. Figures that only one of them has are left out, and named.
pub fn compare(
    (a, repeats_a): (&Run, &[Repeat]),
    (b, repeats_b): (&Run, &[Repeat]),
    limits: Limits,
) -> Result<Comparison, CompareError> {
    let experiment = a.result.experiment.clone();
    if experiment != b.result.experiment {
        return Err(CompareError::Experiments { a: experiment, b: b.result.experiment.clone() });
    }
    let (of_a, of_b) = (collect(&a.result, repeats_a), collect(&b.result, repeats_b));
    let figures: Vec<Compared> =
        of_a.iter().filter_map(|(key, one)| judge(key, one, of_b.get(key)?, limits)).collect();
    if figures.is_empty() {
        return Err(CompareError::NothingInCommon);
    }
    let testable = |verdict| !matches!(verdict, Verdict::NoRepeats | Verdict::TooFewRepeats);
    let mut cautions = differences(&a.result, &b.result);
    cautions.extend(not_in_both(&of_a, &of_b));
    Ok(Comparison {
        a: a.path.display().to_string(),
        b: b.path.display().to_string(),
        experiment,
        test: format!(
            "Wilcoxon rank sum (Mann-Whitney U), exact, two-sided, at most {} repetitions a side",
            rank_sum::MOST
        ),
        alpha: limits.alpha,
        threshold_share: limits.threshold_share,
        tested: figures.iter().filter(|figure| testable(figure.verdict)).count(),
        cautions,
        figures,
    })
}

fn judge(key: &Key, a: &Figure, b: &Figure, limits: Limits) -> Option<Compared> {
    let repeated = !a.repeats.is_empty() && !b.repeats.is_empty();
    let (one, other) = match (repeated, a.value, b.value) {
        // The same kind of value on both sides: a median is not compared with a single run.
        (false, Some(one), Some(other)) => (one, other),
        _ => (a.typical()?, b.typical()?),
    };
    let difference_share = match other - one {
        0.0 => Some(0.0),
        some => Some(some / one.abs()).filter(|share| share.is_finite()),
    };
    let p = rank_sum::p_value(&a.repeats, &b.repeats);
    let verdict = match p {
        None => Verdict::NoRepeats,
        // A median may stay where it was while the rest moves; that is no difference of the median.
        Some(p) if p <= limits.alpha && other != one => {
            direction(b.column.better, other > one, difference_share, limits)
        }
        Some(_) => match rank_sum::least_p(a.repeats.len(), b.repeats.len()) {
            least if least > limits.alpha => Verdict::TooFewRepeats,
            _ => Verdict::WithinNoise,
        },
    };
    Some(Compared {
        figure: key.figure.clone(),
        title: b.column.title.clone(),
        unit: b.column.unit,
        size_bytes: key.size_bytes,
        of: key.of.clone(),
        a: one,
        b: other,
        difference_share,
        repeats_a: a.repeats.len(),
        repeats_b: b.repeats.len(),
        p,
        verdict,
    })
}

/// What a difference beyond noise means.
fn direction(better: Option<Better>, more: bool, share: Option<f64>, limits: Limits) -> Verdict {
    if share.is_some_and(|share| share.abs() < limits.threshold_share) {
        return Verdict::BelowThreshold;
    }
    match better {
        None => Verdict::Differs,
        Some(Better::More) if more => Verdict::Better,
        Some(Better::Less) if !more => Verdict::Better,
        Some(_) => Verdict::Worse,
    }
}

/// What differs in plan, target and machine: a difference in figures may be of that.
fn differences(a: &RunResult, b: &RunResult) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |what: &str, a: &Value, b: &Value| {
        if a != b {
            found.push(format!("{what} differs: {} in A, {} in B", word(a), word(b)));
        }
    };
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::from);
    add("driver", &a.target.driver.as_str().into(), &b.target.driver.as_str().into());
    add("NIC model", &a.target.model.as_str().into(), &b.target.model.as_str().into());
    add("the target's kernel", &text(&a.target.kernel), &text(&b.target.kernel));
    add("version of Warikomi", &text(&a.version), &text(&b.version));
    add("processor", &text(&a.machine.cpu_model), &text(&b.machine.cpu_model));
    add("the host's kernel", &text(&a.machine.kernel), &text(&b.machine.kernel));
    let names = a.plan.keys().chain(b.plan.keys().filter(|name| !a.plan.contains_key(*name)));
    for name in names {
        let of =
            |plan: &serde_json::Map<String, Value>| plan.get(name).cloned().unwrap_or_default();
        add(&format!("{name} of the plan"), &of(&a.plan), &of(&b.plan));
    }
    found
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn not_in_both(a: &BTreeMap<Key, Figure>, b: &BTreeMap<Key, Figure>) -> Option<String> {
    let only = |a: &BTreeMap<Key, Figure>, b: &BTreeMap<Key, Figure>| {
        a.keys().filter(|key| !b.contains_key(key)).count()
    };
    let (only_a, only_b) = (only(a, b), only(b, a));
    (only_a + only_b > 0).then(|| {
        format!("{only_a} figures are in A only and {only_b} in B only; they are not compared")
    })
}

#[cfg(test)]
mod tests;
