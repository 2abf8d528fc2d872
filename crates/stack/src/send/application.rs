//! The application: which message comes next, and when.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use warikomi_clock::{Seed, Span, Time};
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
}

impl Application {
    pub(super) fn new(plan: &SendPlan) -> Application {
        let mut lengths = Lengths::new(plan);
        Application {
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

    /// Whether it has nothing more to send.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.tried >= self.planned
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
    fn new(plan: &SendPlan) -> Lengths {
        let turn = match plan.block {
            0 => Turn::Random(Box::new(Seed(plan.seed).generator())),
            block => Turn::Blocks { block, left: block },
        };
        Lengths { sizes_bytes: plan.sizes_bytes.clone(), turn, at: 0 }
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
    use crate::buffers::BufferKind;
    use crate::send::Transport;
    use warikomi_driver::transmit::{Bounce, Completion};

    fn lengths(block: u64, seed: u64, count: usize) -> Vec<usize> {
        let plan = SendPlan {
            sizes_bytes: vec![16, 64, 1_472],
            block,
            seed,
            count: 1,
            warmup: 0,
            interval_ps: 0,
            buffers: BufferKind::Contiguous,
            checksum: true,
            completion: Completion::Interrupt,
            bounce: Bounce::None,
            alignment_bytes: 1,
            transport: Transport::Udp,
            send_buffer_bytes: 1 << 20,
            mtu_bytes: 65_535,
            run_id: 0,
        };
        let mut lengths = Lengths::new(&plan);
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
