//! The memory that packets are copied together in.

use warikomi_pci::DmaMemory;

use crate::{DriverError, DriverInfo};

const PAGE_BYTES: u64 = 4_096;
/// What of a packet is real in the measurement without contents: the headers (Ethernet, IPv4 and UDP) and
/// the payload's head.
const REAL_BYTES: u32 = 14 + 20 + 8 + 16;

/// An area for each packet that the device can have, and one for the next; behind them a contiguous buffer
/// that stands for the contents of any packet.
///
/// Packets come back in the order in which they were handed over, so areas are taken in turn, and the next
/// one is never the device's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Areas {
    address: u64,
    area_bytes: u64,
    count: u64,
    next: u64,
}

/// Bytes of one area.
fn area_bytes(max_frame_bytes: usize) -> u64 {
    (max_frame_bytes as u64).next_multiple_of(PAGE_BYTES)
}

/// Areas of a device with so many descriptors.
fn areas_of(descriptors: usize) -> u64 {
    descriptors as u64 + 1
}

/// Bytes that the areas of a device take.
pub(crate) fn needed_bytes(descriptors: usize, max_frame_bytes: usize) -> u64 {
    (areas_of(descriptors) + 1) * area_bytes(max_frame_bytes)
}

impl Areas {
    /// Areas in the memory of so many bytes at this bus address. The buffer of contents is cleared.
    pub(crate) fn new(
        (address, bytes): (u64, u64),
        info: &DriverInfo,
        memory: &dyn DmaMemory,
    ) -> Result<Areas, DriverError> {
        let needed = needed_bytes(info.tx_descriptors, info.max_frame_bytes);
        if bytes < needed {
            return Err(DriverError::Invalid(format!(
                "bounce buffers for {} descriptors and frames of {} bytes take {needed} bytes, and there \
                 are {bytes}",
                info.tx_descriptors, info.max_frame_bytes
            )));
        }
        let (area_bytes, count) = (area_bytes(info.max_frame_bytes), areas_of(info.tx_descriptors));
        let areas = Areas { address, area_bytes, count, next: 0 };
        memory.write(areas.contents(), &vec![0; area_bytes as usize])?;
        Ok(areas)
    }

    #[inline]
    fn at(&self, area: u64) -> u64 {
        self.address + area * self.area_bytes
    }

    /// The buffer of contents.
    #[inline]
    fn contents(&self) -> u64 {
        self.at(self.count)
    }

    /// Copies at most so many bytes into the next area, to find out what that takes; how many.
    pub(crate) fn try_copy(&self, memory: &dyn DmaMemory, bytes: u64) -> Result<u64, DriverError> {
        let bytes = bytes.min(self.area_bytes);
        memory.copy(self.contents(), self.at(self.next), bytes as usize)?;
        Ok(bytes)
    }

    /// The next area, for a packet of these pieces.
    #[inline]
    fn take(&mut self, packet: &[(u64, u32)]) -> Result<u64, DriverError> {
        let bytes: u64 = packet.iter().map(|piece| u64::from(piece.1)).sum();
        if bytes > self.area_bytes {
            return Err(DriverError::Invalid(format!(
                "a packet of {bytes} bytes does not fit into a bounce buffer of {}",
                self.area_bytes
            )));
        }
        let area = self.at(self.next);
        self.next = if self.next + 1 == self.count { 0 } else { self.next + 1 };
        Ok(area)
    }

    /// Copies the first so many pieces together; the pieces that are left are in `pieces`. How many bytes
    /// were copied.
    ///
    /// Fewer packets than there are areas may be with the device.
    #[inline]
    pub(crate) fn gather(
        &mut self,
        memory: &dyn DmaMemory,
        from: &[(u64, u32)],
        copied: usize,
        pieces: &mut Vec<(u64, u32)>,
    ) -> Result<u32, DriverError> {
        let area = self.take(from)?;
        let (head, rest) = from.split_at(copied);
        let mut bytes = 0;
        for &(address, length) in head {
            memory.copy(address, area + u64::from(bytes), length as usize)?;
            bytes += length;
        }
        pieces.clear();
        pieces.push((area, bytes));
        pieces.extend_from_slice(rest);
        Ok(bytes)
    }

