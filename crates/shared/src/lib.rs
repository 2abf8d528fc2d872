//! Memory that two processes share, and the protocols spoken in it.
//!
//! Everything is made of 64-bit words ([`Words`]), so that the model checker of the tests runs the
//! very code that runs between processes: rings of entries ([`Producer`], [`Consumer`]), bells that
//! wake a sleeper and cost nothing while no process sleeps ([`Bell`], [`Sleeper`]), a counter of
//! events ([`Tally`]), and events that have numbers ([`MessageSender`], [`MessageReceiver`]). Neither side
//! trusts what the other has written: a count that makes no sense is [`Corrupt`].
//!
//! What is ordered against what:
//! - An entry is written relaxed, the ring's count with release; the other end loads the count with acquire.
//!   Each count is written by one side, in two cache lines of its own, because processors fetch lines in pairs.
//!   It is shown once for all that was put in since, not for each entry.
//! - A bell publishes, fences, and looks at the sleeper's word; the sleeper writes its word, fences, and looks
//!   at the ring. These are the only full fences, and an awake receiver costs the sender no system call.
//! - The value of a read is written before the number of that read (release), and looked at after it (acquire).
//! - Orders and reports are single words: no reader may rely on two of them being of one moment.
//!
//! A line that another core has can be asked for before it is written ([`prefetch_to_write`]) or read
//! ([`prefetch_to_read`]).
//!
//! Files that are shared are sealed against being made shorter. What another user of the machine may have put in the
//! place of a file, a directory or a socket of ours is found out by [`open_own`], [`check_directory`] and
//! [`is_peer_trusted`].

mod bell;
mod handover;
mod messages;
mod own;
mod prefetch;
mod region;
mod ring;
mod words;

pub use bell::{BUSY, Bell, LOOKS, Rung, SLEEPS, Sleeper, Tally, Wakeup, Woken};
pub use handover::{
    MOST_FILES, MOST_MESSAGE_BYTES, is_readable, receive, send, socket_pair, take_input,
};
pub use messages::{Message, MessagePlace, MessageReceiver, MessageSender};
pub use own::{
    check_directory, datagram_at, is_open_to_all, is_peer_trusted, listen_at, open_own, read_text,
};
pub use prefetch::{prefetch_to_read, prefetch_to_write};
pub use region::{SharedWords, create_region};
pub use ring::{Consumer, Corrupt, Entry, Producer, RingPlace};
pub use words::Words;
