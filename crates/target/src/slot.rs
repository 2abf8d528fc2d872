//! The place of a card.

use std::ops::{Deref, DerefMut};

use warikomi_nic::Nic;

/// The place of a card in a target, in which something can be put around it.
pub struct Slot(Option<Box<dyn Nic>>);

impl Slot {
    /// A slot with this card.
    pub fn new(nic: Box<dyn Nic>) -> Slot {
        Slot(Some(nic))
    }

    /// Puts what `change` makes of the card into its place.
    pub fn change(&mut self, change: &mut dyn FnMut(Box<dyn Nic>) -> Box<dyn Nic>) {
        self.0 = self.0.take().map(change);
    }
}

const NEVER_EMPTY: &str = "a slot is empty only while its card is being changed";

impl Deref for Slot {
    type Target = dyn Nic;

    #[inline]
    fn deref(&self) -> &dyn Nic {
        self.0.as_deref().expect(NEVER_EMPTY)
    }
}

impl DerefMut for Slot {
    #[inline]
    fn deref_mut(&mut self) -> &mut dyn Nic {
        self.0.as_deref_mut().expect(NEVER_EMPTY)
    }
}
