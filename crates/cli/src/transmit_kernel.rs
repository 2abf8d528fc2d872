//! `warikomi transmit --target kernel`.

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use warikomi_clock::Span;
use warikomi_lab::transmit::kernel::{Completion, Judge, Options, Sender, transmit};
use warikomi_nic::bus::Bus;

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use warikomi_session::TargetArguments;
use warikomi_session::flags::given as flags;

/// What a kernel alone has.
#[derive(Args)]
#[command(next_help_heading = "Sending in a kernel (--target kernel)")]
pub(crate) struct KernelSending {
    /// What sends, with commas: pktgen (the kernel's packet generator), udp (an application), tcp (one that
    /// writes to a connection) [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    senders: Vec<Sender>,
    /// How often pktgen hands each packet to the driver, with commas (1 to 256); more than once with
    /// xmit_more, which saves doorbells [default: 1,8,32]
    #[arg(long, value_name = "N,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=256))]
    bursts: Vec<u32>,
    /// When the device says that frames have been sent, with commas: napi (at once), or
    /// coalesce:TIMEus/FRAMES [default: napi,coalesce:100us/32]
    #[arg(long, value_name = "HOW,...", value_delimiter = ',')]
    interrupts: Vec<Completion>,
    /// TCP with segmentation offload, with commas: on, off. r8169 has none for UDP [default: off,on]
    #[arg(long, value_name = "ON|OFF,...", value_delimiter = ',')]
    tso: Vec<OnOff>,
}

#[derive(Clone, Copy, Debug)]
struct OnOff(bool);

impl FromStr for OnOff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "on" => Ok(OnOff(true)),
            "off" => Ok(OnOff(false)),
            other => Err(format!("'{other}' is neither on nor off")),
        }
    }
}

/// What sending in a kernel and in a process have in common.
pub(crate) struct Common<'a> {
    pub(crate) target: &'a TargetArguments,
    /// `None` for a bus, and a line, that take no time.
    pub(crate) bus: Option<Bus>,
    pub(crate) line_rate_bps: Option<u64>,
    /// As they were given: none for the usual ones.
    pub(crate) sizes_bytes: &'a [u32],
    pub(crate) count: Option<u64>,
    pub(crate) repeat: u32,
    pub(crate) interval: Option<Span>,
    pub(crate) runs: &'a Path,
    pub(crate) json: bool,
}

impl KernelSending {
    /// The flags that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        flags([
            ("--senders", !self.senders.is_empty()),
            ("--bursts", !self.bursts.is_empty()),
            ("--interrupts", !self.interrupts.is_empty()),
            ("--tso", !self.tso.is_empty()),
        ])
    }

    fn options(&self, common: &Common<'_>) -> Result<Options> {
        let usual = Options::default();
        let tso: Vec<bool> = self.tso.iter().map(|on| on.0).collect();
        let options = Options {
            sizes_bytes: given_or(common.sizes_bytes, usual.sizes_bytes),
            senders: given_or(&self.senders, usual.senders),
            bursts: given_or(&self.bursts, usual.bursts),
            completions: given_or(&self.interrupts, usual.completions),
            tso: given_or(&tso, usual.tso),
            count: common.count.unwrap_or(usual.count),
            most_bytes: common
                .count
                .map_or(usual.most_bytes, |count| count.saturating_mul(1 << 16)),
            interval_us: common.interval.map_or(0, |span| span.as_ps().div_ceil(1_000_000)),
            repeat: common.repeat as usize,
        };
        options.check()?;
        Ok(options)
    }

    pub(crate) fn run(&self, common: &Common<'_>, invocation: &Invocation) -> Result<ExitCode> {
        // What cannot be is refused before a kernel is started for it.
        let options = self.options(common)?;
        let mut prepared = common.target.prepare()?;
        prepared.defer_nothing();
        prepared.attach_by(common.bus, common.line_rate_bps);
        let (host, judge) = Judge::with_host();
        let bar = Cleared::over_rows();
        let mut session = prepared.start(Box::new(host), &invocation.interrupted, &mut |_| ())?;
        let mut found = transmit(&mut session, &judge, &options, &mut |progress| {
            bar.show(progress.run, progress.runs, progress.sender.name());
        })?;
        session.stop()?;
        drop(bar);
        output::describe_and_print(&mut found.result, common.json);
        let directory = invocation.new_run(common.runs, "transmit")?;
        directory.write_result(&found.result)?;
        eprintln!("kept in {}", directory.path().display());
        Ok(ExitCode::SUCCESS)
    }
}

fn given_or<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_is_on_and_off_is_off() {
        let read = |text: &str| text.parse::<OnOff>().map(|on| on.0);
        assert_eq!((read("on"), read(" off")), (Ok(true), Ok(false)));
        assert!(read("yes").unwrap_err().contains("neither on nor off"));
    }
}
