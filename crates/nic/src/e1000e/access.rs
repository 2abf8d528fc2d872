//! What the driver's reads and writes of registers do.

use warikomi_pci::Width;

use super::device::E1000e;
use super::tx_queue::take_over;
use super::{phy, regs};
use crate::NicContext;
use crate::intel::{link, mdio, stamps, stats, words};
use crate::register::Access;

/// The semaphore of SWSM, which a read takes (10.2.3.13).
const SEMAPHORE: u32 = 1 << 0;

impl E1000e {
    /// What the driver reads from a place of a BAR.
    #[inline]
    pub(super) fn read(
        &mut self,
        cx: &mut NicContext<'_>,
        bar: u8,
        offset: u64,
        width: Width,
    ) -> u64 {
        words::read(offset, width, |offset| self.read_word(cx, bar, offset))
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
        words::write(offset, width, value, |offset, word| self.write_word(cx, bar, offset, word));
    }

    fn read_word(&mut self, cx: &mut NicContext<'_>, bar: u8, offset: u64) -> u32 {
        match (bar, offset) {
            (regs::BAR, _) => self.read_register(cx, offset),
            (regs::IO_BAR, regs::IOADDR) => self.io_address,
            (regs::IO_BAR, regs::IODATA) => self.read_register(cx, self.io_address.into()),
            _ => 0,
        }
    }

    fn write_word(&mut self, cx: &mut NicContext<'_>, bar: u8, offset: u64, value: u32) {
        match (bar, offset) {
            (regs::BAR, _) => self.write_register(cx, offset, value),
            (regs::IO_BAR, regs::IOADDR) => self.io_address = value,
            (regs::IO_BAR, regs::IODATA) => self.write_register(cx, self.io_address.into(), value),
            _ => {}
        }
    }

    /// Reads the register that the byte at `offset` is in.
    fn read_register(&mut self, cx: &mut NicContext<'_>, offset: u64) -> u32 {
        let Some(row) = self.file.table.row_at(offset) else { return 0 };
        if row.access == Access::WriteOnly {
            return 0;
        }
        match row.offset {
            regs::STATUS => self.status(),
            regs::ICR => self.intr.read(cx),
            regs::IMS => self.intr.mask(),
            regs::RDH => self.rx[0].format.register_of(self.rx[0].head()),
            SECOND_RDH => self.rx[1].format.register_of(self.rx[1].head()),
            regs::TDH => self.tx.engine.queue(0).head().into(),
            SECOND_TDH => self.tx.engine.queue(1).head().into(),
            regs::SYSTIML => self.time.at(cx.now()) as u32,
            regs::SYSTIMH => (self.time.at(cx.now()) >> 32) as u32,
            at @ regs::STATISTICS..regs::STATISTICS_END => {
                let count = self.intr.take_count();
                stats::add(&mut self.file, regs::IAC, count);
                stats::read(&mut self.file, at)
            }
            at => {
                let value = self.file.get(at);
                match at {
                    regs::SWSM => self.file.set(at, value | SEMAPHORE),
                    regs::TXSTMPH => stamps::release(&mut self.file, regs::TSYNCTXCTL),
                    regs::RXSTMPH => stamps::release(&mut self.file, regs::TSYNCRXCTL),
                    _ => {}
                }
                value
            }
        }
    }

    fn write_register(&mut self, cx: &mut NicContext<'_>, offset: u64, value: u32) {
        let Some(row) = self.file.table.row_at(offset) else { return };
        let value = value & row.bits as u32;
        match (row.offset, row.access) {
            (regs::ICR, _) => self.intr.acknowledge(cx, value),
            (regs::ICS, _) => self.intr.report(cx, value),
            (regs::IMS, _) => self.intr.unmask(cx, value),
            (regs::IMC, _) => self.intr.mask_out(cx, value),
            (_, Access::ReadOnly | Access::ReadClear) => {}
            (at @ regs::RDBAL..regs::RSRPD, _) => self.receive_register(cx, at, value),
            (at @ regs::TDBAL..regs::STATISTICS, _) => self.transmit_register(cx, at, value),
            (at @ regs::SYSTIML.., _) => {
                stamps::written(&mut self.file, &mut self.time, cx.now(), at, value)
            }
            (at, _) => {
                self.file.set(at, value);
                self.written(cx, at, value);
            }
        }
    }

