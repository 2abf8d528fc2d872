//! What is known of one place.

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::places::Instruction;
use crate::strike::{Operation, Striking, Trial, Verdict};

/// What came of the strikes at one place: a line of places.csv.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PlaceRow {
    /// The place, as `at` takes it.
    pub(super) place: String,
    /// The place of a second strike behind it; empty where there is one alone.
    #[serde(default)]
    pub(super) then: String,
    /// The function of the source.
    pub(super) function: String,
    /// The source file.
    pub(super) file: String,
    /// The line in it; 0 where it is not known.
    pub(super) line: u32,
    /// The operation by which it is reached; empty where none does.
    pub(super) operation: String,
    pub(super) verdict: Verdict,
    /// How often it was tried, in how many of these it was struck, and how often this was the verdict.
    pub(super) tries: u32,
    pub(super) struck: u32,
    pub(super) confirmed: u32,
    /// Whether the handler ran elsewhere, because interrupts were off.
    pub(super) deferred: bool,
    /// Where the handler ran.
    pub(super) handler: String,
    /// What shows the verdict.
    pub(super) evidence: String,
    /// What repeats it.
    pub(super) command: String,
}

/// What came of a place: its row, and if something is wrong the trial that shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Explored {
    pub(super) row: PlaceRow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trial: Option<Trial>,
    /// How long it took, in seconds.
    pub(super) seconds: f64,
}

impl Explored {
    /// A place that was not struck.
    pub(super) fn without_trial(case: &Case, verdict: Verdict) -> Explored {
        let place = case.instruction().map(ToString::to_string).unwrap_or_default();
        let new = PlaceRow::new(place, case.instruction(), None, verdict);
        let row = PlaceRow { then: case.then(), ..new };
        Explored { row, trial: None, seconds: 0.0 }
    }
}

impl PlaceRow {
    pub(super) fn new(
        place: String,
        instruction: Option<&Instruction>,
        operation: Option<Operation>,
        verdict: Verdict,
    ) -> PlaceRow {
        let (path, line) = instruction.and_then(|known| known.line.clone()).unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default().to_owned();
        PlaceRow {
            place,
            then: String::new(),
            function: instruction.map_or(String::new(), |known| known.function.clone()),
            file,
            line,
            operation: operation.map_or(String::new(), |operation| operation.to_string()),
            verdict,
            tries: 0,
            struck: 0,
            confirmed: 0,
            deferred: false,
            handler: String::new(),
            evidence: String::new(),
            command: String::new(),
        }
    }
}

/// The command that strikes there once more, at a place as a shell takes it; `target` are the flags that say which driver.
pub(super) fn command(
    place: &str,
    nth: u64,
    operation: Operation,
    striking: &Striking,
    target: &str,
) -> String {
    let mut command = format!("warikomi at {place}");
    if operation != Operation::Ping {
        command.push_str(&format!(" --operation '{operation}'"));
    }
    if nth != 1 {
        command.push_str(&format!(" --nth {nth}"));
    }
    if *striking != Striking::Packet {
        command.push_str(&format!(" --deliver '{striking}'"));
    }
    command + target
}
