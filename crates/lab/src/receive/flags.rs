//! `warikomi receive`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use warikomi_clock::{Seed, Span};
use warikomi_driver::strategy::{CpuBudget, DEFAULT_CPU_BUDGET, Strategy};
use warikomi_inject::{FrameBytes, LineRate, Receiver};
use warikomi_measure::RunResult;
use warikomi_measure::published;
use warikomi_process::Orders;
use warikomi_session::flags::{given, refuse};
use warikomi_session::{
    CostArguments, SessionError, StrictArguments, Strictness, TargetArguments, Usual,
};
use warikomi_sim::{CostModel, CostsFile, SchedulerModel};
use warikomi_wire::WireKind;

use super::claim::Claim;
use super::made::Received;
use super::row::Row;
use super::stall::Stall;
use super::traffic::Traffic;
use super::{columns, kernel, process, simulated};
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::values::buffer_bytes;
use crate::watch::Watch;

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
pub struct Receive {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    strict: StrictArguments,
    #[command(flatten)]
    traffic: TrafficArguments,
    #[command(flatten)]
    compared: ComparedArguments,
    /// Virtual time; one seed is one history, and work takes what is declared. Of a process: driver, NIC,
    /// application and compute job in one thread. Of a kernel: the very kernel, made by `warikomi kernel build
    /// --virtual`
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// Costs of virtual time, as `warikomi calibrate` prints them [default: declared ones; of a kernel, 0]
    #[arg(long, value_name = "FILE", requires = "virtual_time")]
    costs: Option<PathBuf>,
    #[command(flatten)]
    kernel_costs: CostArguments,
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
    /// Lengths of bursts, with commas: each is a row of its own [default: 50KB]
    #[arg(
        long,
        aliases = ["burst", "sizes"],
        value_name = "BYTES,...",
        value_delimiter = ','
    )]
    bursts: Vec<FrameBytes>,
    /// Each burst is one message: one frame in one receive buffer of its length, and nothing is cut (--target process;
    /// above 16 KB with --driver oc48)
    #[arg(long, conflicts_with = "frame")]
    whole_messages: bool,
    /// Length of a full frame without check sequence [default: what the MTU allows]
    #[arg(long, value_name = "BYTES")]
    frame: Option<FrameBytes>,
    /// The line that bursts come over
    #[arg(long, value_name = "RATE", default_value = "800M")]
    line_rate: LineRate,
    /// The share of the line that bursts take up in the mean, above 0, up to 1; with commas, each is a row of its own
    /// [default: 0.25]
    #[arg(long, visible_alias = "loads", value_name = "SHARE,...", value_delimiter = ',')]
    load: Vec<f64>,
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
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = buffer_bytes)]
    buffers: Vec<u32>,
    /// Looks for the smallest receive buffer without loss, up to the largest of --buffers
    /// (--target process)
    #[arg(long)]
    smallest_buffer: bool,
    /// Receives without a compute job beside it (--target process)
    #[arg(long)]
    no_compute: bool,
    /// The core is taken away from the target, so long and so often, as by a scheduler without guarantees: 100ms:every=1s,
    /// and :random behind it for exponentially distributed times. In real time by a thread of the highest priority
    /// that we may have, in virtual time by declaration (--target process)
    #[arg(long, value_name = "TIME:every=TIME")]
    stall: Option<Stall>,
    /// What receives may have so much of its core, such as 50%, in each 100 ms, and is kept from running for the rest of
    /// them: a quota of a control group (cgroup), which we must be allowed to make (--target process, real time)
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["stall", "real_time", "claim"])]
    quota: Option<CpuBudget>,
    /// What receives has real-time priority, and so comes before what takes the core away (--target process)
    #[arg(long)]
    real_time: bool,
    /// Asks whether what was published is found here; the answer is in the result. Chooses what is compared unless that
    /// is given: --stall, and for below-100us poll times, loads and bursts (--target process)
    #[arg(long, value_enum, value_name = "CLAIM", conflicts_with_all = ["smallest_buffer", "real_time"])]
    claim: Option<Claim>,
    /// An application of your own, which receives by the library (include/warikomi_vi.h): it is started above the
    /// driver, is told T in WARIKOMI_POLL_NS, and polls and waits by itself. What its library counts is held against
    /// what the driver accepted (--target process)
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath)]
    application: Option<PathBuf>,
    /// The processes that the application has started, which compute on what it receives, are the compute job
    #[arg(long, requires = "application", conflicts_with = "no_compute")]
    own_compute: bool,
    /// How long the compute job runs alone, before and after each row (--target kernel) [default:
    /// 200ms]
    #[arg(long, value_name = "TIME")]
    calibration: Option<Span>,
}

