//! Flags that say what is sent, and how fast.

use std::str::FromStr;

use clap::Args;
use warikomi_clock::Span;
use warikomi_inject::{FrameBytes, LineRate};
use warikomi_session::flags::given;
use warikomi_stack::send::{LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES};

use super::super::options::Pace;
use super::super::traffic::{Mixture, Traffic};
use crate::error::Error;
use crate::values::{buffer_bytes, span_within};

#[derive(Args)]
#[command(next_help_heading = "Messages")]
pub(super) struct MessageArguments {
    /// Lengths of messages in bytes (16 to 65507), with commas: each has rows of its own [default: 14 of them,
    /// from 16 bytes to 65,507, of which IP cuts what is longer than the card's MTU; with --mixture none]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = size)]
    pub(super) sizes: Vec<u32>,
    /// Messages of several lengths: SIZExCOUNT,... in turn, random:SIZE,... or random; may be repeated
    #[arg(long = "mixture", value_name = "MIXTURE")]
    mixtures: Vec<MixtureArgument>,
    /// Time between two messages [default: none, as fast as it goes]. A message for which the socket has no
    /// room is dropped then
    #[arg(long, value_name = "TIME", conflicts_with = "rate", value_parser = interval)]
    pub(super) interval: Option<Span>,
    /// The same as bits of messages in a second, such as 100M
    #[arg(long, value_name = "RATE")]
    rate: Option<LineRate>,
    /// Bytes that the socket lets be on their way, up to 1 GiB
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = send_buffer)]
    pub(super) send_buffer: u64,
    /// UDP's checksum, which walks the packet's buffers: on or off [default: on; a kernel has its own]
    #[arg(long, value_name = "on|off")]
    checksum: Option<OnOff>,
    /// Where the randomness starts from; with --target kernel only in virtual time [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Where the randomness starts from, unless that is said.
const USUAL_SEED: u64 = 1;

impl MessageArguments {
    /// Flags that were given and mean nothing to a kernel.
    pub(super) fn of_process(&self) -> Vec<&'static str> {
        given([
            ("--mixture", !self.mixtures.is_empty()),
            ("--rate", self.rate.is_some()),
            ("--checksum", self.checksum.is_some()),
        ])
    }

    /// Flags that were given and say what a load of another kind is.
    pub(super) fn of_one_load(&self) -> Vec<&'static str> {
        given([
            ("--sizes", !self.sizes.is_empty()),
            ("--mixture", !self.mixtures.is_empty()),
            ("--interval", self.interval.is_some()),
            ("--rate", self.rate.is_some()),
        ])
    }

    /// Whether UDP has a checksum.
    pub(super) fn checksum(&self) -> bool {
        self.checksum != Some(OnOff::Off)
    }

    /// Where the randomness starts from.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or(USUAL_SEED)
    }

    /// Refuses a seed for a kernel in real time, of which nothing follows from it.
    pub(super) fn refuse_seed(&self) -> Result<(), Error> {
        match self.seed {
            None => Ok(()),
            Some(_) => Err(Error::impossible(
                "what is random in a kernel follows from a seed in virtual time only; leave --seed out, or add \
                 --virtual",
            )),
        }
    }

    /// What is sent; nothing for what is usual.
    pub(super) fn traffic(&self) -> Vec<Traffic> {
        let sizes = self.sizes.iter().copied().map(Traffic::Size);
        let mixtures = self.mixtures.iter().map(|mixture| match mixture {
            MixtureArgument::Random => Traffic::Mixture(Mixture::random(MOST_MESSAGE_BYTES)),
            MixtureArgument::Of(mixture) => Traffic::Mixture(mixture.clone()),
        });
        sizes.chain(mixtures).collect()
    }

    pub(super) fn pace(&self) -> Pace {
        match (self.interval, self.rate) {
            (Some(interval), _) => Pace::Interval(interval),
            (None, Some(rate)) => Pace::Rate(rate.0),
            (None, None) => Pace::Unbounded,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnOff {
    On,
    Off,
}

fn size(text: &str) -> Result<u32, String> {
    let bytes = text.parse::<FrameBytes>().map_err(|error| error.to_string())?.0;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (LEAST_MESSAGE_BYTES..=MOST_MESSAGE_BYTES).contains(bytes))
        .ok_or_else(|| {
            format!(
                "a message of {bytes} bytes is not possible: choose {LEAST_MESSAGE_BYTES} to \
                 {MOST_MESSAGE_BYTES}"
            )
        })
}

fn send_buffer(text: &str) -> Result<u64, String> {
    match text.trim().strip_suffix("MiB") {
        Some(number) => {
            buffer_bytes(&format!("{}KiB", number.trim())).map(|bytes| u64::from(bytes) * 1_024)
        }
        None => buffer_bytes(text).map(u64::from),
    }
}

fn interval(text: &str) -> Result<Span, String> {
    span_within(text, Span::from_ns(1)..=Span::from_ms(1_000))
}

/// A mixture.
#[derive(Clone, Debug)]
enum MixtureArgument {
    Random,
    Of(Mixture),
}

impl FromStr for MixtureArgument {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "random" => Ok(MixtureArgument::Random),
            other => other.parse().map(MixtureArgument::Of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_intervals_are_refused_with_their_range() {
        assert_eq!((size("16"), size("64KiB")), (Ok(16), Err(size("65536").unwrap_err())));
        assert!(size("15").unwrap_err().contains("16 to 65507"));
        assert_eq!((send_buffer("1MiB"), send_buffer("64KB")), (Ok(1_048_576), Ok(64_000)));
        assert!(send_buffer("9999999MiB").is_err());
        assert!(
            interval("0s").unwrap_err().contains("1 ns"),
            "{interval:?}",
            interval = interval("0s")
        );
    }
}
