//! A card for packet over SONET at OC-48c: 2.4 Gbit/s, packets of up to 64 KB, descriptors in a FIFO
//! on the card. Its data sheet is docs/oc48.md; with another line rate and MTU it resembles cards of
//! 10 Gbit/s and more.

mod fifo;
pub mod regs;
mod rx;
mod tx;

use warikomi_pci::{BarKind, Capability, ConfigSpace, Identity, Width};

use self::regs::Part;
use self::rx::Receiver;
use self::tx::Transmitter;
use crate::bus::Bus;
use crate::queue::{Causes, Engine, Line};
use crate::{
    Frame, Link, ModelInfo, NicContext, NicModel, Reception, ResetKind, RxCounters, RxFault,
};
use warikomi_wire::HEADER_BYTES;
use warikomi_wire::bytes_time;

/// What its line carries, in bits a second.
pub const LINE_BPS: u64 = 2_400_000_000;
/// The longest IP packet in bytes.
pub const MTU: u32 = 65_535;
/// The bus that it is on unless another is asked for.
pub const USUAL_BUS: &str = "pci-64-66";

/// Memory on the card for packets that wait for the line.
const MEMORY_BYTES: usize = 256 << 10;

/// The model's description.
pub static INFO: ModelInfo = ModelInfo {
    name: "oc48",
    summary: "OC-48c card (PCI, descriptors in a FIFO on the card, packets of up to 64 KB, MSI)",
    linux_drivers: &[],
    register_bar: regs::BAR,
    rx_queues: 1,
    max_frame_bytes: MTU as usize + HEADER_BYTES,
    registers: regs::REGISTERS,
};

// Tags of the timers.
const TIMER_TX: u32 = 0;
const TIMER_LATE: u32 = 1;
/// Of an alarm that is never set: no interrupt is moderated.
const TIMER_MODERATION: u32 = 2;

/// The model.
pub struct Oc48 {
    bus: Option<Bus>,
    line_bps: u64,
    mtu: u32,
    intr: Causes<0>,
    tx: Transmitter,
    rx: Receiver,
    /// The cable is in.
    link: bool,
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
            intr: Causes::new(regs::VECTOR, regs::INTR_ALL, [], TIMER_MODERATION),
            tx: Transmitter::new(engine, max_frame_bytes),
            rx: Receiver::new(max_frame_bytes),
            link: true,
        }
    }

    fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
        self.tx.reset();
        self.rx.reset(cx);
        self.intr.reset(cx);
    }

    fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let link = self.link;
        let before = std::mem::replace(self, Oc48::new(self.bus, self.line_bps, self.mtu));
        self.rx.queue.keep_counters(&before.rx.queue);
        self.link = link;
    }

    /// A DMA transfer failed: nothing goes on before RESET.
    fn system_error(&mut self, cx: &mut NicContext<'_>) {
        self.tx.engine.halt();
        self.rx.queue.halt();
        self.intr.report(cx, regs::SYS_ERROR);
    }

    fn control(&self) -> u32 {
        let bit = |on, bit| if on { bit } else { 0 };
        bit(self.tx.engine.is_enabled(), regs::TX_ENABLE)
            | bit(self.rx.queue.is_enabled(), regs::RX_ENABLE)
    }

    fn set_control(&mut self, cx: &mut NicContext<'_>, control: u32) {
        if control & regs::RESET != 0 {
            return self.soft_reset(cx);
        }
        self.tx.enable(cx, control & regs::TX_ENABLE != 0);
        self.rx.queue.enable(cx, control & regs::RX_ENABLE != 0);
    }

    /// What a register that can be read holds.
    fn value(&self, row: u16) -> u64 {
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

impl NicModel for Oc48 {
    fn info(&self) -> &'static ModelInfo {
        &INFO
    }

    fn config_space(&self) -> ConfigSpace {
        let identity = Identity {
            vendor: 0x1234,
            device: 0x0c48,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: 0x1234,
            subsystem: 0x0c48,
        };
        ConfigSpace::builder(identity)
            .bar(regs::BAR, BarKind::Memory64, 4_096)
            .capability_at(0x50, Capability::msi(1, false))
            .build()
    }

    #[inline]
    fn reg_read(&mut self, _cx: &mut NicContext<'_>, _bar: u8, offset: u64, width: Width) -> u64 {
        Part::at(offset, width).map_or(0, |part| part.of(self.value(part.row.offset)))
    }

    #[inline]
    fn reg_write(
        &mut self,
        cx: &mut NicContext<'_>,
        _bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) {
        let Some(part) = Part::at(offset, width) else { return };
        let word = value as u32;
        match part.row.offset {
            regs::CONTROL => self.set_control(cx, word),
            regs::INTR_STATUS => self.intr.acknowledge(cx, word),
            regs::INTR_MASK => self.intr.set_mask(cx, word),
            regs::TX_ADDRESS => {
                let fifo = self.tx.fifo_mut();
                fifo.address = part.merged(fifo.address, value);
            }
            regs::TX_PUSH => self.push_transmit(cx, word),
            regs::RX_ADDRESS => {
                let fifo = &mut self.rx.queue.format.fifo;
                fifo.address = part.merged(fifo.address, value);
            }
            regs::RX_PUSH => self.rx.push(cx, word),
            regs::RX_RING => self.rx.set_ring(cx, part.merged(self.rx.ring(), value)),
            _ => {}
        }
    }

    #[inline]
    fn frame_rx(&mut self, cx: &mut NicContext<'_>, frame: Frame<'_>) -> Reception {
        Reception::first(self.receive(cx, frame, None))
    }

    fn frame_rx_faulty(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: RxFault,
    ) -> Reception {
        Reception::first(self.receive(cx, frame, Some(fault)))
    }

    fn timer(&mut self, cx: &mut NicContext<'_>, tag: u32) {
        match tag {
            TIMER_TX => self.complete_transfers(cx),
            TIMER_LATE => self.complete_late(cx),
            _ => {}
        }
    }

    fn reset(&mut self, cx: &mut NicContext<'_>, kind: ResetKind) {
        match kind {
            ResetKind::PowerOn => self.power_on(cx),
            ResetKind::Soft => self.soft_reset(cx),
        }
    }

    fn set_link(&mut self, cx: &mut NicContext<'_>, link: Link) {
        let up = link != Link::Down;
        if up != self.link {
            self.link = up;
            self.intr.report(cx, regs::LINK_CHANGED);
        }
    }

    fn rx_progress(&mut self, cx: &mut NicContext<'_>, _queue: u16, limit: usize) -> RxCounters {
        self.rx.queue.progress(cx, limit)
    }

    fn receiving(&self) -> bool {
        self.rx.queue.is_open() && self.link && self.intr.is_asked_for()
    }

    fn mac_address(&self) -> [u8; 6] {
        regs::station()
    }

    fn rx_free(&mut self, cx: &mut NicContext<'_>, _queue: u16, limit: usize) -> usize {
        self.rx.queue.free(cx, limit)
    }
}
