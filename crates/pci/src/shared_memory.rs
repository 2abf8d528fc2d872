//! Memory that is mapped here, too.

use std::fs::File;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MemoryRegionAddress, VolatileMemory, VolatileSlice,
};

use crate::dma::{
    Descriptor, DmaError, DmaMemory, Pieces, aligned, load_in_words, load_one_by_one,
    store_in_words,
};

/// Memory that a target has shared with us as mapped files or anonymous pages.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    regions: GuestMemoryMmap,
}

impl SharedMemory {
    /// Wraps memory that is already mapped.
    pub fn new(regions: GuestMemoryMmap) -> Self {
        SharedMemory { regions }
    }

    /// Anonymous memory of `len` bytes from bus address `base` on; for tests and for targets in
    /// the same process.
    pub fn anonymous(base: u64, len: usize) -> std::io::Result<Self> {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(base), len)])
            .map(SharedMemory::new)
            .map_err(std::io::Error::other)
    }

    /// Maps `len` bytes of `file` from `file_offset` on, as bus address `base`.
    pub fn from_file(base: u64, file: File, file_offset: u64, len: usize) -> std::io::Result<Self> {
        let backing = Some(FileOffset::new(file, file_offset));
        GuestMemoryMmap::from_ranges_with_files([(GuestAddress(base), len, backing)])
            .map(SharedMemory::new)
            .map_err(std::io::Error::other)
    }

    /// Takes the windows of `other` in as well: a driver's system has mapped them. Refused if one of them
    /// overlaps a window that is there.
    pub fn map(&mut self, other: SharedMemory) -> std::io::Result<()> {
        let mut regions = self.regions.clone();
        for region in other.regions.iter() {
            let found = other.regions.remove_region(region.start_addr(), region.len());
            let (_, region) = found.map_err(std::io::Error::other)?;
            regions = regions.insert_region(region).map_err(std::io::Error::other)?;
        }
        self.regions = regions;
        Ok(())
    }

    /// Takes the window of `bytes` bytes at `base` away: an access to it is one outside from now on.
    /// Refused if there is none that begins and ends there.
    pub fn unmap(&mut self, base: u64, bytes: u64) -> std::io::Result<()> {
        let (regions, _) =
            self.regions.remove_region(GuestAddress(base), bytes).map_err(std::io::Error::other)?;
        self.regions = regions;
        Ok(())
    }

    /// A range inside one region, which is nearly every transfer.
    ///
    /// The general way of `vm-memory` goes through an iterator over regions for every access, which
    /// took 165 to 265 ns for 60 bytes in one build and 14 in another. This one is as fast as a
    /// copy, always.
    #[inline]
    fn within(&self, address: u64, len: usize) -> Option<VolatileSlice<'_>> {
        // They are few, so looking at one after the other is faster than a search; most often it is the first.
        let mut regions = self.regions.iter();
        let first = part_of(regions.next()?, address, len);
        first.or_else(|| regions.find_map(|region| part_of(region, address, len)))
    }

    /// The same, of one in the region that the last one was in, most likely.
    #[inline]
    fn within_or<'a>(
        &'a self,
        last: &mut Option<&'a GuestRegionMmap>,
        address: u64,
        len: usize,
    ) -> Option<VolatileSlice<'a>> {
        if let Some(slice) = last.and_then(|region| part_of(region, address, len)) {
            return Some(slice);
        }
        self.regions.iter().find_map(|region| {
            let slice = part_of(region, address, len)?;
            *last = Some(region);
            Some(slice)
        })
    }

    #[cold]
    fn write_across(&self, address: u64, pieces: &Pieces<'_>) -> Result<(), DmaError> {
        self.write(address, &pieces.concat())
    }

    /// The mapped regions, for the virtqueues of a target.
    pub fn regions(&self) -> &GuestMemoryMmap {
        &self.regions
    }

    /// Total bytes of shared memory.
    pub fn len(&self) -> u64 {
        self.regions.iter().map(GuestMemoryRegion::len).sum()
    }

    /// Whether nothing is shared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A range of one region.
#[inline]
fn part_of(region: &GuestRegionMmap, address: u64, len: usize) -> Option<VolatileSlice<'_>> {
    let offset = address.checked_sub(region.start_addr().0)?;
    region.get_slice(MemoryRegionAddress(offset), len).ok()
}

