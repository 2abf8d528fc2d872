//! `warikomi receive`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use warikomi_clock::{Seed, Span};
use warikomi_driver::strategy::{CpuBudget, DEFAULT_CPU_BUDGET, Strategy};
use warikomi_inject::{FrameBytes, LineRate};
use warikomi_lab::SessionError;
use warikomi_lab::receive::{Progress, Received, Traffic, advice, kernel, process, simulated};
use warikomi_sim::{CostModel, CostsFile, SchedulerModel};
use warikomi_target::Interrupted;
use warikomi_wire::WireKind;

use crate::invocation::Invocation;
use crate::output::{self, Cleared};
use crate::target::{TargetArguments, Usual, flags, refuse};

/// What an Ethernet header adds to the MTU, in bytes.
const ETHERNET_HEADER_BYTES: usize = 14;

/// Compares ways to receive: waiting for an interrupt, polling, and both, on the same device with the
/// same traffic, while a compute job wants the same processor.
///
/// Bursts come over a line to an application in the target. Each row tells, for one way to receive
/// with one poll time T and one receive buffer: the share of the processor that receiving took from the
/// compute job (against its work when it is alone, just before and after), the packets that were
/// lost, how long the last packet of a burst took to the application, and the interrupts.
///
/// In a kernel: interrupt (asleep until an interrupt), napi-defer (the kernel polls once more after T
/// before it enables the interrupt), busy-poll (SO_BUSY_POLL: the application polls for T, then
/// sleeps), prefer-busy-poll (the device is left to it meanwhile), epoll-busy-poll (the same in
/// epoll_wait), irq-suspend (interrupts stay off as long as there is something to receive; Linux
/// 6.13). A way that the kernel does not have is a row that gives the kernel's own reason.
///
/// Keeps plan.toml, result.json and bursts.csv (every burst) in a directory of its own; `warikomi
/// report` draws them. Leave the machine alone meanwhile.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    traffic: TrafficArguments,
    #[command(flatten)]
    compared: ComparedArguments,
    /// Where the run's directory is made
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Runs in virtual time (--target process): driver, NIC, application and compute job in one thread,
    /// with declared costs; one seed is one history
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// Costs of virtual time, as `warikomi calibrate` prints them [default: declared ones]
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    costs: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warikomi receive --target kernel
      Every way to receive, with the poll times, buffers and bursts that were published.
  warikomi receive --strategies interrupt,busy-poll --polls 50,200 --buffers 1MB --load 0.6
      Two of them, on a line that is busy for 60% of the time.
  warikomi receive --bursts 1KB,5KB,20KB,50KB,65KB --polls 100 --buffers 7MB
      CPU share against burst size.";

#[derive(Args)]
#[command(next_help_heading = "Traffic")]
struct TrafficArguments {
    /// Lengths of bursts, with commas: each is a row of its own
    #[arg(
        long,
        alias = "burst",
        value_name = "BYTES,...",
        value_delimiter = ',',
        default_value = "50KB"
    )]
    bursts: Vec<FrameBytes>,
    /// Length of a full frame without check sequence [default: what the MTU allows]
    #[arg(long, value_name = "BYTES")]
    frame: Option<FrameBytes>,
    /// The line that bursts come over
    #[arg(long, value_name = "RATE", default_value = "800M")]
    line_rate: LineRate,
    /// The share of the line that bursts take up in the mean, above 0, up to 1
    #[arg(long, value_name = "SHARE", default_value_t = Traffic::default().load)]
    load: f64,
    /// Random times between bursts (exponentially distributed), rather than one time
    #[arg(long)]
    poisson: bool,
    /// Where the randomness starts from
    #[arg(long, value_name = "N", default_value_t = Traffic::default().seed.0)]
    seed: u64,
    /// How long bursts come, for each row
    #[arg(long, value_name = "TIME", default_value = "2s")]
    duration: Span,
}

#[derive(Args)]
#[command(next_help_heading = "What is compared")]
struct ComparedArguments {
    /// Ways to receive, with commas [default: all that the target has]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    strategies: Vec<String>,
    /// Poll times T in microseconds, with commas [default: 100, 140 and 300, the published ones]
    #[arg(long, value_name = "US,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    polls: Vec<u32>,
    /// The application's receive buffer, with commas [default: 7MB, 10MB and 15MB, the published ones]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = buffer)]
    buffers: Vec<u32>,
    /// Looks for the smallest receive buffer without loss, up to the largest of --buffers
    /// (--target process)
    #[arg(long)]
    smallest_buffer: bool,
    /// Receives without a compute job beside it (--target process)
    #[arg(long)]
    no_compute: bool,
    /// How long the compute job runs alone, before and after each row (--target kernel) [default:
    /// 200ms]
    #[arg(long, value_name = "TIME")]
    calibration: Option<Span>,
}

