//! Flags that say which driver runs where; shared by every experiment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::BoolishValueParser;
use tempfile::TempDir;
use warikomi_clock::Span;
use warikomi_kernel::{Cache, DriverPlace, initramfs_for, inspect};
use warikomi_lab::{GuestSettings, SessionOptions};

/// The least memory that a kernel with its rings and socket buffers is at ease in.
const MIN_MEMORY_MB: u64 = 64;
const MAX_MEMORY_MB: u64 = 16 * 1024;

#[derive(Args)]
#[command(next_help_heading = "Driver and kernel")]
pub(crate) struct TargetArguments {
    /// The driver, as Linux calls it
    #[arg(long, default_value = "r8169")]
    driver: String,
    /// The NIC model [default: one that the driver drives]
    #[arg(long)]
    model: Option<String>,
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
    /// The guest's memory in MB
    #[arg(long, value_name = "MB", default_value_t = 256,
        value_parser = clap::value_parser!(u64).range(MIN_MEMORY_MB..=MAX_MEMORY_MB))]
    memory: u64,
    /// The socket on which the kernel finds the NIC [default: a private one]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The guest's MTU in bytes
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

/// Options, and the files that they need while they are used.
pub(crate) struct Prepared {
    pub(crate) options: SessionOptions,
    _initramfs: Option<TempDir>,
}

impl TargetArguments {
    /// Finds the kernel, and everything that goes with it.
    pub(crate) fn prepare(&self) -> Result<Prepared> {
        let model = self.model()?;
        let (kernel, initramfs, keep) = match &self.kernel {
            Some(path) => self.own_kernel(path)?,
            None => {
                let image = Cache::of_this_user()?.find(self.kernel_version.as_deref(), None)?;
                (image.kernel(), image.initramfs(), None)
            }
        };
        let settings = GuestSettings {
            mtu: self.mtu,
            gro: self.gro,
            napi_defer_hard_irqs: self.napi_defer_hard_irqs,
            gro_flush_timeout_ns: self.gro_flush_timeout.map(|span| span.as_ps() / 1_000),
            coalesce: None,
        };
        let options = SessionOptions {
            kernel,
            initramfs,
            driver: self.driver.clone(),
            driver_parameters: self.driver_parameters.clone(),
            model,
            memory_mb: self.memory,
            socket: self.socket.clone(),
            kernel_arguments: self.kernel_arguments.clone(),
            settings,
        };
        Ok(Prepared { options, _initramfs: keep })
    }

    /// Empty polls before NAPI enables the interrupt again, if that was asked for.
    pub(crate) fn napi_defer_hard_irqs(&self) -> Option<u32> {
        self.napi_defer_hard_irqs
    }

    fn model(&self) -> Result<String> {
        if let Some(model) = &self.model {
            return Ok(model.clone());
        }
        let drives =
            |model: &&&warikomi_nic::ModelInfo| model.linux_drivers.contains(&self.driver.as_str());
        match warikomi_nic::MODELS.iter().find(drives) {
            Some(model) => Ok(model.name.to_owned()),
            None => bail!(
                "there is no NIC model for the driver '{}'; there are models for: {}",
                self.driver,
                known_drivers().join(", ")
            ),
        }
    }

    /// A kernel of the user's own: it must be fit, and needs an initramfs with our agent.
    fn own_kernel(&self, path: &Path) -> Result<(PathBuf, PathBuf, Option<TempDir>)> {
        let kernel = inspect(path)?;
        kernel.check()?;
        if !kernel.drivers.contains_key(&self.driver) {
            let has: Vec<_> = kernel.drivers.iter().map(described).collect();
            bail!(
                "the kernel {} has no driver '{}', neither built in nor as a module beside it; it \
                 has: {}",
                path.display(),
                self.driver,
                if has.is_empty() { "none".to_owned() } else { has.join(", ") }
            );
        }
        let dir = tempfile::tempdir().context("cannot make a directory for the initramfs")?;
        let initramfs = dir.path().join("initramfs");
        initramfs_for(&kernel, &initramfs)?;
        Ok((kernel.path, initramfs, Some(dir)))
    }
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
