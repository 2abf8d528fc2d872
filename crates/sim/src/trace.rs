//! What happens, as it is told to the checkers, and one number for all of it.
//!
//! A history is its events in order. Each goes into a digest (BLAKE3 over a fixed encoding), so two
//! histories are the same, byte for byte, if their digests are; and to the checkers, who know nothing
//! else of the system.

use warikomi_clock::Time;
use warikomi_nic::RxOutcome;

/// A part of the target that can die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// The driver's process (with everything in it, if it is the only one).
    Driver = 0,
    /// The first process behind the driver.
    First = 1,
    /// The second.
    Second = 2,
}

/// How a driver leaves its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Parting {
    /// It has given it to another, which goes on with it.
    GaveAway = 0,
    /// It has stopped it.
    Stopped = 1,
    /// It has died while it served it.
    Died = 2,
    /// It has given up, or has died before it served it.
    Failed = 3,
    /// The same before it had accepted it: what its predecessor left is still there.
    Unaccepted = 4,
}

/// An event of a run in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame came to the NIC.
    Arrived {
        /// Sequence number of the packet.
        sequence: u64,
        /// What the NIC did with it.
        outcome: RxOutcome,
        /// A fault struck this frame.
        struck: bool,
    },
    /// The driver took a buffer for its ring.
    BufferPosted {
        /// Token of the buffer.
        token: u32,
    },
    /// The driver gave a buffer with a frame up.
    FrameReceived {
        /// The buffer.
        token: u32,
        /// The number that is in the frame; `None` of one that is none of ours.
        sequence: Option<u64>,
        /// Length of the frame in bytes.
        bytes: u32,
    },
    /// The driver gave a buffer back without a frame.
    BufferReturned {
        /// Token of the buffer.
        token: u32,
    },
    /// The application has a packet, and will use the buffer no more.
    Delivered {
        /// The buffer.
        token: u32,
        /// The number that is in the packet; `None` of one that is none of ours.
        sequence: Option<u64>,
    },
    /// A buffer is free again.
    BufferFreed {
        /// Token of the buffer.
        token: u32,
    },
    /// The NIC sent an interrupt.
    Interrupt,
    /// The driver's handler ran.
    Handled,
    /// A part sleeps.
    Slept(Part),
    /// A part is awake.
    Woke(Part),
    /// A part was killed. Its buffers are free again behind this, one by one.
    Killed(Part),
    /// The driver gave up because of an error that the device reported; it ends.
    DriverFailed,
    /// A part was started.
    Started(Part),
    /// A part is held for a while.
    Stalled(Part),
    /// Frames come no more and nothing goes wrong from now on. The card may still negotiate a link that it has lost.
    DisturbancesOver {
        /// How often the buffers must go round for what waits in the card: once where each frame waits in a buffer.
        rounds: u64,
    },
    /// Nothing is left to do, or the time for it is over: the driver is told to stop its device.
    Stopping,
    /// The driver has stopped its device and given all back.
    Quiesced,
    /// What was on the rings is nobody's any more: the device is reset, or was.
    Forgotten,
    /// The support side has reset the device from outside.
    PoweredOn,
    /// The driver is about to stop its device: buffers without a frame come back.
    Quiescing,
    /// The driver of this generation takes the device.
    Took {
        /// Generation of the driver.
        generation: u32,
    },
    /// The driver of this generation has the device no more.
    Left {
        /// Generation of the driver.
        generation: u32,
        /// How it has left it.
        how: Parting,
    },
    /// The card has lost its link, or has one again. Without one a card may be done with what it is to send, and have
    /// put nothing on the wire.
    Link {
        /// It has one.
        up: bool,
    },
    /// The application handed a frame over to be sent.
    Sent {
        /// The frame's number.
        sequence: u64,
    },
    /// The card put a frame on the wire.
    OnWire {
        /// Its number; `None` of one that is none of the application's, or changed.
        sequence: Option<u64>,
    },
    /// A frame came back to the application.
    SentBack {
        /// The frame's number; `None` of a buffer that was not handed over.
        sequence: Option<u64>,
        /// As sent, not as one that could not be or whose fate is unknown.
        sent: bool,
    },
    /// The history is over.
    End,
}

