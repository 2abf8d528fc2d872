//! Its driver in user space.
//!
//! Handlers only write; what must be seen is read where the driver arms its interrupts. Both receive
//! queues are polled in turn, so that frames of one queue come in order. Frames are sent on the first
//! transmit queue, so that they go in order, too.

use std::collections::VecDeque;

use warikomi_driver::access::{cut_off, enable, wait_until, write32, write64};
use warikomi_driver::{
    Buffer, Causes, DriverError, DriverInfo, Hardware, Link, NicDriver, Received, RxSink, TxFrame,
};
use warikomi_pci::{Descriptor, DmaMemory, Mmio, Width};

use super::{card, regs};

/// The driver's description.
pub(super) static INFO: DriverInfo = DriverInfo {
    name: "duo",
    summary: "Test card with two queues and two vectors",
    devices: &[(0x1234, 0x0d02)],
    rx_descriptors: RING * regs::QUEUES as usize,
    tx_descriptors: RING,
    ring_bytes: RING_BYTES as usize * 2 * regs::QUEUES as usize,
    max_buffer_bytes: regs::LENGTH as usize,
    max_frame_bytes: card::MAX_FRAME_BYTES,
    most_segment_bytes: 0,
    vectors: regs::QUEUES,
    live: false,
};

const RING: usize = regs::RING as usize;
const RING_BYTES: u64 = RING as u64 * regs::DESCRIPTOR;
const ROUTINE: u32 = regs::RX_DONE | regs::TX_DONE | regs::RX_MISSED;
const FATAL: u32 = regs::SYS_ERROR | regs::TX_ERROR;

/// The speed of the line in Mbit/s.
pub(super) const LINK_MBPS: u32 = 10_000;

/// Of so many buffers, those of the first queue.
pub(super) fn first_share(buffers: usize) -> usize {
    buffers.div_ceil(2)
}

/// A receive ring.
#[derive(Debug, Default)]
struct RxRing {
    base: u64,
    /// The buffers on the ring, the oldest first.
    buffers: VecDeque<Buffer>,
    most: usize,
    next: usize,
}

impl RxRing {
    fn at(&self, index: usize) -> u64 {
        self.base + regs::DESCRIPTOR * (index % RING) as u64
    }

    fn put(&mut self, memory: &dyn DmaMemory, buffer: Buffer) -> Result<(), DriverError> {
        let at = self.at(self.next + self.buffers.len());
        self.buffers.push_back(buffer);
        let [low, high] = [buffer.address as u32, (buffer.address >> 32) as u32];
        let word = regs::OWN | buffer.bytes().min(regs::LENGTH);
        Ok(memory.store_descriptor(at, Descriptor::new([word, 0, low, high]))?)
    }

    /// Takes the oldest frame off the ring: its first word, and the buffer. A word of the device that
    /// makes no sense is an error of the frame.
    fn take(&mut self, memory: &dyn DmaMemory) -> Result<Option<(u32, Buffer)>, DriverError> {
        let Some(&buffer) = self.buffers.front() else { return Ok(None) };
        let at = self.at(self.next);
        let word = memory.load_u32(at)?;
        if word & regs::OWN != 0 {
            return Ok(None);
        }
        memory.store_u32(at, 0)?;
        self.buffers.pop_front();
        self.next = (self.next + 1) % RING;
        Ok(Some((word, buffer)))
    }
}

/// The driver.
#[derive(Debug, Default)]
pub struct DuoDriver {
    mac_address: [u8; 6],
    rx: [RxRing; regs::QUEUES as usize],
    /// The queue whose turn it is.
    turn: usize,
    /// Frames of which only the first parts have come: the rest is passed over.
    passing_over: [bool; regs::QUEUES as usize],
    tx_base: u64,
    /// Descriptors and name of each frame that the device has.
    sent: VecDeque<(usize, u32)>,
    tx_next: usize,
    tx_used: usize,
    unkicked: bool,
    rx_errors: u64,
    armed: bool,
    transmit_interrupts: bool,
    link_changed: bool,
}

