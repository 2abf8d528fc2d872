//! How a target's drivers follow one another, and what is made hard about it.

use std::str::FromStr;

use warikomi_clock::Span;

use super::Program;
use super::priority::Priorities;
use super::way::Way;

/// How a target's drivers follow one another.
#[derive(Clone, Debug)]
pub struct Succession {
    /// In which way.
    pub way: Way,
    /// The data store, for [`Way::DataStore`].
    pub store: Option<StoreOptions>,
    /// What parts claim of their core; what is usual if `None`.
    pub priorities: Option<Priorities>,
    /// Reads from a disk that the creation of a driver process waits for.
    pub creation_reads: u32,
    /// The program that starts all others, in a session that is not ours. Without it all are in ours: then a thread of
    /// ours on their core has its claim among theirs.
    pub starter: Option<Program>,
}

impl Succession {
    /// In this way, by such a store, in our session, and nothing made hard.
    pub fn of(way: Way, store: StoreOptions) -> Succession {
        let store = (way == Way::DataStore).then_some(store);
        Succession { way, store, priorities: None, creation_reads: 0, starter: None }
    }
}

/// A data store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Its program.
    pub program: Program,
    /// When it serves what belongs to a replacement.
    pub state_io: StateIo,
    /// The program of its other clients.
    pub client: Program,
    /// How many of them there are.
    pub clients: u32,
    /// How often each of them asks.
    pub client_interval: Span,
}

/// Clients of a store, besides drivers, at most.
pub const MOST_STORE_CLIENTS: u32 = 32;

/// How often such a client asks, unless it is said.
pub const USUAL_STORE_INTERVAL: Span = Span::from_ms(1);

/// When a store serves the state of drivers that follow one another, among the requests of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateIo {
    /// In its turn: as in the published system, where the request for a replacement comes first, and reading and
    /// writing state are requests as any other.
    InTurn,
    /// Before all others.
    First,
}

impl StateIo {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            StateIo::InTurn => "in-turn",
            StateIo::First => "first",
        }
    }
}

/// What is neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither in-turn nor first")]
pub struct ParseStateIoError(String);

impl FromStr for StateIo {
    type Err = ParseStateIoError;

    fn from_str(text: &str) -> Result<StateIo, ParseStateIoError> {
        let named =
            [StateIo::InTurn, StateIo::First].into_iter().find(|it| it.name() == text.trim());
        named.ok_or_else(|| ParseStateIoError(text.trim().to_owned()))
    }
}
