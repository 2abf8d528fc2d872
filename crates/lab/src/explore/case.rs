//! What is tried, one behind the other.

use std::fmt;

use super::places::Instruction;
use crate::strike::Operation;

/// One place to strike at.
#[derive(Clone, Debug)]
pub(super) enum Case {
    /// An instruction.
    Instruction(Instruction),
    /// An instruction, and behind it another: an interrupt at both.
    Pair(Instruction, Instruction),
    /// One register access of an operation, counted from 1.
    Access(u64, Operation),
}

impl Case {
    /// The place of the first strike.
    pub(super) fn instruction(&self) -> Option<&Instruction> {
        match self {
            Case::Instruction(place) | Case::Pair(place, _) => Some(place),
            Case::Access(..) => None,
        }
    }

    /// The place of the second, as it is written.
    pub(super) fn then(&self) -> String {
        match self {
            Case::Pair(_, then) => then.to_string(),
            _ => String::new(),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Instruction(place) => place.fmt(f),
            Case::Pair(place, then) => write!(f, "{place}, then {then}"),
            Case::Access(nth, operation) => write!(f, "access {nth} of {operation}"),
        }
    }
}
