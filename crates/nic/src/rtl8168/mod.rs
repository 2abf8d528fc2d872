//! Realtek RTL8168C (XID 0x3c0), the gigabit NIC that Linux drives with r8169.
//!
//! This revision was chosen because r8169 uses MSI for it, has no firmware to load for it, and
//! knows its PHY. What it does is taken from what the driver of Linux 6.1 relies on; see
//! [`regs`] for the sources. Not modelled: wake-up frames, the EEPROM's serial protocol, MAC and
//! PHY loopback, pause frames, collisions, the receive FIFO, power states.

mod filter;
mod indirect;
mod intr;
mod offload;
mod phy;
pub mod regs;
mod rx;
mod stats;
mod tx;
mod verdict;

use warikomi_clock::{Span, Time};
use warikomi_pci::{BarKind, Capability, ConfigSpace, Identity, Width};

use self::indirect::{Ephy, Words};
use self::phy::Phy;
use self::regs::RegisterFile;
use self::rx::Receiver;
use self::stats::Tally;
use self::tx::Transmitter;
use crate::bus::Bus;
use crate::queue::{Alarm, Causes, Engine, Line};
use crate::register::Access;
use crate::{
    Frame, Link, MAX_FRAME_BYTES, ModelInfo, NicContext, NicModel, Reception, ResetKind,
    RxCounters, RxFault,
};
use warikomi_wire::HEADER_BYTES;
use warikomi_wire::wire_time;

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

// Tags of the timers.
const TIMER_PHY: u32 = 0;
const TIMER_MODERATION: u32 = 1;
const TIMER_COUNT: u32 = 2;
const TIMER_TX: u32 = 3;
const TIMER_LATE: u32 = 4;

/// What TCTR counts: cycles of the 125 MHz clock of PCI Express. Not documented for this chip.
const TIMER_TICK: Span = Span::from_ns(8);

/// Memory on the chip for frames that wait for the line; the longest chain has room in it.
const MEMORY_BYTES: usize = 64 << 10;

/// What is given from outside.
#[derive(Clone, Copy, Debug)]
struct Setup {
    bus: Option<Bus>,
    line_bps: Option<u64>,
    /// The longest frame in bytes without check sequence, with a tag.
    max_frame_bytes: usize,
}

impl Setup {
    /// An engine, if anything takes time.
    fn engine(&self) -> Option<Engine> {
        let line = self.line_bps.map(|bps| Line { bits_per_second: bps, frame_time: wire_time });
        let takes_time = self.bus.is_some() || line.is_some();
        takes_time.then(|| Engine::new(self.bus, line, MEMORY_BYTES))
    }
}

/// The model.
pub struct Rtl8168 {
    setup: Setup,
    file: RegisterFile,
    intr: Causes<2>,
    phy: Phy,
    rx: Receiver,
    tx: Transmitter,
    tally: Tally,
    ephy: Ephy,
    /// What is behind CSIAR and ERIAR.
    csi: Words,
    eri: Words,
    /// When TCTR was 0.
    timer_zero: Time,
    timer: Alarm,
}

impl Default for Rtl8168 {
    fn default() -> Self {
        Rtl8168::new()
    }
}

impl Rtl8168 {
    /// A chip that has just been powered on, with a gigabit partner at the other end of its cable,
    /// whose transfers take no time.
    pub fn new() -> Self {
        Rtl8168::with(None, None, None)
    }

    /// The same, whose transmit engine takes the time of this bus, and of a line of so many bits a
    /// second; and which neither sends nor takes IP packets of more than `mtu` bytes.
    pub fn with(bus: Option<Bus>, line_bps: Option<u64>, mtu: Option<u32>) -> Self {
        const TAG_BYTES: usize = 4;
        let longest = |mtu| mtu as usize + HEADER_BYTES + TAG_BYTES;
        let max_frame_bytes = mtu.map_or(usize::MAX, longest);
        Rtl8168::set_up(Setup { bus, line_bps, max_frame_bytes })
    }

    fn set_up(setup: Setup) -> Self {
        let mut chip = Rtl8168 {
            setup,
            file: RegisterFile::new(),
            intr: intr::causes(),
            phy: Phy::new(),
            rx: Receiver::new(setup.max_frame_bytes),
            tx: Transmitter::new(setup.engine()),
            tally: Tally::default(),
            ephy: Ephy::default(),
            csi: Words::new(),
            eri: Words::new(),
            timer_zero: Time::ZERO,
            timer: Alarm::new(TIMER_COUNT),
        };
        chip.take_over_file();
        chip
    }

