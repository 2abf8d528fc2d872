//! Instants and spans, in whole picoseconds.
//!
//! A picosecond divides every bit time from 10 Mbit/s to 1 Tbit/s, so wire times add up without
//! rounding, and a `u64` of them lasts 213 days.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An instant: picoseconds since the clock's epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

/// A length of time in picoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span(u64);

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

impl Time {
    /// The clock's epoch.
    pub const ZERO: Time = Time(0);
    /// Later than every instant that a clock can show.
    pub const NEVER: Time = Time(u64::MAX);

    /// The instant this many picoseconds after the epoch.
    pub const fn from_ps(ps: u64) -> Self {
        Time(ps)
    }

    /// Picoseconds since the epoch.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Nanoseconds since the epoch.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / PS_PER_NS as f64
    }

    /// The span from `earlier` to `self`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// A span of zero.
    pub const ZERO: Span = Span(0);

    /// A span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Span(ps)
    }

    /// A span of `ns` nanoseconds; saturates at 213 days.
    pub const fn from_ns(ns: u64) -> Self {
        Span(ns.saturating_mul(PS_PER_NS))
    }

    /// A span of `us` microseconds; saturates at 213 days.
    pub const fn from_us(us: u64) -> Self {
        Span(us.saturating_mul(PS_PER_US))
    }

    /// A span of `ms` milliseconds; saturates at 213 days.
    pub const fn from_ms(ms: u64) -> Self {
        Span(ms.saturating_mul(PS_PER_MS))
    }

    /// What reads back as this very span, which its own text, of three decimals, may not.
    pub const fn exact(self) -> ExactSpan {
        ExactSpan(self)
    }

    /// The whole span in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The span in nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / PS_PER_NS as f64
    }

    /// The span in microseconds.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / PS_PER_US as f64
    }

    /// The span in seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Span {
    type Output = Span;
    fn div(self, divisor: u64) -> Span {
        Span(self.0 / divisor)
    }
}

/// A span of time that shows as what reads back as the same one, in the largest unit in which it is a whole number:
/// `38us`, `1500ps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactSpan(Span);

impl fmt::Display for ExactSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0.0;
        let units = [(PS_PER_S, "s"), (PS_PER_MS, "ms"), (PS_PER_US, "us"), (PS_PER_NS, "ns")];
        let whole = units.into_iter().find(|(unit, _)| ps.is_multiple_of(*unit));
        let (unit, name) = whole.unwrap_or((1, "ps"));
        write!(f, "{}{name}", ps / unit)
    }
}

impl fmt::Display for Span {
    /// The largest unit that leaves at least 1: `38 µs`, `3.5 µs`, `200 ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => return f.write_str("0 ns"),
            ps if ps >= PS_PER_S => (PS_PER_S, "s"),
            ps if ps >= PS_PER_MS => (PS_PER_MS, "ms"),
            ps if ps >= PS_PER_US => (PS_PER_US, "µs"),
            ps if ps >= PS_PER_NS => (PS_PER_NS, "ns"),
            _ => (1, "ps"),
        };
        let value = self.0 as f64 / unit as f64;
        let text = format!("{value:.3}");
        write!(f, "{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Why a text is not a span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSpanError {
    /// The number is negative.
    #[error("'{0}' is negative; a time must be 0 or more, such as 38us")]
    Negative(String),
    /// No number, or one that does not parse.
    #[error("'{0}' is not a time; write a number and a unit: 200ns, 38us, 3.5ms, 1s, 2h, or 0")]
    Malformed(String),
    /// A unit that is none of ps, ns, us, ms, s, min, h.
    #[error(
        "'{0}' has no unit that is known; use ps, ns, us (or µs), ms, s, min or h, such as 38us"
    )]
    Unit(String),
    /// Longer than the 213 days that a `Span` can hold.
    #[error("'{0}' is too long; the longest time is 213 days")]
    TooLong(String),
}

impl FromStr for Span {
    type Err = ParseSpanError;

    /// Reads `38us`, `3.5 µs`, `200ns`, `1s` or a bare `0`.
    fn from_str(text: &str) -> Result<Span, ParseSpanError> {
        let trimmed = text.trim();
        let owned = || trimmed.to_owned();
        if trimmed.starts_with('-') {
            return Err(ParseSpanError::Negative(owned()));
        }
        let split =
            trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        let value: f64 = number.parse().map_err(|_| ParseSpanError::Malformed(owned()))?;
        let scale = match unit {
            "ps" => 1,
            "ns" => PS_PER_NS,
            "us" | "µs" | "μs" => PS_PER_US,
            "ms" => PS_PER_MS,
            "s" => PS_PER_S,
            "min" => 60 * PS_PER_S,
            "h" => 3_600 * PS_PER_S,
            "" if value == 0.0 => 1,
            _ => return Err(ParseSpanError::Unit(owned())),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole
                .checked_mul(scale)
                .map(Span)
                .ok_or_else(|| ParseSpanError::TooLong(owned()));
        }
        let ps = value * scale as f64;
        if ps >= u64::MAX as f64 {
            return Err(ParseSpanError::TooLong(owned()));
        }
        Ok(Span(ps.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_usual_ways_to_write_a_time() {
        assert_eq!("38us".parse(), Ok(Span::from_us(38)));
        assert_eq!("1.5h".parse::<Span>(), "90min".parse());
        assert_eq!("3500ns".parse(), Ok(Span::from_ns(3500)));
        assert_eq!("3.5 µs".parse(), Ok(Span::from_ns(3500)));
        assert_eq!("0".parse(), Ok(Span::ZERO));
        assert_eq!("1s".parse(), Ok(Span::from_ms(1000)));
    }

    #[test]
    fn refuses_what_is_no_time_and_says_why() {
        assert!(matches!("-1us".parse::<Span>(), Err(ParseSpanError::Negative(_))));
        assert!(matches!("38".parse::<Span>(), Err(ParseSpanError::Unit(_))));
        assert!(matches!("38 parsecs".parse::<Span>(), Err(ParseSpanError::Unit(_))));
        assert!(matches!("".parse::<Span>(), Err(ParseSpanError::Malformed(_))));
        assert!(matches!("1.2.3us".parse::<Span>(), Err(ParseSpanError::Malformed(_))));
        assert!(matches!("99999999999999s".parse::<Span>(), Err(ParseSpanError::TooLong(_))));
    }

    #[test]
    fn prints_the_largest_fitting_unit() {
        assert_eq!(Span::from_us(38).to_string(), "38 µs");
        assert_eq!(Span::from_ns(3500).to_string(), "3.5 µs");
        assert_eq!(Span::ZERO.to_string(), "0 ns");
        assert_eq!(Span::from_us(1_500).exact().to_string(), "1500us");
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in ".*") {
            let _ = text.parse::<Span>();
        }

        #[test]
        fn what_it_prints_it_reads_back(ns in 0u64..1_000_000) {
            let span = Span::from_ns(ns);
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }

        #[test]
        fn what_it_prints_exactly_it_reads_back_however_long(ps: u64, unit in 0u32..5) {
            let unit = 1_000_u64.pow(unit);
            for ps in [ps, ps / unit * unit] {
                let span = Span::from_ps(ps);
                prop_assert_eq!(span.exact().to_string().parse::<Span>(), Ok(span));
            }
        }
    }
}
