//! How a terminal is drawn on.

/// Width and colours of the terminal.
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
pub(super) const MIN_WIDTH: u16 = 60;
