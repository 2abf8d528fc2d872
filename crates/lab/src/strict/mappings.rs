//! What the drivers of a guest's kernel have mapped for DMA, as the kernel itself keeps count of it.
//!
//! With `CONFIG_DMA_API_DEBUG` Linux has an entry for each mapping (`struct dma_debug_entry`, kernel/dma/debug.c),
//! in a table of lists by bits of its bus address. The guest goes on while we read: entries come and go under us.
//! So a mapping that is found counts, and that there is none counts only after all lists were read to their ends.

use std::ops::RangeInclusive;

use warikomi_debugger::{Code, Memory};
use warikomi_nic::strict::{FindingKind, Misuse, Transfer};

/// Bits of an address that do not choose its list (`HASH_FN_SHIFT`).
const SHIFT: u32 = 13;

/// Lists before that of an address in which its mapping is looked for at first: most mappings are shorter.
const NEAR: u64 = 8;

/// The most lists, and the longest head of one in bytes: what a file says of its kernel may be anything.
const MOST_LISTS: u64 = 1 << 20;
const HEADS: RangeInclusive<u64> = 16..=1_024;

/// The most entries of a list; it has a few, and may be changing.
const MOST_ENTRIES: usize = 1_024;

/// How often a table is read that changes.
const TRIES: usize = 16;

/// `enum dma_data_direction`, include/linux/dma-direction.h.
const TO_DEVICE: u32 = 1;
const FROM_DEVICE: u32 = 2;

const SOURCE: &str = "Linux Documentation/core-api/dma-api.rst, part Id, streaming DMA mappings";

/// The kernel's table of mappings.
#[derive(Debug)]
pub(super) struct Mappings {
    /// `dma_entry_hash`
    table: u64,
    lists: u64,
    list_bytes: u64,
    /// `global_disable`: the kernel has given up, such as for lack of memory.
    given_up: u64,
    /// `dma_debug_entry`: its links, address, size and direction.
    entry: [u64; 4],
}

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    address: u64,
    bytes: u64,
    direction: u32,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    fn has(&self, address: u64) -> bool {
        (self.address..self.end()).contains(&address)
    }

    fn allows(&self, transfer: Transfer) -> bool {
        self.direction != if transfer.writes { TO_DEVICE } else { FROM_DEVICE }
    }
}

/// The list has changed while it was read.
#[derive(Debug)]
struct Changed;

impl Mappings {
    /// As this kernel has them; `None` if it keeps no such count, or debug information does not say where.
    pub(super) fn of(kernel: &Code, memory: &Memory) -> Option<Mappings> {
        let table = kernel.variable("dma_entry_hash")?;
        let list_bytes = kernel.size_of("hash_bucket")?;
        let member = |name| kernel.offset_of("dma_debug_entry", name);
        let mappings = Mappings {
            table: table.address,
            lists: table.bytes.checked_div(list_bytes)?,
            list_bytes,
            given_up: kernel.variable("global_disable")?.address,
            entry: [member("list")?, member("dev_addr")?, member("size")?, member("direction")?],
        };
        (mappings.is_sensible() && mappings.is_as_expected(memory)).then_some(mappings)
    }

    fn is_sensible(&self) -> bool {
        self.lists.is_power_of_two() && self.lists <= MOST_LISTS && HEADS.contains(&self.list_bytes)
    }

    /// Whether each entry is in the list in which we would look for it: kernels may come to do it otherwise. A card
    /// that is up has mapped something.
    fn is_as_expected(&self, memory: &Memory) -> bool {
        let found = (0..TRIES).find_map(|_| self.read(memory, 0..=self.lists - 1).ok());
        found.is_some_and(|found| !found.is_empty())
    }

