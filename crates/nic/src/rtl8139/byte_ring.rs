//! The receive buffer of the C mode: a ring of bytes.
//!
//! Each frame stands behind a word with its status and its length, at a multiple of four. The chip writes behind
//! what it has written (CBR), and the driver says how far it has read (CAPR); what is in between is the driver's. A
//! frame that comes to the end of the ring goes on at its begin, or, if the driver wants that (RxConfig, WRAP),
//! behind the end, where there must be room for it; the next one is where it would be in either case.
//!
//! Places are counted in bytes from where reception started, so that they tell laps apart.

use warikomi_pci::{DmaError, Pieces};

use super::regs;
use crate::queue::{Completion, RxDescriptor, RxFormat};
use crate::strict::Look;
use crate::{FCS_BYTES, NicContext};

/// The status and the length, before each frame.
const HEADER: usize = 4;
const ALIGNMENT: usize = 4;
/// Length of the smallest ring; RxConfig doubles it up to three times.
const LEAST_BYTES: u64 = 8 << 10;
const LONGEST_BYTES: u64 = LEAST_BYTES << 3;
/// The shortest frame that comes in: its header.
const SHORTEST_FRAME: usize = 14;
/// What the length says while a frame is still being written (Linux 6.1 8139too.c, rtl8139_rx).
const UNFINISHED: u32 = 0xfff0 << 16;

/// Bytes that a frame of this length, check sequence included, takes up.
#[inline]
const fn occupied(bytes: usize) -> u64 {
    (HEADER + bytes).next_multiple_of(ALIGNMENT) as u64
}

/// The ring, as the chip knows it.
#[derive(Debug)]
pub(super) struct ByteRing {
    base: u32,
    bytes: u64,
    /// A frame that comes to the end goes on at the begin.
    wraps: bool,
    /// The place up to which the driver has read.
    read: u64,
}

impl ByteRing {
    pub(super) fn new() -> ByteRing {
        ByteRing { base: 0, bytes: LEAST_BYTES, wraps: true, read: 0 }
    }

    /// Whether RBSTART and RxConfig name this ring.
    pub(super) fn is_at(&self, base: u32, config: u32) -> bool {
        (self.base, self.bytes) == (base, ring_bytes(config))
    }

    /// RBSTART and RxConfig name another ring, which is empty. The queue begins anew.
    pub(super) fn set(&mut self, base: u32, config: u32) {
        (self.base, self.bytes, self.read) = (base, ring_bytes(config), 0);
    }

    /// What RxConfig says of the end of the ring. One of 64 KB always wraps (RTL8139C Rev. 1.4, section 5.8).
    pub(super) fn set_wrapping(&mut self, config: u32) {
        self.wraps = config & regs::RX_NO_WRAP == 0 || self.bytes == LONGEST_BYTES;
    }

    /// Nothing is on it.
    pub(super) fn restart(&mut self) {
        self.read = 0;
    }

    /// The driver has read up to this CAPR; the chip has written up to `head`. Whether it has gone on, and not
    /// back or beyond what was written.
    pub(super) fn set_read(&mut self, capr: u16, head: u64) -> bool {
        let read = u64::from(capr.wrapping_add(regs::READ_BEHIND));
        // Only the distance is known to the chip.
        let before = self.filled(head);
        let filled = head.wrapping_sub(read) % self.bytes;
        self.read = head.wrapping_sub(filled);
        filled <= before
    }

    /// Bytes that the driver has not read.
    #[inline]
    pub(super) fn filled(&self, head: u64) -> u64 {
        head.wrapping_sub(self.read)
    }

    /// CBR: where the chip writes next.
    pub(super) fn written(&self, head: u64) -> u16 {
        (head % self.bytes) as u16
    }

    #[inline]
    fn byte(&self, offset: u64) -> u64 {
        u64::from(self.base) + offset
    }

    /// The place behind a frame of this length, check sequence included, if it has room. The ring is never quite
    /// full: it would look empty.
    #[inline]
    fn behind(&self, place: u64, bytes: usize) -> Option<u64> {
        let takes = occupied(bytes);
        let fits = self.base != 0 && self.filled(place) + takes < self.bytes;
        fits.then(|| place.wrapping_add(takes))
    }

