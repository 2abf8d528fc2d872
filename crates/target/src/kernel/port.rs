//! The NIC's attachment while it is up: both queues, and the one moment that they must agree on.
//!
//! A User Mode Linux kernel does not protect its command queue against its own interrupts: an
//! access from an interrupt handler that comes while another access is just being put into the
//! queue breaks the queue, and the device is gone ("id 10 is not a head!"; the same in 6.1 and
//! 6.12). Receiving is safe by itself: the driver has interrupts masked from its handler until the
//! very write that unmasks them. Transmitting is not: the driver rings its doorbell with interrupts
//! enabled, packet after packet.
//!
//! So an interrupt that comes within some milliseconds of a doorbell is delivered in a moment that is
//! safe. One is when the kernel's process sleeps: the guest is idle, or runs user code. Where it does
//! not, we make one: we ask the guest to notify us of its next access, and fill the eventfd by which
//! it would do so. Behind that access, with the queue consistent, the guest blocks in a write. Now it
//! is signalled; it handles the interrupt right there; and with the first access of the handler we
//! let it go on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use warikomi_clock::{Span, Time, TscClock};
use warikomi_nic::Nic;
use warikomi_pci::SharedMemory;

use super::commands::{CommandQueue, Served};
use super::interrupts::InterruptQueue;
use super::sleep::SleepWatch;

/// A guest that is blocked but cannot handle the interrupt (it may have them disabled) is let go
/// after this; it handles the interrupt as soon as it enables them.
const BLOCKED_AT_MOST: Span = Span::from_us(500);

/// How often it is looked whether the guest sleeps, which takes some microseconds.
const LOOK_EVERY: Span = Span::from_us(10);

/// A guest that was asleep at so many looks in a row, without an access in between, is taken to be
/// idle. One that is busy sleeps too, for tens of microseconds, while the kernel waits for its user
/// code, and goes on transmitting just when the signal arrives.
const LOOKS_ASLEEP: u32 = 25;

/// A guest that was let go still writes to the eventfd what it was blocked with, as soon as its
/// handler has returned. After so long it has.
const SETTLES: Span = Span::from_us(40);

/// One less than the largest value that an eventfd can hold: nothing more fits.
const FULL: u64 = u64::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// The guest runs freely.
    Free,
    /// It will block behind any access beyond this one.
    Armed { accesses: u16 },
    /// It is blocked behind the last of these accesses, and has been signalled.
    Blocked { accesses: u16, since: Time },
}

/// Both queues of the device.
pub(super) struct Port {
    pub(super) memory: SharedMemory,
    pub(super) interrupts: InterruptQueue,
    commands: CommandQueue,
    kick: File,
    hold: Hold,
    let_go_at: Time,
    guest: SleepWatch,
    looked_at: Time,
    looks_asleep: u32,
    accesses_at_look: u16,
}

