//! Places as people write them, and what they are in a program.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use strsim::levenshtein;

use crate::code::{Code, Program};
use crate::elf::Mark;
use crate::function::Function;

/// A place in code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The beginning of a function, or a number of bytes behind it: `rtl_rx`, `rtl_rx+0x1c`.
    Function {
        /// The name in the source, or the symbol's.
        name: String,
        /// Bytes from its beginning; an instruction must begin there.
        offset: u64,
    },
    /// The first instruction of a line: `r8169_main.c:4542`.
    Line {
        /// The file's name, with as much of its directory as tells it apart.
        file: String,
        /// The line, from 1.
        line: u32,
    },
    /// What the source has given this name: `here:acknowledged`.
    Mark {
        /// The name, an identifier of C.
        name: String,
    },
}

/// What stands before the name that the source has given a place.
const MARK: &str = "here:";

/// Why a text is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParsePlaceError {
    /// Nothing is written.
    #[error(
        "a place is a function (rtl_rx), a function and an offset (rtl_rx+0x1c), a line (r8169_main.c:4542), or a name that \
         the source gives (here:NAME)"
    )]
    Empty,
    /// The number is none.
    #[error("'{0}' is no offset in bytes, such as 28 or 0x1c")]
    Offset(String),
    /// The number is none.
    #[error("'{0}' is no line of a file: lines are numbered from 1")]
    Line(String),
}

impl FromStr for Place {
    type Err = ParsePlaceError;

    fn from_str(text: &str) -> Result<Place, ParsePlaceError> {
        let is_name = |name: &str| {
            let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if let Some(name) = text.strip_prefix(MARK).filter(|name| is_name(name)) {
            return Ok(Place::Mark { name: name.into() });
        }
        if let Some((file, line)) = text.rsplit_once(':') {
            let number = line.parse().ok().filter(|&line| line > 0);
            let line = number.ok_or_else(|| ParsePlaceError::Line(line.into()))?;
            return match file {
                "" => Err(ParsePlaceError::Empty),
                file => Ok(Place::Line { file: file.into(), line }),
            };
        }
        let (name, offset) = match text.split_once('+') {
            Some((name, offset)) => {
                let number = match offset.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).ok(),
                    None => offset.parse().ok(),
                };
                (name, number.ok_or_else(|| ParsePlaceError::Offset(offset.into()))?)
            }
            None => (text, 0),
        };
        match name.is_empty() || name.contains(char::is_whitespace) {
            true => Err(ParsePlaceError::Empty),
            false => Ok(Place::Function { name: name.into(), offset }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Function { name, offset: 0 } => f.write_str(name),
            Place::Function { name, offset } => write!(f, "{name}+{offset:#x}"),
            Place::Line { file, line } => write!(f, "{file}:{line}"),
            Place::Mark { name } => write!(f, "{MARK}{name}"),
        }
    }
}

