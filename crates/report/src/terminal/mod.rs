//! Tables for a terminal.

mod accuracy;
mod compare;
mod cost;
pub(crate) mod figures;
mod inject;
mod receive;
mod replace;
mod rows;
mod table;
mod transmit;
pub(crate) mod transmit_kernel;

pub use accuracy::{Errors, accuracy};
pub use compare::compare;
pub use cost::cost;
pub use inject::inject;
pub use receive::receive;
pub use replace::replace;
pub use rows::rows;
pub use transmit::transmit;

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colour. Nothing is said by colour alone.
    pub colour: bool,
    /// The width of the terminal in columns. Less than 60 is taken for 60: a table has a shape.
    pub width: u16,
}

impl Default for Style {
    fn default() -> Self {
        Style { colour: false, width: 80 }
    }
}

/// The least width that the tables fit into.
const MIN_WIDTH: u16 = 60;
