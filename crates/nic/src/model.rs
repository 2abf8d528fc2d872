use std::fmt;

use warikomi_clock::Span;
use warikomi_pci::{ConfigSpace, Width};

use crate::register::{Register, Role, roles};
use crate::{Frame, Link, NicContext};

/// What a user needs to know to choose a model.
#[derive(Debug)]
pub struct ModelInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// One line about the model, for a list.
    pub summary: &'static str,
    /// Linux drivers that bind to it.
    pub linux_drivers: &'static [&'static str],
    /// The BAR in which a driver finds what it needs first.
    pub register_bar: u8,
    /// Receive queues, numbered from 0.
    pub rx_queues: u16,
    /// The longest frame that it receives, in bytes without check sequence.
    pub max_frame_bytes: usize,
    /// Every register, in the order of BARs and offsets.
    pub registers: &'static [Register],
}

impl ModelInfo {
    /// What the registers are for that an access takes in.
    #[inline]
    pub fn roles(&self, bar: u8, offset: u64, width: Width) -> impl Iterator<Item = Role> + use<> {
        roles(self.registers, bar, offset, width)
    }

    /// What the register is for that begins at this place of a BAR.
    #[inline]
    pub fn role(&self, bar: u8, offset: u64) -> Role {
        self.roles(bar, offset, Width::B1).next().unwrap_or(Role::Other)
    }

    /// The first register with this role.
    pub fn with_role(&self, role: Role) -> Option<&'static Register> {
        self.registers.iter().find(|register| register.role == role)
    }
}

/// How much a reset forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetKind {
    /// Power was off: everything is as it was delivered.
    PowerOn,
    /// The driver's own reset bit: rings, interrupts and queues; not the address, not the PHY.
    Soft,
}

/// What became of a frame that arrived at the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxOutcome {
    /// Written into a descriptor that the driver will find.
    OnRing,
    /// No descriptor was free: the hardware missed the frame.
    NoDescriptor,
    /// The receive filter did not let it in, or it was longer than the driver allows.
    Filtered,
    /// The receiver is off, or the link is down.
    NotReceiving,
    /// The descriptor, or the buffer that it names, could not be reached by DMA.
    DmaError,
    /// On the ring, in a descriptor with an error mark that the driver has not asked for: a driver
    /// gives it back and counts an error.
    OnRingDamaged,
    /// In the driver's memory, in a descriptor that the driver is never given
    /// ([`RxFault::NeverCompleted`]).
    NotCompleted,
}

impl RxOutcome {
    /// A number for it, for files and digests: it does not change when outcomes are added.
    #[inline]
    pub fn number(self) -> u64 {
        match self {
            RxOutcome::OnRing => 0,
            RxOutcome::NoDescriptor => 1,
            RxOutcome::Filtered => 2,
            RxOutcome::NotReceiving => 3,
            RxOutcome::DmaError => 4,
            RxOutcome::OnRingDamaged => 5,
            RxOutcome::NotCompleted => 6,
        }
    }

    /// Whether the driver has the frame on its ring, or will have.
    #[inline]
    pub fn is_on_ring(self) -> bool {
        matches!(self, RxOutcome::OnRing | RxOutcome::OnRingDamaged)
    }
}

impl fmt::Display for RxOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RxOutcome::OnRing => "on the ring",
            RxOutcome::NoDescriptor => "no descriptor",
            RxOutcome::Filtered => "filtered",
            RxOutcome::NotReceiving => "not receiving",
            RxOutcome::DmaError => "DMA error",
            RxOutcome::OnRingDamaged => "on the ring with an error mark",
            RxOutcome::NotCompleted => "in a descriptor that is never completed",
        })
    }
}

/// What happened to a frame: on its way, as the receiving hardware would notice it, or in hardware
/// that is at fault itself.
///
/// The faults of the hardware concern frames that the receive filter lets in. A frame that is longer
/// than one of the driver's buffers is completed as usual, but for [`RxFault::Reported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxFault {
    /// Its check sequence is wrong.
    Crc,
    /// It does not end on a byte's boundary, and its check sequence is wrong.
    Alignment,
    /// Its descriptor says that it has this error, whether or not the driver wants such frames.
    Reported(RxError),
    /// Its descriptor says that it has so many bytes, check sequence included; as many of the bits
    /// as a descriptor has for it.
    Length(u16),
    /// Its bytes are written, and its descriptor is never given to the driver; the next frame goes
    /// into the next descriptor.
    NeverCompleted,
    /// Its bytes are written, and its descriptor is given to the driver, with an interrupt, so much
    /// later; frames behind it are not held up.
    CompletedLate(Span),
}

/// An error of a received frame, as a descriptor tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxError {
    /// Wrong check sequence.
    Crc,
    /// Shorter than Ethernet allows.
    Runt,
    /// Longer than the driver allows; Realtek's receive watchdog timer.
    TooLong,
}

