//! Which card of a target.

use std::fmt;

/// A card of a target, by its number: from 0, in the order in which the target was given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId(pub u8);

impl CardId {
    /// The first card, which every target has.
    pub const FIRST: CardId = CardId(0);

    /// Where a kernel finds the card that our bridge attaches: each has a bus of its own, from 1 on.
    pub fn pci_address(self) -> String {
        format!("0000:{:02x}:00.0", u16::from(self.0) + 1)
    }
}

impl fmt::Display for CardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
