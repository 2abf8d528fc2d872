//! A card at our end of a vfio-user connection without a socket's file: for tests that play the client.

use std::io;
use std::os::unix::net::UnixStream;

use warikomi_clock::Clock;
use warikomi_nic::Nic;
use warikomi_pci::Host;

use super::card::VmCard;
use crate::{Interrupted, Pass, TargetCounters};

/// A card that is served for the client at the other end of a connection, as a target serves it.
pub struct VmPeerCard {
    card: VmCard,
    clock: Clock,
    interrupted: Interrupted,
}

impl VmPeerCard {
    /// This card, without a client.
    pub fn new(nic: Box<dyn Nic>, clock: Clock) -> io::Result<VmPeerCard> {
        Ok(VmPeerCard { card: VmCard::new(nic)?, clock, interrupted: Interrupted::default() })
    }

    /// The client at the other end of `stream` has come; one that there was is gone.
    pub fn connect(&mut self, stream: UnixStream) -> io::Result<()> {
        self.card.detach();
        self.card.connect(stream, self.interrupted.clone())
    }

    /// Serves the client, a bounded amount, and lets the card do what is due. The error is why there is no client any
    /// more.
    pub fn poll(&mut self) -> Result<Pass, String> {
        let mut pass = Pass::idle(self.clock.now());
        pass.worked = self.card.serve(&self.clock).map_err(|error| error.to_string())?;
        self.card.advance(&self.clock, &mut pass);
        Ok(pass)
    }

    /// Takes the card from its client.
    pub fn detach(&mut self) {
        self.card.detach();
    }

    /// Windows that the client has mapped.
    pub fn windows(&mut self) -> usize {
        self.card.client().map_or(0, |client| client.windows())
    }

    /// The card, and what it may use now.
    pub fn parts(&mut self) -> (&mut dyn Nic, Host<'_>) {
        self.card.parts(&self.clock)
    }

    /// Counts since the start.
    pub fn counters(&self) -> TargetCounters {
        self.card.counters()
    }

    /// What stops all waiting.
    pub fn interrupted(&self) -> Interrupted {
        self.interrupted.clone()
    }
}
