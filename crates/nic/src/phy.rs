//! A built-in PHY, as the driver sees it through a register of the chip for that, or in the chip's window.
//!
//! Registers 0 to 15 of page 0 are those of IEEE 802.3 clause 22.2.4; bits are cited by its
//! section. Everything else is a store, because drivers patch undocumented registers and
//! read some of them back.
//!
//! A negotiation takes [`NEGOTIATION`], not the two seconds of a real one, so that an experiment
//! does not spend its time waiting; but it takes time, the link is down meanwhile, and its end is
//! reported by a link-change interrupt.

use warikomi_clock::Span;

use crate::queue::Alarm;
use crate::{Link, NicContext, Offer};

/// How long a negotiation takes: longer than a driver needs to come and see that the link is down. It
/// looks at the status twice, and a link that is up again by then has never been down for it.
pub(crate) const NEGOTIATION: Span = Span::from_ms(20);

/// What sort of PHY it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    /// OUI and model.
    pub(crate) id: u32,
    /// It does 1000BASE-T, besides 10BASE-T and 100BASE-TX.
    pub(crate) gigabit: bool,
    /// A reset by the control register leaves the settings as they are, and makes them take effect.
    pub(crate) keeps_settings: bool,
    /// Registers that are the same ones on every page, from the first on.
    pub(crate) common: usize,
    /// The register in which a page is selected, and the bits of it below the page's number.
    pub(crate) page_select: usize,
    pub(crate) page_shift: u32,
}

const BMCR: usize = 0;
const BMSR: usize = 1;
const PHYSID1: usize = 2;
const PHYSID2: usize = 3;
const ADVERTISE: usize = 4;
const LPA: usize = 5;
const EXPANSION: usize = 6;
const CTRL1000: usize = 9;
const STAT1000: usize = 10;
const ESTATUS: usize = 15;
const PAGES: usize = 32;

// 22.2.4.1, control register.
const BMCR_RESET: u16 = 0x8000;
const BMCR_LOOPBACK: u16 = 0x4000;
const BMCR_SPEED_100: u16 = 0x2000;
const BMCR_NEGOTIATE: u16 = 0x1000;
const BMCR_POWER_DOWN: u16 = 0x0800;
const BMCR_RESTART: u16 = 0x0200;
const BMCR_FULL_DUPLEX: u16 = 0x0100;
const BMCR_SPEED_1000: u16 = 0x0040;
/// Bits that keep what is written; the last only if there is 1000BASE-T.
const BMCR_STORED: u16 = 0x7d00;

// 22.2.4.2, status register.
/// 10 and 100 Mbit/s in both duplex modes, no preamble needed, can negotiate, extended registers.
const BMSR_ABILITIES: u16 = 0x7849;
/// Extended status: a PHY with 1000BASE-T.
const BMSR_EXTENDED_STATUS: u16 = 0x0100;
const BMSR_NEGOTIATED: u16 = 0x0020;
const BMSR_LINK: u16 = 0x0004;

// 28.2.4.1.3 and annex 28B, advertisement and link partner ability.
const ABLE_10_HALF: u16 = 0x0020;
const ABLE_10_FULL: u16 = 0x0040;
const ABLE_100_HALF: u16 = 0x0080;
const ABLE_100_FULL: u16 = 0x0100;
const SELECTOR_802_3: u16 = 0x0001;
const ACKNOWLEDGE: u16 = 0x4000;
/// Every 10 and 100 Mbit/s mode.
const ADVERTISE_DEFAULT: u16 = 0x01e1;
/// Both pause bits, which a PHY with 1000BASE-T advertises.
const ADVERTISE_PAUSE: u16 = 0x0c00;

// 40.5.1.1, 1000BASE-T control and status.
const ADVERTISE_1000_FULL: u16 = 0x0200;
const ADVERTISE_1000_HALF: u16 = 0x0100;
const PARTNER_1000_FULL: u16 = 0x0800;
const RECEIVERS_OK: u16 = 0x3000;
/// 1000BASE-T, full and half duplex.
const ESTATUS_1000T: u16 = 0x3000;

