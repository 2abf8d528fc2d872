//! `warikomi report`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use warikomi_measure::Layout;
use warikomi_report::html::{Section, page};
use warikomi_report::plot::charts;
use warikomi_report::read::{ReadError, Run};
use warikomi_target::{Interrupted, TargetError};

use crate::output::{self, Cleared};

/// Make one HTML file of runs: tables, plots, the numbers behind them, plans, warnings
///
/// Reads the directories that experiments leave behind (below runs/), and makes one file of HTML of
/// them: tables, with published figures beside them where there are any; plots; the numbers behind
/// each as CSV, to download; the plan, the machine and the warnings. The file has everything in
/// itself: it needs no network, and may be sent to others.
///
/// Which tables and plots there are follows from what the result says of itself. The points of a plot come
/// from the tables beside it, such as samples.csv (inject) and cycles.csv (sweep). A result of an older version is described as its experiment describes it today.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Directories of finished runs
    #[arg(value_name = "DIR", required = true)]
    runs: Vec<PathBuf>,
    /// The file to write; an older one is replaced [default: report.html in the first DIR]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write each plot as EXPERIMENT-PLOT.svg, and its numbers as .csv, into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  warikomi report runs/20260101T120000Z-sweep-1
      One run, as report.html in its directory.
  warikomi report runs/*-sweep-* --output sweeps.html
      Several runs on one page.
  warikomi report runs/20260101T120000Z-sweep-1 --plots docs
      The plots as files, too.";

pub(crate) fn run(arguments: &Arguments, interrupted: &Interrupted) -> Result<ExitCode> {
    let sections = read(&arguments.runs, interrupted)?;
    let html = page(&sections);
    let default = || arguments.runs[0].join("report.html");
    let output = arguments.output.clone().unwrap_or_else(default);
    replace(&output, html.as_bytes())?;
    if let Some(directory) = &arguments.plots {
        let count = write_plots(directory, &sections)?;
        eprintln!("{count} plots, with their numbers, are in {}", directory.display());
    }
    println!("{}", output.display());
    Ok(ExitCode::SUCCESS)
}

fn read(directories: &[PathBuf], interrupted: &Interrupted) -> Result<Vec<Section>> {
    let bar = Cleared(output::bar("{bar:32} {percent:>3}% {bytes} of {total_bytes}, {eta} left"));
    bar.0.set_length(directories.iter().map(|directory| table_bytes(directory)).sum());
    let mut watch = |bytes| {
        bar.0.inc(bytes);
        !interrupted.is_set()
    };
    let mut sections = Vec::new();
    for directory in directories {
        let mut run = Run::load(directory)?;
        if run.result.layout == Layout::default() {
            // What an older version wrote does not describe itself.
            crate::output::describe(&mut run.result);
        }
        let charts = charts(&run, &mut watch).map_err(|error| match error {
            ReadError::Stopped(_) => anyhow::Error::new(TargetError::Interrupted),
            other => other.into(),
        })?;
        sections.push(Section { run, charts });
    }
    Ok(sections)
}

/// How much there is to read. What cannot be seen is not there: reading it will say more.
fn table_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().extension() == Some(OsStr::new("csv")))
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// Writes each plot as SVG and CSV, and returns how many there are. Of several runs of one experiment
/// the later ones have a number in their names.
fn write_plots(directory: &Path, sections: &[Section]) -> Result<usize> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut written = 0;
    for Section { run, charts } in sections {
        let experiment = file_name(&run.result.experiment);
        let number = seen.entry(experiment.clone()).and_modify(|n| *n += 1).or_insert(1);
        let run = if *number == 1 { experiment } else { format!("{experiment}-{number}") };
        for chart in charts {
            let stem = format!("{run}-{}", chart.name);
            replace(&directory.join(format!("{stem}.svg")), chart.svg().as_bytes())?;
            replace(&directory.join(format!("{stem}.csv")), chart.csv().as_bytes())?;
            written += 1;
        }
    }
    Ok(written)
}

/// The name of an experiment comes from a file, and must not lead elsewhere.
fn file_name(experiment: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = experiment.chars().take(64).map(plain).collect();
    if name.is_empty() { "run".to_owned() } else { name }
}

/// Writes a file that appears complete or not at all, in place of an older one.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(Permissions::from_mode(0o644))?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().with_context(|| format!("cannot write {}; choose another place for it", path.display()))
}
