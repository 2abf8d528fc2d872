//! What shells and `man` are told of this command: made of the flags' own definitions.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;

/// Print a script with which a shell completes what is typed
///
/// It completes subcommands, flags and their values. For bash:
///
/// warikomi completions bash > ~/.local/share/bash-completion/completions/warikomi
#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Write the manual's pages for man
///
/// Writes warikomi.1, a page for each subcommand, and warikomi_here.3, of the macro that names places in drivers. If
/// the directory is called man1, the last goes into man3 beside it, where man looks for it. To read them: man -l
/// DIR/warikomi.1
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
    let dir_of_here = third_section(dir);
    for dir in [dir, &dir_of_here] {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let name = command.get_name().to_owned();
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("cannot write to {}", dir.display()))?;
    let here = dir_of_here.join("warikomi_here.3");
    let text = include_str!("../../../docs/warikomi_here.3");
    std::fs::write(&here, text).with_context(|| format!("cannot write {}", here.display()))?;
    println!("{}", dir.join(format!("{name}.1")).display());
    Ok(ExitCode::SUCCESS)
}

/// Where the pages of section 3 go if those of section 1 go into `dir`: `man` looks for them in `man3`.
fn third_section(dir: &Path) -> PathBuf {
    match dir.file_name() {
        Some(name) if name == "man1" => dir.with_file_name("man3"),
        _ => dir.to_owned(),
    }
}
