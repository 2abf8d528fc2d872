//! Conditions under which it is struck: what a register of the card holds, whether its mask is open, and what the
//! driver's NAPI does.

use std::fmt;
use std::str::FromStr;

use warikomi_debugger::Tracee;
use warikomi_nic::register::Role;
use warikomi_nic::{ModelInfo, Nic};
use warikomi_pci::Host;
use warikomi_session::Prepared;

use super::code::driver_code;
use super::napi::{Layout, NapiState};
use super::registers::row_named;
use crate::error::Error;

/// A condition as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Of a register these bits have this value; without a value, at least one of them is set.
    Register { name: String, bits: Option<u64>, is: Option<u64> },
    /// Whether the interrupt mask lets anything through.
    Mask { open: bool },
    /// What NAPI does.
    Napi(NapiState),
}

/// What conditions there are, for errors and help.
const FORMS: &str = "IntrMask=0 (a register's value, by its name in the model or its offset), \
     'IntrStatus&0x1' (at least one of these bits is set), 'IntrStatus&0x5=0x1' (these bits have this value), mask=open, \
     mask=shut, napi=scheduled, napi=idle, napi=disabled";

/// Every condition, for help.
pub(crate) fn condition_help() -> String {
    format!(
        "Only where this holds; of several, all of them. --nth counts the times that it does. There are: {FORMS}.\n\n\
         Registers are read from the model, not by an access. What NAPI does is read from the guest's memory: \
         scheduled from when a poll was asked for until it has completed, disabled while the driver has it so."
    )
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = || format!("'{text}' is no condition; there are: {FORMS}");
        let number = |digits: &str| {
            let digits = digits.trim();
            let read = match digits.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            read.map_err(|_| format!("'{digits}' in '{text}' is no number, such as 4 or 0x4"))
        };
        let (left, value) = match text.split_once('=') {
            Some((left, value)) => (left.trim(), Some(value.trim())),
            None => (text.trim(), None),
        };
        match (left, value) {
            ("mask", Some("open")) => return Ok(Condition::Mask { open: true }),
            ("mask", Some("shut")) => return Ok(Condition::Mask { open: false }),
            ("mask", _) => return Err(wrong()),
            ("napi", value) => {
                let state = value.and_then(NapiState::named).ok_or_else(wrong)?;
                return Ok(Condition::Napi(state));
            }
            _ => {}
        }
        let (name, bits) = match left.split_once('&') {
            Some((name, bits)) => (name.trim(), Some(number(bits)?)),
            None => (left, None),
        };
        let is = value.map(number).transpose()?;
        if name.is_empty() || name.contains(char::is_whitespace) || (bits.is_none() && is.is_none())
        {
            return Err(wrong());
        }
        Ok(Condition::Register { name: name.to_owned(), bits, is })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Mask { open } => write!(f, "mask={}", if *open { "open" } else { "shut" }),
            Condition::Napi(state) => write!(f, "napi={}", state.name()),
            Condition::Register { name, bits, is } => {
                f.write_str(name)?;
                bits.map_or(Ok(()), |bits| write!(f, "&{bits:#x}"))?;
                is.map_or(Ok(()), |is| write!(f, "={is:#x}"))
            }
        }
    }
}

/// A condition of a model and a kernel that can be checked.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    Register { bar: u8, offset: u64, bits: u64, is: Option<u64> },
    Mask { registers: Vec<(u8, u64)>, open: bool },
    Napi { state: NapiState, layout: Layout },
}

/// What these conditions are of a target that is not up yet; an error says what is wrong with one, and what there is.
pub(crate) fn checks(conditions: &[Condition], prepared: &Prepared) -> Result<Vec<Check>, Error> {
    let Some(options) = prepared.kernel() else { return Ok(Vec::new()) };
    let mut models = warikomi_nic::MODELS.iter();
    let model = models.find(|model| model.name == options.nic.model).copied();
    let model =
        model.ok_or_else(|| Error::impossible("the registers of this card are not known"))?;
    let check = |condition: &Condition| match condition {
        Condition::Register { name, bits, is } => {
            register_check(model, condition, name, *bits, *is)
        }
        Condition::Mask { open } => mask_check(model, *open),
        Condition::Napi(state) => {
            let layout = driver_code(options).and_then(|(_, code)| Layout::of(&code));
            let layout = layout.ok_or_else(|| {
                let driver = &options.driver;
                Error::Impossible(format!(
                    "--if {condition}: where NAPI keeps its state is known from debug information, and {driver} has \
                     none of it; `warikomi kernel build --debug` makes a kernel that has it"
                ))
            })?;
            Ok(Check::Napi { state: *state, layout })
        }
    };
    conditions.iter().map(check).collect()
}

