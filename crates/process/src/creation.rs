//! What the creation of a driver process may have to wait for.
//!
//! A program that lies on a disk is read while its process is created. Here it is in memory after the first
//! time, so those reads are made anew where they are asked for: past the page cache, one after the other, each of
//! which gives the processor away until the disk has answered.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::pread;

use crate::dispatches;

/// What a read past the cache must be aligned to, and is long.
const BLOCK: usize = 4_096;
/// Reads that a creation may be made to wait for.
pub const MOST_READS: u32 = 1_000;

/// Whether a program can be read so; it is, once.
pub fn can_be_read(program: &Path) -> io::Result<()> {
    read(program, 1, None).map(drop)
}

/// Reads a program's first blocks, again and again if it has fewer. How often the watched process, if there is one,
/// has got the processor during the reads, where that is known.
pub(crate) fn read(program: &Path, blocks: u32, watched: Option<u32>) -> io::Result<Option<u64>> {
    if blocks == 0 {
        return Ok(None);
    }
    let dispatched = || watched.and_then(dispatches::of);
    let mut during = watched.map(|_| 0);
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::open(program, flags, Mode::empty())?;
    let file = File::from(file);
    let of_file = (file.metadata()?.len() / BLOCK as u64).max(1);
    let mut room = vec![0; 2 * BLOCK];
    let from = room.as_ptr().align_offset(BLOCK);
    for number in 0..u64::from(blocks) {
        let at = number % of_file * BLOCK as u64;
        let before = dispatched();
        pread(&file, &mut room[from..from + BLOCK], at)?;
        let each = before.zip(dispatched()).map(|(before, after)| after.saturating_sub(before));
        during = during.zip(each).map(|(sum, each)| sum + each);
    }
    Ok(during)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_or_not_on_a_disk_is_an_error() {
        let missing = can_be_read(Path::new("/no/such/program")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        // A file of the kernel's has no pages to go past.
        assert!(can_be_read(Path::new("/proc/self/status")).is_err());
    }

    #[test]
    fn nothing_is_read_where_nothing_is_asked_for() {
        assert_eq!(read(Path::new("/no/such/program"), 0, None).unwrap(), None);
    }
}
