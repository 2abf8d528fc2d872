//! The cards that suites know.

pub mod duo;
mod misstep;
mod oc48;
mod rtl8168;
pub mod step;
mod subject;
mod test_card;

pub use self::subject::Subject;
pub use self::test_card::{TestCard, Write};

/// The RTL8168.
pub static RTL8168: &dyn TestCard = &rtl8168::Rtl8168;
/// The test card with two queues and two vectors.
pub static DUO: &dyn TestCard = &duo::DuoCard;
/// The OC-48 card.
pub static OC48: &dyn TestCard = &oc48::Oc48;
