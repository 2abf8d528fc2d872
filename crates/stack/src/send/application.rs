//! The application: which message comes next, and when.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use warikomi_clock::{Seed, Span, Time};
use warikomi_driver::transmit::{CostClock, Work};
use warikomi_protocol::commands::{LoadPhase, MixedLoad};
use warikomi_protocol::payload::{HEAD_BYTES, Head, filler};

use super::SendPlan;

/// The application.
pub(super) struct Application {
    lengths: Lengths,
    /// Its next message, in a buffer for the longest: head and filler.
    bytes: Vec<u8>,
    length: usize,
    run_id: u32,
    /// Messages that it has sent, or tried to.
    tried: u64,
    /// Of these, messages that the socket took.
    sequence: u64,
    planned: u64,
    interval: Span,
    begun: Option<Time>,
    mixed: Option<Mixed>,
    /// What it still computes before its next message.
    to_compute: Span,
    /// What it has computed; nobody reads it.
    computed: u64,
}

/// It computes for so long before it lets an interrupt or a received frame in.
const QUANTUM: Span = Span::from_us(1);

/// A mixed load, and where in it the application is.
struct Mixed {
    load: MixedLoad,
    seed: u64,
    /// Phases that are over.
    over: usize,
    /// When the phase ends; not before it has begun.
    until: Option<Time>,
}

impl Mixed {
    fn phase(&self) -> &LoadPhase {
        &self.load.phases[self.over % self.load.phases.len()]
    }

    fn lengths(&self) -> Lengths {
        let LoadPhase { sizes_bytes, block, .. } = self.phase();
        Lengths::new(sizes_bytes, *block, self.seed.wrapping_add(self.over as u64))
    }

    fn compute(&self) -> Span {
        Span::from_ps(self.phase().compute_ps)
    }
}

impl Application {
    pub(super) fn new(plan: &SendPlan) -> Application {
        let mixed = plan.mixed.clone();
        let mixed = mixed.map(|load| Mixed { load, seed: plan.seed, over: 0, until: None });
        let of_all = || Lengths::new(&plan.sizes_bytes, plan.block, plan.seed);
        let mut lengths = mixed.as_ref().map_or_else(of_all, Mixed::lengths);
        Application {
            to_compute: mixed.as_ref().map_or(Span::ZERO, Mixed::compute),
            mixed,
            computed: 0,
            length: lengths.next(),
            lengths,
            bytes: (0..plan.largest_bytes() as usize).map(filler).collect(),
            run_id: plan.run_id,
            tried: 0,
            sequence: 0,
            planned: plan.warmup + plan.count,
            interval: Span::from_ps(plan.interval_ps),
            begun: None,
        }
    }

    /// Whether it has nothing more to send, or nothing more in this phase.
    #[inline]
    pub(super) fn is_done(&mut self, now: impl FnOnce() -> Time) -> bool {
        match &mut self.mixed {
            None => self.tried >= self.planned,
            Some(mixed) => {
                let now = now();
                let until = *mixed.until.get_or_insert(now + Span::from_ps(mixed.load.phase_ps));
                now >= until || self.tried >= self.planned
            }
        }
    }

    /// The phase is over, and all that was sent in it has come back: whether another one begins.
    pub(super) fn next_phase(&mut self) -> bool {
        let Some(mixed) = &mut self.mixed else { return false };
        mixed.over += 1;
        mixed.until = None;
        self.lengths = mixed.lengths();
        self.to_compute = mixed.compute();
        self.length = self.lengths.next();
        mixed.over < mixed.load.phases.len() * mixed.load.rounds as usize
    }

    /// Computes for a while, if it has to before its next message; whether it has.
    #[inline]
    pub(super) fn computes(&mut self, clock: &mut impl CostClock) -> bool {
        let span = self.to_compute.min(QUANTUM);
        if span == Span::ZERO {
            return false;
        }
        let until = clock.now() + span;
        clock.spend(Work::Compute { span });
        // In virtual time it is paid for.
        while clock.now() < until {
            let computed = (0..64).fold(self.computed, |sum, term| sum.rotate_left(5) ^ term);
            self.computed = std::hint::black_box(computed);
        }
        self.to_compute = Span::from_ps(self.to_compute.as_ps() - span.as_ps());
        true
    }

    /// Messages that it has sent, or tried to.
    #[inline]
    pub(super) fn tried(&self) -> u64 {
        self.tried
    }

    /// Whether it sends at a pace, and does not wait for room.
    #[inline]
    pub(super) fn has_pace(&self) -> bool {
        self.interval != Span::ZERO
    }

    /// When the next message is due; the first one is at `now`.
    #[inline]
    pub(super) fn due(&mut self, now: Time) -> Time {
        *self.begun.get_or_insert(now) + self.interval * self.tried
    }

    /// Bytes of the next message.
    #[inline]
    pub(super) fn length(&self) -> u32 {
        self.length as u32
    }

    /// The next message.
    #[inline]
    pub(super) fn message(&mut self) -> &[u8] {
        let head = Head { run_id: self.run_id, sequence: self.sequence };
        self.bytes[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        &self.bytes[..self.length]
    }

    /// The socket has taken it, or has not. Numbers count what was taken, so that a gap in what arrives
    /// is a loss below the socket.
    #[inline]
    pub(super) fn next(&mut self, taken: bool) {
        self.tried += 1;
        self.sequence += u64::from(taken);
        self.length = self.lengths.next();
        self.to_compute = self.mixed.as_ref().map_or(Span::ZERO, Mixed::compute);
    }
}

/// The lengths of messages, one after the other.
struct Lengths {
    sizes_bytes: Vec<u32>,
    turn: Turn,
    at: usize,
}

enum Turn {
    /// Each length for so many messages, of which some are left.
    Blocks { block: u64, left: u64 },
    /// Any, each time.
    Random(Box<ChaCha8Rng>),
}

impl Lengths {
    fn new(sizes_bytes: &[u32], block: u64, seed: u64) -> Lengths {
        let turn = match block {
            0 => Turn::Random(Box::new(Seed(seed).generator())),
            block => Turn::Blocks { block, left: block },
        };
        Lengths { sizes_bytes: sizes_bytes.to_vec(), turn, at: 0 }
    }

    #[inline]
    fn next(&mut self) -> usize {
        let count = self.sizes_bytes.len();
        match &mut self.turn {
            Turn::Blocks { left: 0, block } => {
                self.turn = Turn::Blocks { block: *block, left: *block - 1 };
                self.at = (self.at + 1) % count;
            }
            Turn::Blocks { left, .. } => *left -= 1,
            Turn::Random(random) => {
                self.at = ((u64::from(random.next_u32()) * count as u64) >> 32) as usize;
            }
        }
        self.sizes_bytes[self.at] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(block: u64, seed: u64, count: usize) -> Vec<usize> {
        let mut lengths = Lengths::new(&[16, 64, 1_472], block, seed);
        (0..count).map(|_| lengths.next()).collect()
    }

    #[test]
    fn lengths_come_in_blocks_or_at_random() {
        assert_eq!(lengths(1, 0, 5), [16, 64, 1_472, 16, 64]);
        assert_eq!(lengths(2, 0, 7), [16, 16, 64, 64, 1_472, 1_472, 16]);
        let random = lengths(0, 1, 30_000);
        for size in [16, 64, 1_472] {
            let count = random.iter().filter(|&&length| length == size).count();
            assert!((9_500..10_500).contains(&count), "{size} bytes {count} times");
        }
        assert_eq!(random, lengths(0, 1, 30_000));
        assert_ne!(random, lengths(0, 2, 30_000));
    }
}
