//! What an ELF file says, with addresses as its code has them in memory.
//!
//! A program says its addresses itself. A kernel's module is an object: each of its sections is put somewhere
//! when it is loaded, and debug information refers to them by relocations, which are carried out here.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use gimli::{EndianRcSlice, LittleEndian};
use object::{
    Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget,
    SectionFlags, SectionIndex, SectionKind, SymbolKind,
};

use crate::function::{CodeError, Function};

/// How debug information is read.
pub(crate) type Reader = EndianRcSlice<LittleEndian>;

/// The code of a section, where it lies in memory.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Text {
    /// Whether this address is in it.
    pub(crate) fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset < self.bytes.len() as u64)
    }
}

/// A place to which its source gives a name (`include/warikomi_here.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The name.
    pub name: String,
    /// Where it is.
    pub address: u64,
}

/// A file with code.
pub(crate) struct Elf {
    pub(crate) texts: Vec<Text>,
    /// Where each section of a module was put, by its name.
    pub(crate) sections: Vec<(String, u64)>,
    /// In the order of their addresses.
    pub(crate) functions: Vec<Function>,
    /// In the order of their addresses.
    pub(crate) marks: Vec<Mark>,
    /// Where variables are. Two of one name cannot be told apart, and are left out.
    pub(crate) variables: BTreeMap<String, Variable>,
    pub(crate) debug: gimli::DwarfSections<Reader>,
    pub(crate) has_debug: bool,
}

/// Where sections lie in memory, by their index.
struct Places(HashMap<SectionIndex, u64>);

impl Elf {
    /// Reads a file; `loaded` says where a section of a module was put.
    pub(crate) fn read(
        path: &Path,
        loaded: &mut dyn FnMut(&str) -> Option<u64>,
    ) -> Result<Elf, CodeError> {
        let wrong = |error: String| CodeError::NoCode { path: path.to_owned(), error };
        let data = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let file = object::File::parse(&*data).map_err(|error| wrong(error.to_string()))?;
        let is_module = file.kind() == ObjectKind::Relocatable;
        let mut places = Places(HashMap::new());
        let (mut texts, mut sections) = (Vec::new(), Vec::new());
        for section in file.sections() {
            let Ok(name) = section.name() else { continue };
            let address = if is_module { loaded(name) } else { Some(section.address()) };
            // A section that was not kept, such as one for the time of loading, has no code any more.
            let Some(address) = address.filter(|_| is_loaded(&section)) else { continue };
            places.0.insert(section.index(), address);
            if is_module {
                sections.push((name.to_owned(), address));
            }
            if section.kind() == SectionKind::Text {
                let bytes = section.data().map_err(|error| wrong(error.to_string()))?.to_vec();
                texts.push(Text { address, bytes });
            }
        }
        let functions = functions(&file, &places, is_module);
        let section = |id: gimli::SectionId| -> Result<Reader, CodeError> {
            let section = file.section_by_name(id.name());
            let bytes = section.map(|section| relocated(&file, &section, &places, is_module));
            Ok(EndianRcSlice::new(bytes.unwrap_or_default().into(), LittleEndian))
        };
        let mut marks = marks(&file, &places, is_module);
        // What was made for the time of loading is gone.
        marks.retain(|mark| texts.iter().any(|text| text.contains(mark.address)));
        let variables = variables(&file, &places, is_module);
        let debug = gimli::DwarfSections::load(section)?;
        let has_debug = file.section_by_name(".debug_info").is_some();
        Ok(Elf { texts, sections, functions, marks, variables, debug, has_debug })
    }
}

/// A variable, as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Where.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
}

fn is_loaded<'data>(section: &impl ObjectSection<'data>) -> bool {
    match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(object::elf::SHF_ALLOC),
        _ => false,
    }
}

fn functions(file: &object::File<'_>, places: &Places, is_module: bool) -> Vec<Function> {
    let mut functions = Vec::new();
    for symbol in file.symbols() {
        let (Ok(name), SymbolKind::Text) = (symbol.name(), symbol.kind()) else { continue };
        let Some(place) = symbol.section_index().and_then(|index| places.0.get(&index)) else {
            continue;
        };
        let address =
            if is_module { place.wrapping_add(symbol.address()) } else { symbol.address() };
        if symbol.size() > 0 {
            functions.push(Function { name: name.to_owned(), address, bytes: symbol.size() });
        }
    }
    functions.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    functions.dedup_by_key(|function| function.address);
    functions
}

/// What stands for the owner of our notes, and their kind.
const NOTE_OWNER: &[u8] = b"Warikomi\0";
const NOTE_PLACE: u32 = 1;

