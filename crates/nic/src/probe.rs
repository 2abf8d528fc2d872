//! When interrupts were raised, and when the driver's handler first looked at them.

use warikomi_clock::Time;
use warikomi_pci::Vector;

/// One rise of an interrupt's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptRecord {
    /// The vector of the interrupt.
    pub vector: Vector,
    /// When the level rose.
    pub raised: Time,
    /// The driver's first read of the interrupt status after that; [`Time::NEVER`] if it has not
    /// come.
    pub handled: Time,
}

/// Records whose memory is touched beforehand, of 24 bytes each: the first use of a page takes a microsecond, and
/// would come right behind an interrupt. Longer runs raise fewer interrupts than they have packets, mostly.
const TOUCHED: usize = 100_000;

/// A log of interrupts with a fixed capacity, so that a long run does not grow.
#[derive(Debug, Default)]
pub struct Probe {
    records: Vec<InterruptRecord>,
    capacity: usize,
    vectors: Vec<VectorLog>,
    /// The first interrupt that is not in the log was raised then.
    first_unlogged: Option<Time>,
    /// Handlers tell of themselves ([`Probe::handled`]): what reads the status does not count.
    reported: bool,
}

/// What is known of one vector.
#[derive(Clone, Copy, Debug, Default)]
struct VectorLog {
    raised: u64,
    handled: u64,
    /// Raised, and its status not read since.
    waiting: bool,
    /// When its first interrupt since the restart was raised.
    first: Option<Time>,
    /// Where in the log its newest record is, if that is in the log.
    newest: Option<usize>,
    /// The record of the interrupt of which a handler has reported last.
    at: Option<usize>,
}

impl Probe {
    /// Forgets everything and makes room for `capacity` records.
    pub fn restart(&mut self, capacity: usize) {
        let record =
            InterruptRecord { vector: Vector(u16::MAX), raised: Time::NEVER, handled: Time::NEVER };
        let mut records = Vec::with_capacity(capacity);
        records.resize(capacity.min(TOUCHED), record);
        records.clear();
        let vectors = vec![VectorLog::default(); self.vectors.len()];
        *self = Probe { records, capacity, vectors, reported: self.reported, ..Probe::default() };
    }

    /// The first interrupts since the restart, in order.
    pub fn records(&self) -> &[InterruptRecord] {
        &self.records
    }

    /// Hands the log over, and keeps the times of no more interrupts until the next restart.
    pub fn take_records(&mut self) -> Vec<InterruptRecord> {
        self.capacity = 0;
        for log in &mut self.vectors {
            (log.newest, log.at) = (None, None);
        }
        std::mem::take(&mut self.records)
    }

    /// Interrupts raised since the restart, also those beyond the capacity.
    pub fn raised_count(&self) -> u64 {
        self.vectors.iter().map(|log| log.raised).sum()
    }

    /// Of these, the ones whose status the driver came to read before the next was raised.
    pub fn handled_count(&self) -> u64 {
        self.vectors.iter().map(|log| log.handled).sum()
    }

    /// How often each vector was raised, and how often handled, since the restart: by its number, up to
    /// the last that has ever been raised.
    pub fn by_vector(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.vectors.iter().map(|log| (log.raised, log.handled))
    }

