//! Cards with a FIFO of descriptors, by their data sheet (docs/descriptor-fifo.md): one driver for [`OC48`], [`OC192`] and
//! [`GE10`].
//!
//! As with other devices, a handler only writes: what makes somebody look at a ring is acknowledged
//! unseen, and what must be seen is read where the driver reads in any case, when it arms the interrupt.

mod card;
mod regs;
mod rx;
mod tx;

use warikomi_pci::{Mmio, Width};

pub use self::card::{Card, GE10, OC48, OC192};
use self::rx::Receiver;
use self::tx::Transmitter;
use crate::access::{PATIENCE, cut_off, enable, wait_until, write32, write64};
use crate::{Causes, DriverError, DriverInfo, Hardware, Link, NicDriver, RxSink, TxFrame};

/// Bits that are acknowledged unseen: all that make somebody look at a ring.
const ROUTINE: u32 = regs::TX_DONE | regs::RX_DONE | regs::RX_MISSED;
/// What a device cannot go on after: its engines stand still, or a frame of ours was lost.
const FATAL: u32 = regs::SYS_ERROR | regs::TX_OVERRUN;
/// What interrupts a receiver. RX_MISSED does not: where there is no buffer, it is not the driver that
/// lacks work.
const RECEIVE_MASK: u32 = regs::RX_DONE | regs::LINK_CHANGED | FATAL;

/// The driver.
#[derive(Debug)]
pub struct DescriptorFifo {
    card: &'static Card,
    mac_address: [u8; 6],
    rx: Receiver,
    tx: Transmitter,
    /// The link has changed since it was last told.
    link_changed: bool,
    /// The whole mask is on, until somebody masks again.
    armed: bool,
    /// Completed transmissions interrupt even while nobody is about to sleep.
    transmit_interrupts: bool,
}

impl DescriptorFifo {
    /// A driver of this card that has no device yet.
    pub fn new(card: &'static Card) -> Self {
        DescriptorFifo {
            card,
            mac_address: [0; 6],
            rx: Receiver::default(),
            tx: Transmitter::default(),
            link_changed: false,
            armed: false,
            transmit_interrupts: false,
        }
    }

    /// What may interrupt at present.
    #[inline]
    fn mask(&self) -> u32 {
        let receive = if self.armed { RECEIVE_MASK } else { 0 };
        let transmit = self.transmit_interrupts || self.armed && self.tx.outstanding();
        receive | if transmit { regs::TX_DONE } else { 0 }
    }

    /// Takes note of the bits that are not acknowledged unseen. Whether there was any.
    fn look_at(&mut self, mmio: &mut dyn Mmio, status: u32) -> Result<bool, DriverError> {
        if status & FATAL != 0 {
            return Err(DriverError::Device { status: status.into() });
        }
        let changed = status & regs::LINK_CHANGED != 0;
        if changed {
            self.link_changed = true;
            // With what came beside it: that would hold the level up, and nothing would interrupt any more.
            write32(mmio, regs::INTR_STATUS, ROUTINE | regs::LINK_CHANGED)?;
        }
        Ok(changed)
    }

    /// What the card is like: its address, and how many descriptors of how long frames it takes.
    fn ask(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        let id = mmio.read(regs::ID, Width::B4)? as u32;
        let capacity = mmio.read(regs::TX_SIZE, Width::B4)? as usize;
        let buffers = mmio.read(regs::RX_SIZE, Width::B4)? as usize;
        let mtu = mmio.read(regs::MTU, Width::B4)? as usize;
        let (expected_id, max_mtu) = (self.card.id, self.card.max_mtu());
        let possible = 1..=max_mtu;
        if id != expected_id || capacity == 0 || buffers < regs::FIFO || !possible.contains(&mtu) {
            return Err(DriverError::Invalid(format!(
                "the card says ID {id:#010x}, FIFOs of {capacity} descriptors and {buffers} buffers, and \
                 an MTU of {mtu} bytes: this driver knows ID {expected_id:#010x}, at least 1 and {}, and up \
                 to {max_mtu}",
                regs::FIFO
            )));
        }
        let [a, b, c, d, e, f, ..] = mmio.read(regs::MAC, Width::B8)?.to_le_bytes();
        self.mac_address = [a, b, c, d, e, f];
        let most_segment_bytes = self.card.info.most_segment_bytes;
        self.tx.set_up(capacity.min(regs::FIFO), mtu + regs::HEADER_BYTES, most_segment_bytes);
        Ok(())
    }

    fn reset(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        write32(mmio, regs::INTR_MASK, 0)?;
        write32(mmio, regs::CONTROL, regs::RESET)?;
        wait_until(mmio, "its reset", regs::CONTROL, Width::B4, |value| {
            value & u64::from(regs::RESET) == 0
        })
    }