    /// Brings what is kept in another form into line with the register file.
    fn take_over_file(&mut self) {
        self.rx.filter.accept = self.file.u8(regs::RX_CONFIG) & 0x3f;
        self.rx.filter.set_station(self.file.bytes(regs::MAC0));
        self.rx.filter.set_hash(self.file.bytes(regs::MAR0));
        self.rx.set_max_size(self.file.u16(regs::RX_MAX_SIZE));
        self.rx.set_offload(self.file.u16(regs::CPLUS_CMD));
    }

    fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let before = std::mem::replace(self, Rtl8168::set_up(self.setup));
        (self.phy, self.timer_zero) = (before.phy, cx.now());
        self.phy.power_on();
        self.rx.queue.keep_counters(&before.rx.queue);
        self.rx.set_link(self.phy.mode().is_some());
        self.file.set(regs::PHY_STATUS, self.phy.status_byte().into());
    }

    /// ChipCmd's reset bit: engines, interrupts and moderation; not the addresses, the
    /// configuration registers, the rings' addresses, the tally counters and the PHY.
    fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
        const CLEARED: [u16; 8] = [
            regs::CHIP_CMD,
            regs::TX_POLL,
            regs::TX_CONFIG,
            regs::RX_CONFIG,
            regs::RX_MISSED,
            regs::TIMER_INT,
            regs::RX_MAX_SIZE,
            regs::INTR_MITIGATE,
        ];
        CLEARED.iter().for_each(|&at| self.file.reset(regs::row_at(at.into())));
        self.rx.queue.reset(cx);
        self.tx.engine.reset();
        self.timer.cancel();
        self.intr.reset(cx);
        self.take_over_file();
    }

    /// The link has come, gone or changed its speed.
    fn link_changed(&mut self, cx: &mut NicContext<'_>) {
        self.file.set(regs::PHY_STATUS, self.phy.status_byte().into());
        self.rx.set_link(self.phy.mode().is_some());
        self.moderate(cx);
        self.intr.report(cx, regs::LINK_CHG);
    }

    fn moderate(&mut self, cx: &mut NicContext<'_>) {
        let mbps = self.phy.mode().map_or(1_000, |mode| mode.mbps);
        let settings = [regs::INTR_MITIGATE, regs::CPLUS_CMD].map(|at| self.file.u16(at));
        intr::moderate(&mut self.intr, cx, settings, mbps);
    }

    /// TCTR's present value.
    fn timer_count(&self, now: Time) -> u32 {
        (now.since(self.timer_zero).as_ps() / TIMER_TICK.as_ps()) as u32
    }

    /// TimerInt or TCTR was written: the interrupt comes when they are equal; never for 0.
    fn set_timer(&mut self, cx: &mut NicContext<'_>) {
        let goal = self.file.u32(regs::TIMER_INT);
        if goal == 0 {
            return self.timer.cancel();
        }
        let ticks = goal.wrapping_sub(self.timer_count(cx.now()));
        self.timer.set(cx, cx.now() + TIMER_TICK * u64::from(ticks.max(1)));
    }

    /// Brings registers that live elsewhere into the file, before it is read.
    fn refresh(&mut self, now: Time, row: u16) {
        let value: u64 = match row {
            regs::INTR_MASK => self.intr.mask().into(),
            regs::INTR_STATUS => self.intr.status().into(),
            regs::TIMER_COUNT => self.timer_count(now).into(),
            _ => return,
        };
        self.file.set(row, value);
    }

    /// The written bytes of one register: `value`, where `mask` has ones.
    fn write_register(
        &mut self,
        cx: &mut NicContext<'_>,
        (row, access): (u16, Access),
        value: u64,
        mask: u64,
    ) {
        let locked = self.file.u8(regs::CFG9346) & regs::CFG9346_MODE != regs::CFG9346_UNLOCKED;
        match row {
            _ if access == Access::ReadOnly => return,
            regs::MAC0 | regs::MAC4 | regs::CONFIG0..=regs::CONFIG5 if locked => return,
            regs::INTR_STATUS => return self.intr.acknowledge(cx, (value & mask) as u32),
            regs::RX_MISSED => return self.file.set(row, 0),
            regs::TIMER_COUNT => {
                self.timer_zero = cx.now();
                return self.set_timer(cx);
            }
            regs::INTR_MASK => self.refresh(cx.now(), row),
            _ => {}
        }
        let width = usize::from(regs::row_at(row.into()).width);
        let merged = self.file.get(row.into(), width) & !mask | value & mask;
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
                self.tx.set_ring(tx::NORMAL, ring(&self.file, regs::TX_DESC_LOW));
            }
            regs::TX_HIGH_DESC_LOW | regs::TX_HIGH_DESC_HIGH => {
                self.tx.set_ring(tx::HIGH, ring(&self.file, regs::TX_HIGH_DESC_LOW));
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
            regs::TIMER_INT => self.set_timer(cx),
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
            regs::OCPAR | regs::GPHY_OCP | regs::EFUSEAR => indirect::hollow(value),
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
            self.transmit(cx, tx::HIGH);
        }
        if command & regs::POLL_NORMAL != 0 {
            self.transmit(cx, tx::NORMAL);
        }
        if command & regs::POLL_SOFTWARE_INTERRUPT != 0 {
            self.intr.report(cx, regs::SW_INT);
        }
    }

    /// Cfg9346: the EEPROM is loaded anew, which restores the address; its serial lines lead
    /// nowhere.
    fn eeprom_command(&mut self, command: u8) {
        if command & regs::CFG9346_MODE == regs::CFG9346_AUTOLOAD {
            self.file.reset(regs::row_at(regs::MAC0.into()));
            self.file.reset(regs::row_at(regs::MAC4.into()));
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
            let aligned = address & !(stats::DUMP_BYTES as u64 - 1);
            if cx.dma_write(aligned, &self.tally.dump()).is_err() {
                self.intr.report(cx, regs::SYS_ERR);
            }
        }
        let done = command & !(regs::COUNTER_DUMP | regs::COUNTER_RESET);
        self.file.set(regs::COUNTER_LOW, done.into());
    }
}

