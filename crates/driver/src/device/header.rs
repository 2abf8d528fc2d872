//! What a window's header says, held against the files that came with it.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Acquire;

use rustix::fs::{SealFlags, fcntl_get_seals};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::area;
use warikomi_pci::attach::layout::{self, header};
use warikomi_shared::{SharedWords, Words};

use super::error::{AttachError, bad};

/// What the header says, checked.
pub(super) struct Header {
    pub(super) dma: (u64, u64),
    pub(super) packets: Option<(u64, u64)>,
    pub(super) bar: u8,
    pub(super) tsc_hz: u64,
    pub(super) state_bytes: u64,
    pub(super) generation: u32,
    pub(super) way: u64,
}

const LAST_BAR: u64 = 5;
/// More than any state area has.
const MOST_STATE_BYTES: u64 = 1 << 24;
/// No processor's counter is slower or faster.
const TSC_HZ: std::ops::Range<u64> = 10_000_000..100_000_000_000;

impl Header {
    pub(super) fn read(words: &SharedWords) -> Result<Header, AttachError> {
        let word = |at: usize| words.load(at, Acquire);
        if word(header::MAGIC) != layout::MAGIC {
            return Err(bad("it does not begin as one"));
        }
        let version = word(header::VERSION);
        if version != layout::VERSION {
            let ours = layout::VERSION;
            return Err(bad(format!("its layout is version {version}, this driver knows {ours}")));
        }
        let dma = (word(header::DMA_BUS_ADDRESS), word(header::DMA_BYTES));
        let packets = (word(header::PACKET_BUS_ADDRESS), word(header::PACKET_BYTES));
        let (bar, tsc_hz) = (word(header::REGISTER_BAR), word(header::TSC_HZ));
        let window = word(header::WINDOW_BYTES);
        if window != layout::WINDOW_BYTES || dma.1 == 0 {
            let bytes = dma.1;
            return Err(bad(format!("{bytes} bytes of DMA memory, a window of {window}")));
        }
        for (address, bytes) in [dma, packets] {
            if address.checked_add(bytes).is_none() || !address.is_multiple_of(4_096) {
                return Err(bad(format!("{bytes} bytes of memory at bus address {address:#x}")));
            }
        }
        if bar > LAST_BAR || !TSC_HZ.contains(&tsc_hz) {
            return Err(bad(format!("registers in BAR {bar}, a counter of {tsc_hz} Hz")));
        }
        let (state_bytes, generation) = (word(header::STATE_BYTES), word(header::GENERATION));
        let way = word(header::WAY);
        let sizes = area::BYTES..=MOST_STATE_BYTES;
        let odd =
            state_bytes != 0 && (!state_bytes.is_multiple_of(8) || !sizes.contains(&state_bytes));
        let generation = u32::try_from(generation).ok();
        let (Some(generation), false) = (generation, odd || way > layout::way::SHARED_STATE) else {
            return Err(bad(format!(
                "{state_bytes} bytes of state for generation {generation:?} by way {way}"
            )));
        };
        let packets = (packets.1 > 0).then_some(packets);
        Ok(Header { state_bytes, generation, way, dma, packets, bar: bar as u8, tsc_hz })
    }
}

/// The length of a file that nobody can cut short under us.
pub(super) fn sealed_length(file: &File) -> Result<u64, AttachError> {
    let sealed = fcntl_get_seals(file.as_fd()).unwrap_or(SealFlags::empty());
    if !sealed.contains(SealFlags::SHRINK) {
        return Err(bad("its file is not sealed, and could be cut short while it is in use"));
    }
    Ok(file.metadata()?.len())
}

/// A file, and bus address and length in bytes of what is in it.
pub(super) type Range = (File, (u64, u64));

pub(super) fn map(ranges: Vec<Range>) -> Result<SharedMemory, AttachError> {
    let mut regions = Vec::new();
    for (file, (address, bytes)) in ranges {
        let bytes = usize::try_from(bytes).map_err(|_| bad("it is longer than memory"))?;
        regions.push((GuestAddress(address), bytes, Some(FileOffset::new(file, 0))));
    }
    regions.sort_by_key(|region| region.0);
    GuestMemoryMmap::from_ranges_with_files(regions)
        .map(SharedMemory::new)
        .map_err(|error| bad(error.to_string()))
}
