//! Flags of sending in a kernel.

use clap::Args;
use warikomi_session::flags::given;

use super::super::kernel::{Completion, Options};
use super::sender::SenderArguments;

/// What a kernel alone has.
#[derive(Args)]
#[command(next_help_heading = "Sending in a kernel (--target kernel)")]
pub(super) struct KernelSending {
    /// How often pktgen hands each packet to the driver, with commas (1 to 256); more than once with
    /// xmit_more, which saves doorbells [default: 1,8,32]
    #[arg(long, value_name = "N,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=256))]
    bursts: Vec<u32>,
    /// When the device says that frames have been sent, with commas: napi (at once), or
    /// coalesce:TIMEus/FRAMES [default: napi,coalesce:100us/32]
    #[arg(long, value_name = "HOW,...", value_delimiter = ',')]
    interrupts: Vec<Completion>,
}

impl KernelSending {
    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        given([
            ("--bursts", !self.bursts.is_empty()),
            ("--interrupts", !self.interrupts.is_empty()),
        ])
    }

    /// The usual comparison, but for what these flags ask for.
    pub(super) fn options(&self, sender: &SenderArguments) -> Options {
        let usual = Options::default();
        Options {
            senders: given_or(&sender.senders, usual.senders),
            bursts: given_or(&self.bursts, usual.bursts),
            completions: given_or(&self.interrupts, usual.completions),
            tso: given_or(&sender.tso(), usual.tso),
            ..usual
        }
    }
}

/// What was given, or, if nothing was, what is usual.
pub(super) fn given_or<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
}
