//! When a client of the data store has asked, and how long each answer took: words that the client stores and the
//! support side reads, so that nobody waits.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use warikomi_clock::{Span, Time, TscClock};
use warikomi_shared::{SharedWords, create_region};

/// Requests that are kept, the latest ones: some seconds of a client that asks each millisecond.
const KEPT: u64 = 1 << 14;
/// How many there were; behind it, for each one that is kept, the counter's ticks and nanoseconds.
const COUNT: usize = 0;
const FIRST: usize = 2;
const BYTES: usize = size_of::<u64>() * (FIRST + 2 * KEPT as usize);

/// A request to a data store that belongs to no replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRequest {
    /// It was made.
    pub at: Time,
    /// Until it was answered.
    pub took: Span,
}

/// Memory for a log.
pub(crate) fn create() -> io::Result<File> {
    create_region("warikomi-store-requests", BYTES as u64)
}

fn place(number: u64) -> usize {
    FIRST + 2 * (number % KEPT) as usize
}

/// The client's end.
pub(crate) struct Writer {
    words: SharedWords,
    count: u64,
}

impl Writer {
    pub(crate) fn new(file: OwnedFd) -> io::Result<Writer> {
        Ok(Writer { words: SharedWords::map(file.into(), 0, BYTES)?, count: 0 })
    }

    /// A request that was made at `tsc` was answered after so many nanoseconds.
    pub(crate) fn note(&mut self, tsc: u64, ns: u64) {
        let at = place(self.count);
        self.words[at].store(tsc, Relaxed);
        self.words[at + 1].store(ns, Relaxed);
        self.count += 1;
        self.words[COUNT].store(self.count, Release);
    }
}

/// The support side's end.
pub(crate) struct Reader {
    words: SharedWords,
    read: u64,
}

impl Reader {
    pub(crate) fn new(file: File) -> io::Result<Reader> {
        Ok(Reader { words: SharedWords::map(file, 0, BYTES)?, read: 0 })
    }

    /// Those since the last call, as far as they are kept. A client may claim anything: it is at most as many as are
    /// kept.
    pub(crate) fn take(&mut self, clock: &TscClock) -> impl Iterator<Item = StoreRequest> {
        let count = self.words[COUNT].load(Acquire);
        let from = self.read.max(count.saturating_sub(KEPT));
        self.read = count;
        (from..count).map(|number| {
            let at = place(number);
            let [tsc, ns] = [at, at + 1].map(|at| self.words[at].load(Relaxed));
            StoreRequest { at: clock.at(tsc), took: Span::from_ps(ns.saturating_mul(1_000)) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_read_once_and_of_too_many_the_latest() {
        let file = create().unwrap();
        let mut reader = Reader::new(file.try_clone().unwrap()).unwrap();
        let mut writer = Writer::new(file.into()).unwrap();
        let clock = TscClock::with_frequency(0, 1e9);
        let took = |reader: &mut Reader| -> Vec<u64> {
            reader.take(&clock).map(|request| request.took.as_ps() / 1_000).collect()
        };
        assert!(took(&mut reader).is_empty());
        (0..3).for_each(|ns| writer.note(ns, ns));
        assert_eq!(took(&mut reader), [0, 1, 2]);
        (0..KEPT + 5).for_each(|ns| writer.note(ns, ns));
        let late = took(&mut reader);
        assert_eq!((late.len() as u64, late[0]), (KEPT, 5));
        assert!(took(&mut reader).is_empty());
    }

    #[test]
    fn a_client_that_claims_nonsense_is_read_as_far_as_there_is_room() {
        let file = create().unwrap();
        let mut reader = Reader::new(file.try_clone().unwrap()).unwrap();
        let words = SharedWords::map(file, 0, BYTES).unwrap();
        words[COUNT].store(u64::MAX, Release);
        words[FIRST + 1].store(u64::MAX, Relaxed);
        assert_eq!(reader.take(&TscClock::with_frequency(0, 1e9)).count() as u64, KEPT);
    }
}
