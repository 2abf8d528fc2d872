//! What a driver notes about its rings, so that another driver can go on with them.
//!
//! A channel counts what has gone through it, and these counts outlive any driver; the descriptors are in
//! DMA memory, and outlive it, too. What is missing is which buffer a descriptor stands for, and that is
//! in the slots of the state area ([`warikomi_pci::attach::area`]). From the three together a successor
//! works out where its predecessor was, at whatever instruction that ended. docs/replacement.md has the
//! order in which things are written, and why.

mod baton;
mod local;
mod record;
mod settings;
mod slots;
mod snapshot;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use warikomi_pci::attach::area;
use warikomi_shared::Words;

pub use self::baton::{Baton, How, Turn};
pub use self::local::LocalWords;
pub use self::record::{Counters, Progress, Record};
pub use self::settings::Settings;
pub use self::slots::{InUse, Slot, Slots};
pub use self::snapshot::SNAPSHOT_WORDS;

/// The words of a state area: shared with the next driver, or the driver's own.
pub type StateWords = Rc<dyn Words>;

/// Why a state area is not what a driver can go on with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Nobody has set it up, or it has a version that this driver does not know.
    #[error("{0}")]
    Unreadable(String),
    /// A checksum is wrong.
    #[error(
        "the {what} of the state area was written by halves or by somebody else: its checksum is \
         {found:#018x}, and should be {expected:#018x}"
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

impl StateError {
    /// A descriptor that was not given to the device, though one behind it was.
    pub(crate) fn not_the_last(ring: &str, index: usize) -> StateError {
        let what = "is empty, and those behind it are not";
        StateError::Nonsense(format!("descriptor {index} of the {ring} ring {what}"))
    }
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

/// A state area.
#[derive(Clone)]
pub struct StateArea {
    words: StateWords,
    version: u64,
}

impl StateArea {
    /// The area in these words, of which there are at least [`area::WORDS`], as the newest version has
    /// it.
    pub fn new(words: StateWords) -> StateArea {
        assert!(words.len() >= area::WORDS, "{} words are no state area", words.len());
        StateArea { words, version: area::VERSION }
    }

    /// The same as a driver of an older version sees it: it writes that version, and refuses an area that
    /// only newer ones can read. `version` is from [`area::OLDEST_VERSION`] to [`area::VERSION`].
    pub fn of_version(self, version: u64) -> Result<StateArea, StateError> {
        if !(area::OLDEST_VERSION..=area::VERSION).contains(&version) {
            return Err(StateError::Unreadable(format!(
                "state areas have versions {} to {}, not {version}",
                area::OLDEST_VERSION,
                area::VERSION
            )));
        }
        Ok(StateArea { version, ..self })
    }

    /// The words.
    pub fn words(&self) -> &StateWords {
        &self.words
    }

    /// What a predecessor's rings have in use, receive and transmit, when whoever is above has been shown
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
                let (record, both) = self.read_record(&rx, &tx)?;
                let noted = Shown { given: record.rx.given, sent: record.tx.given };
                if noted != shown {
                    return nonsense(format!(
                        "its record is of another time: it says {noted:?}, but there was {shown:?}"
                    ));
                }
                both
            }
        };
        distinct(&both)?;
        Ok(both)
    }

    fn word(&self, at: usize) -> u64 {
        self.words.load(at, Relaxed)
    }
}

/// A buffer is in one place only.
fn distinct(in_use: &[InUse; 2]) -> Result<(), StateError> {
    let tokens = || in_use.iter().flat_map(|one| one.tokens.iter().copied());
    let most = tokens().max().unwrap_or(0) as usize;
    let mut seen = vec![false; most + 1];
    match tokens().find(|token| std::mem::replace(&mut seen[*token as usize], true)) {
        Some(token) => nonsense(format!("the buffer {token} is on the rings twice")),
        None => Ok(()),
    }
}

fn nonsense<T>(what: String) -> Result<T, StateError> {
    Err(StateError::Nonsense(what))
}

/// Holds the words of a part against the checksum that is written there.
fn verify(
    what: &'static str,
    expected: u64,
    words: impl Iterator<Item = u64>,
) -> Result<(), StateError> {
    let found = area::checksum(words);
    if found == expected { Ok(()) } else { Err(StateError::Checksum { what, found, expected }) }
}

impl std::fmt::Debug for StateArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateArea").finish_non_exhaustive()
    }
}