impl Port {
    pub(super) fn new(
        memory: SharedMemory,
        commands: CommandQueue,
        interrupts: InterruptQueue,
        kick: File,
        guest: SleepWatch,
    ) -> Port {
        Port {
            memory,
            interrupts,
            commands,
            kick,
            hold: Hold::Free,
            let_go_at: Time::ZERO,
            guest,
            looked_at: Time::ZERO,
            looks_asleep: 0,
            accesses_at_look: 0,
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
        let hold = self.hold;
        match hold {
            Hold::Free if self.guest_is_idle(now) => self.interrupts.send_all(),
            Hold::Free => self.arm(now),
            Hold::Armed { accesses } if waits && self.commands.is_beyond(accesses) => {
                self.hold = Hold::Blocked { accesses: self.commands.accesses(), since: now };
                self.interrupts.send_all();
            }
            Hold::Armed { .. } if waits && self.guest_is_idle(now) => {
                self.let_go(now);
                self.interrupts.send_all();
            }
            Hold::Armed { .. } if waits => {}
            Hold::Blocked { accesses, since }
                if !self.commands.is_beyond(accesses) && now.since(since) < BLOCKED_AT_MOST => {}
            Hold::Armed { .. } | Hold::Blocked { .. } => self.let_go(now),
        }
    }

    fn guest_is_idle(&mut self, now: Time) -> bool {
        if now.since(self.looked_at) < LOOK_EVERY {
            return false;
        }
        self.looked_at = now;
        let accesses = self.commands.accesses();
        let quiet = std::mem::replace(&mut self.accesses_at_look, accesses) == accesses;
        // One that is blocked behind an access that we have not taken yet sleeps, too.
        let asleep = self.guest.sleeps() && !self.commands.has_more(&self.memory);
        self.looks_asleep = if quiet && asleep { self.looks_asleep + 1 } else { 0 };
        self.looks_asleep >= LOOKS_ASLEEP
    }

    /// Fills the eventfd and asks for notifications.
    fn arm(&mut self, now: Time) {
        if now.since(self.let_go_at) < SETTLES {
            return;
        }
        self.drain_kick();
        // It is empty now, and the guest, let go long ago, does not write to it before it is asked
        // to: this does not block.
        if self.kick.write(&FULL.to_ne_bytes()).is_err() {
            return;
        }
        let accesses = self.commands.ask_for_notifications(&self.memory);
        self.hold = Hold::Armed { accesses };
    }

    fn let_go(&mut self, now: Time) {
        self.commands.decline_notifications(&self.memory);
        self.drain_kick();
        self.hold = Hold::Free;
        self.let_go_at = now;
    }

    /// Takes out what is in the eventfd.
    fn drain_kick(&mut self) {
        let mut fds = [PollFd::new(self.kick.as_fd(), PollFlags::POLLIN)];
        // Nobody else reads it: what is there now is there for us, and reading does not block.
        if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            let _ = self.kick.read(&mut [0; 8]);
        }
    }
}

impl Drop for Port {
    /// A guest must not stay blocked when its device goes.
    fn drop(&mut self) {
        if self.hold != Hold::Free {
            self.let_go(Time::ZERO);
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
        stat: File,
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
            let stat = tempfile::tempfile().unwrap();
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
                SleepWatch::from(stat.try_clone().unwrap()),
            );
            let nic = warikomi_nic::by_name("rtl8168", Box::new(CountedSink::new())).unwrap();
            let mut bench =
                Bench { commands, interrupts, signals, kick, stat, port, nic, now: Time::ZERO };
            bench.guest_is(b'R');
            bench
        }

        fn guest_is(&mut self, state: u8) {
            use std::os::unix::fs::FileExt;
            self.stat.write_all_at(&[b"7 (linux) ", &[state][..], b" 1"].concat(), 0).unwrap();
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
        bench.poll_at(20_000);
        bench.poll_at(20_001);
        assert_eq!(bench.signals.count(), 1);
        assert!(!bench.full() && bench.commands.notifications_off());
    }

    #[test]
    fn a_guest_that_is_idle_is_signalled_soon_and_not_blocked() {
        let mut bench = Bench::new();
        bench.guest_is(b'S');
        bench.poll_at(100);
        bench.doorbell_then_interrupt();
        bench.poll_at(101);
        assert!(bench.full(), "it may wake up at any moment");
        (102..400).for_each(|us| bench.poll_at(us));
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
    fn what_the_guest_still_writes_does_not_block_us() {
        let mut bench = Bench::new();
        bench.poll_at(1_000);
        bench.doorbell_then_interrupt();
        bench.poll_at(1_001);
        bench.commands.send(0, &READ, 8);
        bench.poll_at(1_002);
        bench.commands.send(2, &READ, 8);
        bench.poll_at(1_003);
        // The next interrupt comes at once, before the guest has written what it was blocked with.
        bench.doorbell_then_interrupt();
        bench.poll_at(1_004);
        assert!(!bench.full(), "not armed before the guest has settled");
        bench.kick.write_all(&1u64.to_ne_bytes()).unwrap();
        bench.kick.write_all(&1u64.to_ne_bytes()).unwrap();
        bench.poll_at(1_050);
        assert!(bench.full());
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
