//! What a sender counts. The warm-up is not in it.

use hdrhistogram::Histogram;
use warikomi_clock::{Span, Time};
use warikomi_driver::transmit::TransmitterCounts;
use warikomi_protocol::answers::Sent;

use crate::buffers::BufferCounts;

/// Waits are kept with so many digits.
const WAIT_DIGITS: u8 = 3;
/// The longest wait that is kept as it is, in nanoseconds: a minute.
const LONGEST_WAIT_NS: u64 = 60_000_000_000;

/// What has happened up to a moment, the warm-up included.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    at: Time,
    idle: Span,
    interrupts: u64,
    sleeps: u64,
    switches: u64,
    asked: u64,
}

/// Counts and times of a sender.
pub(super) struct Account {
    planned: u64,
    warmup: u64,
    /// Messages of the warm-up of which it is not known yet what becomes of them.
    warmup_left: u64,
    /// The measurement's beginning: the end of the warm-up.
    from: Option<Totals>,
    now: Totals,
    /// Since when there is nothing to do.
    resting: Option<Time>,
    /// What the transmitter had done before the first message that is measured.
    before: Option<TransmitterCounts>,
    sent: Sent,
    waits: Histogram<u64>,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// It was sent, after so long in the driver.
    Sent { bytes: u32, wait: Span },
    /// The socket had no room.
    Dropped,
    /// The driver refused it.
    Refused,
}

impl Account {
    pub(super) fn new(planned: u64, warmup: u64) -> Account {
        Account {
            planned,
            warmup,
            warmup_left: warmup,
            from: None,
            now: Totals::default(),
            resting: None,
            before: None,
            sent: Sent { planned, ..Sent::default() },
            waits: Histogram::new_with_bounds(1, LONGEST_WAIT_NS, WAIT_DIGITS)
                .expect("the bounds are constants that make a histogram"),
        }
    }

    /// Whether the message of this number is measured.
    #[inline]
    pub(super) fn measures(&self, number: u64) -> bool {
        number >= self.warmup
    }

    /// A step begins; the time is asked for only if it is needed. How long there was nothing to do before.
    #[inline]
    pub(super) fn step(&mut self, now: impl FnOnce() -> Time) -> Span {
        let Some(since) = self.resting.take() else { return Span::ZERO };
        let idle = now().since(since);
        self.now.idle += idle;
        idle
    }

    /// The receive side has taken so many frames, behind so many that did not come.
    #[inline]
    pub(super) fn received(&mut self, frames: u64, missing: u64) {
        self.sent.received += frames;
        self.sent.receive_missing += missing;
    }

    /// There is nothing to do from now on.
    #[inline]
    pub(super) fn rests(&mut self, now: Time) {
        self.resting = Some(now);
    }

    /// Counts an interrupt that was taken.
    #[inline]
    pub(super) fn interrupted(&mut self) {
        self.now.interrupts += 1;
    }

    /// The sender goes to sleep.
    #[inline]
    pub(super) fn sleeps(&mut self) {
        self.now.sleeps += 1;
    }

    /// A message is a packet, which took this much of the buffers' work; the transmitter has not got it yet.
    #[inline]
    pub(super) fn filled(
        &mut self,
        measured: bool,
        bytes: u32,
        counts: TransmitterCounts,
        work: BufferCounts,
    ) {
        if measured {
            self.before.get_or_insert(counts);
            self.sent.copied_bytes += u64::from(bytes);
            self.sent.buffers_taken += work.taken;
            self.sent.buffers_visited += work.visited;
            self.sent.summed_bytes += work.summed_bytes;
        }
    }

    /// How many of a packet's buffers went back.
    #[inline]
    pub(super) fn freed(&mut self, measured: bool, buffers: u64) {
        self.sent.buffers_freed += if measured { buffers } else { 0 };
    }

    /// What became of a message.
    #[inline]
    pub(super) fn fate(&mut self, measured: bool, fate: Fate) {
        if !measured {
            self.warmup_left = self.warmup_left.saturating_sub(1);
            return;
        }
        match fate {
            Fate::Sent { bytes, wait } => {
                self.sent.sent += 1;
                self.sent.sent_bytes += u64::from(bytes);
                self.waits.saturating_record((wait.as_ps() / 1_000).max(1));
            }
            Fate::Dropped => self.sent.socket_drops += 1,
            Fate::Refused => self.sent.errors += 1,
        }
    }

    /// Whether the measurement should begin: the warm-up is over.
    #[inline]
    pub(super) fn is_to_begin(&self) -> bool {
        self.warmup_left == 0 && self.from.is_none()
    }

    /// The measurement begins.
    pub(super) fn begin(&mut self, now: Time, counts: TransmitterCounts) {
        self.at(now, counts);
        self.from = Some(self.now);
    }

    /// The time, and what the transmitter has done by then.
    fn at(&mut self, now: Time, TransmitterCounts { switches, asked, .. }: TransmitterCounts) {
        self.now = Totals { at: now, switches, asked, ..self.now };
    }

