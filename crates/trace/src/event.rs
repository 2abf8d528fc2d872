//! Events, and the numbers that they are written as.

use warikomi_clock::{Span, Time};
use warikomi_nic::{Link, Offer, Reception, RxError, RxFault, RxOutcome};
use warikomi_pci::{Interrupt, MsiMessage, Vector, Width};

/// What happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time of the call in which it happened.
    pub at: Time,
    /// The event.
    pub what: EventKind,
}

/// A register or configuration access by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Access {
    /// The BAR; `None` for configuration space.
    pub bar: Option<u8>,
    /// Offset in bytes; one of 2^32 - 1 or more is recorded as that.
    pub offset: u32,
    /// How many bytes: 1, 2, 4 or 8.
    pub width_bytes: u8,
}

/// A frame without check sequence, as the trace has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameBytes {
    /// All of its bytes. Frames that follow refer to them.
    Whole(Vec<u8>),
    /// The last whole frame, with this sequence number in place of its own.
    Numbered(u64),
}

/// What can happen at a device's edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The driver read this.
    Read(Access, u64),
    /// The driver wrote this.
    Write(Access, u64),
    /// The device sent a message, of this vector if that is known, or moved its wire.
    Interrupt(Interrupt, Option<Vector>),
    /// The device copied from memory.
    DmaRead {
        /// Bus address.
        address: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The device copied to memory.
    DmaWrite {
        /// Bus address.
        address: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The device read a word, such as a descriptor's ownership.
    DmaLoad {
        /// Bus address.
        address: u64,
        /// The value that was read.
        value: u32,
    },
    /// The device wrote a word.
    DmaStore {
        /// Bus address.
        address: u64,
        /// The value that was written.
        value: u32,
    },
    /// The device tried to reach memory that it cannot reach.
    DmaFailed {
        /// Bus address.
        address: u64,
        /// Length in bytes.
        len: u64,
    },
    /// A frame arrived at the NIC.
    Arrived {
        /// The frame.
        frame: FrameBytes,
        /// The check sequence behind it.
        fcs: u32,
    },
    /// The frame that arrives next was damaged on the way.
    Damaged(RxFault),
    /// What became of the frame that arrived last.
    Placed(Reception),
    /// The cable changed.
    Link(Link),
    /// The device was reset from outside.
    PowerOn,
}

/// An event's kind, as the trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Read = 1,
    Write = 2,
    Message = 3,
    Wire = 4,
    DmaRead = 5,
    DmaWrite = 6,
    DmaLoad = 7,
    DmaStore = 8,
    DmaFailed = 9,
    Whole = 10,
    Numbered = 11,
    Damaged = 12,
    Placed = 13,
    Link = 14,
    PowerOn = 15,
}

const KINDS: [Kind; 15] = [
    Kind::Read,
    Kind::Write,
    Kind::Message,
    Kind::Wire,
    Kind::DmaRead,
    Kind::DmaWrite,
    Kind::DmaLoad,
    Kind::DmaStore,
    Kind::DmaFailed,
    Kind::Whole,
    Kind::Numbered,
    Kind::Damaged,
    Kind::Placed,
    Kind::Link,
    Kind::PowerOn,
];

impl Kind {
    pub(super) const COUNT: usize = KINDS.len() + 1;

    pub(super) fn from_number(number: u8) -> Option<Kind> {
        KINDS.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Whether `a` is the difference from the last `a` of this kind: of addresses, and of sequence
    /// numbers.
    pub(super) fn is_relative(self) -> bool {
        use Kind::{DmaFailed, DmaLoad, DmaRead, DmaStore, DmaWrite, Message, Numbered};
        matches!(self, DmaRead | DmaWrite | DmaLoad | DmaStore | DmaFailed | Message | Numbered)
    }
}

const CONFIGURATION: u64 = 7;

impl Access {
    /// Bits 0 to 2: the BAR (7: configuration space). Bits 3 and 4: the width's logarithm. The rest:
    /// the offset.
    #[inline]
    pub(super) fn to_number(self) -> u64 {
        let place = self.bar.map_or(CONFIGURATION, |bar| u64::from(bar & 7));
        let width = u64::from(self.width_bytes.trailing_zeros());
        u64::from(self.offset) << 5 | (width & 3) << 3 | place
    }

    fn from_number(number: u64) -> Option<Access> {
        Some(Access {
            bar: (number & 7 != CONFIGURATION).then_some((number & 7) as u8),
            offset: u32::try_from(number >> 5).ok()?,
            width_bytes: 1 << (number >> 3 & 3),
        })
    }

