//! `warikomi doctor`: is this machine fit for measuring, and if not, what to do?
//!
//! Each check is a function that returns one [`Finding`]; the order is the order in which a user
//! should repair things.

mod checks;
mod finding;
mod load;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use finding::{Finding, Severity};

use crate::output;

/// Look at this machine: what is missing, what disturbs measurements, and how to repair it
///
/// Looks at the cores and what else runs on them, stolen time, the clock, memory, permissions,
/// kernels and packages; says what each finding means and how to repair it. Ends with an error if
/// something prevents experiments.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let findings = examine();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        let colour = output::style().colour;
        findings.iter().for_each(|finding| print(finding, colour));
    }
    let prevented = findings.iter().any(|finding| finding.severity == Severity::Prevents);
    Ok(if prevented { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Looks at everything; takes about two seconds.
fn examine() -> Vec<Finding> {
    vec![
        checks::tools(),
        checks::sources(),
        checks::kernels(),
        checks::memory_directory(),
        checks::ptrace(),
        checks::clock(),
        checks::cores(),
        load::other_processes(),
        load::stolen_time(),
        load::hiccups(),
        checks::governor(),
        checks::real_time(),
    ]
}

fn print(finding: &Finding, colour: bool) {
    let (mark, ansi) = match finding.severity {
        Severity::Good => ("good    ", "32"),
        Severity::Disturbs => ("disturbs", "33"),
        Severity::Prevents => ("prevents", "31"),
    };
    let mark = if colour { format!("\x1b[{ansi}m{mark}\x1b[0m") } else { mark.to_owned() };
    println!("{mark}  {}: {}", finding.subject, finding.found);
    if !finding.means.is_empty() {
        println!("          means: {}", finding.means);
    }
    if !finding.hint.is_empty() {
        println!("          hint:  {}", finding.hint);
    }
}
