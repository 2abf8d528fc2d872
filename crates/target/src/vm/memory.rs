//! The memory of a client: the windows that it has mapped for DMA (QEMU documentation, `docs/interop/vfio-user.rst`,
//! "VFIO_USER_DMA_MAP", "VFIO_USER_DMA_UNMAP", "VFIO_USER_DMA_READ", "VFIO_USER_DMA_WRITE").
//!
//! A window is reached in one of three ways:
//! - Its file is mapped, if it is one that can be sealed against being cut short, as `memory-backend-memfd` makes it and
//!   as every memfd with MFD_ALLOW_SEALING is. Then an access cannot end us (SIGBUS). Such a file belongs to no mounted
//!   file system, so it does not run full either. The pages are not made beforehand: a client may name much memory that
//!   it never uses.
//! - A file in memory that cannot be sealed (one in `/dev/shm`) is read and written by system calls. It may be cut short
//!   at any time; then a transfer fails, and nothing else happens.
//! - A window without a file is asked for by messages.
//!
//! Other files are refused: one on a disk or of a user's file system could make us wait, and pages of `hugetlbfs` can be
//! taken away under a mapping.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fcntl_getfl, fstatfs};
use rustix::io::Errno;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use warikomi_pci::{Descriptor, DmaError, DmaMemory, Pieces, SharedMemory};

use super::channel::{Channel, ClientError};
use super::protocol::{DmaMap, MOST_DATA_BYTES, command, dma_access, dma_data, dma_done};
use super::version::{MOST_WINDOWS, PAGE_BYTES};

/// `TMPFS_MAGIC` (Linux, `include/uapi/linux/magic.h`).
const TMPFS: i64 = 0x0102_1994;

