//! Flags that say which driver runs where; shared by every experiment.

mod check;
mod image;
mod kernel;
mod prepared;
mod process;
mod second;
mod selftests;
mod strict;
mod virtual_time;
mod vm;

use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use warikomi_driver::strategy::{CpuBudget, DEFAULT_BUDGET, Strategy};
use warikomi_driver::{DEFAULT_DRIVER, DRIVERS, DriverInfo};
use warikomi_inject::Receiver;
use warikomi_nic::NicOptions;
use warikomi_target::kernel::GuestCosts;

use self::check::not_for_a_vm;
use self::kernel::{KernelArguments, Kind};
use self::prepared::Options;
use self::process::{PathName, ProcessArguments};
use crate::error::SessionError;
use crate::options::ProcessSessionOptions;

pub use check::{given, refuse};
pub use image::ImageArguments;
pub use kernel::LINUX_DRIVER;
pub use prepared::Prepared;
pub use process::program;
pub use second::SecondArguments;
pub use selftests::PreparedSelftests;
pub use strict::{StrictArguments, Strictness};
pub use virtual_time::{CostArguments, VirtualArguments, VirtualFlag};

/// What is random in a kernel that is debugged follows from it.
const DEBUG_SEED: u64 = 1;

/// The driver, and the model, of experiments that send.
const SENDER: &str = "oc48";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetKind {
    /// A real Linux kernel as an ordinary process, with its unmodified driver
    Kernel,
    /// A driver in a process of its own, as in a microkernel system
    Process,
    /// A virtual machine that you start (QEMU, Cloud Hypervisor): its hypervisor finds the card at --socket
    Vm,
}

/// Which driver runs where.
#[derive(Args, Clone)]
#[command(next_help_heading = "Driver and target")]
pub struct TargetArguments {
    /// Where the driver runs [default: kernel; of transmit and replace: process]. A vm is for inject, record, sweep,
    /// accuracy and replay
    #[arg(long, value_enum)]
    target: Option<TargetKind>,
    /// The driver: as Linux calls it (r8169, 8139too, 8139cp, e1000e, igb); or, in a process, one of ours (rtl8168,
    /// rtl8139, oc48, oc192, ge10) or the path of a program
    #[arg(long, value_hint = ValueHint::ExecutablePath)]
    driver: Option<String>,
    /// The NIC model [default: one that the driver drives]
    #[arg(long)]
    model: Option<String>,
    /// Let the driver's processes do all that you may: open files, use the network, send signals
    #[arg(long)]
    no_sandbox: bool,
    #[command(flatten)]
    kernel: KernelArguments,
    #[command(flatten)]
    process: ProcessArguments,
}

/// What an experiment is about, and so how a process target is made up unless something else is asked
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usual {
    /// Packets on their whole way.
    Packets,
    /// Ways to receive at user level: the application in the driver's process.
    Receiving,
    /// The times at which handlers run: the driver is alone on its core, and never sleeps.
    Handlers,
}

impl Usual {
    /// None where several are tried: each has orders of its own.
    fn strategy(self) -> Option<Strategy> {
        match self {
            Usual::Packets => Some(Strategy::Napi { budget: DEFAULT_BUDGET }),
            Usual::Receiving => None,
            Usual::Handlers => Some(Strategy::Awake),
        }
    }
}

impl TargetArguments {
    /// Finds the driver, and everything that goes with it.
    pub fn prepare(&self) -> Result<Prepared, SessionError> {
        self.prepare_as(Usual::Packets)
    }

    /// The same for an experiment that is about something else.
    pub fn prepare_as(&self, usual: Usual) -> Result<Prepared, SessionError> {
        self.prepare_with(usual, Kind::default())
    }