    /// Writes what comes to the end of the ring and goes on at its begin.
    #[cold]
    fn write_around(
        &self,
        cx: &mut NicContext<'_>,
        mut offset: u64,
        pieces: &Pieces<'_>,
    ) -> Result<(), DmaError> {
        pieces.try_each(|mut rest| {
            while !rest.is_empty() {
                offset = if offset >= self.bytes { 0 } else { offset };
                let (here, behind) = rest.split_at(rest.len().min((self.bytes - offset) as usize));
                cx.dma_write(self.byte(offset), here)?;
                (offset, rest) = (offset + here.len() as u64, behind);
            }
            Ok(())
        })
    }
}

/// The length that RxConfig gives the ring.
fn ring_bytes(config: u32) -> u64 {
    LEAST_BYTES << (config >> regs::RX_LENGTH_SHIFT & 3)
}

impl RxFormat for ByteRing {
    type Place = u64;
    type Words = ();
    /// The lower half of the header.
    type Status = u16;

    const SOURCE: &'static str = "RTL8139C Rev. 1.4, sections 5.1 and 5.8";
    const DESCRIPTORS: usize = (LONGEST_BYTES / occupied(SHORTEST_FRAME + FCS_BYTES)) as usize;
    const CHAINS: bool = false;

    #[inline]
    fn at(&self, place: u64) -> u64 {
        self.byte(place % self.bytes)
    }

    fn units(&self) -> usize {
        0
    }

    #[inline]
    fn descriptor(
        &self,
        place: u64,
        bytes: usize,
        _units: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<u64, ()>> {
        let buffer = self.at(place) + HEADER as u64;
        let next = self.behind(place, bytes)?;
        Some(RxDescriptor { place, next, buffer, bytes, words: () })
    }

    #[inline]
    fn write(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u64, ()>,
        pieces: &Pieces<'_>,
    ) -> Result<(), DmaError> {
        let offset = found.place % self.bytes + HEADER as u64;
        if self.wraps && offset + found.bytes as u64 > self.bytes {
            return self.write_around(cx, offset, pieces);
        }
        cx.dma_write_pieces(found.buffer, pieces)
    }

    fn withhold(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u64, ()>,
    ) -> Result<(), DmaError> {
        cx.dma_store_u32(self.at(found.place), UNFINISHED)
    }

    #[inline]
    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        found: &RxDescriptor<u64, ()>,
        completion: Completion,
        status: u16,
    ) -> Result<(), DmaError> {
        let header = (completion.frame_bytes as u32) << 16 | u32::from(status);
        cx.dma_store_u32(self.at(found.place), header)
    }

    fn is_taken(&self, _cx: &NicContext<'_>, place: u64) -> bool {
        self.read.wrapping_sub(place) as i64 > 0
    }

    /// There is nothing for a driver to change or to give twice.
    fn look(&self, _cx: &NicContext<'_>, _place: u64) -> Option<Look<u64>> {
        None
    }

    fn is_set(&self) -> bool {
        self.base != 0
    }

    #[inline]
    fn is_reused(_earlier: u64, _place: u64) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_reads_up_to_what_was_written_and_no_further() {
        let mut ring = ByteRing::new();
        ring.set(0x1000, 0);
        assert_eq!((ring.filled(0), ring.written(0)), (0, 0));
        assert!(ring.set_read(0xfff0, 0), "as at power-on");
        // Two frames of 68 bytes, and one lap more.
        for lap in [0, LEAST_BYTES] {
            let (first, head) = (lap + 68, lap + 136);
            assert!(ring.set_read((first as u16).wrapping_sub(16), head));
            assert_eq!(ring.filled(head), 68);
            assert!(!ring.set_read((lap as u16).wrapping_sub(16), head), "back");
            assert!(ring.set_read((head as u16).wrapping_sub(16), head));
            assert_eq!(ring.filled(head), 0);
            assert!(!ring.set_read((head as u16).wrapping_sub(12), head), "beyond");
            assert_eq!(ring.filled(head), LEAST_BYTES - 4, "which is almost full");
            assert!(ring.set_read((head as u16).wrapping_sub(16), head));
        }
    }

    #[test]
    fn a_ring_is_never_quite_full() {
        let mut ring = ByteRing::new();
        assert_eq!(ring.behind(0, 64), None, "there is no ring");
        ring.set(0x1000, 0);
        let most = LEAST_BYTES as usize - HEADER - ALIGNMENT;
        assert_eq!(ring.behind(0, most), Some(LEAST_BYTES - 4));
        assert_eq!(ring.behind(0, most + 1), None);
        assert_eq!(ring.behind(LEAST_BYTES - 4, 0), None);
    }
}
