//! Mapped memory as words.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::thread::futex;
use rustix::time::Timespec;
use vm_memory::{FileOffset, MmapRegion};

use crate::Words;

/// Makes a file of `bytes` zeros in memory that nobody can make shorter or longer: whoever gets it
/// cannot pull the pages away from under the others.
pub fn create_region(name: &str, bytes: u64) -> io::Result<File> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Words in a mapped file.
#[derive(Clone, Debug)]
pub struct SharedWords {
    map: Arc<MmapRegion>,
}

impl SharedWords {
    /// Maps `bytes` of `file` from `offset` on, which is a multiple of the page size.
    pub fn map(file: File, offset: u64, bytes: usize) -> io::Result<SharedWords> {
        if bytes == 0 || !bytes.is_multiple_of(size_of::<u64>()) {
            let what = format!("{bytes} bytes are no whole number of 64-bit words");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let end = offset.checked_add(bytes as u64);
        if end.is_none_or(|end| file.metadata().is_ok_and(|data| data.len() < end)) {
            let what = format!("{bytes} bytes from {offset} on reach beyond the end of the file");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let map = MmapRegion::from_file(FileOffset::new(file, offset), bytes)
            .map_err(io::Error::other)?;
        Ok(SharedWords { map: Arc::new(map) })
    }

    /// Words of this process alone, which Miri can map, too.
    #[cfg(test)]
    pub(crate) fn anonymous(bytes: usize) -> SharedWords {
        SharedWords { map: Arc::new(MmapRegion::new(bytes).unwrap()) }
    }
}

impl SharedWords {
    /// Sleeps while the lower half of word `at` is `value`, until somebody [wakes](Self::wake) its
    /// sleepers or the time is up; may also return early. Works between processes.
    pub fn wait_while(&self, at: usize, value: u32, timeout: Duration) {
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
        // Whatever ends it, the caller looks at the word again.
        let _ = futex::wait(self.lower_half(at), futex::Flags::empty(), value, Some(&timeout));
    }

    /// Wakes the process that sleeps on word `at`, after it was changed.
    pub fn wake(&self, at: usize) {
        let _ = futex::wake(self.lower_half(at), futex::Flags::empty(), i32::MAX as u32);
    }

    #[expect(unsafe_code, reason = "a futex is half of a word")]
    fn lower_half(&self, at: usize) -> &AtomicU32 {
        let half: *const AtomicU32 = (&raw const self[at]).cast();
        // SAFETY: it points to the first half of a live word, which on the little-endian machines that
        // this runs on is the lower one, and any bytes are a valid value. It is used as a futex only:
        // the kernel reads it, nobody writes through it.
        unsafe { &*half }
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline]
    #[expect(unsafe_code, reason = "mapped memory as atomic words is what this crate is for")]
    fn deref(&self) -> &[AtomicU64] {
        let first = self.map.as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping is at least this long and page aligned, it lives as long as `self.map`,
        // which is borrowed, and any bytes are a valid word. What another process does to the memory
        // at the same time is what an atomic is for.
        unsafe { slice::from_raw_parts(first, self.map.size() / size_of::<u64>()) }
    }
}

impl Words for SharedWords {
    #[inline]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self[at].load(order)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self[at].store(value, order);
    }

    #[inline]
    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self[at].swap(value, order)
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    #[test]
    #[cfg_attr(miri, ignore = "how long a wait takes is not the kernel's affair under Miri")]
    fn a_wait_lasts_until_it_is_woken_or_its_time_is_up() {
        const LONG: Duration = Duration::from_secs(100);
        let words = SharedWords::anonymous(4_096);
        // Only the lower half is looked at.
        words.store(3, 7 << 32, Ordering::Relaxed);
        let wait = |value, timeout| {
            let begun = Instant::now();
            words.wait_while(3, value, timeout);
            begun.elapsed()
        };
        assert!(wait(1, LONG) < LONG, "it is another value");
        assert!(wait(0, Duration::from_millis(20)) >= Duration::from_millis(20));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(0, LONG));
            // It may not be asleep yet.
            while !waiter.is_finished() {
                words.wake(3);
                thread::sleep(Duration::from_millis(1));
            }
            assert!(waiter.join().unwrap() < LONG);
        });
    }

    /// Each of two threads writes a word of its own and then reads the other's. With a full fence between the two, one
    /// of them at least sees what the other has written; without it, processors let a read overtake a write.
    #[test]
    fn a_read_does_not_overtake_a_write_before_a_fence() {
        const ROUNDS: u64 = if cfg!(miri) { 100 } else { 100_000 };
        let (written, seen, arrived) = ([0, 64], [128, 192], 256);
        let words = SharedWords::anonymous(4_096);
        let meet = |times: u64| {
            words[arrived].fetch_add(1, Ordering::AcqRel);
            let mut looks = 0_u32;
            while words[arrived].load(Ordering::Acquire) < 2 * times {
                looks += 1;
                // The other one may need this core.
                if looks.is_multiple_of(1_000) {
                    thread::yield_now()
                } else {
                    std::hint::spin_loop()
                }
            }
        };
        // In how many rounds neither has seen the other.
        let play = |me: usize| {
            let round = |round| {
                meet(2 * round - 1);
                words.store(written[me], round, Ordering::Relaxed);
                words.fence();
                let other = words.load(written[1 - me], Ordering::Relaxed);
                words.store(seen[me], other, Ordering::Relaxed);
                meet(2 * round);
                seen.iter().all(|at| words[*at].load(Ordering::Relaxed) != round)
            };
            (1..=ROUNDS).filter(|number| round(*number)).count()
        };
        let missed = thread::scope(|scope| {
            let other = scope.spawn(|| play(0));
            (play(1), other.join().unwrap())
        });
        assert_eq!(missed, (0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no memfd_create under Miri")]
    fn two_maps_of_one_file_show_the_same_words() {
        let file = create_region("test", 8_192).unwrap();
        let one = SharedWords::map(file.try_clone().unwrap(), 0, 8_192).unwrap();
        let other = SharedWords::map(file, 4_096, 4_096).unwrap();
        one.store(512, 7, Ordering::Release);
        assert_eq!(other.load(0, Ordering::Acquire), 7);
        assert_eq!((Words::len(&one), Words::len(&other)), (1_024, 512));
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no memfd_create under Miri")]
    fn a_region_cannot_be_cut_short() {
        let file = create_region("test", 4_096).unwrap();
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(8_192).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no memfd_create under Miri")]
    fn what_reaches_beyond_the_file_is_refused() {
        let file = create_region("test", 4_096).unwrap();
        let map = |offset, bytes| SharedWords::map(file.try_clone().unwrap(), offset, bytes);
        assert!(map(0, 4_096).is_ok());
        for (offset, bytes) in [(0, 8_192), (4_096, 4_096), (u64::MAX, 8), (0, 0), (0, 12)] {
            assert!(map(offset, bytes).is_err(), "{offset} {bytes}");
        }
    }
}