/// Why a place is none of a program's. Each names what is nearest, if something is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// No function has the name, and none that is inlined.
    #[error("there is no function '{name}'{}", offered(.nearest))]
    NoFunction {
        /// The name.
        name: String,
        /// Names that are like it.
        nearest: Vec<String>,
    },
    /// The function is inlined, and has no beginning of its own to count from.
    #[error("'{name}' is inlined; name the function with its offset, or a line; it is in: {}", within.join(", "))]
    Inlined {
        /// The name.
        name: String,
        /// Where it is, as places.
        within: Vec<String>,
    },
    /// The offset is beyond the end.
    #[error(
        "{name} has {bytes} bytes, so there is nothing at +{offset:#x}; its last instruction is {name}+{last:#x}"
    )]
    Beyond {
        /// The function.
        name: String,
        /// The offset.
        offset: u64,
        /// How long the function is.
        bytes: u64,
        /// Where the last instruction begins.
        last: u64,
    },
    /// No instruction begins there.
    #[error("no instruction begins at {name}+{offset:#x}; the nearest are at {}", nearest.join(" and "))]
    Within {
        /// The function.
        name: String,
        /// The offset.
        offset: u64,
        /// The instructions before and behind.
        nearest: Vec<String>,
    },
    /// No place has the name.
    #[error("the source gives no place the name '{name}'; it gives: {}", there.join(", "))]
    NoMark {
        /// The name.
        name: String,
        /// The names that there are.
        there: Vec<String>,
    },
    /// No place has a name.
    #[error(
        "the driver's source gives no place a name; warikomi_here(NAME) of include/warikomi_here.h does"
    )]
    NoMarks,
    /// Lines are not known.
    #[error(
        "{0} has no debug information, so lines and inlined functions are not known; `warikomi kernel build --debug` makes a kernel that has it"
    )]
    NoDebugInformation(String),
    /// No code of that file.
    #[error("no code was made from a file '{file}'{}", offered(.nearest))]
    NoFile {
        /// The file.
        file: String,
        /// Files that there are.
        nearest: Vec<String>,
    },
    /// The line has no code.
    #[error("no instruction was made from line {line} of {file}{}", offered(.nearest))]
    NoCode {
        /// The file.
        file: String,
        /// The line.
        line: u32,
        /// Lines before and behind that have.
        nearest: Vec<String>,
    },
}

fn offered(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; the nearest: {}", names.join(", ")) }
}

/// Names that are offered for one that is not there.
const MOST_OFFERED: usize = 5;

impl Program {
    /// The addresses of a place: one, or of a line or a name that was copied to several, each.
    pub fn resolve(&self, place: &Place) -> Result<Vec<u64>, PlaceError> {
        match place {
            Place::Function { name, offset } => self.resolve_function(name, *offset),
            Place::Line { file, line } => self.resolve_line(file, *line),
            Place::Mark { name } => {
                let of_name = self.marks()?.into_iter().filter(|mark| mark.name == *name);
                let addresses: Vec<u64> = of_name.map(|mark| mark.address).collect();
                if addresses.is_empty() { Err(self.no_mark(name)) } else { Ok(addresses) }
            }
        }
    }

    /// Every place to which its source gives a name; an error if there is none.
    pub fn marks(&self) -> Result<Vec<Mark>, PlaceError> {
        let marks: Vec<Mark> = self.parts.iter().flat_map(|code| code.marks()).cloned().collect();
        if marks.is_empty() { Err(PlaceError::NoMarks) } else { Ok(marks) }
    }

    fn no_mark(&self, name: &str) -> PlaceError {
        let names: BTreeSet<&str> = self
            .parts
            .iter()
            .flat_map(|code| code.marks())
            .map(|mark| mark.name.as_str())
            .collect();
        let there = names.into_iter().map(str::to_owned).collect();
        PlaceError::NoMark { name: name.into(), there }
    }

    /// The addresses of all instructions that a function of the source was made into, also where it is inlined.
    pub fn instructions_of(&self, name: &str) -> Result<Vec<u64>, PlaceError> {
        let mut addresses = Vec::new();
        for code in &self.parts {
            for function in code.functions() {
                let whole = function.name == name || function.source_name() == name;
                if !whole && !code.has_debug_information() {
                    continue;
                }
                let inside = code.instructions(function);
                let is_of = |address: &u64| {
                    whole || code.locate(*address).inlined.iter().any(|n| n == name)
                };
                addresses.extend(inside.into_iter().filter(is_of));
            }
            if !addresses.is_empty() {
                return Ok(addresses);
            }
        }
        Err(self.no_function(name))
    }

