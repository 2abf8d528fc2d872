//! How many packets get from one core to another, one way against others.
//!
//! What is compared takes turns: in every round each way is measured once, so that what the machine
//! does meanwhile meets all of them. Every figure is the median of the rounds. How far the rounds lie
//! apart, and how long others had the cores, stands beside it: a ratio that differs from 1 by less
//! than that says nothing.

use std::time::Duration;

use serde_json::{Map, Value};
use warikomi_measure::{CpuTimes, RunResult, Warning};
use warikomi_session::OwnParts;
use warikomi_target::cores::Cores;
use warikomi_target::{Interrupted, TargetError};

use crate::model::ThroughModel;
use crate::rounds::{ROUNDS, median};
use crate::way::{Failure, Running, Sample, Setup, Way};
use crate::{ring, testpmd};

/// Packet lengths in bytes. The longest leaves room below 16 KB for what a link puts around it.
pub const COMPARED_SIZES: &[usize] = &[64, 1_500, 4_096, 16_000];

/// How long a way runs before it is measured, and how long it is measured, in every round.
const WARM_UP: Duration = Duration::from_millis(200);
const MEASURED: Duration = Duration::from_millis(1_000);

/// Others may have the cores for this share of the time before a warning says so.
const TOLERATED_WAITING_SHARE: f64 = 0.01;

/// What compares: our own ways, each against each of the others.
pub fn ways(parts: OwnParts) -> Vec<Box<dyn Way>> {
    let own = |copy_out| Box::new(ThroughModel { parts, copy_out }) as Box<dyn Way>;
    let mut all = vec![own(false), own(true), Box::new(ring::BareRing)];
    all.extend(testpmd::Link::ALL.map(|link| Box::new(link) as Box<dyn Way>));
    all
}

/// Measures all `ways` in turns, and puts the table, what it needs to be understood, and what is to
/// be said against it, into `result`. `progress` is told steps done and in all.
pub fn compare(
    ways: &[Box<dyn Way>],
    cores: Cores,
    interrupted: &Interrupted,
    result: &mut RunResult,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), TargetError> {
    let core_numbers = [cores.support as u32, cores.target as u32];
    let before = CpuTimes::read(&core_numbers);
    let steps = COMPARED_SIZES.len() * ROUNDS;
    let mut failed = vec![false; ways.len()];
    let mut rows = Vec::new();
    for (index, &size_bytes) in COMPARED_SIZES.iter().enumerate() {
        let setup = Setup {
            size_bytes,
            cores,
            warm_up: WARM_UP,
            measured: MEASURED,
            interrupted: interrupted.clone(),
        };
        let mut seen = Seen::open(ways, &mut failed, &setup, &mut result.warnings)?;
        for round in 0..ROUNDS {
            progress(index * ROUNDS + round, steps);
            seen.round(ways, &mut failed, &mut result.warnings)?;
        }
        rows.push(Value::Object(row(size_bytes, ways, &seen.samples)));
    }
    progress(steps, steps);
    let stolen = CpuTimes::read(&core_numbers)
        .zip(before)
        .and_then(|(now, before)| now.stolen_percent_since(&before));
    warn_of_waiting(&rows, &mut result.warnings);
    let descriptions: Map<String, Value> = ways
        .iter()
        .zip(&failed)
        .filter(|&(_, &failed)| !failed)
        .map(|(way, _)| (way.name().to_owned(), way.description().into()))
        .collect();
    result.figures.insert("comparison".into(), rows.into());
    result.figures.insert("comparison_ways".into(), descriptions.into());
    if let Some(percent) = stolen {
        result.figures.insert("comparison_stolen_share".into(), (percent / 100.0).into());
    }
    Ok(())
}

/// The ways that are set up for one packet length, and what was seen of them.
struct Seen {
    running: Vec<Option<Box<dyn Running>>>,
    samples: Vec<Vec<Sample>>,
}

