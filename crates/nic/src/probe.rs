//! When interrupts were raised, and when the driver's handler first looked at them.

use warikomi_clock::Time;

/// One rise of the interrupt level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptRecord {
    /// When the level rose.
    pub raised: Time,
    /// The driver's first read of the interrupt status after that; [`Time::NEVER`] if it has not
    /// come.
    pub handled: Time,
}

/// A log of interrupts with a fixed capacity, so that a long run does not grow.
#[derive(Debug, Default)]
pub struct Probe {
    records: Vec<InterruptRecord>,
    capacity: usize,
    raised: u64,
    handled: u64,
    waiting: bool,
    /// When the first interrupt since the restart was raised, and the first that is not in the log.
    first: Option<Time>,
    first_unlogged: Option<Time>,
    /// Handlers tell of themselves ([`Probe::handled`]): what reads the status does not count.
    told: bool,
    /// The record of the interrupt that was handled last.
    at: usize,
}

impl Probe {
    /// Forgets everything and makes room for `capacity` records.
    pub fn restart(&mut self, capacity: usize) {
        let records = Vec::with_capacity(capacity);
        *self = Probe { records, capacity, told: self.told, ..Probe::default() };
    }

    /// The first interrupts since the restart, in order.
    pub fn records(&self) -> &[InterruptRecord] {
        &self.records
    }

    /// Hands the log over, and keeps the times of no more interrupts until the next restart.
    pub fn take_records(&mut self) -> Vec<InterruptRecord> {
        self.capacity = 0;
        std::mem::take(&mut self.records)
    }

    /// Interrupts raised since the restart, also those beyond the capacity.
    pub fn raised_count(&self) -> u64 {
        self.raised
    }

    /// Of these, the ones whose status the driver came to read before the next was raised.
    pub fn handled_count(&self) -> u64 {
        self.handled
    }

    /// From now on handlers tell of themselves by [`handled`](Self::handled), one by one, and a read
    /// of the interrupt status says nothing.
    pub fn handlers_tell(&mut self) {
        self.told = true;
    }

    /// At `at`, a handler took up the interrupt whose message went out at `sent`. To be told in the
    /// order of the messages. A message for which no level had risen counts for nothing.
    pub fn handled(&mut self, sent: Time, at: Time) {
        if self.first.is_none_or(|first| sent < first) {
            return;
        }
        if self.first_unlogged.is_some_and(|first| sent >= first) {
            self.handled += 1;
            return;
        }
        while self.records.get(self.at + 1).is_some_and(|next| next.raised <= sent) {
            self.at += 1;
        }
        if let Some(record) = self.records.get_mut(self.at)
            && record.handled == Time::NEVER
        {
            record.handled = at;
            self.handled += 1;
        }
    }

    #[inline]
    pub(crate) fn raised(&mut self, now: Time) {
        self.raised += 1;
        self.waiting = true;
        self.first.get_or_insert(now);
        if self.records.len() < self.capacity {
            self.records.push(InterruptRecord { raised: now, handled: Time::NEVER });
        } else {
            self.first_unlogged.get_or_insert(now);
        }
    }

    #[inline]
    pub(crate) fn status_read(&mut self, now: Time) {
        if self.told || !std::mem::take(&mut self.waiting) {
            return;
        }
        self.handled += 1;
        if self.raised as usize <= self.records.len()
            && let Some(last) = self.records.last_mut()
        {
            last.handled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_read_after_a_rise_counts() {
        let mut probe = Probe::default();
        probe.restart(1);
        probe.status_read(Time::from_ps(1));
        probe.raised(Time::from_ps(2));
        probe.status_read(Time::from_ps(5));
        probe.status_read(Time::from_ps(6));
        probe.raised(Time::from_ps(7));
        probe.status_read(Time::from_ps(9));
        let first = InterruptRecord { raised: Time::from_ps(2), handled: Time::from_ps(5) };
        assert_eq!(probe.records(), [first], "one record fits, and is not overwritten");
        assert_eq!((probe.raised_count(), probe.handled_count()), (2, 2));
        assert_eq!(probe.take_records(), [first]);
        probe.raised(Time::from_ps(10));
        assert_eq!(
            (probe.records(), probe.raised_count()),
            (&[][..], 3),
            "nothing is kept any more"
        );
    }

    #[test]
    fn handlers_that_tell_are_matched_by_the_message_of_each() {
        let at = Time::from_ps;
        let mut probe = Probe::default();
        probe.handlers_tell();
        probe.handled(at(1), at(2));
        probe.restart(3);
        for raised in [10, 20, 30, 40] {
            probe.raised(at(raised));
        }
        probe.status_read(at(41));
        probe.handled(at(5), at(50));
        // One by one, however late; the message of the second was lost, that of the third came twice.
        for (sent, handled) in [(10, 60), (31, 70), (32, 80), (41, 90)] {
            probe.handled(at(sent), at(handled));
        }
        let times: Vec<_> = probe.records().iter().map(|record| record.handled).collect();
        assert_eq!(times, [at(60), Time::NEVER, at(70)]);
        assert_eq!((probe.raised_count(), probe.handled_count()), (4, 3));
    }
}
