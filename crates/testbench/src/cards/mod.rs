//! The cards that suites know.

mod descriptor_fifo;
pub mod duo;
mod e1000e;
mod igb;
pub(crate) mod misstep;
mod rtl8139;
mod rtl8168;
pub mod step;
mod subject;
mod test_card;

use self::descriptor_fifo::FifoCard;
pub use self::subject::Subject;
pub use self::test_card::{Abilities, TestCard, Write};

/// The RTL8168.
pub static RTL8168: &dyn TestCard = &rtl8168::Rtl8168;
/// The RTL8139C.
pub static RTL8139: &dyn TestCard = &rtl8139::Rtl8139;
/// The RTL8139C+, in its C+ mode.
pub static RTL8139CP: &dyn TestCard = &rtl8139::Rtl8139Cp;
/// The 82574L.
pub static E1000E: &dyn TestCard = &e1000e::E1000e;
/// The 82576.
pub static IGB: &dyn TestCard = &igb::Igb;
/// The test card with two queues and two vectors.
pub static DUO: &dyn TestCard = &duo::DuoCard;
/// The OC-48 card.
pub static OC48: &dyn TestCard = &FifoCard { name: "oc48", line_mbps: 2_400 };
/// The OC-192 card.
pub static OC192: &dyn TestCard = &FifoCard { name: "oc192", line_mbps: 9_600 };
/// The card for 10 Gigabit Ethernet.
pub static GE10: &dyn TestCard = &FifoCard { name: "ge10", line_mbps: 10_000 };