    /// What is wrong with a transfer; `None` if nothing is, or that is not known.
    pub(super) fn objection(&self, memory: &Memory, transfer: Transfer) -> Option<Misuse> {
        let last = transfer.address >> SHIFT;
        let near = last.saturating_sub(NEAR)..=last;
        let found = near.flat_map(|list| self.read(memory, self.wrapped(list)).unwrap_or_default());
        judge(found, transfer)?;
        for _ in 0..TRIES {
            // Looked at again behind each reading: it may have given up meanwhile.
            let all = self.read(memory, 0..=self.lists - 1);
            let mut given_up = [1];
            memory.read(self.given_up, &mut given_up).ok()?;
            if given_up != [0] {
                return None;
            }
            if let Ok(all) = all {
                return judge(all, transfer);
            }
        }
        None
    }

    fn wrapped(&self, list: u64) -> RangeInclusive<u64> {
        let list = list % self.lists;
        list..=list
    }

    /// The mappings in these lists.
    fn read(&self, memory: &Memory, lists: RangeInclusive<u64>) -> Result<Vec<Mapping>, Changed> {
        let first = self.table.wrapping_add(lists.start() * self.list_bytes);
        let count = lists.end() - lists.start() + 1;
        let heads = memory.bytes(first, (count * self.list_bytes) as usize).ok_or(Changed)?;
        let mut found = Vec::new();
        for (head, list) in heads.chunks_exact(self.list_bytes as usize).zip(lists) {
            let at = self.table.wrapping_add(list * self.list_bytes);
            let next = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
            self.read_list(memory, (at, next), list, &mut found)?;
        }
        Ok(found)
    }

    fn read_list(
        &self,
        memory: &Memory,
        (head, mut at): (u64, u64),
        list: u64,
        found: &mut Vec<Mapping>,
    ) -> Result<(), Changed> {
        let [links, address, bytes, direction] = self.entry;
        for _ in 0..MOST_ENTRIES {
            if at == head {
                return Ok(());
            }
            let entry = at.wrapping_sub(links);
            let word = |offset: u64| memory.word(entry.wrapping_add(offset)).ok_or(Changed);
            let mapping = Mapping {
                address: word(address)?,
                bytes: word(bytes)?,
                direction: word(direction)? as u32,
            };
            // One that was taken out leads to others that are free.
            if (mapping.address >> SHIFT) % self.lists != list {
                return Err(Changed);
            }
            found.push(mapping);
            at = word(links)?;
        }
        Err(Changed)
    }
}