impl DmaMemory for SharedMemory {
    #[inline]
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        let len = into.len();
        if let Some(slice) = self.within(address, len) {
            slice.copy_to(into);
            return Ok(());
        }
        self.regions
            .read_slice(into, GuestAddress(address))
            .map_err(|_| DmaError::NotShared { address, len })
    }

    #[inline]
    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        if let Some(slice) = self.within(address, from.len()) {
            slice.copy_from(from);
            return Ok(());
        }
        self.regions
            .write_slice(from, GuestAddress(address))
            .map_err(|_| DmaError::NotShared { address, len: from.len() })
    }

    #[inline]
    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        aligned(address)?;
        // A word that is aligned lies inside one page, and so inside one region.
        self.within(address, 4)
            .and_then(|slice| {
                let word = slice.get_atomic_ref::<AtomicU32>(0).ok()?;
                Some(u32::from_le(word.load(Ordering::Acquire)))
            })
            .ok_or(DmaError::NotShared { address, len: 4 })
    }

    #[inline]
    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        aligned(address)?;
        self.within(address, 4)
            .and_then(|slice| {
                let word = slice.get_atomic_ref::<AtomicU32>(0).ok()?;
                word.store(value.to_le(), Ordering::Release);
                Some(())
            })
            .ok_or(DmaError::NotShared { address, len: 4 })
    }

    #[inline]
    fn write_pieces(&self, address: u64, pieces: &Pieces<'_>) -> Result<(), DmaError> {
        let Some(slice) = self.within(address, pieces.bytes()) else {
            return self.write_across(address, pieces);
        };
        let [first, second] = pieces.parts;
        slice.copy_from(first);
        if let (false, Ok(place)) = (second.is_empty(), slice.offset(first.len())) {
            place.copy_from(second);
        }
        // One store: a copy of any length takes longer for these four bytes than for the frame.
        let behind = first.len() + second.len();
        if let (Some(fcs), Ok(place)) = (pieces.fcs, slice.get_ref(behind)) {
            place.store(fcs.to_le());
        }
        Ok(())
    }

    fn expect_writes(&self, addresses: &[u64], len: usize) {
        let mut last = None;
        for &address in addresses {
            if let Some(slice) = self.within_or(&mut last, address, len) {
                warikomi_shared::prefetch_to_write(slice.ptr_guard_mut().as_ptr(), len);
            }
        }
    }

    #[inline]
    fn copy(&self, from: u64, to: u64, len: usize) -> Result<(), DmaError> {
        match (self.within(from, len), self.within(to, len)) {
            (Some(source), Some(place)) => {
                source.copy_to_volatile_slice(place);
                Ok(())
            }
            _ => {
                let mut bytes = vec![0; len];
                self.read(from, &mut bytes)?;
                self.write(to, &bytes)
            }
        }
    }

    #[inline]
    fn load_descriptor(&self, address: u64) -> Result<Descriptor, DmaError> {
        let in_pairs = || load_pairs(&self.within(address, 16)?, 0);
        in_pairs().map_or_else(|| load_in_words(self, address), Ok)
    }

    fn load_descriptors(&self, address: u64, into: &mut [Descriptor]) -> usize {
        let Some(slice) = self.within(address, 16 * into.len()) else {
            return load_one_by_one(self, address, into);
        };
        for (number, place) in into.iter_mut().enumerate() {
            match load_pairs(&slice, 16 * number) {
                Some(descriptor) => *place = descriptor,
                None => return load_one_by_one(self, address, into),
            }
        }
        into.len()
    }

    #[inline]
    fn store_descriptor(&self, address: u64, words: Descriptor) -> Result<(), DmaError> {
        let in_pairs = || {
            let slice = self.within(address, 16)?;
            let pair = |at| slice.get_atomic_ref::<AtomicU64>(at).ok();
            let (first, second) = (pair(0)?, pair(8)?);
            second.store(words.0[1].to_le(), Ordering::Relaxed);
            first.store(words.0[0].to_le(), Ordering::Release);
            Some(())
        };
        in_pairs().map_or_else(|| store_in_words(self, address, words), Ok)
    }
}

