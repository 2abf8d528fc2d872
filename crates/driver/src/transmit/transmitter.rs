//! The driver's way from a packet to the device, and back.

use std::collections::VecDeque;

use warikomi_clock::{Span, Time};

use super::bounce::{Amount, Areas, Auto, Choice, needed_bytes};
use super::{Bounce, Completer, Completion, CostClock, Work};
use crate::{DriverError, Hardware, NicDriver, Segments, TxFrame};

/// A packet to send: its pieces in order, the first one with the headers.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Bus address and length in bytes of each piece.
    pub pieces: &'a [(u64, u32)],
    /// Its owner's name for it.
    pub token: u32,
    /// The device cuts it into segments. Nothing of it is copied then.
    pub segments: Option<Segments>,
}

/// What a transmitter is made with.
#[derive(Clone, Copy, Debug)]
pub struct TransmitterOptions {
    /// How completed transfers are noticed.
    pub completion: Completion,
    /// What goes through the bounce buffer.
    pub bounce: Bounce,
    /// The device's DMA begins at multiples of this number of bytes, a power of two: other pieces are copied to
    /// where it can begin. 1: anywhere.
    pub alignment_bytes: u32,
    /// Bus address and length in bytes of the memory for such copies and bounce buffers, an area for each packet that
    /// the device can have; [`Transmitter::area_bytes`] says how much is needed. Without either there need not be
    /// any.
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
    /// Packets of which something was copied into a bounce buffer.
    pub bounced_packets: u64,
    /// Bytes copied because they were not aligned.
    pub aligned_bytes: u64,
    /// Times that interrupts of completed transfers were switched on or off.
    pub switches: u64,
    /// Times that the device was asked what it has sent.
    pub asked: u64,
}

/// The one vector of a sender.
const VECTOR: u16 = 0;
/// Without interrupts the device is asked at the latest when packets have been on their way for so long.
const LONGEST_UNASKED: Span = Span::from_us(100);
/// Pieces of the shortest packet that goes through a bounce buffer without contents.
const LEAST_PIECES: usize = 2;

/// A packet that the device has.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    token: u32,
    at: Time,
    /// Pieces and bytes that the device transfers.
    pieces: u32,
    bytes: u64,
}

/// Hands packets to the device as a completion strategy and a bounce buffer say.
#[derive(Debug)]
pub struct Transmitter {
    options: TransmitterOptions,
    completer: Completer,
    /// There are none if nothing is ever copied.
    areas: Option<Areas>,
    /// From the first packet of several pieces on.
    auto: Option<Auto>,
    /// In the order in which they were handed over, which is that in which they come back.
    flights: VecDeque<InFlight>,
    /// The pieces of the packet at hand, behind the bounce buffer.
    pieces: Vec<(u64, u32)>,
    /// Packets handed over since the device was last asked.
    unasked: usize,
    /// The device was armed for a sleep, and nobody has masked it since.
    armed: bool,
    counts: TransmitterCounts,
}

impl Transmitter {
    /// Bytes of bounce buffers that a driver needs whose ring has so many descriptors.
    pub fn area_bytes(descriptors: usize, max_frame_bytes: usize) -> u64 {
        needed_bytes(descriptors, max_frame_bytes)
    }

    /// A transmitter for a device that has been set up and has nothing to send.
    pub fn new(
        options: TransmitterOptions,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
    ) -> Result<Transmitter, DriverError> {
        let areas = match (options.bounce, options.alignment_bytes) {
            (Bounce::None, 1) => None,
            _ => Some(Areas::new(options.areas, driver.info(), hw.memory)?),
        };
        let completer = Completer::new(options.completion);
        driver.transmit_interrupts(hw, completer.interrupts())?;
        Ok(Transmitter {
            options,
            completer,
            areas,
            auto: None,
            flights: VecDeque::with_capacity(driver.info().tx_descriptors),
            pieces: Vec::new(),
            unasked: 0,
            armed: false,
            counts: TransmitterCounts::default(),
        })
    }

