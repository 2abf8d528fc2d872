//! `warikomi kernel`: making and listing the kernels that drivers run in.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use warikomi_kernel::{BuildOptions, Cache, Cancel, DriverMode, Image, Source, build};
use warikomi_measure::utc_stamp;
use warikomi_target::Interrupted;

use crate::output::{Cleared, bar, spoken};

#[derive(Subcommand)]
pub(crate) enum Command {
    Build(BuildArguments),
    List(ListArguments),
}

/// Make a kernel and keep it; does nothing if it is there already
///
/// The kernel is a User Mode Linux: an ordinary program that needs no root and no hypervisor. It is
/// built with a small configuration that has PCI over virtio, the NIC drivers as modules, and an
/// initramfs with Warikomi's agent. Building takes some minutes the first time.
#[derive(Args)]
pub(crate) struct BuildArguments {
    /// Build this kernel tree, a developer's own; it stays as it is
    #[arg(long, value_name = "DIR", conflicts_with = "version")]
    source: Option<PathBuf>,
    /// Build the distribution's linux-source package of this version, such as 6.1 [default: the
    /// newest that is installed]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// NIC drivers in the kernel itself, not as modules
    #[arg(long)]
    builtin: bool,
    /// With the NIC drivers of further cards (e1000e, igb, 8139cp), and with what joins several cards in one guest:
    /// bridge, bonding, network namespaces; both make it larger
    #[arg(long)]
    more_drivers: bool,
    /// With what the kernel's own tests of NICs need (`warikomi selftest`), and the drivers of further cards; such a
    /// kernel is used for nothing else
    #[arg(long)]
    selftests: bool,
    /// A kernel that finds its own mistakes (lock order, use of freed memory) and has debug information, as
    /// `at` and `explore` want it; several times slower
    #[arg(long)]
    debug: bool,
    /// A kernel whose time can be virtual, as --virtual wants it: it asks a calendar of Warikomi's for its time;
    /// with debug information
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// A directory of modules to build with it, such as a driver under development; may be repeated
    #[arg(long = "module", value_name = "DIR")]
    modules: Vec<PathBuf>,
    /// Compilers at a time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Build even if the kernel is there already
    #[arg(long)]
    force: bool,
}

/// List the kernels that are there
#[derive(Args)]
pub(crate) struct ListArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Command, interrupted: &Interrupted) -> Result<ExitCode> {
    match command {
        Command::Build(arguments) => build_kernel(arguments, interrupted)?,
        Command::List(arguments) => list(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn build_kernel(arguments: &BuildArguments, interrupted: &Interrupted) -> Result<()> {
    let source = match &arguments.source {
        Some(tree) => Source::Tree(tree.clone()),
        None => Source::Distribution { version: arguments.version.clone() },
    };
    let drivers = if arguments.builtin { DriverMode::BuiltIn } else { DriverMode::Module };
    let options = BuildOptions {
        source,
        drivers,
        more_drivers: arguments.more_drivers,
        selftests: arguments.selftests,
        debug: arguments.debug,
        virtual_time: arguments.virtual_time,
        modules: arguments.modules.clone(),
        jobs: arguments.jobs,
        force: arguments.force,
    };
    let image = build_with_bar(&options, interrupted)?;
    println!(
        "Linux {} is ready ({}): {}",
        image.info().release,
        described(&image),
        image.kernel().display()
    );
    Ok(())
}

fn build_with_bar(options: &BuildOptions, interrupted: &Interrupted) -> Result<Image> {
    let cancel = Cancel::from(interrupted.flag());
    let bar = Cleared(bar("{bar:32} {percent:>3}% {elapsed} (about {eta} left) {wide_msg}"));
    let image = build(&Cache::of_this_user()?, options, &cancel, &mut |progress| {
        bar.0.set_length(u64::from(progress.total));
        bar.0.set_position(u64::from(progress.done));
        bar.0.set_message(progress.what.to_owned());
    })?;
    Ok(image)
}

fn list(arguments: &ListArguments) -> Result<()> {
    let images = Cache::of_this_user()?.images()?;
    if arguments.json {
        let infos: Vec<_> = images.iter().map(Image::info).collect();
        println!("{}", serde_json::to_string_pretty(&infos)?);
        return Ok(());
    }
    if images.is_empty() {
        println!("There is no kernel yet. Make one with: warikomi kernel build");
    }
    for image in &images {
        let info = image.info();
        println!(
            "Linux {}  {}  {:.1} MB  built {} in {}",
            info.release,
            described(image),
            image.size_bytes() as f64 / 1e6,
            utc_stamp(info.built_at_s),
            spoken(Duration::from_secs_f64(info.build_seconds.max(0.0))),
        );
        println!("    from {}", info.source);
        println!("    {}", image.kernel().display());
    }
    Ok(())
}

fn described(image: &Image) -> String {
    let names: Vec<_> = image.info().drivers.keys().map(String::as_str).collect();
    let place = match image.info().driver_mode {
        DriverMode::BuiltIn => "built in",
        DriverMode::Module => "as modules",
    };
    let mut what = format!("{} {place}", names.join(", "));
    if !image.info().own_modules.is_empty() {
        what.push_str(&format!("; your {}", image.info().own_modules.join(", ")));
    }
    what.push_str(if image.info().bridge { "; PCI bridge" } else { "; no PCI bridge: virt-pci" });
    if image.info().selftests {
        what.push_str("; for the kernel's own tests");
    }
    if image.info().debug {
        what.push_str("; debug");
    }
    if image.info().virtual_time {
        what.push_str("; virtual time");
    }
    what
}
