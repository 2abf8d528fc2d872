//! The interrupt queue: the guest leaves buffers in it, we return them with messages in.
//!
//! An interrupt comes here from the model by way of its level, its vector's message and the injector, which
//! holds it until its burst is in place. The message goes into a buffer of the guest's, the buffer into the
//! used ring, eight bytes down the line. The line raises SIGIO in the kernel, and User Mode Linux runs the
//! driver's handler. The handler reads the interrupt status (through [`commands`](super::commands); the probe
//! notes the time), masks and acknowledges; NAPI polls the ring and unmasks. Each write evaluates the level
//! again, so unmasking is a rise if a frame came in between. Then the guest gives the buffer back.
//!
//! The guest gives us ten buffers. With none free a message waits here and goes out when one comes
//! back. Signals go down a line of the guest's, without waiting: a full one holds a signal
//! already.
//!
//! On 6.1 a signal that arrives while the kernel is going idle is noticed only at its next timer
//! tick, 5 to 100 ms later. A message whose buffer does not come back in time is therefore
//! signalled again (no new message), and counted.

use std::collections::VecDeque;
use std::rc::Rc;

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::Bytes;
use warikomi_clock::{Span, Time};
use warikomi_pci::{Interrupt, IntrLine, SharedMemory};

use super::line::Line;
use super::message::{INTERRUPT_BYTES, intx_message, msi_message};
use super::unserved::Unserved;
use crate::TargetCounters;

/// How long a message may lie unread before the guest is signalled again. An awake guest takes 15
/// to 30 µs.
const RESIGNAL_AFTER: Span = Span::from_us(60);

/// The wait doubles with every repetition up to this, so that a guest that is stopped (under a
/// debugger, say) does not find its pipe full of signals.
const RESIGNAL_AT_MOST_AFTER: Span = Span::from_ms(4);

/// So long after the last doorbell the driver may be about to ring it again.
const TRANSMITS_FOR: Span = Span::from_ms(100);

/// So long after any other access outside of interrupt handling (to the PHY, to statistics) there may
/// be more. They come in close sequence.
const AT_WORK_FOR: Span = Span::from_ms(1);

/// So long after the device has said that there is work ahead, the driver may begin it.
const WORKS_WITHIN: Span = Span::from_ms(100);

/// Messages that may wait for a buffer.
const MAX_WAITING: usize = 256;

pub(super) struct InterruptQueue {
    memory: SharedMemory,
    queue: Queue,
    call: Line,
    accesses: Rc<Unserved>,
    waiting: VecDeque<[u8; INTERRUPT_BYTES]>,
    /// The guest's count of buffers that it has ever offered, as last seen.
    offered: u16,
    /// Messages in buffers that have not come back.
    unread: u16,
    signalled_at: Time,
    patience: Span,
    /// An access has been made that may not be the last, ...
    exposed: bool,
    /// ... for so long at least, and until the guest has been found outside of one.
    exposed_until: Time,
    /// An application polls the device, and so makes accesses with interrupts enabled at any time.
    polled: bool,
    now: Time,
    signals: u64,
    counters: TargetCounters,
}

impl InterruptQueue {
    pub(super) fn new(
        mut queue: Queue,
        call: Line,
        memory: SharedMemory,
        accesses: Rc<Unserved>,
    ) -> Self {
        let _ = queue.disable_notification(memory.regions());
        let offered = queue.next_avail();
        InterruptQueue {
            memory,
            queue,
            call,
            accesses,
            waiting: VecDeque::with_capacity(MAX_WAITING),
            offered,
            unread: 0,
            signalled_at: Time::ZERO,
            patience: RESIGNAL_AFTER,
            exposed: false,
            exposed_until: Time::ZERO,
            polled: false,
            now: Time::ZERO,
            signals: 0,
            counters: TargetCounters::default(),
        }
    }

    /// Sends what waits, and signals again what lies unread.
    #[inline]
    pub(super) fn poll(&mut self, now: Time) {
        self.now = now;
        if self.unread == 0 && self.waiting.is_empty() {
            return;
        }
        self.look_for_returned_buffers();
        if !self.is_exposed() && !self.accesses.any() {
            self.send_due();
        }
    }