    /// Hands a packet to the device and rings its doorbell; `false`, and nothing done, if the device has no
    /// room. Without interrupts of completed transfers it first asks, as the strategy says, what has been
    /// sent, and gives that to `sent` with the time that it was in the driver.
    #[inline]
    pub fn send(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut impl CostClock,
        packet: Packet<'_>,
        sent: &mut dyn FnMut(u32, Span),
    ) -> Result<bool, DriverError> {
        if self.asks_first(driver, packet) {
            self.reclaim(driver, hw, clock, sent)?;
        }
        if self.lacks_auto(packet) {
            self.auto = Some(Auto::new(packet.pieces, self.completer.watches()));
        }
        let choice = self.choose(packet);
        if let (Some(auto), Some(areas)) = (&mut self.auto, &self.areas) {
            auto.learn(areas, hw.memory, clock)?;
        }
        let pieces = match self.options.bounce {
            Bounce::Dummy => 2,
            _ => packet.pieces.len() - choice.copied.saturating_sub(1),
        };
        // Before anything is copied: an area may still be the device's if it has no room.
        if pieces > driver.tx_room() {
            if let Some(auto) = &mut self.auto {
                auto.waits(clock.now());
            }
            return Ok(false);
        }
        let at = clock.now();
        let measures = self.auto.as_ref().is_some_and(Auto::measures);
        let bounced = self.bounce(hw, packet, choice.copied)?;
        let aligned = self.align(hw, packet, bounced > 0)?;
        let copied = bounced + aligned;
        if copied > 0 {
            clock.spend(Work::Copy { bytes: copied as usize });
        }
        let copied_at = if measures { clock.now() } else { at };
        let pieces = if copied > 0 { &self.pieces[..] } else { packet.pieces };
        clock.spend(Work::Describe { pieces: pieces.len() });
        if !driver
            .transmit(hw, TxFrame { pieces, token: packet.token, segments: packet.segments })?
        {
            return Ok(false);
        }
        driver.kick(hw)?;
        let count = pieces.len();
        if let (Some(auto), Some(areas)) = (&mut self.auto, &self.areas) {
            auto.resume(at);
            if measures {
                let describing = clock.now().since(copied_at);
                auto.measured(choice, bounced, copied_at.since(at), count, describing);
            }
            auto.handed(choice, packet.pieces, at, self.flights.len());
            auto.refresh_estimate(areas, hw.memory, clock)?;
        }
        self.completer.transmitted(at);
        self.unasked += 1;
        self.counts.packets += 1;
        self.counts.transfers += count as u64;
        self.counts.bounced_packets += u64::from(bounced > 0);
        self.counts.bounced_bytes += u64::from(bounced);
        self.counts.aligned_bytes += u64::from(aligned);
        let (token, bytes) = (packet.token, choice.bytes);
        self.flights.push_back(InFlight { token, at, pieces: count as u32, bytes });
        Ok(true)
    }

    /// Whether the device is asked before this packet what it has sent.
    #[inline]
    fn asks_first(&self, driver: &dyn NicDriver, packet: Packet<'_>) -> bool {
        let completer = &self.completer;
        if completer.asks_before_transmit(self.unasked) {
            return true;
        }
        let (oldest, newest) = (self.flights.front(), self.flights.back());
        let waits_long = oldest
            .zip(newest)
            .is_some_and(|(oldest, newest)| newest.at.since(oldest.at) >= LONGEST_UNASKED);
        let has_room = packet.pieces.len().max(LEAST_PIECES) <= driver.tx_room();
        !completer.interrupts() && (waits_long || !has_room)
    }

    /// Whether there is something to choose for the first time. Who sends nothing but single pieces never
    /// pays for measuring.
    #[inline]
    fn lacks_auto(&self, packet: Packet<'_>) -> bool {
        self.options.bounce == Bounce::Auto && self.auto.is_none() && packet.pieces.len() > 1
    }

    /// How many pieces of a packet are copied together.
    #[inline]
    fn choose(&mut self, packet: Packet<'_>) -> Choice {
        let copied = match self.options.bounce {
            Bounce::None | Bounce::Dummy => 0,
            // The header is a piece of its own, before the buffers.
            Bounce::First(buffers) => packet.pieces.len().min(1 + buffers as usize),
            Bounce::All => packet.pieces.len(),
            Bounce::Auto => {
                return match &mut self.auto {
                    Some(auto) => auto.choose(packet.pieces),
                    None => Choice::of_one_piece(packet.pieces),
                };
            }
        };
        // One piece is contiguous as it is.
        Choice::of(if copied > 1 { copied } else { 0 })
    }

    /// Copies what goes through the bounce buffer; how many bytes.
    #[inline]
    fn bounce(
        &mut self,
        hw: &Hardware<'_>,
        packet: Packet<'_>,
        copied: usize,
    ) -> Result<u32, DriverError> {
        let Some(areas) = &mut self.areas else { return Ok(0) };
        if self.options.bounce == Bounce::Dummy {
            return areas.without_contents(hw.memory, packet.pieces, &mut self.pieces);
        }
        if copied == 0 {
            return Ok(0);
        }
        areas.gather(hw.memory, packet.pieces, copied, &mut self.pieces)
    }

    /// Copies what does not begin where the device's DMA can begin; how many bytes.
    #[inline]
    fn align(
        &mut self,
        hw: &Hardware<'_>,
        packet: Packet<'_>,
        bounced: bool,
    ) -> Result<u32, DriverError> {
        let alignment = self.options.alignment_bytes;
        let Some(areas) = self.areas.as_mut().filter(|_| alignment > 1) else { return Ok(0) };
        if !bounced {
            self.pieces.clear();
            self.pieces.extend_from_slice(packet.pieces);
        }
        areas.align(hw.memory, alignment, bounced, &mut self.pieces)
    }

