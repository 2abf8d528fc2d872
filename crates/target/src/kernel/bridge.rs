//! The attachment through a PCI bridge of our own in the guest (`kernel/bridge`).
//!
//! Register accesses come through a ring in the guest's memory, and are safe at any moment: the bridge locks
//! it, and a handler waits until an access under way has ended. Interrupts are numbers in another ring. A
//! guest that has nothing else to do looks at it by itself, or sleeps until it is signalled, by the one request
//! that a vhost-user device has for its driver: that its configuration has changed. A guest that does something
//! else looks behind each access, and is signalled: at once if it polls when it is idle, otherwise if it makes
//! none for a while.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use warikomi_clock::{Clock, Span, Time};
use warikomi_nic::Nic;
use warikomi_pci::attach::bridge as layout;
use warikomi_pci::{Host, Interrupt, IntrLine, SharedMemory};
use warikomi_shared::{Bell, Consumer, MessageSender, Rung, SharedWords, Wakeup};

use super::charge::Charge;
use super::commands::Served;
use super::line::Line;
use super::options::Attachment;
use super::port::Port;
use super::vhost_user::{ANSWER_BYTES, CONFIGURATION_CHANGED, CONFIGURATION_CHANGED_SAY_SO};
use crate::TargetCounters;

/// Accesses served in one pass: many, because the guest spins for some of them, but bounded, so that a guest
/// cannot keep the injector waiting.
const ACCESSES_PER_PASS: usize = 64;

/// How long the guest waits for the answer to an access before it gives the card up: longer than a busy
/// machine may take our core for.
const ACCESS_PATIENCE: Duration = Duration::from_secs(10);

/// A guest that does something else is signalled at once if it polls when it is idle, since its interrupts shall
/// be exact. One that sleeps then shall be cheap, and has time to look by itself: about what a signal costs both
/// sides, so that at worst twice the least is paid. That differs by machine; sending takes about a fourth of it, and
/// is timed.
const SENDS_OF_PATIENCE: u64 = 4;
const BUSY_PATIENCE_AT_MOST: Span = Span::from_us(50);
/// A signal that can wait is not sent if something else is due before this many could have been.
const SENDS_OF_ROOM: u64 = 2;
/// The weight of the last send in what a send takes is one in this.
const SENDS_KEPT: u64 = 8;

/// How long a guest that was signalled may leave its interrupts alone until it is signalled again: on 6.1 it
/// can miss a signal that comes as it falls asleep. A guest that runs takes less.
const RESIGNAL_AFTER: Span = Span::from_us(60);
const RESIGNAL_AT_MOST_AFTER: Span = Span::from_ms(4);

/// What the guest reads of a queue's line is of this length (arch/um/drivers/virtio_uml.c, `vu_interrupt`).
const ONE_CALL: [u8; 8] = 1u64.to_le_bytes();

/// The line for requests of ours to the guest's virtio driver.
struct Requests {
    line: Line,
    clock: Clock,
    /// How patient to be with a busy guest.
    busy_patience: Rc<Cell<Span>>,
}

impl Wakeup for Requests {
    fn wake(&self) {
        let begun = self.clock.now();
        // While the line is full a signal is on its way already.
        let _ = self.line.write(&CONFIGURATION_CHANGED);
        let now = self.clock.now().since(begun) * SENDS_OF_PATIENCE;
        let patience = (self.busy_patience.get() * (SENDS_KEPT - 1) + now) / SENDS_KEPT;
        self.busy_patience.set(patience.min(BUSY_PATIENCE_AT_MOST));
    }
}

/// How long the poller of a guest may take from one look to the next: what is longer, it notes.
const LOOK: Duration = Duration::from_micros(2);
/// The same if it took interrupts, with all that a driver and the network stack do then.
const WORK: Duration = Duration::from_micros(20);

