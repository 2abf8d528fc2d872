//! Flags that say which driver runs where; shared by every experiment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Map, Value};
use tempfile::TempDir;
use warikomi_clock::Span;
use warikomi_driver::strategy::{CpuBudget, DEFAULT_BUDGET, Strategy};
use warikomi_driver::{DEFAULT_DRIVER, DriverInfo};
use warikomi_inject::Receiver;
use warikomi_kernel::{Cache, DriverPlace, initramfs_for, inspect};
use warikomi_lab::{
    GuestSettings, PacketPath, ProcessSessionOptions, Session, SessionError, SessionOptions,
};
use warikomi_nic::NicOptions;
use warikomi_nic::bus::Bus;
use warikomi_process::{Orders, Program};
use warikomi_stack::{Topology, Waiting};
use warikomi_target::Interrupted;
use warikomi_wire::Wire;

use crate::part;

/// The least memory that a kernel with its rings and socket buffers is at ease in.
const MIN_MEMORY_MB: u64 = 64;
const MAX_MEMORY_MB: u64 = 16 * 1024;
const DEFAULT_MEMORY_MB: u64 = 256;

/// DMA memory of a driver process, in bytes, unless its buffers need more.
const DMA_BYTES: u64 = 32 << 20;
/// What its rings need of it, at most.
const RINGS_BYTES: u64 = 1 << 20;
/// Receive buffers that may be asked for, and their length in bytes.
const MAX_BUFFERS: u64 = 1_024;
const MAX_BUFFER_BYTES: u64 = 16_383;

const LINUX_DRIVER: &str = "r8169";
/// The driver, and the model, of experiments that send.
const SENDER: &str = "oc48";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetKind {
    /// A real Linux kernel as an ordinary process, with its unmodified driver
    Kernel,
    /// A driver in a process of its own, as in a microkernel system
    Process,
}

#[derive(Args)]
#[command(next_help_heading = "Driver and target")]
pub(crate) struct TargetArguments {
    /// Where the driver runs [default: kernel; of transmit and replace: process]
    #[arg(long, value_enum)]
    target: Option<TargetKind>,
    /// The driver: as Linux calls it (r8169); or, in a process, one of ours (rtl8168, oc48) or the path of a
    /// program
    #[arg(long, value_hint = ValueHint::ExecutablePath)]
    driver: Option<String>,
    /// The NIC model [default: one that the driver drives]
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    kernel: KernelArguments,
    #[command(flatten)]
    process: ProcessArguments,
}

#[derive(Args)]
#[command(next_help_heading = "With --target kernel")]
struct KernelArguments {
    /// A kernel binary, built with ARCH=um [default: the newest that `warikomi kernel build` made]
    #[arg(long, value_name = "PATH", conflicts_with = "kernel_version")]
    kernel: Option<PathBuf>,
    /// The kernel that `warikomi kernel build` made from this version, such as 6.1
    #[arg(long, value_name = "VERSION")]
    kernel_version: Option<String>,
    /// A module parameter for the driver, as name=value; may be repeated
    #[arg(long = "driver-parameter", value_name = "NAME=VALUE")]
    driver_parameters: Vec<String>,
    /// More for the kernel's command line; may be repeated
    #[arg(long = "kernel-argument", value_name = "ARGUMENT")]
    kernel_arguments: Vec<String>,
    /// The guest's memory in MB [default: 256]
    #[arg(long, value_name = "MB",
        value_parser = clap::value_parser!(u64).range(MIN_MEMORY_MB..=MAX_MEMORY_MB))]
    memory: Option<u64>,
    /// The socket on which the kernel finds the NIC [default: a private one]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The guest's MTU in bytes; with --target process, of transmit, the NIC's
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,
    /// Generic receive offload in the guest, on or off
    #[arg(long, value_name = "ON|OFF", value_parser = BoolishValueParser::new())]
    gro: Option<bool>,
    /// Empty polls before NAPI enables the interrupt again [default: 0 with an interval, otherwise
    /// as the driver has it]
    #[arg(long, value_name = "N")]
    napi_defer_hard_irqs: Option<u32>,
    /// Time between such polls [default: the same]
    #[arg(long, value_name = "TIME")]
    gro_flush_timeout: Option<Span>,
}

