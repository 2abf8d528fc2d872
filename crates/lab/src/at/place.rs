//! Places at which can be struck: in code, and at register accesses.

use std::fmt;
use std::str::FromStr;

use warikomi_debugger::{ParsePlaceError, Place};
use warikomi_nic::ModelInfo;

use crate::error::Error;
use crate::strike::{Scene, Where};

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

/// Where a place is in this target: code that was copied is at several addresses.
pub(crate) fn resolve(scene: &mut Scene, place: &StrikePlace) -> Result<Vec<Where>, Error> {
    match place {
        StrikePlace::Code(place) => {
            let addresses = scene.program.resolve(place)?;
            Ok(addresses.into_iter().map(Where::Code).collect())
        }
        StrikePlace::AnyAccess => Ok(vec![Where::AnyAccess]),
        StrikePlace::Register { write, register } => {
            let (nic, _) = scene.session.target.card(warikomi_target::CardId::FIRST)?;
            let (bar, offset) = register_named(nic.info(), register)?;
            Ok(vec![Where::Register { bar, offset, write: *write }])
        }
    }
}

fn register_named(model: &ModelInfo, name: &str) -> Result<(u8, u64), Error> {
    let digits = name.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    if let Some(Ok(offset)) = digits {
        return Ok((model.register_bar, offset));
    }
    let mut registers = model.registers.iter();
    let found = registers.find(|register| register.name.eq_ignore_ascii_case(name));
    found.map(|register| (register.bar, register.offset.into())).ok_or_else(|| {
        let names: Vec<_> = model.registers.iter().map(|register| register.name).collect();
        Error::Impossible(format!(
            "{} has no register '{name}'; give an offset such as 0x3e, or one of: {}",
            model.name,
            names.join(", ")
        ))
    })
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

    #[test]
    fn a_register_is_found_by_name_and_by_offset() {
        let model = warikomi_nic::MODELS[0];
        let known = &model.registers[3];
        let place = (known.bar, u64::from(known.offset));
        assert_eq!(register_named(model, known.name).unwrap(), place);
        assert_eq!(register_named(model, "0x3e").unwrap(), (model.register_bar, 0x3e));
        let error = register_named(model, "Nothing").unwrap_err().to_string();
        assert!(error.contains(known.name), "{error}");
    }
}