impl DuoDriver {
    fn mask(&self, vector: u16) -> u32 {
        let transmit = self.transmit_interrupts || self.armed && !self.sent.is_empty();
        let receive = regs::RX_DONE | if vector == 0 { regs::LINK_CHANGED | FATAL } else { FATAL };
        (if self.armed { receive } else { 0 })
            | if transmit && vector == 0 { regs::TX_DONE } else { 0 }
    }

    fn write_masks(&self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        (0..regs::QUEUES)
            .try_for_each(|vector| write32(mmio, regs::mask(vector), self.mask(vector)))
    }

    /// Takes note of the bits that are not acknowledged unseen. Whether there was a change of the link.
    fn look_at(&mut self, mmio: &mut dyn Mmio, vector: u16) -> Result<bool, DriverError> {
        let status = mmio.read(regs::status(vector), Width::B4)? as u32;
        if status & FATAL != 0 {
            return Err(DriverError::Device { status: status.into() });
        }
        let changed = status & regs::LINK_CHANGED != 0;
        if changed {
            self.link_changed = true;
            // With what came beside it: that would hold the level up, and nothing would interrupt any more.
            write32(mmio, regs::status(vector), ROUTINE | regs::LINK_CHANGED)?;
        }
        Ok(changed)
    }

    fn reset(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        write32(mmio, regs::CONTROL, regs::RESET)?;
        wait_until(mmio, "its reset", regs::CONTROL, Width::B4, |value| value == 0)
    }

    fn start(&mut self, hw: &mut Hardware<'_>, sink: &mut dyn RxSink) -> Result<(), DriverError> {
        for (queue, ring) in (0..).zip(&self.rx) {
            write64(hw.mmio, regs::rx_ring(queue), ring.base)?;
        }
        self.refill(hw.memory, sink)?;
        write64(hw.mmio, regs::tx_ring(0), self.tx_base)?;
        let steer = if self.rx[1].most > 0 { regs::STEER } else { 0 };
        let control = regs::TX_ENABLE | regs::RX_ENABLE | steer;
        write32(hw.mmio, regs::CONTROL, control)?;
        // Reading makes sure that all of it has been taken.
        if hw.mmio.read(regs::CONTROL, Width::B4)? as u32 != control {
            return Err(DriverError::TimedOut { what: "switching receiver and transmitter on" });
        }
        Ok(())
    }

    /// Gives the rings the buffers that there are, always the one that has least.
    fn refill(&mut self, memory: &dyn DmaMemory, sink: &mut dyn RxSink) -> Result<(), DriverError> {
        loop {
            let rings = self.rx.iter_mut().filter(|ring| ring.buffers.len() < ring.most);
            let Some(ring) = rings.min_by_key(|ring| ring.buffers.len()) else { return Ok(()) };
            let Some(buffer) = sink.buffer() else { return Ok(()) };
            ring.put(memory, buffer)?;
        }
    }

    /// One frame of a queue, if there is one.
    fn take(
        &mut self,
        hw: &mut Hardware<'_>,
        queue: usize,
        sink: &mut dyn RxSink,
    ) -> Result<bool, DriverError> {
        while let Some((word, buffer)) = self.rx[queue].take(hw.memory)? {
            let bytes = word & regs::LENGTH;
            let single = regs::FIRST | regs::LAST;
            let whole = word & single == single && !self.passing_over[queue];
            self.passing_over[queue] = word & regs::LAST == 0;
            if whole && word & regs::ERROR == 0 && bytes <= buffer.bytes() {
                let checksums_good = word & regs::CHECKSUMS_GOOD != 0;
                sink.received(buffer, Received { bytes, checksums_good });
                return Ok(true);
            }
            self.rx_errors += u64::from(word & regs::LAST != 0);
            sink.returned(buffer);
        }
        Ok(false)
    }

