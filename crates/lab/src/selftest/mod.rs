//! The kernel's own tests of NICs, with two cards that are cabled to each other in one guest.
//!
//! Each test has a guest of its own: what one leaves behind, or breaks, is no other's. `host` is what the guest sees of
//! this machine, `programs` which tests there are, `guest` runs one, `ktap` reads what it says, `known` and `reasons`
//! have why a case may fail.

mod columns;
mod guest;
mod host;
mod known;
pub mod ktap;
mod programs;
mod reasons;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use serde::{Deserialize, Serialize};
use warikomi_measure::{RunResult, TimeBase, table};
use warikomi_protocol::commands::MountRoot;
use warikomi_session::{LINUX_DRIVER, PreparedSelftests, SessionOptions};
use warikomi_target::TargetError;

use self::guest::{Guest, Ran};
use self::known::Lacks;
use self::ktap::{Case, Outcome};
use self::programs::{Program, programs};
use self::reasons::reason;
use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::watch::Watch;

/// Failures that an error names.
const NAMED: usize = 5;

/// Runs the kernel's own tests of NICs (tools/testing/selftests: drivers/net, drivers/net/hw, net/netdevice.sh) against
/// our cards, as the kernel's developers run them against theirs: two cards that are cabled to each other, one of them
/// in a namespace of its own.
///
/// The tests run in the guest, with the programs of this machine (python3, ethtool, ip and others: `scripts/setup
/// selftest`), which it can read and not write. A case that fails fails the run, unless the reason is known and written
/// down; skipped ones and expected failures are listed with what the test says of them.
#[derive(Args)]
pub struct Selftest {
    /// The driver, as Linux calls it; several with commas
    #[arg(long, value_name = "DRIVER,...", value_delimiter = ',', default_value = LINUX_DRIVER)]
    driver: Vec<String>,
    /// A kernel tree whose tests are run [default: the sources that the kernel was built from]
    #[arg(long, value_name = "TREE", value_hint = ValueHint::DirPath)]
    source: Option<PathBuf>,
    /// The kernel that `warikomi kernel build --selftests` made from this version, such as 6.12 [default: the newest]
    #[arg(long, value_name = "VERSION")]
    kernel_version: Option<String>,
    /// Only tests whose path has this in it, such as ping.py or drivers/net/hw; several with commas
    #[arg(long, value_name = "TEXT,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds after which a test that has not ended is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
}

/// What the plan in `result.json` says.
#[derive(Serialize)]
struct Asked {
    drivers: Vec<String>,
    tests_of: String,
    kernel: String,
    tests: usize,
}

/// A test, with a driver.
struct Cell<'a> {
    driver: &'a str,
    options: SessionOptions,
    program: &'a Program,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
struct Made {
    driver: String,
    test: String,
    seconds: f64,
    cases: Vec<Case>,
}

/// One case, as the result has it.
#[derive(Serialize)]
struct Row {
    driver: String,
    test: String,
    case: String,
    result: Outcome,
    /// What the test says of it.
    said: String,
    /// Who lacks what it wants, and what that is, if that is known.
    lacks: Option<Lacks>,
    reason: Option<&'static str>,
    /// Of the whole test, in the row of its first case.
    took_s: Option<f64>,
}

impl Experiment for Selftest {
    const NAME: &'static str = "selftest";
    const ABOUT: &'static str = "The kernel's own tests of NICs, with two cards and a cable";

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        host::check()?;
        watch.waiting("taking the tests out of the kernel's sources");
        let version = self.kernel_version.as_deref();
        let source = self.source.as_deref();
        let prepared = PreparedSelftests::look_up(version, source, &watch.interrupted)?;
        let programs = self.chosen(&prepared)?;
        let cells = self.cells(&prepared, &programs)?;
        let root = host::root(prepared.tree());
        let name = |cell: &Cell<'_>| format!("{} {}", cell.driver, cell.program.path);
        let limit = Duration::from_secs(self.limit);
        let mut started = false;
        let made = watch.each(&cells, name, |cell, watch| {
            let ran = in_a_guest(cell, &root, limit, &mut started, watch)?;
            let (driver, test) = (cell.driver.to_owned(), cell.program.path.clone());
            Ok(Made { driver, test, seconds: ran.seconds, cases: ran.cases })
        })?;
        let asked = Asked {
            drivers: self.driver.clone(),
            tests_of: prepared.source().to_owned(),
            kernel: prepared.release().to_owned(),
            tests: programs.len(),
        };
        Ok(conclude(watch, asked, made))
    }

    fn describe(result: &mut RunResult) {
        columns::describe(result);
    }
}

