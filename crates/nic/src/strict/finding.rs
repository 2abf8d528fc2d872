//! What a strict device has found.

use std::fmt;

use warikomi_clock::Time;

use crate::register::Register;

/// A step that a driver must not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// A register was accessed in a width, or at a place, that it does not have.
    Width,
    /// There is no register where it accessed one, or nothing answers there.
    NoRegister,
    /// A register that can only be read was written, or the other way round.
    Direction,
    /// A reserved bit was set, in a register or in a descriptor.
    ReservedBits,
    /// A ring was switched on before its address was given.
    RingNotSet,
    /// A descriptor was changed, or taken back, while it was the card's.
    DescriptorChanged,
    /// A buffer was given to the card that had it already.
    GivenTwice,
    /// A descriptor makes no frame, or names no buffer.
    Descriptor,
    /// A descriptor asks for offloads that exclude each other, or leaves out what they need.
    OffloadFlags,
    /// The card was told to transfer from or to memory that is not the driver's, or while it must not.
    Dma,
    /// The card was told to transfer from or to memory that the driver has not mapped for that.
    NotMapped,
    /// The card was told to transfer from or to memory that is free.
    Freed,
    /// A doorbell was rung, and there was nothing to transmit.
    EmptyDoorbell,
    /// A doorbell was rung once more than there were frames, while they were transmitted or just behind that.
    DoorbellAgain,
    /// Something was pushed into a FIFO that was full.
    FifoFull,
    /// The driver said that it had read what was not written yet, or not read what it had.
    ReadPointer,
    /// An interrupt was unmasked before its cause was acknowledged.
    MaskOpened,
    /// A cause was acknowledged that had been read and acknowledged already.
    AcknowledgedTwice,
    /// An interrupt stood, and the driver did nothing about it.
    NotAcknowledged,
}

impl FindingKind {
    /// All of them.
    pub const ALL: [FindingKind; 19] = [
        FindingKind::Width,
        FindingKind::NoRegister,
        FindingKind::Direction,
        FindingKind::ReservedBits,
        FindingKind::RingNotSet,
        FindingKind::DescriptorChanged,
        FindingKind::GivenTwice,
        FindingKind::Descriptor,
        FindingKind::OffloadFlags,
        FindingKind::Dma,
        FindingKind::NotMapped,
        FindingKind::Freed,
        FindingKind::EmptyDoorbell,
        FindingKind::DoorbellAgain,
        FindingKind::FifoFull,
        FindingKind::ReadPointer,
        FindingKind::MaskOpened,
        FindingKind::AcknowledgedTwice,
        FindingKind::NotAcknowledged,
    ];

    /// Its name in results and on the terminal.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Width => "access width",
            FindingKind::NoRegister => "no register",
            FindingKind::Direction => "access direction",
            FindingKind::ReservedBits => "reserved bits",
            FindingKind::RingNotSet => "ring not set",
            FindingKind::DescriptorChanged => "descriptor changed",
            FindingKind::GivenTwice => "given twice",
            FindingKind::Descriptor => "malformed descriptor",
            FindingKind::OffloadFlags => "offload flags",
            FindingKind::Dma => "DMA",
            FindingKind::NotMapped => "memory not mapped",
            FindingKind::Freed => "memory freed",
            FindingKind::EmptyDoorbell => "doorbell for nothing",
            FindingKind::DoorbellAgain => "doorbell again",
            FindingKind::FifoFull => "FIFO full",
            FindingKind::ReadPointer => "read pointer",
            FindingKind::MaskOpened => "mask opened early",
            FindingKind::AcknowledgedTwice => "acknowledged twice",
            FindingKind::NotAcknowledged => "not acknowledged",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a driver took a step. Findings of one kind at one place are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A register.
    Register {
        /// The datasheet's name.
        name: &'static str,
        /// Number of the BAR.
        bar: u8,
        /// Offset of the register.
        offset: u16,
    },
    /// A BAR, where it has no register.
    Bar(u8),
    /// A receive queue.
    RxQueue(u16),
    /// A transmit queue.
    TxQueue(u16),
    /// An interrupt vector.
    Vector(u16),
    /// The target's memory.
    Memory,
}