    fn resolve_function(&self, name: &str, offset: u64) -> Result<Vec<u64>, PlaceError> {
        let of = |code: &'_ Code| -> Option<Function> {
            let exact = code.functions().iter().find(|function| function.name == name);
            let source = || code.functions().iter().find(|f| f.source_name() == name);
            exact.or_else(source).cloned()
        };
        let found = self.parts.iter().find_map(|code| Some((code, of(code)?)));
        let Some((code, function)) = found else {
            return Err(match self.instructions_of(name) {
                Ok(inside) => PlaceError::Inlined { name: name.into(), within: self.runs(&inside) },
                Err(error) => error,
            });
        };
        let instructions = code.instructions(&function);
        let address = function.address.saturating_add(offset);
        if instructions.contains(&address) {
            return Ok(vec![address]);
        }
        let at = |address: u64| format!("{}+{:#x}", function.name, address - function.address);
        let behind = instructions.partition_point(|&known| known < address);
        let before = behind.checked_sub(1).and_then(|index| instructions.get(index)).copied();
        Err(match instructions.get(behind) {
            None => PlaceError::Beyond {
                name: function.name.clone(),
                offset,
                bytes: function.bytes,
                last: before.map_or(0, |last| last - function.address),
            },
            Some(&next) => PlaceError::Within {
                name: function.name.clone(),
                offset,
                nearest: before.into_iter().chain([next]).map(at).collect(),
            },
        })
    }

    /// Where runs of instructions that follow each other begin, as places.
    fn runs(&self, addresses: &[u64]) -> Vec<String> {
        const GAP: u64 = 16;
        let mut runs = Vec::new();
        let mut last = None;
        for &address in addresses {
            let follows = last.is_some_and(|last| address - last < GAP);
            if !follows && let Some((name, offset)) = self.locate(address).function {
                runs.push(format!("{name}+{offset:#x}"));
            }
            last = Some(address);
        }
        runs.truncate(MOST_OFFERED);
        runs
    }

    fn no_function(&self, name: &str) -> PlaceError {
        let functions = self.parts.iter().flat_map(|code| code.functions());
        let mut near: Vec<(usize, &str)> = functions
            .map(|function| (levenshtein(name, function.source_name()), function.source_name()))
            .filter(|(distance, _)| *distance <= name.len() / 3)
            .collect();
        near.sort_unstable();
        near.dedup();
        let nearest = near.into_iter().take(MOST_OFFERED).map(|(_, name)| name.into()).collect();
        PlaceError::NoFunction { name: name.into(), nearest }
    }

    fn resolve_line(&self, file: &str, line: u32) -> Result<Vec<u64>, PlaceError> {
        let mut known: Vec<u32> = Vec::new();
        for code in self.parts.iter().filter(|code| code.has_debug_information()) {
            let lines = code.lines_of(file);
            // Of instructions of the line that follow each other, the first.
            let mut addresses: Vec<u64> = Vec::new();
            for run in lines.iter().filter(|run| run.line == line) {
                addresses.push(run.address);
            }
            if !addresses.is_empty() {
                return Ok(addresses);
            }
            known.extend(lines.iter().map(|run| run.line));
        }
        if !known.is_empty() {
            let before = known.iter().filter(|&&l| l < line).max();
            let behind = known.iter().filter(|&&l| l > line).min();
            let nearest =
                before.into_iter().chain(behind).map(|line| format!("{file}:{line}")).collect();
            return Err(PlaceError::NoCode { file: file.into(), line, nearest });
        }
        match self.parts.iter().any(|code| code.has_debug_information()) {
            true => Err(PlaceError::NoFile { file: file.into(), nearest: Vec::new() }),
            false => {
                let name = self.parts.first().map_or("the program", |code| &code.name);
                Err(PlaceError::NoDebugInformation(name.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_written_as_they_are_read() {
        for text in ["rtl_rx", "rtl_rx.cold+0x1c", "r8169_main.c:4542", "a/b.c:1", "here:acked_2"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert_eq!("f+28".parse(), "f+0x1c".parse::<Place>());
        for (text, wanted) in [
            ("", "a place is"),
            ("f+x", "no offset"),
            ("f.c:0", "no line"),
            ("f.c:x", "no line"),
            (":3", "a place is"),
            ("here:a b", "no line"),
        ] {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".{0,40}") {
            if let Ok(place) = text.parse::<Place>() {
                prop_assert_eq!(place.to_string().parse::<Place>(), Ok(place));
            }
        }
    }
}
