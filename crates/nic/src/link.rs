//! What is at the other end of a cable.

/// The state of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing at the other end.
    Down,
    /// A partner that negotiates up to this speed, in Mbit/s: 10, 100 or 1,000, full duplex. It follows a card whose
    /// speed is forced.
    Up {
        /// Speed in Mbit/s.
        mbps: u32,
    },
    /// Another PHY, which sends this.
    Phy(Offer),
}

/// What a PHY sends to the other end of its cable (IEEE 802.3, 28.2.1 and 40.5.1): the modes that it advertises, or the
/// signal of the one to which it is forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer(u16);

impl Offer {
    /// 10BASE-T and 100BASE-TX, half and full duplex: the bits of the advertisement register (annex 28B).
    pub const MODES: u16 = 0x01e0;
    /// 1000BASE-T, full duplex: the bit of its control register.
    pub const GIGABIT: u16 = 0x0200;
    /// It negotiates: the bit of the control register (22.2.4.1).
    pub const NEGOTIATES: u16 = 0x1000;

    /// An offer of these bits and no others.
    pub fn from_bits(bits: u16) -> Option<Offer> {
        let known = Self::MODES | Self::GIGABIT | Self::NEGOTIATES;
        (bits & !known == 0).then_some(Offer(bits))
    }

    /// The bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether one of these bits is in it.
    pub(crate) fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    /// The bits, but for those that no offer has.
    pub(crate) fn of(bits: u16) -> Offer {
        Offer(bits & (Self::MODES | Self::GIGABIT | Self::NEGOTIATES))
    }
}