/// A guest's window, and what is behind it.
pub(super) struct BridgePort {
    memory: SharedMemory,
    words: SharedWords,
    requests: Consumer<SharedWords>,
    line: BridgeLine,
    corrupt: u64,
    /// The guest's hiccups that have been taken.
    hiccups_taken: u64,
    /// What accesses take, in virtual time.
    charge: Option<Charge>,
    listens: u64,
    /// How much of the guest's answer has come that it has heard of interrupts.
    answer_bytes: usize,
}

/// The interrupts to the guest.
struct BridgeLine {
    words: SharedWords,
    messages: MessageSender<SharedWords>,
    /// Where their count stood when the guest handed its window over: anything.
    sent_before: u64,
    bell: Bell<SharedWords, Requests>,
    pin: bool,
    /// How often the card was pulled out or plugged in.
    plugs: u64,
    /// How often the pin was asserted.
    pins: u64,
    resignalled: u64,
    now: Time,
    /// Since when the guest owes us a look, until it is known to have looked.
    waiting_since: Option<Time>,
    /// Whether it was signalled since.
    signalled: bool,
    patience: Span,
    /// Whether a busy guest is signalled at once.
    at_once: bool,
    busy_patience: Rc<Cell<Span>>,
    /// When something else is due.
    clear_of: Time,
    /// Interrupts were sent since it was told last, ...
    owes: bool,
    /// ... or something else has changed.
    has_news: bool,
    /// Of a guest in virtual time, which is told of interrupts only when it waits: a line by which it is interrupted
    /// wherever it is.
    strikes: Option<Line>,
}

impl BridgePort {
    /// Behind the window of `words`, whose header has been looked at. `strikes` interrupts the guest wherever it is in
    /// virtual time.
    pub(super) fn new(
        memory: SharedMemory,
        words: SharedWords,
        requests: Line,
        strikes: Option<Line>,
        clock: &Clock,
        attachment: Attachment,
    ) -> BridgePort {
        let polling = attachment == Attachment::Bridge { polling: true };
        let charge = match attachment {
            Attachment::InStep(costs) => Some(Charge::new(costs)),
            _ => None,
        };
        for (word, span) in [
            (layout::header::PATIENCE_TICKS, ACCESS_PATIENCE),
            (layout::header::LOOK_TICKS, LOOK),
            (layout::header::WORK_TICKS, WORK),
        ] {
            let ticks = span.as_secs_f64() * clock.ticks_per_second();
            words[word].store(ticks as u64, Release);
        }
        if let Some(charge) = &charge {
            words[layout::header::INTERRUPT_PS].store(charge.interrupt().as_ps(), Release);
            // How long we take is no matter: a debugger may hold us.
            words[layout::header::PATIENCE_TICKS].store(u64::MAX, Release);
            words[layout::header::IN_STEP].store(1, Release);
        }
        words[layout::header::POLLING].store(polling.into(), Release);
        let busy_patience = Rc::new(Cell::new(BUSY_PATIENCE_AT_MOST));
        let signals =
            Requests { line: requests, clock: *clock, busy_patience: Rc::clone(&busy_patience) };
        let mut bell = Bell::new(words.clone(), layout::SLEEPING, signals);
        // It may have looked whether it shall poll before we said so. In virtual time it never does.
        if charge.is_none() {
            bell.ring_unconditionally();
        }
        let messages = MessageSender::new(words.clone(), layout::MESSAGE_RING);
        let line = BridgeLine {
            sent_before: messages.sent(),
            messages,
            bell,
            words: words.clone(),
            pin: false,
            plugs: 0,
            pins: 0,
            resignalled: 0,
            now: Time::ZERO,
            waiting_since: None,
            signalled: false,
            patience: RESIGNAL_AFTER,
            at_once: polling,
            busy_patience,
            clear_of: Time::ZERO,
            owes: false,
            has_news: false,
            strikes,
        };
        let requests = Consumer::new(words.clone(), layout::REQUESTS);
        let hiccups_taken = words[layout::HICCUPS].load(Acquire);
        BridgePort {
            memory,
            words,
            requests,
            line,
            corrupt: 0,
            hiccups_taken,
            charge,
            listens: 0,
            answer_bytes: 0,
        }
    }

