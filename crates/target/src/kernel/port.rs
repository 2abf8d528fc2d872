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

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use warikomi_clock::{Span, Time, TscClock};
use warikomi_nic::Nic;
use warikomi_pci::SharedMemory;

use super::commands::{CommandQueue, Served};
use super::interrupts::InterruptQueue;

/// A guest that is blocked but cannot handle the interrupt (it may have them disabled) is let go
/// after this; it handles the interrupt as soon as it enables them.
const BLOCKED_AT_MOST: Span = Span::from_us(500);

/// A guest that was let go still writes to the eventfd what it was blocked with: so long is waited
/// for that before the eventfd is filled again.
const OWED_AT_MOST: Span = Span::from_us(1_000);

/// One less than the largest value that an eventfd can hold: nothing more fits.
const FULL: u64 = u64::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// The guest runs freely.
    Free,
    /// It will block behind any access beyond this one.
    Armed { accesses: u16 },
    /// It is blocked behind the last of these accesses, and has been signalled. `armed` is how many
    /// it had made when it was told to block.
    Blocked { armed: u16, accesses: u16, since: Time },
}

/// Both queues of the device.
pub(super) struct Port {
    pub(super) memory: SharedMemory,
    pub(super) interrupts: InterruptQueue,
    commands: CommandQueue,
    kick: File,
    hold: Hold,
    /// Writes to the eventfd that the guest has not made yet, or only just.
    owed: u64,
    let_go_at: Time,
}

impl Port {
    pub(super) fn new(
        memory: SharedMemory,
        commands: CommandQueue,
        interrupts: InterruptQueue,
        kick: File,
    ) -> Port {
        Port {
            memory,
            interrupts,
            commands,
            kick,
            hold: Hold::Free,
            owed: 0,
            let_go_at: Time::ZERO,
        }
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
        let waits = self.interrupts.wants_a_safe_moment();
        match self.hold {
            Hold::Free => self.arm(now),
            Hold::Armed { accesses } if waits && self.commands.is_beyond(accesses) => {
                let (armed, accesses) = (accesses, self.commands.accesses());
                self.hold = Hold::Blocked { armed, accesses, since: now };
                self.interrupts.send_all();
            }
            Hold::Armed { .. } if waits => {}
            Hold::Blocked { accesses, since, .. }
                if !self.commands.is_beyond(accesses) && now.since(since) < BLOCKED_AT_MOST => {}
            Hold::Armed { accesses: armed } | Hold::Blocked { armed, .. } => {
                self.let_go(armed, now);
            }
        }
    }

    /// Fills the eventfd and asks for notifications; tries again in the next pass if a write of the
    /// guest's from the last time is still on its way.
    fn arm(&mut self, now: Time) {
        self.drain_kick();
        let waited_for_them = now.since(self.let_go_at) > OWED_AT_MOST;
        if (self.owed > 0 && !waited_for_them) || !self.fill_kick() {
            return;
        }
        self.owed = 0;
        let accesses = self.commands.ask_for_notifications(&self.memory);
        self.hold = Hold::Armed { accesses };
    }

    fn let_go(&mut self, armed: u16, now: Time) {
        self.owed += u64::from(self.commands.accesses().wrapping_sub(armed));
        self.commands.decline_notifications(&self.memory);
        self.drain_kick();
        self.hold = Hold::Free;
        self.let_go_at = now;
    }

    /// Takes out what is in the eventfd. Filled or not, what the guest wrote is the rest.
    fn drain_kick(&mut self) {
        let mut fds = [PollFd::new(self.kick.as_fd(), PollFlags::POLLIN)];
        // Nobody else reads it: what is there now is there for us, and reading does not block.
        if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            let mut value = [0; 8];
            let _ = self.kick.read(&mut value);
            self.owed = self.owed.saturating_sub(u64::from_ne_bytes(value) % FULL);
        }
    }

    /// Whether the eventfd is full now: not if the guest has written to it meanwhile.
    ///
    /// Our write must not block, and the guest's must, though both share the file's flags. It has
    /// been let go long enough not to write in this moment.
    fn fill_kick(&mut self) -> bool {
        if fcntl(&self.kick, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_err() {
            return false;
        }
        let filled = self.kick.write_all(&FULL.to_ne_bytes()).is_ok();
        // It was possible a moment ago.
        let _ = fcntl(&self.kick, FcntlArg::F_SETFL(OFlag::empty()));
        filled
    }
}

impl Drop for Port {
    /// A guest must not stay blocked when its device goes.
    fn drop(&mut self) {
        if let Hold::Armed { accesses: armed } | Hold::Blocked { armed, .. } = self.hold {
            self.let_go(armed, Time::ZERO);
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
    fn what_the_guest_still_writes_never_blocks_us() {
        let mut bench = Bench::new();
        for round in 0..20u64 {
            let us = 1_000 + 10_000 * round;
            bench.poll_at(us);
            bench.doorbell_then_interrupt();
            bench.poll_at(us + 1);
            assert!(bench.full(), "round {round}");
            bench.commands.send(0, &READ, 8);
            bench.poll_at(us + 2);
            bench.commands.send(2, &READ, 8);
            bench.poll_at(us + 3);
            // The next interrupt comes at once, before the guest has written what it was blocked
            // with; a full eventfd would make it block again, where nobody waits for it.
            bench.doorbell_then_interrupt();
            bench.poll_at(us + 4);
            assert!(!bench.full());
            bench.kick.write_all(&1u64.to_ne_bytes()).unwrap();
            bench.poll_at(us + 5);
            assert!(!bench.full(), "one of two");
            bench.kick.write_all(&1u64.to_ne_bytes()).unwrap();
            bench.poll_at(us + 6);
            assert!(bench.full(), "both have come");
            bench.poll_at(us + 200);
            while let Some((index, _)) = bench.interrupts.take() {
                bench.interrupts.offer_buffer(index, 20);
            }
        }
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