    fn start(
        &mut self,
        hw: &mut Hardware<'_>,
        ring: u64,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        write64(hw.mmio, regs::RX_RING, ring)?;
        self.rx.refill(hw.mmio, sink)?;
        let enabled = regs::TX_ENABLE | regs::RX_ENABLE;
        write32(hw.mmio, regs::CONTROL, enabled)?;
        // Reading makes sure that all of it has been taken.
        if hw.mmio.read(regs::CONTROL, Width::B4)? as u32 & enabled != enabled {
            return Err(DriverError::TimedOut { what: "switching receiver and transmitter on" });
        }
        Ok(())
    }
}

impl NicDriver for DescriptorFifo {
    fn info(&self) -> &'static DriverInfo {
        &self.card.info
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
        enable(hw.mmio, &self.card.info)?;
        self.reset(hw.mmio)?;
        self.ask(hw.mmio)?;
        (self.link_changed, self.armed, self.transmit_interrupts) = (true, false, false);
        let most = buffers.min(rx::MOST_BUFFERS);
        self.rx.set_up(hw.memory, rings, most, self.card.info.max_buffer_bytes as u32)?;
        let started = self.start(hw, rings, sink);
        if started.is_err() {
            let _ = self.quiesce(hw, sink, &mut |_| ());
        }
        started
    }

    #[inline]
    fn on_interrupt(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError> {
        self.disarm(hw)?;
        self.acknowledge(hw, vector)
    }

    #[inline]
    fn acknowledge(&mut self, hw: &mut Hardware<'_>, _vector: u16) -> Result<Causes, DriverError> {
        write32(hw.mmio, regs::INTR_STATUS, ROUTINE)?;
        let link = std::mem::take(&mut self.link_changed);
        Ok(Causes { receive: true, transmit: self.tx.outstanding(), link })
    }

    fn arm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.armed = true;
        write32(hw.mmio, regs::INTR_STATUS, ROUTINE)?;
        write32(hw.mmio, regs::INTR_MASK, self.mask())?;
        for _ in 0..PATIENCE {
            let status = hw.mmio.read(regs::INTR_STATUS, Width::B4)? as u32;
            if !self.look_at(hw.mmio, status)? {
                return Ok(());
            }
        }
        Err(DriverError::TimedOut { what: "acknowledging a change of the link" })
    }

    #[inline]
    fn disarm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.armed = false;
        write32(hw.mmio, regs::INTR_MASK, self.mask())
    }

    #[inline]
    fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        self.rx.poll(hw, budget, sink)
    }

    #[inline]
    fn transmit(&mut self, hw: &mut Hardware<'_>, frame: TxFrame<'_>) -> Result<bool, DriverError> {
        self.tx.put(hw.mmio, frame)
    }

    /// A descriptor that was pushed needs no doorbell.
    #[inline]
    fn kick(&mut self, _hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        Ok(())
    }

    #[inline]
    fn reclaim(
        &mut self,
        hw: &mut Hardware<'_>,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        self.tx.reclaim(hw.mmio, sent)
    }

    #[inline]
    fn tx_room(&self) -> usize {
        self.tx.room()
    }

    fn transmit_interrupts(&mut self, hw: &mut Hardware<'_>, on: bool) -> Result<(), DriverError> {
        self.transmit_interrupts = on;
        if on {
            write32(hw.mmio, regs::INTR_STATUS, regs::TX_DONE)?;
        }
        write32(hw.mmio, regs::INTR_MASK, self.mask())
    }

    fn link(&mut self, hw: &mut Hardware<'_>) -> Result<Link, DriverError> {
        let status = hw.mmio.read(regs::INTR_STATUS, Width::B4)? as u32;
        self.look_at(hw.mmio, status)?;
        self.link_changed = false;
        if hw.mmio.read(regs::LINK, Width::B4)? as u32 & regs::LINK_UP == 0 {
            return Ok(Link::Down);
        }
        Ok(Link::Up { mbps: hw.mmio.read(regs::LINE_MBPS, Width::B4)? as u32 })
    }

    fn mac_address(&self) -> [u8; 6] {
        self.mac_address
    }

    fn rx_errors(&self) -> u64 {
        self.rx.errors()
    }

    fn quiesce(
        &mut self,
        hw: &mut Hardware<'_>,
        sink: &mut dyn RxSink,
        sent: &mut dyn FnMut(u32),
    ) -> Result<(), DriverError> {
        let stopped = self.reset(hw.mmio);
        let cut_off = cut_off(hw.mmio);
        self.rx.give_back(sink);
        self.tx.give_back(sent);
        stopped.and(cut_off)
    }
}