    /// In virtual time the guest waits for each write.
    #[inline]
    fn looks(&self) -> Option<u64> {
        self.charge.is_none().then(|| self.requests.looks())
    }
}

impl Port for BridgePort {
    #[inline]
    fn poll(&mut self, nic: &mut dyn Nic, clock: &Clock, now: Time) -> Served {
        let mut served = Served::default();
        self.line.now = now;
        for _ in 0..ACCESSES_PER_PASS {
            let entry = match self.requests.pop() {
                Ok(None) => break,
                Ok(Some(entry)) => entry,
                Err(_) => {
                    self.requests.resynchronise();
                    self.corrupt += 1;
                    break;
                }
            };
            let now = clock.now();
            self.line.now = now;
            let looks = self.looks();
            let BridgePort { memory, words, line, .. } = self;
            let mut host = Host { now, memory, interrupts: line, looks };
            let made_sense = layout::ANSWERS.execute(entry, nic, &mut host, words);
            served.accesses += u64::from(made_sense);
            served.malformed += u64::from(!made_sense);
            if let Some(charge) = &mut self.charge {
                let delay = charge.for_access(now, nic, &mut self.line.host(now, &self.memory));
                self.words[layout::DELAY_NS].store(delay, Release);
            }
            // After each: a level holds for a guest whose accesses have all been carried out.
            self.requests.release();
        }
        self.line.signal_if_overlooked();
        served
    }

    #[inline]
    fn host(&mut self, now: Time) -> Host<'_> {
        self.line.now = now;
        let looks = self.looks();
        Host { now, memory: &self.memory, interrupts: &mut self.line, looks }
    }

    fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    #[inline]
    fn signals(&self) -> u64 {
        self.line.bell.wakeups()
    }

    fn keep_clear_of(&mut self, due: Time) {
        self.line.clear_of = due;
    }

    fn take_hiccups(&mut self, each: &mut dyn FnMut(u64, u64)) {
        let count = self.words[layout::HICCUPS].load(Acquire);
        let kept = layout::HICCUPS_CAPACITY as u64;
        // Of a count that makes no sense no more is read than there can be.
        let first = self.hiccups_taken.max(count.saturating_sub(kept));
        for number in first..count {
            let at = layout::HICCUP_TIMES + (number % kept) as usize * 2;
            each(self.words[at].load(Relaxed), self.words[at + 1].load(Relaxed));
        }
        self.hiccups_taken = count;
    }

    fn wait_for_writes(&mut self, wait: bool) {
        self.words[layout::header::IN_STEP].store(wait.into(), Release);
    }

    fn ask_to_listen(&mut self) {
        self.listens += 1;
        self.words[layout::header::LISTENS].store(self.listens, Release);
    }

    fn owes_interrupts(&mut self) -> bool {
        let has_news = std::mem::take(&mut self.line.has_news);
        std::mem::take(&mut self.line.owes) && (has_news || self.line.is_pending())
    }

    fn interrupt_in_step(&mut self) -> io::Result<()> {
        self.answer_bytes = 0;
        self.line.bell.wakeup().line.write(&CONFIGURATION_CHANGED_SAY_SO)
    }

    fn has_heard(&mut self) -> io::Result<bool> {
        let mut answer = [0; ANSWER_BYTES];
        let missing = ANSWER_BYTES - self.answer_bytes;
        match self.line.bell.wakeup().line.read(&mut answer[..missing]) {
            // It has ended, which is found out otherwise.
            Ok(0) => return Ok(true),
            Ok(count) => self.answer_bytes += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(self.answer_bytes == ANSWER_BYTES)
    }

    fn counters(&self) -> TargetCounters {
        TargetCounters {
            interrupts_sent: self.line.sent() + self.line.pins,
            resignalled: self.line.resignalled,
            corrupt_rings: self.corrupt,
            ..TargetCounters::default()
        }
    }
}

