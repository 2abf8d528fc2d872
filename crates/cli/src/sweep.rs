//! `warikomi sweep`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use warikomi_inject::{FrameBytes, LineRate, Receiver};
use warikomi_lab::Session;
use warikomi_lab::inject::Application;
use warikomi_lab::sweep::{Cycle, CycleLog, SweepPlan, SweepProgress, Swept, read_cycles, sweep};
use warikomi_measure::RunDirectory;
use warikomi_wire::WireKind;

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use warikomi_lab::ReceiverName;
use warikomi_session::TargetArguments;

/// For each frame length, injects cycles of packets with growing interval, from the shortest that is
/// possible until neither the driver nor the application loses one, and beyond; then searches the
/// shortest interval without loss by bisection. The throughput there stands beside the published
/// one.
///
/// Leave the machine alone meanwhile. A sweep that is stopped (Ctrl-C) keeps its cycles, and goes on
/// with --resume.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    plan: PlanArguments,
    /// The socket's receive buffer of the application in the guest, in bytes [default: what Linux
    /// gives to one that does not ask]
    #[arg(long, value_name = "BYTES", default_value_t = LINUX_DEFAULT_BUFFER_BYTES,
        hide_default_value = true)]
    socket_buffer: u32,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(next_help_heading = "What is swept")]
struct PlanArguments {
    /// Go on with a sweep that was stopped, from its directory
    #[arg(long, value_name = "DIR",
        conflicts_with_all = ["sizes", "count", "repeat", "receiver", "line_rate"])]
    resume: Option<PathBuf>,
    /// Frame lengths without check sequence, 60 to 16379 bytes each [default: the published ones]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',')]
    sizes: Vec<FrameBytes>,
    /// Packets of a cycle
    #[arg(long, value_name = "N", default_value_t = SweepPlan::default().count)]
    count: u64,
    /// How often the shortest interval is searched; the median counts
    #[arg(long, value_name = "N", default_value_t = SweepPlan::default().repeat)]
    repeat: u32,
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

/// Where a sweep is kept, and how far it has come.
struct Begun {
    plan: SweepPlan,
    directory: RunDirectory,
    earlier: Vec<Cycle>,
    log: CycleLog,
}

impl PlanArguments {
    fn plan(&self, receiver: Receiver) -> Result<SweepPlan> {
        let mut plan = SweepPlan {
            count: self.count,
            repeat: self.repeat,
            receiver: self.receiver.map_or(receiver, Into::into),
            line_rate_bps: self.line_rate.map(|rate| rate.0),
            ..SweepPlan::default()
        };
        if !self.sizes.is_empty() {
            plan.sizes_bytes = self.sizes.iter().map(|size| size.0).collect();
        }
        plan.validate()?;
        Ok(plan)
    }
}

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    let plan = arguments.plan.plan(arguments.target.receiver())?;
    let mut prepared = arguments.target.prepare()?;
    prepared.defer_nothing();
    let wire = WireKind::Sink.build().context("cannot set up the wire")?;
    let mut session = prepared.start(wire, &invocation.interrupted, &mut |_| ())?;
    let mut begun = match &invocation.resume {
        Some(directory) => resume(plan, directory)?,
        None => begin(plan, invocation.new_run(&arguments.runs, "sweep")?)?,
    };
    let application =
        Application { socket_buffer_bytes: arguments.socket_buffer, ..Application::default() };
    let mut swept = with_bar(&mut session, application, &mut begun).with_context(|| {
        let path = begun.directory.path().display();
        format!("the cycles so far are in {path}; go on with: warikomi sweep --resume {path}")
    })?;
    session.stop()?;
    output::describe_and_print(&mut swept.result, arguments.json);
    begun.directory.write_table("repeats", &swept.repeats)?;
    begun.directory.write_result(&swept.result)?;
    eprintln!("kept in {}", begun.directory.path().display());
    Ok(ExitCode::SUCCESS)
}

fn begin(plan: SweepPlan, directory: RunDirectory) -> Result<Begun> {
    let file = directory.append("cycles.csv", 0)?;
    Ok(Begun { plan, directory, earlier: vec![], log: CycleLog::new(Box::new(file), true) })
}

fn resume(plan: SweepPlan, path: &Path) -> Result<Begun> {
    let directory = RunDirectory::reopen(path).context("this sweep cannot go on")?;
    let file = path.join("cycles.csv");
    let text = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let (earlier, whole) = read_cycles(&text)?;
    let file = directory.append("cycles.csv", whole as u64)?;
    let log = CycleLog::new(Box::new(file), whole == 0);
    eprintln!("going on after {} cycles", earlier.len());
    Ok(Begun { plan, directory, earlier, log })
}

fn with_bar(session: &mut Session, application: Application, begun: &mut Begun) -> Result<Swept> {
    let bar = output::bar("{bar:32} {percent:>3}% {elapsed}, about {eta} left  {wide_msg}");
    let bar = Cleared(bar);
    let mut show = |progress: SweepProgress<'_>| {
        bar.0.set_length(progress.expected);
        bar.0.set_position(progress.done);
        let cycle = progress.cycle;
        bar.0.set_message(format!("{} bytes every {:.0} ns", cycle.size_bytes, cycle.interval_ns));
    };
    let earlier = std::mem::take(&mut begun.earlier);
    Ok(sweep(session, &begun.plan, application, earlier, &mut begun.log, &mut show)?)
}
