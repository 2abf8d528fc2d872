//! The words of a device's window, as its driver uses them: in memory that it shares with the support side, or
//! in words of one process, in virtual time and in models.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use warikomi_pci::attach::layout::{self, bells, orders, report, times};
use warikomi_shared::{Message, MessageReceiver, Sleeper, Words};

/// Orders, report, interrupts and sleep.
#[derive(Debug)]
pub struct Window<W> {
    words: W,
    interrupts: MessageReceiver<W>,
    stamped: u64,
}

impl<W: Words + Clone> Window<W> {
    /// The window in these words, of which there are as many as [`layout::WINDOW_BYTES`] has.
    pub fn new(words: W) -> Window<W> {
        Window {
            interrupts: MessageReceiver::new(words.clone(), layout::INTERRUPTS),
            stamped: words.load(bells::STAMPED, Relaxed),
            words,
        }
    }

    /// The end that sleeps; see [`Sleeper::sleep_unless`].
    #[inline]
    pub fn sleeper(&self) -> Sleeper<W> {
        Sleeper::new(self.words.clone(), bells::SLEEPING)
    }
}

impl<W: Words> Window<W> {
    /// The words.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// Whether an interrupt has come that was not taken.
    #[inline]
    pub fn interrupt_pending(&self) -> bool {
        self.interrupts.pending()
    }

    /// Takes one interrupt, if one has come: they are taken one by one; the message of its vector. It is stamped
    /// with `ticks`, the time stamp counter.
    #[inline]
    pub fn take_interrupt(&mut self, ticks: impl FnOnce() -> u64) -> Option<Message> {
        let message = self.interrupts.take()?;
        let at = layout::STAMPS + self.stamped as usize % layout::STAMPS_CAPACITY;
        self.words.store(at, ticks(), Relaxed);
        self.stamped = self.stamped.wrapping_add(1);
        self.words.store(bells::STAMPED, self.stamped, Release);
        Some(message)
    }

    /// Interrupts taken so far.
    #[inline]
    pub fn interrupts_taken(&self) -> u64 {
        self.stamped
    }

    /// A word of the orders page ([`layout::orders`]).
    #[inline]
    pub fn order(&self, word: usize) -> u64 {
        debug_assert!((orders::STOP..report::STATE).contains(&word));
        self.words.load(word, Acquire)
    }

    /// Writes a word of the report page ([`layout::report`]); seen after what was written before.
    #[inline]
    pub fn report(&self, word: usize, value: u64) {
        debug_assert!((report::STATE..layout::REQUESTS.entries).contains(&word));
        self.words.store(word, value, Release);
    }

    /// Stamps a step of a change of hands ([`layout::times`]) with the time stamp counter.
    pub fn stamp(&self, step: usize, ticks: u64) {
        debug_assert!(step < times::COUNT);
        self.report(report::TIMES + step, ticks);
    }

    /// Leaves the driver's last words.
    pub fn last_words(&self, text: &str) {
        let end = text.floor_char_boundary(layout::LAST_WORDS_BYTES);
        for (number, chunk) in text.as_bytes()[..end].chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.report(report::LAST_WORDS + number, u64::from_le_bytes(word));
        }
        self.report(report::LAST_WORDS_LEN, end as u64);
    }
}