/// Why a window cannot be had: what its reply says, and what is wrong.
pub(super) type Refusal = (Errno, &'static str);

/// How a window is reached.
#[derive(Debug)]
enum Backing {
    /// Mapped.
    Mapped(SharedMemory),
    /// By system calls, from this place in the file on.
    File(File, u64),
    /// By messages.
    Messages,
}

#[derive(Debug)]
struct Window {
    address: u64,
    bytes: u64,
    readable: bool,
    writable: bool,
    backing: Backing,
}

impl Window {
    /// The place of an address in it, and how much of a transfer of `len` bytes lies in it from there on.
    #[inline]
    fn part(&self, address: u64, len: usize) -> Option<(u64, usize)> {
        let at = address.checked_sub(self.address).filter(|at| *at < self.bytes)?;
        Some((at, usize::try_from(self.bytes - at).map_or(len, |left| left.min(len))))
    }
}

/// The windows, and the connection by which those without a file are reached.
pub(super) struct ClientMemory {
    /// In the order of their addresses.
    windows: Vec<Window>,
    /// The window of the last access: the next one is mostly there, too.
    last: Cell<usize>,
    channel: RefCell<Channel>,
    /// The most data that the client takes in one message.
    most_data_bytes: usize,
}

impl ClientMemory {
    pub(super) fn new(channel: Channel) -> ClientMemory {
        ClientMemory {
            windows: Vec::new(),
            last: Cell::new(0),
            channel: RefCell::new(channel),
            most_data_bytes: MOST_DATA_BYTES,
        }
    }

    pub(super) fn channel(&mut self) -> &mut Channel {
        self.channel.get_mut()
    }

    /// What has been agreed on.
    pub(super) fn set_most_data_bytes(&mut self, bytes: usize) {
        self.most_data_bytes = bytes;
    }

    pub(super) fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Takes a window in.
    pub(super) fn map(&mut self, map: &DmaMap, files: Vec<File>) -> Result<(), Refusal> {
        let DmaMap { readable, writable, offset, address, bytes } = *map;
        let Some(end) = address.checked_add(bytes).filter(|_| bytes > 0) else {
            return Err((Errno::INVAL, "a window that ends nowhere"));
        };
        if [address, bytes, offset].into_iter().any(|value| !value.is_multiple_of(PAGE_BYTES)) {
            return Err((Errno::INVAL, "a window that is not whole pages of 4096 bytes"));
        }
        // Those before it end before it, and those behind it begin behind it.
        let place = self.windows.partition_point(|window| window.address < address);
        let before = place.checked_sub(1).map(|before| &self.windows[before]);
        let overlaps = before.is_some_and(|window| window.address + window.bytes > address)
            || self.windows.get(place).is_some_and(|window| window.address < end);
        if overlaps {
            return Err((Errno::EXIST, "a window over one that is there"));
        }
        if self.windows.len() >= MOST_WINDOWS {
            return Err((Errno::NOSPC, "more windows than max_dma_maps"));
        }
        let mut files = files.into_iter();
        let backing = match (files.next(), files.next()) {
            (None, _) => Backing::Messages,
            (Some(file), None) => backing(file, map)?,
            (Some(_), Some(_)) => return Err((Errno::INVAL, "a window with several files")),
        };
        self.windows.insert(place, Window { address, bytes, readable, writable, backing });
        Ok(())
    }

    /// Takes the window away that begins and ends there.
    pub(super) fn unmap(&mut self, address: u64, bytes: u64) -> Result<(), Refusal> {
        let found = self
            .windows
            .binary_search_by_key(&address, |window| window.address)
            .ok()
            .filter(|at| self.windows[*at].bytes == bytes);
        match found {
            Some(at) => drop(self.windows.remove(at)),
            None => return Err((Errno::NOENT, "no window begins and ends there")),
        }
        Ok(())
    }

    pub(super) fn unmap_all(&mut self) {
        self.windows.clear();
    }

    /// The window of this address.
    #[inline]
    fn find(&self, address: u64) -> Option<&Window> {
        let last = self.windows.get(self.last.get());
        if let Some(window) = last.filter(|window| window.part(address, 0).is_some()) {
            return Some(window);
        }
        let at = self.windows.partition_point(|window| window.address <= address).checked_sub(1)?;
        self.last.set(at);
        self.windows.get(at).filter(|window| window.part(address, 0).is_some())
    }

    /// The memory in which all of a transfer is mapped.
    #[inline]
    fn mapped(&self, address: u64, len: usize, writes: bool) -> Option<&SharedMemory> {
        let window = self.find(address)?;
        let (_, part) = window.part(address, len)?;
        let allowed = if writes { window.writable } else { window.readable };
        match &window.backing {
            Backing::Mapped(memory) if allowed && part == len => Some(memory),
            _ => None,
        }
    }

    #[cold]
    fn read_parts(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        let len = into.len();
        let error = DmaError::NotShared { address, len };
        let (mut at, mut rest) = (address, into);
        while !rest.is_empty() {
            let window = self.find(at).filter(|window| window.readable).ok_or(error)?;
            let (offset, part) = window.part(at, rest.len()).ok_or(error)?;
            let (now, later) = rest.split_at_mut(part);
            match &window.backing {
                Backing::Mapped(memory) => memory.read(at, now)?,
                Backing::File(file, begin) => {
                    file.read_exact_at(now, begin + offset).map_err(|_| error)?;
                }
                Backing::Messages => self.read_by_message(at, now).ok_or(error)?,
            }
            (at, rest) = (at.wrapping_add(part as u64), later);
        }
        Ok(())
    }

    #[cold]
    fn write_parts(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        let error = DmaError::NotShared { address, len: from.len() };
        let (mut at, mut rest) = (address, from);
        while !rest.is_empty() {
            let window = self.find(at).filter(|window| window.writable).ok_or(error)?;
            let (offset, part) = window.part(at, rest.len()).ok_or(error)?;
            let (now, later) = rest.split_at(part);
            match &window.backing {
                Backing::Mapped(memory) => memory.write(at, now)?,
                Backing::File(file, begin) => {
                    write_inside(file, now, begin + offset).map_err(|_| error)?;
                }
                Backing::Messages => self.write_by_message(at, now).ok_or(error)?,
            }
            (at, rest) = (at.wrapping_add(part as u64), later);
        }
        Ok(())
    }

    fn read_by_message(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let mut channel = self.channel.borrow_mut();
        let mut at = address;
        for piece in into.chunks_mut(self.most_data_bytes) {
            let bytes = piece.len();
            let answer = channel.ask(command::DMA_READ, &[&dma_access(at, bytes)]).ok()??;
            let Some(data) = dma_data(&answer, at, bytes) else {
                channel.give_up(ClientError::WrongData { address: at, bytes });
                return None;
            };
            piece.copy_from_slice(data);
            at = at.wrapping_add(bytes as u64);
        }
        Some(())
    }

    fn write_by_message(&self, address: u64, from: &[u8]) -> Option<()> {
        let mut channel = self.channel.borrow_mut();
        let mut at = address;
        for piece in from.chunks(self.most_data_bytes) {
            let bytes = piece.len();
            let answer =
                channel.ask(command::DMA_WRITE, &[&dma_access(at, bytes), piece]).ok()??;
            if !dma_done(&answer, at, bytes) {
                // QEMU's is empty, and it has taken the data from another place.
                channel.give_up(ClientError::WrongData { address: at, bytes });
                return None;
            }
            at = at.wrapping_add(piece.len() as u64);
        }
        Some(())
    }
}

/// Writes where the file is, and makes it no longer: what was cut off is no memory any more.
fn write_inside(file: &File, bytes: &[u8], at: u64) -> std::io::Result<()> {
    let end = at.checked_add(bytes.len() as u64);
    if end.is_none_or(|end| file.metadata().map_or(true, |about| about.len() < end)) {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    file.write_all_at(bytes, at)
}

/// How the file of a window is reached.
fn backing(file: File, map: &DmaMap) -> Result<Backing, Refusal> {
    let DmaMap { writable, offset, address, bytes, .. } = *map;
    const NO_FILE: Refusal = (Errno::BADF, "a descriptor that is no file");
    let about = file.metadata().map_err(|_| NO_FILE)?;
    let end = offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok());
    if !about.is_file() || end.is_none_or(|end| about.len() < end) {
        return Err((Errno::INVAL, "a window beyond the end of its file"));
    }
    let is_memory = fstatfs(&file).is_ok_and(|system| system.f_type == TMPFS);
    if !is_memory {
        return Err((
            Errno::INVAL,
            "a window of a file that is not in memory, or in huge pages: give the guest \
             memory-backend-memfd,share=on",
        ));
    }
    if fcntl_getfl(&file).is_ok_and(|flags| flags.contains(OFlags::APPEND)) {
        return Err((Errno::INVAL, "a descriptor that writes at the end of its file alone"));
    }
    let _ = fcntl_add_seals(&file, SealFlags::SHRINK);
    if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return Ok(Backing::File(file, offset));
    }
    // What it was before it was sealed does not count.
    if file.metadata().map_err(|_| NO_FILE)?.len() < offset + bytes {
        return Err((Errno::INVAL, "a window beyond the end of its file"));
    }
    let write = if writable { nix::libc::PROT_WRITE } else { 0 };
    let cannot: Refusal = (Errno::INVAL, "a window whose file cannot be mapped as it says");
    let region = MmapRegionBuilder::new(usize::try_from(bytes).map_err(|_| cannot)?)
        .with_mmap_prot(nix::libc::PROT_READ | write)
        .with_mmap_flags(nix::libc::MAP_SHARED | nix::libc::MAP_NORESERVE)
        .with_file_offset(FileOffset::new(file, offset))
        .build()
        .map_err(|_| cannot)?;
    let region = GuestRegionMmap::new(region, GuestAddress(address)).ok_or(cannot)?;
    let regions = GuestMemoryMmap::from_regions(vec![region]).map_err(|_| cannot)?;
    Ok(Backing::Mapped(SharedMemory::new(regions)))
}

