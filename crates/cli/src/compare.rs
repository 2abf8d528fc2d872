//! `warikomi compare`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use warikomi_measure::MadeShard;
use warikomi_report::compare::{Comparison, Limits, compare};
use warikomi_report::read::Run;
use warikomi_report::terminal;

use crate::output;

/// Compare two runs: is one worse, beyond the noise of its repetitions?
///
/// Puts two runs of one experiment side by side: each figure that both have, by how much B differs
/// from A, and whether that is more than the noise of the repetitions (repeats.csv). The test is
/// Wilcoxon's rank sum test (Mann-Whitney U), exact and two-sided, figure by figure. A figure without
/// repetitions on both sides is shown, and nothing is claimed of it.
///
/// Times (_ns) are worse when longer, rates (_bps) and shares when less, shares of errors when more.
#[derive(Args)]
#[command(after_help = EXIT)]
pub(crate) struct Arguments {
    /// The directory of the run to compare with
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The directory of the run in question
    #[arg(value_name = "B")]
    b: PathBuf,
    /// The probability up to which a difference is called more than noise; 5 repetitions a side can
    /// reach 0.0079, 4 can reach 0.029
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = alpha)]
    alpha: f64,
    /// The least difference that matters, in percent of A
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    threshold: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXIT: &str = "\
Exit status, for a CI job:
  0  B is not worse than A beyond noise
  1  B is worse in at least one figure, beyond noise and threshold
  2  they cannot be compared: a run cannot be read, they are of different experiments, or no figure
     has enough repetitions on both sides

Examples:
  warikomi compare runs/20260101T120000Z-sweep-1 runs/20260102T120000Z-sweep-1
  warikomi compare --threshold 2% --alpha 0.05 --json A B";

const EXIT_WORSE: u8 = 1;
const EXIT_CANNOT_COMPARE: u8 = 2;

fn alpha(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err("choose a probability above 0 and below 1, such as 0.01".to_owned())
    }
}

/// `5%` as 0.05.
fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is no share: write it in percent, such as 5%");
    let percent: f64 = text.strip_suffix('%').ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
    if (0.0..=1e6).contains(&percent) { Ok(percent / 100.0) } else { Err(wrong()) }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let comparison = match compared(arguments) {
        Ok(comparison) => comparison,
        Err(error) => {
            eprintln!("warikomi: {error:#}");
            return ExitCode::from(EXIT_CANNOT_COMPARE);
        }
    };
    if arguments.json {
        match serde_json::to_string_pretty(&comparison) {
            Ok(json) => println!("{json}"),
            Err(error) => {
                eprintln!("warikomi: the comparison cannot be written as JSON: {error}");
                return ExitCode::from(EXIT_CANNOT_COMPARE);
            }
        }
    } else {
        print!("{}", terminal::compare(&comparison, output::style()));
    }
    match (comparison.is_worse(), comparison.can_tell()) {
        (true, _) => ExitCode::from(EXIT_WORSE),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_CANNOT_COMPARE),
    }
}

fn compared(arguments: &Arguments) -> Result<Comparison> {
    let load = |path| -> Result<Run> {
        let mut run = Run::load(path)?;
        if let Some(MadeShard { shard, .. }) = &run.result.shard {
            bail!("{} is shard {shard} alone; merge the shards first", run.path.display());
        }
        // As it is described today, whichever version wrote it: so both have the same columns.
        warikomi_lab::describe(&mut run.result);
        Ok(run)
    };
    let (a, b) = (load(&arguments.a)?, load(&arguments.b)?);
    let limits = Limits { alpha: arguments.alpha, threshold_share: arguments.threshold };
    let (repeats_a, repeats_b) = (a.repeats()?, b.repeats()?);
    Ok(compare((&a, &repeats_a), (&b, &repeats_b), limits)?)
}