impl From<&Register> for Place {
    fn from(row: &Register) -> Place {
        Place::Register { name: row.name, bar: row.bar, offset: row.offset }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Register { name, bar, offset } => write!(f, "{name} (BAR {bar}, {offset:#x})"),
            Place::Bar(bar) => write!(f, "BAR {bar}"),
            Place::RxQueue(queue) => write!(f, "receive queue {queue}"),
            Place::TxQueue(queue) => write!(f, "transmit queue {queue}"),
            Place::Vector(vector) => write!(f, "vector {vector}"),
            Place::Memory => f.write_str("memory"),
        }
    }
}

/// What a driver did that it must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of step it was.
    pub kind: FindingKind,
    /// Where.
    pub place: Place,
    /// The first of them in words, with its value.
    pub what: String,
    /// The functions in which the driver was then, the innermost first; empty if that is not known.
    pub stack: Vec<String>,
    /// What says that a driver must not: document and section, or Linux symbol.
    pub source: &'static str,
    /// How often.
    pub count: u64,
    /// Time of the first.
    pub first: Time,
}

/// What is wrong with a descriptor, or with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// What kind of step it is.
    pub kind: FindingKind,
    /// What is wrong, as the end of a sentence that begins with the descriptor or the transfer.
    pub what: &'static str,
    /// What says so: document and section, or Linux symbol.
    pub source: &'static str,
}

/// Different findings that are kept; a driver that errs everywhere must not fill memory.
const MOST: usize = 256;

/// All findings of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    list: Vec<Finding>,
    omitted: u64,
    unseen: Vec<&'static str>,
}

impl Findings {
    /// The findings, in the order of their first times.
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// Steps that are in no finding, because there were too many kinds and places.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// What was not looked at, each in words.
    pub fn unseen(&self) -> &[&'static str] {
        &self.unseen
    }

    pub(super) fn set_unseen(&mut self, unseen: Vec<&'static str>) {
        self.unseen = unseen;
    }

    /// Nothing found yet, looking at the same.
    pub(super) fn anew(&self) -> Findings {
        Findings { unseen: self.unseen.clone(), ..Findings::default() }
    }

    /// Whether the driver took no such step.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn note(
        &mut self,
        now: Time,
        (kind, place): (FindingKind, Place),
        source: &'static str,
        seen: impl FnOnce() -> (String, Vec<String>),
    ) {
        let known = |finding: &&mut Finding| finding.kind == kind && finding.place == place;
        let full = self.list.len() >= MOST;
        match self.list.iter_mut().find(known) {
            Some(finding) => finding.count += 1,
            None if !full => {
                let (what, stack) = seen();
                let finding = Finding { kind, place, what, stack, source, count: 1, first: now };
                self.list.push(finding);
            }
            None => self.omitted += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_one_kind_at_one_place_are_one() {
        let mut findings = Findings::default();
        for (at, place) in [(1, Place::Vector(0)), (2, Place::Vector(0)), (3, Place::Vector(1))] {
            let seen = || (format!("at {at}"), vec![format!("frame_{at}")]);
            findings.note(Time::from_ps(at), (FindingKind::MaskOpened, place), "here", seen);
        }
        let [first, second] = findings.list() else { panic!("{findings:?}") };
        assert_eq!((first.count, first.first, &*first.what), (2, Time::from_ps(1), "at 1"));
        assert_eq!(first.stack, ["frame_1"]);
        assert_eq!((second.count, second.place), (1, Place::Vector(1)));
    }

    #[test]
    fn a_driver_that_errs_everywhere_does_not_fill_memory() {
        let mut findings = Findings::default();
        for queue in 0..2_000 {
            let which = (FindingKind::GivenTwice, Place::RxQueue(queue));
            findings.note(Time::ZERO, which, "here", Default::default);
        }
        assert_eq!((findings.list().len(), findings.omitted()), (MOST, 2_000 - MOST as u64));
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        for kind in FindingKind::ALL {
            let same = FindingKind::ALL.iter().filter(|other| other.name() == kind.name());
            assert_eq!(same.count(), 1, "{kind}");
        }
    }
}
