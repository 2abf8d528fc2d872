//! The files that the two sides share: a window for each driver, and what belongs to the device whichever
//! driver it has: the memory that it reaches by DMA, and the state area.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};

use nix::fcntl::{FallocateFlags, fallocate};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::area;
use warikomi_pci::attach::layout::{self, header, orders};
use warikomi_shared::{SharedWords, create_region};

use super::orders::Orders;

/// DMA memory is a multiple of this many bytes: a page.
const PAGE_BYTES: u64 = 4_096;

/// What belongs to a device whichever driver it has.
pub(super) struct DeviceMemory {
    /// DMA memory, and packet memory if there is any.
    pub(super) memory: SharedMemory,
    /// The state area, if drivers follow one another.
    pub(super) state: Option<SharedWords>,
    /// DMA memory, packet memory, state area: what there is of them.
    files: Vec<File>,
    dma_bytes: u64,
    packet_bytes: u64,
}

impl DeviceMemory {
    /// Makes at least `dma_bytes` of DMA memory, and a state area for a live target.
    pub(super) fn new(
        dma_bytes: u64,
        packets: Option<&File>,
        live: bool,
    ) -> io::Result<DeviceMemory> {
        let dma_bytes = dma_bytes.max(PAGE_BYTES).next_multiple_of(PAGE_BYTES);
        let mut files = vec![create_region("warikomi-dma", dma_bytes)?];
        let mut mapped = vec![map(&files[0], dma_bytes, layout::DMA_BUS_ADDRESS)?];
        let mut packet_bytes = 0;
        if let Some(file) = packets {
            packet_bytes = file.metadata()?.len();
            mapped.push(map(file, packet_bytes, layout::PACKET_BUS_ADDRESS)?);
            files.push(file.try_clone()?);
        }
        let mut state = None;
        if live {
            let file = create_region("warikomi-state", area::BYTES)?;
            state = Some(SharedWords::map(file.try_clone()?, 0, area::BYTES as usize)?);
            files.push(file);
        }
        let regions = GuestMemoryMmap::from_regions(mapped).map_err(io::Error::other)?;
        let memory = SharedMemory::new(regions);
        Ok(DeviceMemory { memory, state, files, dma_bytes, packet_bytes })
    }

    /// What each driver is handed of it, in order.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.files.iter().map(AsFd::as_fd)
    }
}

/// What a window's header says besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowOptions {
    /// The BAR that the registers are in.
    pub(super) register_bar: u8,
    /// Ticks of the time stamp counter in a second.
    pub(super) tsc_hz: f64,
    /// The driver's generation.
    pub(super) generation: u32,
    /// See [`layout::way`].
    pub(super) way: u64,
}

/// A window that nobody has been given yet.
pub(super) struct Window {
    /// To be handed over.
    pub(super) file: File,
    /// All words of the window.
    pub(super) words: SharedWords,
}

impl Window {
    /// Makes one.
    pub(super) fn new(memory: &DeviceMemory, options: &WindowOptions) -> io::Result<Window> {
        let file = create_region("warikomi-window", layout::WINDOW_BYTES)?;
        let words = SharedWords::map(file.try_clone()?, 0, layout::WINDOW_BYTES as usize)?;
        for (at, value) in [
            (header::MAGIC, layout::MAGIC),
            (header::VERSION, layout::VERSION),
            (header::WINDOW_BYTES, layout::WINDOW_BYTES),
            (header::DMA_BYTES, memory.dma_bytes),
            (header::DMA_BUS_ADDRESS, layout::DMA_BUS_ADDRESS),
            (header::PACKET_BYTES, memory.packet_bytes),
            (header::PACKET_BUS_ADDRESS, layout::PACKET_BUS_ADDRESS),
            (header::REGISTER_BAR, options.register_bar.into()),
            (header::TSC_HZ, options.tsc_hz as u64),
            (header::STATE_BYTES, memory.state.as_ref().map_or(0, |_| area::BYTES)),
            (header::GENERATION, options.generation.into()),
            (header::WAY, options.way),
        ] {
            words[at].store(value, Release);
        }
        Ok(Window { file, words })
    }
}

/// Maps a file with all its pages present, so that no packet has to wait for one.
fn map(file: &File, bytes: u64, bus: u64) -> io::Result<GuestRegionMmap> {
    let impossible = || io::Error::new(io::ErrorKind::InvalidInput, "memory of an impossible size");
    let length = |bytes: u64| i64::try_from(bytes).map_err(|_| impossible());
    fallocate(file, FallocateFlags::empty(), 0, length(bytes)?)?;
    let mapped = MmapRegionBuilder::new(bytes as usize)
        .with_mmap_prot(nix::libc::PROT_READ | nix::libc::PROT_WRITE)
        .with_mmap_flags(nix::libc::MAP_SHARED | nix::libc::MAP_NORESERVE | nix::libc::MAP_POPULATE)
        .with_file_offset(FileOffset::new(file.try_clone()?, 0))
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

/// A window and memory for tests of its users.
#[cfg(test)]
pub(super) fn for_tests() -> (Window, DeviceMemory) {
    let memory = DeviceMemory::new(PAGE_BYTES, None, false).unwrap();
    let options =
        WindowOptions { register_bar: 2, tsc_hz: 1e9, generation: 1, way: layout::way::RELOAD };
    (Window::new(&memory, &options).unwrap(), memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_pci::DmaMemory;

    #[test]
    fn the_nic_reaches_dma_memory_and_packet_memory_and_nothing_before_or_behind() {
        let file = create_region("test", 8_192).unwrap();
        let device = DeviceMemory::new(10_000, Some(&file), true).unwrap();
        let options = WindowOptions {
            register_bar: 2,
            tsc_hz: 2.5e9,
            generation: 3,
            way: layout::way::RELOAD,
        };
        let window = Window::new(&device, &options).unwrap();
        assert_eq!(window.words[header::DMA_BYTES].load(Relaxed), 12_288);
        assert_eq!(window.words[header::TSC_HZ].load(Relaxed), 2_500_000_000);
        assert_eq!(window.words[header::GENERATION].load(Relaxed), 3);
        assert_eq!(window.words[header::STATE_BYTES].load(Relaxed), area::BYTES);
        assert_eq!(device.files().count(), 3);
        let reach = |address: u64| device.memory.write(address, &[7; 8]).is_ok();
        let (dma, packet) = (layout::DMA_BUS_ADDRESS, layout::PACKET_BUS_ADDRESS);
        assert!(reach(dma) && reach(dma + 12_280) && reach(packet) && reach(packet + 8_184));
        assert!(!reach(dma - 8) && !reach(dma + 12_288) && !reach(packet + 8_192) && !reach(0));
        let theirs = SharedWords::map(device.files[0].try_clone().unwrap(), 0, 4_096).unwrap();
        assert_eq!(theirs[0].load(Relaxed), u64::from_ne_bytes([7; 8]));
    }
}
