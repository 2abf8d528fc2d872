//! Programs of drivers that follow one another are held in memory.
//!
//! A system may put away pages of a program that seem cold (and some do although there is plenty of memory: DAMON), and a
//! driver that is being started then waits for the disk: on a virtual machine for seconds, now and then, which is longer
//! than its start may take. So the files that a driver's process begins with are mapped here and locked. Nothing is read
//! through these mappings.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::libc;
use procfs::process::{MMPermissions, MMapPath, Process};
use vm_memory::FileOffset;
use vm_memory::mmap::{MmapRegion, MmapRegionBuilder};

/// Of a program's file no more is held: behind its code is what only debuggers read.
const MOST_BYTES: u64 = 64 << 20;

/// What is held, by the programs for which it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Resident(Arc<Mutex<BTreeMap<PathBuf, Vec<MmapRegion>>>>);

impl Resident {
    /// Holds the files of this very process: those of its own drivers, and the libraries that others begin with, too.
    /// Whether they are held: it takes the right to lock so much (CAP_IPC_LOCK, or `ulimit -l`).
    pub(super) fn hold_ours(&self) -> bool {
        let Ok(maps) = Process::myself().and_then(|process| process.maps()) else { return false };
        // What is shared is memory of ours, which has no file on a disk and often no name that can be opened.
        let own = maps.iter().filter(|map| !map.perms.contains(MMPermissions::SHARED));
        let files = own.filter_map(|map| match &map.pathname {
            MMapPath::Path(path) => Some((path, map.offset, map.address.1 - map.address.0)),
            _ => None,
        });
        let held: Option<Vec<_>> =
            files.map(|(path, from, bytes)| lock(path, from, bytes)).collect();
        let Some(held) = held else { return false };
        self.keep(Path::new(""), held);
        true
    }

    /// Holds a program's file, if it is not held yet.
    pub(super) fn hold(&self, program: &Path) {
        let known = |held: &BTreeMap<PathBuf, _>| held.contains_key(program);
        // Behind a link of the system's is what we run ourselves.
        if program.as_os_str().as_bytes().starts_with(b"/proc/self/") || known(&self.held()) {
            return;
        }
        self.keep(program, lock(program, 0, MOST_BYTES).into_iter().collect());
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Vec<MmapRegion>>> {
        // Whatever a thread that failed has done to it, it is still what is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, program: &Path, held: Vec<MmapRegion>) {
        self.held().insert(program.to_owned(), held);
    }
}

fn lock(path: &Path, from: u64, bytes: u64) -> Option<MmapRegion> {
    // A pipe or a terminal that was named as a program does not keep us waiting for its other end.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let bytes = metadata.len().checked_sub(from)?.min(bytes);
    MmapRegionBuilder::new(bytes as usize)
        .with_mmap_prot(libc::PROT_READ)
        .with_mmap_flags(libc::MAP_SHARED | libc::MAP_LOCKED | libc::MAP_POPULATE)
        .with_file_offset(FileOffset::new(file, from))
        .build()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked_kib() -> u64 {
        Process::myself().unwrap().status().unwrap().vmlck.unwrap()
    }

    /// The only test of this program that locks memory: tests run beside each other.
    #[test]
    fn our_own_files_and_those_of_a_program_are_locked_once_and_let_go() {
        let before = locked_kib();
        if !Resident::default().hold_ours() {
            return warikomi_testbench::skipped("so much memory may not be locked (ulimit -l)");
        }
        // Memory that is shared with another process, as there is while a driver runs, changes nothing.
        let shared = warikomi_shared::create_region("shared", 1 << 12).unwrap();
        let _mapped = warikomi_shared::SharedWords::map(shared, 0, 1 << 12).unwrap();
        let resident = Resident::default();
        assert!(resident.hold_ours());
        let ours = locked_kib();
        // This program has more than a megabyte of code.
        assert!(ours > before + 1_024, "{before} KiB, then {ours}");
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("driver");
        std::fs::write(&program, vec![1; 1 << 20]).unwrap();
        for _ in 0..2 {
            resident.hold(&program);
            assert_eq!(locked_kib(), ours + 1_024);
        }
        // What is not there, or is no file, is seen when it is to be run. The other end of a pipe is not waited for.
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        for none in ["/no/such/program", "/dev/zero", "/proc/self/exe", "/tmp"] {
            resident.hold(Path::new(none));
        }
        resident.hold(&pipe);
        assert_eq!(locked_kib(), ours + 1_024);
        drop(resident);
        assert_eq!(locked_kib(), before);
    }
}
