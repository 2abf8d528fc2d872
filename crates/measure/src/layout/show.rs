//! Figures as people read them.

use serde::{Deserialize, Serialize};

/// What a figure counts, and so how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// No number, or one that is written as it is.
    #[default]
    Plain,
    /// Whole things: packets, bytes.
    Count,
    /// A number of two to four decimals, such as a ratio.
    Number,
    /// Bytes, written in KB or MB of 1,000 and 1,000,000 bytes.
    Size,
    /// Nanoseconds, written in the unit that suits.
    Ns,
    /// Microseconds, likewise.
    Us,
    /// Bit/s, written in the unit that suits.
    Bps,
    /// Bit/s, written in Mbit/s without the unit, which the column's title has.
    Mbps,
    /// Frames or messages in a second.
    Pps,
    /// A share of 0 to 1, written in percent.
    Share,
    /// A change as a share, written in percent with its sign.
    Change,
    /// Percent.
    Percent,
    /// How many of all in this column, written with a bar as long as its share.
    Bar,
}

impl Unit {
    /// A number in this unit, as people write it. A [bar](Unit::Bar) is drawn by who knows the column.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Plain => plain(value),
            Unit::Count | Unit::Pps | Unit::Bar => whole(value),
            Unit::Number => number(value),
            Unit::Size => size(value),
            Unit::Ns => time(value),
            Unit::Us => time(value * 1e3),
            Unit::Bps => rate(value),
            Unit::Mbps => number(value / 1e6),
            Unit::Share => percent(value),
            Unit::Change => signed(value),
            Unit::Percent => percent(value / 100.0),
        }
    }

    /// By how much a value is multiplied to be in the unit that plots have: nanoseconds for times.
    pub fn base(self) -> f64 {
        if self == Unit::Us { 1e3 } else { 1.0 }
    }
}

fn whole(value: f64) -> String {
    match value.round() {
        whole if (0.0..1e15).contains(&whole) => count(whole as u64),
        _ => plain(value),
    }
}

fn plain(value: f64) -> String {
    match value {
        whole if whole.fract() == 0.0 && (0.0..1e15).contains(&whole) => count(whole as u64),
        other => trimmed(format!("{other:.4}")),
    }
}

/// A number with as many decimals as it needs.
fn number(value: f64) -> String {
    match value.abs() {
        many if many >= 100.0 => whole(value),
        some if some >= 0.1 || some == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A change in percent. What rounds to nothing has no sign.
fn signed(share: f64) -> String {
    let tenths = (1_000.0 * share).round();
    if tenths == 0.0 { "0.0%".to_owned() } else { format!("{:+.1}%", tenths / 10.0) }
}

/// Bytes in the unit in which buffers are given: `7 MB`.
pub fn size(bytes: f64) -> String {
    // Whole buffers make odd numbers: three digits say enough.
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    match bytes {
        small if small < 1e6 => format!("{} KB", rounded(small / 1e3)),
        big => format!("{} MB", rounded(big / 1e6)),
    }
}

/// Nanoseconds in the largest unit that leaves at least 1, to four significant digits: `38.02 µs`.
pub fn time(ns: f64) -> String {
    match ns.abs() {
        small if small < 999.95 => format!("{} ns", significant(ns)),
        small if small < 999_950.0 => format!("{} µs", significant(ns / 1e3)),
        small if small < 999_950_000.0 => format!("{} ms", significant(ns / 1e6)),
        _ => format!("{} s", significant(ns / 1e9)),
    }
}

/// Bits per second: `12.04 Gbit/s`.
pub fn rate(bps: f64) -> String {
    match bps {
        small if small < 1e3 => format!("{} bit/s", significant(bps)),
        small if small < 1e6 => format!("{} kbit/s", significant(bps / 1e3)),
        small if small < 1e9 => format!("{} Mbit/s", significant(bps / 1e6)),
        _ => format!("{} Gbit/s", significant(bps / 1e9)),
    }
}

/// A share of 0 to 1 in percent. Never rounded up to 100% or down to 0%: one packet lost of a
/// million is not none.
pub fn percent(share: f64) -> String {
    let shown = format!("{:.2}%", 100.0 * share);
    match shown.as_str() {
        "100.00%" if share < 1.0 => "> 99.99%".to_owned(),
        "0.00%" if share > 0.0 => "< 0.01%".to_owned(),
        "100.00%" => "100%".to_owned(),
        "0.00%" => "0%".to_owned(),
        _ => shown,
    }
}

/// A whole number with its thousands apart: `1,000,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut apart = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        big if big >= 100.0 => 1,
        some if some >= 10.0 => 2,
        _ => 3,
    };
    trimmed(format!("{value:.decimals$}"))
}

fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_fit_the_figure() {
        let shown = [0.0, 205.5, 1_000.0, 38_016.0, 1_353_000.0, 999_999.0, 2e9].map(time);
        assert_eq!(shown, ["0 ns", "205.5 ns", "1 µs", "38.02 µs", "1.353 ms", "1 ms", "2 s"]);
        assert_eq!(
            [12.0e9, 315.8e6, 5e3, 7.0].map(rate),
            ["12 Gbit/s", "315.8 Mbit/s", "5 kbit/s", "7 bit/s"]
        );
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn each_unit_writes_a_figure_in_its_own_way() {
        for (unit, value, shown) in [
            (Unit::Plain, 0.25, "0.25"),
            (Unit::Number, 0.031_25, "0.0312"),
            (Unit::Number, 1.0, "1.00"),
            (Unit::Mbps, 250e6, "250"),
            (Unit::Size, 7e6, "7 MB"),
            (Unit::Us, 12.5, "12.5 µs"),
            (Unit::Change, 0.7, "+70.0%"),
            (Unit::Change, -0.000_1, "0.0%"),
            (Unit::Percent, 4.0, "4.00%"),
            (Unit::Pps, 488_281.25, "488,281"),
        ] {
            assert_eq!(unit.show(value), shown);
        }
    }

    #[test]
    fn nearly_all_is_not_all() {
        let shown = [0.0, 1e-6, 0.5, 0.996, 0.999_999, 1.0].map(percent);
        assert_eq!(shown, ["0%", "< 0.01%", "50.00%", "99.60%", "> 99.99%", "100%"]);
    }

    proptest! {
        #[test]
        fn never_panics_on_any_figure(value: f64, number: u64) {
            let _ = (time(value), rate(value), percent(value));
            for unit in [Unit::Plain, Unit::Number, Unit::Size, Unit::Mbps, Unit::Change, Unit::Bar] {
                prop_assert!(!unit.show(value).is_empty());
            }
            prop_assert_eq!(count(number).replace(',', "").parse::<u64>().unwrap(), number);
        }
    }
}