    /// Ends the account.
    pub(super) fn end(
        &mut self,
        now: Time,
        counts: TransmitterCounts,
        dead_locked: bool,
        pools_full: bool,
    ) {
        self.at(now, counts);
        let (from, now) = (self.from.unwrap_or(self.now), self.now);
        let before = self.before.unwrap_or(counts);
        let ns = |span: Span| span.as_ps() / 1_000;
        let took_ns = ns(now.at.since(from.at));
        let idle_ns = ns(now.idle).saturating_sub(ns(from.idle));
        let wait = |quantile| self.waits.value_at_quantile(quantile);
        self.sent = Sent {
            planned: self.planned,
            took_ns,
            busy_ns: took_ns.saturating_sub(idle_ns),
            interrupts: now.interrupts - from.interrupts,
            sleeps: now.sleeps - from.sleeps,
            switches: now.switches - from.switches,
            asked: now.asked - from.asked,
            transfers: counts.transfers - before.transfers,
            bounced_bytes: counts.bounced_bytes - before.bounced_bytes,
            bounced_packets: counts.bounced_packets - before.bounced_packets,
            aligned_bytes: counts.aligned_bytes - before.aligned_bytes,
            wait_ns: (!self.waits.is_empty()).then(|| [wait(0.5), wait(0.99), self.waits.max()]),
            dead_locked,
            pools_full,
            ..std::mem::take(&mut self.sent)
        };
    }

    /// The account of a phase, which was not planned by number, once it has ended.
    pub(super) fn of_phase(&self) -> Sent {
        let planned = self.sent.sent + self.sent.socket_drops + self.sent.errors;
        Sent { planned, ..self.sent.clone() }
    }

    /// What has come of it, once it is over.
    pub(super) fn sent(&self) -> &Sent {
        &self.sent
    }
}

/// All phases of a mixed load together.
pub(super) fn together(phases: &[Sent]) -> Sent {
    let mut all = Sent { pools_full: true, phases: phases.to_vec(), ..Sent::default() };
    for phase in phases {
        for (sum, of_phase) in [
            (&mut all.planned, phase.planned),
            (&mut all.sent, phase.sent),
            (&mut all.sent_bytes, phase.sent_bytes),
            (&mut all.socket_drops, phase.socket_drops),
            (&mut all.errors, phase.errors),
            (&mut all.took_ns, phase.took_ns),
            (&mut all.busy_ns, phase.busy_ns),
            (&mut all.interrupts, phase.interrupts),
            (&mut all.transfers, phase.transfers),
            (&mut all.copied_bytes, phase.copied_bytes),
            (&mut all.buffers_taken, phase.buffers_taken),
            (&mut all.buffers_visited, phase.buffers_visited),
            (&mut all.summed_bytes, phase.summed_bytes),
            (&mut all.buffers_freed, phase.buffers_freed),
            (&mut all.bounced_bytes, phase.bounced_bytes),
            (&mut all.bounced_packets, phase.bounced_packets),
            (&mut all.aligned_bytes, phase.aligned_bytes),
            (&mut all.switches, phase.switches),
            (&mut all.asked, phase.asked),
            (&mut all.sleeps, phase.sleeps),
            (&mut all.received, phase.received),
            (&mut all.receive_missing, phase.receive_missing),
        ] {
            *sum += of_phase;
        }
        all.dead_locked |= phase.dead_locked;
        all.pools_full &= phase.pools_full;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(transfers: u64, asked: u64) -> TransmitterCounts {
        TransmitterCounts { transfers, asked, ..TransmitterCounts::default() }
    }

    #[test]
    fn the_measurement_begins_with_the_end_of_the_warm_up() {
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        let mut account = Account::new(2, 1);
        assert!(!account.is_to_begin() && !account.measures(0) && account.measures(1));
        account.interrupted();
        account.sleeps();
        account.rests(at(1));
        account.step(|| at(3));
        // The first measured message is handed over before the warm-up's last one is reclaimed.
        let work = BufferCounts { taken: 3, visited: 5, summed_bytes: 128, freed: 0 };
        account.filled(false, 64, counts(0, 0), work);
        account.filled(true, 100, counts(5, 7), work);
        account.freed(false, 3);
        account.freed(true, 3);
        account.fate(false, Fate::Sent { bytes: 64, wait: Span::from_us(50) });
        assert!(account.is_to_begin());
        account.begin(at(10), counts(6, 8));
        account.interrupted();
        account.rests(at(12));
        account.step(|| at(15));
        account.fate(true, Fate::Sent { bytes: 100, wait: Span::from_us(4) });
        account.fate(true, Fate::Dropped);
        account.end(at(20), counts(9, 11), false, true);
        let expected = Sent {
            planned: 2,
            sent: 1,
            sent_bytes: 100,
            socket_drops: 1,
            took_ns: 10_000,
            busy_ns: 7_000,
            interrupts: 1,
            transfers: 4,
            copied_bytes: 100,
            buffers_taken: 3,
            buffers_visited: 5,
            summed_bytes: 128,
            buffers_freed: 3,
            asked: 3,
            wait_ns: account.sent().wait_ns,
            pools_full: true,
            ..Sent::default()
        };
        assert_eq!(account.sent(), &expected);
        let [half, most, longest] = expected.wait_ns.unwrap();
        assert!([half, most, longest].iter().all(|ns| ns.abs_diff(4_000) <= 4), "{half} {most}");
    }

    #[test]
    fn what_dead_locks_in_its_warm_up_has_sent_nothing() {
        let mut account = Account::new(10, 5);
        account.filled(false, 64, counts(0, 0), BufferCounts::default());
        account.end(Time::ZERO + Span::from_ms(1), counts(1, 1), true, false);
        let expected = Sent { planned: 10, dead_locked: true, ..Sent::default() };
        assert_eq!(account.sent(), &expected);
    }
}
