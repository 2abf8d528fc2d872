//! Colours, for light and for dark.
//!
//! A drawing has the light colours as attributes, which every viewer understands. A rule of CSS has
//! precedence over an attribute, so where a reader prefers dark, each colour is exchanged by a rule
//! that selects by the light one. The drawing itself knows nothing of it.

use std::fmt::Write;

use plotters::style::RGBColor;

use super::MAX_SERIES;

/// Text and axes: light, dark.
const INK: (RGBColor, &str) = (RGBColor(0x22, 0x26, 0x2B), "#E4E7EB");
/// Lines of the grid.
const GRID: (RGBColor, &str) = (RGBColor(0xE1, 0xE4, 0xE8), "#3A4048");
/// What markers are filled with that are hollow.
const PAPER: (RGBColor, &str) = (RGBColor(0xFF, 0xFF, 0xFF), "#16191D");

/// After Okabe and Ito, whose colours are told apart with every kind of colour vision, darkened until
/// thin lines are seen on white; the others are lightened until they are seen on black.
const SERIES: [(RGBColor, &str); MAX_SERIES] = [
    (RGBColor(0x00, 0x68, 0xA8), "#5CB6F2"),
    (RGBColor(0xC7, 0x4E, 0x00), "#FF9650"),
    (RGBColor(0x00, 0x80, 0x60), "#3DCFA5"),
    (RGBColor(0xA8, 0x4A, 0x80), "#E79AC6"),
    (RGBColor(0x8A, 0x6D, 0x00), "#E5C84A"),
    (RGBColor(0x3C, 0x45, 0x9C), "#A3A9F5"),
    (RGBColor(0x6A, 0x6F, 0x76), "#B0B6BE"),
];

pub(super) fn ink() -> RGBColor {
    INK.0
}

pub(super) fn grid() -> RGBColor {
    GRID.0
}

pub(super) fn paper() -> RGBColor {
    PAPER.0
}

pub(super) fn colour(series: usize) -> RGBColor {
    SERIES[series % MAX_SERIES].0
}

/// The rules that exchange the colours of plots where a reader prefers dark. In every SVG already;
/// a page needs them not.
pub fn css() -> String {
    let mut css = String::from("@media (prefers-color-scheme: dark) {\n");
    for (RGBColor(red, green, blue), dark) in [INK, GRID, PAPER].into_iter().chain(SERIES) {
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        for attribute in ["fill", "stroke"] {
            let _ = writeln!(css, ".plot [{attribute}=\"{light}\"] {{ {attribute}: {dark}; }}");
        }
    }
    css + "}\n"
}
