//! What shells and `man` are told of this command: made of the flags' own definitions.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;

/// Prints a script with which a shell completes subcommands, flags and their values. For bash:
/// warikomi completions bash > ~/.local/share/bash-completion/completions/warikomi
#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Writes warikomi.1, a page for each subcommand, and warikomi_here.3, of the macro that names places in drivers. To
/// read them: man -l DIR/warikomi.1
#[derive(Args)]
pub(crate) struct ManArguments {
    /// Where to; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn completions(
    arguments: &CompletionsArguments,
    mut command: clap::Command,
) -> Result<ExitCode> {
    let (mut script, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    std::io::stdout().write_all(&script).context("cannot print the script")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(arguments: &ManArguments, command: clap::Command) -> Result<ExitCode> {
    let dir = &arguments.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let name = command.get_name().to_owned();
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("cannot write to {}", dir.display()))?;
    let (here, text) = (dir.join("warikomi_here.3"), include_str!("../../../docs/warikomi_here.3"));
    std::fs::write(&here, text).with_context(|| format!("cannot write {}", here.display()))?;
    println!("{}", dir.join(format!("{name}.1")).display());
    Ok(ExitCode::SUCCESS)
}
