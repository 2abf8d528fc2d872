//! What an ELF file says, with addresses as its code has them in memory.
//!
//! A program says its addresses itself. A kernel's module is an object: each of its sections is put somewhere
//! when it is loaded, and debug information refers to them by relocations, which are carried out here.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

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

/// A file with code.
pub(crate) struct Elf {
    pub(crate) texts: Vec<Text>,
    /// In the order of their addresses.
    pub(crate) functions: Vec<Function>,
    pub(crate) debug: gimli::Dwarf<Reader>,
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
        let mut texts = Vec::new();
        for section in file.sections() {
            let Ok(name) = section.name() else { continue };
            let address = if is_module { loaded(name) } else { Some(section.address()) };
            // A section that was not kept, such as one for the time of loading, has no code any more.
            let Some(address) = address.filter(|_| is_loaded(&section)) else { continue };
            places.0.insert(section.index(), address);
            if section.kind() == SectionKind::Text {
                let bytes = section.data().map_err(|error| wrong(error.to_string()))?.to_vec();
                texts.push(Text { address, bytes });
            }
        }
        let functions = functions(&file, &places, is_module);
        let section = |id: gimli::SectionId| -> Result<Reader, CodeError> {
            let bytes = debug_section(&file, id.name(), &places, is_module);
            Ok(EndianRcSlice::new(bytes, LittleEndian))
        };
        let debug = gimli::Dwarf::load(section)?;
        let has_debug = file.section_by_name(".debug_info").is_some();
        Ok(Elf { texts, functions, debug, has_debug })
    }
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

/// A section of debug information, its relocations carried out. One that is not there is empty.
fn debug_section(
    file: &object::File<'_>,
    name: &str,
    places: &Places,
    is_module: bool,
) -> Rc<[u8]> {
    let Some(section) = file.section_by_name(name) else { return Rc::default() };
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
    bytes.into()
}
