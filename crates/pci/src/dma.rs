//! The memory that a function may reach.
//!
//! Everything in it was written by another process and may change while we look, so nothing here
//! hands out a reference: bytes are copied out, then judged. `vm-memory` does the bounds checks
//! and the volatile access. A target's memory is mapped once, for all queues and all DMA; windows of it can be
//! mapped and unmapped, and what is not mapped is outside.
//!
//! A word that says whose a descriptor is comes first, with acquire, and the rest is read after it. It is stored
//! last, with release, and data and the other words are written before it.
//!
//! A transfer can fail ([`DmaError`]). The model then halts its engine and reports that as its hardware would
//! (rtl8168: SYSErr), the received-master-abort bit is set for an address outside of shared memory, and a frame that was
//! being received is `dma_error` in the ledger.

/// Why a DMA transfer did not take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DmaError {
    /// Some byte of the range is not in memory that the target has shared.
    #[error("DMA to {address:#x}, {len} bytes, reaches outside the memory that the target shares")]
    NotShared {
        /// First address of the transfer.
        address: u64,
        /// Length of the transfer in bytes.
        len: usize,
    },
    /// A word that must be read or written in one piece is not aligned to its size.
    #[error("DMA of one word to {address:#x}, which is not aligned to 4 bytes")]
    Misaligned {
        /// The word's address.
        address: u64,
    },
    /// The function's bus-master bit is off.
    #[error("DMA to {address:#x} while bus mastering is off")]
    BusMasterOff {
        /// First address of the transfer.
        address: u64,
    },
}

/// A descriptor of four words, as it was read.
///
/// The words are kept in pairs: they come through memory from a call that is not inlined, and a pair that is read in one
/// piece right behind two stores of one word waits until both have reached the cache, behind all stores before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor(pub(crate) [u64; 2]);

impl Descriptor {
    /// Of these words.
    #[inline]
    pub fn new([a, b, c, d]: [u32; 4]) -> Descriptor {
        let pair = |low, high| u64::from(high) << 32 | u64::from(low);
        Descriptor([pair(a, b), pair(c, d)])
    }

    /// The words.
    #[inline]
    pub fn words(self) -> [u32; 4] {
        let Descriptor([first, second]) = self;
        [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32]
    }
}

/// What a card writes of a frame, one piece behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pieces<'a> {
    /// The frame. It is in two parts if a tag between them was taken out; otherwise the second one is empty.
    pub parts: [&'a [u8]; 2],
    /// The check sequence, if it is stored, too. A number, not an array: of that, tag and bytes are stored apart, and read
    /// in one piece right behind.
    pub fcs: Option<u32>,
}

impl<'a> Pieces<'a> {
    /// These bytes, and nothing else.
    #[inline]
    pub fn whole(bytes: &'a [u8]) -> Pieces<'a> {
        Pieces { parts: [bytes, &[]], fcs: None }
    }

    /// Bytes of all of them.
    #[inline]
    pub fn bytes(&self) -> usize {
        let [first, second] = self.parts;
        first.len() + second.len() + self.fcs.map_or(0, |_| size_of::<u32>())
    }

    /// Visits those that are not empty, in order, until an error.
    pub fn try_each<E>(&self, visit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let fcs = self.fcs.map(u32::to_le_bytes);
        let all = self.parts.into_iter().chain(fcs.as_ref().map(<[u8; 4]>::as_slice));
        all.filter(|piece| !piece.is_empty()).try_for_each(visit)
    }

    /// All in one.
    pub fn concat(&self) -> Vec<u8> {
        let fcs = self.fcs.map(u32::to_le_bytes);
        [self.parts[0], self.parts[1], fcs.as_ref().map_or(&[], <[u8; 4]>::as_slice)].concat()
    }
}

/// Memory as a function's DMA engine sees it. Addresses are bus addresses.
pub trait DmaMemory {
    /// Copies from memory. On an error `into` has unspecified contents.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError>;

    /// Copies to memory. On an error nothing, or the part inside shared memory, has been written.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError>;

    /// Copies pieces to memory, one behind the other.
    #[inline]
    fn write_pieces(&self, address: u64, pieces: &Pieces<'_>) -> Result<(), DmaError> {
        let mut at = address;
        pieces.try_each(|piece| {
            self.write(at, piece)?;
            at = at.wrapping_add(piece.len() as u64);
            Ok(())
        })
    }

