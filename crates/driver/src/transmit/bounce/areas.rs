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