    /// Copies the pieces that do not begin at a multiple of `alignment` (a power of two, of a page at most) to where
    /// they do; how many bytes. If the packet was gathered, its first piece is in its area, and these go behind it.
    #[inline]
    pub(crate) fn align(
        &mut self,
        memory: &dyn DmaMemory,
        alignment: u32,
        gathered: bool,
        pieces: &mut [(u64, u32)],
    ) -> Result<u32, DriverError> {
        let (alignment, mut copied) = (u64::from(alignment), 0);
        if pieces.iter().all(|piece| piece.0.is_multiple_of(alignment)) {
            return Ok(0);
        }
        let (area, mut used) = match pieces.first() {
            Some(&(area, bytes)) if gathered => (area, u64::from(bytes)),
            _ => (self.take(pieces)?, 0),
        };
        for (address, bytes) in pieces.iter_mut().filter(|it| !it.0.is_multiple_of(alignment)) {
            let at = used.next_multiple_of(alignment);
            used = at + u64::from(*bytes);
            if used > self.area_bytes {
                return Err(DriverError::Invalid(format!(
                    "the pieces of a packet, aligned to {alignment} bytes, do not fit into {}",
                    self.area_bytes
                )));
            }
            memory.copy(*address, area + at, *bytes as usize)?;
            *address = area + at;
            copied += *bytes;
        }
        Ok(copied)
    }

    /// Copies the headers, and lets the buffer of contents stand for the rest; how many bytes were copied.
    #[inline]
    pub(crate) fn without_contents(
        &mut self,
        memory: &dyn DmaMemory,
        from: &[(u64, u32)],
        pieces: &mut Vec<(u64, u32)>,
    ) -> Result<u32, DriverError> {
        let area = self.take(from)?;
        let (mut real, mut all) = (0, 0);
        for &(address, length) in from {
            let part = length.min(REAL_BYTES - real);
            if part > 0 {
                memory.copy(address, area + u64::from(real), part as usize)?;
            }
            real += part;
            all += length;
        }
        pieces.clear();
        pieces.push((area, real));
        if all > real {
            pieces.push((self.contents(), all - real));
        }
        Ok(real)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warikomi_pci::SharedMemory;

    use super::*;

    const BASE: u64 = 0x1_0000;

    fn bytes_of(memory: &SharedMemory, pieces: &[(u64, u32)]) -> Vec<Vec<u8>> {
        let read = |&(address, bytes): &(u64, u32)| {
            let mut piece = vec![0; bytes as usize];
            memory.read(address, &mut piece).unwrap();
            piece
        };
        pieces.iter().map(read).collect()
    }

    proptest! {
        /// Only what does not begin where it should is copied, and nothing is changed by it.
        #[test]
        fn pieces_are_copied_to_where_they_begin_aligned(
            places in prop::collection::vec((0u64..15, 1u32..300), 1..12),
            exponent in 0u32..=6,
            gathered in any::<bool>(),
        ) {
            let alignment = 1 << exponent;
            let memory = SharedMemory::anonymous(BASE, 0x1_0000).unwrap();
            let content: Vec<u8> = (0..0x4000_u32).map(|at| (at % 251) as u8).collect();
            memory.write(BASE + 0x8000, &content).unwrap();
            let mut areas = Areas { address: BASE, area_bytes: 8_192, count: 2, next: 0 };
            let from: Vec<(u64, u32)> = places
                .iter()
                .zip(0..)
                .map(|(&(place, bytes), number)| (BASE + 0x8000 + 512 * number + place, bytes))
                .collect();
            let mut pieces = from.clone();
            if gathered {
                areas.gather(&memory, &from, 1, &mut pieces).unwrap();
            }
            let before = pieces.clone();
            let copied = areas.align(&memory, alignment, gathered, &mut pieces).unwrap();
            prop_assert_eq!(bytes_of(&memory, &pieces), bytes_of(&memory, &from));
            let mut expected = 0;
            for (piece, before) in pieces.iter().zip(before) {
                prop_assert!(piece.0.is_multiple_of(alignment.into()) && piece.1 == before.1);
                let moves = !before.0.is_multiple_of(alignment.into());
                prop_assert!(moves || piece.0 == before.0);
                expected += if moves { piece.1 } else { 0 };
            }
            prop_assert_eq!(copied, expected);
        }
    }

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let memory = SharedMemory::anonymous(BASE, 0x1_0000).unwrap();
        let mut areas = Areas { address: BASE, area_bytes: 4_096, count: 2, next: 0 };
        let mut pieces = [(BASE + 0x8001, 2_047), (BASE + 0x9001, 2_049)];
        let refused = areas.align(&memory, 8, false, &mut pieces).unwrap_err().to_string();
        assert!(refused.contains("aligned to 8 bytes, do not fit into 4096"), "{refused}");
    }
}
