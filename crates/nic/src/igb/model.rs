//! The card as a [`NicModel`]: its identity, and where each call of the machine leads.

use warikomi_pci::{BarKind, Capability, ConfigSpace, Identity, MsixLayout, Width};

use super::device::Igb;
use super::{regs, timers};
use crate::capabilities::{pci_express, power_management};
use crate::queue::RxQueue;
use crate::{
    Frame, Link, MAX_FRAME_BYTES, ModelInfo, NicContext, NicModel, Reception, ResetKind,
    RxCounters, RxFault,
};

/// The model's description.
pub static INFO: ModelInfo = ModelInfo {
    name: "igb",
    summary: "Intel 82576 gigabit Ethernet (PCI Express, 16 queues each way, ten vectors by MSI-X)",
    linux_drivers: &["igb"],
    register_bar: regs::BAR,
    rx_queues: regs::QUEUES,
    max_frame_bytes: MAX_FRAME_BYTES,
    registers: regs::REGISTERS,
};

impl Igb {
    /// Whether frames can go to this queue. One that none goes to lacks no descriptor.
    fn is_steered_to(&self, queue: u16) -> bool {
        self.reached >> queue & 1 != 0
    }
}

impl NicModel for Igb {
    fn info(&self) -> &'static ModelInfo {
        &INFO
    }

    fn config_space(&self) -> ConfigSpace {
        let identity = Identity {
            vendor: regs::VENDOR,
            device: regs::DEVICE,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: regs::VENDOR,
            subsystem: regs::DEVICE,
        };
        let table = MsixLayout {
            vectors: regs::VECTORS,
            table: (regs::MSIX_BAR, 0),
            pending: (regs::MSIX_BAR, regs::PENDING),
        };
        ConfigSpace::builder(identity)
            .bar(regs::BAR, BarKind::Memory32, regs::BAR_BYTES)
            .bar(regs::MSIX_BAR, BarKind::Memory32, regs::MSIX_BYTES)
            .capability_at(0x40, power_management())
            .capability_at(0x50, Capability::msi(1, false))
            .capability_at(0x70, Capability::msix(table))
            .capability_at(0xa0, pci_express())
            .build()
    }

    fn reg_read(&mut self, cx: &mut NicContext<'_>, bar: u8, offset: u64, width: Width) -> u64 {
        self.read(cx, bar, offset, width)
    }

    fn reg_write(
        &mut self,
        cx: &mut NicContext<'_>,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) {
        self.write(cx, (bar, offset), width, value);
    }

    #[inline]
    fn frame_rx(&mut self, cx: &mut NicContext<'_>, frame: Frame<'_>) -> Reception {
        self.receive(cx, frame, None)
    }

    fn frame_rx_faulty(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: RxFault,
    ) -> Reception {
        self.receive(cx, frame, Some(fault))
    }

    fn timer(&mut self, cx: &mut NicContext<'_>, tag: u32) {
        match tag {
            timers::PHY if self.phy.timer(cx) => self.link_may_have_changed(cx),
            timers::INTR => self.intr.timer(cx),
            timers::TX => self.transmit_rest(cx),
            timers::LATE..timers::LATE_END => {
                self.complete_late(cx, (tag - timers::LATE) as u16);
            }
            _ => {}
        }
    }

    fn interrupts_configured(&mut self, cx: &mut NicContext<'_>) {
        self.intr.update(cx);
    }

    fn reset(&mut self, cx: &mut NicContext<'_>, kind: ResetKind) {
        match kind {
            ResetKind::PowerOn => self.power_on(cx),
            ResetKind::Soft => self.soft_reset(cx),
        }
    }

    fn set_link(&mut self, cx: &mut NicContext<'_>, link: Link) {
        if self.phy.set_partner(cx, link) {
            self.link_may_have_changed(cx);
        }
    }

    fn offered_link(&self) -> Link {
        self.phy.offered()
    }

    fn has_link(&self) -> bool {
        self.link
    }

    fn rx_progress(&mut self, cx: &mut NicContext<'_>, queue: u16, limit: usize) -> RxCounters {
        let queue = self.rx.get_mut(usize::from(queue));
        queue.map_or(RxCounters::default(), |queue| queue.progress(cx, limit))
    }

    fn receiving(&self) -> bool {
        self.rx[0].is_open() && self.link && self.intr.is_asked_for()
    }

    fn mac_address(&self) -> [u8; 6] {
        let [address @ .., _, _] = self.file.pair(regs::RAL).to_le_bytes();
        address
    }

    fn rx_free(&mut self, cx: &mut NicContext<'_>, queue: u16, limit: usize) -> usize {
        match self.rx.get(usize::from(queue)) {
            Some(ring) if self.is_steered_to(queue) => ring.free(cx, limit),
            _ => limit,
        }
    }

    fn inspect(&mut self, cx: &mut NicContext<'_>) {
        RxQueue::inspect_all(&mut self.rx, cx);
        self.tx.engine.inspect(cx);
    }

    fn rx_look_ahead(
        &mut self,
        cx: &NicContext<'_>,
        queue: u16,
        frames: usize,
        bytes: usize,
    ) -> usize {
        let is_steered_to = self.is_steered_to(queue);
        match self.rx.get_mut(usize::from(queue)) {
            Some(ring) if is_steered_to => ring.look_ahead(cx, frames, bytes),
            _ => frames,
        }
    }
}
