//! What the card consists of, how it is reset, and what its registers hold.

use warikomi_wire::HEADER_BYTES;

use super::card::Card;
use super::rx_queue::Receiver;
use super::tx_queue::Transmitter;
use super::{regs, timers};
use crate::NicContext;
use crate::bus::Bus;
use crate::queue::{Causes, Engine, Line};

/// Memory on the card for packets that wait for the line.
const MEMORY_BYTES: usize = 256 << 10;

/// The model.
pub struct DescriptorFifo {
    pub(super) card: &'static Card,
    bus: Option<Bus>,
    line_bps: u64,
    mtu: u32,
    pub(super) intr: Causes<0>,
    pub(super) tx: Transmitter,
    pub(super) rx: Receiver,
    /// The cable is in.
    pub(super) link: bool,
}

impl DescriptorFifo {
    /// A card that has just been powered on, with its cable in, on this bus, with a line rate and an MTU of its
    /// own unless others are given. Without a bus, transfers take no time; still none is completed within the
    /// register write that asks for it.
    pub fn new(
        card: &'static Card,
        bus: Option<Bus>,
        line_bps: Option<u64>,
        mtu: Option<u32>,
    ) -> Self {
        let sheet = &card.sheet;
        let (line_bps, mtu) = (line_bps.unwrap_or(sheet.line_bps), mtu.unwrap_or(sheet.mtu));
        let line = Line { bits_per_second: line_bps, frame_time: sheet.framing.time() };
        let engine = Engine::new(bus, Some(line), MEMORY_BYTES);
        let max_frame_bytes = mtu as usize + HEADER_BYTES;
        DescriptorFifo {
            card,
            bus,
            line_bps,
            mtu,
            intr: Causes::new(regs::VECTOR, regs::INTR_ALL, [], timers::MODERATION),
            tx: Transmitter::new(engine, max_frame_bytes, sheet.segments),
            rx: Receiver::new(max_frame_bytes),
            link: true,
        }
    }

    pub(super) fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
        self.tx.reset();
        self.rx.reset(cx);
        self.intr.reset(cx);
    }

    pub(super) fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let link = self.link;
        let new = DescriptorFifo::new(self.card, self.bus, Some(self.line_bps), Some(self.mtu));
        let before = std::mem::replace(self, new);
        self.rx.queue.keep_counters(&before.rx.queue);
        self.link = link;
    }

    /// A DMA transfer failed: nothing goes on before RESET.
    pub(super) fn system_error(&mut self, cx: &mut NicContext<'_>) {
        self.tx.engine.halt();
        self.rx.queue.halt();
        self.intr.report(cx, regs::SYS_ERROR);
    }

    fn control(&self) -> u32 {
        let bit = |on, bit| if on { bit } else { 0 };
        bit(self.tx.engine.is_enabled(), regs::TX_ENABLE)
            | bit(self.rx.queue.is_enabled(), regs::RX_ENABLE)
    }

    pub(super) fn set_control(&mut self, cx: &mut NicContext<'_>, control: u32) {
        if control & regs::RESET != 0 {
            return self.soft_reset(cx);
        }
        self.tx.enable(cx, control & regs::TX_ENABLE != 0);
        self.rx.queue.enable(cx, control & regs::RX_ENABLE != 0);
    }

    /// What a register that can be read holds.
    pub(super) fn value(&self, row: u16) -> u64 {
        match row {
            regs::ID => u32::from_le_bytes(self.card.sheet.id).into(),
            regs::CONTROL => self.control().into(),
            regs::LINK => self.link.into(),
            regs::LINE_MBPS => self.line_bps / 1_000_000,
            regs::INTR_STATUS => self.intr.status().into(),
            regs::INTR_MASK => self.intr.mask().into(),
            regs::MTU => self.mtu.into(),
            regs::MAC => regs::STATION,
            regs::TX_SIZE | regs::RX_SIZE => regs::FIFO as u64,
            regs::TX_REMAINING => self.tx.remaining() as u64,
            regs::RX_REMAINING => self.rx.remaining() as u64,
            regs::RX_RING => self.rx.ring(),
            _ => 0,
        }
    }
}
