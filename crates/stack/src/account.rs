//! What an application has received, as its library counts it for the support side.
//!
//! The library writes the words down whenever it gives a buffer to the application, so a program of a user's own has
//! nothing to do for it. The support side reads them and believes none: it holds them against what the driver accepted.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use warikomi_shared::Words;

use crate::channel::{ChannelPlace, words};
use crate::entry::{Slice, flags};

/// What an application's library says. Whoever maps packet memory can write anything there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserAccount {
    /// The application has mapped packet memory.
    pub attached: bool,
    /// Buffers that it has ever posted.
    pub posted: u64,
    /// Filled buffers that it was given.
    pub messages: u64,
    /// Bytes in these.
    pub bytes: u64,
}

impl UserAccount {
    /// What stands in a channel now.
    pub fn of_channel(shared: &impl Words, place: ChannelPlace) -> UserAccount {
        let word = |at| shared.load(place.first_word + at, Acquire);
        UserAccount {
            attached: word(words::USER_ATTACHED) != 0,
            posted: word(words::POSTS),
            messages: word(words::USER_MESSAGES),
            bytes: word(words::USER_BYTES),
        }
    }
}

/// The application's end of it.
pub(crate) struct Accountant<W> {
    words: W,
    first_word: usize,
    messages: u64,
    bytes: u64,
}

impl<W: Words> Accountant<W> {
    /// Says that the application is there.
    pub(crate) fn attach(shared: W, place: ChannelPlace) -> Accountant<W> {
        shared.store(place.first_word + words::USER_ATTACHED, 1, Release);
        Accountant { words: shared, first_word: place.first_word, messages: 0, bytes: 0 }
    }

    /// Takes a completion into account; a buffer that came back unused is none.
    #[inline]
    pub(crate) fn add(&mut self, slice: &Slice) {
        if slice.has(flags::RETURNED) {
            return;
        }
        self.messages = self.messages.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(slice.length.into());
        self.words.store(self.first_word + words::USER_BYTES, self.bytes, Relaxed);
        self.words.store(self.first_word + words::USER_MESSAGES, self.messages, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{PacketMemory, Shape};

    #[test]
    fn what_was_received_is_counted_and_what_came_back_unused_is_not() {
        let shape = Shape {
            channels: 1,
            application_buffers: 4,
            stack_buffers: 0,
            buffer_bytes: 2_048,
            tsc_hz: 1_000_000_000,
        };
        let (memory, _file) = PacketMemory::create(shape).unwrap();
        let place = memory.channel(0).unwrap();
        let seen = || UserAccount::of_channel(memory.words(), place);
        assert_eq!(seen(), UserAccount::default());
        let mut accountant = Accountant::attach(memory.words().clone(), place);
        let filled = |length| Slice { length, ..Slice::posted(1) };
        accountant.add(&filled(1_000));
        accountant.add(&Slice { flags: flags::RETURNED, ..filled(7) });
        accountant.add(&filled(500));
        assert_eq!(seen(), UserAccount { attached: true, posted: 0, messages: 2, bytes: 1_500 });
    }
}
