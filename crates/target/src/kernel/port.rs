//! The NIC's attachment while it is up: both queues, and the one moment that they must agree on.
//!
//! A User Mode Linux kernel does not protect its command queue against its own interrupts: an
//! access from an interrupt handler that comes while another access is just being put into the
//! queue breaks the queue, and the device is gone ("id 10 is not a head!"; the same in 6.1 and
//! 6.12). `um_pci_send_cmd` takes no lock, does not disable interrupts, and keeps the request that is
//! being waited for in a buffer that a nested one overwrites. Receiving is safe by itself: the driver
//! has interrupts masked from its handler until the very write that unmasks them, so a message that
//! answers that write finds the queue at rest. Transmitting is not: the driver rings its doorbell with
//! interrupts enabled, packet after packet; a few hundred packets were enough to lose the device. Nor is
//! what it does in no hurry, such as setting up its PHY: the negotiation raises its interrupt at once,
//! while the driver reads on.
//!
//! So after a doorbell, or any other access but those to the interrupt status and mask, the guest is
//! stopped for every signal: an interrupt, one that is repeated because it was overlooked, a call to
//! collect buffers. It is signalled only if it was stopped outside of an access ([`Halt`] says how that is
//! known); where it was not, it runs for 10 µs and is stopped again. That ends when it has been found
//! outside of an access 100 ms or more after the last doorbell and 1 ms or more after the last other
//! access. Time alone does not end it, because the guest's core may be taken from it in the middle of one.
//!
//! One stop costs the guest some 15 µs; a guest that only receives is never stopped. `interrupts_delayed`
//! counts the interrupts that waited, and the result warns of them. Two other ways were tried before:
//! waiting until the guest looks idle, and making it block behind an access by filling its eventfd. Both
//! lost the device in some runs of a bulk transfer, because a guest wakes up, or a signal is repeated, at the
//! wrong moment.
//!
//! A guest that is not taken care of in this way is signalled only if it has made no access that has not
//! been served (`unserved`): if our side has lost its core for a while, such an access may be a read that
//! the guest waits for, and a handler's read would take its answer.
//!
//! An application that polls the device (SO_BUSY_POLL, epoll) makes the kernel write the interrupt mask
//! while interrupts are enabled, again and again. A few hundred such writes were enough to lose the device
//! on 6.12. `set_polled` makes every signal wait for a safe moment until it is taken back.
//!
//! Known to be left: the first access after a pause, if a signal arrives in the very 100 ns or so in which
//! that access is put into the queue.

use std::rc::Rc;

use warikomi_clock::{Clock, Span, Time};
use warikomi_nic::Nic;
use warikomi_pci::{Host, SharedMemory};

use super::commands::{CommandQueue, Served};
use super::halt::Halt;
use super::interrupts::InterruptQueue;
use crate::TargetCounters;

/// How long a guest that was stopped in vain may run before it is stopped again: long enough to get
/// through the access.
const RUNS_BETWEEN_STOPS: Span = Span::from_us(10);

/// A card's attachment to a guest.
pub(super) trait Port {
    /// Serves accesses, and sends interrupts.
    fn poll(&mut self, nic: &mut dyn Nic, clock: &Clock, now: Time) -> Served;

    /// What the card may use during a call at `now`.
    fn host(&mut self, now: Time) -> Host<'_>;

    /// The guest's memory.
    fn memory(&self) -> &SharedMemory;

    /// How often the guest was signalled: system calls of some microseconds.
    fn signals(&self) -> u64;

    /// See [`Target::keep_clear_of`](crate::Target::keep_clear_of).
    fn keep_clear_of(&mut self, due: Time) {
        let _ = due;
    }

    /// Counts of the interrupts.
    fn counters(&self) -> TargetCounters;

    /// Hands over when the guest's poller was not running since this was last asked: the last values of the
    /// time stamp counter before, and the first behind. What the guest says is to be doubted.
    fn take_hiccups(&mut self, each: &mut dyn FnMut(u64, u64)) {
        let _ = each;
    }

    /// See [`Target::wait_for_writes`](crate::Target::wait_for_writes).
    fn wait_for_writes(&mut self, wait: bool) {
        let _ = wait;
    }

