//! Packet memory: one file that everybody on the way of a packet maps, and the NIC reaches by DMA.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | header: 64-bit words, see [`header`]; written once, before anybody else maps the file |
//! | `0x1000` | the channels, one behind the other ([`crate::ChannelPlace`]) |
//! | the header's `BUFFERS_OFFSET` | the buffers, all of one size, contiguous |
//!
//! A buffer is known by its number, its *token*; whoever gets one from somebody else turns it into an
//! address through [`PacketMemory`], which checks it. The first [`Shape::application_buffers`] belong
//! to the application, which posts them and sends from them; the rest are the stack's own.
//!
//! `include/warikomi_layout.h` is made from the constants here, in `channel`, `entry`, `socket` and
//! `invitation`: they are literals.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};
use warikomi_driver::Buffer;
use warikomi_pci::attach::layout::PACKET_BUS_ADDRESS;
use warikomi_shared::{SharedWords, Words, create_region};

use crate::channel::ChannelPlace;
use crate::datagram::Arrived;

/// First word of packet memory: "WKPACKET", little-endian.
pub const MAGIC: u64 = 0x5445_4b43_4150_4b57;
/// Version of this layout.
pub const VERSION: u64 = 2;
/// Where the channels begin, in bytes.
pub const CHANNELS_OFFSET_BYTES: u64 = 0x1000;
/// Most channels: application to stack, stack to driver.
pub const MOST_CHANNELS: u32 = 2;
/// Most buffers.
pub const MOST_BUFFERS: u32 = 0x10_0000;
/// Fewest entries of a ring.
pub const LEAST_RING_CAPACITY: u32 = 16;
/// Longest buffer in bytes.
pub const MOST_BUFFER_BYTES: u32 = 0x1_0000;
/// Lengths of buffers are multiples of this many bytes, two cache lines, so that two that are used
/// on two cores share none.
pub const BUFFER_ALIGN_BYTES: u32 = 128;
/// Most bytes of packet memory.
pub const MOST_BYTES: u64 = 0x1_0000_0000;

const PAGE_BYTES: u64 = 4096;

const _: () = assert!(MAGIC == u64::from_le_bytes(*b"WKPACKET"));

/// Words of the header.
pub mod header {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 1;
    /// Bytes of the file.
    pub const FILE_BYTES: usize = 2;
    /// Bus address of its first byte.
    pub const BUS_ADDRESS: usize = 3;
    /// Channels: 0, 1 or 2. The first is the application's, the last the driver's.
    pub const CHANNELS: usize = 4;
    /// Entries that each ring of a channel holds, a power of two.
    pub const RING_CAPACITY: usize = 5;
    /// Buffers in all.
    pub const BUFFERS: usize = 6;
    /// Bytes of each buffer.
    pub const BUFFER_BYTES: usize = 7;
    /// Those of the application, numbered from 0.
    pub const APPLICATION_BUFFERS: usize = 8;
    /// Where the buffers begin, in bytes.
    pub const BUFFERS_OFFSET: usize = 9;
    /// Ticks of the time stamp counter in a second.
    pub const TSC_HZ: usize = 10;
}

/// What packet memory consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels: one less than there are parts that a packet goes through.
    pub channels: u32,
    /// Buffers of the application.
    pub application_buffers: u32,
    /// Buffers of the stack, to send from.
    pub stack_buffers: u32,
    /// Bytes of each buffer.
    pub buffer_bytes: u32,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
}

impl Shape {
    /// Buffers in all.
    pub fn buffers(&self) -> u32 {
        self.application_buffers.saturating_add(self.stack_buffers)
    }

    fn ring_capacity(&self) -> usize {
        // Room for every buffer, so that a ring is never full between two that keep to the rules.
        self.buffers().max(LEAST_RING_CAPACITY).next_power_of_two() as usize
    }