impl BridgeLine {
    fn host<'a>(&'a mut self, now: Time, memory: &'a SharedMemory) -> Host<'a> {
        Host { now, memory, interrupts: self, looks: None }
    }

    /// Messages sent since the guest handed its window over.
    fn sent(&self) -> u64 {
        self.messages.sent().wrapping_sub(self.sent_before)
    }

    /// For an interrupt behind this number of messages.
    #[inline]
    fn ring(&mut self, before: u64) {
        if self.strikes.is_some() {
            self.owes = true;
            return;
        }
        match self.bell.ring() {
            Rung::Looks => {}
            Rung::Busy => self.ring_busy(before),
            Rung::Woken => self.wait(true, RESIGNAL_AFTER),
        }
    }

    /// Whatever there is to see: the guest is signalled, in virtual time when it waits.
    fn tell(&mut self) {
        if self.strikes.is_some() {
            (self.owes, self.has_news) = (true, true);
        } else {
            self.bell.ring_unconditionally();
        }
    }

    fn wait(&mut self, signalled: bool, patience: Span) {
        self.waiting_since = Some(self.now);
        (self.signalled, self.patience) = (signalled, patience);
    }

    /// Waits for what was just sent, unless something before it is still waited for.
    fn ring_busy(&mut self, before: u64) {
        if self.waiting_since.is_some() && self.words[layout::TAKEN].load(Acquire) != before {
            return;
        }
        if self.at_once {
            self.bell.ring_unconditionally();
            self.wait(true, RESIGNAL_AFTER);
        } else {
            self.wait(false, self.busy_patience.get());
        }
    }

    /// Whether the guest has interrupts to take.
    #[inline]
    fn is_pending(&self) -> bool {
        self.pin || self.words[layout::TAKEN].load(Acquire) != self.messages.sent()
    }

    #[inline]
    fn signal_if_overlooked(&mut self) {
        let Some(since) = self.waiting_since else { return };
        let waited = self.now.since(since);
        if waited > self.patience && (waited > self.patience * 2 || !self.is_due_soon()) {
            self.signal_again();
        }
    }

    /// Whether a signal would run into what is due.
    fn is_due_soon(&self) -> bool {
        let room = self.clear_of.since(self.now);
        room > Span::ZERO && room < self.busy_patience.get() * SENDS_OF_ROOM / SENDS_OF_PATIENCE
    }

    #[cold]
    fn signal_again(&mut self) {
        if !self.is_pending() {
            self.waiting_since = None;
            return;
        }
        self.bell.ring_unconditionally();
        if self.signalled {
            self.resignalled += 1;
            self.wait(true, (self.patience * 2).min(RESIGNAL_AT_MOST_AFTER));
        } else {
            self.wait(true, RESIGNAL_AFTER);
        }
    }
}

impl IntrLine for BridgeLine {
    #[inline]
    fn signal(&mut self, interrupt: Interrupt) {
        let before = self.messages.sent();
        match interrupt {
            Interrupt::Msi(message) => {
                // The guest's bridge gives each vector its number as data.
                self.messages.send(message.data as u16);
            }
            Interrupt::Intx(level) => {
                self.pin = level;
                self.words[layout::PIN_LEVEL].store(level.into(), Release);
                if !level {
                    return;
                }
                self.pins += 1;
            }
        }
        self.ring(before);
    }

    fn interrupt_now(&mut self) {
        match &self.strikes {
            // While the line is full an interrupt is on its way already.
            Some(line) => drop(line.write(&ONE_CALL)),
            None => {
                self.wait(true, RESIGNAL_AFTER);
                self.tell();
            }
        }
    }

    fn has_hotplug(&self) -> bool {
        true
    }

    fn set_present(&mut self, present: bool) {
        let is_in = self.plugs.is_multiple_of(2);
        if present == is_in {
            return;
        }
        // A count, because a guest that is slow must not take two changes for none.
        self.plugs += 1;
        self.words[layout::header::PLUGS].store(self.plugs, Release);
        // A guest that polls does not look at it.
        self.tell();
    }
}

#[cfg(test)]
mod tests;
