//! What the card consists of, and how it is reset.

use warikomi_clock::Span;

use super::intr::Interrupts;
use super::queues::{self, at};
use super::regs::{self, Registers};
use super::rx_queue::RxRing;
use super::tx_queue::{Transmitter, take_over};
use super::{phy, rss, timers};
use crate::NicContext;
use crate::bus::Bus;
use crate::intel::link;
use crate::intel::nvm::{self, Nvm};
use crate::intel::setup::Setup;
use crate::intel::stamps::SystemTime;
use crate::phy::Phy;
use crate::queue::RxQueue;

/// Words of its EEPROM besides those that all have: its version, identity of the function, no wake-up.
const IMAGE: [nvm::Word; 7] = [
    (0x05, 0x1500),
    (0x0b, regs::DEVICE),
    (0x0c, regs::VENDOR),
    (0x0d, regs::DEVICE),
    (0x0e, regs::VENDOR),
    (0x14, 0x0000),
    (0x24, 0x0000),
];
/// The clock of its system time: 62.5 MHz.
const TICK: Span = Span::from_ns(16);

/// The model.
pub struct Igb {
    pub(super) setup: Setup,
    pub(super) file: Registers,
    pub(super) intr: Interrupts,
    pub(super) phy: Phy,
    pub(super) nvm: Nvm,
    /// As many as there are queues.
    pub(super) rx: Vec<RxQueue<RxRing>>,
    pub(super) tx: Transmitter,
    pub(super) time: SystemTime,
    /// The MAC has a link.
    pub(super) link: bool,
    /// The receive queues that frames can go to, a bit each.
    pub(super) reached: u16,
}

impl Default for Igb {
    fn default() -> Self {
        Igb::new()
    }
}

impl Igb {
    /// A card that has just been powered on, with a gigabit partner at the other end of its cable,
    /// whose transfers take no time.
    pub fn new() -> Self {
        Igb::with(None, None, None)
    }

    /// The same, whose transmit engine takes the time of this bus, and of a line of this rate in bits a
    /// second; and which neither sends nor takes IP packets of more than `mtu` bytes.
    pub fn with(bus: Option<Bus>, line_bps: Option<u64>, mtu: Option<u32>) -> Self {
        Igb::set_up(Setup::new(bus, line_bps, mtu))
    }

    fn set_up(setup: Setup) -> Self {
        let file = Registers::new(&regs::TABLE);
        let ring = |queue| RxQueue::new(RxRing::new(&file, queue), timers::LATE + u32::from(queue));
        let (rx, reached) = ((0..regs::QUEUES).map(ring).collect(), rss::reached(&file));
        Igb {
            setup,
            file,
            intr: Interrupts::new(),
            phy: Phy::new(phy::SORT, timers::PHY),
            nvm: Nvm::new(&IMAGE),
            rx,
            tx: Transmitter::new(setup.engine()),
            time: SystemTime::new(TICK),
            link: true,
            reached,
        }
    }

    pub(super) fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let before = std::mem::replace(self, Igb::set_up(self.setup));
        self.phy = before.phy;
        self.phy.power_on();
        for (queue, before) in self.rx.iter_mut().zip(&before.rx) {
            queue.keep_counters(before);
        }
        self.take_link(cx);
    }

    /// CTRL's reset bit (82576, 4.3): all registers and engines; not the PHY. The station's address is loaded
    /// from the EEPROM.
    pub(super) fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
        self.rx.iter_mut().for_each(|queue| queue.reset(cx));
        self.tx.engine.reset();
        self.tx.contexts = Default::default();
        self.file = Registers::new(&regs::TABLE);
        self.load_address();
        self.time = SystemTime::new(TICK);
        self.take_link(cx);
        self.reached = rss::reached(&self.file);
        self.intr.reset(cx);
        for queue in 0..regs::QUEUES {
            self.ring_changed(cx, queue);
            take_over(&mut self.tx.engine.queue_mut(queue).format, &self.file, queue);
        }
    }

    /// The station's address is that of the EEPROM again.
    pub(super) fn load_address(&mut self) {
        const VALID: u64 = 1 << 63;
        self.file.set_pair(regs::RAL, self.nvm.station() | VALID);
    }

    /// Brings a receive ring into line with the registers.
    pub(super) fn ring_changed(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        let format = RxRing::new(&self.file, queue);
        let ring = &mut self.rx[usize::from(queue)];
        if format.differs(&ring.format) {
            ring.settle(cx);
        }
        ring.format = format;
    }

    /// Switches receive queues on and off, as RCTL and each one's RXDCTL say.
    pub(super) fn enable_receive(&mut self, cx: &mut NicContext<'_>) {
        let all = self.file.get(regs::RCTL) & regs::RCTL_ENABLE != 0;
        for (queue, ring) in (0..).zip(&mut self.rx) {
            let control = self.file.get(queues::register(queues::RX, queue, at::CONTROL));
            ring.enable(cx, all && control & queues::ENABLED != 0);
        }
    }

    /// Whether the MAC has a link: the PHY has, and the driver lets it.
    pub(super) fn has_link(&self) -> bool {
        self.phy.mode().is_some() && self.file.get(regs::CTRL) & regs::CTRL_SET_LINK_UP != 0
    }

    /// The link is as it is after a reset, and no interrupt tells of it.
    fn take_link(&mut self, cx: &mut NicContext<'_>) {
        self.link = self.has_link();
        self.tx.engine.set_link(cx, self.link);
    }

    /// The link may have come or gone.
    pub(super) fn link_may_have_changed(&mut self, cx: &mut NicContext<'_>) {
        let link = self.has_link();
        if std::mem::replace(&mut self.link, link) != link {
            self.intr.report(cx, regs::LSC);
            self.transmit_by_link(cx);
        }
    }

    /// STATUS.
    pub(super) fn status(&self) -> u32 {
        link::status(&self.file, self.phy.mode().filter(|_| self.link))
    }
}
