//! `warikomi bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use warikomi_bench::{
    Hypervisor, against_hypervisor, bench, comparison, explore as bench_explore,
    memory as bench_memory, transmit as bench_transmit,
};
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_session::OwnParts;
use warikomi_target::Interrupted;
use warikomi_target::cores::Cores;
use warikomi_wire::WireKind;

use crate::output::{self, Cleared};
use warikomi_session::TargetArguments;

/// Measure Warikomi itself: the figures of docs/benchmarks.md
///
/// For frames of 1 to 16 KB: the time to inject one against copying its bytes into the same
/// memory, the driver's saturated receive rate, and the shortest interval at which at least 99.9%
/// are accepted. Then packets of 64 bytes to 16 KB from one core to another, through model, driver and
/// socket, over a bare ring, and over DPDK's testpmd (if it is installed: package dpdk). Then what a
/// sender's adapting costs it for each message of 64 bytes, and what memory itself gives, as the ceiling.
/// Medians of five rounds (of sending: eleven), in turns within one run. Leave the machine alone meanwhile.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Only one of the parts
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// With --only qemu: the newest kernel below this directory, as Debian's package linux-image-amd64 installs it,
    /// or `dpkg -x` unpacks it: boot/vmlinuz-VERSION and lib/modules/VERSION [default: /]
    #[arg(long, value_name = "DIR")]
    qemu_kernel: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The driver in its kernel
    Kernel,
    /// Ways for packets from one core to another; needs no kernel
    Comparison,
    /// What adapting costs a sender; needs no kernel
    Transmit,
    /// Memory's own rate, by one core and by both; needs no kernel
    Memory,
    /// The same traffic in QEMU (package qemu-system-x86), and what an injection costs there; done only if it is
    /// asked for
    Qemu,
    /// Places that `explore` tries in a second; needs a kernel made with --debug, and is done only if it is asked for
    Explore,
}

pub(crate) fn run(arguments: &Arguments, interrupted: &Interrupted) -> Result<ExitCode> {
    let bar = Cleared(output::bar("{bar:32} {percent:>3}% {elapsed} {eta} left"));
    let mut progress = |done: usize, all: usize| {
        bar.0.set_length(all as u64);
        bar.0.set_position(done as u64);
        bar.0.tick();
    };
    match arguments.only {
        Some(Part::Comparison | Part::Transmit) => {
            arguments
                .target
                .refuse_all("this part of bench has drivers of its own, and no other")?;
        }
        Some(Part::Memory) => {
            arguments
                .target
                .refuse_all("this part of bench is about memory alone, and has no driver")?;
        }
        _ => {}
    }
    if arguments.qemu_kernel.is_some() && arguments.only != Some(Part::Qemu) {
        bail!("only --only qemu boots a kernel of QEMU's; leave --qemu-kernel out");
    }
    let mut result = match arguments.only {
        Some(Part::Comparison | Part::Transmit | Part::Memory | Part::Qemu | Part::Explore) => {
            RunResult::new("bench", TimeBase::Real, Machine::read())
        }
        _ => bench_kernel(arguments, interrupted, &mut progress)?,
    };
    let parts = OwnParts::OURSELVES;
    let wanted = |part| arguments.only.is_none_or(|only| only == part);
    if wanted(Part::Comparison) {
        let cores = choose_cores(&mut result)?;
        comparison::compare(
            &comparison::ways(parts),
            cores,
            interrupted,
            &mut result,
            &mut progress,
        )?;
    }
    if wanted(Part::Transmit) {
        bench_transmit(parts, interrupted, &mut result, &mut progress)?;
    }
    if wanted(Part::Memory) {
        let cores = choose_cores(&mut result)?;
        bench_memory(cores, interrupted, &mut result, &mut progress)?;
    }
    if arguments.only == Some(Part::Qemu) {
        let kernel_root = arguments.qemu_kernel.clone().unwrap_or_else(|| PathBuf::from("/"));
        let mut prepare = || arguments.target.prepare();
        let hypervisor = Hypervisor { kernel_root };
        against_hypervisor(&hypervisor, &mut prepare, interrupted, &mut result, &mut progress)?;
    }
    if arguments.only == Some(Part::Explore) {
        bench_explore(&arguments.target, interrupted, &mut result, &mut progress)?;
    }
    drop(bar);
    warikomi_bench::describe(&mut result);
    output::describe_and_print(&mut result, arguments.json);
    Ok(ExitCode::SUCCESS)
}

/// The cores for a part without a session, which the result names.
fn choose_cores(result: &mut RunResult) -> Result<Cores> {
    let cores = Cores::choose(&result.machine.isolated_cores)
        .context("cannot tell which cores may be used")?;
    result.machine.support_cores = vec![cores.support as u32];
    result.machine.target_cores = vec![cores.target as u32];
    Ok(cores)
}

fn bench_kernel(
    arguments: &Arguments,
    interrupted: &Interrupted,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<RunResult> {
    let prepared = arguments.target.prepare()?;
    let wire = WireKind::Sink.build().context("cannot set up the wire")?;
    let mut session = prepared.start(wire, interrupted, &mut |_| ())?;
    let result = bench(&mut session, progress)?;
    session.stop()?;
    Ok(result)
}
