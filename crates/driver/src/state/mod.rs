//! What a driver notes about its rings, so that another driver can go on with them.
//!
//! A channel counts what has gone through it, and these counts outlive any driver; the descriptors are in
//! DMA memory, and outlive it, too. What is missing is which buffer a descriptor stands for, and that is
//! in the slots of the state area ([`warikomi_pci::attach::area`]). From the three together a successor
//! works out where its predecessor was, at whatever instruction that ended. docs/replacement.md has the
//! order in which things are written, and why.

mod baton;
mod error;
mod local;
mod record;
mod settings;
mod slots;
mod snapshot;
#[cfg(test)]
mod tests;
mod words;

pub use self::baton::{Baton, How, Turn};
pub use self::error::StateError;
use self::error::invalid;
pub use self::local::LocalWords;
pub use self::record::{Counters, Progress, Record};
pub use self::settings::Settings;
pub use self::slots::{InUse, Slot, Slots};
pub use self::snapshot::SNAPSHOT_WORDS;
pub use self::words::{StateArea, StateWords};

/// How a driver comes by a device that another one has driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predecessor {
    /// It has written its record and left the device alone since.
    HandedOver,
    /// It ended at some instruction.
    Died,
}

/// What the layer above has been shown: of each count, that of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Frames and returned buffers given up.
    pub given: u64,
    /// Frames given back as sent.
    pub sent: u64,
}

/// What a driver has when it takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Buffers that are on the receive ring, filled or not, in order.
    pub posted: Vec<u32>,
    /// Frames that are on the transmit ring, sent or not, in order.
    pub sending: Vec<u32>,
    /// Count of the next buffer to be posted: all before it were taken from the layer above.
    pub posts_taken: u64,
    /// Count of the next frame to be sent.
    pub transmits_taken: u64,
}

impl StateArea {
    /// What a predecessor's rings have in use, receive and transmit, when the layer above has been shown
    /// so much. Nothing is stored.
    pub fn in_use(
        &self,
        predecessor: Predecessor,
        settings: &Settings,
        shown: Shown,
    ) -> Result<[InUse; 2], StateError> {
        let (rx, tx) = (self.rx_slots(settings.rx_slots), self.tx_slots(settings.tx_slots));
        let both = match predecessor {
            Predecessor::Died => [rx.search(shown.given)?, tx.search(shown.sent)?],
            Predecessor::HandedOver => {
                let both = self.read_record(&rx, &tx)?;
                let [rx, tx] = &both;
                let noted = Shown { given: rx.first, sent: tx.first };
                if noted != shown {
                    return invalid(format!(
                        "its record is of another time: it says {noted:?}, but there was {shown:?}"
                    ));
                }
                both
            }
        };
        distinct(&both)?;
        Ok(both)
    }
}

/// A buffer is in one place only.
fn distinct(in_use: &[InUse; 2]) -> Result<(), StateError> {
    let tokens = || in_use.iter().flat_map(|one| one.tokens.iter().copied());
    let most = tokens().max().unwrap_or(0) as usize;
    let mut seen = vec![false; most + 1];
    match tokens().find(|token| std::mem::replace(&mut seen[*token as usize], true)) {
        Some(token) => invalid(format!("the buffer {token} is on the rings twice")),
        None => Ok(()),
    }
}
