//! Half a byte a packet.

use super::packet::{Fate, Outcome};

/// What the support side knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    NoDescriptor = 0,
    Filtered = 1,
    NotReceiving = 2,
    DmaError = 3,
    OnRing = 4,
    Accepted = 5,
    Abandoned = 6,
    /// Not zero, so that filling the memory with it touches every page of it, and the loop that
    /// injects meets no page fault.
    NotInjected = 7,
    NotCompleted = 8,
    /// On the ring, with an error mark.
    Damaged = 9,
    /// With an error mark, and given back.
    Refused = 10,
}

/// Added to a state of a packet that was on the ring, and is no refused one, when the application
/// has received it.
const DELIVERED: u8 = 8;

const ALL: [State; 16] = [
    State::NoDescriptor,
    State::Filtered,
    State::NotReceiving,
    State::DmaError,
    State::OnRing,
    State::Accepted,
    State::Abandoned,
    State::NotInjected,
    State::NotCompleted,
    State::Damaged,
    State::Refused,
    State::NotInjected,
    State::OnRing,
    State::Accepted,
    State::Abandoned,
    State::NotInjected,
];

impl State {
    /// Whether an application can have received it.
    #[inline]
    pub(super) fn was_on_ring(self) -> bool {
        matches!(self, State::OnRing | State::Accepted | State::Abandoned)
    }

    /// Whether it is on the ring, and the driver has neither given it back nor thrown it away.
    #[inline]
    pub(super) fn is_undecided(self) -> bool {
        matches!(self, State::OnRing | State::Damaged)
    }
}

impl From<Outcome> for State {
    #[inline]
    fn from(outcome: Outcome) -> State {
        match outcome {
            Outcome::NoDescriptor => State::NoDescriptor,
            Outcome::Filtered => State::Filtered,
            Outcome::NotReceiving => State::NotReceiving,
            Outcome::DmaError => State::DmaError,
            Outcome::OnRing => State::OnRing,
            Outcome::OnRingDamaged => State::Damaged,
            Outcome::NotCompleted => State::NotCompleted,
        }
    }
}

/// The state of each packet. Sequence numbers must be below `len`.
#[derive(Debug)]
pub(super) struct States {
    halves: Vec<u8>,
    len: u64,
    /// What becomes of a packet that the driver accepted and no application received.
    accepted: Fate,
}

impl States {
    pub(super) fn new(len: u64) -> States {
        let both = State::NotInjected as u8 * 0x11;
        States { halves: vec![both; len.div_ceil(2) as usize], len, accepted: Fate::LostInStack }
    }

    pub(super) fn without_application(self) -> States {
        States { accepted: Fate::Unclaimed, ..self }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    fn half(&self, sequence: u64) -> u8 {
        self.halves[(sequence / 2) as usize] >> shift(sequence) & 0xf
    }

    #[inline]
    fn set_half(&mut self, sequence: u64, value: u8) {
        let byte = &mut self.halves[(sequence / 2) as usize];
        *byte = *byte & !(0xf << shift(sequence)) | value << shift(sequence);
    }

    #[inline]
    pub(super) fn get(&self, sequence: u64) -> State {
        ALL[usize::from(self.half(sequence))]
    }

    /// Whether the application has received it.
    #[inline]
    fn is_delivered(&self, sequence: u64) -> bool {
        self.half(sequence) >= DELIVERED | State::OnRing as u8
    }

    /// Sets the state, and keeps the mark.
    #[inline]
    pub(super) fn set(&mut self, sequence: u64, state: State) {
        let mark = if self.is_delivered(sequence) { DELIVERED } else { 0 };
        self.set_half(sequence, mark | state as u8);
    }

    /// Marks a packet that was on the ring as delivered; `false` if it was already.
    pub(super) fn mark_delivered(&mut self, sequence: u64) -> bool {
        let was = self.is_delivered(sequence);
        self.set_half(sequence, self.half(sequence) | DELIVERED);
        !was
    }

    pub(super) fn fate(&self, sequence: u64) -> Fate {
        match self.get(sequence) {
            _ if self.is_delivered(sequence) => Fate::Delivered,
            State::NotInjected => Fate::NotInjected,
            State::NoDescriptor => Fate::NoDescriptor,
            State::Filtered => Fate::Filtered,
            State::NotReceiving => Fate::NotReceiving,
            State::DmaError => Fate::DmaError,
            State::OnRing | State::Damaged | State::Abandoned => Fate::LostOnRing,
            State::NotCompleted => Fate::NotCompleted,
            State::Refused => Fate::Refused,
            State::Accepted => self.accepted,
        }
    }
}

#[inline]
fn shift(sequence: u64) -> u32 {
    (sequence % 2) as u32 * 4
}