    /// The same, in virtual time if that is asked for; everything random in the kernel then follows from `seed`. For
    /// experiments that need nothing of a target but a driver that receives: it may be in a virtual machine.
    pub fn prepare_at(
        &self,
        usual: Usual,
        time: &VirtualArguments,
        seed: u64,
    ) -> Result<Prepared, SessionError> {
        let costs = time.costs()?;
        if costs.is_some() && self.is_process() {
            return Err(SessionError::impossible(
                "--virtual is for --target kernel here; a driver process in virtual time: warikomi receive, \
                 round-trip, transmit and histories",
            ));
        }
        match self.kind() {
            TargetKind::Vm => {
                let options = Options::Vm(self.vm(costs.is_some())?);
                Ok(Prepared { options, files: None })
            }
            TargetKind::Kernel | TargetKind::Process => self.prepare_for(usual, costs, seed),
        }
    }

    /// The same, with a second card in the same guest if one is asked for.
    pub fn prepare_with_second(
        &self,
        second: &SecondArguments,
        (usual, time, seed): (Usual, &VirtualArguments, u64),
    ) -> Result<Prepared, SessionError> {
        let first = self.driver.as_deref().unwrap_or(LINUX_DRIVER);
        let Some(card) = second.card(first)? else { return self.prepare_at(usual, time, seed) };
        if self.kind() != TargetKind::Kernel {
            return Err(SessionError::impossible(
                "--through is for a kernel of ours, which forwards from card to card; leave it out, or give --target \
                 kernel",
            ));
        }
        if time.costs()?.is_some() {
            return Err(SessionError::impossible(
                "--through is for real time: two cards in one guest have not been tried in virtual time; leave one of \
                 --through and --virtual out",
            ));
        }
        let kind = Kind { seed, more_drivers: card.needs_more_drivers(), ..Kind::default() };
        let mut prepared = self.prepare_with(usual, kind)?;
        prepared.add_second(card);
        Ok(prepared)
    }

    /// The same, in virtual time if there are costs for it.
    pub fn prepare_for(
        &self,
        usual: Usual,
        costs: Option<GuestCosts>,
        seed: u64,
    ) -> Result<Prepared, SessionError> {
        self.prepare_with(usual, Kind { costs, seed, ..Kind::default() })
    }

    /// The same, in a kernel that finds its own mistakes and has debug information; in virtual time work costs nothing.
    pub fn prepare_to_debug(&self, time: &VirtualFlag) -> Result<Prepared, SessionError> {
        let costs = time.virtual_time.then(GuestCosts::default);
        let kind = Kind { debug: true, costs, seed: DEBUG_SEED, ..Kind::default() };
        let mut prepared = self.prepare_with(Usual::Packets, kind)?;
        prepared.let_be_stopped();
        prepared.defer_nothing();
        Ok(prepared)
    }

    fn prepare_with(&self, usual: Usual, kind: Kind) -> Result<Prepared, SessionError> {
        let model = self.model.as_deref();
        match self.kind() {
            TargetKind::Kernel => {
                refuse(&self.process.given(), "process")?;
                let driver = self.driver.as_deref();
                let (mut options, files) = self.kernel.options(driver, model, kind)?;
                options.confined = !self.no_sandbox;
                Ok(Prepared { options: Options::Kernel(options), files: files.map(Arc::new) })
            }
            TargetKind::Process => {
                refuse(&self.kernel.given(), "kernel")?;
                let options = self.process(self.path(usual), usual)?;
                Ok(Prepared { options: Options::Process(options), files: None })
            }
            TargetKind::Vm => Err(not_for_a_vm()),
        }
    }

    /// A driver process that is replaced while stack and application above it go on.
    pub fn prepare_live(&self) -> Result<ProcessSessionOptions, SessionError> {
        self.refuse_vm()?;
        if self.asks_for_kernel() {
            return Err(SessionError::impossible(
                "a driver that is replaced while a service goes on is a process of its own; leave --target kernel out, \
                 or see what removing and loading a module costs: warikomi replace --target kernel",
            ));
        }
        refuse(&self.kernel.given(), "kernel")?;
        if self.process.path.is_some_and(|path| path != PathName::Stack) {
            return Err(SessionError::impossible(
                "a driver is replaced below a stack and an application; leave --path out",
            ));
        }
        self.process(PathName::Stack, Usual::Packets)
    }

