//! The chip as a [`NicModel`]: its identity, and where each call of the machine leads.

use warikomi_pci::{BarKind, Capability, ConfigSpace, Identity, Width};

use super::device::Rtl8139;
use super::{regs, timers};
use crate::{
    Frame, Link, ModelInfo, NicContext, NicModel, Reception, ResetKind, RxCounters, RxFault,
};

impl NicModel for Rtl8139 {
    fn info(&self) -> &'static ModelInfo {
        &self.chip.info
    }

    fn config_space(&self) -> ConfigSpace {
        let identity = Identity {
            vendor: 0x10ec,
            device: 0x8139,
            revision: self.chip.revision,
            class: 0x02_0000,
            subsystem_vendor: 0x10ec,
            subsystem: 0x8139,
        };
        ConfigSpace::builder(identity)
            .bar(0, BarKind::Io, regs::BAR_BYTES)
            .bar(regs::BAR, BarKind::Memory32, regs::BAR_BYTES)
            .capability_at(0x50, power_management())
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
            timers::COUNT if self.timer.event(cx) => self.intr.report(cx, regs::TIMEOUT),
            timers::TX_SLOTS => self.slots_rest(cx),
            timers::TX_RINGS => self.rings_rest(cx),
            timers::LATE_BYTES => self.complete_late_bytes(cx),
            timers::LATE_DESCRIPTORS => self.complete_late_descriptors(cx),
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
        self.rx.progress(cx, limit)
    }

    fn receiving(&self) -> bool {
        self.rx.is_open() && self.intr.is_asked_for()
    }

    fn mac_address(&self) -> [u8; 6] {
        self.file.bytes(regs::MAC0)
    }

    fn rx_free(&mut self, cx: &mut NicContext<'_>, _queue: u16, limit: usize) -> usize {
        if self.rx.is_cplus() {
            self.rx.ring.free(cx, limit)
        } else {
            self.rx.bytes.free(cx, limit)
        }
    }

    fn inspect(&mut self, cx: &mut NicContext<'_>) {
        self.rx.bytes.inspect(cx);
        self.rx.ring.inspect(cx);
        self.tx.slots.inspect(cx);
        self.tx.rings.inspect(cx);
    }

    fn rx_look_ahead(
        &mut self,
        cx: &NicContext<'_>,
        _queue: u16,
        frames: usize,
        bytes: usize,
    ) -> usize {
        if self.rx.is_cplus() {
            self.rx.ring.look_ahead(cx, frames, bytes)
        } else {
            self.rx.bytes.look_ahead(cx, frames, bytes)
        }
    }
}

/// Power management (PCI Bus Power Management Interface 1.1, section 3.2): present and without effect. It claims no
/// wake-up, so that Linux leaves the function in D0 while it is idle.
fn power_management() -> Capability {
    // Version 2.
    Capability { bytes: vec![0x01, 0, 0x02, 0, 0, 0, 0, 0], writable: vec![0, 0, 0, 0, 0x03] }
}