impl ComparedArguments {
    /// Flags that were given and mean nothing to a process, or to a kernel.
    fn refuse_those_of_others(&self, process: bool) -> Result<(), SessionError> {
        let only_process = given([
            ("--smallest-buffer", self.smallest_buffer),
            ("--no-compute", self.no_compute),
            ("--stall", self.stall.is_some()),
            ("--quota", self.quota.is_some()),
            ("--real-time", self.real_time),
            ("--claim", self.claim.is_some()),
            ("--application", self.application.is_some()),
        ]);
        let only_kernel = given([("--calibration", self.calibration.is_some())]);
        match process {
            true => refuse(&only_kernel, "kernel"),
            false => refuse(&only_process, "process"),
        }
    }

    /// Refuses poll times where no way to receive has one.
    fn refuse_polls(&self, any_polls: bool) -> Result<(), Error> {
        match self.polls.is_empty() || any_polls {
            true => Ok(()),
            false => Err(Error::impossible(
                "--polls is for ways to receive that poll for a time, and --strategies names none; leave --polls out",
            )),
        }
    }
}

fn polls_for_a_time(strategy: &Strategy) -> bool {
    matches!(strategy, Strategy::Hybrid { .. })
}

impl TrafficArguments {
    /// The traffic, on the whole as usual.
    fn traffic(&self, mtu_bytes: Option<usize>, usual: Traffic) -> Traffic {
        let frame_bytes = match (self.frame, mtu_bytes) {
            (Some(frame), _) => frame.0,
            (None, Some(mtu)) => mtu + ETHERNET_HEADER_BYTES,
            (None, None) => usual.frame_bytes,
        };
        let bursts = self.bursts.iter().map(|burst| burst.0).collect();
        Traffic {
            bursts_bytes: if self.bursts.is_empty() { usual.bursts_bytes } else { bursts },
            frame_bytes,
            line_rate_bps: self.line_rate.0,
            loads: if self.load.is_empty() { usual.loads } else { self.load.clone() },
            poisson: self.poisson,
            seed: Seed(self.seed),
            duration: self.duration,
        }
    }
}

impl Receive {
    /// What to compare in a driver of its own.
    fn in_process(&self) -> Result<process::Options, Error> {
        let compared = &self.compared;
        let usual = process::Options::asking(compared.claim);
        let mut options = process::Options {
            traffic: self.traffic.traffic(None, usual.traffic),
            find_smallest_buffer: usual.find_smallest_buffer || compared.smallest_buffer,
            compute: !compared.no_compute && !compared.own_compute,
            own_compute: compared.own_compute,
            stall: compared.stall.or(usual.stall),
            quota: compared.quota,
            real_time: compared.real_time,
            whole_messages: self.traffic.whole_messages,
            application: compared.application.clone(),
            ..usual
        };
        if options.application.is_some() {
            self.target.refuse_path("--application is above the driver itself, by a channel")?;
            // It polls for T itself.
            options.strategies.retain(polls_for_a_time);
        }
        if !compared.strategies.is_empty() {
            let named = compared.strategies.iter().map(|name| name.parse::<Strategy>());
            options.strategies = named.collect::<Result<_, _>>().map_err(Error::impossible_as)?;
        }
        if let Some(budget) = self.target.cpu_budget() {
            for strategy in &mut options.strategies {
                if let Ok(budgeted) = strategy.with_cpu_budget(budget) {
                    *strategy = budgeted;
                }
            }
        }
        if !compared.polls.is_empty() {
            options.polls_us.clone_from(&compared.polls);
        }
        if !compared.buffers.is_empty() {
            options.buffers_bytes = compared.buffers.iter().map(|&bytes| bytes.into()).collect();
        }
        compared.refuse_polls(options.strategies.iter().any(polls_for_a_time))?;
        Ok(options)
    }

    /// What to compare in a kernel whose interface has this MTU.
    fn in_kernel(&self, mtu_bytes: Option<usize>) -> Result<kernel::Options, Error> {
        let compared = &self.compared;
        let mut options = kernel::Options {
            traffic: self.traffic.traffic(mtu_bytes, Traffic::default()),
            ..kernel::Options::default()
        };
        if let Some(calibration) = compared.calibration {
            options.calibration = calibration;
        }
        if !compared.strategies.is_empty() {
            let named = compared.strategies.iter().map(|name| name.parse::<kernel::Strategy>());
            options.strategies = named.collect::<Result<_, _>>().map_err(Error::impossible_as)?;
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
            return Err(Error::impossible(format!(
                "--calibration {} is too short to tell how fast the compute job is: give {} or more",
                options.calibration, LEAST_CALIBRATION
            )));
        }
        compared.refuse_polls(options.strategies.iter().any(|strategy| strategy.polls()))?;
        options.traffic.check()?;
        Ok(options)
    }
}

