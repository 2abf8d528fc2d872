//! What the driver's reads and writes of registers do.

use warikomi_pci::Width;

use super::device::E1000e;
use super::{mdio, regs, stamps, stats};
use crate::NicContext;
use crate::register::Access;

// EECD (82574, 10.2.2.4).
const EECD_REQUEST: u32 = 1 << 6;
const EECD_GRANT: u32 = 1 << 7;
/// There is one, it has been read, and its size.
const EECD_FIXED: u32 = 0x0000_7f00;
const EECD_INITIAL: u32 = 0x0000_1300;
/// An update of flash memory, which is done at once: there is none.
const EECD_UPDATE: u32 = 1 << 19;

/// The semaphore of SWSM, which a read takes (10.2.3.13).
const SEMAPHORE: u32 = 1 << 0;
/// A stamp is there: of TSYNCRXCTL and TSYNCTXCTL, only to be read.
const STAMPED: u32 = 1 << 0;

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
        let begin = offset & !3;
        let low = self.read_word(cx, bar, begin);
        let high = match width {
            Width::B8 => self.read_word(cx, bar, begin.wrapping_add(4)),
            _ => 0,
        };
        (u64::from(high) << 32 | u64::from(low)) >> (8 * (offset & 3))
    }

    /// The driver writes to a place of a BAR. A register is written whole or not at all.
    #[inline]
    pub(super) fn write(
        &mut self,
        cx: &mut NicContext<'_>,
        (bar, offset): (u8, u64),
        width: Width,
        value: u64,
    ) {
        if offset & 3 != 0 || width.bytes() < 4 {
            return;
        }
        self.write_word(cx, bar, offset, value as u32);
        if width == Width::B8 {
            self.write_word(cx, bar, offset.wrapping_add(4), (value >> 32) as u32);
        }
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
        match (row.offset, row.access) {
            (regs::ICR, _) => self.intr.acknowledge(cx, value),
            (regs::ICS, _) => self.intr.report(cx, value),
            (regs::IMS, _) => self.intr.unmask(cx, value),
            (regs::IMC, _) => self.intr.mask_out(cx, value),
            (_, Access::ReadOnly | Access::ReadClear) => {}
            (at @ regs::RDBAL..regs::RSRPD, _) => self.receive_register(cx, at, value),
            (at @ regs::TDBAL..regs::STATISTICS, _) => self.transmit_register(cx, at, value),
            (at @ regs::SYSTIML.., _) => self.time_register(cx, at, value),
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
            regs::EECD => {
                let granted = if value & EECD_REQUEST != 0 { EECD_GRANT } else { 0 };
                let own = EECD_FIXED | EECD_GRANT | EECD_UPDATE;
                self.file.set(at, value & !own | EECD_INITIAL | granted);
            }
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
                let (answer, changed) = mdio::command(&mut self.phy, cx, value);
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
                self.tx.engine.queue_mut(queue).format.take_over(&self.file, queue);
            }
            regs::TIDV | regs::TADV => {
                self.intr.set(cx, at, &self.file);
                self.file.change(at, regs::FLUSH, 0);
            }
            _ => {}
        }
    }

    /// A register of the system's time, or of stamps.
    fn time_register(&mut self, cx: &mut NicContext<'_>, at: u16, value: u32) {
        let now = cx.now();
        let time = self.time.at(now);
        let (low, high) = (time & 0xffff_ffff, time & !0xffff_ffff);
        match at {
            regs::SYSTIML => self.time.set(now, high | u64::from(value)),
            regs::SYSTIMH => self.time.set(now, low | u64::from(value) << 32),
            regs::TSYNCTXCTL | regs::TSYNCRXCTL => {
                let stamped = self.file.get(at) & STAMPED;
                self.file.set(at, value & !STAMPED | stamped);
            }
            _ => self.file.set(at, value),
        }
        match at {
            regs::TIMINCA => self.time.set_increment(now, value),
            regs::TIMADJH => self.time.adjust(self.file.pair(regs::TIMADJL)),
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
