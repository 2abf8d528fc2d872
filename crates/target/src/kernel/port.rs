//! The NIC's attachment while it is up: both queues, and the one moment that they must agree on.
//!
//! A User Mode Linux kernel does not protect its command queue against its own interrupts: an
//! access from an interrupt handler that comes while another access is just being put into the
//! queue breaks the queue, and the device is gone ("id 10 is not a head!"; the same in 6.1 and
//! 6.12). Receiving is safe by itself: the driver has interrupts masked from its handler until the
//! very write that unmasks them. Transmitting is not: the driver rings its doorbell with interrupts
//! enabled, packet after packet.
//!
//! So an interrupt that comes while the driver transmits is delivered in a moment that we make
//! safe. We ask the guest to notify us of its next access, and fill the eventfd by which it would do
//! so: behind that access, with the queue consistent, the guest blocks in a write. Now it is
//! signalled; it handles the interrupt right there; and with the first access of the handler we let
//! it go on. If no access comes for a while, the guest does not transmit any more, and is signalled
//! as usual.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use warikomi_clock::{Span, Time, TscClock};
use warikomi_nic::Nic;
use warikomi_pci::SharedMemory;

use super::commands::{CommandQueue, Served};
use super::interrupts::InterruptQueue;

/// A guest that is blocked but cannot handle the interrupt (it may have them disabled) is let go
/// after this; it handles the interrupt as soon as it enables them.
const BLOCKED_AT_MOST: Span = Span::from_us(500);

/// One less than the largest value that an eventfd can hold: nothing more fits.
const FULL: u64 = u64::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// The guest runs freely.
    Free,
    /// It will block behind any access beyond this one.
    Armed { accesses: u16 },
    /// It is blocked, and has been signalled.
    Blocked { accesses: u16, since: Time },
}

/// Both queues of the device.
pub(super) struct Port {
    pub(super) memory: SharedMemory,
    pub(super) interrupts: InterruptQueue,
    commands: CommandQueue,
    kick: File,
    hold: Hold,
}

impl Port {
    pub(super) fn new(
        memory: SharedMemory,
        commands: CommandQueue,
        interrupts: InterruptQueue,
        kick: File,
    ) -> Port {
        Port { memory, interrupts, commands, kick, hold: Hold::Free }
    }

    /// Serves accesses, sends interrupts, and resolves what stands between them.
    #[inline]
    pub(super) fn poll(&mut self, nic: &mut dyn Nic, clock: &TscClock, now: Time) -> Served {
        self.interrupts.set_now(now);
        let served = self.commands.serve(nic, &self.memory, &mut self.interrupts, clock);
        self.interrupts.poll(now);
        if self.hold != Hold::Free || self.interrupts.wants_a_safe_moment() {
            self.make_safe_moment(now);
        }
        served
    }

    #[cold]
    fn make_safe_moment(&mut self, now: Time) {
        match self.hold {
            Hold::Free => self.arm(),
            Hold::Armed { accesses } if self.commands.is_beyond(accesses) => {
                let accesses = self.commands.accesses();
                self.hold = Hold::Blocked { accesses, since: now };
                self.interrupts.send_all();
            }
            Hold::Armed { .. } if self.interrupts.wants_a_safe_moment() => {}
            Hold::Blocked { accesses, since }
                if !self.commands.is_beyond(accesses) && now.since(since) < BLOCKED_AT_MOST => {}
            Hold::Armed { .. } | Hold::Blocked { .. } => self.let_go(),
        }
    }

    fn arm(&mut self) {
        self.drain_kick();
        // It is empty, and the guest does not write to it before it is asked to: this cannot block.
        if self.kick.write(&FULL.to_ne_bytes()).is_err() {
            self.interrupts.send_all();
            return;
        }
        let accesses = self.commands.ask_for_notifications(&self.memory);
        self.hold = Hold::Armed { accesses };
    }

    fn let_go(&mut self) {
        self.commands.decline_notifications(&self.memory);
        self.drain_kick();
        self.hold = Hold::Free;
    }

