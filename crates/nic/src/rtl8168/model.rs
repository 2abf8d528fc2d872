//! The chip as a [`NicModel`]: its identity, and where each call of the machine leads.

use warikomi_pci::{BarKind, Capability, ConfigSpace, Identity, Width};

use super::device::Rtl8168;
use super::{regs, timers};
use crate::capabilities::{pci_express, power_management};
use crate::{
    Frame, Link, MAX_FRAME_BYTES, ModelInfo, NicContext, NicModel, Reception, ResetKind,
    RxCounters, RxFault,
};

/// The model's description.
pub static INFO: ModelInfo = ModelInfo {
    name: "rtl8168",
    summary: "Realtek RTL8168C gigabit Ethernet (PCI Express, one queue each way, MSI)",
    linux_drivers: &["r8169"],
    register_bar: regs::BAR,
    rx_queues: 1,
    max_frame_bytes: MAX_FRAME_BYTES,
    registers: regs::REGISTERS,
};

impl NicModel for Rtl8168 {
    fn info(&self) -> &'static ModelInfo {
        &INFO
    }

    fn config_space(&self) -> ConfigSpace {
        let identity = Identity {
            vendor: 0x10ec,
            device: 0x8168,
            revision: 2,
            class: 0x02_0000,
            subsystem_vendor: 0x10ec,
            subsystem: 0x8168,
        };
        ConfigSpace::builder(identity)
            .bar(0, BarKind::Io, regs::BYTES as u64)
            .bar(regs::BAR, BarKind::Memory64, 4_096)
            .capability_at(0x40, power_management())
            .capability_at(0x50, Capability::msi(1, false))
            .capability_at(0x70, pci_express())
            .build()
    }

    fn reg_read(&mut self, cx: &mut NicContext<'_>, _bar: u8, offset: u64, width: Width) -> u64 {
        self.read(cx, offset, width)
    }

    fn reg_write(
        &mut self,
        cx: &mut NicContext<'_>,
        _bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) {
        self.write(cx, offset, width, value);
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
            timers::PHY if self.phy.timer(cx) => self.link_changed(cx),
            timers::MODERATION => self.intr.timer(cx),
            timers::COUNT if self.timer.event(cx) => self.intr.report(cx, regs::PCS_TIMEOUT),
            timers::TX => self.transmit_rest(cx),
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
        if self.phy.set_partner(cx, link) {
            self.link_changed(cx);
        }
    }

    fn offered_link(&self) -> Link {
        self.phy.offered()
    }

    fn has_link(&self) -> bool {
        self.phy.mode().is_some()
    }

    fn rx_progress(&mut self, cx: &mut NicContext<'_>, _queue: u16, limit: usize) -> RxCounters {
        self.rx.queue.progress(cx, limit)
    }

    fn receiving(&self) -> bool {
        self.rx.is_open() && self.intr.is_asked_for()
    }

    fn mac_address(&self) -> [u8; 6] {
        self.file.bytes(regs::MAC0)
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
