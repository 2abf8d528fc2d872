//! What the chip consists of, and how it is reset.

use warikomi_clock::Span;
use warikomi_wire::{HEADER_BYTES, wire_time};

use super::chip::{Chip, MAX_FRAME_BYTES};
use super::eeprom::Eeprom;
use super::rx_queue::Receiver;
use super::tx_queue::Transmitter;
use super::{intr, regs, timers};
use crate::bus::Bus;
use crate::phy::{self, Phy};
use crate::queue::{Causes, Engine, Line};
use crate::realtek::tally::Tally;
use crate::realtek::timer::Timer;
use crate::register::RegisterFile;
use crate::{FCS_BYTES, NicContext};

/// The transmit FIFO (RTL8139C Rev. 1.4, section 1).
const MEMORY_BYTES: usize = 2 << 10;

/// OUI and model of the PHY; no register of the window tells them.
const PHY: phy::Sort = phy::Sort {
    id: 0x0000_8200,
    gigabit: false,
    keeps_settings: false,
    common: 0,
    page_select: 0x1f,
    page_shift: 0,
};

/// What TCTR counts: cycles of a PCI bus at 33 MHz (RTL8139C Rev. 1.4, section 5, TCTR).
const TIMER_TICK: Span = Span::from_ns(30);

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
pub struct Rtl8139 {
    pub(super) chip: &'static Chip,
    pub(super) setup: Setup,
    pub(super) file: RegisterFile<{ regs::BYTES }>,
    /// What the registers hold that are TSD0 and TSD1 in the C mode.
    pub(super) counters_at: [u32; 2],
    pub(super) intr: Causes<0>,
    pub(super) phy: Phy,
    /// The link has come or gone since the last reset.
    pub(super) link_changed: bool,
    pub(super) eeprom: Eeprom,
    pub(super) rx: Receiver,
    pub(super) tx: Transmitter,
    pub(super) tally: Tally,
    pub(super) timer: Timer,
}

impl Rtl8139 {
    /// A chip that has just been powered on, with a partner at the other end of its cable, whose transfers take no
    /// time.
    pub fn new(chip: &'static Chip) -> Self {
        Rtl8139::with(chip, None, None, None)
    }

    /// The same, whose transmit engine takes the time of this bus, and of a line of this rate in bits a second; and which
    /// neither sends nor takes IP packets of more than `mtu` bytes.
    pub fn with(
        chip: &'static Chip,
        bus: Option<Bus>,
        line_bps: Option<u64>,
        mtu: Option<u32>,
    ) -> Self {
        const TAG_BYTES: usize = 4;
        let longest = |mtu| mtu as usize + HEADER_BYTES + TAG_BYTES;
        let max_frame_bytes = mtu.map_or(MAX_FRAME_BYTES, longest).min(MAX_FRAME_BYTES);
        let setup = Setup { bus, line_bps, max_frame_bytes };
        Rtl8139::set_up(chip, setup)
    }

    fn set_up(chip: &'static Chip, setup: Setup) -> Self {
        let file = RegisterFile::new(chip.window);
        let mut device = Rtl8139 {
            chip,
            setup,
            counters_at: [0; 2],
            intr: intr::causes(chip.causes),
            phy: Phy::new(PHY, timers::PHY),
            link_changed: false,
            eeprom: Eeprom::new(file.bytes(regs::MAC0)),
            file,
            rx: Receiver::new(setup.max_frame_bytes + FCS_BYTES),
            tx: Transmitter::new([setup.engine(), setup.engine()]),
            tally: Tally::default(),
            timer: Timer::new(TIMER_TICK, timers::COUNT),
        };
        device.take_over_file();
        device
    }

    /// Brings what is kept in another form into line with the register file.
    pub(super) fn take_over_file(&mut self) {
        self.rx.filter.accept = self.file.u8(regs::RX_CONFIG) & 0x3f;
        self.rx.filter.set_station(self.file.bytes(regs::MAC0));
        self.rx.filter.set_hash(self.file.bytes(regs::MAR0));
        let cplus = self.cplus_command();
        self.rx.strip_tag = cplus & regs::CPLUS_RX_VLAN != 0;
        self.rx.check = cplus & regs::CPLUS_RX_CHECKSUM != 0;
    }

    /// CpCmd; 0 of a chip without it.
    pub(super) fn cplus_command(&self) -> u16 {
        if self.chip.cplus { self.file.u16(regs::CPLUS_CMD) } else { 0 }
    }

    /// Whether registers mean what they mean in the C+ mode.
    pub(super) fn is_cplus(&self) -> bool {
        self.cplus_command() & (regs::CPLUS_RX_ENABLE | regs::CPLUS_TX_ENABLE) != 0
    }

    pub(super) fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let before = std::mem::replace(self, Rtl8139::set_up(self.chip, self.setup));
        self.phy = before.phy;
        self.timer.restart(cx, 0);
        self.phy.power_on();
        self.rx.keep_counters(&before.rx);
        self.rx.link = self.phy.mode().is_some();
    }

    /// ChipCmd's reset bit: engines, interrupts, and what is set for both directions; not the addresses, the
    /// configuration registers, the buffers' addresses, the tally counters and the PHY.
    pub(super) fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
        const CLEARED: [u16; 7] = [
            regs::CHIP_CMD,
            regs::RX_READ,
            regs::TX_CONFIG,
            regs::RX_CONFIG,
            regs::RX_MISSED,
            regs::TIMER_INT,
            regs::MULTI_INTR,
        ];
        CLEARED.iter().for_each(|&at| self.file.reset(at));
        if self.chip.cplus {
            self.file.reset(regs::CPLUS_CMD);
        }
        self.rx.reset(cx);
        self.tx.reset();
        self.timer.cancel();
        self.link_changed = false;
        self.intr.reset(cx);
        self.take_over_file();
        self.name_bytes(cx, false);
    }

    /// RBSTART or RxConfig is written.
    pub(super) fn name_bytes(&mut self, cx: &mut NicContext<'_>, again: bool) {
        let (base, config) = (self.file.u32(regs::RX_BUFFER), self.file.u32(regs::RX_CONFIG));
        if self.rx.set_bytes(cx, base, config, again) {
            self.file.reset(regs::RX_READ);
        }
    }

    /// The link has come, gone or changed its speed.
    pub(super) fn link_changed(&mut self, cx: &mut NicContext<'_>) {
        self.rx.link = self.phy.mode().is_some();
        self.link_changed = true;
        self.intr.report(cx, regs::LINK_CHG);
    }
}
