//! Shards: the cases of a run, dealt out to several machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Machine;

/// The most shards of one run.
const MAX_SHARDS: u32 = 10_000;

/// Shard I of N of a run. It has the cases I, I + N, I + 2N and so on, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    number: u32,
    of: u32,
}

impl Shard {
    /// Which shard, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Number of shards.
    pub fn of(self) -> u32 {
        self.of
    }

    /// Whether a case is in this shard. Cases are counted from 0 here.
    pub fn has(self, case: u64) -> bool {
        case % u64::from(self.of) == u64::from(self.number - 1)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Why a text is no shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no shard: write I/N, such as 2/4 for the second of 4, with N at most {MAX_SHARDS}"
)]
pub struct ParseShardError(String);

impl FromStr for Shard {
    type Err = ParseShardError;

    fn from_str(text: &str) -> Result<Shard, ParseShardError> {
        let shard = || {
            let (number, of) = text.split_once('/')?;
            let shard = Shard { number: number.parse().ok()?, of: of.parse().ok()? };
            let there = shard.of <= MAX_SHARDS && (1..=shard.of).contains(&shard.number);
            there.then_some(shard)
        };
        shard().ok_or_else(|| ParseShardError(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for Shard {
    type Error = ParseShardError;

    fn try_from(text: String) -> Result<Shard, ParseShardError> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

/// A shard that was made, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeShard {
    /// Which shard.
    pub shard: Shard,
    /// Cases that it has made.
    pub cases: u64,
    /// Cases of the whole run.
    pub of_cases: u64,
    /// The machine that it was made on.
    pub machine: Machine,
}

impl MadeShard {
    /// Whether two shards were made on machines that are the same but for their load.
    pub fn on_same_machine(&self, other: &MadeShard) -> bool {
        let kind = |made: &MadeShard| {
            let Machine { cpu_model, logical_cores, kernel, virtualised, .. } = &made.machine;
            (cpu_model.clone(), *logical_cores, kernel.clone(), *virtualised)
        };
        kind(self) == kind(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_shard_is_refused_with_what_is() {
        for text in
            ["", "2", "0/4", "5/4", "1/0", "1/10001", "a/b", "1/2/3", "-1/2", "1/4294967296"]
        {
            let refused = text.parse::<Shard>().unwrap_err().to_string();
            assert!(refused.contains("such as 2/4"), "{refused}");
        }
        assert!(serde_json::from_str::<Shard>("\"5/4\"").is_err());
        let shard: Shard = serde_json::from_str("\"2/4\"").unwrap();
        assert_eq!((shard.number(), shard.of(), shard.to_string().as_str()), (2, 4, "2/4"));
    }

    proptest! {
        #[test]
        fn each_case_is_in_one_shard(case in any::<u64>(), of in 1..200u32) {
            let shards = (1..=of).map(|number| Shard { number, of });
            prop_assert_eq!(shards.filter(|shard| shard.has(case)).count(), 1);
        }

        #[test]
        fn never_panics_on_any_text(text in ".*") {
            let _ = text.parse::<Shard>();
        }
    }
}
