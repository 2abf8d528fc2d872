//! Message-signalled interrupts to whichever driver is served, and the times of their handlers.
//!
//! Each window counts its messages from 0. Messages also have numbers that go on from one driver to the
//! next, and these the log goes by.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use warikomi_clock::{Time, TscClock, read_tsc};
use warikomi_nic::{InterruptRecord, Probe};
use warikomi_pci::attach::layout::{self, bells};
use warikomi_pci::{Interrupt, IntrLine, Vector};
use warikomi_shared::{Bell, MessageSender, SharedWords, Wakeup};

/// Our end of the pipe on which the driver sleeps. It is ours alone, so that nobody else can make writing
/// to it block (an eventfd, or its flags, would be shared).
#[derive(Debug)]
struct DriversEvent(OwnedFd);

impl Wakeup for DriversEvent {
    fn wake(&self) {
        // It does not block; one that is full ends any sleep as it is. Eight bytes, as an eventfd has them.
        let _ = nix::unistd::write(&self.0, &1u64.to_le_bytes());
    }
}

/// Our end of what a window has of interrupts.
pub(super) struct LineEnd {
    words: SharedWords,
    messages: MessageSender<SharedWords>,
    bell: Bell<SharedWords, DriversEvent>,
    /// Messages sent through this window.
    sent: u64,
    /// Of these, the ones whose handlers have told.
    stamps_taken: u64,
    /// Messages sent before the window was last turned to. When they were is not known any more.
    earlier: u64,
}

impl LineEnd {
    pub(super) fn new(words: SharedWords, wakeup: OwnedFd) -> LineEnd {
        LineEnd {
            messages: MessageSender::new(words.clone(), layout::INTERRUPTS),
            bell: Bell::new(words.clone(), bells::SLEEPING, DriversEvent(wakeup)),
            words,
            sent: 0,
            stamps_taken: 0,
            earlier: 0,
        }
    }
}

/// Interrupts to the driver: messages, and the pin of a device that has none.
pub(super) struct MessageLine {
    end: LineEnd,
    clock: TscClock,
    sent: u64,
    /// Counter values at which the last messages went out; number `n` is at `n` modulo their number.
    sent_at: Box<[u64]>,
    /// Vectors of the messages that were sent.
    vectors: Box<[Vector]>,
    /// Whether the data of a message is its vector: there is more than one.
    tells_vectors: bool,
    log: Vec<InterruptRecord>,
    log_capacity: usize,
    /// Number of the first message in the log.
    log_begins: u64,
}

impl MessageLine {
    /// For a device with so many vectors.
    pub(super) fn new(end: LineEnd, clock: TscClock, vectors: u16) -> MessageLine {
        MessageLine {
            end,
            clock,
            sent: 0,
            sent_at: vec![0; layout::STAMPS_CAPACITY].into(),
            vectors: vec![Vector::default(); layout::STAMPS_CAPACITY].into(),
            tells_vectors: vectors > 1,
            log: Vec::new(),
            log_capacity: 0,
            log_begins: 0,
        }
    }

    /// From now on messages go to another driver; our end of the window before.
    pub(super) fn turn_to(&mut self, mut end: LineEnd) -> LineEnd {
        end.earlier = end.sent;
        std::mem::replace(&mut self.end, end)
    }

    /// Messages sent since the start.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Messages whose handlers have not told yet, and are still listened to.
    #[inline]
    pub(super) fn unreported_handlers(&self) -> u64 {
        self.end.sent - self.end.stamps_taken.max(self.end.earlier)
    }

    /// Messages whose handlers have told, or have told too late to be heard.
    pub(super) fn handled_count(&self) -> u64 {
        self.sent - self.unreported_handlers()
    }

    /// Whether there are messages that the driver, as far as it says, has not taken up.
    pub(super) fn is_pending(&self) -> bool {
        self.end.words[bells::STAMPED].load(Acquire) != self.end.sent
    }

    /// Makes a sleeping driver look at everything.
    pub(super) fn ring(&mut self) {
        self.end.bell.ring();
    }

    /// Keeps the times of the next messages.
    pub(super) fn log(&mut self, capacity: usize) {
        self.log = Vec::with_capacity(capacity);
        (self.log_capacity, self.log_begins) = (capacity, self.sent);
    }

    /// The times kept; no more are.
    pub(super) fn take_log(&mut self) -> Vec<InterruptRecord> {
        self.log_capacity = 0;
        std::mem::take(&mut self.log)
    }

    /// Takes up at most `limit` times of handlers; how many of them made no sense, or were lost.
    pub(super) fn take_stamps(&mut self, probe: &mut Probe, limit: u64) -> u64 {
        let stamped = self.end.words[bells::STAMPED].load(Acquire);
        let waiting = stamped.wrapping_sub(self.end.stamps_taken);
        let unreported = self.end.sent - self.end.stamps_taken;
        if waiting > unreported {
            // It claims to have handled what was never sent.
            return 1;
        }
        // Of what has been written over, and of what is just being, nothing is known.
        let lost = unreported.saturating_sub(layout::STAMPS_CAPACITY as u64).min(waiting);
        self.end.stamps_taken += lost;
        let now = read_tsc();
        let mut bad = lost;
        for _ in 0..(waiting - lost).min(limit) {
            bad += u64::from(!self.take_stamp(probe, now));
        }
        bad
    }

    /// Takes up the next handler's time; whether it makes sense.
    fn take_stamp(&mut self, probe: &mut Probe, now: u64) -> bool {
        let kept = layout::STAMPS_CAPACITY as u64;
        let number = self.end.stamps_taken;
        let at = self.end.words[layout::STAMPS + (number % kept) as usize].load(Relaxed);
        self.end.stamps_taken += 1;
        if number < self.end.earlier {
            return true;
        }
        let number = self.sent - (self.end.sent - number);
        let place = (number % kept) as usize;
        let (sent, vector) = (self.sent_at[place], self.vectors[place]);
        if !(sent..=now).contains(&at) {
            return false;
        }
        let (sent, at) = (self.clock.at(sent), self.clock.at(at));
        probe.handled(vector, sent, at);
        self.handled(number, at);
        true
    }

    fn handled(&mut self, number: u64, at: Time) {
        let record = number.checked_sub(self.log_begins).map(|index| index as usize);
        if let Some(record) = record.and_then(|index| self.log.get_mut(index)) {
            record.handled = at;
        }
    }
}

impl IntrLine for MessageLine {
    #[inline]
    fn signal(&mut self, interrupt: Interrupt) {
        // That the pin is asserted is told like a message; a driver looks at its device until the pin has fallen.
        let data = match interrupt {
            Interrupt::Msi(message) => message.data as u16,
            Interrupt::Intx(true) => 0,
            Interrupt::Intx(false) => return,
        };
        let now = read_tsc();
        self.end.messages.send(data);
        self.end.bell.ring();
        self.end.sent += 1;
        let vector = Vector(if self.tells_vectors { data } else { 0 });
        let place = self.sent as usize % layout::STAMPS_CAPACITY;
        (self.sent_at[place], self.vectors[place]) = (now, vector);
        self.sent += 1;
        if self.log.len() < self.log_capacity {
            let raised = self.clock.at(now);
            self.log.push(InterruptRecord { vector, raised, handled: Time::NEVER });
        }
    }
}