    /// A driver process with the application in it: a user-level network interface.
    pub fn prepare_direct(&self) -> Result<Prepared, SessionError> {
        self.refuse_kernel_for_direct()?;
        if self.process.path.is_some_and(|path| path != PathName::Direct) {
            return Err(SessionError::impossible(
                "the application is in the driver's own process here; leave --path out",
            ));
        }
        let options = self.process(PathName::Direct, Usual::Receiving)?;
        Ok(Prepared { options: Options::Process(options), files: None })
    }

    /// Refuses a kernel, and a virtual machine, where the application is in the driver's process.
    pub fn refuse_kernel_for_direct(&self) -> Result<(), SessionError> {
        self.refuse_vm()?;
        if self.asks_for_kernel() {
            return Err(SessionError::impossible(
                "the application is in the driver's own process here, a user-level network interface, and in a kernel \
                 there is none; leave --target kernel out",
            ));
        }
        refuse(&self.kernel.given(), "kernel")
    }

    fn process(&self, path: PathName, usual: Usual) -> Result<ProcessSessionOptions, SessionError> {
        let driver = self.driver.as_deref().unwrap_or(DEFAULT_DRIVER);
        let options =
            self.process.options(driver, self.model.as_deref(), path, usual.strategy())?;
        Ok(ProcessSessionOptions { confined: !self.no_sandbox, ..options })
    }

    /// The name of a driver of ours that sends by itself, and a NIC as asked for.
    pub fn sender(&self) -> Result<(&str, NicOptions), SessionError> {
        self.refuse_vm()?;
        if self.no_sandbox {
            return Err(SessionError::impossible(
                "--no-sandbox is for drivers that are not ours, and here are none; leave it out",
            ));
        }
        if let Some(flag) = self.process.given().first() {
            return Err(SessionError::impossible(format!(
                "{flag} is for drivers that receive, and this experiment sends; leave it out"
            )));
        }
        let kernels = self.kernel.given();
        refuse(&kernels.into_iter().filter(|flag| *flag != "--mtu").collect::<Vec<_>>(), "kernel")?;
        let model = self.model.as_deref().or(self.driver.as_deref()).unwrap_or(SENDER);
        let nic = NicOptions { mtu: self.kernel.mtu, ..NicOptions::of(model) };
        Ok((self.driver.as_deref().unwrap_or(model), nic))
    }

