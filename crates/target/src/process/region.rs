//! The region that the two sides share, and the memory that the NIC reaches by DMA.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::{Relaxed, Release};

use nix::fcntl::{FallocateFlags, fallocate};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::layout::{self, header, orders};
use warikomi_shared::{SharedWords, create_region};

use super::Orders;

/// DMA memory is a multiple of this many bytes: a page.
const PAGE_BYTES: u64 = 4_096;

/// A region that nobody has been given yet.
pub(super) struct Region {
    /// To be handed over.
    pub(super) file: File,
    /// Everything before DMA memory.
    pub(super) words: SharedWords,
    /// DMA memory, and packet memory if there is any.
    pub(super) memory: SharedMemory,
}

impl Region {
    /// Makes a region with at least `dma_bytes` of DMA memory.
    pub(super) fn new(
        dma_bytes: u64,
        packets: Option<&File>,
        register_bar: u8,
        tsc_hz: f64,
    ) -> io::Result<Region> {
        let dma_bytes = dma_bytes.max(PAGE_BYTES).next_multiple_of(PAGE_BYTES);
        let region_bytes = layout::DMA_OFFSET_BYTES + dma_bytes;
        let file = create_region("warikomi-device", region_bytes)?;
        let words = SharedWords::map(file.try_clone()?, 0, layout::DMA_OFFSET_BYTES as usize)?;
        let packet_bytes =
            packets.map_or(Ok(0), |file| file.metadata().map(|about| about.len()))?;
        for (at, value) in [
            (header::MAGIC, layout::MAGIC),
            (header::VERSION, layout::VERSION),
            (header::REGION_BYTES, region_bytes),
            (header::DMA_BYTES, dma_bytes),
            (header::DMA_BUS_ADDRESS, layout::DMA_BUS_ADDRESS),
            (header::PACKET_BYTES, packet_bytes),
            (header::PACKET_BUS_ADDRESS, layout::PACKET_BUS_ADDRESS),
            (header::REGISTER_BAR, register_bar.into()),
            (header::TSC_HZ, tsc_hz as u64),
        ] {
            words[at].store(value, Release);
        }
        let dma = (&file, layout::DMA_OFFSET_BYTES, dma_bytes, layout::DMA_BUS_ADDRESS);
        let packets = packets.map(|file| (file, 0, packet_bytes, layout::PACKET_BUS_ADDRESS));
        let mapped =
            [Some(dma), packets].into_iter().flatten().map(map).collect::<io::Result<_>>()?;
        let regions = GuestMemoryMmap::from_regions(mapped).map_err(io::Error::other)?;
        Ok(Region { file, words, memory: SharedMemory::new(regions) })
    }
}

/// Maps a part of a file with all its pages present, so that no packet has to wait for one.
fn map((file, offset, bytes, bus): (&File, u64, u64, u64)) -> io::Result<GuestRegionMmap> {
    let impossible = || io::Error::new(io::ErrorKind::InvalidInput, "memory of an impossible size");
    let length = |bytes: u64| i64::try_from(bytes).map_err(|_| impossible());
    fallocate(file, FallocateFlags::empty(), length(offset)?, length(bytes)?)?;
    let mapped = MmapRegionBuilder::new(bytes as usize)
        .with_mmap_prot(nix::libc::PROT_READ | nix::libc::PROT_WRITE)
        .with_mmap_flags(nix::libc::MAP_SHARED | nix::libc::MAP_NORESERVE | nix::libc::MAP_POPULATE)
        .with_file_offset(FileOffset::new(file.try_clone()?, offset))
        .build()
        .map_err(io::Error::other)?;
    GuestRegionMmap::new(mapped, GuestAddress(bus)).ok_or_else(impossible)
}

/// Writes orders down; the driver looks at them when it comes by.
pub(super) fn give(words: &SharedWords, given: &Orders) {
    let [strategy, poll_ns, budget, cpu_budget_ppm] = given.strategy.to_orders();
    for (at, value) in [
        (orders::STRATEGY, strategy),
        (orders::POLL_NS, poll_ns),
        (orders::BUDGET, budget),
        (orders::CPU_BUDGET_PPM, cpu_budget_ppm),
        (orders::BUFFERS, given.buffers),
        (orders::BUFFER_BYTES, given.buffer_bytes),
    ] {
        words[at].store(value, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_pci::DmaMemory;

    #[test]
    fn the_nic_reaches_dma_memory_and_packet_memory_and_nothing_before_or_behind() {
        let file = create_region("test", 8_192).unwrap();
        let region = Region::new(10_000, Some(&file), 2, 2.5e9).unwrap();
        assert_eq!(region.words[header::DMA_BYTES].load(Relaxed), 12_288);
        assert_eq!(region.words[header::TSC_HZ].load(Relaxed), 2_500_000_000);
        let reach = |address: u64| region.memory.write(address, &[7; 8]).is_ok();
        let (dma, packet) = (layout::DMA_BUS_ADDRESS, layout::PACKET_BUS_ADDRESS);
        assert!(reach(dma) && reach(dma + 12_280) && reach(packet) && reach(packet + 8_184));
        assert!(!reach(dma - 8) && !reach(dma + 12_288) && !reach(packet + 8_192) && !reach(0));
        let theirs = SharedWords::map(region.file.try_clone().unwrap(), 0x2_0000, 4_096).unwrap();
        assert_eq!(theirs[0].load(Relaxed), u64::from_ne_bytes([7; 8]));
    }
}
