//! The places that are explored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use warikomi_debugger::{Mark, Program};

use crate::error::Error;

/// An instruction, as it is called in every target of the same kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Instruction {
    /// The symbol whose code it is in.
    pub(super) symbol: String,
    /// Bytes from its beginning.
    pub(super) offset: u64,
    /// The function of which it is explored.
    pub(super) function: String,
    /// File, with the directory that it is in, and line, where there is debug information. No more of its path: a
    /// shard may have been made where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<(String, u32)>,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.symbol, self.offset)
    }
}

/// The instructions of these functions, also where they are inlined; of none, of the driver's every function.
pub(super) fn instructions(
    program: &Program,
    functions: &[String],
) -> Result<Vec<Instruction>, Error> {
    // An instruction of an inlined function that is asked for is that function's.
    let mut addresses: BTreeMap<u64, &str> = BTreeMap::new();
    for function in functions {
        let inside = program.instructions_of(function)?;
        addresses.extend(inside.into_iter().map(|address| (address, function.as_str())));
    }
    if functions.is_empty()
        && let Some(driver) = program.parts.first()
    {
        for function in driver.functions() {
            let inside = driver.instructions(function);
            addresses.extend(inside.into_iter().map(|address| (address, function.source_name())));
        }
    }
    let all = addresses.into_iter();
    Ok(all.filter_map(|(address, function)| instruction(program, address, function)).collect())
}

/// The first instruction of each line of each function: where the code of a line lies in several pieces, of the first.
pub(super) fn one_a_line(places: &[Instruction]) -> Vec<Instruction> {
    let mut known = BTreeSet::new();
    let mut first = Vec::new();
    for place in places {
        let line = place.line.as_ref().map(|line| (&place.symbol, &place.function, line));
        if line.is_none_or(|line| known.insert(line)) {
            first.push(place.clone());
        }
    }
    first
}

/// The places to which the driver's source gives names; each name counts as a function.
pub(super) fn marked(program: &Program) -> Result<Vec<Instruction>, Error> {
    let marks = program.marks()?.into_iter();
    let named = |mark: Mark| instruction(program, mark.address, &format!("here:{}", mark.name));
    Ok(marks.filter_map(named).collect())
}

fn instruction(program: &Program, address: u64, function: &str) -> Option<Instruction> {
    let location = program.locate(address);
    let function = function.to_owned();
    let line = location.line.map(|(file, line)| (end_of(&file).to_owned(), line));
    let (symbol, offset) = location.function?;
    Some(Instruction { symbol, offset, function, line })
}

/// A file's name and the directory that it is in.
fn end_of(path: &str) -> &str {
    path.rmatch_indices('/').nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

/// Where an instruction is in this target.
pub(super) fn address_of(program: &Program, instruction: &Instruction) -> Option<u64> {
    let functions = program.parts.iter().flat_map(|code| code.functions());
    let mut of_name = functions.filter(|function| function.name == instruction.symbol);
    of_name.next().map(|function| function.address.wrapping_add(instruction.offset))
}

/// Those of these places that the program has, by their addresses there.
pub(super) fn by_address<'a>(
    program: &Program,
    places: impl IntoIterator<Item = &'a Instruction>,
) -> BTreeMap<u64, Instruction> {
    let known = |place: &Instruction| Some((address_of(program, place)?, place.clone()));
    places.into_iter().filter_map(known).collect()
}
