//! Ways from one driver to the next, and who may drive.

use std::fmt;
use std::str::FromStr;

use warikomi_pci::attach::area::how;
use warikomi_pci::attach::layout::way;

/// How a device's drivers follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The device is reset, and everything is forgotten.
    Reload,
    /// What a driver knows goes through a store process.
    DataStore,
    /// What a driver knows is in shared memory all the time.
    SharedState,
}

/// What is no way to replace a driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no way to replace a driver; there are: reload, data-store, shared-state")]
pub struct ParseWayError(String);

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Way {
    type Err = ParseWayError;

    fn from_str(text: &str) -> Result<Way, ParseWayError> {
        let named = Way::ALL.into_iter().find(|way| way.name() == text.trim());
        named.ok_or_else(|| ParseWayError(text.trim().to_owned()))
    }
}

impl Way {
    /// All ways to replace a driver.
    pub const ALL: [Way; 3] = [Way::Reload, Way::DataStore, Way::SharedState];

    /// Name of the way, as in flags and results.
    pub fn name(self) -> &'static str {
        match self {
            Way::Reload => "reload",
            Way::DataStore => "data-store",
            Way::SharedState => "shared-state",
        }
    }

    /// As in a window's header ([`way`]).
    pub fn to_word(self) -> u64 {
        match self {
            Way::Reload => way::RELOAD,
            Way::DataStore => way::DATA_STORE,
            Way::SharedState => way::SHARED_STATE,
        }
    }
}

/// How a driver comes by the baton ([`warikomi_pci::attach::area::how`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its predecessor, or the one that could not go on, has left everything in order.
    HandedOver,
    /// Its predecessor is dead.
    Died,
    /// The device is to be reset.
    Start,
}

impl How {
    pub(super) fn to_word(self) -> u64 {
        match self {
            How::HandedOver => how::HANDED_OVER,
            How::Died => how::DIED,
            How::Start => how::START,
        }
    }

    /// What makes no sense is taken for what needs least of what is there.
    pub(super) fn from_word(word: u64) -> How {
        match word {
            how::HANDED_OVER => How::HandedOver,
            how::DIED => How::Died,
            _ => How::Start,
        }
    }
}

/// The owner of the device, and how it got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baton {
    /// The generation that has it, or is to take it.
    pub generation: u32,
    /// How the owner got the device.
    pub how: How,
    /// The generation that has accepted it last.
    pub owner: u32,
}
