//! From figures to pixels.

use maud::html;

use crate::plot::axis::Scaled;

/// The width of a plot in its own pixels.
pub(super) const WIDTH: f64 = 760.0;
/// Where the legend begins.
pub(super) const LEGEND_LEFT: f64 = 24.0;
const AREA_HEIGHT: f64 = 320.0;
const TOP: f64 = 44.0;
const RIGHT: f64 = 36.0;
const LEFT: f64 = 84.0;
const MOST_LEFT: f64 = 220.0;
const BELOW: f64 = 50.0;

/// A place within the plot's area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pixel(pub(super) f64, pub(super) f64);

/// The plot's area within the picture, and its axes.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) across: Scaled,
    pub(super) up: Scaled,
    below: f64,
    turned: bool,
}

impl Frame {
    /// A frame with room for names of so many letters at its left, and, if these are turned, below.
    pub(super) fn new(across: Scaled, up: Scaled, left: usize, turned: usize) -> Frame {
        let left = (letters(left) + 40.0).clamp(LEFT, MOST_LEFT);
        let below = BELOW + (letters(turned) / 2.0).min(MOST_LEFT / 2.0);
        let (top, height) = (TOP, AREA_HEIGHT);
        let width = WIDTH - left - RIGHT;
        Frame { left, top, width, height, across, up, below, turned: turned > 0 }
    }

    /// Whether the names below are turned, because they are too long to stand side by side.
    pub(super) fn turned(&self) -> bool {
        self.turned
    }

    /// Where the axis with its names ends.
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height + self.below
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.across.position(value) * self.width
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        (1.0 - self.up.position(value)) * self.height
    }

    pub(super) fn pixel(&self, x: f64, y: f64) -> Pixel {
        let tenths = |pixel: f64| (pixel * 10.0).round() / 10.0;
        Pixel(tenths(self.x(x)), tenths(self.y(y)))
    }
}

/// How wide so many letters are, on average and generously; nobody can know what font a reader has.
pub(super) fn letters(count: usize) -> f64 {
    const LETTER_PX: f64 = 6.8;
    count as f64 * LETTER_PX
}

/// Text that is no markup.
pub(super) fn escaped(text: &str) -> String {
    html! { (text) }.into_string()
}
