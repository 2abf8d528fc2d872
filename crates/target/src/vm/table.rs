//! The MSI-X table between client and card (PCI Local Bus Specification 3.0, 6.8.2).
//!
//! A hypervisor keeps the table of its guest's card to itself: QEMU and Cloud Hypervisor do not pass accesses to it on,
//! and say by descriptors which vectors there are (`VFIO_USER_DEVICE_SET_IRQS`). A client without a guest may pass them
//! on. So the card's own table is ours: a vector's message is its number, and it is masked while the client has no
//! descriptor for it, has masked it, or has written so into the table that it sees. The card keeps what comes meanwhile,
//! shows it in its pending bits, and tells it when it may.

use warikomi_nic::Nic;
use warikomi_pci::{Host, MsixLayout, Width};

use super::irqs::Irqs;

/// Bytes of an entry: address, data, vector control (6.8.2.6 to 6.8.2.9).
const ENTRY: usize = 16;
const CONTROL: usize = 12;
/// Where processors take messages, so that the entry is one that a card can send.
const ADDRESS: u32 = 0xfee0_0000;

/// What the client sees of the table, and what the card has of it.
#[derive(Debug)]
pub(super) struct MsixTable {
    layout: MsixLayout,
    seen: Vec<u8>,
    /// Of each vector whether the client has written its control word: one that has never done so does not mean that it
    /// is masked, as it is at first.
    controlled: Vec<bool>,
    /// Of each vector whether the card's own entry is masked; `None` if it is as it was at power-on.
    made: Vec<Option<bool>>,
}

impl MsixTable {
    pub(super) fn new(layout: MsixLayout) -> MsixTable {
        let vectors = usize::from(layout.vectors);
        let mut table = MsixTable {
            layout,
            seen: Vec::new(),
            controlled: Vec::new(),
            made: vec![None; vectors],
        };
        table.reset();
        table
    }

    /// The card has been reset.
    pub(super) fn reset(&mut self) {
        let vectors = usize::from(self.layout.vectors);
        self.seen = vec![0; ENTRY * vectors];
        self.seen.chunks_exact_mut(ENTRY).for_each(|entry| entry[CONTROL] = 1);
        self.controlled = vec![false; vectors];
        self.made = vec![None; vectors];
    }

    /// Where in the table an access begins that is all inside it.
    fn place(&self, bar: u32, offset: u64, width: Width) -> Option<usize> {
        let (table_bar, begin) = self.layout.table;
        let at = usize::try_from(offset.checked_sub(begin.into())?).ok()?;
        let inside = at.checked_add(width.bytes()).is_some_and(|end| end <= self.seen.len());
        (bar == u32::from(table_bar) && inside).then_some(at)
    }

    /// Reads what the client has written, if it is the table that is read.
    pub(super) fn read(&self, bar: u32, offset: u64, width: Width) -> Option<u64> {
        let at = self.place(bar, offset, width)?;
        let mut value = [0; 8];
        value[..width.bytes()].copy_from_slice(&self.seen[at..at + width.bytes()]);
        Some(u64::from_le_bytes(value))
    }

    /// Writes, if it is the table that is written; whether it is.
    pub(super) fn write(&mut self, bar: u32, offset: u64, width: Width, value: u64) -> bool {
        let Some(at) = self.place(bar, offset, width) else { return false };
        self.seen[at..at + width.bytes()].copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
        let last = at + width.bytes() - 1;
        for vector in at / ENTRY..=last / ENTRY {
            let control = ENTRY * vector + CONTROL;
            self.controlled[vector] |= (at..=last).contains(&control);
        }
        true
    }

    fn is_masked(&self, vector: usize, irqs: &Irqs) -> bool {
        let by_table = self.controlled[vector] && self.seen[ENTRY * vector + CONTROL] & 1 != 0;
        by_table || !irqs.is_open(vector as u16)
    }

    /// Brings the card's table up to date. A card that does not answer for its memory keeps it as it is: this is to be
    /// called again when that may have changed.
    pub(super) fn update(&mut self, nic: &mut dyn Nic, host: &mut Host<'_>, masks: &[bool]) {
        let (bar, begin) = self.layout.table;
        for (vector, masked) in masks.iter().copied().enumerate() {
            if self.made[vector].unwrap_or(true) == masked {
                continue;
            }
            let entry = u64::from(begin) + (ENTRY * vector) as u64;
            let words = [ADDRESS, 0, vector as u32, u32::from(masked)];
            for (word, value) in words.into_iter().enumerate() {
                nic.bar_write(host, bar, entry + 4 * word as u64, Width::B4, value.into());
            }
            self.made[vector] = Some(masked);
        }
    }

    /// Of each vector whether it is to be masked.
    pub(super) fn masks(&self, irqs: &Irqs) -> Vec<bool> {
        (0..self.made.len()).map(|vector| self.is_masked(vector, irqs)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_what_it_has_written_and_nothing_beside_the_table() {
        let layout = MsixLayout { vectors: 2, table: (4, 0x1000), pending: (4, 0x1800) };
        let mut table = MsixTable::new(layout);
        assert_eq!(table.read(4, 0x100c, Width::B4), Some(1));
        assert!(table.write(4, 0x1018, Width::B8, 0x1_0000_0007));
        assert_eq!(table.read(4, 0x1018, Width::B4), Some(7));
        assert_eq!((table.controlled[0], table.controlled[1]), (false, true));
        for (bar, offset, width) in [
            (3, 0x1000, Width::B4),
            (4, 0xfff, Width::B4),
            (4, 0x101e, Width::B4),
            (4, 0x1020, Width::B1),
            (4, u64::MAX, Width::B8),
        ] {
            assert!(!table.write(bar, offset, width, 0), "{bar} {offset:#x}");
            assert_eq!(table.read(bar, offset, width), None);
        }
        table.reset();
        assert_eq!(table.read(4, 0x101c, Width::B4), Some(1));
    }
}