impl Event {
    /// Kind, two numbers.
    fn encoded(&self) -> (u8, u64, u64) {
        const NONE: u64 = u64::MAX;
        match *self {
            Event::Arrived { sequence, outcome, struck } => {
                (0, sequence, outcome.number() | u64::from(struck) << 8)
            }
            Event::BufferPosted { token } => (1, token.into(), 0),
            Event::FrameReceived { token, sequence, bytes } => {
                (2, u64::from(token) | u64::from(bytes) << 32, sequence.unwrap_or(NONE))
            }
            Event::BufferReturned { token } => (3, token.into(), 0),
            Event::Delivered { token, sequence } => (4, token.into(), sequence.unwrap_or(NONE)),
            Event::BufferFreed { token } => (5, token.into(), 0),
            Event::Interrupt => (6, 0, 0),
            Event::Handled => (7, 0, 0),
            Event::Slept(part) => (9, part as u64, 0),
            Event::Woke(part) => (10, part as u64, 0),
            Event::Killed(part) => (11, part as u64, 0),
            Event::DriverFailed => (12, 0, 0),
            Event::Started(part) => (13, part as u64, 0),
            Event::Stalled(part) => (14, part as u64, 0),
            Event::DisturbancesOver { rounds } => (15, rounds - 1, 0),
            Event::Quiesced => (16, 0, 0),
            Event::End => (17, 0, 0),
            Event::Stopping => (18, 0, 0),
            Event::Forgotten => (19, 0, 0),
            Event::Quiescing => (20, 0, 0),
            Event::PoweredOn => (26, 0, 0),
            Event::Link { up } => (27, up.into(), 0),
            Event::Took { generation } => (21, generation.into(), 0),
            Event::Left { generation, how } => (22, generation.into(), how as u64),
            Event::Sent { sequence } => (23, sequence, 0),
            Event::OnWire { sequence } => (24, sequence.unwrap_or(NONE), 0),
            Event::SentBack { sequence, sent } => (25, sequence.unwrap_or(NONE), sent.into()),
        }
    }
}

/// Somebody who is told of every event.
pub trait Observer {
    /// Takes an event.
    fn event(&mut self, at: Time, event: &Event);
}

/// Bytes of an encoded event: time, kind, two numbers.
const EVENT_BYTES: usize = 8 + 1 + 8 + 8;
/// BLAKE3 is fastest with many bytes at a time.
const BATCH_EVENTS: usize = 512;

/// The digest of a history, as it grows.
pub(super) struct Digest {
    hasher: blake3::Hasher,
    waiting: Box<[u8; BATCH_EVENTS * EVENT_BYTES]>,
    /// Bytes that wait to be hashed.
    used: usize,
    events: u64,
}

impl Digest {
    pub(super) fn new() -> Digest {
        Digest {
            hasher: blake3::Hasher::new(),
            waiting: Box::new([0; BATCH_EVENTS * EVENT_BYTES]),
            used: 0,
            events: 0,
        }
    }

    #[inline]
    pub(super) fn event(&mut self, at: Time, event: &Event) {
        self.add(at, event.encoded());
    }

    /// Something that happened: its kind, and two numbers.
    #[inline]
    pub(super) fn add(&mut self, at: Time, (kind, first, second): (u8, u64, u64)) {
        // Written where it stays: a copy right behind these stores would have to wait for them.
        let bytes = &mut self.waiting[self.used..self.used + EVENT_BYTES];
        bytes[..8].copy_from_slice(&at.as_ps().to_le_bytes());
        bytes[8] = kind;
        bytes[9..17].copy_from_slice(&first.to_le_bytes());
        bytes[17..].copy_from_slice(&second.to_le_bytes());
        self.used += EVENT_BYTES;
        self.events += 1;
        if self.used == self.waiting.len() {
            self.hasher.update(&self.waiting[..]);
            self.used = 0;
        }
    }

    /// Events so far.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// 64 hexadecimal digits.
    pub(super) fn finish(mut self) -> String {
        self.hasher.update(&self.waiting[..self.used]);
        self.hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(events: &[(u64, Event)]) -> String {
        let mut digest = Digest::new();
        events.iter().for_each(|(ps, event)| digest.event(Time::from_ps(*ps), event));
        digest.finish()
    }

    #[test]
    fn any_difference_shows() {
        let freed = |token| Event::BufferFreed { token };
        let base = digest(&[(1, freed(1)), (2, freed(2))]);
        assert_eq!(base, digest(&[(1, freed(1)), (2, freed(2))]));
        for other in [
            digest(&[(1, freed(2)), (2, freed(1))]),
            digest(&[(1, freed(1)), (3, freed(2))]),
            digest(&[(1, freed(1))]),
            digest(&[(1, freed(1)), (2, Event::BufferPosted { token: 2 })]),
        ] {
            assert_ne!(base, other);
        }
    }
}