/// The largest receive buffer that a guest of this kind takes, in bytes.
const MAX_BUFFER_BYTES: usize = 1 << 30;

/// A buffer's size: as a frame's, and in MB of 1,000,000 bytes.
pub(crate) fn buffer(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let bytes = match text.strip_suffix("MB") {
        // A thousand KB are as many digits right as a MB.
        Some(number) => format!("{}KB", number.trim())
            .parse::<FrameBytes>()
            .map(|kb| kb.0.saturating_mul(1_000)),
        None => text.parse::<FrameBytes>().map(|bytes| bytes.0),
    };
    let bytes = bytes.map_err(|_| {
        format!(
            "'{text}' is not a buffer; write bytes (65536), KB of 1,000 or MB of 1,000,000 (7MB)"
        )
    })?;
    let possible = (1..=MAX_BUFFER_BYTES).contains(&bytes);
    u32::try_from(bytes)
        .ok()
        .filter(|_| possible)
        .ok_or_else(|| format!("{text} is not possible: choose 1 byte to 1 GiB"))
}

impl ComparedArguments {
    /// Flags that were given and mean nothing to a process, or to a kernel.
    fn refuse_those_of_others(&self, process: bool) -> Result<()> {
        let only_process =
            flags([("--smallest-buffer", self.smallest_buffer), ("--no-compute", self.no_compute)]);
        let only_kernel = flags([("--calibration", self.calibration.is_some())]);
        match process {
            true => refuse(&only_kernel, "kernel"),
            false => refuse(&only_process, "process"),
        }
    }
}

impl TrafficArguments {
    fn traffic(&self, mtu_bytes: Option<usize>) -> Traffic {
        let frame_bytes = match (self.frame, mtu_bytes) {
            (Some(frame), _) => frame.0,
            (None, Some(mtu)) => mtu + ETHERNET_HEADER_BYTES,
            (None, None) => Traffic::default().frame_bytes,
        };
        Traffic {
            bursts_bytes: self.bursts.iter().map(|burst| burst.0).collect(),
            frame_bytes,
            line_rate_bps: self.line_rate.0,
            load: self.load,
            poisson: self.poisson,
            seed: Seed(self.seed),
            duration: self.duration,
        }
    }
}

impl Arguments {
    /// What to compare in a driver of its own.
    fn in_process(&self) -> Result<process::Options> {
        let compared = &self.compared;
        let usual = process::Options::default();
        let frame = self.traffic.frame.map_or(usual.traffic.frame_bytes, |frame| frame.0);
        let mut options = process::Options {
            traffic: Traffic { frame_bytes: frame, ..self.traffic.traffic(None) },
            find_smallest_buffer: compared.smallest_buffer,
            compute: !compared.no_compute,
            ..usual
        };
        if !compared.strategies.is_empty() {
            let named = compared.strategies.iter().map(|name| name.parse::<Strategy>());
            options.strategies = named.collect::<Result<_, _>>()?;
        }
        if let Some(budget) = self.target.cpu_budget() {
            for strategy in &mut options.strategies {
                if let Strategy::Auto { cpu_budget } = strategy {
                    *cpu_budget = budget;
                }
            }
        }
        if !compared.polls.is_empty() {
            options.polls_us.clone_from(&compared.polls);
        }
        if !compared.buffers.is_empty() {
            options.buffers_bytes = compared.buffers.iter().map(|&bytes| bytes.into()).collect();
        }
        for &burst in &options.traffic.bursts_bytes {
            options.traffic.plan(burst)?;
        }
        Ok(options)
    }

    /// What to compare in a kernel whose interface has this MTU.
    fn in_kernel(&self, mtu_bytes: Option<usize>) -> Result<kernel::Options> {
        let compared = &self.compared;
        let mut options = kernel::Options {
            traffic: self.traffic.traffic(mtu_bytes),
            ..kernel::Options::default()
        };
        if let Some(calibration) = compared.calibration {
            options.calibration = calibration;
        }
        if !compared.strategies.is_empty() {
            let named = compared.strategies.iter().map(|name| name.parse::<kernel::Strategy>());
            options.strategies = named.collect::<Result<_, _>>()?;
        }
        if !compared.polls.is_empty() {
            options.polls_us.clone_from(&compared.polls);
        }
        if !compared.buffers.is_empty() {
            options.buffers_bytes.clone_from(&compared.buffers);
        }
        if let Some(polls) = self.target.napi_defer_hard_irqs() {
            options.napi_defer_hard_irqs = polls;
        }
        if options.calibration < LEAST_CALIBRATION {
            bail!(
                "--calibration {} is too short to tell how fast the compute job is: give {} or more",
                options.calibration,
                LEAST_CALIBRATION
            );
        }
        for &burst in &options.traffic.bursts_bytes {
            options.traffic.plan(burst)?;
        }
        Ok(options)
    }
}

