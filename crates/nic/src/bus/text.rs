//! Buses as text: a name, and what differs from it.

use std::fmt;
use std::str::FromStr;

use warikomi_clock::{ParseSpanError, Span};

use super::{Bus, PRESETS, Preset};

/// Why a text is no bus, or a bus is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseBusError {
    /// No preset has this name.
    #[error("there is no bus '{name}'; there are: {}", names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// A part that is not `key=value`, or a key that does not exist.
    #[error(
        "'{0}' says nothing about a bus; write rate=533MB, fetch=600ns, arbitration=800ns, \
         burst=512, wait=60ns or mapping=200ns, with commas between them"
    )]
    Malformed(String),
    /// A part's time cannot be read.
    #[error("{key}: {error}")]
    Span {
        /// Name of the part.
        key: &'static str,
        /// Why it cannot be read.
        error: ParseSpanError,
    },
    /// A value is out of range.
    #[error("{key}={got} is not possible for a bus: {range}")]
    Range {
        /// Name of the part.
        key: &'static str,
        /// The value that was given.
        got: String,
        /// The values that are possible.
        range: &'static str,
    },
}

fn names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

const MAX_BYTES_PER_SECOND: u64 = 1_000_000_000_000;
const BURSTS: std::ops::RangeInclusive<u64> = 8..=1 << 20;
const MAX_TIME: Span = Span::from_ms(1);

const RATE_RANGE: &str = "from 1 byte a second (1B) to 1,000,000 million (1000000MB)";
const BURST_RANGE: &str = "from 8 to 1,048,576 bytes";
const TIME_RANGE: &str = "from 0 to 1 ms";

impl Bus {
    /// Whether every part is within its range.
    pub fn check(&self) -> Result<(), ParseBusError> {
        let range = |key, got, range| Err(ParseBusError::Range { key, got, range });
        if !(1..=MAX_BYTES_PER_SECOND).contains(&self.bytes_per_second) {
            return range("rate", rate_text(self.bytes_per_second), RATE_RANGE);
        }
        if !BURSTS.contains(&self.burst_bytes) {
            return range("burst", self.burst_bytes.to_string(), BURST_RANGE);
        }
        match self.times().into_iter().find(|(_, time)| *time > MAX_TIME) {
            Some((key, time)) => range(key, time.exact().to_string(), TIME_RANGE),
            None => Ok(()),
        }
    }

    fn times(&self) -> [(&'static str, Span); 4] {
        [
            ("fetch", self.descriptor_fetch),
            ("arbitration", self.arbitration),
            ("wait", self.wait),
            ("mapping", self.mapping),
        ]
    }

    /// Every part as `key=value` has it.
    fn parts(&self) -> [(&'static str, String); 6] {
        let [fetch, arbitration, wait, mapping] =
            self.times().map(|(key, time)| (key, time.exact().to_string()));
        let rate = ("rate", rate_text(self.bytes_per_second));
        [rate, fetch, arbitration, ("burst", self.burst_bytes.to_string()), wait, mapping]
    }

    fn set(&mut self, part: &str) -> Result<(), ParseBusError> {
        let malformed = || ParseBusError::Malformed(part.trim().to_owned());
        let (key, value) = part.split_once('=').ok_or_else(malformed)?;
        let value = value.trim();
        let time = |key| value.parse().map_err(|error| ParseBusError::Span { key, error });
        match key.trim() {
            "rate" => self.bytes_per_second = parse_rate(value).ok_or_else(malformed)?,
            "fetch" => self.descriptor_fetch = time("fetch")?,
            "arbitration" => self.arbitration = time("arbitration")?,
            "burst" => self.burst_bytes = value.parse().map_err(|_| malformed())?,
            "wait" => self.wait = time("wait")?,
            "mapping" => self.mapping = time("mapping")?,
            _ => return Err(malformed()),
        }
        Ok(())
    }
}

impl FromStr for Bus {
    type Err = ParseBusError;

    /// Reads a preset's name, and behind it what shall differ:
    /// `pci-64-66,arbitration=800ns,wait=60ns,burst=512,fetch=600ns,mapping=200ns,rate=400MB`.
    fn from_str(text: &str) -> Result<Bus, ParseBusError> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default().trim();
        let preset =
            Preset::named(name).ok_or_else(|| ParseBusError::Unknown { name: name.to_owned() })?;
        let mut bus = preset.bus;
        parts.try_for_each(|part| bus.set(part))?;
        bus.check()?;
        Ok(bus)
    }
}

impl fmt::Display for Bus {
    /// What [`FromStr`] reads back: the preset that is nearest, and what differs from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differing = |preset: &Preset| {
            self.parts()
                .into_iter()
                .zip(preset.bus.parts())
                .filter(|(own, other)| own != other)
                .count()
        };
        let Some(nearest) = PRESETS.iter().min_by_key(|preset| differing(preset)) else {
            return Err(fmt::Error);
        };
        f.write_str(nearest.name)?;
        for (own, other) in self.parts().into_iter().zip(nearest.bus.parts()) {
            if own != other {
                write!(f, ",{}={}", own.0, own.1)?;
            }
        }
        Ok(())
    }
}

fn rate_text(bytes_per_second: u64) -> String {
    match bytes_per_second {
        rate if rate % 1_000_000 == 0 => format!("{}MB", rate / 1_000_000),
        rate => format!("{rate}B"),
    }
}

/// Bytes a second: a number and B, kB, MB or GB.
fn parse_rate(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let number_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(number_end);
    let scale = match unit.trim() {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    // What is too large saturates, and is out of range.
    number.parse::<f64>().ok().map(|number| (number * scale).round() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bus::tests::bus;

    proptest! {
        #[test]
        fn what_it_prints_it_reads_back(bus in bus()) {
            prop_assert_eq!(bus.to_string().parse(), Ok(bus), "{}", bus);
        }

        #[test]
        fn no_text_panics_and_what_it_reads_is_possible(
            text in "(pci-64-66|pcie1-x1|)(,(rate|burst|wait|fetch|mapping|arbitration|x)=?[0-9.]{0,25}(B|MB|GB/s|ns|ms|s|)){0,4}.{0,3}",
        ) {
            if let Ok(bus) = text.parse::<Bus>() {
                prop_assert_eq!(bus.check(), Ok(()));
            }
        }
    }

    #[test]
    fn presets_have_their_names_and_overrides_count() {
        for preset in PRESETS {
            assert_eq!(preset.bus.to_string(), preset.name);
        }
        let text = "pci-64-66,rate=400MB,arbitration=800ns,burst=512,wait=60ns,mapping=200ns";
        let bus: Bus = text.parse().unwrap();
        assert_eq!(bus.bytes_per_second, 400_000_000);
        assert_eq!((bus.burst_bytes, bus.mapping), (512, Span::from_ns(200)));
        assert_eq!(bus.to_string(), text);
    }

    #[test]
    fn what_is_refused_says_what_is_possible() {
        let why = |text: &str| text.parse::<Bus>().unwrap_err().to_string();
        assert!(why("isa").contains("pcie3-x8"), "{}", why("isa"));
        assert!(why("pci-64-66,rate=0MB").contains("from 1 byte"));
        assert!(why("pci-64-66,burst=7").contains("from 8 to 1,048,576"));
        assert!(why("pci-64-66,wait=1001us").contains("wait=1001us is not possible"));
        assert!(why("pci-64-66,wait=12").contains("wait: '12' has no unit"));
        assert!(why("pci-64-66,speed=12").contains("'speed=12' says nothing"));
        assert!(why("pci-64-66,rate=12").contains("rate=533MB"));
    }
}