    /// Of a queue, which buffer is taken next, as the guest counts them. `None` if the queue has no buffers that are
    /// taken and returned, as that of our bridge, whose one buffer is its window.
    fn next_available(&self, queue: usize) -> Option<u16> {
        let _ = queue;
        None
    }

    /// In virtual time: the guest shall listen to what else comes, when it is interrupted next.
    fn ask_to_listen(&mut self) {}

    /// In virtual time: whether interrupts wait for [`interrupt_in_step`](Port::interrupt_in_step).
    fn owes_interrupts(&mut self) -> bool {
        false
    }

    /// Tells a guest that waits for its time that it has interrupts. It goes on to wait until it [has
    /// heard](Port::has_heard).
    fn interrupt_in_step(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether a guest that was told of interrupts has heard.
    fn has_heard(&mut self) -> std::io::Result<bool> {
        Ok(true)
    }

    /// An application polls the device from now on, or has stopped.
    fn set_polled(&mut self, polled: bool) {
        let _ = polled;
    }
}

/// Both queues of virt-pci's device.
pub(super) struct VirtPciPort {
    memory: SharedMemory,
    interrupts: InterruptQueue,
    commands: CommandQueue,
    halt: Rc<Halt>,
    stopped_at: Time,
}

impl VirtPciPort {
    pub(super) fn new(
        memory: SharedMemory,
        commands: CommandQueue,
        interrupts: InterruptQueue,
        halt: Rc<Halt>,
    ) -> VirtPciPort {
        VirtPciPort { memory, interrupts, commands, halt, stopped_at: Time::ZERO }
    }

    #[cold]
    fn signal_safely(&mut self, clock: &Clock, now: Time) {
        if !self.halt.is_stopping() && now.since(self.stopped_at) < RUNS_BETWEEN_STOPS {
            return;
        }
        let VirtPciPort { interrupts, commands, .. } = self;
        // A process that cannot be stopped has ended, which the target finds out by itself.
        let _ = self.halt.attempt(|| {
            interrupts.set_now(clock.now());
            interrupts.guest_is_at_rest();
            interrupts.send_due();
            if commands.wants_a_call() {
                commands.call();
            }
        });
        self.stopped_at = clock.now();
    }
}

impl Port for VirtPciPort {
    #[inline]
    fn poll(&mut self, nic: &mut dyn Nic, clock: &Clock, now: Time) -> Served {
        self.interrupts.set_now(now);
        let served = self.commands.serve(nic, &self.memory, &mut self.interrupts, clock);
        self.interrupts.poll(now);
        if self.halt.is_stopping()
            || self.interrupts.wants_a_safe_moment()
            || self.commands.wants_a_call()
        {
            self.signal_safely(clock, now);
        }
        served
    }

    #[inline]
    fn host(&mut self, now: Time) -> Host<'_> {
        self.interrupts.set_now(now);
        Host { now, memory: &self.memory, interrupts: &mut self.interrupts, looks: None }
    }

    fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    #[inline]
    fn signals(&self) -> u64 {
        self.interrupts.signals()
    }

    fn counters(&self) -> TargetCounters {
        self.interrupts.counters()
    }

    fn next_available(&self, queue: usize) -> Option<u16> {
        match queue {
            0 => Some(self.commands.next_available()),
            1 => Some(self.interrupts.next_available()),
            _ => None,
        }
    }

    fn set_polled(&mut self, polled: bool) {
        self.interrupts.set_polled(polled);
    }
}