/// The places that the source has given names to: notes in sections of notes, wherever a linker has put them.
fn marks(file: &object::File<'_>, places: &Places, is_module: bool) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Note) {
        let bytes = relocated(file, &section, places, is_module);
        marks.extend(notes(&bytes).into_iter().filter_map(mark));
    }
    marks.sort_by_key(|mark| mark.address);
    marks
}

/// The descriptions of our notes. Whatever makes no sense ends the section.
fn notes(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    loop {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        let (Some(owner), Some(length), Some(kind)) = (word(0), word(4), word(8)) else { break };
        let aligned = |bytes: u32| usize::try_from(bytes).ok()?.checked_next_multiple_of(4);
        let (Some(owner_end), Some(whole)) = (aligned(owner), aligned(length)) else { break };
        let Some((note, rest)) = bytes[12..].split_at_checked(owner_end.saturating_add(whole))
        else {
            break;
        };
        if note.starts_with(NOTE_OWNER) && owner as usize == NOTE_OWNER.len() && kind == NOTE_PLACE
        {
            found.push(&note[owner_end..owner_end + length as usize]);
        }
        bytes = rest;
    }
    found
}

fn mark(description: &[u8]) -> Option<Mark> {
    let (address, name) = description.split_at_checked(8)?;
    let name = std::str::from_utf8(name.split(|byte| *byte == 0).next()?).ok()?;
    let address = u64::from_le_bytes(address.try_into().ok()?);
    Some(Mark { name: name.to_owned(), address })
}

fn variables(
    file: &object::File<'_>,
    places: &Places,
    is_module: bool,
) -> BTreeMap<String, Variable> {
    let variable = |symbol: object::Symbol<'_, '_>| {
        let place = places.0.get(&symbol.section_index()?)?;
        let address =
            if is_module { place.wrapping_add(symbol.address()) } else { symbol.address() };
        Some((symbol.name().ok()?.to_owned(), Variable { address, bytes: symbol.size() }))
    };
    let mut variables: BTreeMap<String, Option<Variable>> = BTreeMap::new();
    let is_one = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Data;
    for (name, variable) in file.symbols().filter(is_one).filter_map(variable) {
        variables.entry(name).and_modify(|known| *known = None).or_insert(Some(variable));
    }
    variables.into_iter().filter_map(|(name, variable)| Some((name, variable?))).collect()
}

/// A section, its relocations carried out.
fn relocated<'data>(
    file: &object::File<'data>,
    section: &object::Section<'data, '_>,
    places: &Places,
    is_module: bool,
) -> Vec<u8> {
    let mut bytes = section.uncompressed_data().unwrap_or_default().into_owned();
    if is_module {
        for (offset, relocation) in section.relocations() {
            let base = match relocation.target() {
                RelocationTarget::Symbol(index) => match file.symbol_by_index(index) {
                    Ok(symbol) => {
                        let section = symbol.section_index();
                        let place = section.and_then(|index| places.0.get(&index));
                        symbol.address().wrapping_add(place.copied().unwrap_or(0))
                    }
                    Err(_) => continue,
                },
                _ => continue,
            };
            if relocation.kind() != RelocationKind::Absolute {
                continue;
            }
            let value = base.wrapping_add_signed(relocation.addend()).to_le_bytes();
            let (from, length) = (offset as usize, usize::from(relocation.size()) / 8);
            if let Some(place) = from.checked_add(length).and_then(|to| bytes.get_mut(from..to)) {
                place.copy_from_slice(&value[..length]);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [owner.len() as u32, description.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        for part in [owner, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn place(address: u64, name: &str) -> Vec<u8> {
        [&address.to_le_bytes()[..], name.as_bytes(), &[0]].concat()
    }

    #[test]
    fn our_notes_are_found_among_others_and_what_makes_no_sense_ends_them() {
        let mut bytes = note(b"GNU\0", 3, &[7; 20]);
        bytes.extend(note(NOTE_OWNER, NOTE_PLACE, &place(0x1234, "acknowledged")));
        bytes.extend(note(NOTE_OWNER, 2, &place(1, "of_a_later_kind")));
        bytes.extend(note(NOTE_OWNER, NOTE_PLACE, &place(0x5678, "b")));
        let marks =
            |bytes: &[u8]| -> Vec<Mark> { notes(bytes).into_iter().filter_map(mark).collect() };
        let mark = |name: &str, address| Mark { name: name.to_owned(), address };
        let both = [mark("acknowledged", 0x1234), mark("b", 0x5678)];
        assert_eq!(marks(&bytes), both);
        for end in 0..bytes.len() {
            assert!(both.starts_with(&marks(&bytes[..end])));
        }
        let huge = [&u32::MAX.to_le_bytes()[..], &u32::MAX.to_le_bytes(), &[1; 8]].concat();
        assert_eq!(marks(&huge), []);
    }
}
