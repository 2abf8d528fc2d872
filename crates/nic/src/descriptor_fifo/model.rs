//! The card as a [`NicModel`]: its identity, and where each call of the machine leads.

use warikomi_pci::{BarKind, Capability, ConfigSpace, Identity, Width};

use super::device::DescriptorFifo;
use super::regs::{self, Part};
use super::timers;
use crate::{
    Frame, Link, ModelInfo, NicContext, NicModel, Reception, ResetKind, RxCounters, RxFault,
};

impl NicModel for DescriptorFifo {
    fn info(&self) -> &'static ModelInfo {
        &self.card.info
    }

    fn config_space(&self) -> ConfigSpace {
        let device = self.card.sheet.device;
        let identity = Identity {
            vendor: 0x1234,
            device,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: 0x1234,
            subsystem: device,
        };
        ConfigSpace::builder(identity)
            .bar(regs::BAR, BarKind::Memory64, 4_096)
            .capability_at(0x50, Capability::msi(1, false))
            .build()
    }

    #[inline]
    fn reg_read(&mut self, _cx: &mut NicContext<'_>, _bar: u8, offset: u64, width: Width) -> u64 {
        Part::at(offset, width).map_or(0, |part| part.of(self.value(part.offset)))
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
        match part.offset {
            regs::CONTROL => self.set_control(cx, word),
            regs::INTR_STATUS => self.intr.acknowledge(cx, word),
            regs::INTR_MASK => self.intr.set_mask(cx, word),
            regs::TX_ADDRESS => {
                let fifo = self.tx.fifo_mut();
                fifo.address = part.merged(fifo.address, value);
            }
            regs::TX_SEGMENT if self.card.sheet.segments => self.tx.fifo_mut().segment = word,
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
            timers::TX => self.complete_transfers(cx),
            timers::LATE => self.complete_late(cx),
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

    /// It has no PHY: its line is as fast as it is.
    fn offered_link(&self) -> Link {
        Link::Up { mbps: u32::try_from(self.value(regs::LINE_MBPS)).unwrap_or(u32::MAX) }
    }

    fn has_link(&self) -> bool {
        self.link
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

    fn inspect(&mut self, cx: &mut NicContext<'_>) {
        self.rx.queue.inspect(cx);
        self.tx.engine.inspect(cx);
    }

    fn rx_look_ahead(
        &mut self,
        cx: &NicContext<'_>,
        _queue: u16,
        frames: usize,
        bytes: usize,
    ) -> usize {
        self.rx.queue.look_ahead(cx, frames, bytes)
    }
}