/// Less says nothing: the kernel's tick is 10 ms.
const LEAST_CALIBRATION: Span = Span::from_ms(50);

impl Experiment for Receive {
    const NAME: &'static str = "receive";
    const ABOUT: &'static str = "Compare ways to receive: by interrupt, by polling, by both";
    const PUBLISHED: Option<&'static str> = Some(published::HYBRID_RECEIVE);

    fn strict(&self) -> Option<Strictness> {
        self.strict.strict
    }

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let process = self.target.is_process();
        if process {
            refuse(&self.kernel_costs.given(), "kernel")?;
        }
        self.compared.refuse_those_of_others(process)?;
        if !process {
            refuse(&given([("--whole-messages", self.traffic.whole_messages)]), "process")?;
        }
        self.strict.refuse_if_simulated(process && self.virtual_time)?;
        let mut found = match process {
            false => self.run_in_kernel(watch)?,
            true if self.virtual_time => self.run_in_virtual_time(watch)?,
            true => self.run_in_process(watch)?,
        };
        found.advise(self.target.cpu_budget().unwrap_or(DEFAULT_CPU_BUDGET));
        let differs = found.rows.iter().find_map(Row::differing_application);
        let mut conclusion = Conclusion::new(found.result).with_table("bursts", found.bursts);
        conclusion.failed = differs;
        Ok(conclusion)
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

impl Receive {
    fn run_in_process(&self, watch: &mut Watch) -> Result<Received, Error> {
        self.target.refuse_ways()?;
        let asked = self.in_process()?;
        let receiver = match asked.application {
            // It tells us no numbers of packets: their way ends, for the ledger, where the driver takes them.
            Some(_) => Receiver::Driver,
            None => self.target.receiver_as(Usual::Receiving),
        };
        let options = process::Options { receiver, ..asked };
        let mut prepared = self.target.prepare_as(Usual::Receiving)?;
        prepared.let_sleep();
        if options.claim == Some(Claim::CpuHalved) {
            return Err(Error::impossible(
                "a processor half as fast is declared, and in real time there is the one that is there; add --virtual",
            ));
        }
        options.check(prepared.longest_frame_bytes())?;
        let mut bring_up = |orders: &Orders, watch: &mut Watch| {
            let prepared = prepared.with_orders(orders);
            let program = options.application.as_deref().map(|path| process::program(path, orders));
            let prepared = program.map(|it| prepared.with_application(it)).unwrap_or(prepared);
            watch.start(&prepared, &WireKind::Sink)
        };
        process::receive(&options, &mut bring_up, watch)
    }

    fn run_in_virtual_time(&self, watch: &mut Watch) -> Result<Received, Error> {
        let driver = self.target.simulated_driver()?;
        self.target.refuse_ways()?;
        let options = self.in_process()?;
        if options.application.is_some() {
            return Err(Error::impossible(
                "an application of one's own takes real time, because it is a process; leave --virtual out, or \
                 --application",
            ));
        }
        if options.quota.is_some() {
            return Err(Error::impossible(
                "a quota is the system's, of real time; in virtual time the core is taken away by declaration: give \
                 --stall in its place",
            ));
        }
        options.check(driver.max_frame_bytes)?;
        let costs = match &self.costs {
            None => CostModel::default(),
            Some(path) => CostsFile::read(path)?.costs,
        };
        simulated::receive(&options, driver, &costs, &SchedulerModel::default(), watch)
    }

    fn run_in_kernel(&self, watch: &mut Watch) -> Result<Received, Error> {
        // What cannot be is refused before a kernel is started for it.
        self.in_kernel(None)?;
        let costs = || self.kernel_costs.over(self.costs.as_deref());
        let costs = self.virtual_time.then(costs).transpose()?;
        let mut prepared = self.target.prepare_for(Usual::Packets, costs, self.traffic.seed)?;
        prepared.let_sleep();
        let mut session = watch.start(&prepared, &WireKind::Sink)?;
        let mtu = session.info.settings.get("mtu_bytes").and_then(serde_json::Value::as_u64);
        let options = self.in_kernel(mtu.map(|mtu| mtu as usize))?;
        let found = kernel::receive(&mut session, &options, watch)?;
        session.stop()?;
        Ok(found)
    }
}
