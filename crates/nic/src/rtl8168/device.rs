//! What the chip consists of, and how it is reset.

use warikomi_clock::Span;
use warikomi_wire::{HEADER_BYTES, wire_time};

use super::indirect::{Ephy, Words};
use super::regs::RegisterFile;
use super::rx_queue::Receiver;
use super::tx_queue::Transmitter;
use super::{intr, regs, timers};
use crate::NicContext;
use crate::bus::Bus;
use crate::phy::{self, Phy};
use crate::queue::{Causes, Engine, Line};
use crate::realtek::tally::Tally;
use crate::realtek::timer::Timer;

/// Memory on the chip for frames that wait for the line; the longest chain has room in it.
const MEMORY_BYTES: usize = 64 << 10;

/// OUI and model of a PHY for which Linux has a driver (drivers/net/phy/realtek.c): an RTL8211B.
const PHY: phy::Sort = phy::Sort {
    id: 0x001c_c912,
    gigabit: true,
    keeps_settings: false,
    common: 0,
    page_select: 0x1f,
    page_shift: 0,
};

/// What TCTR counts: cycles of the 125 MHz clock of PCI Express. Not documented for this chip.
const TIMER_TICK: Span = Span::from_ns(8);

/// What is given from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    bus: Option<Bus>,
    line_bps: Option<u64>,
    /// The longest frame in bytes without check sequence, with a tag.
    pub(super) max_frame_bytes: usize,
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
    pub(super) setup: Setup,
    pub(super) file: RegisterFile,
    pub(super) intr: Causes<2>,
    pub(super) phy: Phy,
    pub(super) rx: Receiver,
    pub(super) tx: Transmitter,
    pub(super) tally: Tally,
    pub(super) ephy: Ephy,
    /// What is behind CSIAR and ERIAR.
    pub(super) csi: Words,
    pub(super) eri: Words,
    pub(super) timer: Timer,
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
            file: RegisterFile::new(&regs::WINDOW),
            intr: intr::causes(),
            phy: Phy::new(PHY, timers::PHY),
            rx: Receiver::new(setup.max_frame_bytes),
            tx: Transmitter::new(setup.engine()),
            tally: Tally::default(),
            ephy: Ephy::default(),
            csi: Words::new(),
            eri: Words::new(),
            timer: Timer::new(TIMER_TICK, timers::COUNT),
        };
        chip.take_over_file();
        chip
    }

    /// Brings what is kept in another form into line with the register file.
    pub(super) fn take_over_file(&mut self) {
        self.rx.filter.accept = self.file.u8(regs::RX_CONFIG) & 0x3f;
        self.rx.filter.set_station(self.file.bytes(regs::MAC0));
        let mut hash = self.file.bytes(regs::MAR0);
        hash.reverse();
        self.rx.filter.set_hash(hash);
        self.rx.set_max_size(self.file.u16(regs::RX_MAX_SIZE));
        self.rx.set_offload(self.file.u16(regs::CPLUS_CMD));
    }

    pub(super) fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let before = std::mem::replace(self, Rtl8168::set_up(self.setup));
        self.phy = before.phy;
        self.timer.restart(cx, 0);
        self.phy.power_on();
        self.rx.queue.keep_counters(&before.rx.queue);
        self.rx.set_link(self.phy.mode().is_some());
        self.file.set(regs::PHY_STATUS, self.status_byte().into());
    }

    /// ChipCmd's reset bit: engines, interrupts and moderation; not the addresses, the
    /// configuration registers, the rings' addresses, the tally counters and the PHY.
    pub(super) fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
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
        CLEARED.iter().for_each(|&at| self.file.reset(at));
        self.rx.queue.reset(cx);
        self.tx.engine.reset();
        self.timer.cancel();
        self.intr.reset(cx);
        self.take_over_file();
    }

    /// PHYstatus (Linux 6.1 r8169_main.c, enum rtl_register_content).
    fn status_byte(&self) -> u8 {
        let Some(mode) = self.phy.mode() else { return 0 };
        let speed = match mode.mbps {
            1_000 => 0x10,
            100 => 0x08,
            _ => 0x04,
        };
        speed | 0x02 | u8::from(mode.full_duplex)
    }

    /// The link has come, gone or changed its speed.
    pub(super) fn link_changed(&mut self, cx: &mut NicContext<'_>) {
        self.file.set(regs::PHY_STATUS, self.status_byte().into());
        self.rx.set_link(self.phy.mode().is_some());
        self.moderate(cx);
        self.intr.report(cx, regs::LINK_CHG);
    }

    pub(super) fn moderate(&mut self, cx: &mut NicContext<'_>) {
        let mbps = self.phy.mode().map_or(1_000, |mode| mode.mbps);
        let settings = [regs::INTR_MITIGATE, regs::CPLUS_CMD].map(|at| self.file.u16(at));
        intr::moderate(&mut self.intr, cx, settings, mbps);
    }
}
