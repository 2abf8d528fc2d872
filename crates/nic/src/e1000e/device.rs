//! What the card consists of, and how it is reset.

use warikomi_wire::{HEADER_BYTES, wire_time};

use super::intr::Interrupts;
use super::nvm::Nvm;
use super::regs::{self, Registers};
use super::rx_queue::RxRing;
use super::stamps::SystemTime;
use super::tx_queue::Transmitter;
use super::{mdio, timers};
use crate::bus::Bus;
use crate::phy::Phy;
use crate::queue::{Engine, Line, RxQueue};
use crate::{MAX_FRAME_BYTES, NicContext};

/// Memory on the card for frames that wait for the line; the longest chain has room in it.
const MEMORY_BYTES: usize = 512 << 10;

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
pub struct E1000e {
    pub(super) setup: Setup,
    pub(super) file: Registers,
    /// The register that IODATA is.
    pub(super) io_address: u32,
    pub(super) intr: Interrupts,
    pub(super) phy: Phy,
    pub(super) nvm: Nvm,
    pub(super) rx: [RxQueue<RxRing>; regs::QUEUES as usize],
    pub(super) tx: Transmitter,
    pub(super) time: SystemTime,
    /// The MAC has a link.
    pub(super) link: bool,
}

impl Default for E1000e {
    fn default() -> Self {
        E1000e::new()
    }
}

impl E1000e {
    /// A card that has just been powered on, with a gigabit partner at the other end of its cable,
    /// whose transfers take no time.
    pub fn new() -> Self {
        E1000e::with(None, None, None)
    }

    /// The same, whose transmit engine takes the time of this bus, and of a line of so many bits a
    /// second; and which neither sends nor takes IP packets of more than `mtu` bytes.
    pub fn with(bus: Option<Bus>, line_bps: Option<u64>, mtu: Option<u32>) -> Self {
        const TAG_BYTES: usize = 4;
        let longest = |mtu| mtu as usize + HEADER_BYTES + TAG_BYTES;
        let max_frame_bytes = mtu.map_or(MAX_FRAME_BYTES, longest).min(MAX_FRAME_BYTES);
        E1000e::set_up(Setup { bus, line_bps, max_frame_bytes })
    }

    fn set_up(setup: Setup) -> Self {
        let file = Registers::new(&regs::TABLE);
        let rx = [0, 1]
            .map(|queue| RxQueue::new(RxRing::new(&file, queue), timers::LATE + u32::from(queue)));
        E1000e {
            setup,
            file,
            io_address: 0,
            intr: Interrupts::new(),
            phy: Phy::new(mdio::SORT, timers::PHY),
            nvm: Nvm::new(),
            rx,
            tx: Transmitter::new(setup.engine()),
            time: SystemTime::default(),
            link: true,
        }
    }

    pub(super) fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let before = std::mem::replace(self, E1000e::set_up(self.setup));
        self.phy = before.phy;
        self.phy.power_on();
        for (queue, before) in self.rx.iter_mut().zip(&before.rx) {
            queue.keep_counters(before);
        }
        self.link = self.has_link();
    }

    /// CTRL's reset bit (82574, 4.4): all registers and engines; not the PHY. The station's address is loaded
    /// from the EEPROM.
    pub(super) fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
        self.rx.iter_mut().for_each(|queue| queue.reset(cx));
        self.tx.engine.reset();
        self.tx.contexts = Default::default();
        self.file = Registers::new(&regs::TABLE);
        self.load_address();
        self.time = SystemTime::default();
        self.link = self.has_link();
        self.intr.reset(cx);
        self.rings_changed(cx);
        for queue in 0..regs::QUEUES {
            self.tx.engine.queue_mut(queue).format.take_over(&self.file, queue);
        }
    }

    /// The station's address is that of the EEPROM again.
    pub(super) fn load_address(&mut self) {
        const VALID: u64 = 1 << 63;
        self.file.set_pair(regs::RAL, self.nvm.station() | VALID);
    }

    /// Brings the receive rings into line with the registers.
    pub(super) fn rings_changed(&mut self, cx: &mut NicContext<'_>) {
        for (queue, ring) in (0..).zip(&mut self.rx) {
            let format = RxRing::new(&self.file, queue);
            if format.differs(&ring.format) {
                ring.settle(cx);
            }
            ring.format = format;
        }
    }

    /// Whether the MAC has a link: the PHY has, and the driver lets it.
    pub(super) fn has_link(&self) -> bool {
        self.phy.mode().is_some() && self.file.get(regs::CTRL) & regs::CTRL_SET_LINK_UP != 0
    }

    /// The link may have come or gone.
    pub(super) fn link_may_have_changed(&mut self, cx: &mut NicContext<'_>) {
        let link = self.has_link();
        if std::mem::replace(&mut self.link, link) != link {
            self.intr.report(cx, regs::LSC);
        }
    }

    /// STATUS.
    pub(super) fn status(&self) -> u32 {
        let master = match self.file.get(regs::CTRL) & regs::CTRL_MASTER_DISABLE {
            0 => regs::STATUS_MASTER,
            _ => 0,
        };
        let Some(mode) = self.phy.mode().filter(|_| self.link) else { return master };
        let speed = match mode.mbps {
            1_000 => regs::STATUS_SPEED_1000,
            100 => regs::STATUS_SPEED_100,
            _ => 0,
        };
        let duplex = if mode.full_duplex { regs::STATUS_FULL_DUPLEX } else { 0 };
        master | speed | duplex | regs::STATUS_LINK_UP
    }
}
