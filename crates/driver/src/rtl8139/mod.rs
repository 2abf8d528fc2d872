//! Realtek RTL8139C with its ring of bytes and its four transmit slots, driven as Linux's 8139too drives it
//! (drivers/net/ethernet/realtek/8139too.c of Linux 6.12; functions are named where their order is followed).
//!
//! The device reaches only the driver's own memory, below 4 GB: frames are copied from the ring to buffers, and from
//! their pieces to the memory of a slot. A register read costs a round trip, a write costs next to nothing: one read a
//! poll says how far the ring is filled, and one which slots are done.
//!
//! The interrupt handler only writes: it acknowledges the receive and transmit bits unseen, which is right because a
//! driver that is interrupted looks at ring and slots anyway. The bits that must be seen (PCIErr, link change) are left
//! standing, and are read where the driver arms the interrupt. The pin's level stays up while one of them stands, and
//! is not told again; so it is cleared, and looked at again, before `arm` returns.

mod regs;
mod rx;
mod tx;

use warikomi_pci::{Mmio, Width};

use self::rx::Receiver;
use self::tx::Transmitter;
use crate::access::{PATIENCE, cut_off, enable, wait_until, write8, write16, write32};
use crate::{Causes, DriverError, DriverInfo, Hardware, Link, NicDriver, RxSink, TxFrame};

/// The driver's description.
pub static INFO: DriverInfo = DriverInfo {
    name: "rtl8139",
    summary: "Realtek RTL8139C (a ring of bytes, four transmit slots, its interrupt by the pin)",
    devices: &[(0x10ec, 0x8139)],
    rx_descriptors: rx::MOST_BUFFERS,
    tx_descriptors: tx::SLOTS,
    ring_bytes: (rx::RING_ROOM + tx::BUFFERS_BYTES) as usize,
    max_buffer_bytes: rx::MAX_BUFFER_BYTES as usize,
    max_frame_bytes: tx::MAX_FRAME_BYTES,
    most_segment_bytes: 0,
    vectors: 1,
    live: false,
};

/// The ring and the slots' memory begin at multiples of this.
const ALIGNMENT: u64 = 16;

/// Bits that are acknowledged unseen: all that call for a look at the ring or the slots.
const ROUTINE: u16 = !(regs::PCI_ERR | regs::LINK_CHG);
/// What interrupts a receiver. RxOverflow does not: where there is no room, it is not the driver that lacks work.
const RECEIVE_MASK: u16 = regs::RX_OK | regs::RX_ERR | regs::LINK_CHG | regs::PCI_ERR;
const TRANSMIT_MASK: u16 = regs::TX_OK | regs::TX_ERR;

/// The driver.
#[derive(Debug, Default)]
pub struct Rtl8139 {
    mac_address: [u8; 6],
    rx: Receiver,
    tx: Transmitter,
    /// The link has changed since it was last told.
    link_changed: bool,
    /// The whole mask is on, until a handler or `disarm` masks again.
    armed: bool,
    /// Completed transmissions interrupt also when no sleep is ahead.
    transmit_interrupts: bool,
}

impl Rtl8139 {
    /// A driver that has no device yet.
    pub fn new() -> Self {
        Rtl8139::default()
    }

    /// rtl8139_hw_start.
    fn start(&mut self, mmio: &mut dyn Mmio, ring: u64) -> Result<(), DriverError> {
        write8(mmio, regs::CFG9346, regs::CFG9346_UNLOCK)?;
        write32(mmio, regs::RX_BUF, ring as u32)?;
        // Before configurations are written.
        let enabled = regs::CMD_TX_ENB | regs::CMD_RX_ENB;
        write8(mmio, regs::CHIP_CMD, enabled)?;
        write32(mmio, regs::RX_CONFIG, rx::CONFIG)?;
        write32(mmio, regs::TX_CONFIG, regs::TX_CONFIG_VALUE)?;
        let config = mmio.read(regs::CONFIG3, Width::B1)? as u8;
        write8(mmio, regs::CONFIG3, config & !regs::CONFIG3_MAGIC)?;
        write8(mmio, regs::CFG9346, regs::CFG9346_LOCK)?;
        for slot in 0..tx::SLOTS {
            let register = regs::TX_ADDR_0 + 4 * slot as u64;
            write32(mmio, register, self.tx.buffer(slot) as u32)?;
        }
        write32(mmio, regs::RX_MISSED, 0)?;
        write32(mmio, regs::MAR0, u32::MAX)?;
        write32(mmio, regs::MAR0 + 4, u32::MAX)?;
        let multiple = mmio.read(regs::MULTI_INTR, Width::B2)? as u16;
        write16(mmio, regs::MULTI_INTR, multiple & regs::MULTI_INTR_KEPT)?;
        // Reading makes sure that all of it has been taken.
        let running = mmio.read(regs::CHIP_CMD, Width::B1)? as u8;
        if running & enabled != enabled {
            return Err(DriverError::TimedOut { what: "switching receiver and transmitter on" });
        }
        Ok(())
    }

    /// Masks and acknowledges everything, and resets (rtl8139_chip_reset).
    fn reset(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        write16(mmio, regs::INTR_MASK, 0)?;
        write16(mmio, regs::INTR_STATUS, u16::MAX)?;
        write8(mmio, regs::CHIP_CMD, regs::CMD_RESET)?;
        wait_until(mmio, "its reset", regs::CHIP_CMD, Width::B1, |value| {
            value & u64::from(regs::CMD_RESET) == 0
        })
    }

