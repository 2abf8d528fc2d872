//! What a driver notes about its rings, so that another driver can go on with them.
//!
//! A channel counts what has gone through it, and these counts outlive any driver; the descriptors are in
//! DMA memory, and outlive it, too. What is missing is which buffer a descriptor stands for, and that is
//! in the slots of the state area ([`warikomi_pci::attach::area`]). From the three together a successor
//! works out where its predecessor was, at whatever instruction that ended. docs/replacement.md has the
//! order in which things are written, and why.

use std::rc::Rc;

use warikomi_pci::attach::area;
use warikomi_shared::Words;

/// The words of a state area: shared with the next driver, or the driver's own.
pub type StateWords = Rc<dyn Words>;

/// Why a state area is not what a driver can go on with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It is none, or of another version.
    #[error("{0}")]
    Unreadable(String),
    /// A checksum is wrong.
    #[error(
        "the {what} of the state area does not have its checksum: {found:#018x}, not {expected:#018x}"
    )]
    Checksum {
        /// Which part.
        what: &'static str,
        /// What the words have.
        found: u64,
        /// What is written there.
        expected: u64,
    },
    /// It contradicts itself, or the rings.
    #[error("the state area makes no sense: {0}")]
    Nonsense(String),
}

/// How a driver comes by a device that another one has driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predecessor {
    /// It has written its record and left the device alone since.
    HandedOver,
    /// It ended at some instruction.
    Died,
}

/// What whoever is above has been shown: of each count, that of the next.
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
    /// Count of the next buffer to be posted: all before it were taken from whoever is above.
    pub posts_taken: u64,
    /// Count of the next frame to be sent.
    pub transmits_taken: u64,
}

/// What the settings of a state area say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// PCI vendor and device numbers.
    pub device: (u16, u16),
    /// Bus address of the rings.
    pub rings: u64,
    /// Receive slots in use.
    pub rx_slots: usize,
    /// Transmit slots in use.
    pub tx_slots: usize,
    /// The device's own address.
    pub mac_address: [u8; 6],
}

/// A state area.
#[derive(Clone)]
pub struct StateArea {
    words: StateWords,
}

impl StateArea {
    /// The area in these words, of which there are at least [`area::WORDS`].
    pub fn new(words: StateWords) -> StateArea {
        assert!(words.len() >= area::WORDS, "{} words are no state area", words.len());
        StateArea { words }
    }

    /// The words.
    pub fn words(&self) -> &StateWords {
        &self.words
    }
}

impl std::fmt::Debug for StateArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateArea").finish_non_exhaustive()
    }
}
