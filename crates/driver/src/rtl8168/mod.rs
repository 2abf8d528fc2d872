//! Realtek RTL8168C, driven as Linux's r8169 drives it (drivers/net/ethernet/realtek/r8169_main.c of
//! Linux 6.12; functions are named where their order is followed).
//!
//! A register read costs a round trip, a write costs next to nothing. So the interrupt handler only
//! writes: it acknowledges the receive and transmit bits unseen, which is right because whoever is
//! interrupted looks at the rings anyway. The bits that must be seen (SYSErr, LinkChg) are left
//! standing, and are read where the driver reads in any case: when it arms the interrupt, with one
//! access of four bytes for mask and status. A bit that stands while armed holds the level up, and no
//! new message comes; so it is cleared, and looked at again, before `arm` returns.

mod live;
mod regs;
mod rx;
mod tx;

use warikomi_pci::{Mmio, Width};

use self::rx::Receiver;
use self::tx::Transmitter;
use crate::access::{PATIENCE, cut_off, enable, wait_until, write8, write16, write32};
use crate::state::{Held, Predecessor, Shown, StateArea};
use crate::{Causes, DriverError, DriverInfo, Hardware, Link, NicDriver, RxSink, TxFrame};

/// The driver's description.
pub static INFO: DriverInfo = DriverInfo {
    name: "rtl8168",
    summary: "Realtek RTL8168C (one ring each way, one message interrupt, checksums)",
    devices: &[(0x10ec, 0x8168)],
    rx_descriptors: rx::MOST_DESCRIPTORS,
    tx_descriptors: tx::DESCRIPTORS,
    ring_bytes: COUNTERS_OFFSET as usize + 4_096,
    max_buffer_bytes: rx::MAX_BUFFER_BYTES as usize,
    max_frame_bytes: tx::MAX_FRAME_BYTES,
    most_segment_bytes: regs::MSS_MAX as u16,
    vectors: 1,
    live: true,
};

const TX_RING_OFFSET: u64 = rx::MOST_DESCRIPTORS as u64 * regs::DESCRIPTOR_BYTES;
const COUNTERS_OFFSET: u64 = TX_RING_OFFSET + tx::DESCRIPTORS as u64 * regs::DESCRIPTOR_BYTES;
/// Rings begin at multiples of this, and so do the counters' addresses of a quarter of it.
const RING_ALIGNMENT: u64 = 256;

/// Bits that are acknowledged unseen: all that make somebody look at a ring.
const ROUTINE: u16 = !(regs::SYS_ERR | regs::LINK_CHG);
/// What interrupts a receiver (rtl_set_irq_mask). RxOverflow does not: where there is no descriptor,
/// it is not the driver that lacks work.
const RECEIVE_MASK: u16 = regs::RX_OK | regs::RX_ERR | regs::LINK_CHG | regs::SYS_ERR;
const TRANSMIT_MASK: u16 = regs::TX_OK | regs::TX_ERR;

/// What the device has counted, from its own registers (struct rtl8169_counters, the fields that all
/// chips have).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames sent.
    pub tx_packets: u64,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
    /// Frames received with an error.
    pub rx_errors: u32,
    /// Frames for which there was no descriptor.
    pub rx_missed: u16,
}

/// The driver.
#[derive(Debug, Default)]
pub struct Rtl8168 {
    mac_address: [u8; 6],
    counters_address: u64,
    rx: Receiver,
    tx: Transmitter,
    /// For a successor, and what had been shown when this driver began.
    state: Option<(StateArea, Shown)>,
    /// The link has changed since it was last told.
    link_changed: bool,
    /// The whole mask is on, until somebody masks again.
    armed: bool,
    /// Completed transmissions interrupt even while nobody is about to sleep.
    transmit_interrupts: bool,
}

impl Rtl8168 {
    /// A driver that has no device yet.
    pub fn new() -> Self {
        Rtl8168::default()
    }