/// A descriptor in two loads, the pair with its first word first.
#[inline]
fn load_pairs(slice: &VolatileSlice<'_>, at: usize) -> Option<Descriptor> {
    let pair = |at| slice.get_atomic_ref::<AtomicU64>(at).ok();
    let (first, second) = (pair(at)?, pair(at + 8)?);
    let first = u64::from_le(first.load(Ordering::Acquire));
    Some(Descriptor([first, u64::from_le(second.load(Ordering::Relaxed))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Memory that knows only how to do what it must.
    struct Plain(SharedMemory);
    impl DmaMemory for Plain {
        fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
            self.0.read(address, into)
        }
        fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
            self.0.write(address, from)
        }
        fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
            self.0.load_u32(address)
        }
        fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
            self.0.store_u32(address, value)
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let memory = SharedMemory::anonymous(0x1000, 0x1000).unwrap();
        memory.write(0x1ffc, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.load_u32(0x1ffc), Ok(0x0403_0201));
        memory.store_u32(0x1000, 0xdead_beef).unwrap();
        let mut bytes = [0; 4];
        memory.read(0x1000, &mut bytes).unwrap();
        assert_eq!(bytes, [0xef, 0xbe, 0xad, 0xde]);
    }

    #[test]
    fn a_transfer_across_two_regions_is_one_transfer() {
        let ranges = [(GuestAddress(0), 0x1000), (GuestAddress(0x1000), 0x1000)];
        let memory = SharedMemory::new(GuestMemoryMmap::from_ranges(&ranges).unwrap());
        memory.write(0xffe, &[1, 2, 3, 4]).unwrap();
        let mut bytes = [0; 4];
        memory.read(0xffe, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn bytes_are_copied_within_memory_however_its_regions_lie() {
        let ranges = [(GuestAddress(0x1000), 0x1000), (GuestAddress(0x2000), 0x1000)];
        let two = || SharedMemory::new(GuestMemoryMmap::from_ranges(&ranges).unwrap());
        let (fast, plain) = (two(), Plain(two()));
        for memory in [&fast as &dyn DmaMemory, &plain] {
            // Inside one, from one across both, and from both into one.
            for (from, to) in [(0x1000, 0x1100), (0x1100, 0x1ffe), (0x1ffe, 0x2800)] {
                memory.write(from, &[1, 2, 3, from as u8]).unwrap();
                memory.copy(from, to, 4).unwrap();
                let mut bytes = [0; 4];
                memory.read(to, &mut bytes).unwrap();
                assert_eq!(bytes, [1, 2, 3, from as u8], "{from:#x} to {to:#x}");
            }
            for (from, to) in [(0x2ffe, 0x1000), (0x1000, 0x2ffe)] {
                assert!(memory.copy(from, to, 4).is_err(), "{from:#x} to {to:#x}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "no file can be mapped under Miri")]
    fn a_file_is_shared_from_an_offset_on() {
        let file = warikomi_shared::create_region("test", 0x3000).unwrap();
        let map = |base, offset, len| {
            SharedMemory::from_file(base, file.try_clone().unwrap(), offset, len).unwrap()
        };
        let (whole, part) = (map(0, 0, 0x3000), map(0x8000, 0x1000, 0x2000));
        part.store_u32(0x8004, 7).unwrap();
        assert_eq!(whole.load_u32(0x1004), Ok(7));
        assert_eq!((part.len(), part.regions().num_regions(), part.is_empty()), (0x2000, 1, false));
        let mut none = part.clone();
        none.unmap(0x8000, 0x2000).unwrap();
        assert_eq!((none.len(), none.is_empty()), (0, true));
        // To say that something will be written changes nothing, wherever it is.
        for (address, len) in [(0x8001, 0x1000), (0x9fff, 1), (0x7000, 4), (u64::MAX, usize::MAX)] {
            part.expect_writes(&[address], len);
        }
        assert_eq!(part.load_u32(0x8004), Ok(7));
    }

    #[test]
    fn a_word_that_is_not_aligned_is_refused() {
        let memory = SharedMemory::anonymous(0x1000, 0x1000).unwrap();
        let refused = DmaError::Misaligned { address: 0x1002 };
        assert_eq!(memory.load_u32(0x1002), Err(refused));
        assert_eq!(memory.store_u32(0x1002, 1), Err(refused));
        assert_eq!(memory.load_descriptor(0x1002), Err(refused));
        assert_eq!(memory.store_descriptor(0x1002, Descriptor::new([1; 4])), Err(refused));
        assert_eq!(memory.load_u32(0x1000), Ok(0));
    }

    #[test]
    fn windows_come_and_go_and_what_is_outside_is_an_error() {
        let window = |base| SharedMemory::anonymous(base, 0x1000).unwrap();
        let mut memory = window(0x1000);
        memory.map(window(0x8000)).unwrap();
        assert!(memory.map(window(0x8800)).is_err(), "one that overlaps");
        assert_eq!(memory.len(), 0x2000);
        memory.write(0x8ffc, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.load_u32(0x8ffc), Ok(0x0403_0201));
        assert!(memory.unmap(0x8000, 0x800).is_err(), "not a whole window");
        memory.unmap(0x8000, 0x1000).unwrap();
        let outside = DmaError::NotShared { address: 0x8ffc, len: 4 };
        assert_eq!(memory.load_u32(0x8ffc), Err(outside));
        assert_eq!(memory.load_u32(0x1000), Ok(0));
        memory.map(window(0x8000)).unwrap();
        assert_eq!(memory.load_u32(0x8ffc), Ok(0), "another one");
    }

    proptest! {
        #[test]
        fn an_address_outside_is_an_error_and_never_a_crash(address: u64, len in 0usize..10_000) {
            let memory = SharedMemory::anonymous(0x1000, 0x1000).unwrap();
            let mut buffer = vec![0; len];
            let end = address.checked_add(len as u64);
            let inside = address >= 0x1000 && end.is_some_and(|end| end <= 0x2000);
            if inside {
                prop_assert!(memory.read(address, &mut buffer).is_ok());
                prop_assert!(memory.write(address, &buffer).is_ok());
            } else if len > 0 {
                prop_assert_eq!(
                    memory.read(address, &mut buffer),
                    Err(DmaError::NotShared { address, len })
                );
                prop_assert!(memory.write(address, &buffer).is_err());
            }
            let _ = memory.load_u32(address);
            let _ = memory.store_u32(address, 1);
        }
    }

    proptest! {
        /// Faster ways do what the plain ones do, also where one region ends and the next begins.
        #[test]
        fn pieces_and_descriptors_are_what_single_transfers_make_of_them(
            address in 0u64..0x3100,
            first: Vec<u8>,
            second: Vec<u8>,
            fcs: Option<u32>,
        ) {
            let ranges = [(GuestAddress(0x1000), 0x1000), (GuestAddress(0x2000), 0x1000)];
            let two = || SharedMemory::new(GuestMemoryMmap::from_ranges(&ranges).unwrap());
            let (fast, plain) = (two(), Plain(two()));
            let pieces = Pieces { parts: [&first, &second], fcs };
            let written = fast.write_pieces(address, &pieces);
            prop_assert_eq!(written.is_ok(), plain.write_pieces(address, &pieces).is_ok());
            if written.is_ok() {
                let whole = pieces.concat();
                for memory in [&fast as &dyn DmaMemory, &plain] {
                    let mut seen = vec![0; whole.len()];
                    prop_assert!(memory.read(address, &mut seen).is_ok() || whole.is_empty());
                    prop_assert!(whole.is_empty() || seen == whole);
                }
            }
            let at = address & !3;
            let (ours, theirs) = (fast.load_descriptor(at), plain.load_descriptor(at));
            prop_assert_eq!(ours.is_ok(), theirs.is_ok());
            prop_assert!(written.is_err() || ours.ok() == theirs.ok());
            // Many at once, up to the first that cannot be read.
            let rows = [&fast as &dyn DmaMemory, &plain].map(|memory| {
                let mut row = [Descriptor::default(); 5];
                (memory.load_descriptors(at, &mut row), row)
            });
            prop_assert!(written.is_err() || rows[0] == rows[1]);
            prop_assert_eq!(rows[0].0 > 0, theirs.is_ok());
            let stores = [(at, 1), (at.wrapping_sub(0x1000), 2), (at + 4, 3)];
            prop_assert_eq!(fast.store_words(&stores), plain.store_words(&stores));
            for (address, word) in stores {
                let loaded = [&fast as &dyn DmaMemory, &plain].map(|memory| memory.load_u32(address));
                prop_assert!(loaded.iter().all(|one| one.is_err() || *one == Ok(word)));
            }
            let words = Descriptor::new([at as u32, !0, 7, 1 << 31]);
            prop_assert_eq!(fast.store_descriptor(at, words).is_ok(), theirs.is_ok());
            prop_assert_eq!(plain.store_descriptor(at, words).is_ok(), theirs.is_ok());
            for memory in [&fast as &dyn DmaMemory, &plain] {
                prop_assert!(theirs.is_err() || memory.load_descriptor(at) == Ok(words));
            }
        }
    }
}
