//! Flags of a mixed load.

use std::str::FromStr;

use clap::Args;
use warikomi_clock::Span;
use warikomi_session::flags::given;

use super::super::mixed::{Load, Phase};
use crate::error::Error;
use crate::values::span_within;

/// Time between two frames that come, unless that is said.
const USUAL_RECEIVE: Span = Span::from_us(20);

#[derive(Args)]
#[command(next_help_heading = "A mixed load")]
pub(super) struct MixedArguments {
    /// A load of several phases, one behind the other and over again, while frames come: adaptive-watching, which
    /// watches the ring, the processor and the receive side as well, against each fixed choice (those of --completions
    /// and --bounces that do not adapt), with a verdict. --duration is that of each phase, --repeat the rounds
    #[arg(long)]
    pub(super) mixed: bool,
    /// A phase: BYTES or a mixture, and /compute=TIME if the application computes before each message; may be repeated
    /// [default: 64, 4096, 65507, random:64,1472,16384, 4096/compute=30us, 64/compute=60us]
    #[arg(long = "phase", value_name = "PHASE", requires = "mixed")]
    phases: Vec<Phase>,
    /// Time between two frames of 256 bytes that come meanwhile, 1us to 1s, or none [default: 20us]
    #[arg(long, value_name = "TIME|none", requires = "mixed")]
    receive_interval: Option<ReceiveInterval>,
}

impl MixedArguments {
    /// Flags that were given and mean nothing to a kernel.
    pub(super) fn of_process(&self) -> Vec<&'static str> {
        given([("--mixed", self.mixed)])
    }

    /// Refuses flags of other loads.
    pub(super) fn refuse(&self, others: &[&str]) -> Result<(), Error> {
        match others.first() {
            None => Ok(()),
            Some(flag) => Err(Error::impossible(format!(
                "{flag} does not go with --mixed, whose load is its phases (--phase), each for a time (--duration), \
                 over one card and by one clock; leave {flag} out"
            ))),
        }
    }

    /// The load, of phases that last so long, in so many rounds.
    pub(super) fn load(&self, phase: Span, rounds: u32) -> Result<Load, Error> {
        let phases = match self.phases.is_empty() {
            true => Load::usual_phases()?,
            false => self.phases.clone(),
        };
        let usual = ReceiveInterval(Some(USUAL_RECEIVE));
        let receive_interval = self.receive_interval.unwrap_or(usual).0;
        Ok(Load { phases, phase, rounds, receive_interval })
    }
}

/// Time between two frames; `None` for no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReceiveInterval(Option<Span>);

impl FromStr for ReceiveInterval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "none" => Ok(ReceiveInterval(None)),
            time => {
                let span = span_within(time, Span::from_us(1)..=Span::from_ms(1_000));
                span.map(|span| ReceiveInterval(Some(span)))
                    .map_err(|why| format!("{why}; or none, so that nothing comes"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_at_an_interval_or_not_at_all() {
        assert_eq!("none".parse(), Ok(ReceiveInterval(None)));
        assert_eq!("5us".parse(), Ok(ReceiveInterval(Some(Span::from_us(5)))));
        let refused = "1ns".parse::<ReceiveInterval>().unwrap_err();
        assert!(refused.contains("1 µs") && refused.contains("or none"), "{refused}");
    }
}