    /// The device's own counters.
    pub fn statistics(&mut self, hw: &mut Hardware<'_>) -> Result<Statistics, DriverError> {
        let (low, high) = (self.counters_address as u32, (self.counters_address >> 32) as u32);
        let command = low | regs::COUNTER_DUMP;
        write32(hw.mmio, regs::COUNTER_ADDR_HIGH, high)?;
        write32(hw.mmio, regs::COUNTER_ADDR_LOW, command)?;
        let at = regs::COUNTER_ADDR_LOW;
        wait_until(hw.mmio, "writing its counters", at, Width::B4, |value| {
            value & u64::from(regs::COUNTER_DUMP) == 0
        })?;
        let mut dump = [0; 30];
        hw.memory.read(self.counters_address, &mut dump)?;
        let field = |at: usize, bytes: usize| {
            dump[at..at + bytes].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        Ok(Statistics {
            tx_packets: field(0, 8),
            rx_packets: field(8, 8),
            tx_errors: field(16, 8),
            rx_errors: field(24, 4) as u32,
            rx_missed: field(28, 2) as u16,
        })
    }

    /// rtl_hw_start for RTL_GIGA_MAC_VER_19, without what concerns the power supply.
    fn start(
        &mut self,
        mmio: &mut dyn Mmio,
        rx_ring: u64,
        tx_ring: u64,
    ) -> Result<(), DriverError> {
        write8(mmio, regs::CFG9346, regs::CFG9346_UNLOCK)?;
        write16(mmio, regs::CPLUS_CMD, regs::RX_CHK_SUM)?;
        write8(mmio, regs::MAX_TX_PACKET_SIZE, regs::TX_PACKET_UNITS)?;
        write16(mmio, regs::INTR_MITIGATE, 0)?;
        write16(mmio, regs::RX_MAX_SIZE, regs::NO_RX_LIMIT)?;
        write32(mmio, regs::TX_DESC_START_ADDR_HIGH, (tx_ring >> 32) as u32)?;
        write32(mmio, regs::TX_DESC_START_ADDR_LOW, tx_ring as u32)?;
        write32(mmio, regs::RX_DESC_ADDR_HIGH, (rx_ring >> 32) as u32)?;
        write32(mmio, regs::RX_DESC_ADDR_LOW, rx_ring as u32)?;
        for (register, bit) in [(regs::CONFIG3, regs::JUMBO_EN0), (regs::CONFIG4, regs::JUMBO_EN1)]
        {
            let value = mmio.read(register, Width::B1)? as u8;
            write8(mmio, register, value | bit)?;
        }
        write8(mmio, regs::CFG9346, regs::CFG9346_LOCK)?;
        let enabled = regs::CMD_TX_ENB | regs::CMD_RX_ENB;
        write8(mmio, regs::CHIP_CMD, enabled)?;
        write32(mmio, regs::TX_CONFIG, regs::TX_CONFIG_VALUE)?;
        write32(mmio, regs::MAR0, u32::MAX)?;
        write32(mmio, regs::MAR0 + 4, u32::MAX)?;
        let accept = regs::ACCEPT_BROADCAST | regs::ACCEPT_MULTICAST | regs::ACCEPT_MY_PHYS;
        let transfers = regs::RX128_INT_EN | regs::RX_MULTI_EN | regs::RX_DMA_BURST;
        write32(mmio, regs::RX_CONFIG, transfers | accept)?;
        // Reading makes sure that all of it has been taken.
        let running = mmio.read(regs::CHIP_CMD, Width::B1)? as u8;
        if running & enabled != enabled {
            return Err(DriverError::TimedOut { what: "switching receiver and transmitter on" });
        }
        Ok(())
    }

    /// Masks and acknowledges everything (rtl8169_irq_mask_and_ack), and resets (rtl_hw_reset).
    fn reset(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        write16(mmio, regs::INTR_MASK, 0)?;
        write16(mmio, regs::INTR_STATUS, u16::MAX)?;
        write8(mmio, regs::CHIP_CMD, regs::CMD_RESET)?;
        wait_until(mmio, "its reset", regs::CHIP_CMD, Width::B1, |value| {
            value & u64::from(regs::CMD_RESET) == 0
        })
    }

    /// rtl8169_cleanup.
    fn stop(&mut self, mmio: &mut dyn Mmio) -> Result<(), DriverError> {
        write16(mmio, regs::INTR_MASK, 0)?;
        write32(mmio, regs::RX_CONFIG, 0)?;
        write8(mmio, regs::CHIP_CMD, regs::STOP_REQ)?;
        self.reset(mmio)
    }

    /// What may interrupt at present.
    #[inline]
    fn mask(&self) -> u16 {
        let receive = if self.armed { RECEIVE_MASK } else { 0 };
        let transmit = self.transmit_interrupts || self.armed && self.tx.outstanding();
        receive | if transmit { TRANSMIT_MASK } else { 0 }
    }

    /// Takes note of the bits that are not acknowledged unseen. Whether there was any.
    fn look_at(&mut self, mmio: &mut dyn Mmio, status: u16) -> Result<bool, DriverError> {
        if status & regs::SYS_ERR != 0 {
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

impl NicDriver for Rtl8168 {
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
        let descriptors = buffers.min(rx::MOST_DESCRIPTORS);
        if descriptors == 0 || !rings.is_multiple_of(RING_ALIGNMENT) {
            return Err(DriverError::Invalid(format!(
                "{buffers} receive buffers with rings at {rings:#x}: there must be one at least, and \
                 rings begin at a multiple of {RING_ALIGNMENT}"
            )));
        }
        self.forget_state();
        enable(hw.mmio, &INFO)?;
        self.reset(hw.mmio)?;
        let [a, b, c, d] = (hw.mmio.read(regs::MAC0, Width::B4)? as u32).to_le_bytes();
        let [e, f] = (hw.mmio.read(regs::MAC4, Width::B2)? as u16).to_le_bytes();
        self.mac_address = [a, b, c, d, e, f];
        self.counters_address = rings + COUNTERS_OFFSET;
        (self.link_changed, self.armed, self.transmit_interrupts) = (true, false, false);
        let tx_ring = rings + TX_RING_OFFSET;
        let (rx_slots, tx_slots) = self.new_slots(descriptors);
        self.rx.set_up(hw.memory, rings, descriptors, rx_slots)?;
        self.tx.set_up(hw.memory, tx_ring, tx_slots)?;
        let started = match self.rx.refill(hw.memory, sink) {
            Ok(()) => self.start(hw.mmio, rings, tx_ring),
            Err(error) => Err(error),
        };
        match &started {
            Ok(()) => self.write_settings(rings, descriptors),
            Err(_) => drop(self.quiesce(hw, sink, &mut |_| ())),
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

    #[inline]
    fn disarm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.armed = false;
        write16(hw.mmio, regs::INTR_MASK, self.mask())
    }

    #[inline]
    fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        self.rx.poll(hw.memory, budget, sink)
    }

    #[inline]
    fn transmit(&mut self, hw: &mut Hardware<'_>, frame: TxFrame<'_>) -> Result<bool, DriverError> {
        self.tx.put(hw.memory, frame)
    }

    #[inline]
    fn kick(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        if self.tx.ring_bell() { write8(hw.mmio, regs::TX_POLL, regs::NPQ) } else { Ok(()) }
    }

    #[inline]
    fn reclaim(
        &mut self,
        hw: &mut Hardware<'_>,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        self.tx.reclaim(hw.memory, sent)
    }

    fn transmit_interrupts(&mut self, hw: &mut Hardware<'_>, on: bool) -> Result<(), DriverError> {
        self.transmit_interrupts = on;
        if on {
            write16(hw.mmio, regs::INTR_STATUS, TRANSMIT_MASK)?;
        }
        write16(hw.mmio, regs::INTR_MASK, self.mask())
    }

    #[inline]
    fn tx_room(&self) -> usize {
        self.tx.room()
    }

    fn link(&mut self, hw: &mut Hardware<'_>) -> Result<Link, DriverError> {
        let status = hw.mmio.read(regs::INTR_STATUS, Width::B2)? as u16;
        self.look_at(hw.mmio, status)?;
        self.link_changed = false;
        let phy = hw.mmio.read(regs::PHY_STATUS, Width::B1)? as u8;
        let mbps = [(regs::PHY_1000, 1_000), (regs::PHY_100, 100), (regs::PHY_10, 10)]
            .into_iter()
            .find_map(|(bit, mbps)| (phy & bit != 0).then_some(mbps));
        Ok(match mbps {
            Some(mbps) if phy & regs::PHY_LINK != 0 => Link::Up { mbps },
            _ => Link::Down,
        })
    }

    fn mac_address(&self) -> [u8; 6] {
        self.mac_address
    }

    fn rx_errors(&self) -> u64 {
        self.rx.errors()
    }

    fn keep_state(&mut self, area: StateArea, shown: Shown) -> Result<(), DriverError> {
        self.state = Some((area, shown));
        Ok(())
    }

    fn take_over(
        &mut self,
        hw: &mut Hardware<'_>,
        predecessor: Predecessor,
        shown: Shown,
    ) -> Result<Held, DriverError> {
        self.take_over_rings(hw.memory, predecessor, shown)?;
        write16(hw.mmio, regs::INTR_MASK, 0)?;
        // The predecessor may not have got to it. For a ring that the device is done with it would be one too many.
        if self.tx.is_under_way(hw.memory)? {
            write8(hw.mmio, regs::TX_POLL, regs::NPQ)?;
        }
        Ok(self.held())
    }

    fn rehearse(&mut self, hw: &mut Hardware<'_>, shown: Shown) -> Held {
        let ways = [Predecessor::HandedOver, Predecessor::Died];
        let found = ways.map(|way| self.take_over_rings(hw.memory, way, shown).is_ok());
        let held = if found[1] { self.held() } else { Held::default() };
        // It is out of date. What is found when it counts goes into the same memory, which is near by then.
        (self.rx, self.tx) = Default::default();
        held
    }

    fn hand_over(&mut self, generation: u32) -> Result<(), DriverError> {
        self.write_record(generation)
    }

    fn quiesce(
        &mut self,
        hw: &mut Hardware<'_>,
        sink: &mut dyn RxSink,
        sent: &mut dyn FnMut(u32),
    ) -> Result<(), DriverError> {
        self.forget_state();
        // A reader of the ring sees all that was taken, before it goes away.
        let emptied = self.rx.empty_shown(hw.memory);
        let stopped = self.stop(hw.mmio);
        let cut_off = cut_off(hw.mmio);
        self.rx.give_back(sink);
        self.tx.give_back(sent);
        emptied.and(stopped).and(cut_off)
    }
}