/// Less says nothing: the kernel's tick is 10 ms.
const LEAST_CALIBRATION: Span = Span::from_ms(50);

pub(crate) fn run(arguments: &Arguments, invocation: &Invocation) -> Result<ExitCode> {
    if arguments.virtual_time && !arguments.target.is_process() {
        bail!("--virtual needs --target process: a kernel has a clock of its own");
    }
    let interrupted = &invocation.interrupted;
    let process = arguments.target.is_process();
    arguments.compared.refuse_those_of_others(process)?;
    let mut found = match process {
        false => in_kernel(arguments, interrupted)?,
        true if arguments.virtual_time => in_virtual_time(arguments)?,
        true => in_process(arguments, interrupted)?,
    };
    let budget = arguments.target.cpu_budget().unwrap_or(DEFAULT_CPU_BUDGET);
    advise(&mut found, budget);
    output::print(&mut found.result, arguments.json);
    let directory = invocation.new_run(&arguments.runs, "receive")?;
    directory.write_table("bursts", &found.bursts)?;
    directory.write_result(&found.result)?;
    eprintln!("kept in {}", directory.path().display());
    Ok(ExitCode::SUCCESS)
}

fn show(bar: &Cleared, progress: Progress<'_>) {
    bar.show(progress.row, progress.rows, progress.strategy);
}

/// Adds what the rows say to somebody with this budget.
fn advise(found: &mut Received, budget: CpuBudget) {
    let said = match advice::advise(&found.rows, budget.share()) {
        Ok(advice) => serde_json::to_value(advice).unwrap_or_default(),
        Err(none) => serde_json::json!({
            "cpu_budget_share": budget.share(), "none": none.to_string()
        }),
    };
    found.result.figures.insert("advice".to_owned(), said);
}

/// What came of it in a driver of its own.
fn in_process(arguments: &Arguments, interrupted: &Interrupted) -> Result<Received> {
    arguments.target.refuse_ways()?;
    let receiver = arguments.target.receiver_as(Usual::Receiving);
    let options = process::Options { receiver, ..arguments.in_process()? };
    let prepared = arguments.target.prepare_as(Usual::Receiving)?;
    let bar = Cleared::over_rows();
    let mut bring_up = |orders: &_| {
        let wire = WireKind::Sink.build().map_err(SessionError::Wire)?;
        let options = prepared.with_orders(orders).expect("a process target was asked for");
        warikomi_lab::Session::start_process(&options, wire, interrupted, &mut |_| ())
    };
    Ok(process::receive(&options, &mut bring_up, &mut |progress| show(&bar, progress))?)
}

/// The same in virtual time.
fn in_virtual_time(arguments: &Arguments) -> Result<Received> {
    arguments.target.refuse_ways()?;
    let options = arguments.in_process()?;
    let costs = match &arguments.costs {
        None => CostModel::default(),
        Some(path) => CostsFile::read(path)?.costs,
    };
    let bar = Cleared::over_rows();
    let scheduler = SchedulerModel::default();
    Ok(simulated::receive(&options, &costs, &scheduler, &mut |progress| show(&bar, progress))?)
}

/// The same for a kernel.
fn in_kernel(arguments: &Arguments, interrupted: &Interrupted) -> Result<Received> {
    // What cannot be is refused before a kernel is started for it.
    arguments.in_kernel(None)?;
    let prepared = arguments.target.prepare()?;
    let wire = WireKind::Sink.build().context("cannot set up the wire")?;
    let bar = Cleared::over_rows();
    let mut session = prepared.start(wire, interrupted, &mut |_| ())?;
    let mtu = session.info.settings.get("mtu_bytes").and_then(serde_json::Value::as_u64);
    let options = arguments.in_kernel(mtu.map(|mtu| mtu as usize))?;
    let found = kernel::receive(&mut session, &options, &mut |progress| show(&bar, progress))?;
    session.stop()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_read_as_people_write_them() {
        assert_eq!(buffer("7MB"), Ok(7_000_000));
        assert_eq!(buffer("0.5 MB"), Ok(500_000));
        assert_eq!((buffer("64KiB"), buffer("1500")), (Ok(65_536), Ok(1_500)));
        for text in ["", "0", "MB", "2000MB", "99999999999999MB", "-1MB", "7GB"] {
            assert!(buffer(text).is_err(), "{text}");
        }
    }
}
