//! A state area, and its words.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use warikomi_pci::attach::area;
use warikomi_shared::Words;

use super::error::StateError;

/// The words of a state area: shared with the next driver, or the driver's own.
pub type StateWords = Rc<dyn Words>;

/// The state area, through which a driver is replaced while it runs.
#[derive(Clone)]
pub struct StateArea {
    pub(super) words: StateWords,
    pub(super) version: u64,
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

    pub(super) fn word(&self, at: usize) -> u64 {
        self.words.load(at, Relaxed)
    }
}

impl std::fmt::Debug for StateArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateArea").finish_non_exhaustive()
    }
}