impl Drop for VirtPciPort {
    /// A guest must not stay stopped when its device goes.
    fn drop(&mut self) {
        let _ = self.halt.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use warikomi_clock::TscClock;

    use crate::kernel::symbols::KernelMap;
    use crate::kernel::testing::{GuestQueue, Signals};
    use warikomi_pci::{Interrupt, IntrLine};
    use warikomi_testbench::{MESSAGE, card};

    /// A port whose guest is a process that does nothing else than to be in one place for ever.
    struct Bench {
        guest: Child,
        commands: GuestQueue,
        signals: Signals,
        calls: Signals,
        port: VirtPciPort,
        nic: Box<dyn Nic>,
        clock: Clock,
    }

    const WRITE: [u8; 20] = [2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    impl Bench {
        /// With a guest that is asleep, or in the middle of an access.
        fn new(in_access: bool) -> Bench {
            let program = if in_access { "while :; do :; done" } else { "exec sleep 100" };
            let guest =
                Command::new("sh").args(["-c", program]).stdin(Stdio::null()).spawn().unwrap();
            let map = KernelMap::with(0..u64::MAX, 0..0);
            let (commands, mut interrupts) = (GuestQueue::new(), GuestQueue::new());
            (0..10).for_each(|index| interrupts.offer_buffer(index, 20));
            let (signals, call) = Signals::line();
            let (calls, collect) = Signals::line();
            let memory = commands.memory.clone();
            let halt = Rc::new(Halt::new(guest.id(), Some(map)).unwrap());
            let command_queue = CommandQueue::new(commands.device_side(), Some(collect), &memory);
            let interrupt_queue = InterruptQueue::new(
                interrupts.device_side(),
                call,
                interrupts.memory.clone(),
                command_queue.unserved(),
            );
            let port = VirtPciPort::new(memory, command_queue, interrupt_queue, halt);
            let nic = card("rtl8168");
            // Its shell has to get to where it stays.
            std::thread::sleep(std::time::Duration::from_millis(50));
            Bench {
                guest,
                commands,
                signals,
                calls,
                port,
                nic,
                clock: Clock::Real(TscClock::calibrate().unwrap()),
            }
        }

        fn poll(&mut self) {
            self.port.poll(&mut *self.nic, &self.clock, self.clock.now());
        }

        fn interrupt(&mut self) {
            self.port.interrupts.signal(Interrupt::Msi(MESSAGE));
        }

        fn poll_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
            let begun = std::time::Instant::now();
            while !done(self) {
                assert!(begun.elapsed().as_secs() < 20, "waited in vain: {what}");
                self.poll();
            }
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            self.guest.kill().unwrap();
            self.guest.wait().unwrap();
        }
    }

    #[test]
    fn an_interrupt_without_transmitting_goes_out_at_once() {
        let mut bench = Bench::new(true);
        bench.poll();
        bench.interrupt();
        assert_eq!(bench.signals.count(), 1);
    }

    #[test]
    fn while_the_driver_transmits_the_guest_is_stopped_for_an_interrupt() {
        let mut bench = Bench::new(false);
        bench.poll();
        bench.port.interrupts.driver_transmits();
        bench.interrupt();
        assert_eq!(bench.signals.count(), 0);
        let mut count = 0;
        bench.poll_until("signalled", |bench| {
            bench.port.interrupts.driver_transmits();
            count += bench.signals.count();
            count > 0
        });
        assert_eq!(bench.port.interrupts.counters().interrupts_sent, 1);
    }

    #[test]
    fn in_an_access_the_guest_is_not_signalled_however_long_that_takes() {
        let mut bench = Bench::new(true);
        bench.poll();
        bench.port.interrupts.driver_is_at_work();
        bench.interrupt();
        let begun = bench.clock.now();
        while bench.clock.now().since(begun) < Span::from_ms(20) {
            bench.poll();
        }
        assert_eq!(bench.signals.count(), 0);
    }

    #[test]
    fn a_guest_that_was_found_at_rest_is_signalled_at_once_from_then_on() {
        let mut bench = Bench::new(false);
        bench.poll();
        bench.port.interrupts.driver_is_at_work();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let mut count = 0;
        bench.poll();
        bench.interrupt();
        assert_eq!(bench.signals.count(), 0, "its time is up, but it has not been looked at");
        bench.poll_until("signalled", |bench| {
            count += bench.signals.count();
            count == 1
        });
        bench.interrupt();
        assert_eq!(bench.signals.count(), 1, "at once");
    }

    #[test]
    fn a_driver_that_only_writes_is_made_to_take_its_buffers_back() {
        let mut bench = Bench::new(false);
        for index in 0..128 {
            bench.commands.send(index % 8, &WRITE, 0);
            bench.poll();
        }
        bench.poll_until("called", |bench| bench.calls.count() == 1);
        bench.poll();
        assert_eq!(bench.calls.count(), 0, "once");
    }
}