    #[inline]
    pub(super) fn new(bar: Option<u8>, offset: u64, width: Width) -> Access {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        Access { bar, offset, width_bytes: width.bytes() as u8 }
    }
}

const OUTCOMES: [RxOutcome; 7] = [
    RxOutcome::OnRing,
    RxOutcome::NoDescriptor,
    RxOutcome::Filtered,
    RxOutcome::NotReceiving,
    RxOutcome::DmaError,
    RxOutcome::OnRingDamaged,
    RxOutcome::NotCompleted,
];

/// Which fault, and its parameter.
pub(super) fn fault_numbers(fault: RxFault) -> (u64, u64) {
    match fault {
        RxFault::Crc => (0, 0),
        RxFault::Alignment => (1, 0),
        RxFault::Reported(RxError::Crc) => (2, 0),
        RxFault::Reported(RxError::Runt) => (3, 0),
        RxFault::Reported(RxError::TooLong) => (4, 0),
        RxFault::NeverCompleted => (5, 0),
        RxFault::Length(bytes) => (6, u64::from(bytes)),
        RxFault::CompletedLate(after) => (7, after.as_ps()),
    }
}

fn fault(which: u64, parameter: u64) -> Option<RxFault> {
    match (which, parameter) {
        (0, 0) => Some(RxFault::Crc),
        (1, 0) => Some(RxFault::Alignment),
        (2, 0) => Some(RxFault::Reported(RxError::Crc)),
        (3, 0) => Some(RxFault::Reported(RxError::Runt)),
        (4, 0) => Some(RxFault::Reported(RxError::TooLong)),
        (5, 0) => Some(RxFault::NeverCompleted),
        (6, bytes) => Some(RxFault::Length(u16::try_from(bytes).ok()?)),
        (7, after_ps) => Some(RxFault::CompletedLate(Span::from_ps(after_ps))),
        _ => None,
    }
}

/// Stands before what a PHY at the other end of a cable sends.
const PHY: u64 = 1 << 32;

fn link(number: u64) -> Option<Link> {
    match number {
        0 => Some(Link::Down),
        number if number & PHY != 0 => {
            Offer::from_bits(u16::try_from(number & !PHY).ok()?).map(Link::Phy)
        }
        mbps => Some(Link::Up { mbps: u32::try_from(mbps).ok()? }),
    }
}

pub(super) fn link_number(link: Link) -> u64 {
    match link {
        Link::Down => 0,
        Link::Up { mbps } => u64::from(mbps),
        Link::Phy(offer) => PHY | u64::from(offer.bits()),
    }
}

/// Stands for a vector that is not known.
const NO_VECTOR: u64 = 0xffff;

/// The second number of a message: its data, and above that its vector, which is 0 for the only one.
#[inline]
pub(super) fn message_number(data: u32, vector: Option<Vector>) -> u64 {
    vector.map_or(NO_VECTOR, |vector| vector.0.into()) << 32 | u64::from(data)
}

fn message(address: u64, number: u64) -> Option<EventKind> {
    let vector = u16::try_from(number >> 32).ok()?;
    let vector = (u64::from(vector) != NO_VECTOR).then_some(Vector(vector));
    let message = MsiMessage { address, data: number as u32 };
    Some(EventKind::Interrupt(Interrupt::Msi(message), vector))
}

/// An event from its numbers; `None` if they make no sense. `whole` is the frame behind an event of
/// that kind.
pub(super) fn event_kind(kind: Kind, a: u64, b: u64, whole: Option<Vec<u8>>) -> Option<EventKind> {
    let word = u32::try_from(b).ok();
    let without_b = |event_kind: EventKind| (b == 0).then_some(event_kind);
    match kind {
        Kind::Read => Some(EventKind::Read(Access::from_number(a)?, b)),
        Kind::Write => Some(EventKind::Write(Access::from_number(a)?, b)),
        Kind::Message => message(a, b),
        Kind::Wire if a <= 1 => without_b(EventKind::Interrupt(Interrupt::Intx(a == 1), None)),
        Kind::DmaRead => Some(EventKind::DmaRead { address: a, len: b }),
        Kind::DmaWrite => Some(EventKind::DmaWrite { address: a, len: b }),
        Kind::DmaLoad => Some(EventKind::DmaLoad { address: a, value: word? }),
        Kind::DmaStore => Some(EventKind::DmaStore { address: a, value: word? }),
        Kind::DmaFailed => Some(EventKind::DmaFailed { address: a, len: b }),
        Kind::Whole => Some(EventKind::Arrived { frame: FrameBytes::Whole(whole?), fcs: word? }),
        Kind::Numbered => Some(EventKind::Arrived { frame: FrameBytes::Numbered(a), fcs: word? }),
        Kind::Damaged => Some(EventKind::Damaged(fault(a, b)?)),
        Kind::Placed => {
            let outcome = *OUTCOMES.get(usize::try_from(a).ok()?)?;
            Some(EventKind::Placed(Reception { queue: u16::try_from(b).ok()?, outcome }))
        }
        Kind::Link => without_b(EventKind::Link(link(a)?)),
        Kind::PowerOn => (a == 0 && b == 0).then_some(EventKind::PowerOn),
        Kind::Wire => None,
    }
}
