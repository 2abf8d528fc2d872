//! Flags of a driver in a real kernel.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tempfile::TempDir;
use warikomi_clock::Span;
use warikomi_kernel::{Cache, DriverPlace, Wanted, initramfs_for, inspect, needs_more_drivers};
use warikomi_nic::NicOptions;
use warikomi_target::kernel::GuestCosts;

use super::check::given;
use super::image::ImageArguments;
use crate::error::SessionError;
use crate::options::{GuestSettings, Interrupts, SessionOptions, VirtualTime};

/// The least memory that a kernel with its rings and socket buffers is at ease in.
const MIN_MEMORY_MB: u64 = 64;
const MAX_MEMORY_MB: u64 = 16 * 1024;
const DEFAULT_MEMORY_MB: u64 = 256;

/// The driver in a kernel if none is named.
pub const LINUX_DRIVER: &str = "r8169";

#[derive(Args, Clone)]
#[command(next_help_heading = "With --target kernel")]
pub(super) struct KernelArguments {
    #[command(flatten)]
    pub(super) image: ImageArguments,
    /// A kernel that finds its own mistakes and has debug information: one that `warikomi kernel build --debug` made
    #[arg(long, conflicts_with = "kernel")]
    debug: bool,
    /// A module parameter for the driver, as name=value; may be repeated
    #[arg(long = "driver-parameter", value_name = "NAME=VALUE")]
    driver_parameters: Vec<String>,
    /// More for the kernel's command line; may be repeated
    #[arg(long = "kernel-argument", value_name = "ARGUMENT")]
    kernel_arguments: Vec<String>,
    /// How interrupts reach a guest that has nothing else to do [default: polled; signalled where the
    /// processor is accounted for: receive, transmit, cost]
    #[arg(long, value_name = "HOW", value_enum)]
    interrupt_delivery: Option<Interrupts>,
    /// No real-time priority: else the support side has it, and a guest that polls, where that is permitted
    #[arg(long)]
    no_realtime: bool,
    /// The guest's memory in MB [default: 256]
    #[arg(long, value_name = "MB",
        value_parser = clap::value_parser!(u64).range(MIN_MEMORY_MB..=MAX_MEMORY_MB))]
    memory: Option<u64>,
    /// The socket on which the kernel finds the NIC [default: a private one]; with --target vm, on which the hypervisor
    /// does
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// The guest's MTU in bytes; with --target process, of transmit, the NIC's
    #[arg(long, value_name = "BYTES")]
    pub(super) mtu: Option<u32>,
    /// Pairs of queues that the driver uses, as ethtool -L sets them; the ports of UDP choose among them, too [default: as
    /// the driver has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    channels: Option<u32>,
    /// Generic receive offload in the guest, on or off
    #[arg(long, value_name = "ON|OFF", value_enum, ignore_case = true)]
    gro: Option<OnOff>,
    /// Empty polls before NAPI enables the interrupt again [default: 0 with an interval, otherwise
    /// as the driver has it]
    #[arg(long, value_name = "N")]
    pub(super) napi_defer_hard_irqs: Option<u32>,
    /// Time between such polls [default: the same]
    #[arg(long, value_name = "TIME")]
    gro_flush_timeout: Option<Span>,
}

// Plans of earlier versions may have the words of a boolean.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnOff {
    #[value(aliases = ["true", "yes", "y", "t", "1"])]
    On,
    #[value(aliases = ["false", "no", "n", "f", "0"])]
    Off,
}

