use warikomi_clock::{Span, Time};

use super::queue::Queue;
use super::{Wire, WireCounters};

/// A plug that leads the transmitter's pair to the receiver's: what is sent comes back.
#[derive(Debug)]
pub struct Loopback {
    queue: Queue,
    delay: Span,
    counters: WireCounters,
}

impl Loopback {
    /// Frames that a loopback keeps unless it is told otherwise.
    pub const DEFAULT_CAPACITY: usize = 1_024;

    /// A loopback through which a frame takes `delay`, and in which at most `capacity` frames are
    /// under way; more are dropped and counted.
    pub fn new(delay: Span, capacity: usize) -> Self {
        Loopback { queue: Queue::new(capacity), delay, counters: WireCounters::default() }
    }
}

impl Default for Loopback {
    fn default() -> Self {
        Loopback::new(Span::ZERO, Self::DEFAULT_CAPACITY)
    }
}

impl Wire for Loopback {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.counters.sent(frame);
        if !self.queue.push(now + self.delay, frame.to_vec()) {
            self.counters.dropped += 1;
        }
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        self.queue.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        let frame = self.queue.pop(now)?;
        self.counters.received(&frame);
        Some(frame)
    }

    fn counters(&self) -> WireCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_after_its_delay_and_not_before() {
        let mut wire = Loopback::new(Span::from_us(2), 8);
        wire.transmit(Time::ZERO, &[7; 60]);
        assert_eq!(wire.next_arrival(), Time::ZERO + Span::from_us(2));
        assert_eq!(wire.receive(Time::ZERO + Span::from_us(1)), None);
        assert_eq!(wire.receive(Time::ZERO + Span::from_us(2)), Some(vec![7; 60]));
        assert_eq!(wire.next_arrival(), Time::NEVER);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let mut wire = Loopback::new(Span::ZERO, 2);
        for i in 0..5 {
            wire.transmit(Time::ZERO, &[i; 60]);
        }
        let back: Vec<_> = std::iter::from_fn(|| wire.receive(Time::ZERO)).collect();
        assert_eq!(back, [vec![0; 60], vec![1; 60]]);
        let counters = wire.counters();
        assert_eq!((counters.tx_frames, counters.rx_frames, counters.dropped), (5, 2, 3));
    }
}