    /// Where the buffers begin, in bytes: a multiple of the page size.
    pub fn buffers_offset_bytes(&self) -> u64 {
        let words = ChannelPlace::words(self.ring_capacity()) as u64 * u64::from(self.channels);
        (CHANNELS_OFFSET_BYTES + words * 8).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        let buffers = u64::from(self.buffers()) * u64::from(self.buffer_bytes);
        (self.buffers_offset_bytes() + buffers).next_multiple_of(PAGE_BYTES)
    }

    fn check(&self) -> Result<(), MemoryError> {
        let size = self.buffer_bytes;
        for (fine, what, value) in [
            (self.channels <= MOST_CHANNELS, "channels (0 to 2)", u64::from(self.channels)),
            (self.application_buffers > 0, "buffers of the application (1 or more)", 0),
            (
                self.buffers() <= MOST_BUFFERS,
                "buffers (at most 1,048,576)",
                u64::from(self.buffers()),
            ),
            (
                size.is_multiple_of(BUFFER_ALIGN_BYTES)
                    && (BUFFER_ALIGN_BYTES..=MOST_BUFFER_BYTES).contains(&size),
                "bytes a buffer (128 to 65,536, a multiple of 128)",
                u64::from(size),
            ),
            (self.tsc_hz > 0, "ticks a second (1 or more)", self.tsc_hz),
        ] {
            if !fine {
                return Err(MemoryError::Invalid { what, value });
            }
        }
        if self.file_bytes() > MOST_BYTES {
            let what = "bytes in all (at most 4 GiB): use fewer or smaller buffers";
            return Err(MemoryError::Invalid { what, value: self.file_bytes() });
        }
        Ok(())
    }
}

