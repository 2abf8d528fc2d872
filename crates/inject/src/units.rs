//! Line rates and frame sizes as people write them.

use std::fmt;
use std::str::FromStr;

/// Why a text is neither a line rate nor a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseUnitError {
    /// Not a line rate.
    #[error("'{0}' is not a line rate; write bits per second with K, M or G: 100M, 1G, 2.5G")]
    LineRate(String),
    /// Not a size.
    #[error("'{0}' is not a size; write bytes (1500), KB of 1,000 (1.5KB) or KiB of 1,024 (4KiB)")]
    Size(String),
}

/// A line rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineRate(pub u64);

/// A frame's size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameBytes(pub usize);

impl FromStr for LineRate {
    type Err = ParseUnitError;

    /// Reads `100M`, `2.5G`, `10Gbit/s`, `1Gbps` or plain bits per second. Decimal, as everywhere
    /// in networking: `1G` is 1,000,000,000.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let malformed = || ParseUnitError::LineRate(text.trim().to_owned());
        let (number, unit) = split(text);
        let unit = unit.strip_suffix("bit/s").or_else(|| unit.strip_suffix("bps")).unwrap_or(unit);
        let scale = match unit {
            "" => 1,
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            _ => return Err(malformed()),
        };
        scaled(number, scale).map(LineRate).ok_or_else(malformed)
    }
}

impl FromStr for FrameBytes {
    type Err = ParseUnitError;

    /// Reads `1500`, `1500B`, `1.5KB` (1,500) or `4KiB` (4,096).
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let malformed = || ParseUnitError::Size(text.trim().to_owned());
        let (number, unit) = split(text);
        let scale = match unit {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "KiB" => 1_024,
            _ => return Err(malformed()),
        };
        let bytes = scaled(number, scale).ok_or_else(malformed)?;
        usize::try_from(bytes).map(FrameBytes).map_err(|_| malformed())
    }
}

impl fmt::Display for LineRate {
    /// The largest unit that leaves at least 1: `2.5 Gbit/s`. In integers, as it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, digits, unit) = match self.0 {
            1_000_000_000.. => (1_000_000_000, 9, "Gbit/s"),
            1_000_000.. => (1_000_000, 6, "Mbit/s"),
            1_000.. => (1_000, 3, "kbit/s"),
            _ => (1, 0, "bit/s"),
        };
        let (whole, fraction) = (self.0 / scale, self.0 % scale);
        if fraction == 0 {
            return write!(f, "{whole} {unit}");
        }
        let decimals = format!("{fraction:0digits$}");
        write!(f, "{whole}.{} {unit}", decimals.trim_end_matches('0'))
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// `number` × `scale` if that is a whole number that a `u64` holds. Worked out in integers, so
/// that `1.001KB` is 1001 and not what is nearest in binary.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || fraction.len() > 9 {
        return None;
    }
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    let product = u128::from(digits) * u128::from(scale);
    let divisor = 10u128.pow(fraction.len() as u32);
    (product % divisor == 0).then(|| u64::try_from(product / divisor).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_usual_ways_to_write_them() {
        assert_eq!("1G".parse(), Ok(LineRate(1_000_000_000)));
        assert_eq!("2.5G".parse(), Ok(LineRate(2_500_000_000)));
        assert_eq!("100 Mbit/s".parse(), Ok(LineRate(100_000_000)));
        assert_eq!("10Gbps".parse(), Ok(LineRate(10_000_000_000)));
        assert_eq!("1500".parse(), Ok(FrameBytes(1500)));
        assert_eq!("1.5KB".parse(), Ok(FrameBytes(1500)));
        assert_eq!("4KiB".parse(), Ok(FrameBytes(4096)));
        assert_eq!(LineRate(2_500_000_000).to_string(), "2.5 Gbit/s");
    }

    #[test]
    fn refuses_what_is_neither() {
        for text in ["", "G", "-1G", "1T", "1..5G", "99999999999999999999", "1e9", ".5G"] {
            assert!(text.parse::<LineRate>().is_err(), "{text}");
        }
        for text in ["", "KB", "-60", "1.5", "1.5B", "1MB", "0x40", "99999999999999999999KiB"] {
            assert!(text.parse::<FrameBytes>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in ".*") {
            let _ = text.parse::<LineRate>();
            let _ = text.parse::<FrameBytes>();
        }

        #[test]
        fn a_rate_that_is_printed_is_read_back(rate in prop_oneof![0u64.., (0u64..2_000_000).prop_map(|kbps| kbps * 1_000)]) {
            let rate = LineRate(rate);
            prop_assert_eq!(rate.to_string().parse::<LineRate>().unwrap(), rate);
        }
    }
}