/// What this end sees of its partner.
#[derive(Clone, Copy, Debug, Default)]
struct Partner {
    /// Its 10 and 100 Mbit/s modes.
    modes: u16,
    /// It does 1000BASE-T.
    gigabit: bool,
    /// It has a link with a card that is forced to that.
    follows_gigabit: bool,
    negotiates: bool,
}

/// What the two ends have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) mbps: u32,
    pub(crate) full_duplex: bool,
}

#[derive(Debug)]
pub(crate) struct Phy {
    sort: Sort,
    page: usize,
    pages: Box<[[u16; 32]; PAGES]>,
    partner: Link,
    mode: Option<Mode>,
    /// The link has failed since the status register was last read (22.2.4.2.13).
    failed: bool,
    alarm: Alarm,
}

impl Phy {
    /// A PHY that has had the time to negotiate with a partner of 1,000 Mbit/s. Its timer has this tag.
    pub(crate) fn new(sort: Sort, tag: u32) -> Self {
        let mut phy = Phy {
            sort,
            page: 0,
            pages: Box::new([[0; 32]; PAGES]),
            partner: Link::Up { mbps: 1_000 },
            mode: None,
            failed: false,
            alarm: Alarm::new(tag),
        };
        phy.defaults();
        phy.mode = phy.outcome();
        phy
    }

    /// Power-on; the cable stays as it is.
    pub(crate) fn power_on(&mut self) {
        let alarm = Alarm::new(self.alarm.tag());
        (self.page, self.failed, self.alarm) = (0, false, alarm);
        self.pages.iter_mut().for_each(|page| page.fill(0));
        self.defaults();
        self.mode = self.outcome();
    }

    /// Negotiation on, and every mode advertised.
    fn defaults(&mut self) {
        let standard = &mut self.pages[0];
        if self.sort.gigabit {
            standard[BMCR] = BMCR_NEGOTIATE | BMCR_FULL_DUPLEX | BMCR_SPEED_1000;
            standard[ADVERTISE] = ADVERTISE_DEFAULT | ADVERTISE_PAUSE;
            standard[CTRL1000] = ADVERTISE_1000_FULL | ADVERTISE_1000_HALF;
        } else {
            standard[BMCR] = BMCR_NEGOTIATE | BMCR_FULL_DUPLEX | BMCR_SPEED_100;
            standard[ADVERTISE] = ADVERTISE_DEFAULT;
        }
    }

    /// The speed and duplex in use; `None` while there is no link.
    #[inline]
    pub(crate) fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Reads a register of the selected page.
    pub(crate) fn read(&mut self, register: usize) -> u16 {
        match self.place(register) {
            (_, register) if register == self.sort.page_select => self.page as u16,
            (0, BMSR) => self.read_status(),
            (0, PHYSID1) => (self.sort.id >> 16) as u16,
            (0, PHYSID2) => self.sort.id as u16,
            (0, LPA) => self.partner_ability(),
            // 28.2.4.1.5: the partner negotiates, and a page has come from it.
            (0, EXPANSION) => {
                if self.negotiated() && self.seen().negotiates {
                    3
                } else {
                    0
                }
            }
            (0, STAT1000) => self.partner_1000(),
            (0, ESTATUS) if self.sort.gigabit => ESTATUS_1000T,
            (page, register) => self.pages[page][register],
        }
    }

    /// Where a register is: its page, and its number there.
    fn place(&self, register: usize) -> (usize, usize) {
        let register = register & 0x1f;
        (if register < self.sort.common { 0 } else { self.page }, register)
    }

    /// The page that is selected.
    pub(crate) fn page(&self) -> usize {
        self.page
    }

    /// Writes a register of the selected page. Returns whether the link has changed.
    pub(crate) fn write(&mut self, cx: &mut NicContext<'_>, register: usize, value: u16) -> bool {
        match self.place(register) {
            (_, register) if register == self.sort.page_select => {
                self.page = usize::from(value >> self.sort.page_shift) % PAGES;
            }
            (0, BMCR) => return self.control(cx, value),
            (0, BMSR | PHYSID1 | PHYSID2 | LPA | EXPANSION | STAT1000 | ESTATUS) => {}
            (page, register) => self.pages[page][register] = value,
        }
        false
    }

