//! The driver's way from a packet to the device, and back.

use warikomi_clock::{Span, Time};

use super::{Bounce, Completer, Completion, Course};
use crate::{DriverError, Hardware, NicDriver};

/// A packet to send: its pieces in order, the first one with the headers.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Bus address and length in bytes of each piece.
    pub pieces: &'a [(u64, u32)],
    /// Its owner's name for it.
    pub token: u32,
}

/// What a transmitter is made with.
#[derive(Clone, Copy, Debug)]
pub struct TransmitterOptions {
    /// How completed transfers are noticed.
    pub completion: Completion,
    /// What goes through the bounce buffer.
    pub bounce: Bounce,
    /// Bus address and length in bytes of the memory for bounce buffers, an area for each packet that the
    /// device can have; [`Transmitter::area_bytes`] says how much is needed.
    pub areas: (u64, u64),
}

/// What a transmitter has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmitterCounts {
    /// Packets handed over.
    pub packets: u64,
    /// Pieces handed over: DMA transfers.
    pub transfers: u64,
    /// Bytes copied into bounce buffers.
    pub bounced_bytes: u64,
    /// Packets of which something was copied.
    pub bounced_packets: u64,
    /// Times that interrupts of completed transfers were switched on or off.
    pub switches: u64,
    /// Times that the device was asked what it has sent.
    pub asked: u64,
}

/// Hands packets to the device as a completion strategy and a bounce buffer say.
#[derive(Debug)]
pub struct Transmitter {
    options: TransmitterOptions,
    completer: Completer,
    counts: TransmitterCounts,
}

impl Transmitter {
    /// Bytes of bounce buffers that a driver needs whose ring has so many descriptors.
    pub fn area_bytes(_descriptors: usize, _max_frame_bytes: usize) -> u64 {
        unimplemented!("helper driver")
    }

    /// A transmitter for a device that has been set up and has nothing to send.
    pub fn new(
        _options: TransmitterOptions,
        _driver: &mut dyn NicDriver,
        _hw: &mut Hardware<'_>,
        _course: &mut impl Course,
    ) -> Result<Transmitter, DriverError> {
        unimplemented!("helper driver")
    }

    /// Hands a packet to the device and rings its doorbell; `false`, and nothing done, if the device has no
    /// room. Without interrupts of completed transfers it first asks what has been sent, and gives that to
    /// `sent` with the time that it was in the driver.
    pub fn send(
        &mut self,
        _driver: &mut dyn NicDriver,
        _hw: &mut Hardware<'_>,
        _course: &mut impl Course,
        _packet: Packet<'_>,
        _sent: &mut dyn FnMut(u32, Span),
    ) -> Result<bool, DriverError> {
        unimplemented!("helper driver")
    }

    /// An interrupt has come: acknowledges it, and frees what has been sent.
    pub fn interrupted(
        &mut self,
        _driver: &mut dyn NicDriver,
        _hw: &mut Hardware<'_>,
        _course: &mut impl Course,
        _sent: &mut dyn FnMut(u32, Span),
    ) -> Result<(), DriverError> {
        unimplemented!("helper driver")
    }

    /// The send buffer has so much free space of so much in all: switches interrupts on or off.
    pub fn room(
        &mut self,
        _driver: &mut dyn NicDriver,
        _hw: &mut Hardware<'_>,
        _course: &mut impl Course,
        _free_bytes: u64,
        _all_bytes: u64,
    ) -> Result<(), DriverError> {
        unimplemented!("helper driver")
    }

    /// Asks the device what it has sent, whatever the strategy: before a sleep (behind `arm`), and at the
    /// end.
    pub fn reclaim(
        &mut self,
        _driver: &mut dyn NicDriver,
        _hw: &mut Hardware<'_>,
        _course: &mut impl Course,
        _sent: &mut dyn FnMut(u32, Span),
    ) -> Result<usize, DriverError> {
        unimplemented!("helper driver")
    }

    /// Whether the next completed packet interrupts: without that, nobody may wait for one.
    pub fn will_be_interrupted(&self) -> bool {
        self.completer.interrupts()
    }

    /// Packets that the device has.
    pub fn in_flight(&self) -> usize {
        unimplemented!("helper driver")
    }

    /// The time at which the oldest of them was handed over.
    pub fn oldest(&self) -> Option<Time> {
        unimplemented!("helper driver")
    }

    /// What it has done.
    pub fn counts(&self) -> TransmitterCounts {
        self.counts
    }

    /// What it was made with.
    pub fn options(&self) -> &TransmitterOptions {
        &self.options
    }
}