fn register_check(
    model: &ModelInfo,
    condition: &Condition,
    name: &str,
    bits: Option<u64>,
    is: Option<u64>,
) -> Result<Check, Error> {
    let row = row_named(model, name)?;
    if !row.access.is_looked_at() {
        let why = "it cannot be read without changing the card";
        return Err(Error::Impossible(format!(
            "--if {condition}: {} of {}: {why}",
            row.name, model.name
        )));
    }
    let all = u64::MAX >> (64 - 8 * u32::from(row.width.clamp(1, 8)));
    let bits_of_it = bits.unwrap_or(all);
    let never = bits_of_it & !all != 0 || bits_of_it == 0 || is.unwrap_or(0) & !bits_of_it != 0;
    if never {
        return Err(Error::Impossible(format!(
            "--if {condition} never holds: {} of {} has {} bits",
            row.name,
            model.name,
            8 * row.width
        )));
    }
    Ok(Check::Register { bar: row.bar, offset: row.offset.into(), bits: bits_of_it, is })
}

fn mask_check(model: &ModelInfo, open: bool) -> Result<Check, Error> {
    let masks = model.registers.iter().filter(|row| matches!(row.role, Role::Mask(_)));
    let registers: Vec<_> = masks.map(|row| (row.bar, row.offset.into())).collect();
    match registers.is_empty() {
        true => Err(Error::Impossible(format!("{} has no interrupt mask", model.name))),
        false => Ok(Check::Mask { registers, open }),
    }
}

impl Check {
    /// Whether the condition holds now. `device` is the kernel's network device, for those that are about it.
    pub(super) fn holds(
        &self,
        nic: &mut dyn Nic,
        host: &mut Host<'_>,
        tracee: &Tracee,
        device: Option<u64>,
    ) -> bool {
        match self {
            Check::Register { bar, offset, bits, is } => {
                let value = nic.register(host, *bar, *offset);
                let value = value.map(|value| value & bits);
                value.is_some_and(|value| is.map_or(value != 0, |is| value == is))
            }
            Check::Mask { registers, open } => {
                let mut masks = registers.iter();
                let is_open =
                    masks.any(|(bar, offset)| nic.register(host, *bar, *offset) != Some(0));
                is_open == *open
            }
            Check::Napi { state, layout } => device.is_some_and(|device| {
                layout.state(&|address| tracee.word(address), device) == Some(*state)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Check, Error> {
        let model = *warikomi_nic::MODELS.iter().find(|model| model.name == "rtl8168").unwrap();
        let condition: Condition = text.parse().unwrap();
        match &condition {
            Condition::Register { name, bits, is } => {
                register_check(model, &condition, name, *bits, *is)
            }
            Condition::Mask { open } => mask_check(model, *open),
            Condition::Napi(_) => unreachable!("it needs a kernel"),
        }
    }

    #[test]
    fn conditions_are_read_as_they_are_written() {
        for text in ["IntrMask=0x0", "IntrStatus&0x1", "0x3e&0x5=0x1", "mask=open", "mask=shut"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        for text in ["napi=scheduled", "napi=idle", "napi=disabled"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        assert_eq!("IntrMask = 16".parse(), "IntrMask=0x10".parse::<Condition>());
        for text in ["", "IntrMask", "mask", "mask=half", "napi=on", "=3", "a b=1", "&1"] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains("napi=idle"), "{text}: {error}");
        }
        assert!("IntrMask=x".parse::<Condition>().unwrap_err().contains("no number"));
    }

    #[test]
    fn what_is_no_register_or_never_holds_is_refused() {
        for (text, says) in [
            ("Nothing=1", "IntrStatus"),
            ("0x3f=1", "IntrStatus"),
            ("IntrMask=0x10000", "has 16 bits"),
            ("IntrMask&0x10000", "has 16 bits"),
            ("IntrMask&0x1=0x2", "never holds"),
            ("IntrMask&0", "never holds"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(check("IntrMask=0xffff").is_ok());
        assert!(
            matches!(check("mask=open"), Ok(Check::Mask { registers, open: true }) if registers.len() == 1)
        );
    }
}