    /// Sends what waits, as far as there are buffers for it, and signals again what lies unread.
    pub(super) fn send_due(&mut self) {
        while let Some(message) = self.waiting.front().copied() {
            if !self.place(message) {
                break;
            }
            self.waiting.pop_front();
        }
        if self.is_overlooked() {
            self.counters.resignalled += 1;
            self.signal_guest();
            self.patience = (self.patience * 2).min(RESIGNAL_AT_MOST_AFTER);
        }
    }

    fn is_overlooked(&self) -> bool {
        self.unread > 0 && self.now.since(self.signalled_at) > self.patience
    }

    /// The driver rings its doorbell.
    #[inline]
    pub(super) fn driver_transmits(&mut self) {
        self.expose(TRANSMITS_FOR);
    }

    /// The driver makes another access with interrupts enabled.
    #[inline]
    pub(super) fn driver_is_at_work(&mut self) {
        self.expose(AT_WORK_FOR);
    }

    /// An application polls the device from now on, or does not any more.
    pub(super) fn set_polled(&mut self, polled: bool) {
        self.polled = polled;
        self.exposed |= polled;
    }

    #[inline]
    fn expose(&mut self, span: Span) {
        self.exposed = true;
        self.exposed_until = self.exposed_until.max(self.now + span);
    }

    /// The guest is stopped, and not in the middle of an access. That its time is up does not say so:
    /// its core may have been taken from it in the middle of one.
    pub(super) fn guest_is_at_rest(&mut self) {
        self.exposed = self.polled || self.now < self.exposed_until;
    }

    /// Whether the guest may be in the middle of an access that an interrupt would break.
    #[inline]
    fn is_exposed(&self) -> bool {
        self.exposed
    }

    /// Whether an interrupt waits for a moment at which the guest does not access the device.
    #[inline]
    pub(super) fn wants_a_safe_moment(&self) -> bool {
        self.is_exposed() && (self.is_overlooked() || (!self.waiting.is_empty() && self.has_room()))
    }

    /// Whether the guest has offered a buffer that holds no message.
    fn has_room(&self) -> bool {
        self.offered != self.queue.next_avail()
    }

    /// Which buffer is taken next, as the guest counts them.
    pub(super) fn next_available(&self) -> u16 {
        self.queue.next_avail()
    }

    /// The time that interrupts raised from now on are stamped with.
    #[inline]
    pub(super) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// How often the guest was signalled: system calls of some microseconds.
    #[inline]
    pub(super) fn signals(&self) -> u64 {
        self.signals
    }

    pub(super) fn counters(&self) -> TargetCounters {
        self.counters
    }

    fn look_for_returned_buffers(&mut self) {
        let Ok(index) =
            self.queue.avail_idx(self.memory.regions(), std::sync::atomic::Ordering::Acquire)
        else {
            return;
        };
        let returned = index.0.wrapping_sub(self.offered);
        self.offered = index.0;
        if returned > 0 {
            self.unread = self.unread.saturating_sub(returned);
            self.patience = RESIGNAL_AFTER;
            self.signalled_at = self.now;
        }
    }

    /// Puts a message into a free buffer and signals; `false` if none is free.
    fn place(&mut self, message: [u8; INTERRUPT_BYTES]) -> bool {
        let memory = self.memory.regions();
        let Some(mut chain) = self.queue.iter(memory).ok().and_then(|mut chains| chains.next())
        else {
            return false;
        };
        let head = chain.head_index();
        let room = chain.next().filter(|buffer| buffer.is_write_only());
        let written = room
            .filter(|buffer| buffer.len() as usize >= INTERRUPT_BYTES)
            .is_some_and(|buffer| memory.write_slice(&message, buffer.addr()).is_ok());
        // A buffer that cannot hold the message goes back empty: the guest offers it again.
        let len = if written { INTERRUPT_BYTES as u32 } else { 0 };
        let _ = self.queue.add_used(memory, head, len);
        self.unread = self.unread.saturating_add(1);
        self.signalled_at = self.now;
        self.signal_guest();
        if written {
            self.counters.interrupts_sent += 1;
        } else {
            self.counters.malformed += 1;
        }
        written
    }

    fn signal_guest(&mut self) {
        self.signals += 1;
        self.signalled_at = self.now;
        // The guest wants eight bytes a signal. When the line is full a signal is on its way already.
        let _ = self.call.write(&1u64.to_ne_bytes());
    }
}

