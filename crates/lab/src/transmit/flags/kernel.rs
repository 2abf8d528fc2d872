//! Flags of sending in a kernel.

use std::str::FromStr;

use clap::Args;
use warikomi_session::flags::given;

use super::super::kernel::{Completion, Options, Sender};

/// What a kernel alone has.
#[derive(Args)]
#[command(next_help_heading = "Sending in a kernel (--target kernel)")]
pub(super) struct KernelSending {
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

impl KernelSending {
    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        given([
            ("--senders", !self.senders.is_empty()),
            ("--bursts", !self.bursts.is_empty()),
            ("--interrupts", !self.interrupts.is_empty()),
            ("--tso", !self.tso.is_empty()),
        ])
    }

    /// The usual comparison, but for what these flags ask for.
    pub(super) fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            senders: given_or(&self.senders, usual.senders),
            bursts: given_or(&self.bursts, usual.bursts),
            completions: given_or(&self.interrupts, usual.completions),
            tso: given_or(&self.tso.iter().map(|on| on.0).collect::<Vec<_>>(), usual.tso),
            ..usual
        }
    }
}

/// What was given, or, if nothing was, what is usual.
pub(super) fn given_or<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
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