impl KernelArguments {
    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        flags([
            ("--kernel", self.kernel.is_some()),
            ("--kernel-version", self.kernel_version.is_some()),
            ("--driver-parameter", !self.driver_parameters.is_empty()),
            ("--kernel-argument", !self.kernel_arguments.is_empty()),
            ("--memory", self.memory.is_some()),
            ("--socket", self.socket.is_some()),
            ("--mtu", self.mtu.is_some()),
            ("--gro", self.gro.is_some()),
            ("--napi-defer-hard-irqs", self.napi_defer_hard_irqs.is_some()),
            ("--gro-flush-timeout", self.gro_flush_timeout.is_some()),
        ])
    }
}

#[derive(Args)]
#[command(next_help_heading = "With --target process")]
struct ProcessArguments {
    /// When the driver looks at its ring and when it sleeps: interrupt, poll, napi, hybrid, auto or awake;
    /// a parameter may follow, as in hybrid:140us [default: napi]
    #[arg(long)]
    strategy: Option<Strategy>,
    /// hybrid: how long to poll after the last packet
    #[arg(long, value_name = "TIME")]
    poll_time: Option<Span>,
    /// auto: the share of a processor that receiving may take, such as 25%
    #[arg(long, value_name = "SHARE")]
    cpu_budget: Option<CpuBudget>,
    /// napi: packets taken before others may run
    #[arg(long, value_name = "N")]
    budget: Option<usize>,
    /// What packets go through above the driver; its processes share the driver's core
    #[arg(long, value_enum)]
    path: Option<PathName>,
    /// Receive buffers on the ring [default: as many as the driver likes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_BUFFERS))]
    ring_buffers: Option<u64>,
    /// Bytes of each [default: what the driver likes]
    #[arg(long, value_name = "BYTES",
        value_parser = clap::value_parser!(u64).range(64..=MAX_BUFFER_BYTES))]
    ring_buffer_bytes: Option<u64>,
}

impl ProcessArguments {
    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        flags([
            ("--strategy", self.strategy.is_some()),
            ("--poll-time", self.poll_time.is_some()),
            ("--cpu-budget", self.cpu_budget.is_some()),
            ("--budget", self.budget.is_some()),
            ("--path", self.path.is_some()),
            ("--ring-buffers", self.ring_buffers.is_some()),
            ("--ring-buffer-bytes", self.ring_buffer_bytes.is_some()),
        ])
    }

    fn orders(&self, usual: Usual) -> Result<Orders> {
        let mut strategy = self.strategy.unwrap_or(usual.strategy());
        if let Some(poll_time) = self.poll_time {
            strategy = strategy.with_poll_time(poll_time).context("--poll-time")?;
        }
        if let Some(cpu_budget) = self.cpu_budget {
            strategy = strategy.with_cpu_budget(cpu_budget).context("--cpu-budget")?;
        }
        if let Some(budget) = self.budget {
            strategy = strategy.with_budget(budget).context("--budget")?;
        }
        let (buffers, buffer_bytes) =
            (self.ring_buffers.unwrap_or_default(), self.ring_buffer_bytes.unwrap_or_default());
        Ok(Orders { strategy, buffers, buffer_bytes })
    }
}

/// How stack and application wait: asleep, because they share the driver's core.
const PATH_WAITING: Waiting = Waiting::Wait;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PathName {
    /// Nothing: the driver counts frames and gives their buffers back
    Driver,
    /// An application in the driver's own process: a user-level network interface
    Direct,
    /// An application in a process of its own
    Application,
    /// A stack (UDP, TCP/IP) and an application, each in a process of its own
    Stack,
}

impl PathName {
    fn topology(self) -> Topology {
        match self {
            PathName::Driver => Topology::DriverAlone,
            PathName::Direct => Topology::Direct,
            PathName::Application => Topology::Application,
            PathName::Stack => Topology::Stack,
        }
    }
}

/// What an experiment is about, and so how a process target is made up unless something else is asked
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usual {
    /// Packets on their whole way.
    Packets,
    /// Receiving at user level: the application in the driver's process.
    Receiving,
    /// The times at which handlers run: nobody but the driver is on its core, and it never sleeps.
    Handlers,
}

