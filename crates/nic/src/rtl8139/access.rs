//! What the driver's reads and writes of registers do.

use warikomi_clock::Time;
use warikomi_pci::Width;

use super::device::Rtl8139;
use super::regs;
use super::tx_queue::{HIGH, NORMAL, Transmitter};
use crate::NicContext;
use crate::realtek::tally::{self, Tally};
use crate::register::{Access, WrittenPart};
use crate::strict::{FindingKind, Place};

/// Which register of the PHY one of the window is (IEEE 802.3, 22.2.4).
fn of_phy(row: u16) -> Option<usize> {
    Some(match row {
        regs::MODE_CONTROL => 0,
        regs::MODE_STATUS => 1,
        regs::ADVERTISEMENT => 4,
        regs::PARTNER => 5,
        regs::EXPANSION => 6,
        _ => return None,
    })
}

impl Rtl8139 {
    /// What the driver reads from `width` bytes at `offset`; 0 behind the last register.
    #[inline]
    pub(super) fn read(&mut self, cx: &mut NicContext<'_>, offset: u64, width: Width) -> u64 {
        if offset >= regs::BYTES as u64 {
            return 0;
        }
        for (row, _) in self.chip.window.touched(offset, width) {
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
        for part in self.chip.window.written(offset, width, value) {
            self.write_register(cx, &part);
        }
    }

    /// Brings registers that live elsewhere into the file, before it is read.
    fn refresh(&mut self, now: Time, row: u16) {
        let head = self.rx.bytes.head();
        let value: u64 = match row {
            regs::COUNTER_LOW if self.is_cplus() => self.counters_at[0].into(),
            regs::COUNTER_HIGH if self.is_cplus() => self.counters_at[1].into(),
            regs::TX_STATUS_0..=regs::TX_STATUS_3 => {
                self.tx.slots().status(Transmitter::slot_of(regs::TX_STATUS_0, row)).into()
            }
            regs::CHIP_CMD => {
                let empty = self.rx.bytes.format.filled(head) == 0;
                let empty = if empty { regs::CMD_BUFFER_EMPTY } else { 0 };
                (self.file.u8(row) & !regs::CMD_BUFFER_EMPTY | empty).into()
            }
            regs::RX_WRITTEN => self.rx.bytes.format.written(head).into(),
            regs::INTR_MASK => self.intr.mask().into(),
            regs::INTR_STATUS => self.intr.status().into(),
            regs::TIMER_COUNT => self.timer.count(now).into(),
            regs::CFG9346 => {
                let mode = self.file.u8(row) & !regs::CFG9346_DATA_OUT;
                let programs = mode & regs::CFG9346_MODE == regs::CFG9346_PROGRAM;
                (mode | if programs { self.eeprom.data_out() } else { 0 }).into()
            }
            regs::MEDIA_STATUS => self.media_status().into(),
            regs::TX_SUMMARY => self.tx.slots().summary().into(),
            regs::CSCR => self.cscr().into(),
            _ => match of_phy(row) {
                Some(register) => self.phy.read(register).into(),
                None => return,
            },
        };
        self.file.set(row, value);
    }

    fn media_status(&self) -> u8 {
        let pause = self.file.u8(regs::MEDIA_STATUS) & regs::MEDIA_PAUSE;
        pause
            | match self.phy.mode() {
                None => regs::MEDIA_NO_LINK,
                Some(mode) if mode.mbps == 10 => regs::MEDIA_10,
                Some(_) => 0,
            }
    }

    fn cscr(&self) -> u16 {
        let stored = self.file.u16(regs::CSCR) & !(regs::CSCR_LINK_OK | regs::CSCR_LINK_CHANGED);
        let link = if self.phy.mode().is_some() { regs::CSCR_LINK_OK } else { 0 };
        stored | link | if self.link_changed { regs::CSCR_LINK_CHANGED } else { 0 }
    }

    /// Whether a register is locked: addresses, configuration and the PHY's control (RTL8139C Rev. 1.4, section 5.9).
    fn is_locked(&self, row: u16) -> bool {
        let locked = self.file.u8(regs::CFG9346) & regs::CFG9346_MODE != regs::CFG9346_UNLOCKED;
        let lockable = matches!(
            row,
            regs::MAC0
                | regs::MAC4
                | regs::CONFIG0
                | regs::CONFIG1
                | regs::CONFIG3
                | regs::CONFIG4
                | regs::CONFIG5
                | regs::MODE_CONTROL
        );
        locked && lockable
    }

    /// The written bytes of one register.
    fn write_register(&mut self, cx: &mut NicContext<'_>, part: &WrittenPart) {
        let row = part.row.offset;
        match row {
            _ if matches!(part.row.access, Access::ReadOnly | Access::ReadClear) => return,
            _ if self.is_locked(row) => return,
            regs::INTR_STATUS => return self.intr.acknowledge(cx, part.value as u32),
            regs::RX_MISSED => return self.file.set(row, 0),
            regs::TIMER_COUNT => {
                let goal = self.file.u32(regs::TIMER_INT);
                return self.timer.restart(cx, goal);
            }
            _ if part.row.access == Access::WriteOnly => return,
            // A part of it is written: the rest stays.
            _ => self.refresh(cx.now(), row),
        }
        let merged = self.file.merged(part);
        self.file.set(row, merged);
        self.written(cx, row, merged);
    }

    /// What follows from a register's new value.
    fn written(&mut self, cx: &mut NicContext<'_>, row: u16, value: u64) {
        match row {
            regs::MAC0 | regs::MAC4 | regs::MAR0 => self.take_over_file(),
            regs::TX_STATUS_0..=regs::TX_STATUS_3 => self.status_written(cx, row, value as u32),
            regs::TX_ADDRESS_0..=regs::TX_ADDRESS_3 => {
                let slot = Transmitter::slot_of(regs::TX_ADDRESS_0, row);
                self.tx.slots_mut().set_address(slot, value as u32);
                self.name_rings(row);
            }
            regs::RX_BUFFER => self.name_bytes(cx, true),
            regs::CHIP_CMD => self.chip_command(cx, value as u8),
            regs::RX_READ => self.set_read(cx, value as u16),
            regs::INTR_MASK => self.intr.set_mask(cx, value as u32),
            regs::TX_CONFIG => {
                let settings = value as u32 & !(regs::VERSION_MASK | regs::TX_CLEAR_ABORT);
                self.file.set(row, (settings | self.chip.version).into());
            }
            regs::RX_CONFIG => {
                self.take_over_file();
                self.name_bytes(cx, false);
            }
            regs::CFG9346 => self.eeprom_command(value as u8),
            regs::TIMER_INT => self.timer.set_goal(cx, value as u32),
            regs::TX_POLL if self.chip.cplus => self.poll_command(cx, value as u8),
            regs::CPLUS_CMD if self.chip.cplus => {
                self.take_over_file();
                self.switch_engines(cx);
            }
            regs::RX_RING | regs::RX_RING_HIGH if self.chip.cplus => {
                self.rx.set_ring(cx, self.file.pair(regs::RX_RING, regs::RX_RING_HIGH));
            }
            _ => {
                if let Some(register) = of_phy(row)
                    && self.phy.write(cx, register, value as u16)
                {
                    self.link_changed(cx);
                }
            }
        }
    }

    /// One of the registers that are TSD in the C mode; in C+ mode the first two say where the counters go.
    fn status_written(&mut self, cx: &mut NicContext<'_>, row: u16, value: u32) {
        if !self.is_cplus() {
            let slot = Transmitter::slot_of(regs::TX_STATUS_0, row);
            if self.tx.slots_mut().set_status(slot, value, cx.now()) {
                self.transmit_slot(cx);
            }
        } else if row == regs::COUNTER_HIGH {
            self.counters_at[1] = value;
        } else if row == regs::COUNTER_LOW {
            self.tally_command(cx, value);
        }
    }

    /// In C+ mode the registers that are TSAD in the C mode say where the transmit rings are.
    fn name_rings(&mut self, row: u16) {
        if !self.is_cplus() {
            return;
        }
        let (queue, first) = if row < regs::TX_HIGH_RING {
            (NORMAL, regs::TX_RING)
        } else {
            (HIGH, regs::TX_HIGH_RING)
        };
        self.tx.set_ring(queue, self.file.pair(first, first + 4));
    }

    fn chip_command(&mut self, cx: &mut NicContext<'_>, command: u8) {
        if command & regs::CMD_RESET != 0 {
            return self.soft_reset(cx);
        }
        self.switch_engines(cx);
    }

    /// The engines are as CR and CpCmd have them.
    fn switch_engines(&mut self, cx: &mut NicContext<'_>) {
        let command = self.file.u8(regs::CHIP_CMD);
        let cplus = self.cplus_command();
        let cplus_rx = cplus & regs::CPLUS_RX_ENABLE != 0;
        let cplus_tx = cplus & regs::CPLUS_TX_ENABLE != 0;
        if self.rx.enable(cx, command & regs::CMD_RX_ENABLE != 0, cplus_rx) {
            self.file.reset(regs::RX_READ);
        }
        let tx = command & regs::CMD_TX_ENABLE != 0;
        self.tx.rings.enable(tx && cplus_tx);
        self.tx.slots.enable(tx && !cplus_tx);
        self.start_slots(cx);
    }

    /// CAPR: how far the driver has read.
    fn set_read(&mut self, cx: &mut NicContext<'_>, capr: u16) {
        let head = self.rx.bytes.head();
        if !self.rx.bytes.format.set_read(capr, head) {
            let which = (FindingKind::ReadPointer, Place::RxQueue(0));
            let source = "RTL8139C Rev. 1.4, section 5, CAPR";
            cx.note(which, source, || {
                format!("CAPR {capr:#06x} goes back, or beyond what was written")
            });
        }
    }

    fn poll_command(&mut self, cx: &mut NicContext<'_>, command: u8) {
        self.file.set(regs::TX_POLL, 0);
        if command & regs::POLL_HIGH != 0 {
            self.transmit_ring(cx, HIGH);
        }
        if command & regs::POLL_NORMAL != 0 {
            self.transmit_ring(cx, NORMAL);
        }
        if command & regs::POLL_SOFTWARE_INTERRUPT != 0 {
            self.intr.report(cx, regs::SW_INT);
        }
    }

    /// Cfg9346: the EEPROM's lines, or everything that it holds is loaded anew, which restores the address.
    fn eeprom_command(&mut self, command: u8) {
        match command & regs::CFG9346_MODE {
            regs::CFG9346_PROGRAM => self.eeprom.drive(command),
            regs::CFG9346_AUTOLOAD => {
                let [a, b, c, d, e, f] = self.eeprom.station();
                self.file.set(regs::MAC0, u32::from_le_bytes([a, b, c, d]).into());
                self.file.set(regs::MAC4, u16::from_le_bytes([e, f]).into());
                self.file.set(regs::CFG9346, 0);
                self.eeprom.drive(0);
                self.take_over_file();
            }
            _ => self.eeprom.drive(0),
        }
    }

    /// The low half of the counters' address: dump or reset them.
    fn tally_command(&mut self, cx: &mut NicContext<'_>, command: u32) {
        if command & regs::COUNTER_RESET != 0 {
            self.tally = Tally::default();
        }
        if command & regs::COUNTER_DUMP != 0 {
            let address = u64::from(self.counters_at[1]) << 32 | u64::from(command);
            let aligned = address & !(tally::DUMP_BYTES as u64 - 1);
            if cx.dma_write(aligned, &self.tally.dump()).is_err() {
                self.intr.report(cx, regs::SYS_ERR);
            }
        }
        self.counters_at[0] = command & !(regs::COUNTER_DUMP | regs::COUNTER_RESET);
    }
}
