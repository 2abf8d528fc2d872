//! Memory that two processes share, and the protocols spoken in it.
//!
//! Everything is made of 64-bit words ([`Words`]), so that the model checker of the tests runs the
//! very code that runs between processes: rings of entries ([`Producer`], [`Consumer`]), bells that
//! wake a sleeper and cost nothing while no process sleeps ([`Bell`], [`Sleeper`]), a counter of
//! events ([`Tally`]), and events that have numbers ([`MessageSender`], [`MessageReceiver`]). Neither side trusts what the other has written.

mod bell;
mod handover;
mod messages;
mod region;
mod ring;
mod words;

pub use bell::{Bell, Sleeper, Tally, Wakeup, Woken};
pub use handover::{MOST_FILES, MOST_MESSAGE_BYTES, inherited, receive, send};
pub use messages::{MessagePlace, MessageReceiver, MessageSender};
pub use region::{SharedWords, create_region};
pub use ring::{Consumer, Corrupt, Entry, Producer, RingPlace};
pub use words::Words;