impl Seen {
    fn open(
        ways: &[Box<dyn Way>],
        failed: &mut [bool],
        setup: &Setup,
        warnings: &mut Vec<Warning>,
    ) -> Result<Seen, TargetError> {
        let mut running = Vec::new();
        for (way, failed) in ways.iter().zip(failed) {
            let opened = if *failed { None } else { Some(way.open(setup)) };
            running.push(match opened {
                Some(opened) => accept(opened, way.name(), failed, warnings)?,
                None => None,
            });
        }
        Ok(Seen { running, samples: vec![Vec::new(); ways.len()] })
    }

    fn round(
        &mut self,
        ways: &[Box<dyn Way>],
        failed: &mut [bool],
        warnings: &mut Vec<Warning>,
    ) -> Result<(), TargetError> {
        for (index, way) in ways.iter().enumerate() {
            let Some(running) = &mut self.running[index] else { continue };
            match accept(running.measure(), way.name(), &mut failed[index], warnings)? {
                Some(sample) => self.samples[index].push(sample),
                // It is taken down at once, so that it does not disturb the others.
                None => self.running[index] = None,
            }
        }
        Ok(())
    }
}

/// A way that fails is left out from then on, and a warning says why; only the user ends it all.
fn accept<T>(
    outcome: Result<T, Failure>,
    name: &str,
    failed: &mut bool,
    warnings: &mut Vec<Warning>,
) -> Result<Option<T>, TargetError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Interrupted) => Err(TargetError::Interrupted),
        Err(failure) => {
            *failed = true;
            let warning = Warning {
                what: format!("comparison with {name}: {failure}"),
                hint: failure.hint(),
            };
            // Several ways may need the same program.
            if !warnings.iter().any(|known| known.hint == warning.hint) {
                warnings.push(warning);
            }
            Ok(None)
        }
    }
}

/// The figures of one packet length: medians of the rounds, our own ways against the others.
fn row(size_bytes: usize, ways: &[Box<dyn Way>], samples: &[Vec<Sample>]) -> Map<String, Value> {
    let mut row = Map::new();
    row.insert("size_bytes".into(), size_bytes.into());
    let seen = || ways.iter().zip(samples).filter(|(_, samples)| samples.len() == ROUNDS);
    let of = |samples: &[Sample], figure: fn(&Sample) -> f64| -> Vec<f64> {
        samples.iter().map(figure).collect()
    };
    for (way, samples) in seen() {
        let mut put = |figure: &str, value: f64| {
            row.insert(format!("{}_{figure}", way.name()), value.into());
        };
        let mut rates = of(samples, |sample| sample.packets_per_second);
        let middle = median(&mut rates);
        put("bps", middle * 8.0 * size_bytes as f64);
        put("pps", middle);
        put("spread_share", (rates[rates.len() - 1] - rates[0]) / middle);
        put("waited_share", median(&mut of(samples, |sample| sample.waited_share)));
    }
    for (own, owns) in seen().filter(|(way, _)| way.is_ours()) {
        for (other, others) in seen().filter(|(way, _)| !way.is_ours()) {
            let ratio = |(ours, theirs): (&Sample, &Sample)| {
                ours.packets_per_second / theirs.packets_per_second
            };
            let mut ratios: Vec<f64> = owns.iter().zip(others).map(ratio).collect();
            let name = format!("{}_over_{}", own.name(), other.name());
            row.insert(name.clone(), median(&mut ratios).into());
            row.insert(format!("{name}_least"), ratios[0].into());
            row.insert(format!("{name}_greatest"), ratios[ratios.len() - 1].into());
        }
    }
    row
}