impl IntrLine for InterruptQueue {
    #[inline]
    fn signal(&mut self, interrupt: Interrupt) {
        let message = match interrupt {
            Interrupt::Msi(message) => msi_message(message),
            Interrupt::Intx(true) => {
                // virt-pci cannot route INTx: the driver's request_irq() fails. Counted, so that a
                // driver that insists on it can be told apart from one that hangs.
                self.counters.intx_undeliverable += 1;
                intx_message()
            }
            Interrupt::Intx(false) => return,
        };
        self.look_for_returned_buffers();
        let must_wait = self.is_exposed() || !self.waiting.is_empty();
        // The guest may have begun an access since the last one was served, more so if we have not run
        // for a while. It is served, and looked at, before the next poll sends this.
        let at_access = self.accesses.any();
        if !must_wait && !at_access && self.place(message) {
            return;
        }
        if self.waiting.len() == MAX_WAITING {
            self.counters.interrupts_dropped += 1;
            return;
        }
        self.counters.interrupts_delayed += u64::from(must_wait || !self.has_room());
        self.waiting.push_back(message);
    }

    /// The guest is stopped for it, as for one that comes while the driver transmits; and for what
    /// follows, because the handler may have interrupted anything.
    fn signal_any_time(&mut self, interrupt: Interrupt) {
        self.driver_transmits();
        self.signal(interrupt);
    }

