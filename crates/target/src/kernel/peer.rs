//! A card at our end of a vhost-user connection without a kernel's process behind it: for tests that play the
//! kernel.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use warikomi_clock::Clock;
use warikomi_nic::Nic;
use warikomi_pci::Host;

use super::attached::AttachedCard;
use super::halt::Halt;
use super::handshake::Connection;
use super::options::Attachment;
use crate::{Pass, TargetCounters};

/// A card that is served for whatever is at the other end of its connection.
///
/// It is the way by which a kernel target serves its cards, without what starts, watches and ends a kernel.
pub struct PeerCard {
    card: AttachedCard,
    halt: Rc<Halt>,
    clock: Clock,
}

impl PeerCard {
    /// The card for the peer at the other end of `stream`, which may share `given_bytes` of memory. By `virt-pci` the
    /// process `process`, a child of ours that has not been waited for, is stopped when it is to be interrupted.
    pub fn new(
        nic: Box<dyn Nic>,
        stream: UnixStream,
        (attachment, given_bytes): (Attachment, u64),
        process: u32,
        clock: Clock,
    ) -> io::Result<PeerCard> {
        let mut card = AttachedCard::new(nic)?;
        card.connect(Connection::new(stream, attachment, given_bytes)?);
        Ok(PeerCard { card, halt: Rc::new(Halt::new(process, None)?), clock })
    }

    /// Answers the requests that have come, and takes new queues into use. After an error, of which this is the
    /// text, the card is detached.
    pub fn serve_connection(&mut self) -> Result<(), String> {
        self.card.serve_connection(&self.halt, &self.clock).map_err(|error| error.to_string())
    }

    /// Serves what the peer has done since the last call, a bounded amount of it.
    pub fn poll(&mut self) -> Pass {
        let mut pass = Pass::idle(self.clock.now());
        self.card.poll(&self.clock, &mut pass);
        pass
    }

    /// Whether the peer has handed over all that it takes to use the card.
    pub fn is_attached(&self) -> bool {
        self.card.port().is_some()
    }

    /// The card, and what it may use now.
    pub fn parts(&mut self) -> (&mut dyn Nic, Host<'_>) {
        self.card.parts(&self.clock)
    }

    /// Counts since the start.
    pub fn counters(&self) -> TargetCounters {
        self.card.counters()
    }
}