/// What became of a frame that arrived at the NIC, and which of its receive queues it was for. A frame
/// that was for none is put down to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The queue.
    pub queue: u16,
    /// What became of the frame.
    pub outcome: RxOutcome,
}

impl Reception {
    /// Of a frame that was for no queue, or for a NIC with one.
    pub fn first(outcome: RxOutcome) -> Reception {
        Reception { queue: 0, outcome }
    }
}

impl PartialEq<RxOutcome> for Reception {
    fn eq(&self, outcome: &RxOutcome) -> bool {
        self.outcome == *outcome
    }
}

/// How far the frames of one queue have come, as far as the model can tell. Counts never go back, also not on a
/// reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Frames written to the ring.
    pub on_ring: u64,
    /// Of these, in order: frames whose descriptor the driver has given back, which it does when it
    /// has taken the frame.
    pub accepted: u64,
    /// Frames on a ring that the driver threw away with the ring (reset, receiver off) before it
    /// took them. They follow `accepted` in order at the time of the reset.
    pub abandoned: u64,
}

impl std::ops::Add for RxCounters {
    type Output = RxCounters;

    fn add(self, other: RxCounters) -> RxCounters {
        RxCounters {
            on_ring: self.on_ring + other.on_ring,
            accepted: self.accepted + other.accepted,
            abandoned: self.abandoned + other.abandoned,
        }
    }
}

/// A NIC: registers, rings, filters, PHY.
///
/// Nothing that a driver writes to a register or into a descriptor may panic, block, or loop
/// without a bound. A read always returns a value.
pub trait NicModel: Send + 'static {
    /// The model's description.
    fn info(&self) -> &'static ModelInfo;

    /// Configuration space at power-on.
    fn config_space(&self) -> ConfigSpace;

    /// Reads at a place of a BAR.
    fn reg_read(&mut self, cx: &mut NicContext<'_>, bar: u8, offset: u64, width: Width) -> u64;

    /// Writes there.
    fn reg_write(
        &mut self,
        cx: &mut NicContext<'_>,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    );

    /// A frame arrives from the wire.
    fn frame_rx(&mut self, cx: &mut NicContext<'_>, frame: Frame<'_>) -> Reception;

    /// A frame arrives that was damaged on the way. The models do not check frame check sequences,
    /// which would cost them more than the rest of the reception, so the caller that damages a frame says
    /// so here. Hardware drops such a frame unless it is told otherwise.
    fn frame_rx_faulty(
        &mut self,
        _cx: &mut NicContext<'_>,
        _frame: Frame<'_>,
        _fault: RxFault,
    ) -> Reception {
        Reception::first(RxOutcome::Filtered)
    }

    /// A timer that the model had scheduled has run out.
    fn timer(&mut self, cx: &mut NicContext<'_>, tag: u32);

    /// The driver's system has changed the way of interrupts: configuration space, or the MSI-X table. What was
    /// held back may have gone out, which is news to a card that does something when it does.
    fn interrupts_configured(&mut self, _cx: &mut NicContext<'_>) {}

    /// The function is reset from outside.
    fn reset(&mut self, cx: &mut NicContext<'_>, kind: ResetKind);

    /// The cable changes.
    fn set_link(&mut self, cx: &mut NicContext<'_>, link: Link);

    /// What another card would find at the other end of its cable, if this one were there.
    fn offered_link(&self) -> Link;

    /// Whether it has a link, so that what it is to send comes to the wire.
    fn has_link(&self) -> bool;

    /// Looks at the ring of a receive queue for descriptors that the driver has given back, at most
    /// `limit` of them, and returns the queue's counts. Every look costs the driver a cache miss, so an
    /// injector does it when it has time; the count also advances, at no cost, whenever a frame arrives.
    fn rx_progress(&mut self, cx: &mut NicContext<'_>, queue: u16, limit: usize) -> RxCounters;

    /// Whether the driver has set the NIC up to receive and asks for interrupts.
    fn receiving(&self) -> bool;

    /// The address that the receive filter takes for its own.
    fn mac_address(&self) -> [u8; 6];

    /// Free descriptors of a receive queue in a row from the next one on, looking at no more than
    /// `limit`.
    fn rx_free(&mut self, cx: &mut NicContext<'_>, queue: u16, limit: usize) -> usize;

    /// Looks at the descriptors that are the card's, for a card that is strict: each queue has an `inspect` for
    /// it. Called before each register write, frame and timer then; changes nothing that a driver sees.
    fn inspect(&mut self, _cx: &mut NicContext<'_>) {}

    /// Looks at where the next frames of a receive queue will go, `frames` of `bytes` bytes, so that it is in the cache
    /// when they come. How many of them find a descriptor. Changes nothing that a driver sees.
    fn rx_look_ahead(
        &mut self,
        cx: &NicContext<'_>,
        queue: u16,
        frames: usize,
        bytes: usize,
    ) -> usize;
}