    /// Its first access would otherwise be the one that is not guarded.
    fn work_ahead(&mut self) {
        self.expose(WORKS_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{GuestQueue, Signals};
    use warikomi_pci::MsiMessage;

    fn set_up(buffers: u16) -> (GuestQueue, Signals, InterruptQueue) {
        let mut guest = GuestQueue::new();
        for index in 0..buffers {
            guest.offer_buffer(index, 20);
        }
        let (signals, call) = Signals::line();
        let accesses = Unserved::of(&GuestQueue::new());
        let queue = InterruptQueue::new(guest.device_side(), call, guest.memory.clone(), accesses);
        (guest, signals, queue)
    }

    fn msi(data: u32) -> Interrupt {
        Interrupt::Msi(MsiMessage { address: 0xa0000, data })
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn while_an_application_polls_every_interrupt_waits_for_a_safe_moment() {
        let (mut guest, mut signals, mut queue) = set_up(10);
        queue.set_polled(true);
        for round in 1..4 {
            queue.poll(at(round * 1_000_000));
            queue.signal(msi(25));
            queue.poll(at(round * 1_000_000 + 1));
            assert!(guest.take().is_none() && queue.wants_a_safe_moment());
            queue.guest_is_at_rest();
            queue.send_due();
            assert!(guest.take().is_some());
            guest.offer_buffer(0, 20);
        }
        queue.set_polled(false);
        queue.guest_is_at_rest();
        queue.signal(msi(25));
        assert!(guest.take().is_some());
        assert_eq!(signals.count(), 4);
    }

    #[test]
    fn a_message_carries_the_number_and_one_signal() {
        let (mut guest, mut signals, mut queue) = set_up(10);
        assert!(guest.notifications_off());
        queue.signal(msi(25));
        let (_, message) = guest.take().unwrap();
        assert_eq!((message[0], &message[16..20]), (7, &[25, 0, 0, 0][..]));
        assert_eq!(signals.count(), 1);
    }

    #[test]
    fn with_no_buffer_free_an_interrupt_waits_for_one_and_keeps_its_place() {
        let (mut guest, _signals, mut queue) = set_up(10);
        for data in 0..12 {
            queue.signal(msi(data));
        }
        let counters = queue.counters();
        assert_eq!((counters.interrupts_sent, counters.interrupts_delayed), (10, 2));
        let mut seen = Vec::new();
        while let Some((index, message)) = guest.take() {
            seen.push(message[16]);
            guest.offer_buffer(index, 20);
            queue.poll(at(1));
        }
        assert_eq!(seen, (0..12).collect::<Vec<u8>>());
        assert_eq!(queue.counters().interrupts_sent, 12);
    }

    #[test]
    fn a_message_that_lies_unread_is_signalled_again_ever_more_rarely() {
        let (mut guest, mut signals, mut queue) = set_up(10);
        queue.set_now(at(0));
        queue.signal(msi(1));
        assert_eq!(signals.count(), 1);
        queue.poll(at(59));
        assert_eq!(signals.count(), 0, "an awake guest takes so long");
        queue.poll(at(61));
        queue.poll(at(100));
        assert_eq!(signals.count(), 1, "again after 60 µs, and not again at once");
        let (index, _) = guest.take().unwrap();
        assert!(guest.take().is_none(), "no second message");
        guest.offer_buffer(index, 20);
        for us in 200..2000 {
            queue.poll(at(us));
        }
        assert_eq!(signals.count(), 0, "a message that was read needs no signal");
        assert_eq!(queue.counters().resignalled, 1);
    }

    #[test]
    fn an_access_that_has_not_been_served_comes_first() {
        let mut guest = GuestQueue::new();
        guest.offer_buffer(0, 20);
        let (mut signals, call) = Signals::line();
        let mut commands = GuestQueue::new();
        let accesses = Unserved::of(&commands);
        let mut queue =
            InterruptQueue::new(guest.device_side(), call, guest.memory.clone(), accesses.clone());
        commands.send(0, &[0; 16], 0);
        queue.signal(msi(1));
        queue.poll(at(1));
        assert_eq!(signals.count(), 0);
        accesses.take_all();
        queue.poll(at(2));
        assert_eq!(signals.count(), 1);
        assert_eq!(queue.counters().interrupts_delayed, 0, "that is no delay");
    }

    #[test]
    fn a_full_line_does_not_stop_us() {
        let mut guest = GuestQueue::new();
        guest.offer_buffer(0, 20);
        let (_signals, call) = Signals::line();
        Signals::fill(&call);
        let accesses = Unserved::of(&GuestQueue::new());
        let mut queue =
            InterruptQueue::new(guest.device_side(), call, guest.memory.clone(), accesses);
        queue.signal(msi(1));
        assert!(guest.take().is_some());
    }

    #[test]
    fn a_buffer_that_is_too_small_is_given_back_and_the_message_waits() {
        let (mut guest, _signals, mut queue) = set_up(0);
        guest.offer_buffer(0, 4);
        queue.signal(msi(9));
        assert_eq!(guest.take(), Some((0, vec![])));
        guest.offer_buffer(1, 20);
        queue.poll(at(1));
        assert_eq!(guest.take().unwrap().1[16], 9);
    }

    #[test]
    fn a_guest_that_never_reads_costs_bounded_memory() {
        let (_guest, _signals, mut queue) = set_up(1);
        for data in 0..1000 {
            queue.signal(msi(data));
        }
        assert_eq!(queue.waiting.len(), MAX_WAITING);
        assert_eq!(queue.counters().interrupts_dropped, 1000 - 1 - MAX_WAITING as u64);
    }

    #[test]
    fn an_interrupt_at_any_time_waits_for_a_safe_moment() {
        let (mut guest, mut signals, mut queue) = set_up(10);
        queue.set_now(at(1));
        queue.signal_any_time(msi(3));
        queue.poll(at(2));
        assert_eq!(signals.count(), 0);
        assert!(queue.wants_a_safe_moment());
        queue.send_due();
        assert_eq!((guest.take().unwrap().1[16], signals.count()), (3, 1));
    }

    #[test]
    fn with_work_ahead_interrupts_wait_for_a_safe_moment_before_its_first_access() {
        let (mut guest, mut signals, mut queue) = set_up(10);
        queue.set_now(at(1));
        queue.work_ahead();
        queue.signal(msi(3));
        queue.poll(at(50_000));
        assert_eq!(signals.count(), 0);
        assert!(queue.wants_a_safe_moment());
        queue.guest_is_at_rest();
        queue.send_due();
        assert!(guest.take().is_some() && signals.count() == 1);
        queue.poll(at(100_002));
        queue.guest_is_at_rest();
        queue.signal(msi(3));
        assert_eq!(signals.count(), 1, "at once, when it is over");
    }

    #[test]
    fn intx_is_counted_as_undeliverable() {
        let (_guest, _signals, mut queue) = set_up(4);
        queue.signal(Interrupt::Intx(true));
        queue.signal(Interrupt::Intx(false));
        assert_eq!(queue.counters().intx_undeliverable, 1);
    }
}
