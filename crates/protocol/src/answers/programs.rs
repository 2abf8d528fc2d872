//! Answers about programs of the host that run in the guest.

use serde::{Deserialize, Serialize};

/// What a program has said, and whether it has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSaid {
    /// The next part of its output, at most [`PROGRAM_PART_BYTES`]; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// How it ended; absent while it runs, or while there is more of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ProgramEnd>,
}

/// Bytes of a program's output that one answer has at most, before they are made text.
pub const PROGRAM_PART_BYTES: usize = 16 * 1024;

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEnd {
    /// What it returned; absent if a signal ended it.
    pub code: Option<i32>,
    /// It was killed because its time was over.
    pub timed_out: bool,
    /// Bytes of its output that were not kept.
    pub dropped_bytes: u64,
    /// From its start to its end by the guest's clock, in milliseconds.
    pub took_ms: u64,
}
