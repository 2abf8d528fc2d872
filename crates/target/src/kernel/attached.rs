//! A card of a kernel: its slot, the kernel's connection for it, and the port behind that.
//!
//! A kernel opens a connection for each card, in the order in which it will number them.

use std::rc::Rc;

use warikomi_clock::{Clock, Time};
use warikomi_nic::Nic;
use warikomi_pci::{Host, IntrLine, SharedMemory};

use super::halt::Halt;
use super::handshake::Connection;
use super::port::Port;
use super::vhost_user::VhostUserError;
use crate::{Pass, Slot, TargetCounters};

/// A card, and how far it is attached.
pub(super) struct AttachedCard {
    nic: Slot,
    connection: Option<Connection>,
    port: Option<Box<dyn Port>>,
    /// Takes interrupts while there is no port.
    nowhere: Nowhere,
    nothing: SharedMemory,
    /// Of accesses, and of ports that there were before.
    counters: TargetCounters,
    /// Signals up to the last pass.
    signals_seen: u64,
}

/// Takes the interrupts of a card that is not attached.
struct Nowhere;

impl IntrLine for Nowhere {
    fn signal(&mut self, _: warikomi_pci::Interrupt) {}
}

impl AttachedCard {
    /// A card that no kernel has asked for yet.
    pub(super) fn new(nic: Box<dyn Nic>) -> std::io::Result<AttachedCard> {
        Ok(AttachedCard {
            nic: Slot::new(nic),
            connection: None,
            port: None,
            nowhere: Nowhere,
            nothing: SharedMemory::anonymous(0, 4096)?,
            counters: TargetCounters::default(),
            signals_seen: 0,
        })
    }

    /// The kernel has come for it.
    pub(super) fn connect(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    /// Whether a part of a request is there, so that it is to be served again soon.
    pub(super) fn is_waiting(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_waiting)
    }

    /// Whether all of the memory that the kernel shares is there.
    pub(super) fn check_memory(&self) -> Result<(), VhostUserError> {
        self.connection.as_ref().map_or(Ok(()), Connection::check_memory)
    }

    /// Answers vhost-user requests, a bounded number of them, and takes new queues into use. After an error the card is
    /// detached.
    pub(super) fn serve_connection(
        &mut self,
        halt: &Rc<Halt>,
        clock: &Clock,
    ) -> Result<(), VhostUserError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if let Some(port) = &self.port {
            connection.keep_positions(&**port);
        }
        let port = match connection.serve() {
            Ok(()) if connection.take_changed() => connection.port(halt, clock),
            Ok(()) => return Ok(()),
            Err(error) => Err(error),
        };
        let port = port.inspect_err(|_| self.detach())?;
        if port.is_some() && self.port.is_none() {
            self.power_on(clock);
        }
        self.keep_counters();
        self.port = port;
        Ok(())
    }

    /// Takes it from the kernel.
    pub(super) fn detach(&mut self) {
        self.keep_counters();
        self.port = None;
        self.connection = None;
    }

    /// Serves what the driver has done, lets the card do what is due, and adds that to what the pass found.
    #[inline]
    pub(super) fn poll(&mut self, clock: &Clock, pass: &mut Pass) {
        self.serve(clock, pass);
        self.advance(pass.at);
    }

    /// Lets the card do what is due.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) {
        if let Some(port) = &mut self.port {
            self.nic.poll(&mut port.host(now));
        }
    }

    /// When the card does something by itself.
    pub(super) fn next_due(&self) -> Time {
        if self.port.is_some() { self.nic.next_due() } else { Time::NEVER }
    }

    /// Serves what the driver has done, and adds that to what the pass found.
    #[inline]
    pub(super) fn serve(&mut self, clock: &Clock, pass: &mut Pass) {
        let Some(port) = &mut self.port else { return };
        let signals = port.signals();
        pass.signalled |= std::mem::replace(&mut self.signals_seen, signals) != signals;
        let served = port.poll(&mut *self.nic, clock, pass.at);
        self.counters.accesses += served.accesses;
        self.counters.malformed += served.malformed;
        self.counters.disguised_fills += served.disguised;
        pass.worked |= served.accesses > 0;
    }

    /// The card, and what it may use now.
    #[inline]
    pub(super) fn parts(&mut self, clock: &Clock) -> (&mut dyn Nic, Host<'_>) {
        let now = clock.now();
        let host = match &mut self.port {
            Some(port) => port.host(now),
            None => Host { now, memory: &self.nothing, interrupts: &mut self.nowhere, looks: None },
        };
        (&mut *self.nic, host)
    }

    pub(super) fn slot(&mut self) -> &mut Slot {
        &mut self.nic
    }

    pub(super) fn port(&self) -> Option<&dyn Port> {
        self.port.as_deref()
    }

    pub(super) fn port_mut(&mut self) -> Option<&mut Box<dyn Port>> {
        self.port.as_mut()
    }

    pub(super) fn counters(&self) -> TargetCounters {
        match &self.port {
            Some(port) => self.counters.with(&port.counters()),
            None => self.counters,
        }
    }

    fn power_on(&mut self, clock: &Clock) {
        let mut host = Host {
            now: clock.now(),
            memory: &self.nothing,
            interrupts: &mut self.nowhere,
            looks: None,
        };
        self.nic.power_on(&mut host);
    }

    /// The queues' counters would go with the queues.
    fn keep_counters(&mut self) {
        self.counters = self.counters();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use warikomi_testbench::{card, seen_at_last};

    use super::*;
    use crate::kernel::Attachment;
    use warikomi_clock::TscClock;

    /// GET_FEATURES, version 1, without a body.
    const QUESTION: [u8; 12] = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    const ANSWER_BYTES: usize = 20;

    #[test]
    fn each_card_is_served_on_its_own_connection_and_loses_no_other() {
        let halt = Rc::new(Halt::new(std::process::id(), None).unwrap());
        let clock = Clock::Real(TscClock::with_frequency(0, 1e9));
        let attached = |_| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            let mut card = AttachedCard::new(card("rtl8168")).unwrap();
            let bridge = Attachment::Bridge { polling: true };
            card.connect(Connection::new(ours, bridge, 1 << 20).unwrap());
            (card, theirs)
        };
        let [(mut first, first_end), (mut second, mut second_end)] = [0, 1].map(attached);
        second_end.write_all(&QUESTION).unwrap();
        for card in [&mut first, &mut second] {
            card.serve_connection(&halt, &clock).unwrap();
        }
        let answer = |mut end: &UnixStream| end.read(&mut [0; 64]).unwrap_or(0);
        assert_eq!([answer(&first_end), answer(&second_end)], [0, ANSWER_BYTES]);

        drop(first_end);
        assert!(seen_at_last(|| first.serve_connection(&halt, &clock).is_err()));
        assert!(first.serve_connection(&halt, &clock).is_ok(), "an error is told once");
        second_end.write_all(&QUESTION).unwrap();
        second.serve_connection(&halt, &clock).unwrap();
        assert_eq!(answer(&second_end), ANSWER_BYTES);
    }
}
