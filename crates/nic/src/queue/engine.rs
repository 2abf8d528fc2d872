//! What the way of a frame takes, from the target's memory over the bus into the card's memory, and
//! from there down the line.
//!
//! Both keep to a timeline of their own: when a transfer is completed follows from when it could
//! begin, never from when the support side finds the time to look. One transfer follows the other; the
//! engine waits where the card's memory is full, until the line has emptied it.
//!
//! This is for what a card transmits. A received frame is in memory when the model's `receive` returns, and a
//! card without a bus and a line rate transmits within the doorbell's write.

use warikomi_clock::{Span, Time};

use crate::bus::{Bus, BusTimeline};
use warikomi_wire::bytes_time;

/// A line that the card's memory is emptied into.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Rate of the line in bits per second.
    pub bits_per_second: u64,
    /// How long a frame of so many bytes occupies a line of so many bits a second.
    pub frame_time: fn(usize, u64) -> Span,
}

/// One engine, with the memory that it fills.
#[derive(Debug)]
pub struct Engine {
    bus: Option<BusTimeline>,
    line: Option<Line>,
    memory_bytes: usize,
    /// When everything that is complete in the card's memory has gone.
    line_free_at: Time,
}

impl Engine {
    /// An engine at rest. Without a bus its transfers take no time, without a line frames are gone
    /// as soon as they are complete.
    pub fn new(bus: Option<Bus>, line: Option<Line>, memory_bytes: usize) -> Engine {
        let bus = bus.map(BusTimeline::new);
        Engine { bus, line, memory_bytes, line_free_at: Time::ZERO }
    }

    /// Begins a transfer of `bytes` bytes, at `from` or as soon as bus and memory are free; when it
    /// is completed. The memory holds `held` bytes of a frame that is not complete.
    pub fn transfer(
        &mut self,
        from: Time,
        held: usize,
        bytes: usize,
        fetches_descriptor: bool,
    ) -> Time {
        let begins = from.max(self.room_at(held.saturating_add(bytes)));
        match &mut self.bus {
            Some(bus) => bus.transfer(begins, bytes, fetches_descriptor),
            None => begins,
        }
    }

    /// A frame of `bytes` bytes is complete in memory at `at`: the line takes it when it is free.
    pub fn complete(&mut self, at: Time, bytes: usize) {
        if let Some(line) = self.line {
            let takes = (line.frame_time)(bytes, line.bits_per_second);
            self.line_free_at = self.line_free_at.max(at) + takes;
        }
    }

    /// When so many bytes besides the complete frames have room. The line takes bytes out one by one,
    /// so what is left at a time is what it carries from then on.
    fn room_at(&self, bytes: usize) -> Time {
        let Some(line) = self.line else { return Time::ZERO };
        let left = self.memory_bytes.saturating_sub(bytes) as u64;
        self.line_free_at - bytes_time(left, line.bits_per_second)
    }

    /// Everything under way is forgotten.
    pub fn reset(&mut self) {
        if let Some(bus) = &mut self.bus {
            bus.reset();
        }
        self.line_free_at = Time::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bus::tests::bus;

    const LINE: Line = Line {
        bits_per_second: 8_000_000_000,
        frame_time: |bytes, bps| bytes_time(bytes as u64, bps),
    };

    fn ns(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }

    #[test]
    fn without_bus_and_line_nothing_takes_time() {
        let mut engine = Engine::new(None, None, 100);
        for at in [5, 6] {
            assert_eq!(engine.transfer(ns(at), 90, 1_000, true), ns(at));
            engine.complete(ns(at), 1_090);
        }
    }

    #[test]
    fn a_full_memory_waits_for_the_line() {
        // A byte a nanosecond, and room for 1,000.
        let mut engine = Engine::new(None, Some(LINE), 1_000);
        assert_eq!(engine.transfer(ns(10), 0, 600, false), ns(10));
        engine.complete(ns(10), 600);
        assert_eq!(engine.transfer(ns(10), 0, 400, false), ns(10), "there is room for this");
        assert_eq!(engine.transfer(ns(10), 400, 300, false), ns(310), "and for this later");
        engine.complete(ns(310), 700);
        // The line is busy until 610 with the first, until 1,310 with the second.
        assert_eq!(engine.transfer(ns(310), 0, 1_000, false), ns(1_310));
        assert_eq!(
            engine.transfer(ns(310), 0, 5_000, false),
            ns(1_310),
            "no more than all can wait"
        );
        engine.reset();
        assert_eq!(engine.transfer(ns(20), 0, 1_000, false), ns(20));
    }

    proptest! {
        #[test]
        fn frames_go_as_fast_as_the_slower_of_bus_and_line(
            bus in bus(), lengths in prop::collection::vec(1usize..2_000, 1..50), memory in 2_000usize..10_000,
        ) {
            let mut engine = Engine::new(Some(bus), Some(LINE), memory);
            let (mut at, mut bus_alone) = (ns(7), ns(7));
            let mut line_alone = ns(7);
            for bytes in lengths {
                let before = at;
                at = engine.transfer(at, 0, bytes, false);
                let takes = bus.transfer_time(bytes, false);
                prop_assert!(at >= before + takes, "the bus is never quicker than it is");
                engine.complete(at, bytes);
                bus_alone += takes;
                line_alone += bytes_time(bytes as u64, LINE.bits_per_second);
                prop_assert!(at >= bus_alone);
                // What is in memory is at most what fits.
                let all = bytes_time(memory as u64, LINE.bits_per_second);
                prop_assert!(at + all + Span::from_ps(1) >= line_alone);
            }
        }
    }
}
