//! How long a structure is, and where in it a member, by debug information.

use gimli::{DebuggingInformationEntry, Dwarf, Unit};

use crate::code::Code;
use crate::elf::Reader;

impl Code {
    /// How many bytes behind the beginning of a structure of C this member of it is; `None` if that is not known.
    pub fn offset_of(&self, structure: &str, member: &str) -> Option<u64> {
        self.in_units(|dwarf, unit| offset_in(dwarf, unit, structure, member))
    }

    /// How long a structure of C is, in bytes; `None` if that is not known.
    pub fn size_of(&self, structure: &str) -> Option<u64> {
        self.in_units(|dwarf, unit| size_in(dwarf, unit, structure))
    }

    /// The first answer of its compilation units.
    fn in_units<T>(
        &self,
        answer: impl Fn(&Dwarf<Reader>, &Unit<Reader>) -> Option<T>,
    ) -> Option<T> {
        let dwarf = self.types();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            if let Some(found) = answer(dwarf, &unit) {
                return Some(found);
            }
        }
        None
    }
}

fn is_called(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    entry: &DebuggingInformationEntry<Reader>,
    wanted: &str,
) -> bool {
    let name = entry.attr_value(gimli::DW_AT_name);
    let name = name.and_then(|name| dwarf.attr_string(unit, name).ok());
    name.is_some_and(|name| name.bytes() == wanted.as_bytes())
}

fn size_in(dwarf: &Dwarf<Reader>, unit: &Unit<Reader>, structure: &str) -> Option<u64> {
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        // A declaration has no size.
        if entry.tag() == gimli::DW_TAG_structure_type
            && is_called(dwarf, unit, entry, structure)
            && let Some(size) = entry.attr(gimli::DW_AT_byte_size)
        {
            return size.udata_value();
        }
    }
    None
}

fn offset_in(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    structure: &str,
    member: &str,
) -> Option<u64> {
    let is_called = |entry: &_, wanted| is_called(dwarf, unit, entry, wanted);
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