impl KernelArguments {
    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        given([
            ("--kernel", self.image.kernel.is_some()),
            ("--kernel-version", self.image.kernel_version.is_some()),
            ("--debug", self.debug),
            ("--driver-parameter", !self.driver_parameters.is_empty()),
            ("--kernel-argument", !self.kernel_arguments.is_empty()),
            ("--interrupt-delivery", self.interrupt_delivery.is_some()),
            ("--no-realtime", self.no_realtime),
            ("--memory", self.memory.is_some()),
            ("--socket", self.socket.is_some()),
            ("--mtu", self.mtu.is_some()),
            ("--channels", self.channels.is_some()),
            ("--gro", self.gro.is_some()),
            ("--napi-defer-hard-irqs", self.napi_defer_hard_irqs.is_some()),
            ("--gro-flush-timeout", self.gro_flush_timeout.is_some()),
        ])
    }

    /// What to bring up, and the directory of files that it needs meanwhile.
    pub(super) fn options(
        &self,
        driver: Option<&str>,
        model: Option<&str>,
        kind: Kind,
    ) -> Result<(SessionOptions, Option<TempDir>), SessionError> {
        let driver = driver.unwrap_or(LINUX_DRIVER);
        let Kind { debug, costs, seed, .. } = kind;
        self.refuse_what_is_real(costs.is_some())?;
        let debug = self.wants_debug(debug)?;
        // A module of the user's own has any name, and then the model must be named.
        let own_module = (model.is_some() && !is_known(driver)).then_some(driver);
        let model = model.map_or_else(|| model_of(driver), Ok)?;
        let found = match &self.image.kernel {
            Some(path) => own_kernel(path, driver, own_module.is_some())?,
            None => {
                let wanted = Wanted {
                    version: self.image.kernel_version.as_deref(),
                    more_drivers: kind.more_drivers || needs_more_drivers(driver),
                    debug,
                    virtual_time: costs.is_some(),
                    own_module,
                    ..Wanted::default()
                };
                found_image(&wanted, model)?
            }
        };
        self.refuse_without_bridge(found.bridge, costs.is_some())?;
        let options = SessionOptions {
            kernel: found.kernel,
            initramfs: found.initramfs,
            modules: found.modules,
            driver: driver.to_owned(),
            is_own_driver: own_module.is_some(),
            driver_parameters: self.driver_parameters.clone(),
            nic: NicOptions::of(model),
            make_nic: warikomi_nic::build,
            second: None,
            memory_mb: self.memory.unwrap_or(DEFAULT_MEMORY_MB),
            socket: self.socket.clone(),
            kernel_arguments: self.kernel_arguments.clone(),
            bridge: found.bridge,
            interrupts: self.interrupt_delivery,
            settings: self.settings(),
            realtime: !self.no_realtime && costs.is_none(),
            virtual_time: costs.map(|costs| VirtualTime { costs, seed }),
            reads: Vec::new(),
            confined: true,
        };
        Ok((options, found.files))
    }

    fn settings(&self) -> GuestSettings {
        GuestSettings {
            mtu: self.mtu,
            channels: self.channels,
            gro: self.gro.map(|given| given == OnOff::On),
            napi_defer_hard_irqs: self.napi_defer_hard_irqs,
            gro_flush_timeout_ns: self.gro_flush_timeout.map(|span| span.as_ps() / 1_000),
            coalesce: None,
        }
    }

    /// Whether a kernel that finds its own mistakes is wanted, of an experiment that takes one in any case or does not.
    fn wants_debug(&self, in_any_case: bool) -> Result<bool, SessionError> {
        match self.debug && in_any_case {
            true => Err(SessionError::impossible(
                "--debug: this experiment takes such a kernel in any case; leave it out",
            )),
            false => Ok(self.debug || in_any_case),
        }
    }

    /// Refuses what only our bridge can do, for a kernel that has none.
    fn refuse_without_bridge(&self, has: bool, virtual_time: bool) -> Result<(), SessionError> {
        let flag = match () {
            () if has => return Ok(()),
            () if self.interrupt_delivery.is_some() => "--interrupt-delivery",
            () if virtual_time => "--virtual",
            () => return Ok(()),
        };
        Err(SessionError::impossible(format!(
            "{flag} needs our PCI bridge in the kernel, and this one has none; `warikomi kernel build` makes \
             kernels that have it"
        )))
    }

    /// Refuses what is about real time, in virtual time.
    fn refuse_what_is_real(&self, virtual_time: bool) -> Result<(), SessionError> {
        let real = [
            ("--interrupt-delivery", self.interrupt_delivery.is_some()),
            ("--no-realtime", self.no_realtime),
        ];
        match real.iter().find(|(_, given)| *given && virtual_time) {
            None => Ok(()),
            Some((flag, _)) => Err(SessionError::impossible(format!(
                "{flag} is about real time, and with --virtual there is none; leave one of them out"
            ))),
        }
    }
}

