//! Which receive queue each packet was for, and how far each queue is decided.

use std::collections::VecDeque;

/// How far one queue is decided. A driver takes the frames of one queue in order, so a queue needs a
/// cursor over the packets and no list of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// No packet of this queue before this one is undecided.
    cursor: u64,
    /// Packets on the ring of which it is not decided whether the driver accepted them.
    undecided: u64,
    /// Frames on the ring that are not ours: so many before this sequence number.
    foreign: VecDeque<(u64, u64)>,
    accepted: u64,
    abandoned: u64,
}

/// What was next on a ring.
pub(super) enum Taken {
    /// So many frames of others.
    Foreign(u64),
    /// This packet.
    Packet(u64),
    /// Nothing is left.
    Nothing,
}

impl Queue {
    /// Places in the ring's order at which frames of others are remembered.
    const FOREIGN_PLACES: usize = 65_536;

    /// A packet went on the ring.
    #[inline]
    pub(super) fn joined(&mut self, sequence: u64) {
        if self.undecided == 0 {
            self.cursor = sequence;
        }
        self.undecided += 1;
    }

    /// Frames of others went on the ring, before the packet `next`. `false` if there are too many
    /// places to remember.
    pub(super) fn foreign_joined(&mut self, next: u64, count: u64) -> bool {
        let room = self.foreign.len() < Self::FOREIGN_PLACES;
        match self.foreign.back_mut() {
            _ if count == 0 => {}
            Some((before, frames)) if *before == next => *frames += count,
            _ if room => self.foreign.push_back((next, count)),
            _ => return false,
        }
        true
    }

    /// How many more frames were accepted and abandoned than when this was last asked; `None` if a
    /// count has gone back.
    pub(super) fn advanced(&mut self, accepted: u64, abandoned: u64) -> Option<(u64, u64)> {
        let more = (accepted.checked_sub(self.accepted)?, abandoned.checked_sub(self.abandoned)?);
        (self.accepted, self.abandoned) = (accepted, abandoned);
        Some(more)
    }

    /// Takes what is next on the ring: of frames of others up to `most`. `is_undecided` says whether a
    /// packet is on this ring and undecided; the one that is taken must not be any more.
    #[inline]
    pub(super) fn take(&mut self, most: u64, is_undecided: impl Fn(u64) -> bool) -> Taken {
        while self.undecided > 0 && !is_undecided(self.cursor) {
            self.cursor += 1;
        }
        if let Some((before, frames)) = self.foreign.front_mut()
            && (self.undecided == 0 || *before <= self.cursor)
        {
            let taken = most.min(*frames);
            *frames -= taken;
            if *frames == 0 {
                self.foreign.pop_front();
            }
            return Taken::Foreign(taken);
        }
        if self.undecided == 0 {
            return Taken::Nothing;
        }
        self.undecided -= 1;
        self.cursor += 1;
        Taken::Packet(self.cursor - 1)
    }
}

/// The number of each packet's queue, in as few bits as a power of two allows: none for one queue.
#[derive(Debug, Default)]
pub(super) struct QueueNumbers {
    bits: u32,
    words: Vec<u64>,
}

impl QueueNumbers {
    /// Room for `len` packets. All of it is touched here: zeros would be handed out at the first touch
    /// only, in the loop that injects.
    pub(super) fn new(len: u64, queues: u16) -> QueueNumbers {
        let bits = match u16::BITS - queues.saturating_sub(1).leading_zeros() {
            0 => return QueueNumbers::default(),
            needed => needed.next_power_of_two(),
        };
        QueueNumbers { bits, words: vec![u64::MAX; len.div_ceil(u64::from(64 / bits)) as usize] }
    }

    /// Where the number of a packet is, in which word and at which bit.
    #[inline]
    fn place(&self, sequence: u64) -> (usize, u32) {
        let in_word = u64::from(64 / self.bits);
        ((sequence / in_word) as usize, (sequence % in_word) as u32 * self.bits)
    }

    #[cfg(test)]
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline]
    pub(super) fn set(&mut self, sequence: u64, queue: u16) {
        if self.bits == 0 {
            return;
        }
        let (word, shift) = self.place(sequence);
        let mask = self.mask();
        let word = &mut self.words[word];
        *word = *word & !(mask << shift) | (u64::from(queue) & mask) << shift;
    }

    #[inline]
    pub(super) fn get(&self, sequence: u64) -> u16 {
        if self.bits == 0 {
            return 0;
        }
        let (word, shift) = self.place(sequence);
        (self.words[word] >> shift & self.mask()) as u16
    }
}