fn warn_of_waiting(rows: &[Value], warnings: &mut Vec<Warning>) {
    let waited = rows.iter().filter_map(Value::as_object).flatten();
    let most = waited
        .filter(|(name, _)| name.ends_with("_waited_share"))
        .filter_map(|(_, value)| value.as_f64())
        .fold(0.0, f64::max);
    if most > TOLERATED_WAITING_SHARE {
        warnings.push(Warning {
            what: format!(
                "other processes had the cores for up to {:.0}% of the time of the comparison",
                100.0 * most
            ),
            hint: "leave the machine alone meanwhile, and trust no ratio of this run".into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Says a rate for each round, and what it was asked.
    struct FixedRates(&'static str, Vec<Option<f64>>, Rc<RefCell<Vec<&'static str>>>);

    impl Way for FixedRates {
        fn name(&self) -> &'static str {
            self.0
        }

        fn description(&self) -> &'static str {
            "made up"
        }

        fn is_ours(&self) -> bool {
            self.0 == "ours"
        }

        fn open(&self, _: &Setup) -> Result<Box<dyn Running>, Failure> {
            let rates = self.1.iter().rev().copied().collect();
            Ok(Box::new(FixedRates(self.0, rates, Rc::clone(&self.2))))
        }
    }

    impl Running for FixedRates {
        fn measure(&mut self) -> Result<Sample, Failure> {
            self.2.borrow_mut().push(self.0);
            let rate = self.1.pop().expect("no more rounds than asked for");
            let missing = Failure::NotInstalled { program: "it", package: "that" };
            let packets_per_second = rate.ok_or(missing)?;
            Ok(Sample { packets_per_second, waited_share: 0.5 })
        }
    }

    fn compared(told: Vec<(&'static str, Vec<Option<f64>>)>) -> (RunResult, Vec<&'static str>) {
        let asked = Rc::new(RefCell::default());
        let ways: Vec<Box<dyn Way>> = told
            .into_iter()
            .map(|(name, rates)| {
                Box::new(FixedRates(name, rates, Rc::clone(&asked))) as Box<dyn Way>
            })
            .collect();
        let mut result =
            RunResult::new("bench", warikomi_measure::TimeBase::Real, Default::default());
        let cores = Cores { support: 0, target: 0 };
        compare(&ways, cores, &Interrupted::default(), &mut result, &mut |_, _| ()).unwrap();
        drop(ways);
        (result, Rc::try_unwrap(asked).unwrap().into_inner())
    }

    #[test]
    fn ways_take_turns_and_ours_are_compared_with_the_others() {
        let rates = |rates: [f64; ROUNDS]| rates.map(Some).to_vec();
        let (result, asked) = compared(vec![
            ("ours", rates([80.0, 90.0, 100.0, 110.0, 120.0])),
            ("other", rates([40.0, 45.0, 50.0, 55.0, 30.0])),
        ]);
        assert_eq!(asked[..4], ["ours", "other", "ours", "other"]);
        assert_eq!(asked.len(), 2 * ROUNDS * COMPARED_SIZES.len());
        let row = &result.figures["comparison"][1];
        assert_eq!((&row["size_bytes"], &row["ours_pps"]), (&1_500.into(), &100.0.into()));
        assert_eq!(row["ours_bps"], 1_200_000.0);
        assert_eq!(row["ours_spread_share"], 0.4);
        assert_eq!(row["ours_over_other"], 2.0);
        assert_eq!(row["ours_over_other_greatest"], 4.0);
        assert!(row.get("other_over_ours").is_none());
        assert!(result.warnings[0].what.contains("50%"), "{:?}", result.warnings);
    }

    #[test]
    fn a_way_that_fails_is_left_out_and_said() {
        let (result, asked) = compared(vec![
            ("ours", vec![Some(1.0); ROUNDS]),
            ("gone", vec![Some(1.0), None]),
            ("other", vec![Some(1.0); ROUNDS]),
        ]);
        assert_eq!(asked.iter().filter(|&&name| name == "gone").count(), 2);
        let row = result.figures["comparison"][0].as_object().unwrap();
        assert!(row.keys().all(|name| !name.contains("gone")), "{row:?}");
        assert!(row.contains_key("ours_over_other"));
        assert!(result.figures["comparison_ways"].get("gone").is_none());
        assert!(result.warnings[0].hint.contains("apt-get install that"), "{:?}", result.warnings);
    }
}