    fn clear(memory: &dyn DmaMemory, base: u64) -> Result<(), DriverError> {
        let words = (0..RING as u64).map(|index| base + regs::DESCRIPTOR * index);
        Ok(words.into_iter().try_for_each(|at| memory.store_u32(at, 0))?)
    }

    fn check(&self, frame: TxFrame<'_>) -> Result<(), DriverError> {
        let bytes: u64 = frame.pieces.iter().map(|piece| u64::from(piece.1)).sum();
        let empty = frame.pieces.iter().any(|piece| piece.1 == 0);
        let longest = card::MAX_FRAME_BYTES as u64;
        if empty || bytes == 0 || bytes > longest || frame.pieces.len() > RING {
            let pieces = frame.pieces.len();
            return Err(DriverError::Invalid(format!(
                "a frame of {bytes} bytes in {pieces} pieces cannot be sent: 1 to {longest} bytes, in up to \
                 {RING} pieces that are not empty"
            )));
        }
        Ok(())
    }
}

impl NicDriver for DuoDriver {
    fn info(&self) -> &'static DriverInfo {
        &INFO
    }

    fn init(
        &mut self,
        hw: &mut Hardware<'_>,
        rings: u64,
        buffers: usize,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        if buffers == 0 || !rings.is_multiple_of(regs::RING_ALIGNMENT) {
            return Err(DriverError::Invalid(format!(
                "{buffers} receive buffers with rings at {rings:#x}: there must be one at least, and \
                 rings begin at a multiple of {}",
                regs::RING_ALIGNMENT
            )));
        }
        enable(hw.mmio, &INFO)?;
        self.reset(hw.mmio)?;
        let id = hw.mmio.read(regs::ID, Width::B4)? as u32;
        if id != regs::ID_VALUE {
            return Err(DriverError::Invalid(format!("the card says ID {id:#010x}")));
        }
        let [a, b, c, d, e, f, ..] = hw.mmio.read(regs::MAC, Width::B8)?.to_le_bytes();
        let buffers = buffers.min(INFO.rx_descriptors);
        let shares = [first_share(buffers), buffers - first_share(buffers)];
        let bases = [0, 1, 2].map(|ring| rings + ring * RING_BYTES);
        bases.iter().try_for_each(|&base| DuoDriver::clear(hw.memory, base))?;
        let ring =
            |queue: usize| RxRing { base: bases[queue], most: shares[queue], ..RxRing::default() };
        *self = DuoDriver {
            mac_address: [a, b, c, d, e, f],
            rx: [ring(0), ring(1)],
            tx_base: bases[2],
            link_changed: true,
            ..DuoDriver::default()
        };
        let started = self.start(hw, sink);
        if started.is_err() {
            let _ = self.quiesce(hw, sink, &mut |_| ());
        }
        started
    }

    fn on_interrupt(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError> {
        if vector < regs::QUEUES {
            self.armed = false;
            self.write_masks(hw.mmio)?;
        }
        self.acknowledge(hw, vector)
    }

    /// A vector that the card does not have says nothing.
    fn acknowledge(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError> {
        if vector >= regs::QUEUES {
            return Ok(Causes::default());
        }
        write32(hw.mmio, regs::status(vector), ROUTINE)?;
        let link = std::mem::take(&mut self.link_changed);
        Ok(Causes { receive: true, transmit: !self.sent.is_empty(), link })
    }

    fn arm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.armed = true;
        for vector in 0..regs::QUEUES {
            write32(hw.mmio, regs::status(vector), ROUTINE)?;
        }
        self.write_masks(hw.mmio)?;
        for _ in 0..warikomi_driver::access::PATIENCE {
            self.look_at(hw.mmio, 1)?;
            if !self.look_at(hw.mmio, 0)? {
                return Ok(());
            }
        }
        Err(DriverError::TimedOut { what: "acknowledging a change of the link" })
    }

    fn disarm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.armed = false;
        self.write_masks(hw.mmio)
    }

    fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        let (mut found, mut empty) = (0, 0);
        while found < budget && empty < self.rx.len() {
            if self.take(hw, self.turn, sink)? {
                (found, empty) = (found + 1, 0);
            } else {
                empty += 1;
            }
            self.turn = (self.turn + 1) % self.rx.len();
        }
        self.refill(hw.memory, sink)?;
        Ok(found)
    }

    fn transmit(&mut self, hw: &mut Hardware<'_>, frame: TxFrame<'_>) -> Result<bool, DriverError> {
        self.check(frame)?;
        let count = frame.pieces.len();
        if count > self.tx_room() {
            return Ok(false);
        }
        // The first descriptor last, so that the card finds all of the frame or nothing.
        for (index, &(address, bytes)) in frame.pieces.iter().enumerate().rev() {
            let first = if index == 0 { regs::FIRST } else { 0 };
            let last = if index + 1 == count { regs::LAST } else { 0 };
            let at = self.tx_base + regs::DESCRIPTOR * ((self.tx_next + index) % RING) as u64;
            let word = regs::OWN | first | last | bytes;
            let [low, high] = [address as u32, (address >> 32) as u32];
            hw.memory.store_descriptor(at, Descriptor::new([word, 0, low, high]))?;
        }
        self.sent.push_back((count, frame.token));
        (self.tx_next, self.tx_used) = ((self.tx_next + count) % RING, self.tx_used + count);
        self.unkicked = true;
        Ok(true)
    }

    fn kick(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        if !std::mem::take(&mut self.unkicked) {
            return Ok(());
        }
        Ok(hw.mmio.bar_write(regs::DOORBELL_BAR, regs::doorbell(0), Width::B4, 1)?)
    }

    fn reclaim(
        &mut self,
        hw: &mut Hardware<'_>,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        let mut count = 0;
        while let Some(&(pieces, token)) = self.sent.front() {
            // Descriptors come back in order, so the last one stands for all.
            let last = (self.tx_next + RING - self.tx_used + pieces - 1) % RING;
            let word = hw.memory.load_u32(self.tx_base + regs::DESCRIPTOR * last as u64)?;
            if word & regs::OWN != 0 {
                break;
            }
            self.sent.pop_front();
            self.tx_used -= pieces;
            sent(token);
            count += 1;
        }
        Ok(count)
    }

    fn tx_room(&self) -> usize {
        RING - self.tx_used
    }

    fn transmit_interrupts(&mut self, hw: &mut Hardware<'_>, on: bool) -> Result<(), DriverError> {
        self.transmit_interrupts = on;
        if on {
            write32(hw.mmio, regs::status(0), regs::TX_DONE)?;
        }
        self.write_masks(hw.mmio)
    }

    fn link(&mut self, hw: &mut Hardware<'_>) -> Result<Link, DriverError> {
        self.look_at(hw.mmio, 0)?;
        self.link_changed = false;
        let up = hw.mmio.read(regs::LINK, Width::B4)? & 1 != 0;
        Ok(if up { Link::Up { mbps: LINK_MBPS } } else { Link::Down })
    }

    fn mac_address(&self) -> [u8; 6] {
        self.mac_address
    }

    fn rx_errors(&self) -> u64 {
        self.rx_errors
    }

    fn quiesce(
        &mut self,
        hw: &mut Hardware<'_>,
        sink: &mut dyn RxSink,
        sent: &mut dyn FnMut(u32),
    ) -> Result<(), DriverError> {
        let stopped = self.reset(hw.mmio);
        let cut_off = cut_off(hw.mmio);
        for ring in &mut self.rx {
            ring.buffers.drain(..).for_each(|buffer| sink.returned(buffer));
        }
        self.sent.drain(..).for_each(|(_, token)| sent(token));
        (self.tx_used, self.armed) = (0, false);
        stopped.and(cut_off)
    }
}
