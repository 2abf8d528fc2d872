//! Descriptors that are read before their frames come.

use warikomi_pci::Descriptor;

use crate::NicContext;

/// Bytes of a unit that descriptors consist of.
const UNIT: u64 = 16;
/// What a cache keeps and fetches in one.
const LINE_BYTES: u64 = 64;
/// As many lines of a buffer are asked for as are without a wait on the processors that this was measured on.
const MOST_BYTES: usize = 24 * LINE_BYTES as usize;

/// The most descriptors that are read as one row.
pub(super) const ROW: usize = 32;

/// Units of descriptors that were read at the beginning of a burst, in the order in which frames go there.
#[derive(Debug, Default)]
pub(super) struct Fetched<P> {
    units: Vec<Descriptor>,
    /// How many of them are taken.
    taken: usize,
    /// The place of the descriptor that the others begin with.
    place: P,
}

impl<P: Copy + PartialEq> Fetched<P> {
    pub(super) fn clear(&mut self) {
        self.units.clear();
        self.taken = 0;
    }

    /// Begins anew, with the descriptor at this place.
    pub(super) fn begin(&mut self, place: P) {
        self.clear();
        self.place = place;
    }

    /// Reads units that lie one behind the other; where the first is among all.
    pub(super) fn read(&mut self, cx: &NicContext<'_>, address: u64, count: usize) -> usize {
        let first = self.units.len();
        self.units.resize(first + count, Descriptor::default());
        let read = cx.peek_descriptors(address, &mut self.units[first..]);
        self.units.truncate(first + read);
        first
    }

    /// Keeps the first `count` units: the others do not belong to the card.
    pub(super) fn keep(&mut self, count: usize) {
        self.units.truncate(count);
    }

    /// The units from here on of a descriptor that has `each` of them.
    #[inline]
    pub(super) fn at(&self, first: usize, each: usize) -> Option<[[u32; 4]; 2]> {
        let units = self.units.get(first..first + each)?;
        let words = |index: usize| units.get(index).copied().unwrap_or_default().words();
        Some([words(0), words(1)])
    }

    /// The units of the next descriptor, if that is this one. If not, nothing of what was read counts any more.
    #[inline]
    pub(super) fn take(&mut self, place: P, each: usize) -> Option<[[u32; 4]; 2]> {
        if self.taken >= self.units.len() {
            return None;
        }
        if self.place != place {
            self.clear();
            return None;
        }
        let units = self.at(self.taken, each);
        self.taken += each;
        units
    }

    /// The descriptor behind the one that was taken.
    #[inline]
    pub(super) fn behind(&mut self, next: P) {
        self.place = next;
    }
}

/// Where a row of frames will be written.
pub(super) struct Expected {
    lines: [u64; ROW],
    line_count: usize,
    buffers: [u64; ROW],
    buffer_count: usize,
}

impl Expected {
    pub(super) fn new() -> Expected {
        Expected { lines: [0; ROW], line_count: 0, buffers: [0; ROW], buffer_count: 0 }
    }

    /// A frame goes to this descriptor and this buffer.
    #[inline]
    pub(super) fn push(&mut self, descriptor: u64, buffer: u64) {
        // Several descriptors are in one line.
        let line = descriptor - descriptor % LINE_BYTES;
        let before = self.line_count.checked_sub(1).and_then(|last| self.lines.get(last));
        if before != Some(&line)
            && let Some(place) = self.lines.get_mut(self.line_count)
        {
            *place = line;
            self.line_count += 1;
        }
        if let Some(place) = self.buffers.get_mut(self.buffer_count) {
            *place = buffer;
            self.buffer_count += 1;
        }
    }

    /// Asks for the lines of the descriptors, and for the first ones of the buffers, of which `bytes` bytes are written.
    pub(super) fn ask(&self, cx: &NicContext<'_>, bytes: usize) {
        cx.expect_writes(&self.lines[..self.line_count], 1);
        cx.expect_writes(&self.buffers[..self.buffer_count], bytes.min(MOST_BYTES));
    }
}

/// How far behind the first descriptor of a row the one of this number is.
#[inline]
pub(super) fn offset(number: usize, each: usize) -> u64 {
    UNIT * (number * each) as u64
}
