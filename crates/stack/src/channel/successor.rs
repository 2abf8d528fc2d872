//! Another provider goes on with a channel, because the one before has stopped or died.
//!
//! The counts of the rings say what the user has been shown; what the provider had taken and not given back
//! it had in its own memory, and that is lost. Either the successor knows it from elsewhere
//! ([`ProviderEnd::resume`]), or all of it goes back to the user ([`ProviderEnd::forget`]).

use warikomi_driver::Forgotten;
use warikomi_driver::state::{Held, Shown, StateError};
use warikomi_shared::{Consumer, Corrupt, Producer, Wakeup, Words};

use super::ProviderEnd;
use crate::custody::Custody;
use crate::entry::{NO_TOKEN, Slice, flags};

impl<W: Words, K: Wakeup> ProviderEnd<W, K> {
    /// What the user has been shown, by all providers so far.
    pub fn shown(&self) -> Shown {
        Shown { given: self.completions.shown(), sent: self.sent.shown() }
    }

    /// Goes on where another provider has stopped, with what `held` says that it had. Refused, and nothing
    /// done, if the channel's counts cannot be brought together with that.
    pub fn resume(&mut self, held: &Held) -> Result<(), StateError> {
        let shown = self.shown();
        for (what, from, taken, tokens, ring) in [
            ("buffers", shown.given, held.posts_taken, &held.posted, &self.posts),
            ("frames", shown.sent, held.transmits_taken, &held.sending, &self.transmits),
        ] {
            let outstanding = taken.wrapping_sub(from);
            if outstanding != tokens.len() as u64 {
                let found = tokens.len();
                return Err(invalid(format!("{found} {what} held, {outstanding} not given back")));
            }
            ring.waiting_from(from).and(ring.waiting_from(taken)).map_err(invalid)?;
        }
        let custody = self.custody_of(held)?;
        self.completions.resume();
        self.sent.resume();
        self.posts.resume(held.posts_taken).map_err(invalid)?;
        self.transmits.resume(held.transmits_taken).map_err(invalid)?;
        self.adopt(custody);
        Ok(())
    }

    /// Does the part of [`resume`](Self::resume) that changes nothing.
    pub fn rehearse(&self, held: &Held) {
        std::hint::black_box(self.custody_of(held).is_ok());
    }

    /// Wakes the user, whatever it is thought to be doing: a provider that died may have shown something and
    /// not rung any more. Once after [`resume`](Self::resume) or [`forget`](Self::forget).
    pub fn wake_user(&mut self) {
        self.bell.ring_unconditionally();
    }

    /// Gives everything back that other providers have taken and not given back, in whatever order they gave
    /// back: buffers unused, frames as not sent. What was not taken yet stays. An error if the channel's counts make no sense; nothing may be
    /// done with it then.
    pub fn forget(&mut self) -> Result<Forgotten, Corrupt> {
        self.completions.resume();
        self.sent.resume();
        let buffers = give_back(&mut self.posts, &mut self.completions, flags::RETURNED)?;
        let frames = give_back(&mut self.transmits, &mut self.sent, flags::FAILED)?;
        self.completions.publish();
        self.sent.publish();
        self.adopt(self.tables.custody.emptied());
        Ok(Forgotten { buffers, frames })
    }

    /// A table in which the provider has what `held` says.
    fn custody_of(&self, held: &Held) -> Result<Custody, StateError> {
        let custody = self.tables.custody.emptied().provided(&held.posted, &held.sending);
        custody.map_err(|token| invalid(format!("the buffer {token} is none, or held twice")))
    }

    fn adopt(&mut self, custody: Custody) {
        self.tables.custody = custody;
        self.unpublished = false;
        self.starved = true;
        self.awake();
    }
}

/// Answers whatever was taken from `asked` and not answered, as many entries as there were. The user knows
/// which buffers these are; here nobody does, because a provider need not give buffers back in the order in
/// which it took them.
fn give_back<W: Words>(
    asked: &mut Consumer<W>,
    answers: &mut Producer<W>,
    flags: u8,
) -> Result<u64, Corrupt> {
    let to = asked.taken();
    asked.waiting_from(to)?;
    let count = asked.taken_since(answers.shown())?;
    for left in (1..=count).rev() {
        let flags = flags | flags::FORGOTTEN;
        if !answers.push(Slice { flags, extra: left, ..Slice::posted(NO_TOKEN) }.to_entry()) {
            // There is room for every buffer, but for a user that takes nothing of what comes.
            let capacity = answers.capacity();
            return Err(Corrupt { claimed: capacity as u64 + 1, capacity });
        }
    }
    asked.resume(to)?;
    Ok(count)
}

fn invalid(what: impl ToString) -> StateError {
    StateError::Nonsense(what.to_string())
}
