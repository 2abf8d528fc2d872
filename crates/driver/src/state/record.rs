//! The record: what a driver that hands over knows about its rings, and what it has counted.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use warikomi_pci::attach::area::{self, PRESENT, TOKEN_MASK, counters, record};

use super::error::{StateError, invalid, verify};
use super::words::StateArea;
use super::{InUse, Slot, Slots};

/// Position of a driver on one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Count of the first buffer or frame that is on the ring: all before it have been shown.
    pub given: u64,
    /// Count of the next to be put on the ring.
    pub taken: u64,
    /// Index of the descriptor of `given`.
    pub index: usize,
}

impl Progress {
    /// Descriptors in use.
    fn in_use(self) -> u64 {
        self.taken.wrapping_sub(self.given)
    }
}

/// What a driver that hands over knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The driver's generation.
    pub generation: u32,
    /// Receive.
    pub rx: Progress,
    /// Transmit.
    pub tx: Progress,
}

/// What drivers have counted, one after the other: packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes of the received frames.
    pub rx_bytes: u64,
    /// Frames refused for an error.
    pub rx_errors: u64,
    /// Frames transmitted.
    pub tx_packets: u64,
    /// Bytes of the transmitted frames.
    pub tx_bytes: u64,
    /// Frames that could not be transmitted.
    pub tx_errors: u64,
}

impl Counters {
    fn to_words(self) -> [u64; counters::COUNT] {
        let mut words = [0; counters::COUNT];
        for (at, value) in [
            (counters::RX_PACKETS, self.rx_packets),
            (counters::RX_BYTES, self.rx_bytes),
            (counters::RX_ERRORS, self.rx_errors),
            (counters::TX_PACKETS, self.tx_packets),
            (counters::TX_BYTES, self.tx_bytes),
            (counters::TX_ERRORS, self.tx_errors),
        ] {
            words[at] = value;
        }
        words
    }

    fn from_words(words: [u64; counters::COUNT]) -> Counters {
        Counters {
            rx_packets: words[counters::RX_PACKETS],
            rx_bytes: words[counters::RX_BYTES],
            rx_errors: words[counters::RX_ERRORS],
            tx_packets: words[counters::TX_PACKETS],
            tx_bytes: words[counters::TX_BYTES],
            tx_errors: words[counters::TX_ERRORS],
        }
    }
}

/// The version from which on a record carries counters.
const WITH_COUNTERS: u64 = 2;

impl StateArea {
    /// Writes what has been counted so far, for a successor; now and then, and before
    /// [`write_record`](Self::write_record), but not between that and the end. A driver of version 1
    /// writes none.
    pub fn set_counters(&self, counted: &Counters) {
        if self.version < WITH_COUNTERS {
            return;
        }
        for (number, word) in counted.to_words().into_iter().enumerate() {
            self.words.store(record::COUNTERS + number, word, Relaxed);
        }
        self.words.store(record::VERSION, self.version, Release);
    }

    /// What drivers before this one have counted; nothing if the last one, or this one, has version 1.
    pub fn counters(&self) -> Option<Counters> {
        let there = self.version >= WITH_COUNTERS && self.word(record::VERSION) >= WITH_COUNTERS;
        let words = std::array::from_fn(|number| self.word(record::COUNTERS + number));
        there.then(|| Counters::from_words(words))
    }

    /// Writes the record, and then its checksum: the last that a driver stores before the baton.
    pub fn write_record(&self, record: &Record, rx: &Slots, tx: &Slots) {
        for (at, value) in [
            (record::GENERATION, record.generation.into()),
            (record::RX_GIVEN, record.rx.given),
            (record::RX_POSTED, record.rx.taken),
            (record::RX_INDEX, record.rx.index as u64),
            (record::TX_GIVEN, record.tx.given),
            (record::TX_PUT, record.tx.taken),
            (record::TX_INDEX, record.tx.index as u64),
            (record::VERSION, self.version),
        ] {
            self.words.store(at, value, Relaxed);
        }
        let mut checksum = area::checksum(self.record_words());
        for (slots, progress) in [(rx, record.rx), (tx, record.tx)] {
            let add = |word| checksum = area::checksum_with(checksum, word);
            slots.each_word(progress.index, progress.in_use() as usize, add);
        }
        self.words.store(record::CHECKSUM, checksum, Release);
    }

    /// Reads what the record says is in use: receive and transmit.
    pub(super) fn read_record(&self, rx: &Slots, tx: &Slots) -> Result<[InUse; 2], StateError> {
        let expected = self.words.load(record::CHECKSUM, Acquire);
        let rx = (self.noted(record::RX_GIVEN, rx)?, rx);
        let tx = (self.noted(record::TX_GIVEN, tx)?, tx);
        let mut checksum = area::checksum(self.record_words());
        let both = [rx, tx].map(|(progress, slots)| named(slots, progress, &mut checksum));
        verify("record", checksum, expected)?;
        let [rx, tx] = both;
        Ok([rx?, tx?])
    }

    /// Where the record says that a driver was on a ring; its three words begin at `given`.
    fn noted(&self, given: usize, slots: &Slots) -> Result<Progress, StateError> {
        let [given, taken, index] = [given, given + 1, given + 2].map(|at| self.word(at));
        let noted = Progress { given, taken, index: index as usize };
        let count = noted.in_use();
        if count > slots.len() as u64 || index >= slots.len() as u64 {
            return invalid(format!(
                "the record has {count} descriptors in use from {index} on, of {}",
                slots.len()
            ));
        }
        Ok(noted)
    }

    /// What the record's checksum is over, but for the slots.
    fn record_words(&self) -> impl Iterator<Item = u64> + '_ {
        (record::CHECKSUM + 1..record::END).map(|at| self.word(at))
    }
}

/// What is in use by a record, whose checksum goes on over the slots.
fn named(slots: &Slots, noted: Progress, checksum: &mut u64) -> Result<InUse, StateError> {
    let Progress { given, index, .. } = noted;
    let mut tokens = Vec::with_capacity(slots.len());
    let mut wrong = None;
    slots.each_word(index, noted.in_use() as usize, |word| {
        *checksum = area::checksum_with(*checksum, word);
        let number = tokens.len();
        let count = given.wrapping_add(number as u64) as u32;
        if word & !TOKEN_MASK != u64::from(count) << 32 | PRESENT {
            wrong = wrong.or(Some((word, number)));
        }
        tokens.push((word & TOKEN_MASK) as u32);
    });
    match wrong {
        None => Ok(InUse { first: given, index, tokens }),
        Some((word, number)) => Err(not_named(word, number, index)),
    }
}

/// Of slot `number` from `index` on, whose word is not what the record lets expect.
#[cold]
fn not_named(word: u64, number: usize, index: usize) -> StateError {
    match Slot::from_word(word) {
        Err(error) => error,
        Ok(slot) => StateError::Nonsense(format!(
            "the record has descriptor {number} from {index} on in use, but its slot says {slot:?}"
        )),
    }
}

const _: () = assert!(
    record::RX_POSTED == record::RX_GIVEN + 1
        && record::RX_INDEX == record::RX_GIVEN + 2
        && record::TX_PUT == record::TX_GIVEN + 1
        && record::TX_INDEX == record::TX_GIVEN + 2
);