    fn drain_kick(&mut self) {
        let mut fds = [PollFd::new(self.kick.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            let _ = self.kick.read(&mut [0; 8]);
        }
    }
}

impl Drop for Port {
    /// A guest must not stay blocked when its device goes.
    fn drop(&mut self) {
        if self.hold != Hold::Free {
            self.let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{GuestQueue, Signals};
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use warikomi_nic::wire::CountedSink;
    use warikomi_pci::{Interrupt, IntrLine, MsiMessage};

    struct Bench {
        commands: GuestQueue,
        interrupts: GuestQueue,
        signals: Signals,
        kick: File,
        port: Port,
        nic: Box<dyn Nic>,
        now: Time,
    }

    const READ: [u8; 16] = [1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    impl Bench {
        fn new() -> Bench {
            let (commands, mut interrupts) = (GuestQueue::new(), GuestQueue::new());
            (0..10).for_each(|index| interrupts.offer_buffer(index, 20));
            let (signals, call) = Signals::pipe();
            let kick = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
            let kick = File::from(std::os::fd::OwnedFd::from(kick));
            let command_queue = CommandQueue::new(commands.device_side(), None, &commands.memory);
            let interrupt_queue =
                InterruptQueue::new(interrupts.device_side(), call, interrupts.memory.clone());
            let port = Port::new(
                commands.memory.clone(),
                command_queue,
                interrupt_queue,
                kick.try_clone().unwrap(),
            );
            let nic = warikomi_nic::by_name("rtl8168", Box::new(CountedSink::new())).unwrap();
            Bench { commands, interrupts, signals, kick, port, nic, now: Time::ZERO }
        }

        fn poll_at(&mut self, us: u64) {
            self.now = Time::ZERO + Span::from_us(us);
            let clock = TscClock::with_frequency(u64::MAX, 1e9);
            self.port.poll(&mut *self.nic, &clock, self.now);
        }

        fn doorbell_then_interrupt(&mut self) {
            self.port.interrupts.driver_transmits();
            self.port.interrupts.signal(Interrupt::Msi(MsiMessage { address: 0, data: 1 }));
        }

        /// Whether the guest would block now if it notified.
        fn full(&self) -> bool {
            let mut fds = [PollFd::new(self.kick.as_fd(), PollFlags::POLLOUT)];
            poll(&mut fds, PollTimeout::ZERO).unwrap() == 0
        }
    }

    #[test]
    fn while_the_driver_transmits_an_interrupt_waits_until_the_guest_is_blocked() {
        let mut bench = Bench::new();
        bench.poll_at(100);
        bench.doorbell_then_interrupt();
        assert_eq!(bench.signals.count(), 0);
        bench.poll_at(101);
        assert!(bench.full() && !bench.commands.notifications_off(), "armed");
        assert_eq!(bench.signals.count(), 0);
        bench.commands.send(0, &READ, 8);
        bench.poll_at(102);
        assert_eq!(bench.signals.count(), 1, "blocked behind an access: signalled");
        assert!(bench.full(), "and kept there");
        bench.commands.send(2, &READ, 8);
        bench.poll_at(103);
        assert!(!bench.full() && bench.commands.notifications_off(), "let go with the next access");
        assert!(bench.interrupts.take().is_some());
    }

    #[test]
    fn a_guest_that_does_not_go_on_transmitting_is_signalled_as_usual() {
        let mut bench = Bench::new();
        bench.poll_at(100);
        bench.doorbell_then_interrupt();
        bench.poll_at(101);
        assert_eq!(bench.signals.count(), 0);
        bench.poll_at(200);
        bench.poll_at(201);
        assert_eq!(bench.signals.count(), 1);
        assert!(!bench.full() && bench.commands.notifications_off());
    }

    #[test]
    fn a_guest_with_interrupts_disabled_is_not_kept_for_long() {
        let mut bench = Bench::new();
        bench.poll_at(100);
        bench.doorbell_then_interrupt();
        bench.poll_at(101);
        bench.commands.send(0, &READ, 8);
        bench.poll_at(102);
        assert!(bench.full());
        bench.poll_at(700);
        assert!(!bench.full());
    }

    #[test]
    fn an_interrupt_without_transmitting_goes_out_at_once() {
        let mut bench = Bench::new();
        bench.poll_at(1_000);
        bench.port.interrupts.signal(Interrupt::Msi(MsiMessage { address: 0, data: 1 }));
        assert_eq!(bench.signals.count(), 1);
    }

    #[test]
    fn a_port_that_goes_lets_the_guest_go() {
        let mut bench = Bench::new();
        bench.poll_at(100);
        bench.doorbell_then_interrupt();
        bench.poll_at(101);
        assert!(bench.full());
        let Bench { port, kick, .. } = bench;
        drop(port);
        let mut fds = [PollFd::new(kick.as_fd(), PollFlags::POLLOUT)];
        assert_eq!(poll(&mut fds, PollTimeout::ZERO).unwrap(), 1);
    }
}