fn aligned(address: u64) -> Result<(), DmaError> {
    if address.is_multiple_of(4) { Ok(()) } else { Err(DmaError::Misaligned { address }) }
}

impl DmaMemory for ClientMemory {
    #[inline]
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        match self.mapped(address, into.len(), false) {
            Some(memory) => memory.read(address, into),
            None => self.read_parts(address, into),
        }
    }

    #[inline]
    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        match self.mapped(address, from.len(), true) {
            Some(memory) => memory.write(address, from),
            None => self.write_parts(address, from),
        }
    }

    #[inline]
    fn load_u32(&self, address: u64) -> Result<u32, DmaError> {
        aligned(address)?;
        if let Some(memory) = self.mapped(address, 4, false) {
            return memory.load_u32(address);
        }
        let mut bytes = [0; 4];
        self.read_parts(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    #[inline]
    fn store_u32(&self, address: u64, value: u32) -> Result<(), DmaError> {
        aligned(address)?;
        match self.mapped(address, 4, true) {
            Some(memory) => memory.store_u32(address, value),
            None => self.write_parts(address, &value.to_le_bytes()),
        }
    }

    #[inline]
    fn write_pieces(&self, address: u64, pieces: &Pieces<'_>) -> Result<(), DmaError> {
        match self.mapped(address, pieces.bytes(), true) {
            Some(memory) => memory.write_pieces(address, pieces),
            None => self.write_parts(address, &pieces.concat()),
        }
    }

    fn expect_writes(&self, addresses: &[u64], len: usize) {
        for &address in addresses {
            if let Some(memory) = self.mapped(address, len, true) {
                memory.expect_writes(&[address], len);
            }
        }
    }

    #[inline]
    fn load_descriptor(&self, address: u64) -> Result<Descriptor, DmaError> {
        if let Some(memory) = self.mapped(address, 16, false) {
            return memory.load_descriptor(address);
        }
        let first = self.load_u32(address)?;
        let mut rest = [0; 12];
        self.read_parts(address.wrapping_add(4), &mut rest)?;
        let [b, c, d] = [0, 4, 8].map(|at| [rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        Ok(Descriptor::new([
            first,
            u32::from_le_bytes(b),
            u32::from_le_bytes(c),
            u32::from_le_bytes(d),
        ]))
    }

    #[inline]
    fn store_descriptor(&self, address: u64, words: Descriptor) -> Result<(), DmaError> {
        if let Some(memory) = self.mapped(address, 16, true) {
            return memory.store_descriptor(address, words);
        }
        let [first, rest @ ..] = words.words();
        self.write_parts(address.wrapping_add(4), rest.map(u32::to_le_bytes).as_flattened())?;
        self.store_u32(address, first)
    }
}

#[cfg(test)]
mod tests;
