//! What a provider had when it died, and comes back to the user without a name.

use std::collections::BTreeSet;

use warikomi_shared::{Producer, Words};

use crate::custody::{Custody, Place};
use crate::entry::{Slice, flags};

/// The buffers that a dead provider had and its successor has given back without a name
/// ([`flags::FORGOTTEN`]), on one of the ways down.
#[derive(Default)]
pub(super) struct Lost {
    /// What the provider had taken in all when it died.
    taken: u64,
    /// The next to come back is the last.
    tokens: Vec<u32>,
}

impl Lost {
    /// The buffer that an entry of count `at` gives back, if it can: `asked` is where it was handed over,
    /// and `place` where it is.
    #[cold]
    pub(super) fn next<W: Words>(
        &mut self,
        slice: Slice,
        at: u64,
        asked: &Producer<W>,
        custody: &Custody,
        place: Place,
    ) -> Option<Slice> {
        // Every entry answers one that was taken, so what is not answered yet are these.
        let taken = at.wrapping_add(slice.extra);
        if self.taken != taken {
            let mut tokens = lost(asked, custody, place, slice.extra, taken);
            tokens.reverse();
            *self = Lost { taken, tokens };
        }
        let token = self.tokens.pop()?;
        Some(Slice {
            token,
            flags: slice.flags & !flags::FORGOTTEN,
            offset: 0,
            length: 0,
            extra: 0,
        })
    }
}

/// The buffers that are at `place` and were handed over before count `taken`: `left` of them, if nobody is
/// wrong. First those that were handed over last, in that order, then the others.
fn lost<W: Words>(
    asked: &Producer<W>,
    custody: &Custody,
    place: Place,
    left: u64,
    taken: u64,
) -> Vec<u32> {
    let token = |entry| Slice::from_entry(entry).token;
    let mut seen: BTreeSet<u32> = asked.again(taken, asked.count()).map(token).collect();
    let latest = asked.again(taken.wrapping_sub(left), taken).map(token);
    let all = latest.filter(|&token| custody.place(token) == Some(place)).chain(custody.at(place));
    all.filter(|&token| seen.insert(token)).collect()
}