/// The rows that an access of `width` bytes at `offset` touches, each once, with the position of
/// its first byte relative to the access (negative if the access starts behind it).
fn rows(
    offset: u64,
    width: Width,
) -> impl Iterator<Item = (&'static crate::register::Register, i32)> {
    let end = (offset + width.bytes() as u64).min(regs::BYTES as u64);
    let mut at = offset.min(end);
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let row = regs::row_at(at as usize);
            at = u64::from(row.offset + row.width);
            (row, i32::from(row.offset) - offset as i32)
        })
    })
}

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
        if offset >= regs::BYTES as u64 {
            return 0;
        }
        for (row, _) in rows(offset, width) {
            self.refresh(cx.now(), row.offset);
        }
        self.file.get(offset as usize, width.bytes())
    }

    fn reg_write(
        &mut self,
        cx: &mut NicContext<'_>,
        _bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) {
        if offset >= regs::BYTES as u64 {
            return;
        }
        for (row, position) in rows(offset, width) {
            // Bring the access's bytes to where they belong in the register.
            let shifted = |bits: u64| {
                let shift = 8 * position.unsigned_abs();
                if position >= 0 { bits >> shift } else { bits << shift }
            };
            let whole = u64::MAX >> (64 - 8 * u32::from(row.width));
            let mask = shifted(width.mask()) & whole;
            self.write_register(cx, (row.offset, row.access), shifted(value) & mask, mask);
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
            TIMER_PHY if self.phy.timer(cx) => self.link_changed(cx),
            TIMER_MODERATION => self.intr.timer(cx),
            TIMER_COUNT if self.timer.event(cx) => self.intr.report(cx, regs::PCS_TIMEOUT),
            TIMER_TX => self.transmit_rest(cx),
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
        if self.phy.set_partner(cx, link) {
            self.link_changed(cx);
        }
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
}

/// Power management (PCI Bus Power Management Interface 1.2, section 3.2): present and without
/// effect. It claims no wake-up, so that Linux leaves the function in D0 while it is idle.
fn power_management() -> Capability {
    // Version 3; D3hot keeps the state.
    Capability { bytes: vec![0x01, 0, 0x03, 0, 0x08, 0, 0, 0], writable: vec![0, 0, 0, 0, 0x03] }
}

/// PCI Express endpoint (PCI Express Base 1.1, section 7.8): one lane at 2.5 GT/s, payloads of up
/// to 128 bytes, read requests of up to 512.
fn pci_express() -> Capability {
    let mut bytes = vec![0; 20];
    (bytes[0], bytes[2]) = (0x10, 0x01);
    bytes[4..8].copy_from_slice(&0x0000_8000_u32.to_le_bytes());
    bytes[8..10].copy_from_slice(&0x2810_u16.to_le_bytes());
    bytes[12..16].copy_from_slice(&0x0000_0011_u32.to_le_bytes());
    bytes[18..20].copy_from_slice(&0x1011_u16.to_le_bytes());
    let mut writable = vec![0; 18];
    writable[8..10].copy_from_slice(&0x7fff_u16.to_le_bytes());
    writable[16..18].copy_from_slice(&0x01f3_u16.to_le_bytes());
    Capability { bytes, writable }
}