    /// A reset from outside, by a line of its own: everything is as it was delivered, and the first page is selected.
    pub(crate) fn reset(&mut self, cx: &mut NicContext<'_>) -> bool {
        self.page = 0;
        self.defaults();
        cx.loop_back(false);
        self.negotiate(cx)
    }

    /// The cable changes. Returns whether the link has.
    pub(crate) fn set_partner(&mut self, cx: &mut NicContext<'_>, partner: Link) -> bool {
        if partner == self.partner {
            return false;
        }
        self.partner = partner;
        if self.is_looped() { false } else { self.negotiate(cx) }
    }

    /// The negotiation timer's event. Returns whether the link has changed.
    pub(crate) fn timer(&mut self, cx: &mut NicContext<'_>) -> bool {
        if !self.alarm.event(cx) {
            return false;
        }
        let before = self.mode;
        self.mode = self.outcome();
        self.mode != before
    }

    /// The control register is written. Returns whether the link has changed.
    fn control(&mut self, cx: &mut NicContext<'_>, value: u16) -> bool {
        let changed = self.set_control(cx, value);
        cx.loop_back(self.is_looped());
        changed
    }

    fn set_control(&mut self, cx: &mut NicContext<'_>, value: u16) -> bool {
        let stored = BMCR_STORED | if self.sort.gigabit { BMCR_SPEED_1000 } else { 0 };
        if value & BMCR_RESET != 0 {
            match self.sort.keeps_settings {
                true => self.pages[0][BMCR] = value & stored,
                false => self.defaults(),
            }
            return self.negotiate(cx);
        }
        let old = std::mem::replace(&mut self.pages[0][BMCR], value & stored);
        let changed = (old ^ value) & stored != 0;
        if changed || value & BMCR_RESTART != 0 { self.negotiate(cx) } else { false }
    }

    /// Drops the link and starts over. Returns whether there was a link.
    fn negotiate(&mut self, cx: &mut NicContext<'_>) -> bool {
        let had_link = self.mode.take().is_some();
        self.failed |= had_link;
        if self.outcome().is_some() {
            self.alarm.set(cx, cx.now() + NEGOTIATION);
        } else {
            self.alarm.cancel();
        }
        had_link
    }

    /// What the other end of the cable hears of this PHY.
    pub(crate) fn offered(&self) -> Link {
        let standard = &self.pages[0];
        let control = standard[BMCR];
        let bits = match control & (BMCR_SPEED_100 | BMCR_SPEED_1000) {
            _ if control & (BMCR_POWER_DOWN | BMCR_LOOPBACK) != 0 => return Link::Down,
            _ if control & BMCR_NEGOTIATE != 0 => {
                let gigabit =
                    if self.sort.gigabit { standard[CTRL1000] & Offer::GIGABIT } else { 0 };
                Offer::NEGOTIATES | standard[ADVERTISE] & Offer::MODES | gigabit
            }
            0 => ABLE_10_FULL | ABLE_10_HALF,
            BMCR_SPEED_100 => ABLE_100_FULL | ABLE_100_HALF,
            BMCR_SPEED_1000 if self.sort.gigabit => Offer::GIGABIT,
            _ => return Link::Down, // reserved
        };
        Link::Phy(Offer::of(bits))
    }

