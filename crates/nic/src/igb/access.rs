//! What the driver's reads and writes of registers do.

use warikomi_pci::Width;

use super::device::Igb;
use super::queues::{self, at};
use super::tx_queue::take_over;
use super::{phy, regs, rss};
use crate::NicContext;
use crate::intel::{link, mdio, stamps, stats, words};
use crate::register::Access;

/// The semaphore of SWSM, which a read takes (82576, 8.7.1).
const SEMAPHORE: u32 = 1 << 0;

impl Igb {
    /// What the driver reads from a place of a BAR.
    #[inline]
    pub(super) fn read(
        &mut self,
        cx: &mut NicContext<'_>,
        bar: u8,
        offset: u64,
        width: Width,
    ) -> u64 {
        if bar != regs::BAR {
            return 0;
        }
        words::read(offset, width, |offset| self.read_register(cx, offset))
    }

    /// The driver writes to a place of a BAR.
    #[inline]
    pub(super) fn write(
        &mut self,
        cx: &mut NicContext<'_>,
        (bar, offset): (u8, u64),
        width: Width,
        value: u64,
    ) {
        if bar == regs::BAR {
            words::write(offset, width, value, |offset, word| {
                self.write_register(cx, offset, word);
            });
        }
    }

    /// Reads the register that the byte at `offset` is in.
    fn read_register(&mut self, cx: &mut NicContext<'_>, offset: u64) -> u32 {
        let Some(row) = self.file.table.row_at(queues::first_place(offset)) else { return 0 };
        if row.access == Access::WriteOnly {
            return 0;
        }
        if let Some((queue, at::HEAD)) = queues::of_queue(row.offset, queues::RX) {
            return self.rx[usize::from(queue)].head().into();
        }
        if let Some((queue, at::HEAD)) = queues::of_queue(row.offset, queues::TX) {
            return self.tx.engine.queue(queue).head().into();
        }
        match row.offset {
            regs::STATUS => self.status(),
            regs::ICR => self.intr.read(cx),
            regs::ICS => self.intr.causes(),
            regs::EICR => self.intr.read_bits(cx),
            regs::EICS => self.intr.bits(),
            regs::IMS => self.intr.masks().0,
            regs::EIMS => self.intr.masks().1,
            regs::SYSTIML => self.time.at(cx.now()) as u32,
            regs::SYSTIMH => (self.time.at(cx.now()) >> 32) as u32,
            at @ regs::STATISTICS..regs::STATISTICS_END => {
                let count = self.intr.take_count();
                stats::add(&mut self.file, regs::IAC, count);
                stats::read(&mut self.file, at)
            }
            at => self.read_stored(at, row.access),
        }
    }

    /// A register that is what was written to it, but for what its read does.
    fn read_stored(&mut self, at: u16, access: Access) -> u32 {
        let value = self.file.get(at);
        match at {
            regs::SWSM => self.file.set(at, value | SEMAPHORE),
            regs::TXSTMPH => stamps::release(&mut self.file, regs::TSYNCTXCTL),
            regs::RXSTMPH => stamps::release(&mut self.file, regs::TSYNCRXCTL),
            _ if access == Access::ReadClear => self.file.set(at, 0),
            _ => {}
        }
        value
    }

    fn write_register(&mut self, cx: &mut NicContext<'_>, offset: u64, value: u32) {
        let Some(row) = self.file.table.row_at(queues::first_place(offset)) else { return };
        let (at, value) = (row.offset, value & row.bits as u32);
        if self.intr.write(cx, at, value)
            || matches!(row.access, Access::ReadOnly | Access::ReadClear)
        {
            return;
        }
        if regs::TIME.contains(&at) {
            return stamps::written(&mut self.file, &mut self.time, cx.now(), at, value);
        }
        self.file.set(at, value);
        if let Some((queue, register)) = queues::of_queue(at, queues::RX) {
            self.receive_register(cx, queue, register, value);
        } else if let Some((queue, register)) = queues::of_queue(at, queues::TX) {
            self.transmit_register(cx, queue, register, value);
        } else {
            self.written(cx, at, value);
        }
    }

    /// What follows from a register's new value.
    fn written(&mut self, cx: &mut NicContext<'_>, at: u16, value: u32) {
        match at {
            regs::CTRL => self.control(cx, value),
            regs::EECD => self.file.set(at, link::eecd(value)),
            regs::EERD => self.file.set(at, self.nvm.read(value)),
            regs::CTRL_EXT => {
                self.file.change(at, regs::EXT_EEPROM_RESET, 0);
                if value & regs::EXT_EEPROM_RESET != 0 {
                    self.load_address();
                }
            }
            regs::MDIC => {
                let (answer, changed) = mdio::command(&mut self.phy, cx, value, phy::own);
                self.file.set(at, answer);
                if changed {
                    self.link_may_have_changed(cx);
                }
                let wanted = value & mdio::INTERRUPT != 0;
                self.intr.report(cx, if wanted { regs::MDAC } else { 0 });
            }
            regs::MRQC | regs::RETA..=regs::RETA_LAST => self.reached = rss::reached(&self.file),
            regs::RCTL => {
                (0..regs::QUEUES).for_each(|queue| self.ring_changed(cx, queue));
                self.enable_receive(cx);
            }
            regs::RLPML => (0..regs::QUEUES).for_each(|queue| self.ring_changed(cx, queue)),
            regs::TCTL => self.enable_transmit(cx, value & regs::TCTL_ENABLE != 0),
            _ => self.intr.set(cx, at, &self.file),
        }
    }

    /// CTRL.
    fn control(&mut self, cx: &mut NicContext<'_>, value: u32) {
        if value & regs::CTRL_RESET != 0 {
            return self.soft_reset(cx);
        }
        if value & regs::CTRL_PHY_RESET != 0 {
            self.file.change(regs::CTRL, regs::CTRL_PHY_RESET, 0);
            self.phy.reset(cx);
        }
        self.link_may_have_changed(cx);
    }

    fn receive_register(&mut self, cx: &mut NicContext<'_>, queue: u16, at: u16, value: u32) {
        let ring = &mut self.rx[usize::from(queue)];
        match at {
            at::TAIL => ring.format.set_tail(value),
            at::HEAD => ring.restart_at(cx, value as u16),
            at::BASE | at::BASE_HIGH | at::LENGTH | at::SPLIT => self.ring_changed(cx, queue),
            at::CONTROL => self.enable_receive(cx),
            _ => {}
        }
    }

    fn transmit_register(&mut self, cx: &mut NicContext<'_>, queue: u16, at: u16, value: u32) {
        match at {
            at::TAIL => self.transmit(cx, queue, value as u16),
            at::HEAD => {
                self.tx.contexts[usize::from(queue)] = Default::default();
                self.tx.engine.restart_queue_at(queue, value as u16);
            }
            at::BASE | at::BASE_HIGH | at::LENGTH => {
                let head = self.tx.engine.queue(queue).head();
                self.tx.engine.restart_queue_at(queue, head);
                take_over(&mut self.tx.engine.queue_mut(queue).format, &self.file, queue);
            }
            at::CONTROL => self.control_transmit_queue(cx, queue),
            _ => {}
        }
    }
}