/// What is wrong with a transfer, if this is all that is mapped.
fn judge(mapped: impl IntoIterator<Item = Mapping>, transfer: Transfer) -> Option<Misuse> {
    let end = transfer.address.saturating_add(transfer.bytes as u64);
    let mut what = "the driver has not mapped that";
    for mapping in mapped.into_iter().filter(|mapping| mapping.has(transfer.address)) {
        match (end <= mapping.end(), mapping.allows(transfer)) {
            (true, true) => return None,
            (true, false) => what = "the driver has mapped that for the other direction",
            (false, _) => what = "that reaches behind what the driver has mapped",
        }
    }
    Some(Misuse { kind: FindingKind::NotMapped, what, source: SOURCE })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Mapping = Mapping { address: 0x1000, bytes: 0x1000, direction: 0 };
    const FRAME: Mapping = Mapping { address: 0x3040, bytes: 60, direction: TO_DEVICE };
    const BUFFER: Mapping = Mapping { address: 0x8000, bytes: 0x4000, direction: FROM_DEVICE };

    fn judged(address: u64, bytes: usize, writes: bool) -> Option<&'static str> {
        let transfer = Transfer { address, bytes, writes };
        judge([RING, FRAME, BUFFER], transfer).map(|misuse| misuse.what)
    }

    #[test]
    fn a_transfer_is_within_one_mapping_in_its_direction() {
        for writes in [false, true] {
            assert_eq!(judged(0x1ff0, 16, writes), None);
        }
        assert_eq!(judged(0x3040, 60, false), None);
        assert_eq!(judged(0x8000, 1_514, true), None);
        assert!(judged(0x8000, 1_514, false).unwrap().contains("other direction"));
        assert!(judged(0x3040, 61, false).unwrap().contains("reaches behind"));
        assert!(judged(0x3039, 1, false).unwrap().contains("not mapped"));
        assert!(judged(0x307c, 1, false).unwrap().contains("not mapped"));
        assert!(judged(u64::MAX, usize::MAX, true).unwrap().contains("not mapped"));
    }

    /// The table of a process that has the memory of this one.
    struct Table {
        lists: Vec<[u64; 2]>,
        entries: Vec<[u64; 5]>,
        given_up: Box<u8>,
    }

    impl Table {
        fn of(mapped: &[Mapping]) -> Table {
            let mut table = Table {
                lists: vec![[0; 2]; 16],
                entries: vec![[0; 5]; mapped.len()],
                given_up: Box::new(0),
            };
            for list in &mut table.lists {
                list[0] = list.as_ptr() as u64;
            }
            for (entry, mapping) in table.entries.iter_mut().zip(mapped) {
                let list = &mut table.lists[(mapping.address >> SHIFT) as usize % 16];
                let Mapping { address, bytes, direction } = *mapping;
                *entry = [address, list[0], 0, bytes, u64::from(direction)];
                list[0] = entry[1..].as_ptr() as u64;
            }
            table
        }

        fn mappings(&self) -> (Mappings, Memory) {
            let mappings = Mappings {
                table: self.lists.as_ptr() as u64,
                lists: 16,
                list_bytes: 16,
                given_up: &raw const *self.given_up as u64,
                entry: [8, 0, 24, 32],
            };
            (mappings, Memory::open(std::process::id()).unwrap())
        }
    }

    fn transfer(address: u64) -> Transfer {
        Transfer { address, bytes: 16, writes: true }
    }

    #[test]
    fn a_mapping_is_found_wherever_it_begins() {
        let long = Mapping { address: 0x10_0000, bytes: 0x8_0000, direction: 0 };
        let table = Table::of(&[RING, BUFFER, long]);
        let (mappings, memory) = table.mappings();
        assert!(mappings.is_as_expected(&memory));
        for address in [0x1000, 0xb000, 0x10_0000, 0x17_0000] {
            assert_eq!(mappings.objection(&memory, transfer(address)), None, "{address:#x}");
        }
        for address in [0, 0x2000, 0xc000, 0x18_0000, u64::MAX] {
            assert!(mappings.objection(&memory, transfer(address)).is_some(), "{address:#x}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_table_that_is_not_understood() {
        let mut table = Table::of(&[RING]);
        *table.given_up = 1;
        let (mappings, memory) = table.mappings();
        assert_eq!(mappings.objection(&memory, transfer(0x4000)), None, "given up");

        let mut table = Table::of(&[RING, BUFFER]);
        table.entries[1][0] = 0x1000;
        let (mappings, memory) = table.mappings();
        assert_eq!(mappings.objection(&memory, transfer(0x8000)), None, "in another list");
        assert!(!mappings.is_as_expected(&memory));

        let mut table = Table::of(&[RING]);
        table.entries[0][1] = table.entries[0][1..].as_ptr() as u64;
        let (mappings, memory) = table.mappings();
        assert_eq!(mappings.objection(&memory, transfer(0x4000)), None, "in a circle");

        let table = Table::of(&[]);
        let (mut mappings, memory) = table.mappings();
        for (lists, list_bytes) in
            [(0, 16), (15, 16), (1 << 40, 16), (16, 0), (16, 8), (16, 1 << 40)]
        {
            mappings = Mappings { lists, list_bytes, ..mappings };
            assert!(!mappings.is_sensible(), "{lists} lists of {list_bytes} bytes");
        }
        mappings = Mappings { lists: 16, list_bytes: 16, ..mappings };
        assert!(mappings.is_sensible());
        assert!(!mappings.is_as_expected(&memory), "a card that is up has mapped something");
    }
}
