//! The cards of a target.

use std::ops::{Deref, DerefMut};

use warikomi_nic::Nic;

use crate::card_id::CardId;
use crate::error::TargetError;

impl CardId {
    /// Its index among so many cards; an error if it is none of them.
    #[inline]
    pub fn among(self, cards: usize) -> Result<usize, TargetError> {
        let index = usize::from(self.0);
        if index < cards { Ok(index) } else { Err(TargetError::NoCard { card: self, cards }) }
    }
}

/// The place of a card, in which something can be put around it.
pub struct Slot(Option<Box<dyn Nic>>);

impl Slot {
    /// A slot with this card.
    pub fn new(nic: Box<dyn Nic>) -> Slot {
        Slot(Some(nic))
    }

    /// Puts what `change` makes of the card into its place.
    pub fn change(&mut self, change: impl FnOnce(Box<dyn Nic>) -> Box<dyn Nic>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_nic::MODELS;
    use warikomi_testbench::card;

    #[test]
    fn a_card_that_is_not_there_is_an_error_that_names_it() {
        assert_eq!(CardId(1).among(2).unwrap(), 1);
        let error = CardId(2).among(2).unwrap_err().to_string();
        assert!(error.contains("no card 2"), "{error}");
    }

    #[test]
    fn a_changed_card_takes_the_place_of_the_one_before() {
        let mut slot = Slot::new(card(MODELS[0].name));
        let mut taken_out = "";
        slot.change(|nic| {
            taken_out = nic.info().name;
            card(MODELS[1].name)
        });
        assert_eq!([taken_out, slot.info().name], [MODELS[0].name, MODELS[1].name]);
    }
}
