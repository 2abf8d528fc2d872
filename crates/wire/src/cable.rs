use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warikomi_clock::Time;

use super::queue::Queue;
use super::{Wire, WireCounters, wire_time};

/// One end of a cable between two cards: what is sent here arrives at the other end.
///
/// A card looks for what has arrived whenever it is served, so both ends belong to cards that the same thread
/// serves in turn.
#[derive(Debug)]
pub struct Cable {
    /// What goes to the other end.
    there: Arc<Mutex<Lane>>,
    /// What comes from it.
    here: Arc<Mutex<Lane>>,
    counters: WireCounters,
}

impl Cable {
    /// Frames that are under way in each direction at most, unless something else is asked for.
    pub const DEFAULT_CAPACITY: usize = 4_096;

    /// A cable's two ends. A frame arrives at once.
    pub fn pair() -> [Cable; 2] {
        Cable::with(None, Self::DEFAULT_CAPACITY)
    }

    /// A cable that carries `bits_per_second` each way: a frame arrives when its last bit does ([`wire_time`]), and
    /// not before those that were sent before it have passed. `None` takes no time. At most `capacity` frames are
    /// under way in each direction; more are dropped, and counted where they were sent.
    pub fn with(bits_per_second: Option<u64>, capacity: usize) -> [Cable; 2] {
        let lanes = [(); 2].map(|()| {
            let queue = Queue::new(capacity);
            Arc::new(Mutex::new(Lane { queue, bits_per_second, free: Time::ZERO }))
        });
        let end = |there: usize| Cable {
            there: lanes[there].clone(),
            here: lanes[1 - there].clone(),
            counters: WireCounters::default(),
        };
        [end(0), end(1)]
    }
}

impl Wire for Cable {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.counters.sent(frame);
        if !lock(&self.there).send(now, frame) {
            self.counters.dropped += 1;
        }
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        lock(&self.here).queue.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        let frame = lock(&self.here).queue.pop(now)?;
        self.counters.received(&frame);
        Some(frame)
    }

    fn counters(&self) -> WireCounters {
        self.counters
    }
}

/// One direction.
#[derive(Debug)]
struct Lane {
    queue: Queue,
    bits_per_second: Option<u64>,
    /// When the last frame will have passed.
    free: Time,
}

impl Lane {
    /// Whether there was room.
    fn send(&mut self, now: Time, frame: &[u8]) -> bool {
        let arrival = match self.bits_per_second {
            None => now,
            Some(rate) => now.max(self.free) + wire_time(frame.len(), rate),
        };
        let kept = self.queue.push(arrival, frame.to_vec());
        if kept {
            self.free = arrival;
        }
        kept
    }
}

