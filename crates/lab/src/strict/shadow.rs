//! Which memory of a guest's kernel is free, as KASAN keeps count of it: a byte says it of eight.

use warikomi_debugger::{Code, Memory};
use warikomi_nic::strict::{FindingKind, Misuse, Transfer};

/// Where the shadow of address 0 is (`CONFIG_KASAN_SHADOW_OFFSET`, arch/um/Kconfig).
const OFFSET: u64 = 0x1000_0000_0000;

/// Bytes of memory for each of the shadow, as a power of two (`KASAN_SHADOW_SCALE_SHIFT`).
const SCALE: u32 = 3;

/// What the shadow has of memory that is free: a page, an object, an object whose links are in use
/// (mm/kasan/kasan.h: `KASAN_PAGE_FREE`, `KASAN_SLAB_FREE`, and `KASAN_SLAB_FREETRACK` or `KASAN_SLAB_FREE_META`).
const FREE: [(u8, &str); 3] = [
    (0xff, "the kernel has freed that page"),
    (0xfb, "the kernel has freed that object"),
    (0xfa, "the kernel has freed that object"),
];

const SOURCE: &str = "Linux Documentation/dev-tools/kasan.rst; mm/kasan/kasan.h";

/// The shadow of a kernel's memory.
#[derive(Debug)]
pub(super) struct Shadow {
    /// The kernel's address of the first byte of memory.
    physical: u64,
}

impl Shadow {
    /// As this kernel has it; `None` if it has none.
    pub(super) fn of(kernel: &Code, memory: &Memory) -> Option<Shadow> {
        let mut ready = [0];
        memory.read(kernel.variable("kasan_um_is_ready")?.address, &mut ready).ok()?;
        let physical = memory.word(kernel.variable("uml_physmem")?.address)?;
        (ready != [0]).then_some(Shadow { physical })
    }

    /// What is wrong with a transfer; `None` if nothing is, or that is not known.
    pub(super) fn objection(&self, memory: &Memory, transfer: Transfer) -> Option<Misuse> {
        let (first, count) = self.place(transfer)?;
        let shadow = memory.bytes(first, count)?;
        let what = shadow.iter().find_map(|byte| FREE.iter().find(|(free, _)| free == byte))?.1;
        Some(Misuse { kind: FindingKind::Freed, what, source: SOURCE })
    }

    /// Where the shadow of a transfer is, and how long.
    fn place(&self, Transfer { address, bytes, .. }: Transfer) -> Option<(u64, usize)> {
        let first = self.physical.checked_add(address)?;
        let last = first.checked_add((bytes as u64).checked_sub(1)?)?;
        let count = (last >> SCALE) - (first >> SCALE) + 1;
        Some(((first >> SCALE) + OFFSET, usize::try_from(count).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_a_transfer_touches_is_looked_at() {
        let shadow = Shadow { physical: 0x6000_0000 };
        let place = |address, bytes| {
            let (first, count) = shadow.place(Transfer { address, bytes, writes: true })?;
            Some((first - OFFSET - (0x6000_0000 >> SCALE), count))
        };
        assert_eq!(place(0, 1), Some((0, 1)));
        assert_eq!(place(7, 2), Some((0, 2)));
        assert_eq!(place(16, 16), Some((2, 2)));
        assert_eq!(place(17, 16), Some((2, 3)));
        assert_eq!(place(0, 0), None);
        assert_eq!(place(u64::MAX, 1), None);
        assert_eq!(place(0, usize::MAX), None);
    }
}
