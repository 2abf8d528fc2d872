//! The `warikomi` command: flags and wiring, nothing else.

mod accuracy;
mod bench;
mod compare;
mod cost;
mod doctor;
mod export;
mod histories;
mod inject;
mod kernel;
mod live;
mod output;
mod part;
mod receive;
mod record;
mod replace;
mod replace_kernel;
mod replay;
mod report;
mod sweep;
mod target;
mod transmit;
mod transmit_kernel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use warikomi_kernel::KernelError;
use warikomi_lab::SessionError;
use warikomi_lab::inject::InjectError;
use warikomi_lab::receive::ReceiveError;
use warikomi_lab::replace::kernel::KernelReplaceError;
use warikomi_lab::replay::ReplayError;
use warikomi_lab::sweep::SweepError;
use warikomi_lab::transmit::TransmitError;
use warikomi_lab::transmit::kernel::KernelTransmitError;
use warikomi_live::service::ServiceError;
use warikomi_target::{Interrupted, TargetError};

/// A NIC laboratory without the NIC.
///
/// Runs an unmodified Linux network driver against a software NIC, with no hypervisor and no card,
/// delivers packets and interrupts exactly when asked, and accounts for every one of them.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  warikomi kernel build
      Make the kernel that the driver runs in; once.
  warikomi inject --driver r8169 --size 1500 --interval 38us --count 1000
      1,000 frames, one every 38 µs, and what became of each.
  warikomi record --interval 20us --count 10000
  warikomi replay runs/RUN/trace.wkt --kernel-version 6.1
      Record a run, and give the same packets at the same times to another kernel.
  warikomi doctor
      Is this machine fit for measuring, and if not, what to do?";

#[derive(Subcommand)]
enum Command {
    /// Inject packets into a driver at exact times, and account for each
    Inject(inject::Arguments),
    /// Success against interval for frames of several lengths, and the shortest without loss
    Sweep(sweep::Arguments),
    /// Measure how exactly an interval is kept, from the injection to the driver's handler
    Accuracy(accuracy::Arguments),
    /// Measure what a packet costs to send and to receive, by frame length
    Cost(cost::Arguments),
    /// Compare ways to receive: by interrupt, by polling, by both
    Receive(receive::Arguments),
    /// Compare ways to send: completion by interrupt or without, buffers, bounce buffers
    Transmit(Box<transmit::Arguments>),
    /// Replace a driver while it sends and receives: how long it takes, and that nothing is lost
    Replace(Box<replace::Arguments>),
    /// Run a service whose driver is replaced while it goes on
    Live(Box<live::Arguments>),
    /// Inject, and record all that happens at the device's edge
    Record(record::Arguments),
    /// Inject what was recorded, or real traffic from a pcap or pcapng file
    Replay(replay::Arguments),
    /// Turn a trace into a file for Wireshark or for a timeline viewer
    Export(export::Arguments),
    /// Make and list the kernels that drivers run in
    #[command(subcommand)]
    Kernel(kernel::Command),
    /// Look at this machine: what is missing, what disturbs measurements, and how to mend it
    Doctor(doctor::Arguments),
    /// Measure Warikomi itself: the figures of docs/benchmarks.md
    Bench(bench::Arguments),
    /// Be a part of a process target; what starts these targets calls it
    #[command(subcommand, hide = true)]
    Part(part::Part),
    /// Try random histories in virtual time, with checkers that judge each
    Histories(histories::Arguments),
    /// Measure what virtual time charges on this machine
    Calibrate(histories::CalibrateArguments),
    Report(report::Arguments),
    Compare(compare::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Command::Part(part) = &arguments.command {
        return part::run(part);
    }
    let interrupted = match Interrupted::on_signals() {
        Ok(interrupted) => interrupted,
        Err(error) => return fail(&anyhow::Error::new(error).context("cannot handle signals")),
    };
    // The target's own children become ours when it dies, so that they can be collected.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let done = match arguments.command {
        Command::Inject(arguments) => inject::run(&arguments, &interrupted),
        Command::Sweep(arguments) => sweep::run(&arguments, &interrupted),
        Command::Accuracy(arguments) => accuracy::run(&arguments, &interrupted),
        Command::Cost(arguments) => cost::run(&arguments, &interrupted),
        Command::Receive(arguments) => receive::run(&arguments, &interrupted),
        Command::Transmit(arguments) => transmit::run(&arguments, &interrupted),
        Command::Replace(arguments) => replace::run(&arguments, &interrupted),
        Command::Live(arguments) => live::run(&arguments, &interrupted),
        Command::Record(arguments) => record::run(&arguments, &interrupted),
        Command::Replay(arguments) => replay::run(&arguments, &interrupted),
        Command::Export(arguments) => export::run(&arguments),
        Command::Kernel(command) => kernel::run(&command, &interrupted),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments, &interrupted),
        Command::Part(_) => unreachable!("a part has been run"),
        Command::Histories(arguments) => histories::run(&arguments),
        Command::Calibrate(arguments) => histories::run_calibrate(&arguments),
        Command::Report(arguments) => report::run(&arguments, &interrupted),
        Command::Compare(arguments) => Ok(compare::run(&arguments)),
    };
    match done {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("warikomi: {error:#}");
    let interrupted = error.chain().any(by_the_user);
    ExitCode::from(if interrupted { output::EXIT_INTERRUPTED } else { 1 })
}

/// Whether an error says that the user stopped us.
fn by_the_user(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(of_target(error), Some(TargetError::Interrupted))
        || matches!(error.downcast_ref(), Some(KernelError::Cancelled))
}

/// The target's error that this one is. Errors that only pass another on hide it from the chain, so
/// each of them is looked into.
fn of_target<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a TargetError> {
    if let Some(SessionError::Target(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(
        TransmitError::Target(error) | TransmitError::Session(SessionError::Target(error)),
    ) = error.downcast_ref()
    {
        return Some(error);
    }
    if let Some(ServiceError::Target(error) | ServiceError::Session(SessionError::Target(error))) =
        error.downcast_ref()
    {
        return Some(error);
    }
    if let Some(KernelTransmitError::Target(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(KernelReplaceError::Target(error)) = error.downcast_ref() {
        return Some(error);
    }
    let inject = match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(SweepError::Inject(error)), _, _)
        | (_, Some(ReplayError::Inject(error)), _)
        | (_, _, Some(ReceiveError::Inject(error))) => Some(error),
        _ => error.downcast_ref(),
    };
    match inject {
        Some(InjectError::Target(error)) => Some(error),
        _ => error.downcast_ref(),
    }
}
