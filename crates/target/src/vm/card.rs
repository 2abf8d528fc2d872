//! A card, and the client that it has at the moment.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warikomi_clock::{Clock, Time};
use warikomi_nic::Nic;
use warikomi_pci::{Host, Interrupt, IntrLine, SharedMemory};

use super::channel::ClientError;
use super::client::Client;
use crate::{Interrupted, Pass, Slot, TargetCounters};

/// Takes the interrupts of a card that has no client.
struct Nowhere;

impl IntrLine for Nowhere {
    fn signal(&mut self, _: Interrupt) {}
}

/// A card, and the client that it has at the moment, if there is one.
pub(super) struct VmCard {
    nic: Slot,
    client: Option<Client>,
    nowhere: Nowhere,
    nothing: SharedMemory,
    /// Of clients that there were before.
    counters: TargetCounters,
}

impl VmCard {
    pub(super) fn new(nic: Box<dyn Nic>) -> io::Result<VmCard> {
        Ok(VmCard {
            nic: Slot::new(nic),
            client: None,
            nowhere: Nowhere,
            nothing: SharedMemory::anonymous(0, 4096)?,
            counters: TargetCounters::default(),
        })
    }

    /// A client has come for it. The card is as the client before has left it.
    pub(super) fn connect(
        &mut self,
        stream: UnixStream,
        interrupted: Interrupted,
    ) -> io::Result<()> {
        self.client = Some(Client::new(stream, &mut *self.nic, interrupted)?);
        Ok(())
    }

    pub(super) fn client(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    pub(super) fn has_client(&self) -> bool {
        self.client.is_some()
    }

    /// Whether it has one that speaks our protocol.
    pub(super) fn has_agreed(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.has_agreed())
    }

    /// Takes it from its client, and gives back all that the client has handed over.
    pub(super) fn detach(&mut self) {
        self.counters = self.counters();
        self.client = None;
    }

    /// Carries out what the client has asked for. After an error there is no client any more.
    #[inline]
    pub(super) fn serve(&mut self, clock: &Clock) -> Result<bool, ClientError> {
        let Some(client) = &mut self.client else { return Ok(false) };
        client.serve(&mut *self.nic, clock).inspect_err(|_| self.detach())
    }

    /// Lets the card do what is due, and tells the client of what it and experiments have brought about.
    #[inline]
    pub(super) fn advance(&mut self, clock: &Clock, pass: &mut Pass) {
        let Some(client) = &mut self.client else { return };
        self.nic.poll(&mut client.host(clock));
        let before = client.counters().interrupts_sent;
        client.deliver(&mut *self.nic);
        pass.signalled |= client.counters().interrupts_sent != before;
    }

    pub(super) fn next_due(&self) -> Time {
        if self.has_client() { self.nic.next_due() } else { Time::NEVER }
    }

    /// Waits until the client or `other` has news, but not longer than `at_most`.
    pub(super) fn wait(&mut self, other: BorrowedFd<'_>, at_most: Duration) {
        let nanoseconds = at_most.subsec_nanos().into();
        let at_most = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: nanoseconds };
        match &mut self.client {
            Some(client) => client.wait(other, &at_most),
            None => {
                let mut fds = [PollFd::from_borrowed_fd(other, PollFlags::IN)];
                // Whatever ends it, the descriptor is looked at next.
                let _ = poll(&mut fds, Some(&at_most));
            }
        }
    }

    /// The card, and what it may use now.
    #[inline]
    pub(super) fn parts(&mut self, clock: &Clock) -> (&mut dyn Nic, Host<'_>) {
        let host = match &mut self.client {
            Some(client) => client.host(clock),
            None => Host {
                now: clock.now(),
                memory: &self.nothing,
                interrupts: &mut self.nowhere,
                looks: None,
            },
        };
        (&mut *self.nic, host)
    }

    pub(super) fn slot(&mut self) -> &mut Slot {
        &mut self.nic
    }

    pub(super) fn counters(&self) -> TargetCounters {
        match &self.client {
            Some(client) => self.counters.with(&client.counters()),
            None => self.counters,
        }
    }
}