    /// What follows from a register's new value.
    fn written(&mut self, cx: &mut NicContext<'_>, at: u16, value: u32) {
        match at {
            regs::CTRL => self.control(cx, value),
            regs::EECD => self.file.set(at, link::eecd(value)),
            regs::EERD => self.file.set(at, self.nvm.read(value)),
            regs::EEWR => self.file.set(at, self.nvm.write(value)),
            regs::CTRL_EXT => {
                self.file.change(at, regs::EXT_EEPROM_RESET | regs::EXT_PBA_CLEAR, 0);
                if value & regs::EXT_EEPROM_RESET != 0 {
                    self.load_address();
                }
                self.intr.set(cx, at, &self.file);
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
            regs::ITR | regs::EIAC | regs::IAM | regs::IVAR | regs::EITR..=regs::EITR_LAST => {
                self.intr.set(cx, at, &self.file);
            }
            regs::RCTL => {
                self.rings_changed(cx);
                let on = value & regs::RCTL_ENABLE != 0;
                self.rx.iter_mut().for_each(|queue| queue.enable(cx, on));
            }
            regs::RFCTL | regs::PSRCTL => self.rings_changed(cx),
            regs::TCTL => self.enable_transmit(cx, value & regs::TCTL_ENABLE != 0),
            _ => {}
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

    /// A register of a receive queue, or of its delays.
    fn receive_register(&mut self, cx: &mut NicContext<'_>, at: u16, value: u32) {
        let (queue, register) = of_queue(at, regs::RDBAL);
        let Some(ring) = self.rx.get_mut(queue) else { return };
        self.file.set(at, value);
        match register {
            regs::RDT => ring.format.set_tail(value),
            regs::RDH => ring.restart_at(cx, ring.format.place_of(value)),
            regs::RDBAL | regs::RDBAH | regs::RDLEN => self.rings_changed(cx),
            regs::RDTR | regs::RADV => {
                self.intr.set(cx, at, &self.file);
                self.file.change(at, regs::FLUSH, 0);
            }
            _ => {}
        }
    }

    /// A register of a transmit queue, or of its delays.
    fn transmit_register(&mut self, cx: &mut NicContext<'_>, at: u16, value: u32) {
        let (index, register) = of_queue(at, regs::TDBAL);
        let queue = index as u16;
        if queue >= regs::QUEUES {
            return;
        }
        self.file.set(at, value);
        match register {
            regs::TDT => self.transmit(cx, queue, value as u16),
            regs::TDH => {
                self.tx.contexts[index] = Default::default();
                self.tx.engine.restart_queue_at(queue, value as u16);
            }
            regs::TDBAL | regs::TDBAH | regs::TDLEN => {
                let head = self.tx.engine.queue(queue).head();
                self.tx.engine.restart_queue_at(queue, head);
                take_over(&mut self.tx.engine.queue_mut(queue).format, &self.file, queue);
            }
            regs::TIDV | regs::TADV => {
                self.intr.set(cx, at, &self.file);
                self.file.change(at, regs::FLUSH, 0);
            }
            _ => {}
        }
    }
}

const SECOND_RDH: u16 = regs::RDH + regs::QUEUE_STRIDE;
const SECOND_TDH: u16 = regs::TDH + regs::QUEUE_STRIDE;

/// The queue that a register is of, and the same register of the first one, whose registers begin at `first`.
fn of_queue(at: u16, first: u16) -> (usize, u16) {
    let queue = (at - first) / regs::QUEUE_STRIDE;
    (queue.into(), at - queue * regs::QUEUE_STRIDE)
}
