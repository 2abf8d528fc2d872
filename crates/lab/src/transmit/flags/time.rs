//! Flags that say how long each row is measured, and by which clock.

use std::path::Path;

use clap::{Args, ValueHint};
use warikomi_clock::Span;
use warikomi_session::CostArguments;
use warikomi_session::flags::given;
use warikomi_sim::CostsFile;
use warikomi_sim::transmit::SendCosts;
use warikomi_target::kernel::GuestCosts;

use super::super::options::{Amount, Options};
use crate::error::Error;
use crate::values::span_within;

/// In virtual time a row need not outlast what disturbs a machine.
const VIRTUAL_ROW: Span = Span::from_ms(20);

/// How long a phase of a mixed load is in real time.
const REAL_PHASE: Span = Span::from_ms(100);

#[derive(Args)]
#[command(next_help_heading = "Time")]
pub(super) struct TimeArguments {
    /// About how long each repetition of each row is measured, 1ms to 1min [default: 100ms; 20ms in
    /// virtual time]
    #[arg(long, value_name = "TIME", conflicts_with = "count", value_parser = duration)]
    duration: Option<Span>,
    /// Messages of each repetition of each row, rather than a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(super) count: Option<u64>,
    /// Times that each row is measured, in turns with all others; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) repeat: u32,
    /// Virtual time; one seed is one history, and work takes what is declared. Of a process: the same code in one
    /// thread. Of a kernel: the very kernel, made by `warikomi kernel build --virtual`
    #[arg(long = "virtual")]
    pub(super) virtual_time: bool,
    /// Runs in real and in virtual time, and shows both
    #[arg(long, conflicts_with = "virtual_time")]
    pub(super) both: bool,
    /// Costs of virtual time: fitted-bsd-2004 (of a process), or a file as `warikomi calibrate` prints it [default:
    /// declared ones of a machine of today; of a kernel, 0]
    #[arg(long, value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    costs: Option<String>,
}

impl TimeArguments {
    /// Flags that were given and mean nothing to a kernel.
    pub(super) fn of_process(&self) -> Vec<&'static str> {
        given([("--duration", self.duration.is_some()), ("--both", self.both)])
    }

    /// Flags that were given and mean nothing to a mixed load.
    pub(super) fn of_one_load(&self) -> Vec<&'static str> {
        given([("--count", self.count.is_some()), ("--both", self.both)])
    }

    /// How long each phase of a mixed load is.
    pub(super) fn phase(&self) -> Span {
        let usual = if self.virtual_time { VIRTUAL_ROW } else { REAL_PHASE };
        self.duration.unwrap_or(usual)
    }

    /// What a kernel's work costs, if its time is virtual.
    pub(super) fn kernel_costs(&self, costs: &CostArguments) -> Result<Option<GuestCosts>, Error> {
        if !self.virtual_time {
            return self.costs().map(|_| None);
        }
        Ok(Some(costs.over(self.costs.as_deref().map(Path::new))?))
    }

    /// How many messages each run has.
    pub(super) fn amount(&self) -> Amount {
        match (self.count, self.duration) {
            (Some(count), _) => Amount::Messages(count),
            (None, Some(time)) => Amount::For(time),
            (None, None) if self.virtual_time => Amount::For(VIRTUAL_ROW),
            (None, None) => Options::default().amount,
        }
    }

    pub(super) fn costs(&self) -> Result<SendCosts, Error> {
        let Some(costs) = &self.costs else { return Ok(SendCosts::default()) };
        if !self.virtual_time && !self.both {
            return Err(Error::impossible(
                "--costs is for virtual time; give --virtual or --both, or leave it out",
            ));
        }
        Ok(CostsFile::send_costs(costs)?)
    }
}

fn duration(text: &str) -> Result<Span, String> {
    span_within(text, Span::from_ms(1)..=Span::from_ms(60_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_refused_out_of_range() {
        assert!(duration("2h").is_err() && duration("1us").is_err());
        assert_eq!(duration("1s"), Ok(Span::from_ms(1_000)));
    }
}
