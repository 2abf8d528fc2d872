//! What the driver's reads and writes of registers do.

use warikomi_clock::Time;
use warikomi_pci::Width;

use super::device::Rtl8168;
use super::indirect;
use super::regs::{self, RegisterFile};
use super::tx_queue::{HIGH, NORMAL};
use crate::NicContext;
use crate::realtek::tally::{self, Tally};
use crate::register::{Access, WrittenPart};

impl Rtl8168 {
    /// What the driver reads from `width` bytes at `offset`; 0 behind the last register.
    #[inline]
    pub(super) fn read(&mut self, cx: &mut NicContext<'_>, offset: u64, width: Width) -> u64 {
        if offset >= regs::BYTES as u64 {
            return 0;
        }
        for (row, _) in regs::WINDOW.touched(offset, width) {
            self.refresh(cx.now(), row.offset);
        }
        self.file.get(offset as usize, width.bytes())
    }

    /// The driver writes to `width` bytes at `offset`. A write behind the last register does nothing.
    #[inline]
    pub(super) fn write(&mut self, cx: &mut NicContext<'_>, offset: u64, width: Width, value: u64) {
        if offset >= regs::BYTES as u64 {
            return;
        }
        for part in regs::WINDOW.written(offset, width, value) {
            self.write_register(cx, &part);
        }
    }

    /// Brings registers that live elsewhere into the file, before it is read.
    fn refresh(&mut self, now: Time, row: u16) {
        let value: u64 = match row {
            regs::INTR_MASK => self.intr.mask().into(),
            regs::INTR_STATUS => self.intr.status().into(),
            regs::TIMER_COUNT => self.timer.count(now).into(),
            _ => return,
        };
        self.file.set(row, value);
    }

    /// The written bytes of one register.
    fn write_register(&mut self, cx: &mut NicContext<'_>, part: &WrittenPart) {
        let (row, access) = (part.row.offset, part.row.access);
        let locked = self.file.u8(regs::CFG9346) & regs::CFG9346_MODE != regs::CFG9346_UNLOCKED;
        match row {
            _ if access == Access::ReadOnly => return,
            regs::MAC0 | regs::MAC4 | regs::CONFIG0..=regs::CONFIG5 if locked => return,
            regs::INTR_STATUS => return self.intr.acknowledge(cx, part.value as u32),
            regs::RX_MISSED => return self.file.set(row, 0),
            regs::TIMER_COUNT => {
                let goal = self.file.u32(regs::TIMER_INT);
                return self.timer.restart(cx, goal);
            }
            regs::INTR_MASK => self.refresh(cx.now(), row),
            _ => {}
        }
        let merged = self.file.merged(part);
        self.file.set(row, merged);
        self.written(cx, row, merged);
    }

    /// What follows from a register's new value.
    fn written(&mut self, cx: &mut NicContext<'_>, row: u16, value: u64) {
        let ring = |file: &RegisterFile, low| file.pair(low, low + 4);
        match row {
            regs::MAC0 | regs::MAC4 | regs::MAR0 | regs::RX_CONFIG | regs::RX_MAX_SIZE => {
                self.take_over_file();
            }
            regs::COUNTER_LOW => self.tally_command(cx, value as u32),
            regs::TX_DESC_LOW | regs::TX_DESC_HIGH => {
                self.tx.set_ring(NORMAL, ring(&self.file, regs::TX_DESC_LOW));
            }
            regs::TX_HIGH_DESC_LOW | regs::TX_HIGH_DESC_HIGH => {
                self.tx.set_ring(HIGH, ring(&self.file, regs::TX_HIGH_DESC_LOW));
            }
            regs::RX_DESC_LOW | regs::RX_DESC_HIGH => {
                self.rx.set_ring(cx, ring(&self.file, regs::RX_DESC_LOW));
            }
            regs::CHIP_CMD => self.chip_command(cx, value as u8),
            regs::TX_POLL => self.poll_command(cx, value as u8),
            regs::INTR_MASK => self.intr.set_mask(cx, value as u32),
            regs::TX_CONFIG => {
                let settings = value as u32 & !regs::TX_CONFIG_VERSION_MASK;
                self.file.set(row, (settings | regs::TX_CONFIG_VERSION).into());
            }
            regs::CFG9346 => self.eeprom_command(value as u8),
            regs::TIMER_INT => self.timer.set_goal(cx, value as u32),
            regs::CPLUS_CMD => {
                self.take_over_file();
                self.moderate(cx);
            }
            regs::INTR_MITIGATE => self.moderate(cx),
            regs::PHYAR => self.phy_command(cx, value as u32),
            _ => self.handshake(row, value as u32),
        }
    }