/// What kind of kernel an experiment wants.
#[derive(Clone, Copy, Default)]
pub(super) struct Kind {
    /// One that finds its own mistakes.
    pub(super) debug: bool,
    /// One with the drivers of further cards, whichever the first card's is.
    pub(super) more_drivers: bool,
    /// One whose time is virtual, in which work costs this.
    pub(super) costs: Option<GuestCosts>,
    /// What is random in such a kernel follows from it.
    pub(super) seed: u64,
}

/// A kernel, and what belongs to it.
struct FoundKernel {
    kernel: PathBuf,
    initramfs: PathBuf,
    modules: Option<PathBuf>,
    bridge: bool,
    /// The directory of files that were made for it.
    files: Option<TempDir>,
}

/// An image of the cache; `model` is for what an error says of a module that none of them has.
fn found_image(wanted: &Wanted<'_>, model: &str) -> Result<FoundKernel, SessionError> {
    let image = match Cache::of_this_user()?.find(wanted) {
        Err(error) if wanted.own_module.is_some() => return Err(no_module(&error, model)),
        found => found?,
    };
    Ok(FoundKernel {
        kernel: image.kernel(),
        initramfs: image.initramfs(),
        modules: Some(image.modules()),
        bridge: image.info().bridge,
        files: None,
    })
}

/// Whether a model names this driver.
fn is_known(driver: &str) -> bool {
    warikomi_nic::MODELS.iter().any(|model| model.linux_drivers.contains(&driver))
}

/// The NIC model that a Linux driver drives.
pub(super) fn model_of(driver: &str) -> Result<&'static str, SessionError> {
    let mut models = warikomi_nic::MODELS.iter();
    let known =
        || warikomi_nic::MODELS.iter().flat_map(|model| model.linux_drivers.iter().copied());
    match models.find(|model| model.linux_drivers.contains(&driver)) {
        Some(model) => Ok(model.name),
        None => Err(SessionError::impossible(format!(
            "there is no NIC model for the driver '{driver}'; there are models for: {}",
            known().collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// A driver that no model names is a module of the user's own, or a mistake.
fn no_module(error: &dyn std::error::Error, model: &str) -> SessionError {
    let info = warikomi_nic::MODELS.iter().find(|info| info.name == model);
    let drivers = info.map_or(&[][..], |info| info.linux_drivers);
    let known: Vec<_> = drivers.iter().map(|driver| format!("--driver {driver}")).collect();
    SessionError::impossible(format!(
        "{error}; for the model {model} there is: {}",
        known.join(", ")
    ))
}

/// A kernel of the user's own: it must be fit, and needs an initramfs with our agent. Its driver may be any module
/// beside it.
fn own_kernel(path: &Path, driver: &str, own_module: bool) -> Result<FoundKernel, SessionError> {
    let kernel = inspect(path)?;
    kernel.check()?;
    let has_driver = match own_module {
        true => kernel.has_module(driver),
        false => kernel.drivers.contains_key(driver),
    };
    if !has_driver {
        let has: Vec<_> = kernel.drivers.iter().map(described).collect();
        return Err(SessionError::impossible(format!(
            "the kernel {} has no driver '{driver}', neither built in nor as a module beside it; it \
             has: {}",
            path.display(),
            if has.is_empty() { "none".to_owned() } else { has.join(", ") }
        )));
    }
    let files = tempfile::tempdir().map_err(|error| {
        SessionError::impossible(format!("cannot make a directory for the initramfs: {error}"))
    })?;
    let initramfs = files.path().join("initramfs");
    initramfs_for(&kernel, &initramfs)?;
    Ok(FoundKernel {
        kernel: kernel.path,
        initramfs,
        modules: kernel.modules,
        bridge: kernel.has_bridge,
        files: Some(files),
    })
}

fn described((name, place): (&String, &DriverPlace)) -> String {
    match place {
        DriverPlace::BuiltIn => format!("{name} (built in)"),
        DriverPlace::Module => format!("{name} (module)"),
    }
}
