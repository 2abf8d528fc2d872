//! The owner of each buffer. Each end of a channel keeps its own table, so that nothing that the other
//! end says can make a buffer be in two places.

use std::ops::Range;

/// Where a buffer is, as one end of a channel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With the user of the channel, who may read and write it.
    User,
    /// With the provider, to be received into.
    Posted,
    /// With the provider, to be sent.
    Sending,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Custody {
    places: Box<[Place]>,
    first: u32,
    posted: u32,
    sending: u32,
}

impl Custody {
    /// All these buffers are with the user.
    pub fn new(tokens: Range<u32>) -> Custody {
        let places = vec![Place::User; tokens.len()].into_boxed_slice();
        Custody { places, first: tokens.start, posted: 0, sending: 0 }
    }

    /// A table of the same buffers, all of them with the user.
    pub fn emptied(&self) -> Custody {
        Custody::new(self.first..self.first + self.buffers())
    }

    /// This table once the provider has these buffers of the user's as well; else the first that is none, or is not
    /// there. A driver that takes over does this while none serves its device.
    pub fn provided(mut self, posted: &[u32], sending: &[u32]) -> Result<Custody, u32> {
        for (tokens, to) in [(posted, Place::Posted), (sending, Place::Sending)] {
            for &token in tokens {
                let place = self.places.get_mut(token.wrapping_sub(self.first) as usize);
                *place.filter(|place| **place == Place::User).ok_or(token)? = to;
            }
        }
        self.posted += posted.len() as u32;
        self.sending += sending.len() as u32;
        Ok(self)
    }

    /// Moves a buffer, if it is one and is where it should be.
    #[inline]
    #[must_use]
    pub fn shift(&mut self, token: u32, from: Place, to: Place) -> bool {
        let index = token.wrapping_sub(self.first) as usize;
        let Some(place) = self.places.get_mut(index).filter(|place| **place == from) else {
            return false;
        };
        *place = to;
        for (place, change) in [(from, u32::MAX), (to, 1)] {
            match place {
                Place::User => {}
                Place::Posted => self.posted = self.posted.wrapping_add(change),
                Place::Sending => self.sending = self.sending.wrapping_add(change),
            }
        }
        true
    }

    /// Where a buffer is; `None` if it is none of this channel's.
    #[inline]
    pub fn place(&self, token: u32) -> Option<Place> {
        self.places.get(token.wrapping_sub(self.first) as usize).copied()
    }

    /// Buffers to be received into.
    #[inline]
    pub fn posted(&self) -> u32 {
        self.posted
    }

    /// Buffers to be sent.
    #[inline]
    pub fn sending(&self) -> u32 {
        self.sending
    }

    /// Buffers in all.
    pub fn buffers(&self) -> u32 {
        self.places.len() as u32
    }

    /// The buffers that are at `place`.
    pub fn at(&self, place: Place) -> impl Iterator<Item = u32> {
        let first = self.first;
        let places = self.places.iter().enumerate();
        places.filter(move |(_, at)| **at == place).map(move |(index, _)| first + index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_provider_has_is_what_was_moved_there_one_by_one(
            posted in prop::collection::vec(3u32..15, 0..6),
            sending in prop::collection::vec(3u32..15, 0..6),
        ) {
            let mut one_by_one = Custody::new(4..14);
            let wrong = [(&posted, Place::Posted), (&sending, Place::Sending)]
                .into_iter()
                .flat_map(|(tokens, to)| tokens.iter().map(move |token| (*token, to)))
                .find(|&(token, to)| !one_by_one.shift(token, Place::User, to));
            match (Custody::new(4..14).provided(&posted, &sending), wrong) {
                (Ok(custody), None) => {
                    prop_assert_eq!(&custody.places, &one_by_one.places);
                    prop_assert_eq!(custody.posted(), one_by_one.posted());
                    prop_assert_eq!(custody.sending(), one_by_one.sending());
                }
                (found, wrong) => prop_assert_eq!(found.err(), wrong.map(|(token, _)| token)),
            }
        }

        #[test]
        fn the_counts_are_those_of_the_table(moves in prop::collection::vec((0u32..20, 0u8..3, 0u8..3), 0..200)) {
            let place = |number| [Place::User, Place::Posted, Place::Sending][usize::from(number)];
            let mut custody = Custody::new(4..14);
            for (token, from, to) in moves {
                let before = custody.place(token);
                let moved = custody.shift(token, place(from), place(to));
                prop_assert_eq!(moved, before == Some(place(from)));
                prop_assert_eq!(custody.posted() as usize, custody.at(Place::Posted).count());
                prop_assert_eq!(custody.sending() as usize, custody.at(Place::Sending).count());
            }
        }
    }
}
