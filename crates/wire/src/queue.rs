//! Frames under way to the NIC.

use std::collections::VecDeque;

use warikomi_clock::Time;

/// A bounded queue of frames, in the order of their arrival.
#[derive(Debug)]
pub(super) struct Queue {
    frames: VecDeque<(Time, Vec<u8>)>,
    capacity: usize,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Queue { frames: VecDeque::new(), capacity }
    }

    /// Whether there was room. A frame never overtakes the one before it.
    pub(super) fn push(&mut self, arrival: Time, frame: Vec<u8>) -> bool {
        if self.frames.len() >= self.capacity {
            return false;
        }
        let arrival = self.frames.back().map_or(arrival, |(last, _)| arrival.max(*last));
        self.frames.push_back((arrival, frame));
        true
    }

    #[inline]
    pub(super) fn next_arrival(&self) -> Time {
        self.frames.front().map_or(Time::NEVER, |(arrival, _)| *arrival)
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.next_arrival() > now {
            return None;
        }
        self.frames.pop_front().map(|(_, frame)| frame)
    }
}