fn lock(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use warikomi_clock::Span;

    use super::*;

    const GIGABIT: u64 = 1_000_000_000;

    fn received(end: &mut Cable, now: Time) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| end.receive(now)).collect()
    }

    #[test]
    fn what_one_end_sends_arrives_at_the_other_and_nowhere_else() {
        let [mut here, mut there] = Cable::pair();
        here.transmit(Time::ZERO, &[1; 60]);
        here.transmit(Time::ZERO, &[2; 70]);
        there.transmit(Time::ZERO, &[3; 80]);
        assert_eq!((here.next_arrival(), there.next_arrival()), (Time::ZERO, Time::ZERO));
        assert_eq!(received(&mut there, Time::ZERO), [vec![1; 60], vec![2; 70]]);
        assert_eq!(received(&mut here, Time::ZERO), [vec![3; 80]]);
        assert_eq!((here.next_arrival(), there.next_arrival()), (Time::NEVER, Time::NEVER));
        let (here, there) = (here.counters(), there.counters());
        assert_eq!((here.tx_frames, here.tx_bytes), (there.rx_frames, there.rx_bytes));
        assert_eq!((here.rx_frames, here.rx_bytes), (there.tx_frames, there.tx_bytes));
    }

    #[test]
    fn frames_pass_one_behind_the_other() {
        let [mut here, mut there] = Cable::with(Some(GIGABIT), 8);
        let each = wire_time(60, GIGABIT);
        here.transmit(Time::ZERO, &[1; 60]);
        here.transmit(Time::ZERO, &[2; 60]);
        assert_eq!(there.next_arrival(), Time::ZERO + each);
        assert_eq!(received(&mut there, Time::ZERO + each), [vec![1; 60]]);
        assert_eq!(there.next_arrival(), Time::ZERO + each + each);
        // The other direction is free meanwhile, and so is this one after a pause.
        there.transmit(Time::ZERO, &[3; 60]);
        assert_eq!(here.next_arrival(), Time::ZERO + each);
        let later = Time::ZERO + Span::from_ms(1);
        assert_eq!(received(&mut there, later), [vec![2; 60]]);
        here.transmit(later, &[4; 60]);
        assert_eq!(there.next_arrival(), later + each);
    }

    #[test]
    fn a_full_cable_drops_and_the_sender_counts() {
        let [mut here, mut there] = Cable::with(Some(GIGABIT), 2);
        for i in 0..5 {
            here.transmit(Time::ZERO, &[i; 60]);
        }
        // What was dropped has taken no time.
        let both = Time::ZERO + wire_time(60, GIGABIT) + wire_time(60, GIGABIT);
        assert_eq!(received(&mut there, both), [vec![0; 60], vec![1; 60]]);
        assert_eq!((here.counters().tx_frames, here.counters().dropped), (5, 3));
        assert_eq!((there.counters().rx_frames, there.counters().dropped), (2, 0));
        here.transmit(both, &[9; 60]);
        assert_eq!(there.next_arrival(), both + wire_time(60, GIGABIT));
    }

    /// What happens: at which end; the bytes of a frame that it sends, or nothing if it takes what has come; how many
    /// nanoseconds after the step before.
    type Step = (usize, Option<usize>, u64);

    proptest! {
        /// Against a list of what was sent: nothing is lost but what is counted, nothing overtakes, nothing comes
        /// before its time, and no more passes than the rate allows.
        #[test]
        fn every_frame_arrives_once_in_order_and_not_too_soon(
            steps in prop::collection::vec((0..2_usize, prop::option::of(14..1_600_usize), 0..20_000_u64), 1..200),
            gigabits in prop::option::of(1..11_u64),
            capacity in 1..40_usize,
        ) {
            let steps: Vec<Step> = steps;
            let rate = gigabits.map(|gigabits| gigabits * GIGABIT);
            let mut ends = Cable::with(rate, capacity);
            let mut under_way: [VecDeque<(Time, Vec<u8>)>; 2] = Default::default();
            let mut now = Time::ZERO;
            let mut number = 0_u32;
            let mut free = [Time::ZERO; 2];
            for (end, sends, later) in steps {
                now += Span::from_ns(later);
                let other = 1 - end;
                let Some(bytes) = sends else {
                    for frame in received(&mut ends[end], now) {
                        let (earliest, sent) = under_way[other].pop_front().unwrap();
                        prop_assert_eq!(frame, sent);
                        prop_assert!(earliest <= now);
                    }
                    prop_assert!(ends[end].next_arrival() > now);
                    continue;
                };
                let mut frame = vec![0; bytes];
                frame[..4].copy_from_slice(&number.to_le_bytes());
                number += 1;
                let before = ends[end].counters().dropped;
                ends[end].transmit(now, &frame);
                if under_way[end].len() == capacity {
                    prop_assert_eq!(ends[end].counters().dropped, before + 1);
                } else {
                    prop_assert_eq!(ends[end].counters().dropped, before);
                    let takes = rate.map_or(Span::ZERO, |rate| wire_time(bytes, rate));
                    free[end] = now.max(free[end]) + takes;
                    under_way[end].push_back((free[end], frame));
                }
            }
            for end in 0..2 {
                let sent = ends[end].counters();
                let arrived = ends[1 - end].counters();
                let left = under_way[end].len() as u64;
                prop_assert_eq!(sent.tx_frames, arrived.rx_frames + sent.dropped + left);
                let rest = received(&mut ends[1 - end], Time::NEVER);
                let expected: Vec<_> = under_way[end].drain(..).map(|(_, frame)| frame).collect();
                prop_assert_eq!(rest, expected);
            }
        }
    }
}