    /// Whether an interrupt was raised whose status has not been read since.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.reported && self.vectors.iter().any(|log| log.waiting)
    }

    /// From now on handlers tell of themselves by [`handled`](Self::handled), one by one, and a read
    /// of the interrupt status says nothing.
    pub fn handlers_tell(&mut self) {
        self.reported = true;
    }

    /// At `at`, a handler took up the interrupt whose message went out at `sent`. To be reported in the
    /// order of the vector's messages. A message for which no level had risen counts for nothing.
    pub fn handled(&mut self, vector: Vector, sent: Time, at: Time) {
        let Some(log) = self.vectors.get_mut(usize::from(vector.0)) else { return };
        if log.first.is_none_or(|first| sent < first) {
            return;
        }
        if self.first_unlogged.is_some_and(|first| sent >= first) {
            log.handled += 1;
            return;
        }
        let mut here = log.at;
        for next in log.at.unwrap_or(0)..self.records.len() {
            match self.records[next] {
                record if record.raised > sent => break,
                record if record.vector == vector => here = Some(next),
                _ => {}
            }
        }
        log.at = here;
        if let Some(record) = here.and_then(|here| self.records.get_mut(here))
            && record.handled == Time::NEVER
        {
            record.handled = at;
            log.handled += 1;
        }
    }

    #[inline]
    pub(crate) fn raised(&mut self, vector: Vector, now: Time) {
        let index = usize::from(vector.0);
        if index >= self.vectors.len() {
            self.vectors.resize(index + 1, VectorLog::default());
        }
        let log = &mut self.vectors[index];
        log.raised += 1;
        log.waiting = true;
        log.first.get_or_insert(now);
        if self.records.len() < self.capacity {
            log.newest = Some(self.records.len());
            self.records.push(InterruptRecord { vector, raised: now, handled: Time::NEVER });
        } else {
            log.newest = None;
            self.first_unlogged.get_or_insert(now);
        }
    }

    #[inline]
    pub(crate) fn status_read(&mut self, vector: Vector, now: Time) {
        let Some(log) = self.vectors.get_mut(usize::from(vector.0)) else { return };
        if self.reported || !std::mem::take(&mut log.waiting) {
            return;
        }
        log.handled += 1;
        if let Some(newest) = log.newest.and_then(|newest| self.records.get_mut(newest)) {
            newest.handled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Vector = Vector(0);

    #[test]
    fn only_the_first_read_after_a_rise_counts() {
        let mut probe = Probe::default();
        probe.restart(1);
        probe.status_read(FIRST, Time::from_ps(1));
        probe.raised(FIRST, Time::from_ps(2));
        probe.status_read(FIRST, Time::from_ps(5));
        probe.status_read(FIRST, Time::from_ps(6));
        probe.raised(FIRST, Time::from_ps(7));
        probe.status_read(FIRST, Time::from_ps(9));
        let first =
            InterruptRecord { vector: FIRST, raised: Time::from_ps(2), handled: Time::from_ps(5) };
        assert_eq!(probe.records(), [first], "one record fits, and is not overwritten");
        assert_eq!((probe.raised_count(), probe.handled_count()), (2, 2));
        assert_eq!(probe.take_records(), [first]);
        probe.raised(FIRST, Time::from_ps(10));
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
        probe.handled(FIRST, at(1), at(2));
        probe.restart(3);
        for raised in [10, 20, 30, 40] {
            probe.raised(FIRST, at(raised));
        }
        probe.status_read(FIRST, at(41));
        probe.handled(FIRST, at(5), at(50));
        // One by one, however late; the message of the second was lost, that of the third came twice.
        for (sent, handled) in [(10, 60), (31, 70), (32, 80), (41, 90)] {
            probe.handled(FIRST, at(sent), at(handled));
        }
        let times: Vec<_> = probe.records().iter().map(|record| record.handled).collect();
        assert_eq!(times, [at(60), Time::NEVER, at(70)]);
        assert_eq!((probe.raised_count(), probe.handled_count()), (4, 3));
    }

    #[test]
    fn vectors_are_seen_apart() {
        let at = Time::from_ps;
        let mut probe = Probe::default();
        probe.restart(3);
        for (vector, raised) in [(0, 10), (2, 20), (0, 30), (2, 40)] {
            probe.raised(Vector(vector), at(raised));
        }
        probe.status_read(Vector(2), at(50));
        probe.status_read(Vector(1), at(51));
        probe.status_read(Vector(0), at(52));
        probe.status_read(Vector(9), at(53));
        let times: Vec<_> = probe.records().iter().map(|record| record.handled).collect();
        assert_eq!(times, [Time::NEVER, Time::NEVER, at(52)], "that of vector 2 is not in the log");
        assert_eq!(probe.by_vector().collect::<Vec<_>>(), [(2, 1), (0, 0), (2, 1)]);

        probe.restart(4);
        probe.handlers_tell();
        for (vector, raised) in [(0, 10), (2, 20), (0, 30), (2, 40)] {
            probe.raised(Vector(vector), at(raised));
        }
        for (vector, sent, handled) in [(2, 20, 70), (2, 41, 80), (0, 10, 90)] {
            probe.handled(Vector(vector), at(sent), at(handled));
        }
        let times: Vec<_> = probe.records().iter().map(|record| record.handled).collect();
        assert_eq!(times, [at(90), at(70), Time::NEVER, at(80)]);
    }
}
