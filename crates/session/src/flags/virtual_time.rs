//! Flags of virtual time for a driver in a real kernel; of experiments that can have it.

use clap::Args;
use warikomi_clock::Span;
use warikomi_target::kernel::GuestCosts;

/// Whether a kernel's time is virtual.
#[derive(Args)]
#[command(next_help_heading = "Virtual time, with --target kernel")]
pub struct VirtualFlag {
    /// Virtual time: the kernel's time is ours, so deadlines and intervals are exact on any machine, and one seed is
    /// one history; what the kernel does takes what is declared, and nothing else does. Wants a kernel made by
    /// `warikomi kernel build --virtual`
    #[arg(long = "virtual")]
    pub virtual_time: bool,
}

/// Whether a kernel's time is virtual, and what its work costs then.
#[derive(Args)]
#[command(next_help_heading = "Virtual time, with --target kernel")]
pub struct VirtualArguments {
    #[command(flatten)]
    flag: VirtualFlag,
    /// What a register access of the driver takes in virtual time [default: 0]
    #[arg(long, value_name = "TIME", requires = "virtual_time")]
    access_cost: Option<Span>,
    /// What an interrupt takes besides its accesses, charged at the first of them [default: 0]
    #[arg(long, value_name = "TIME", requires = "virtual_time")]
    interrupt_cost: Option<Span>,
    /// What a frame takes that the driver takes from its ring, with all that is done with it; charged at the
    /// driver's next access [default: 0]
    #[arg(long, value_name = "TIME", requires = "virtual_time")]
    frame_cost: Option<Span>,
}

impl VirtualArguments {
    /// What work costs, if time is virtual.
    pub(super) fn costs(&self) -> Option<GuestCosts> {
        let or_none = |cost: Option<Span>| cost.unwrap_or(Span::ZERO);
        self.flag.virtual_time.then(|| GuestCosts {
            access: or_none(self.access_cost),
            interrupt: or_none(self.interrupt_cost),
            frame: or_none(self.frame_cost),
        })
    }
}
