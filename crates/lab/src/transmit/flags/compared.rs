//! Flags that say which ways to send are compared.

use std::str::FromStr;

use clap::Args;
use warikomi_driver::transmit::{Bounce, Completion, ParseCompletionError};
use warikomi_session::flags::given;
use warikomi_stack::buffers::BufferKind;

#[derive(Args)]
#[command(next_help_heading = "What is compared")]
pub(super) struct ComparedArguments {
    /// Buffers, with commas: mbuf-2k, mbuf-4k, mbuf:BYTES (clusters of a power of two), contiguous [default:
    /// mbuf-2k,mbuf-4k,contiguous; of tcp contiguous, from which alone it is sent]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(super) systems: Vec<BufferKind>,
    /// Completion strategies, with commas: interrupt, interrupt-free, adaptive, adaptive:LOW%,HIGH%
    /// (interrupts on below LOW of free space, off when 16 packets in a row have found HIGH), adaptive-published (off as
    /// soon as there is HIGH, and reading the card's register before each packet), adaptive-watching (watches the
    /// descriptor ring, the processor and the receive side as well, and asks at the next transmission, with the receive
    /// side, or by interrupt). Each is tried with the first of --bounces
    #[arg(
        long,
        value_name = "NAME,...",
        default_value = "interrupt,interrupt-free,adaptive-published,adaptive"
    )]
    pub(super) completions: Completions,
    /// Bounce buffers, with commas: none, so many clusters (1 to 64), all, auto. Each is tried with the last
    /// of --completions
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "none,3,4,all,auto")]
    pub(super) bounces: Vec<Bounce>,
    /// Tries every completion strategy with every bounce buffer
    #[arg(long)]
    pub(super) all_pairs: bool,
    /// Separates what scattered DMA costs from what chains of mbufs cost, by a driver that sends dummy
    /// contents from one contiguous buffer
    #[arg(long)]
    pub(super) separate: bool,
}

impl ComparedArguments {
    /// Flags that were given and mean nothing to a kernel.
    pub(super) fn of_process(&self) -> Vec<&'static str> {
        given([("--all-pairs", self.all_pairs), ("--separate", self.separate)])
    }
}

/// Completion strategies with commas between them, of which some have a comma of their own.
#[derive(Clone, Debug)]
pub(super) struct Completions(pub(super) Vec<Completion>);

impl FromStr for Completions {
    type Err = ParseCompletionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut names: Vec<String> = Vec::new();
        for part in text.split(',') {
            let is_threshold = part.trim().starts_with(|first: char| first.is_ascii_digit());
            match names.last_mut() {
                Some(last) if is_threshold => *last = format!("{last},{part}"),
                _ => names.push(part.to_owned()),
            }
        }
        names.iter().map(|name| name.parse()).collect::<Result<_, _>>().map(Completions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_within_a_strategy_does_not_end_it() {
        let all: Completions = "interrupt,adaptive:10%,30%,interrupt-free".parse().unwrap();
        let names: Vec<_> = all.0.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["interrupt", "adaptive:10%,30%", "interrupt-free"]);
        for text in ["", "10%", "adaptive:10%", "interrupt,,adaptive", "adaptive:30%,10%"] {
            assert!(text.parse::<Completions>().is_err(), "{text}");
        }
    }
}
