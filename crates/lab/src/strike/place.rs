//! Places at which can be struck: in code, and at register accesses.

use std::fmt;
use std::str::FromStr;

use warikomi_debugger::{ParsePlaceError, Place, Program};
use warikomi_target::{CardId, Target};

use super::registers::register_named;
use super::striker::Where;
use crate::error::Error;

/// How a place is written that is each register access; with `--nth` it is one.
const ANY_ACCESS: &str = "any access";

/// A place as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StrikePlace {
    /// In code.
    Code(Place),
    /// An access of a register, by its name in the model or its offset.
    Register { write: bool, register: String },
    /// Any register access.
    AnyAccess,
}

impl FromStr for StrikePlace {
    type Err = ParsePlaceError;

    fn from_str(text: &str) -> Result<StrikePlace, ParsePlaceError> {
        let text = text.trim();
        if text == ANY_ACCESS {
            return Ok(StrikePlace::AnyAccess);
        }
        for (word, write) in [("read ", false), ("write ", true)] {
            if let Some(register) = text.strip_prefix(word).map(str::trim)
                && !register.is_empty()
            {
                return Ok(StrikePlace::Register { write, register: register.to_owned() });
            }
        }
        text.parse().map(StrikePlace::Code)
    }
}

impl fmt::Display for StrikePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrikePlace::Code(place) => place.fmt(f),
            StrikePlace::AnyAccess => f.write_str(ANY_ACCESS),
            StrikePlace::Register { write: false, register } => write!(f, "read {register}"),
            StrikePlace::Register { write: true, register } => write!(f, "write {register}"),
        }
    }
}

/// Where a place is in this target.
pub(crate) fn resolve(
    program: &Program,
    target: &mut dyn Target,
    place: &StrikePlace,
) -> Result<Where, Error> {
    match place {
        StrikePlace::Code(place) => {
            let mut addresses = program.resolve(place)?;
            // Of a line that begins several times, the first; a name stands for each place that has it.
            if matches!(place, Place::Line { .. }) {
                addresses.truncate(1);
            }
            Ok(Where::Code(addresses))
        }
        StrikePlace::AnyAccess => Ok(Where::AnyAccess),
        StrikePlace::Register { write, register } => {
            let (nic, _) = target.card(CardId::FIRST)?;
            let (bar, offset) = register_named(nic.info(), register)?;
            Ok(Where::Register { bar, offset, write: *write })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in [
            "rtl_rx",
            "rtl_rx+0x1c",
            "r8169_main.c:4542",
            "here:acknowledged",
            "read IntrStatus",
            "write 0x3e",
            "any access",
        ] {
            assert_eq!(text.parse::<StrikePlace>().unwrap().to_string(), text);
        }
        for text in ["", "rtl rx", "a.c:0", "rtl_rx+x"] {
            assert!(text.parse::<StrikePlace>().is_err(), "{text}");
        }
    }
}
