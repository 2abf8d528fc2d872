//! Where in a structure a member is, by debug information.

use gimli::{DebuggingInformationEntry, Dwarf, Unit};

use crate::code::Code;
use crate::elf::Reader;

impl Code {
    /// How many bytes behind the beginning of a structure of C this member of it is; `None` if that is not known.
    pub fn offset_of(&self, structure: &str, member: &str) -> Option<u64> {
        let dwarf = self.types();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            if let Some(offset) = offset_in(dwarf, &unit, structure, member) {
                return Some(offset);
            }
        }
        None
    }
}

fn offset_in(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    structure: &str,
    member: &str,
) -> Option<u64> {
    let is_called = |entry: &DebuggingInformationEntry<Reader>, wanted: &str| {
        let name = entry.attr_value(gimli::DW_AT_name);
        let name = name.and_then(|name| dwarf.attr_string(unit, name).ok());
        name.is_some_and(|name| name.bytes() == wanted.as_bytes())
    };
    let mut entries = unit.entries();
    // How deep the structure lies that is being read.
    let mut inside = None;
    while let Ok(Some(entry)) = entries.next_dfs() {
        let depth = entry.depth();
        inside = inside.filter(|outer| depth > *outer);
        match entry.tag() {
            gimli::DW_TAG_structure_type if inside.is_none() && is_called(entry, structure) => {
                inside = Some(depth);
            }
            gimli::DW_TAG_member
                if inside.is_some_and(|outer| depth == outer + 1) && is_called(entry, member) =>
            {
                return entry.attr(gimli::DW_AT_data_member_location)?.udata_value();
            }
            _ => {}
        }
    }
    None
}