    /// The same of each of these cards, with the driver of its name; without any, as the other flags say.
    pub fn senders<'a>(
        &'a self,
        cards: &'a [String],
    ) -> Result<Vec<(&'a str, NicOptions)>, SessionError> {
        let (name, nic) = self.sender()?;
        if cards.is_empty() {
            return Ok(vec![(name, nic)]);
        }
        let named = self.named();
        if let Some(flag) = named.into_iter().find(|flag| *flag != "--target") {
            return Err(SessionError::impossible(format!(
                "--cards names the cards, and each has the driver of its name; leave {flag} out"
            )));
        }
        for (number, card) in cards.iter().enumerate() {
            if cards[..number].contains(card) {
                return Err(SessionError::impossible(format!("--cards names {card} twice")));
            }
        }
        let of = |card: &'a String| (&**card, NicOptions { model: card.clone(), ..nic.clone() });
        Ok(cards.iter().map(of).collect())
    }

    /// The flags that say which driver runs in which kernel, as they are written behind a command.
    pub fn as_written(&self) -> String {
        let flags = [("driver", self.driver.clone()), ("model", self.model.clone())];
        let given = flags.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let open = if self.no_sandbox { " --no-sandbox" } else { "" };
        let given =
            given.fold(open.to_owned(), |all, (name, value)| format!("{all} --{name} {value}"));
        self.kernel.image.words().into_iter().fold(given, |all, word| format!("{all} {word}"))
    }

    fn kind(&self) -> TargetKind {
        self.target.unwrap_or(TargetKind::Kernel)
    }

    fn refuse_vm(&self) -> Result<(), SessionError> {
        match self.kind() {
            TargetKind::Vm => Err(not_for_a_vm()),
            TargetKind::Kernel | TargetKind::Process => Ok(()),
        }
    }

    /// Whether the driver runs in a process of its own.
    pub fn is_process(&self) -> bool {
        self.kind() == TargetKind::Process
    }

    /// Whether a kernel was asked for, for an experiment that runs in a process otherwise.
    pub fn asks_for_kernel(&self) -> bool {
        self.target == Some(TargetKind::Kernel)
    }

    /// The share of a processor that receiving may take, if one was given.
    pub fn cpu_budget(&self) -> Option<CpuBudget> {
        self.process.cpu_budget
    }

    /// Empty polls before NAPI enables the interrupt again, if that was asked for.
    pub fn napi_defer_hard_irqs(&self) -> Option<u32> {
        self.kernel.napi_defer_hard_irqs
    }

    /// Refuses every flag that says which driver runs where, where none of them has a choice.
    pub fn refuse_all(&self, because: &str) -> Result<(), SessionError> {
        let given = [self.named(), self.kernel.given(), self.process.given()].concat();
        match given.first() {
            None => Ok(()),
            Some(flag) => Err(SessionError::impossible(format!("{because}; leave {flag} out"))),
        }
    }

    /// The driver of ours that is run in virtual time, with its card and an application in one thread; refuses flags
    /// that say anything else about it.
    pub fn simulated_driver(&self) -> Result<&'static DriverInfo, SessionError> {
        self.refuse_vm()?;
        refuse(&self.kernel.given(), "kernel")?;
        let others = given([
            ("--model", self.model.is_some()),
            ("--path", self.process.path.is_some()),
            ("--no-sandbox", self.no_sandbox),
        ]);
        if let Some(flag) = others.first() {
            return Err(SessionError::impossible(format!(
                "in virtual time a driver of ours runs with its own card, and the application in one thread with \
                 it; leave {flag} out"
            )));
        }
        let name = self.driver.as_deref().unwrap_or(DEFAULT_DRIVER);
        let found = DRIVERS.iter().find(|info| info.name == name);
        found.copied().ok_or_else(|| {
            let known: Vec<_> = DRIVERS.iter().map(|info| info.name).collect();
            SessionError::impossible(format!(
                "in virtual time the driver is one of ours ({}), because a program of its own takes real time; leave \
                 --driver {name} out, or --virtual",
                known.join(", ")
            ))
        })
    }

    fn named(&self) -> Vec<&'static str> {
        given([
            ("--target", self.target.is_some()),
            ("--driver", self.driver.is_some()),
            ("--model", self.model.is_some()),
            ("--no-sandbox", self.no_sandbox),
        ])
    }

    /// Refuses flags that say how a driver in a process shall receive, for an experiment that tries all ways.
    pub fn refuse_ways(&self) -> Result<(), SessionError> {
        let ways = self.process.given();
        match ways.iter().find(|flag| !["--cpu-budget", "--path"].contains(flag)) {
            None => Ok(()),
            Some(flag) => Err(SessionError::impossible(format!(
                "{flag} is for one way to receive, and this compares several; give --strategies, \
                 --polls and --buffers"
            ))),
        }
    }

    /// Refuses `--path`, for that reason.
    pub fn refuse_path(&self, because: &str) -> Result<(), SessionError> {
        match self.process.path {
            None => Ok(()),
            Some(_) => Err(SessionError::impossible(format!("{because}; leave --path out"))),
        }
    }

    /// How far packets go when nothing else is asked for.
    pub fn receiver(&self) -> Receiver {
        self.receiver_as(Usual::Packets)
    }

    /// The same for an experiment that is about something else.
    pub fn receiver_as(&self, usual: Usual) -> Receiver {
        match self.kind() {
            TargetKind::Kernel => Receiver::Application,
            TargetKind::Vm => Receiver::Driver,
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
}
