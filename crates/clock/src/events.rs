//! What is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

/// A queue of events ordered by time and, at the same time, by the order in which they were
/// scheduled, so that a history never depends on the heap's whims.
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    next_sequence: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at: Time,
    sequence: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        EventQueue { heap: BinaryHeap::new(), next_sequence: 0 }
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event that is due at `at`.
    pub fn schedule(&mut self, at: Time, event: T) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence, event }));
    }

    /// Adds an event that is due at `at`, in place of any equal one.
    pub fn reschedule(&mut self, at: Time, event: T)
    where
        T: PartialEq,
    {
        self.heap.retain(|entry| entry.0.event != event);
        self.schedule(at, event);
    }

    /// When the first event is due; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_due(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |entry| entry.0.at)
    }

    /// Takes the first event if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        if self.next_due() > now {
            return None;
        }
        self.heap.pop().map(|entry| entry.0.event)
    }

    /// Number of events waiting.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Forgets every event.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_out_by_time_then_by_order_of_scheduling(times in prop::collection::vec(0u64..50, 0..200)) {
            let mut queue = EventQueue::new();
            for (order, &ps) in times.iter().enumerate() {
                queue.schedule(Time::from_ps(ps), (ps, order));
            }
            let mut expected: Vec<_> = times.iter().enumerate().map(|(o, &ps)| (ps, o)).collect();
            expected.sort_unstable();
            let mut seen = Vec::new();
            while let Some(event) = queue.pop_due(Time::from_ps(50)) {
                seen.push(event);
            }
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn an_event_that_is_rescheduled_comes_once() {
        let mut queue = EventQueue::new();
        for ps in [30, 10, 20] {
            queue.reschedule(Time::from_ps(ps), "moved");
        }
        assert_eq!((queue.len(), queue.next_due()), (1, Time::from_ps(20)));
    }

    #[test]
    fn holds_back_what_is_not_due() {
        let mut queue = EventQueue::new();
        queue.schedule(Time::from_ps(10), "later");
        assert_eq!(queue.pop_due(Time::from_ps(9)), None);
        assert_eq!(queue.pop_due(Time::from_ps(10)), Some("later"));
        assert_eq!(queue.next_due(), Time::NEVER);
    }
}