    /// Copies bytes within memory; the two ranges may not overlap.
    #[inline]
    fn copy(&self, from: u64, to: u64, len: usize) -> Result<(), DmaError> {
        let mut bytes = vec![0; len];
        self.read(from, &mut bytes)?;
        self.write(to, &bytes)
    }

    /// Says that `len` bytes from each of these addresses on will be written soon, so that their cache lines come here
    /// meanwhile. Changes nothing; nothing happens where there is no such memory.
    fn expect_writes(&self, _addresses: &[u64], _len: usize) {}

    /// Reads a little-endian word in one piece. What is read after it is at least as new
    /// (acquire): the way to look at an ownership bit before the rest of a descriptor.
    fn load_u32(&self, address: u64) -> Result<u32, DmaError>;

    /// Writes a little-endian word in one piece, after everything written before it (release): the
    /// way to hand a descriptor over.
    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError>;

    /// Writes words, each with its address, in order, as [`store_u32`](Self::store_u32) does; why the last one that
    /// could not be written could not.
    fn store_words(&self, words: &[(u64, u32)]) -> Result<(), DmaError> {
        let mut written = Ok(());
        for &(address, value) in words {
            if let Err(error) = self.store_u32(address, value) {
                written = Err(error);
            }
        }
        written
    }

    /// Reads four words, the first as [`load_u32`](Self::load_u32) does and the others after it: a
    /// descriptor whose first word says whose it is.
    #[inline]
    fn load_descriptor(&self, address: u64) -> Result<Descriptor, DmaError> {
        load_in_words(self, address)
    }

    /// Reads descriptors in a row, each as [`load_descriptor`](Self::load_descriptor) does, up to one that cannot be
    /// read; how many.
    fn load_descriptors(&self, address: u64, into: &mut [Descriptor]) -> usize {
        load_one_by_one(self, address, into)
    }

    /// Writes four words, the first after the others as [`store_u32`](Self::store_u32) does.
    #[inline]
    fn store_descriptor(&self, address: u64, words: Descriptor) -> Result<(), DmaError> {
        store_in_words(self, address, words)
    }
}

/// A descriptor's first word, and then the rest: wherever it lies.
#[cold]
pub(crate) fn load_in_words<M: DmaMemory + ?Sized>(
    memory: &M,
    address: u64,
) -> Result<Descriptor, DmaError> {
    let first = memory.load_u32(address)?;
    let mut rest = [0; 12];
    memory.read(address.wrapping_add(4), &mut rest)?;
    let [a, b, c] = [0, 4, 8].map(|at| [rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
    let [b, c, d] = [a, b, c].map(u32::from_le_bytes);
    Ok(Descriptor::new([first, b, c, d]))
}

/// Descriptors in a row, up to one that cannot be read.
#[cold]
pub(crate) fn load_one_by_one<M: DmaMemory + ?Sized>(
    memory: &M,
    address: u64,
    into: &mut [Descriptor],
) -> usize {
    let mut at = address;
    for (number, place) in into.iter_mut().enumerate() {
        match memory.load_descriptor(at) {
            Ok(descriptor) => *place = descriptor,
            Err(_) => return number,
        }
        at = at.wrapping_add(16);
    }
    into.len()
}

/// A descriptor's other words, and then the first.
#[cold]
pub(crate) fn store_in_words<M: DmaMemory + ?Sized>(
    memory: &M,
    address: u64,
    words: Descriptor,
) -> Result<(), DmaError> {
    aligned(address)?;
    let [first, rest @ ..] = words.words();
    memory.write(address.wrapping_add(4), rest.map(u32::to_le_bytes).as_flattened())?;
    memory.store_u32(address, first)
}

#[inline]
pub(crate) fn aligned(address: u64) -> Result<(), DmaError> {
    if address.is_multiple_of(4) { Ok(()) } else { Err(DmaError::Misaligned { address }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_its_four_words() {
        let words = [0x8000_0001, 0xffff_fffe, 0x1234_5678, 0xfedc_ba98];
        assert_eq!(Descriptor::new(words).words(), words);
    }
}
