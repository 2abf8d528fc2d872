//! `warikomi calibrate`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use warikomi_sim::calibrate::calibrate;

/// Measure what virtual time charges on this machine
///
/// Measures what copying, registers, sleeping and waking take, and prints it as TOML. It takes about a second; leave
/// the machine alone meanwhile.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let calibration = calibrate()?;
    if arguments.json {
        println!("{:#}", serde_json::to_value(&calibration)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("# Measured on this machine, but for what is marked.");
    let sections = [
        ("costs", "receiving", serde_json::to_value(calibration.costs)?),
        (
            "send",
            "sending; without a system call, because all of it is one process",
            serde_json::to_value(calibration.send)?,
        ),
        (
            "kernel",
            "a kernel's work, for --virtual --target kernel; of the above",
            serde_json::to_value(calibration.kernel)?,
        ),
    ];
    for (section, about, costs) in sections {
        println!("\n# {about}\n[{section}]");
        for (name, value) in costs.as_object().into_iter().flatten() {
            let declared = calibration.declared.contains(name);
            println!(
                "{name} = {value}{}",
                if declared { "  # declared, or in part; not measured" } else { "" }
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
