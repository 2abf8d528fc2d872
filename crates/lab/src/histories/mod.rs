//! Random histories of the process target in virtual time. A case is some histories with seeds in a row.

mod columns;

use clap::Args;
use serde::{Deserialize, Serialize};
use warikomi_clock::Seed;
use warikomi_measure::{Machine, TargetInfo, TimeBase, table, texts};
use warikomi_sim::Pair;
use warikomi_sim::history::{Drawn, Histories, Omission, digest_of, histories};
use warikomi_target::TargetError;

use crate::error::Error;
use crate::experiment::{Conclusion, Experiment};
use crate::watch::Watch;

/// Histories of a case: a tenth of a second.
const OF_A_CASE: u64 = 100;

/// The most histories of a run.
const MAX_COUNT: u64 = 100_000_000;

/// The most bursts of a history.
const MAX_BURSTS: u64 = 100_000;

/// Runs random histories of the process target in virtual time, and has each judged by checkers that
/// stand apart from it: every packet accounted for once, every buffer with one owner and back in the
/// end, packets in order, and progress once faults have ended.
///
/// A seed is a history; the first that is wrong ends the run, and is printed with the command that repeats it.
#[derive(Args)]
pub struct RandomHistories {
    /// How many histories
    #[arg(long, value_name = "N", default_value_t = 20_000,
        value_parser = clap::value_parser!(u64).range(1..=MAX_COUNT))]
    count: u64,
    /// The seed of the first; the next have the numbers behind it
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Let faults strike, and parts stall and die
    #[arg(long)]
    faults: bool,
    /// How many bursts of frames come in each [default: what the seed says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_BURSTS))]
    bursts: Option<u64>,
    /// Leave a part of each out: fault:N, kill:N, order:N or stall:N, by its number from 0; sends; compute.
    /// `warikomi soak --shrink` says which are not needed
    #[arg(long, value_name = "PART")]
    without: Vec<Omission>,
    /// The driver
    #[arg(long, default_value = warikomi_driver::DEFAULT_DRIVER)]
    driver: String,
}

/// What the plan in `result.json` says.
#[derive(Serialize)]
struct Asked {
    count: u64,
    seed: u64,
    faults: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bursts: Option<u64>,
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    without: Vec<Omission>,
}

/// What came of some histories: of a case, a line of `cases.csv`; and of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Row {
    /// Seed of the first.
    seed: u64,
    histories: u64,
    packets: u64,
    delivered: u64,
    /// Events that were judged.
    events: u64,
    /// Parts that died, and were started again.
    restarts: u64,
    /// Of these, drivers that gave up by themselves.
    driver_failures: u64,
    /// Of the histories' digests; of all, of the cases' digests.
    digest: String,
}

impl Experiment for RandomHistories {
    const NAME: &'static str = "histories";
    const ABOUT: &'static str = "Random histories in virtual time, with checkers that judge each";
    const SHARDS: bool = true;

    fn run(&self, watch: &mut Watch) -> Result<Conclusion, Error> {
        let target = self.target()?;
        let name = |case: &Histories| format!("{} from seed {}", case.count, case.first.seed.0);
        let rows = watch.each(&self.cases(), name, |case, watch| {
            watch.saw_target(&target, TimeBase::Virtual);
            self.row(case, watch)
        })?;
        let asked = Asked {
            count: self.count,
            seed: self.seed,
            faults: self.faults,
            bursts: self.bursts,
            without: self.without.clone(),
        };
        let (base, machine) = (TimeBase::Virtual, Machine::default());
        let result = table(Self::NAME, base, machine, target, &asked, &[all(&rows)]);
        Ok(Conclusion::new(result).with_table("cases", rows))
    }

    fn describe(result: &mut warikomi_measure::RunResult) {
        columns::describe(result);
    }
}

impl RandomHistories {
    /// The target; it is an error if there is no such driver.
    fn target(&self) -> Result<TargetInfo, Error> {
        if Pair::by_name(&self.driver).is_none() {
            let names: Vec<_> = warikomi_driver::DRIVERS.iter().map(|info| info.name).collect();
            let (driver, names) = (&self.driver, names.join(", "));
            let text = format!("there is no driver called {driver}; there are: {names}");
            return Err(Error::impossible(text));
        }
        let (kind, driver, model) = ("process".into(), self.driver.clone(), self.driver.clone());
        Ok(TargetInfo { kind, driver, model, ..TargetInfo::default() })
    }

    fn cases(&self) -> Vec<Histories> {
        let begins = (0..self.count).step_by(OF_A_CASE as usize);
        let case = |begin: u64| Histories {
            first: Drawn {
                seed: Seed(self.seed.wrapping_add(begin)),
                faults: self.faults,
                bursts: self.bursts,
                without: self.without.clone(),
            },
            count: OF_A_CASE.min(self.count - begin),
        };
        begins.map(case).collect()
    }

    fn row(&self, case: &Histories, watch: &mut Watch) -> Result<Row, Error> {
        if watch.interrupted.is_set() {
            return Err(TargetError::Interrupted.into());
        }
        let pair =
            Pair::by_name(&self.driver).ok_or_else(|| Error::impossible("no such driver"))?;
        let found = histories(case, &pair, &mut |_| ())?;
        Ok(Row {
            seed: case.first.seed.0,
            histories: found.histories,
            packets: found.packets,
            delivered: found.delivered,
            events: found.events,
            restarts: found.restarts,
            driver_failures: found.failures,
            digest: found.digest,
        })
    }
}

/// The sum of all cases.
fn all(rows: &[Row]) -> Row {
    let mut all = Row {
        seed: rows.first().map_or(0, |first| first.seed),
        digest: digest_of(rows.iter().map(|row| row.digest.as_str())),
        ..Row::default()
    };
    for row in rows {
        // Rows may come from a file.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut all.histories, row.histories);
        add(&mut all.packets, row.packets);
        add(&mut all.delivered, row.delivered);
        add(&mut all.events, row.events);
        add(&mut all.restarts, row.restarts);
        add(&mut all.driver_failures, row.driver_failures);
    }
    all
}
