//! What a card does not see of its driver.

use std::fmt;

use super::Misuse;

/// A transfer of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its bus address.
    pub address: u64,
    /// How long it is.
    pub bytes: usize,
    /// To memory; otherwise from there.
    pub writes: bool,
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.writes { "to" } else { "from" };
        write!(f, "{} bytes {way} {:#x}", self.bytes, self.address)
    }
}

/// What can be said of a driver by looking at it rather than at the card. It is asked while the driver waits for an
/// access, and while it goes on.
pub trait Witness: fmt::Debug {
    /// What is wrong with a transfer; `None` if nothing is, or that is not known.
    fn objection(&mut self, transfer: Transfer) -> Option<Misuse>;

    /// The functions in which the driver is, the innermost first; empty if that is not known.
    fn stack(&mut self) -> Vec<String>;

    /// What it cannot look at in this target, each in words.
    fn unseen(&self) -> Vec<&'static str> {
        Vec::new()
    }
}
