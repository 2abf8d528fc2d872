//! What the card consists of, how it is reset, and what its registers hold.

use warikomi_wire::{HEADER_BYTES, bytes_time};

use super::rx_queue::Receiver;
use super::tx_queue::Transmitter;
use super::{regs, timers};
use crate::NicContext;
use crate::bus::Bus;
use crate::queue::{Causes, Engine, Line};

/// Memory on the card for packets that wait for the line.
const MEMORY_BYTES: usize = 256 << 10;

/// The model.
pub struct Oc48 {
    bus: Option<Bus>,
    line_bps: u64,
    mtu: u32,
    pub(super) intr: Causes<0>,
    pub(super) tx: Transmitter,
    pub(super) rx: Receiver,
    /// The cable is in.
    pub(super) link: bool,
}

impl Oc48 {
    /// A card that has just been powered on, with its cable in. Without a bus, transfers take no
    /// time; still none is completed within the register write that asks for it.
    pub fn new(bus: Option<Bus>, line_bps: u64, mtu: u32) -> Self {
        let frame_time = |bytes, bps| bytes_time(bytes as u64, bps);
        let line = Line { bits_per_second: line_bps, frame_time };
        let engine = Engine::new(bus, Some(line), MEMORY_BYTES);
        let max_frame_bytes = mtu as usize + HEADER_BYTES;
        Oc48 {
            bus,
            line_bps,
            mtu,
            intr: Causes::new(regs::VECTOR, regs::INTR_ALL, [], timers::MODERATION),
            tx: Transmitter::new(engine, max_frame_bytes),
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
        let before = std::mem::replace(self, Oc48::new(self.bus, self.line_bps, self.mtu));
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
            regs::ID => regs::ID_VALUE.into(),
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
