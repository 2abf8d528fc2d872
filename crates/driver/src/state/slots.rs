//! Slots: which buffer a descriptor stands for.

use std::sync::atomic::Ordering::{Relaxed, Release};

use warikomi_pci::attach::area::{MOST_SLOTS, PRESENT, RX_SLOTS, TOKEN_MASK, TX_SLOTS};

use super::error::{StateError, invalid};
use super::words::{StateArea, StateWords};

/// The buffer that a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The count of the buffer or frame, modulo 2^32.
    pub count: u32,
    /// The owner's name for it.
    pub token: u32,
}

impl Slot {
    /// The slot's word; `None` if the token has more than 24 bits.
    #[inline]
    pub fn to_word(self) -> Option<u64> {
        let token = u64::from(self.token);
        (token <= TOKEN_MASK).then_some(u64::from(self.count) << 32 | PRESENT | token)
    }

    /// What a word says; `None` inside if there never was a slot.
    pub fn from_word(word: u64) -> Result<Option<Slot>, StateError> {
        if word == 0 {
            return Ok(None);
        }
        if word as u32 & !TOKEN_MASK as u32 != PRESENT as u32 {
            return invalid(format!("{word:#018x} is no slot"));
        }
        Ok(Some(Slot { count: (word >> 32) as u32, token: (word & TOKEN_MASK) as u32 }))
    }
}

/// Words that are read with one call.
const WORDS_AT_A_TIME: usize = 64;

/// The slots of one ring.
#[derive(Clone)]
pub struct Slots {
    words: StateWords,
    first: usize,
    len: usize,
}

/// The descriptors that a predecessor's ring has in use, one a buffer or frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Count of the first.
    pub first: u64,
    /// Index of its descriptor, or of that where it would be.
    pub index: usize,
    /// Tokens of these buffers, in the ring's order.
    pub tokens: Vec<u32>,
}

impl StateArea {
    /// The slots of a receive ring of `len` descriptors, at most [`MOST_SLOTS`].
    pub fn rx_slots(&self, len: usize) -> Slots {
        self.slots(RX_SLOTS, len)
    }

    /// The slots of a transmit ring of `len` descriptors, at most [`MOST_SLOTS`].
    pub fn tx_slots(&self, len: usize) -> Slots {
        self.slots(TX_SLOTS, len)
    }

    fn slots(&self, first: usize, len: usize) -> Slots {
        assert!((1..=MOST_SLOTS).contains(&len), "a ring of {len} slots");
        Slots { words: self.words.clone(), first, len }
    }
}

impl Slots {
    /// All slots are those of descriptors that were never used.
    pub fn clear(&self) {
        (0..self.len).for_each(|index| self.words.store(self.first + index, 0, Relaxed));
    }

    /// Notes that descriptor `index` is that of buffer or frame `count`, seen after everything stored
    /// before. Refused if the token has more than 24 bits.
    #[inline]
    pub fn set(&self, index: usize, count: u64, token: u32) -> Result<(), StateError> {
        debug_assert!(index < self.len);
        let Some(word) = (Slot { count: count as u32, token }).to_word() else {
            return invalid(format!("the token {token} has more than 24 bits"));
        };
        self.words.store(self.first + index, word, Release);
        Ok(())
    }

    /// What the slot of descriptor `index` says.
    pub fn get(&self, index: usize) -> Result<Option<Slot>, StateError> {
        Slot::from_word(self.word(index))
    }

    pub(super) fn word(&self, index: usize) -> u64 {
        self.words.load(self.first + index, Relaxed)
    }

    /// Shows the words of `count` slots from `index` on, round the ring. A few of them are read at a time, on the stack:
    /// getting memory for all of them would take longer than the reading.
    pub(super) fn each_word(&self, index: usize, count: usize, mut each: impl FnMut(u64)) {
        let mut words = [0; WORDS_AT_A_TIME];
        let (mut index, mut left) = (index % self.len, count);
        while left > 0 {
            let here = &mut words[..left.min(WORDS_AT_A_TIME).min(self.len - index)];
            self.words.load_all(self.first + index, here);
            here.iter().for_each(|&word| each(word));
            left -= here.len();
            index = (index + here.len()) % self.len;
        }
    }

    /// Descriptors of the ring.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a ring has one descriptor at least.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is in use when the count of the first is `first`, and nothing else is known: the slots of
    /// `first`, `first` + 1, and so on, which lie one behind the other.
    pub(super) fn search(&self, first: u64) -> Result<InUse, StateError> {
        let slots: Vec<_> = (0..self.len).map(|index| self.get(index)).collect::<Result<_, _>>()?;
        let distance = |slot: Slot| slot.count.wrapping_sub(first as u32) as i32;
        // Everything before `first` has been shown; the latest of that is right before it.
        let places =
            || slots.iter().enumerate().filter_map(|(at, slot)| Some((at, distance((*slot)?))));
        let begin = places().find(|place| place.1 == 0).map(|place| place.0);
        let latest = || places().filter(|place| place.1 < 0).max_by_key(|place| place.1);
        let behind = || latest().map_or(0, |place| (place.0 + 1) % self.len);
        let index = begin.unwrap_or_else(behind);
        let at = |number: usize| slots[(index + number) % self.len];
        let tokens: Vec<u32> = (0..self.len)
            .map_while(|number| at(number).filter(|slot| distance(*slot) == number as i32))
            .map(|slot| slot.token)
            .collect();
        let later = places().filter(|place| place.1 >= 0).count();
        if later != tokens.len() {
            return invalid(format!(
                "{later} slots are of counts from {first} on, but only {} of them follow one another",
                tokens.len()
            ));
        }
        Ok(InUse { first, index, tokens })
    }
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("len", &self.len).finish_non_exhaustive()
    }
}