    /// An interrupt has come: acknowledges it, and frees what has been sent.
    pub fn interrupted(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut impl CostClock,
        sent: &mut dyn FnMut(u32, Span),
    ) -> Result<(), DriverError> {
        if let Some(auto) = &mut self.auto {
            auto.resume(clock.now());
        }
        // First of all, so that what is completed during the handler interrupts again.
        if std::mem::take(&mut self.armed) {
            driver.on_interrupt(hw, VECTOR)?;
        } else {
            driver.acknowledge(hw, VECTOR)?;
        }
        clock.spend(Work::Interrupt);
        self.reclaim(driver, hw, clock, sent)?;
        Ok(())
    }

    /// The send buffer has so much free space of so much in all: switches interrupts on or off.
    #[inline]
    pub fn room(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut impl CostClock,
        free_bytes: u64,
        all_bytes: u64,
    ) -> Result<(), DriverError> {
        let before = self.completer.interrupts();
        let now = if self.completer.watches() {
            let ring = (driver.tx_room() as u64, driver.info().tx_descriptors as u64);
            self.completer.resources(clock.now(), (free_bytes, all_bytes), ring)
        } else {
            self.completer.room(free_bytes, all_bytes)
        };
        if now != before {
            self.counts.switches += 1;
            driver.transmit_interrupts(hw, now)?;
        }
        Ok(())
    }

    /// The processor had nothing to do for so long.
    #[inline]
    pub fn idled(&mut self, span: Span) {
        self.completer.idled(span);
    }

    /// The receive side has taken packets: asks the device on this occasion what it has sent, if the strategy does;
    /// how many packets.
    #[inline]
    pub fn received(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut impl CostClock,
        sent: &mut dyn FnMut(u32, Span),
    ) -> Result<usize, DriverError> {
        let now = clock.now();
        let held = self.oldest().map_or(Span::ZERO, |oldest| now.since(oldest));
        if !self.completer.asks_with_receive(now, self.flights.len(), held) {
            return Ok(0);
        }
        self.reclaim(driver, hw, clock, sent)
    }

    /// Before a sleep: arms the device and asks it once more what it has sent; how many packets. If none,
    /// the next completed packet interrupts.
    pub fn last_look(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut impl CostClock,
        sent: &mut dyn FnMut(u32, Span),
    ) -> Result<usize, DriverError> {
        driver.arm(hw)?;
        let found = self.reclaim(driver, hw, clock, sent)?;
        self.armed = found == 0;
        if found > 0 {
            driver.disarm(hw)?;
        } else if let Some(auto) = &mut self.auto {
            auto.waits(clock.now());
        }
        Ok(found)
    }

    /// Asks the device what it has sent, whatever the strategy; how many packets.
    #[inline]
    pub fn reclaim(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut impl CostClock,
        sent: &mut dyn FnMut(u32, Span),
    ) -> Result<usize, DriverError> {
        if self.flights.is_empty() {
            return Ok(0);
        }
        self.counts.asked += 1;
        let begun = self.auto.as_ref().filter(|auto| auto.watches()).map(|_| clock.now());
        let flights = &mut self.flights;
        let (mut last, mut amount, mut astray) = (None, Amount::default(), None);
        self.unasked = 0;
        let packets = driver.reclaim(hw, &mut |token| {
            let now = last.unwrap_or_else(|| clock.now());
            match flights.pop_front() {
                Some(flight) if flight.token == token => {
                    last = Some(now);
                    amount.add(flight.pieces.into(), flight.bytes);
                    sent(token, now.since(flight.at));
                }
                other => astray = Some((token, other.map(|flight| flight.token))),
            }
        })?;
        clock.spend(Work::Reclaim { packets });
        if let (Some(auto), Some(begun)) = (&mut self.auto, begun) {
            auto.asked(clock.now().since(begun));
        }
        if let (Some(auto), Some(now)) = (&mut self.auto, last) {
            auto.completed(now, packets, self.flights.len(), amount);
        }
        match astray {
            None => Ok(packets),
            Some((token, expected)) => Err(DriverError::Invalid(format!(
                "the driver gave packet {token} back, and {expected:?} was the next"
            ))),
        }
    }

    /// Whether somebody who has armed the device ([`last_look`](Self::last_look)) is interrupted by the next
    /// completed packet: without that, nobody may wait for one.
    pub fn will_be_interrupted(&self) -> bool {
        self.completer.may_wait()
    }

    /// Packets that the device has.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// The time at which the oldest of them was handed over.
    pub fn oldest(&self) -> Option<Time> {
        self.flights.front().map(|flight| flight.at)
    }

    /// Counts since the start.
    pub fn counts(&self) -> TransmitterCounts {
        self.counts
    }

    /// The options that it was made with.
    pub fn options(&self) -> &TransmitterOptions {
        &self.options
    }
}
