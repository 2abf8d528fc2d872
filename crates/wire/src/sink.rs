use warikomi_clock::Time;

use super::{Wire, WireCounters};

/// Nothing but a counter: every frame vanishes, and none comes.
#[derive(Clone, Debug, Default)]
pub struct CountedSink {
    counters: WireCounters,
}

impl CountedSink {
    /// A sink that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Wire for CountedSink {
    #[inline]
    fn transmit(&mut self, _now: Time, frame: &[u8]) {
        self.counters.sent(frame);
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        Time::NEVER
    }

    fn receive(&mut self, _now: Time) -> Option<Vec<u8>> {
        None
    }

    fn counters(&self) -> WireCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_and_gives_nothing_back() {
        let mut sink = CountedSink::new();
        sink.transmit(Time::ZERO, &[0; 60]);
        sink.transmit(Time::ZERO, &[0; 40]);
        assert_eq!((sink.counters().tx_frames, sink.counters().tx_bytes), (2, 100));
        assert_eq!((sink.receive(Time::NEVER), sink.next_arrival()), (None, Time::NEVER));
    }
}