    /// Windows onto registers behind registers.
    fn handshake(&mut self, row: u16, value: u32) {
        let answer = match row {
            regs::EPHYAR => self.ephy.command(value),
            regs::CSIAR | regs::ERIAR => {
                let (words, data) = if row == regs::CSIAR {
                    (&mut self.csi, regs::CSIDR)
                } else {
                    (&mut self.eri, regs::ERIDR)
                };
                let (answer, read) = words.command(value, self.file.u32(data));
                self.file.set(data, read.into());
                answer
            }
            regs::OCPAR | regs::GPHY_OCP | regs::EFUSEAR => indirect::unconnected_window(value),
            _ => return,
        };
        self.file.set(row, answer.into());
    }

    fn chip_command(&mut self, cx: &mut NicContext<'_>, command: u8) {
        if command & regs::CMD_RESET != 0 {
            return self.soft_reset(cx);
        }
        self.rx.queue.enable(cx, command & regs::CMD_RX_ENABLE != 0);
        self.tx.engine.enable(command & regs::CMD_TX_ENABLE != 0);
    }

    fn poll_command(&mut self, cx: &mut NicContext<'_>, command: u8) {
        self.file.set(regs::TX_POLL, 0);
        if command & regs::POLL_HIGH != 0 {
            self.transmit(cx, HIGH);
        }
        if command & regs::POLL_NORMAL != 0 {
            self.transmit(cx, NORMAL);
        }
        if command & regs::POLL_SOFTWARE_INTERRUPT != 0 {
            self.intr.report(cx, regs::SW_INT);
        }
    }

    /// Cfg9346: the EEPROM is loaded anew, which restores the address; its serial lines lead
    /// nowhere.
    fn eeprom_command(&mut self, command: u8) {
        if command & regs::CFG9346_MODE == regs::CFG9346_AUTOLOAD {
            self.file.reset(regs::MAC0);
            self.file.reset(regs::MAC4);
            self.file.set(regs::CFG9346, 0);
            self.take_over_file();
        }
    }

    fn phy_command(&mut self, cx: &mut NicContext<'_>, command: u32) {
        let register = (command >> 16 & 0x1f) as usize;
        if command & regs::FLAG != 0 {
            self.file.set(regs::PHYAR, (command & !regs::FLAG).into());
            if self.phy.write(cx, register, command as u16) {
                self.link_changed(cx);
            }
        } else {
            let data = u32::from(self.phy.read(register));
            let answer = regs::FLAG | command & 0x001f_0000 | data;
            self.file.set(regs::PHYAR, answer.into());
        }
    }

    /// CounterAddrLow: dump or reset the tally counters.
    fn tally_command(&mut self, cx: &mut NicContext<'_>, command: u32) {
        if command & regs::COUNTER_RESET != 0 {
            self.tally = Tally::default();
        }
        if command & regs::COUNTER_DUMP != 0 {
            let address = self.file.pair(regs::COUNTER_LOW, regs::COUNTER_HIGH);
            let aligned = address & !(tally::DUMP_BYTES as u64 - 1);
            if cx.dma_write(aligned, &self.tally.dump()).is_err() {
                self.intr.report(cx, regs::SYS_ERR);
            }
        }
        let done = command & !(regs::COUNTER_DUMP | regs::COUNTER_RESET);
        self.file.set(regs::COUNTER_LOW, done.into());
    }
}
