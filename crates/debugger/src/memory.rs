//! The memory of a running process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The memory of a process, for as long as that runs. What may trace the process may open it.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// To be read.
    pub fn open(pid: u32) -> io::Result<Memory> {
        Memory::opened(pid, File::options().read(true))
    }

    /// To be read and written, also where the process itself cannot write: its code.
    pub(crate) fn open_to_write(pid: u32) -> io::Result<Memory> {
        Memory::opened(pid, File::options().read(true).write(true))
    }

    fn opened(pid: u32, options: &OpenOptions) -> io::Result<Memory> {
        options.open(format!("/proc/{pid}/mem")).map(Memory)
    }

    /// Reads bytes; an error where there is none.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address)
    }

    /// Reads this many bytes; `None` where there is none.
    pub fn bytes(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.read(address, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Reads a word; `None` where there is none.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}
