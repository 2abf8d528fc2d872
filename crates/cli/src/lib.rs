//! The `warikomi` command: flags and wiring, nothing else.

mod bench;
mod calibrate;
mod compare;
mod doctor;
#[cfg(test)]
mod documented;
mod experiment;
mod export;
#[cfg(test)]
mod help;
mod invocation;
mod kernel;
mod live;
mod merge;
mod output;
mod part;
mod plan;
mod report;
mod serve;
mod shell;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use warikomi_kernel::KernelError;
use warikomi_lab::{self as lab, Entry};
use warikomi_live::service::ServiceError;
use warikomi_session::SessionError;
use warikomi_target::{Interrupted, TargetError};

use crate::invocation::Invocation;
use crate::plan::PlanFile;

/// A NIC laboratory without the NIC.
///
/// Runs an unmodified Linux network driver against a software NIC, with no hypervisor and no card,
/// delivers packets and interrupts exactly when asked, and accounts for every one of them.
#[derive(Parser)]
#[command(name = "warikomi", version, max_term_width = 100, after_help = EXAMPLES)]
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

// What a subcommand is for is the comment of its arguments. One of the variant would replace all of it, in the long
// help, too.
#[derive(Subcommand)]
enum Command {
    Live(Box<live::Arguments>),
    Serve(serve::Arguments),
    Run(invocation::RunArguments),
    Export(export::Arguments),
    /// Make and list the kernels that drivers run in
    #[command(subcommand)]
    Kernel(kernel::Command),
    Doctor(doctor::Arguments),
    Bench(Box<bench::Arguments>),
    /// Be a part of a process target; what starts these targets calls it
    #[command(subcommand, hide = true)]
    Part(part::Part),
    Calibrate(calibrate::Arguments),
    Merge(merge::Arguments),
    Report(report::Arguments),
    Compare(compare::Arguments),
    Completions(shell::CompletionsArguments),
    Man(shell::ManArguments),
}

/// Is the command, with Warikomi's experiments and these beside.
#[must_use]
pub fn main(own: &[Entry]) -> ExitCode {
    match run(own, &std::env::args_os().collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

/// All flags of all subcommands.
fn command(experiments: &[Entry]) -> clap::Command {
    Arguments::command().subcommands(experiments.iter().map(experiment::command))
}

/// What a run of the plan in `text` would keep as its own plan. Nothing is run.
pub fn plan_again(experiments: &[Entry], text: &str) -> Result<String> {
    let command = command(experiments);
    let line = PlanFile::from_toml(text)?.command_line(&command, &[])?;
    let matches = command.clone().try_get_matches_from(line)?;
    PlanFile::of(&command, &matches)?.context("this is no plan of an experiment")?.to_toml()
}

fn run(own: &[Entry], given: &[OsString]) -> Result<ExitCode> {
    // First, and alone: a driver process that takes over starts here, and all flags would delay it.
    if given.get(1).is_some_and(|name| name == "part") {
        return Ok(part::run(&part::Arguments::parse_from(&given[1..]).part));
    }
    let experiments = &[lab::EXPERIMENTS, own].concat();
    let command = command(experiments);
    let matches = invocation::meant(&command, given)?;
    let interrupted = Interrupted::on_signals().context("cannot handle signals")?;
    let invocation = Invocation::new(&command, &matches, interrupted)?;
    // The target's own children become ours when it dies, so that they can be collected.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    if let Some((name, matches)) = matches.subcommand()
        && let Some(entry) = experiments.iter().find(|entry| entry.name == name)
    {
        return experiment::run(entry, matches, &invocation);
    }
    let arguments = Arguments::from_arg_matches(&matches)?;
    match arguments.command {
        Command::Live(arguments) => live::run(&arguments, &invocation.interrupted),
        Command::Serve(arguments) => serve::run(&arguments, &invocation.interrupted),
        Command::Export(arguments) => export::run(&arguments),
        Command::Kernel(command) => kernel::run(&command, &invocation.interrupted),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments, &invocation.interrupted),
        Command::Part(part) => Ok(part::run(&part)),
        Command::Run(_) => unreachable!("the plan's own command is carried out"),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments, experiments, &command, invocation),
        Command::Report(arguments) => report::run(&arguments, &invocation.interrupted),
        Command::Compare(arguments) => Ok(compare::run(&arguments)),
        Command::Completions(arguments) => shell::completions(&arguments, command),
        Command::Man(arguments) => shell::man(&arguments, command),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("warikomi: {error:#}");
    let interrupted = error.chain().any(by_the_user);
    ExitCode::from(if interrupted { output::EXIT_INTERRUPTED } else { 1 })
}

/// Whether this says that the user stopped it, rather than that something is wrong.
fn by_the_user(error: &(dyn std::error::Error + 'static)) -> bool {
    let of_lab = error.downcast_ref().map(lab::Error::is_interrupted);
    let of_session = error.downcast_ref().map(SessionError::is_interrupted);
    let of_service = error.downcast_ref().map(|error: &ServiceError| match error {
        ServiceError::Target(error) => matches!(error, TargetError::Interrupted),
        ServiceError::Session(error) => error.is_interrupted(),
        _ => false,
    });
    let of_kernel = error.downcast_ref().map(|error| matches!(error, KernelError::Cancelled));
    let of_target = error.downcast_ref().map(|error| matches!(error, TargetError::Interrupted));
    [of_lab, of_session, of_service, of_kernel, of_target].contains(&Some(true))
}
