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
}

impl Probe {
    /// Forgets everything and makes room for `capacity` records.
    pub fn restart(&mut self, capacity: usize) {
        *self = Probe { records: Vec::with_capacity(capacity), capacity, ..Probe::default() };
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

    #[inline]
    pub(crate) fn raised(&mut self, now: Time) {
        self.raised += 1;
        self.waiting = true;
        if self.records.len() < self.capacity {
            self.records.push(InterruptRecord { raised: now, handled: Time::NEVER });
        }
    }

    #[inline]
    pub(crate) fn status_read(&mut self, now: Time) {
        if !std::mem::take(&mut self.waiting) {
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
}