/// Why packet memory cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// A number out of its range.
    #[error("packet memory cannot have {value} {what}")]
    Invalid {
        /// What it counts, and its range.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// The header is not ours.
    #[error("the file is no packet memory of version {VERSION} ({0})")]
    Foreign(&'static str),
    /// The system refused.
    #[error("cannot map packet memory: {0}")]
    System(#[from] io::Error),
}

/// Packet memory, mapped.
#[derive(Clone, Debug)]
pub struct PacketMemory {
    words: SharedWords,
    buffers: Arc<MmapRegion>,
    shape: Shape,
    /// Bus address of the first buffer.
    first_buffer: u64,
}

impl PacketMemory {
    /// Makes packet memory and its file, which is what the others get.
    pub fn create(shape: Shape) -> Result<(PacketMemory, File), MemoryError> {
        shape.check()?;
        let file = create_region("warikomi-packets", shape.file_bytes())?;
        let words = SharedWords::map(file.try_clone()?, 0, shape.buffers_offset_bytes() as usize)?;
        for (at, value) in [
            (header::MAGIC, MAGIC),
            (header::VERSION, VERSION),
            (header::FILE_BYTES, shape.file_bytes()),
            (header::BUS_ADDRESS, PACKET_BUS_ADDRESS),
            (header::CHANNELS, u64::from(shape.channels)),
            (header::RING_CAPACITY, shape.ring_capacity() as u64),
            (header::BUFFERS, u64::from(shape.buffers())),
            (header::BUFFER_BYTES, u64::from(shape.buffer_bytes)),
            (header::APPLICATION_BUFFERS, u64::from(shape.application_buffers)),
            (header::BUFFERS_OFFSET, shape.buffers_offset_bytes()),
            (header::TSC_HZ, shape.tsc_hz),
        ] {
            words.store(at, value, Relaxed);
        }
        Ok((Self::with(&file, words, shape)?, file))
    }

    /// Maps packet memory that somebody else has made. Nothing in the header is believed that does
    /// not follow from the rest of it.
    pub fn map(file: &File) -> Result<PacketMemory, MemoryError> {
        let head = SharedWords::map(file.try_clone()?, 0, PAGE_BYTES as usize)?;
        let word = |at| Words::load(&head, at, Relaxed);
        if word(header::MAGIC) != MAGIC || word(header::VERSION) != VERSION {
            return Err(MemoryError::Foreign("its first words are others"));
        }
        let small =
            |at| u32::try_from(word(at)).map_err(|_| MemoryError::Foreign("a number is too large"));
        let (buffers, application_buffers) =
            (small(header::BUFFERS)?, small(header::APPLICATION_BUFFERS)?);
        let shape = Shape {
            channels: small(header::CHANNELS)?,
            application_buffers,
            stack_buffers: buffers
                .checked_sub(application_buffers)
                .ok_or(MemoryError::Foreign("it has fewer buffers than the application has"))?,
            buffer_bytes: small(header::BUFFER_BYTES)?,
            tsc_hz: word(header::TSC_HZ),
        };
        shape.check()?;
        let follows = [
            (header::FILE_BYTES, shape.file_bytes()),
            (header::BUS_ADDRESS, PACKET_BUS_ADDRESS),
            (header::RING_CAPACITY, shape.ring_capacity() as u64),
            (header::BUFFERS_OFFSET, shape.buffers_offset_bytes()),
        ];
        if follows.iter().any(|&(at, expected)| word(at) != expected) {
            return Err(MemoryError::Foreign("its numbers contradict each other"));
        }
        let words = SharedWords::map(file.try_clone()?, 0, shape.buffers_offset_bytes() as usize)?;
        Self::with(file, words, shape)
    }

    fn with(file: &File, words: SharedWords, shape: Shape) -> Result<Self, MemoryError> {
        let (offset, end) = (shape.buffers_offset_bytes(), shape.file_bytes());
        if file.metadata()?.len() < end {
            return Err(MemoryError::Foreign("the file is shorter than its header says"));
        }
        let backing = FileOffset::new(file.try_clone()?, offset);
        let buffers = MmapRegion::from_file(backing, (end - offset) as usize)
            .map_err(|error| MemoryError::System(io::Error::other(error)))?;
        let first_buffer = PACKET_BUS_ADDRESS + offset;
        Ok(PacketMemory { words, buffers: Arc::new(buffers), shape, first_buffer })
    }

    /// Numbers and sizes of its buffers.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The words of header and channels.
    pub fn words(&self) -> &SharedWords {
        &self.words
    }

    /// The place of channel number `index`, counted from the application on.
    pub fn channel(&self, index: u32) -> Option<ChannelPlace> {
        let capacity = self.shape.ring_capacity();
        let first = CHANNELS_OFFSET_BYTES as usize / 8;
        (index < self.shape.channels).then(|| ChannelPlace {
            first_word: first + index as usize * ChannelPlace::words(capacity),
            capacity,
        })
    }

    /// The application's buffers.
    pub fn application_tokens(&self) -> Range<u32> {
        0..self.shape.application_buffers
    }

    /// The stack's buffers.
    pub fn stack_tokens(&self) -> Range<u32> {
        self.shape.application_buffers..self.shape.buffers()
    }

    /// A buffer as a NIC driver wants it.
    #[inline]
    pub fn buffer(&self, token: u32) -> Option<Buffer> {
        let address = self.bus_address(token, 0, self.shape.buffer_bytes)?;
        Buffer::new(address, self.shape.buffer_bytes, token)
    }

    /// The bus address of `length` bytes from `offset` on in a buffer, if they lie in it.
    #[inline]
    pub fn bus_address(&self, token: u32, offset: u32, length: u32) -> Option<u64> {
        let at = self.place(token, offset, length)?;
        Some(self.first_buffer + at)
    }

    /// `length` bytes from `offset` on in a buffer, if they lie in it. In place: others may change
    /// them meanwhile.
    #[inline]
    pub fn bytes(&self, token: u32, offset: u32, length: u32) -> Option<VolatileSlice<'_>> {
        let at = self.place(token, offset, length)?;
        self.buffers.get_slice(at as usize, length as usize).ok()
    }

    /// The frame of `bytes` bytes that is in front in a buffer, if it lies in it.
    #[inline]
    pub fn frame(&self, token: u32, bytes: u32) -> Option<Arrived<'_>> {
        Arrived::in_front(self.bytes(token, 0, self.shape.buffer_bytes)?, bytes as usize)
    }

    /// Says that the beginning of a buffer will be read soon: its cache line is on its way here.
    #[inline]
    pub fn expect_read(&self, token: u32) {
        if let Some(bytes) = self.bytes(token, 0, 1) {
            warikomi_shared::prefetch_to_read(bytes.ptr_guard().as_ptr());
        }
    }

    #[inline]
    fn place(&self, token: u32, offset: u32, length: u32) -> Option<u64> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.shape.buffer_bytes);
        (token < self.shape.buffers() && inside)
            .then(|| u64::from(token) * u64::from(self.shape.buffer_bytes) + u64::from(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPE: Shape = Shape {
        channels: 2,
        application_buffers: 20,
        stack_buffers: 4,
        buffer_bytes: 2_048,
        tsc_hz: 1_000_000_000,
    };

    #[test]
    fn what_is_made_is_mapped_again_and_the_nic_finds_the_same_bytes() {
        let (ours, file) = PacketMemory::create(SHAPE).unwrap();
        let theirs = PacketMemory::map(&file).unwrap();
        assert_eq!(theirs.shape(), &SHAPE);
        ours.bytes(23, 100, 3).unwrap().copy_from(&[1u8, 2, 3]);
        let mut seen = [0u8; 3];
        theirs.bytes(23, 100, 3).unwrap().copy_to(&mut seen);
        assert_eq!(seen, [1, 2, 3]);
        let dma = warikomi_pci::SharedMemory::from_file(
            PACKET_BUS_ADDRESS,
            file,
            0,
            SHAPE.file_bytes() as usize,
        )
        .unwrap();
        let mut seen = [0; 3];
        warikomi_pci::DmaMemory::read(&dma, ours.bus_address(23, 100, 3).unwrap(), &mut seen)
            .unwrap();
        assert_eq!(seen, [1, 2, 3]);
        let (one, two) = (ours.channel(0).unwrap(), ours.channel(1).unwrap());
        assert!(one.first_word + ChannelPlace::words(one.capacity) <= two.first_word);
        assert_eq!(ours.channel(2), None);
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        for bad in [
            Shape { channels: 3, ..SHAPE },
            Shape { application_buffers: 0, ..SHAPE },
            Shape { application_buffers: u32::MAX, ..SHAPE },
            Shape { buffer_bytes: 0, ..SHAPE },
            Shape { buffer_bytes: 1_500, ..SHAPE },
            Shape { buffer_bytes: 1 << 17, ..SHAPE },
            Shape { application_buffers: MOST_BUFFERS - 4, buffer_bytes: 1 << 16, ..SHAPE },
            Shape { tsc_hz: 0, ..SHAPE },
        ] {
            assert!(PacketMemory::create(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        /// Whatever the header says, mapping it is an error or packet memory that lies in the file.
        #[test]
        fn a_forged_header_is_refused_or_harmless(changes in prop::collection::vec((0usize..11, prop_oneof![any::<u64>(), 0u64..5_000]), 1..4), token: u32, offset: u32, length: u32) {
            let (ours, file) = PacketMemory::create(SHAPE).unwrap();
            for (at, value) in changes {
                ours.words().store(at, value, Relaxed);
            }
            if let Ok(mapped) = PacketMemory::map(&file) {
                prop_assert!(mapped.shape().file_bytes() <= file.metadata().unwrap().len());
                let _ = mapped.bytes(token, offset, length);
            }
        }

        #[test]
        fn what_lies_outside_has_no_address(token: u32, offset in 0u32..3_000, length in 0u32..3_000) {
            let (memory, _file) = PacketMemory::create(SHAPE).unwrap();
            let token = token % 30;
            let inside = token < 24 && offset + length <= 2_048;
            prop_assert_eq!(memory.bytes(token, offset, length).is_some(), inside);
            prop_assert_eq!(memory.bus_address(token, offset, length).is_some(), inside);
            prop_assert_eq!(memory.buffer(token).is_some(), token < 24);
        }
    }
}
