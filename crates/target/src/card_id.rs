//! Which card of a target.

use std::fmt;

/// A card of a target, by its number: from 0, in the order in which the target was given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId(pub u8);

impl CardId {
    /// The first card, which every target has.
    pub const FIRST: CardId = CardId(0);
}

impl fmt::Display for CardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
