//! A mixed load, as it is written: phases of messages, in each of which the application may compute.

use std::fmt;
use std::str::FromStr;

use warikomi_clock::Span;
use warikomi_protocol::commands::{LoadPhase, MixedLoad};

use super::super::traffic::{Mixture, Traffic};
use crate::error::Error;
use crate::values::span_within;

/// Short messages, long ones, both in turn at random, and an application that computes between them.
const USUAL: [&str; 6] =
    ["64", "4096", "65507", "random:64,1472,16384", "4096/compute=30us", "64/compute=60us"];

/// A phase: what is sent, and for how long the application computes before each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    text: String,
    traffic: Traffic,
    compute: Span,
}

impl FromStr for Phase {
    type Err = Error;

    fn from_str(text: &str) -> Result<Phase, Error> {
        let text = text.trim();
        let form = |why: String| {
            Error::impossible(format!(
                "'{text}' is no phase of a mixed load ({why}); write BYTES or a mixture, and behind it how long the \
                 application computes for each message if it does: 64, 4096/compute=30us, 64x10,1472x5/compute=5us"
            ))
        };
        let (messages, compute) = match text.split_once('/') {
            None => (text, Span::ZERO),
            Some((messages, computes)) => {
                let time = computes.trim().strip_prefix("compute=");
                let time = time.ok_or_else(|| form(format!("'{computes}' is not compute=TIME")))?;
                let span =
                    span_within(time, Span::from_ns(1)..=Span::from_ms(100)).map_err(form)?;
                (messages, span)
            }
        };
        let traffic = match messages.trim().parse::<u32>() {
            Ok(bytes) => Traffic::Size(bytes),
            Err(_) => {
                let mixture = messages.parse::<Mixture>();
                Traffic::Mixture(mixture.map_err(|error| form(error.to_string()))?)
            }
        };
        Ok(Phase { text: text.to_owned(), traffic, compute })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A load of several phases, while frames come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// How long messages are sent in each.
    pub phase: Span,
    /// How often all phases are measured, behind a round that is not.
    pub rounds: u32,
    /// Time between two frames that come meanwhile; `None` for no frames.
    pub receive_interval: Option<Span>,
}

impl Load {
    /// The phases that there are if none are asked for.
    pub fn usual_phases() -> Result<Vec<Phase>, Error> {
        USUAL.iter().map(|text| text.parse()).collect()
    }

    /// Lengths of messages in bytes, of all phases.
    pub(super) fn sizes_bytes(&self) -> Vec<u32> {
        let all = self.phases.iter().flat_map(|phase| phase.traffic.sizes_bytes());
        let mut sizes: Vec<u32> = all.copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// How long all of it takes, without the time in which packets come back.
    pub(super) fn all(&self) -> Span {
        self.phase * self.phases.len() as u64 * u64::from(self.rounds + 1)
    }

    /// As a sender carries it out.
    pub(super) fn to_command(&self) -> MixedLoad {
        let phase = |phase: &Phase| LoadPhase {
            sizes_bytes: phase.traffic.sizes_bytes().to_vec(),
            block: phase.traffic.block(),
            compute_ps: phase.compute.as_ps(),
        };
        MixedLoad {
            phases: self.phases.iter().map(phase).collect(),
            phase_ps: self.phase.as_ps(),
            rounds: self.rounds + 1,
            receive_interval_ps: self.receive_interval.map_or(0, Span::as_ps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_phase_is_read_with_what_the_application_computes() {
        let load = Load {
            phases: ["64", "64x10,1472x5/compute=5us"].map(|text| text.parse().unwrap()).to_vec(),
            phase: Span::from_ms(10),
            rounds: 3,
            receive_interval: None,
        };
        assert_eq!(load.sizes_bytes(), [64, 1_472]);
        assert_eq!(load.all(), Span::from_ms(80));
        let command = load.to_command();
        assert_eq!((command.rounds, command.receive_interval_ps), (4, 0));
        assert_eq!((command.phases[0].block, command.phases[0].compute_ps), (1, 0));
        assert_eq!((command.phases[1].block, command.phases[1].compute_ps), (5, 5_000_000));
        assert_eq!(Load::usual_phases().unwrap().len(), USUAL.len());
    }

    #[test]
    fn what_is_no_phase_is_refused_with_what_would_be() {
        for text in ["", "64/5us", "64/compute=", "64/compute=1s", "ten", "15x1"] {
            let refused = text.parse::<Phase>().unwrap_err().to_string();
            assert!(refused.contains("4096/compute=30us"), "{text}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn no_text_upsets_it(text in ".{0,40}") {
            let _ = text.parse::<Phase>();
            let _ = format!("64/compute={text}").parse::<Phase>();
        }
    }
}