impl Selftest {
    fn chosen(&self, prepared: &PreparedSelftests) -> Result<Vec<Program>, Error> {
        let mut all = programs(&prepared.tests());
        let names: Vec<_> = all.iter().map(|program| program.path.clone()).collect();
        let wanted = |path: &str| self.only.iter().any(|only| path.contains(only.as_str()));
        all.retain(|program| self.only.is_empty() || wanted(&program.path));
        match all.is_empty() {
            false => Ok(all),
            true => Err(Error::impossible(format!(
                "there is no such test in {}; there are: {}",
                prepared.source(),
                names.join(", ")
            ))),
        }
    }

    fn cells<'a>(
        &'a self,
        prepared: &PreparedSelftests,
        programs: &'a [Program],
    ) -> Result<Vec<Cell<'a>>, Error> {
        let mut cells = Vec::new();
        for driver in &self.driver {
            let options = prepared.options(driver, &host::reads())?;
            cells.extend(programs.iter().map(|program| Cell {
                driver,
                options: options.clone(),
                program,
            }));
        }
        Ok(cells)
    }
}

/// Runs one test in a guest of its own. A guest that dies of it is a failure of the test, and the next one has another;
/// so is one that does not start, if others have.
fn in_a_guest(
    cell: &Cell<'_>,
    root: &MountRoot,
    limit: Duration,
    started: &mut bool,
    watch: &mut Watch,
) -> Result<Ran, Error> {
    let start = Guest::start(&cell.options, root, cell.program.scene, watch);
    let mut guest = match start {
        Err(Error::Target(error)) if *started && !is_interrupted(&error) => {
            return Ok(failed("the guest did not start", &error));
        }
        guest => guest?,
    };
    *started = true;
    match guest.test(cell.program, limit, watch) {
        Ok(ran) => {
            guest.stop()?;
            Ok(ran)
        }
        Err(Error::Target(error)) if !is_interrupted(&error) => {
            // It may be gone already.
            let _ = guest.stop();
            Ok(failed("the guest did not survive it", &error))
        }
        Err(error) => Err(error),
    }
}

/// Whether the user ended it.
fn is_interrupted(error: &TargetError) -> bool {
    matches!(error, TargetError::Interrupted)
}

/// What came of a test whose guest has failed.
fn failed(what: &str, error: &TargetError) -> Ran {
    Ran { cases: vec![Case::of_program(what, &error.to_string())], seconds: 0.0 }
}

fn conclude(watch: &Watch, asked: Asked, made: Vec<Made>) -> Conclusion {
    let release = asked.kernel.clone();
    let about =
        format!("{} in Linux {release}, tests of {}", asked.drivers.join(", "), asked.tests_of);
    let rows: Vec<Row> = made.iter().flat_map(|made| rows_of(made, &release)).collect();
    let unexplained: Vec<_> = rows
        .iter()
        .filter(|row| row.result == Outcome::Failed && row.reason.is_none())
        .map(|row| format!("{} {}: {}", row.driver, row.test, row.case))
        .collect();
    let (target, machine) = watch.seen();
    let mut result = table(Selftest::NAME, TimeBase::Real, machine, target, &asked, &rows);
    columns::fill(&mut result);
    let mut conclusion = Conclusion::new(result).with_table("cases", rows);
    if !unexplained.is_empty() {
        let count = unexplained.len();
        let mut which = unexplained[..count.min(NAMED)].join("; ");
        if count > NAMED {
            which.push_str("; and others");
        }
        conclusion.failed = Some(Error::Selftests { count, which });
    }
    conclusion.with_file("selftest.ktap", move |out| {
        let names: Vec<_> =
            made.iter().map(|made| format!("{} {}", made.driver, made.test)).collect();
        let known = made.iter().map(|made| {
            let release = &release;
            move |case: &Case| {
                let known = reason(&made.driver, release, &made.test, case)?;
                Some(format!("{} lacks it: {}", known.lacks, known.why))
            }
        });
        let known: Vec<_> = known.collect();
        let programs = made
            .iter()
            .zip(&names)
            .zip(&known)
            .map(|((made, name), known)| ktap::Program { name, cases: &made.cases, known });
        ktap::write(out, &about, &programs.collect::<Vec<_>>())
    })
}

fn rows_of<'a>(made: &'a Made, release: &'a str) -> impl Iterator<Item = Row> + 'a {
    made.cases.iter().enumerate().map(move |(number, case)| {
        let known = (case.outcome != Outcome::Passed)
            .then(|| reason(&made.driver, release, &made.test, case))
            .flatten();
        Row {
            driver: made.driver.clone(),
            test: made.test.clone(),
            case: case.name.clone(),
            result: case.outcome,
            said: case.said.clone(),
            lacks: known.map(|known| known.lacks),
            reason: known.map(|known| known.why),
            took_s: (number == 0).then_some(made.seconds),
        }
    })
}