    /// What may interrupt at present.
    fn mask(&self) -> u16 {
        let receive = if self.armed { RECEIVE_MASK } else { 0 };
        let transmit = self.transmit_interrupts || self.armed && self.tx.outstanding();
        receive | if transmit { TRANSMIT_MASK } else { 0 }
    }

    /// Takes note of the bits that are not acknowledged unseen. Whether there was any.
    fn look_at(&mut self, mmio: &mut dyn Mmio, status: u16) -> Result<bool, DriverError> {
        if status & regs::PCI_ERR != 0 {
            return Err(DriverError::Device { status: status.into() });
        }
        let changed = status & regs::LINK_CHG != 0;
        if changed {
            self.link_changed = true;
            // With what came beside it: that would hold the level up, and nothing would interrupt any more.
            write16(mmio, regs::INTR_STATUS, ROUTINE | regs::LINK_CHG)?;
        }
        Ok(changed)
    }
}

impl NicDriver for Rtl8139 {
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
        let end = rings.saturating_add(INFO.ring_bytes as u64);
        let reached = end <= 1 << 32;
        if buffers == 0 || !rings.is_multiple_of(ALIGNMENT) || !reached {
            return Err(DriverError::Invalid(format!(
                "{buffers} receive buffers with the ring at {rings:#x}: there must be one at least, and the ring begins at \
                 a multiple of {ALIGNMENT} below 4 GB, because the device has 32 bits of address"
            )));
        }
        enable(hw.mmio, &INFO)?;
        self.reset(hw.mmio)?;
        let [a, b, c, d] = (hw.mmio.read(regs::MAC0, Width::B4)? as u32).to_le_bytes();
        let [e, f] = (hw.mmio.read(regs::MAC4, Width::B2)? as u16).to_le_bytes();
        self.mac_address = [a, b, c, d, e, f];
        (self.link_changed, self.armed, self.transmit_interrupts) = (true, false, false);
        self.rx.set_up(rings, buffers.min(rx::MOST_BUFFERS));
        self.tx.set_up(rings + rx::RING_ROOM);
        let started = self.rx.refill(sink).and_then(|()| self.start(hw.mmio, rings));
        if started.is_err() {
            let _ = self.quiesce(hw, sink, &mut |_| ());
        }
        started
    }

    fn on_interrupt(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError> {
        self.disarm(hw)?;
        self.acknowledge(hw, vector)
    }

    fn acknowledge(&mut self, hw: &mut Hardware<'_>, _vector: u16) -> Result<Causes, DriverError> {
        write16(hw.mmio, regs::INTR_STATUS, ROUTINE)?;
        let link = std::mem::take(&mut self.link_changed);
        Ok(Causes { receive: true, transmit: self.tx.outstanding(), link })
    }

    fn arm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.armed = true;
        let mask = self.mask();
        write16(hw.mmio, regs::INTR_STATUS, ROUTINE)?;
        write16(hw.mmio, regs::INTR_MASK, mask)?;
        for _ in 0..PATIENCE {
            let both = hw.mmio.read(regs::INTR_MASK, Width::B4)? as u32;
            if both as u16 != mask {
                return Err(DriverError::TimedOut { what: "taking its interrupt mask" });
            }
            if !self.look_at(hw.mmio, (both >> 16) as u16)? {
                return Ok(());
            }
        }
        Err(DriverError::TimedOut { what: "acknowledging a change of the link" })
    }

    fn disarm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.armed = false;
        write16(hw.mmio, regs::INTR_MASK, self.mask())
    }

    fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        self.rx.poll(hw, budget, sink)
    }

    fn transmit(&mut self, hw: &mut Hardware<'_>, frame: TxFrame<'_>) -> Result<bool, DriverError> {
        self.tx.put(hw.memory, frame)
    }

    fn kick(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.tx.ring(hw.mmio)
    }

    fn reclaim(
        &mut self,
        hw: &mut Hardware<'_>,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        self.tx.reclaim(hw.mmio, sent)
    }

    fn tx_room(&self) -> usize {
        self.tx.room()
    }

    fn transmit_interrupts(&mut self, hw: &mut Hardware<'_>, on: bool) -> Result<(), DriverError> {
        self.transmit_interrupts = on;
        if on {
            write16(hw.mmio, regs::INTR_STATUS, TRANSMIT_MASK)?;
        }
        write16(hw.mmio, regs::INTR_MASK, self.mask())
    }

    fn link(&mut self, hw: &mut Hardware<'_>) -> Result<Link, DriverError> {
        let status = hw.mmio.read(regs::INTR_STATUS, Width::B2)? as u16;
        self.look_at(hw.mmio, status)?;
        self.link_changed = false;
        let media = hw.mmio.read(regs::MEDIA_STATUS, Width::B1)? as u8;
        Ok(match media {
            _ if media & regs::MEDIA_NO_LINK != 0 => Link::Down,
            _ if media & regs::MEDIA_10 != 0 => Link::Up { mbps: 10 },
            _ => Link::Up { mbps: 100 },
        })
    }

    fn mac_address(&self) -> [u8; 6] {
        self.mac_address
    }

    fn rx_errors(&self) -> u64 {
        self.rx.errors()
    }

    /// rtl8139_close.
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
