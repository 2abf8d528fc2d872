//! `warikomi sweep`.

use clap::Args;
use warikomi_inject::{FrameBytes, LineRate, Receiver};
use warikomi_measure::RunResult;
use warikomi_measure::published;
use warikomi_session::{TargetArguments, Usual, VirtualArguments};
use warikomi_wire::WireKind;

use super::plan::SweepPlan;
use super::{columns, made};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::inject::Application;
use crate::on_demand::OnDemand;
use crate::values::ReceiverName;
use crate::watch::Watch;

/// For each frame length, injects cycles of packets with growing interval, from the shortest that is
/// possible until neither the driver nor the application loses one, and beyond; then searches the
/// shortest interval without loss by bisection. The throughput there stands beside the published
/// one.
///
/// The intervals of the first pass are then made several times more, and where the application gets significantly less
/// than at shorter and at longer intervals, the end-to-end curve dips: it is said where, and which counters of the
/// guest's kernel changed with it.
///
/// Leave the machine alone meanwhile. A sweep that is stopped (Ctrl-C) keeps its cycles, and goes on
/// with --resume.
#[derive(Args)]
pub struct Sweep {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    time: VirtualArguments,
    #[command(flatten)]
    plan: PlanArguments,
    /// The socket's receive buffer of the application that receives, in bytes [default: what Linux gives to one that
    /// does not ask]
    #[arg(long, value_name = "BYTES")]
    socket_buffer: Option<u32>,
}

#[derive(Args)]
#[command(next_help_heading = "What is swept")]
struct PlanArguments {
    /// Frame lengths without check sequence, 60 to 16379 bytes each [default: the published ones]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    sizes: Vec<FrameBytes>,
    /// Packets of a cycle
    #[arg(long, value_name = "N", default_value_t = SweepPlan::default().count)]
    count: u64,
    /// How often the shortest interval is searched; the median counts
    #[arg(long, value_name = "N", default_value_t = SweepPlan::default().repeat)]
    repeat: u32,
    /// How often each interval of the pass with growing ones is made again, to find dips of the end-to-end curve; 0 to
    /// look for none [default: 10, of packets for the application]
    #[arg(long, value_name = "N")]
    curve: Option<u32>,
    /// How far packets are meant to go: to an application over UDP (driver and application are then
    /// judged from the same cycles), or to the driver only [default: application, where there is one]
    #[arg(long, value_enum, default_value = None)]
    receiver: Option<ReceiverName>,
    /// Send each length once more over a line such as 1G: what a NIC on it reaches
    #[arg(long, value_name = "RATE")]
    line_rate: Option<LineRate>,
}

/// Linux doubles what it is asked for; this makes its default of 212,992 bytes.
const LINUX_DEFAULT_BUFFER_BYTES: u32 = 106_496;

impl PlanArguments {
    fn plan(&self, receiver: Receiver) -> Result<SweepPlan, Error> {
        let mut plan = SweepPlan {
            count: self.count,
            repeat: self.repeat,
            receiver: self.receiver.map_or(receiver, Into::into),
            line_rate_bps: self.line_rate.map(|rate| rate.0),
            ..SweepPlan::default()
        };
        if let Some(curve) = self.curve {
            if plan.receiver == Receiver::Driver {
                return Err(Error::impossible(
                    "packets for the driver have no end-to-end curve: leave --curve out, or have an application \
                     receive them (--receiver application)",
                ));
            }
            plan.curve = curve;
        }
        if !self.sizes.is_empty() {
            plan.sizes_bytes = self.sizes.iter().map(|size| size.0).collect();
        }
        plan.validate()?;
        Ok(plan)
    }
}

impl Experiment for Sweep {
    const NAME: &'static str = "sweep";
    const ABOUT: &'static str =
        "Success against interval for frames of several lengths, and the shortest without loss";
    const PUBLISHED: Option<&'static str> = Some(published::INJECTION);
    /// Lengths are independent: each is searched by itself.
    const SHARDS: bool = true;

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let plan = self.plan.plan(self.target.receiver())?;
        let usual = Application::with_buffer(LINUX_DEFAULT_BUFFER_BYTES);
        let application = usual.asked(self.socket_buffer, plan.receiver)?;
        let mut target = OnDemand::new(|watch| {
            let mut prepared = self.target.prepare_at(Usual::Packets, &self.time, 1)?;
            prepared.defer_nothing();
            watch.start(&prepared, &WireKind::Sink)
        });
        let swept = made::sweep(&mut target, &plan, application, watch)?;
        target.stop()?;
        Ok(Conclusion::new(swept.result)
            .with_table("cycles", swept.cycles)
            .with_table("repeats", swept.repeats))
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}
