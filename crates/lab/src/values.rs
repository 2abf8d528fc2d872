//! Values of flags that several experiments have.

use std::ops::RangeInclusive;

use clap::ValueEnum;
use warikomi_clock::Span;
use warikomi_inject::{FrameBytes, Receiver};

/// The largest receive buffer that a guest of this kind takes, in bytes.
const MAX_BUFFER_BYTES: usize = 1 << 30;

/// A buffer's size: as a frame's, and in MB of 1,000,000 bytes.
pub(crate) fn buffer_bytes(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let bytes = match text.strip_suffix("MB") {
        // A thousand KB are as many digits right as a MB.
        Some(number) => format!("{}KB", number.trim())
            .parse::<FrameBytes>()
            .map(|kb| kb.0.saturating_mul(1_000)),
        None => text.parse::<FrameBytes>().map(|bytes| bytes.0),
    };
    let bytes = bytes.map_err(|_| {
        format!(
            "'{text}' is not a buffer; write bytes (65536), KB of 1,000 or MB of 1,000,000 (7MB)"
        )
    })?;
    let possible = (1..=MAX_BUFFER_BYTES).contains(&bytes);
    u32::try_from(bytes)
        .ok()
        .filter(|_| possible)
        .ok_or_else(|| format!("{text} is not possible: choose 1 byte to 1 GiB"))
}

/// A time within these bounds.
pub(crate) fn span_within(text: &str, range: RangeInclusive<Span>) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let said = || format!("{span} is not possible: choose {} to {}", range.start(), range.end());
    range.contains(&span).then_some(span).ok_or_else(said)
}

/// How far packets are meant to go.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ReceiverName {
    /// To an application
    Application,
    /// To the driver only
    Driver,
}

impl From<ReceiverName> for Receiver {
    fn from(name: ReceiverName) -> Receiver {
        match name {
            ReceiverName::Application => Receiver::Application,
            ReceiverName::Driver => Receiver::Driver,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_read_as_people_write_them() {
        assert_eq!(buffer_bytes("7MB"), Ok(7_000_000));
        assert_eq!(buffer_bytes("0.5 MB"), Ok(500_000));
        assert_eq!((buffer_bytes("64KiB"), buffer_bytes("1500")), (Ok(65_536), Ok(1_500)));
        for text in ["", "0", "MB", "2000MB", "99999999999999MB", "-1MB", "7GB"] {
            assert!(buffer_bytes(text).is_err(), "{text}");
        }
    }
}
