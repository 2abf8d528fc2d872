//! Colours, for light and for dark.
//!
//! A drawing has the light colours as attributes, which every viewer understands. A rule of CSS has
//! precedence over an attribute, so where a reader prefers dark, each colour is exchanged by a rule
//! that selects by the light one. The drawing itself knows nothing of it.

use std::fmt::Write;

/// How many series a chart may have: as many as there are colours that are easily told apart.
pub const MAX_SERIES: usize = 7;

/// Text and axes: light, dark.
const INK: (&str, &str) = ("#22262B", "#E4E7EB");
/// Lines of the grid.
const GRID: (&str, &str) = ("#E1E4E8", "#3A4048");
/// What markers are filled with that are hollow.
const PAPER: (&str, &str) = ("#FFFFFF", "#16191D");

/// After Okabe and Ito, whose colours are told apart with every kind of colour vision, darkened until
/// thin lines are seen on white; the others are lightened until they are seen on black.
const SERIES: [(&str, &str); MAX_SERIES] = [
    ("#0068A8", "#5CB6F2"),
    ("#C74E00", "#FF9650"),
    ("#008060", "#3DCFA5"),
    ("#A84A80", "#E79AC6"),
    ("#8A6D00", "#E5C84A"),
    ("#3C459C", "#A3A9F5"),
    ("#6A6F76", "#B0B6BE"),
];

pub(super) fn ink() -> &'static str {
    INK.0
}

pub(super) fn grid() -> &'static str {
    GRID.0
}

pub(super) fn paper() -> &'static str {
    PAPER.0
}

pub(super) fn colour(series: usize) -> &'static str {
    SERIES[series % MAX_SERIES].0
}

/// The rules that exchange the colours of plots where a reader prefers dark. In every SVG already;
/// a page needs them not.
pub fn css() -> String {
    let mut css = String::from("@media (prefers-color-scheme: dark) {\n");
    for (light, dark) in [INK, GRID, PAPER].into_iter().chain(SERIES) {
        for attribute in ["fill", "stroke"] {
            let _ = writeln!(
                css,
                ".plot[{attribute}=\"{light}\"], .plot [{attribute}=\"{light}\"] {{ {attribute}: {dark}; }}"
            );
        }
    }
    css + "}\n"
}