    /// What a negotiation, or the forced setting, comes to with this partner.
    fn outcome(&self) -> Option<Mode> {
        let standard = &self.pages[0];
        let control = standard[BMCR];
        if control & BMCR_POWER_DOWN != 0 {
            return None;
        }
        let partner = self.seen();
        let mode = |mbps, full_duplex| Some(Mode { mbps, full_duplex });
        if !self.negotiates() {
            let full_duplex = control & BMCR_FULL_DUPLEX != 0;
            // A partner that negotiates finds out the speed and takes half duplex for granted (28.2.3.1).
            let (mbps, able) = match control & (BMCR_SPEED_100 | BMCR_SPEED_1000) {
                0 => (10, partner.modes & ABLE_10_HALF != 0),
                BMCR_SPEED_100 => (100, partner.modes & ABLE_100_HALF != 0),
                BMCR_SPEED_1000 => (1_000, partner.follows_gigabit),
                _ => (0, false), // reserved
            };
            return if able { mode(mbps, full_duplex) } else { None };
        }
        if partner.gigabit && standard[CTRL1000] & ADVERTISE_1000_FULL != 0 {
            return mode(1_000, true);
        }
        match standard[ADVERTISE] & partner.modes {
            common if common & ABLE_100_FULL != 0 => mode(100, true),
            common if common & ABLE_100_HALF != 0 => mode(100, false),
            common if common & ABLE_10_FULL != 0 => mode(10, true),
            common if common & ABLE_10_HALF != 0 => mode(10, false),
            _ => None,
        }
    }

    /// Whether what is sent comes back, and the cable is cut off (22.2.4.1.2).
    fn is_looped(&self) -> bool {
        self.pages[0][BMCR] & (BMCR_LOOPBACK | BMCR_POWER_DOWN) == BMCR_LOOPBACK
    }

    fn negotiates(&self) -> bool {
        self.pages[0][BMCR] & BMCR_NEGOTIATE != 0
    }

    fn seen(&self) -> Partner {
        let has_gigabit = self.sort.gigabit;
        match self.partner {
            // It hears itself, in whichever mode.
            _ if self.is_looped() => Partner {
                modes: Offer::MODES,
                gigabit: has_gigabit,
                follows_gigabit: has_gigabit,
                negotiates: true,
            },
            Link::Down => Partner::default(),
            Link::Up { mbps } => {
                let ten = if mbps >= 10 { ABLE_10_FULL | ABLE_10_HALF } else { 0 };
                let hundred = if mbps >= 100 { ABLE_100_FULL | ABLE_100_HALF } else { 0 };
                let gigabit = has_gigabit && mbps >= 1_000;
                Partner {
                    modes: ten | hundred,
                    gigabit,
                    follows_gigabit: gigabit,
                    negotiates: true,
                }
            }
            Link::Phy(offer) => {
                let (modes, negotiates) =
                    (offer.bits() & Offer::MODES, offer.has(Offer::NEGOTIATES));
                let gigabit = has_gigabit && offer.has(Offer::GIGABIT);
                match self.negotiates() {
                    // Its speed is found out, if it is one of those of which that is possible: never its duplex mode,
                    // and never 1000BASE-T, whose ends agree on a clock (28.2.3.1, 40.5.2).
                    true if !negotiates => Partner {
                        modes: modes & (ABLE_10_HALF | ABLE_100_HALF),
                        ..Partner::default()
                    },
                    _ => Partner {
                        modes,
                        gigabit,
                        follows_gigabit: gigabit && !negotiates,
                        negotiates,
                    },
                }
            }
        }
    }

    fn negotiated(&self) -> bool {
        self.mode.is_some() && self.negotiates()
    }

    /// A link failure stays visible until it has been read once (22.2.4.2.13).
    fn read_status(&mut self) -> u16 {
        let failed = std::mem::take(&mut self.failed);
        let link = if self.mode.is_some() && !failed { BMSR_LINK } else { 0 };
        let extended = if self.sort.gigabit { BMSR_EXTENDED_STATUS } else { 0 };
        BMSR_ABILITIES | extended | link | if self.negotiated() { BMSR_NEGOTIATED } else { 0 }
    }

    fn partner_ability(&self) -> u16 {
        if !self.negotiated() {
            return 0;
        }
        let partner = self.seen();
        partner.modes | if partner.negotiates { ACKNOWLEDGE | SELECTOR_802_3 } else { 0 }
    }

    fn partner_1000(&self) -> u16 {
        if self.negotiated() && self.seen().gigabit { PARTNER_1000_FULL | RECEIVERS_OK } else { 0 }
    }
}