impl Usual {
    fn strategy(self) -> Strategy {
        match self {
            Usual::Packets | Usual::Receiving => Strategy::Napi { budget: DEFAULT_BUDGET },
            Usual::Handlers => Strategy::Awake,
        }
    }
}

pub(crate) fn flags<const N: usize>(flags: [(&'static str, bool); N]) -> Vec<&'static str> {
    flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

/// A target to be started, and the files that it needs while it is used.
pub(crate) struct Prepared {
    options: Options,
    _initramfs: Option<TempDir>,
}

enum Options {
    Kernel(SessionOptions),
    Process(ProcessSessionOptions),
}

impl Prepared {
    /// The same driver process with other orders.
    pub(crate) fn with_orders(&self, orders: &Orders) -> Option<ProcessSessionOptions> {
        let Options::Process(options) = &self.options else { return None };
        let dma_bytes = dma_bytes(orders);
        Some(ProcessSessionOptions { orders: *orders, dma_bytes, ..options.clone() })
    }

    /// What a kernel is brought up with.
    pub(crate) fn kernel(&self) -> Option<&SessionOptions> {
        let Options::Kernel(options) = &self.options else { return None };
        Some(options)
    }

    /// Leaves interrupts of a kernel undeferred unless something else is asked for.
    pub(crate) fn defer_nothing(&mut self) {
        if let Options::Kernel(options) = &mut self.options {
            options.settings.defer_nothing();
        }
    }

    /// Attaches a kernel's NIC by this bus, and to this line, rather than by ones that take no time.
    pub(crate) fn attach_by(&mut self, bus: Option<Bus>, line_rate_bps: Option<u64>) {
        if let Options::Kernel(options) = &mut self.options {
            options.nic = NicOptions { bus, line_rate_bps, ..options.nic.clone() };
        }
    }

    /// Brings it up. `status` is told what is being waited for.
    pub(crate) fn start(
        &self,
        wire: Box<dyn Wire>,
        interrupted: &Interrupted,
        status: &mut dyn FnMut(&str),
    ) -> Result<Session, SessionError> {
        match &self.options {
            Options::Kernel(options) => Session::start(options, wire, interrupted, status),
            Options::Process(options) => Session::start_process(options, wire, interrupted, status),
        }
    }
}

impl TargetArguments {
    /// Finds the driver, and everything that goes with it.
    pub(crate) fn prepare(&self) -> Result<Prepared> {
        self.prepare_as(Usual::Packets)
    }

    /// The same for an experiment that is about something else.
    pub(crate) fn prepare_as(&self, usual: Usual) -> Result<Prepared> {
        match self.kind() {
            TargetKind::Kernel => {
                refuse(&self.process.given(), "process")?;
                self.prepare_kernel()
            }
            TargetKind::Process => {
                refuse(&self.kernel.given(), "kernel")?;
                let options = Options::Process(self.prepare_process(usual)?);
                Ok(Prepared { options, _initramfs: None })
            }
        }
    }

    fn kind(&self) -> TargetKind {
        self.target.unwrap_or(TargetKind::Kernel)
    }

    /// Whether a kernel was asked for, for an experiment that runs in a process otherwise.
    pub(crate) fn asks_for_kernel(&self) -> bool {
        self.target == Some(TargetKind::Kernel)
    }

    /// A driver process that is replaced while stack and application above it go on.
    pub(crate) fn prepare_live(&self) -> Result<ProcessSessionOptions> {
        refuse(&self.kernel.given(), "kernel")?;
        ensure!(
            self.process.path.is_none_or(|path| path == PathName::Stack),
            "a driver is replaced below a stack and an application; leave --path out"
        );
        let driver = self.driver.as_deref().unwrap_or(DEFAULT_DRIVER);
        self.process_of(driver, PathName::Stack, Usual::Packets)
    }

    /// A driver of ours that sends by itself, on a NIC as asked for.
    pub(crate) fn sender(&self) -> Result<(&'static DriverInfo, NicOptions)> {
        refuse_for(&self.process.given(), "drivers that receive")?;
        let kernels = self.kernel.given();
        refuse(&kernels.into_iter().filter(|flag| *flag != "--mtu").collect::<Vec<_>>(), "kernel")?;
        let model = self.model.as_deref().or(self.driver.as_deref()).unwrap_or(SENDER);
        let driver = warikomi_lab::transmit::driver(self.driver.as_deref().unwrap_or(model))?;
        Ok((driver, NicOptions { mtu: self.kernel.mtu, ..NicOptions::of(model) }))
    }

    /// Whether the driver runs in a process of its own.
    pub(crate) fn is_process(&self) -> bool {
        self.kind() == TargetKind::Process
    }

    /// The share of a processor that receiving may take, if one was given.
    pub(crate) fn cpu_budget(&self) -> Option<CpuBudget> {
        self.process.cpu_budget
    }

    /// Flags that say how a driver in a process shall receive, for an experiment that tries all ways.
    pub(crate) fn refuse_ways(&self) -> Result<()> {
        let ways = self.process.given();
        match ways.iter().find(|flag| !["--cpu-budget", "--path"].contains(flag)) {
            None => Ok(()),
            Some(flag) => bail!(
                "{flag} is for one way to receive, and this compares several; give --strategies, \
                 --polls and --buffers"
            ),
        }
    }

    /// How far packets go when nothing else is asked for.
    pub(crate) fn receiver(&self) -> Receiver {
        self.receiver_as(Usual::Packets)
    }

    /// The same for an experiment that is about something else.
    pub(crate) fn receiver_as(&self, usual: Usual) -> Receiver {
        match self.kind() {
            TargetKind::Kernel => Receiver::Application,
            TargetKind::Process if self.path(usual) == PathName::Driver => Receiver::Driver,
            TargetKind::Process => Receiver::Application,
        }
    }

    /// A stack and an application above drivers of ours, unless something else is asked for; a driver of
    /// the user's own may know nothing of them.
    fn path(&self, usual: Usual) -> PathName {
        let ours = self.driver.as_deref().is_none_or(|driver| !driver.contains('/'));
        let name = match usual {
            Usual::Packets if ours => PathName::Stack,
            Usual::Receiving if ours => PathName::Direct,
            _ => PathName::Driver,
        };
        self.process.path.unwrap_or(name)
    }

    fn prepare_kernel(&self) -> Result<Prepared> {
        let model = self.model()?;
        let flags = &self.kernel;
        let (kernel, initramfs, keep) = match &flags.kernel {
            Some(path) => self.own_kernel(path)?,
            None => {
                let image = Cache::of_this_user()?.find(flags.kernel_version.as_deref(), None)?;
                (image.kernel(), image.initramfs(), None)
            }
        };
        let settings = GuestSettings {
            mtu: flags.mtu,
            gro: flags.gro,
            napi_defer_hard_irqs: flags.napi_defer_hard_irqs,
            gro_flush_timeout_ns: flags.gro_flush_timeout.map(|span| span.as_ps() / 1_000),
            coalesce: None,
        };
        let options = SessionOptions {
            kernel,
            initramfs,
            driver: self.linux_driver().to_owned(),
            driver_parameters: flags.driver_parameters.clone(),
            nic: NicOptions::of(&model),
            make_nic: warikomi_nic::build,
            memory_mb: flags.memory.unwrap_or(DEFAULT_MEMORY_MB),
            socket: flags.socket.clone(),
            kernel_arguments: flags.kernel_arguments.clone(),
            settings,
        };
        Ok(Prepared { options: Options::Kernel(options), _initramfs: keep })
    }

    fn prepare_process(&self, usual: Usual) -> Result<ProcessSessionOptions> {
        let driver = self.driver.as_deref().unwrap_or(DEFAULT_DRIVER);
        self.process_of(driver, self.path(usual), usual)
    }

    fn process_of(
        &self,
        driver: &str,
        path: PathName,
        usual: Usual,
    ) -> Result<ProcessSessionOptions> {
        let orders = self.process.orders(usual)?;
        let mut settings = Map::new();
        settings.insert("strategy".into(), Value::String(orders.strategy.to_string()));
        for (name, value) in [("buffers", orders.buffers), ("buffer_bytes", orders.buffer_bytes)] {
            if value != 0 {
                settings.insert(name.into(), value.into());
            }
        }
        let program = program(driver)?;
        // Drivers of ours are called like the models that they drive; another may drive any.
        let mut models = warikomi_nic::MODELS.iter().map(|info| info.name);
        let same_name = models.clone().find(|name| *name == driver).or(models.next());
        let model = self.model.as_deref().or(same_name).unwrap_or(driver);
        Ok(ProcessSessionOptions {
            driver: driver.to_owned(),
            program,
            nic: NicOptions::of(model),
            make_nic: warikomi_nic::build,
            orders,
            settings,
            dma_bytes: dma_bytes(&orders),
            path: PacketPath {
                topology: path.topology(),
                waiting: PATH_WAITING,
                copy_out: false,
                tcp_port: None,
                program: part::above,
            },
        })
    }

    fn linux_driver(&self) -> &str {
        self.driver.as_deref().unwrap_or(LINUX_DRIVER)
    }

    /// Empty polls before NAPI enables the interrupt again, if that was asked for.
    pub(crate) fn napi_defer_hard_irqs(&self) -> Option<u32> {
        self.kernel.napi_defer_hard_irqs
    }

    fn model(&self) -> Result<String> {
        if let Some(model) = &self.model {
            return Ok(model.clone());
        }
        let drives =
            |model: &&&warikomi_nic::ModelInfo| model.linux_drivers.contains(&self.linux_driver());
        match warikomi_nic::MODELS.iter().find(drives) {
            Some(model) => Ok(model.name.to_owned()),
            None => bail!(
                "there is no NIC model for the driver '{}'; there are models for: {}",
                self.linux_driver(),
                known_drivers().join(", ")
            ),
        }
    }

    /// A kernel of the user's own: it must be fit, and needs an initramfs with our agent.
    fn own_kernel(&self, path: &Path) -> Result<(PathBuf, PathBuf, Option<TempDir>)> {
        let kernel = inspect(path)?;
        kernel.check()?;
        if !kernel.drivers.contains_key(self.linux_driver()) {
            let has: Vec<_> = kernel.drivers.iter().map(described).collect();
            bail!(
                "the kernel {} has no driver '{}', neither built in nor as a module beside it; it \
                 has: {}",
                path.display(),
                self.linux_driver(),
                if has.is_empty() { "none".to_owned() } else { has.join(", ") }
            );
        }
        let dir = tempfile::tempdir().context("cannot make a directory for the initramfs")?;
        let initramfs = dir.path().join("initramfs");
        initramfs_for(&kernel, &initramfs)?;
        Ok((kernel.path, initramfs, Some(dir)))
    }
}

/// What runs a driver that is one of ours by its name, or a program by its path.
pub(crate) fn program(driver: &str) -> Result<Program> {
    // A name has no slash; a path can always be written with one.
    if driver.contains('/') {
        return Ok(Program { path: driver.into(), ..Program::default() });
    }
    let known: Vec<_> = warikomi_driver::DRIVERS.iter().map(|info| info.name).collect();
    ensure!(
        known.contains(&driver),
        "there is no driver '{driver}' that runs in a process; there are: {}; a program of your own is given \
         by its path, such as ./{driver}",
        known.join(", ")
    );
    Ok(part::driver(driver))
}

/// DMA memory for the rings, and for so many buffers.
fn dma_bytes(orders: &Orders) -> u64 {
    let each = match orders.buffer_bytes {
        0 => MAX_BUFFER_BYTES + 1,
        bytes => bytes,
    };
    (RINGS_BYTES + orders.buffers * each).next_multiple_of(1 << 12).max(DMA_BYTES)
}

/// Flags of another kind of target say that something else was meant.
pub(crate) fn refuse(given: &[&str], target: &str) -> Result<()> {
    let Some(flag) = given.first() else { return Ok(()) };
    bail!("{flag} is for --target {target} only; leave it out, or choose that target")
}

/// Flags that an experiment has no use for say that something else was meant.
fn refuse_for(given: &[&str], what: &str) -> Result<()> {
    let Some(flag) = given.first() else { return Ok(()) };
    bail!("{flag} is for {what}, and this experiment sends; leave it out")
}

fn described((name, place): (&String, &DriverPlace)) -> String {
    match place {
        DriverPlace::BuiltIn => format!("{name} (built in)"),
        DriverPlace::Module => format!("{name} (module)"),
    }
}

fn known_drivers() -> Vec<&'static str> {
    warikomi_nic::MODELS.iter().flat_map(|model| model.linux_drivers.iter().copied()).collect()
}
