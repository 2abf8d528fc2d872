//! Seeds as people write them: `4711`, `1..500` (both included), `1000..` (without an end), or several of these.

use std::fmt;
use std::str::FromStr;

/// The highest seed: a plan of packets takes no higher one.
const MAX_SEED: u64 = i64::MAX as u64;

/// Seeds to try, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seeds(Vec<Range>);

/// Seeds in a row, both ends included; without an end if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: Option<u64>,
}

/// Seeds in a row that are made as one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Seeds {
    /// From 1 on.
    pub(super) fn up_to(last: Option<u64>) -> Seeds {
        Seeds(vec![Range { first: 1, last }])
    }

    /// Whether there is no end.
    pub(super) fn is_endless(&self) -> bool {
        self.0.iter().any(|range| range.last.is_none())
    }

    /// All of them, in batches of `most` at most.
    pub(super) fn batches(&self, most: u64) -> impl Iterator<Item = Batch> + '_ {
        self.0.iter().flat_map(move |range| {
            let end = range.last.unwrap_or(MAX_SEED);
            let mut next = Some(range.first);
            std::iter::from_fn(move || {
                let first = next.filter(|first| *first <= end)?;
                let last = end.min(first.saturating_add(most - 1));
                next = last.checked_add(1);
                Some(Batch { first, last })
            })
        })
    }
}

impl Batch {
    pub(super) fn seeds(self) -> impl Iterator<Item = u64> {
        self.first..=self.last
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Range { first: self.first, last: Some(self.last) }.fmt(f)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            None => write!(f, "{}..", self.first),
            Some(last) if last == self.first => write!(f, "{last}"),
            Some(last) => write!(f, "{}..{last}", self.first),
        }
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<_> = self.0.iter().map(Range::to_string).collect();
        f.write_str(&ranges.join(","))
    }
}

/// Why a text is no seeds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParseSeedsError {
    /// Something is no seed and no range.
    #[error("'{0}' is no seed; write 4711, 1..500 (both included), 1000.. or several with commas")]
    Seed(String),
    /// A range ends before it begins.
    #[error("'{0}' ends before it begins")]
    Backwards(String),
    /// Behind a range without an end nothing comes.
    #[error("nothing comes behind '{0}', which has no end; put it last")]
    Behind(String),
}

impl FromStr for Range {
    type Err = ParseSeedsError;

    fn from_str(text: &str) -> Result<Range, ParseSeedsError> {
        let text = text.trim();
        let seed = |number: &str| {
            let seed = number.trim().parse().ok().filter(|seed| *seed <= MAX_SEED);
            seed.ok_or_else(|| ParseSeedsError::Seed(text.to_owned()))
        };
        let (first, last) = match text.split_once("..") {
            None => (seed(text)?, Some(seed(text)?)),
            Some((first, "")) => (seed(first)?, None),
            Some((first, last)) => (seed(first)?, Some(seed(last)?)),
        };
        match last {
            Some(last) if last < first => Err(ParseSeedsError::Backwards(text.to_owned())),
            last => Ok(Range { first, last }),
        }
    }
}

impl FromStr for Seeds {
    type Err = ParseSeedsError;

    fn from_str(text: &str) -> Result<Seeds, ParseSeedsError> {
        let ranges: Vec<Range> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let before_last = &ranges[..ranges.len() - 1];
        match before_last.iter().find(|range| range.last.is_none()) {
            Some(endless) => Err(ParseSeedsError::Behind(endless.to_string())),
            None => Ok(Seeds(ranges)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(text: &str, most: u64) -> Vec<(u64, u64)> {
        let seeds: Seeds = text.parse().unwrap();
        seeds.batches(most).take(4).map(|batch| (batch.first, batch.last)).collect()
    }

    #[test]
    fn both_ends_are_included_and_the_last_batch_may_be_short() {
        assert_eq!(batches("4711", 100), [(4711, 4711)]);
        assert_eq!(batches("1..250", 100), [(1, 100), (101, 200), (201, 250)]);
        assert_eq!(batches("3,7..8", 1), [(3, 3), (7, 7), (8, 8)]);
        assert_eq!(batches("5..", 2), [(5, 6), (7, 8), (9, 10), (11, 12)]);
        assert_eq!(batches(&format!("{MAX_SEED}.."), 5), [(MAX_SEED, MAX_SEED)]);
    }

    #[test]
    fn seeds_are_read_as_they_are_written() {
        for text in ["4711", "1..500", "1000..", "3,9,1..10"] {
            assert_eq!(text.parse::<Seeds>().unwrap().to_string(), text);
        }
        for text in ["", "x", "-1", "1..0", "1..,5", "1,", "9223372036854775808", "1...3"] {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }
}
