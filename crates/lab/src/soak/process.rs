//! Histories of the process target: those of `sim`, with card and driver drawn besides, and longer ones among them.

use std::collections::BTreeSet;

use warikomi_clock::{Dice, Seed};
use warikomi_driver::DRIVERS;
use warikomi_driver::strategy::Strategy;
use warikomi_sim::history::Drawn;
use warikomi_sim::planted::Bug;
use warikomi_sim::{Options, Order, Pair, Topology, Trigger, Way};

use super::history::{END, History, Judged, Violation};
use crate::error::Error;
use crate::watch::Watch;

/// A history of the process target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessHistory {
    drawn: Drawn,
    driver: &'static str,
    /// A bug that is planted in the driver, to be found.
    bug: Option<Bug>,
}

/// How much longer the longest histories are than others.
const LONGER: u64 = 16;

impl ProcessHistory {
    /// The history of this seed.
    pub(super) fn draw(seed: u64, dice: &mut Dice) -> ProcessHistory {
        let driver = dice.of(DRIVERS).name;
        let mut drawn = Drawn::of(Seed(seed), !dice.one_in(3));
        if dice.one_in(8) {
            drawn.bursts = Some(drawn.options().traffic.bursts * dice.magnitude(2, LONGER));
        }
        ProcessHistory { drawn, driver, bug: None }
    }

    /// The same with a driver that has this bug.
    pub(super) fn with(self, bug: Bug) -> ProcessHistory {
        ProcessHistory { bug: Some(bug), ..self }
    }
}

impl History for ProcessHistory {
    const TARGET: &'static str = "process";

    fn features(&self) -> Vec<String> {
        let mut features = features(&self.drawn.options());
        features.insert(format!("driver {}", self.driver));
        features.extend(self.drawn.bursts.map(|_| "longer".to_owned()));
        features.into_iter().collect()
    }

    fn command(&self) -> String {
        self.drawn.command(self.driver)
    }

    fn shorter(&self) -> Vec<ProcessHistory> {
        let shorter = self.drawn.shorter().into_iter();
        shorter.map(|drawn| ProcessHistory { drawn, ..self.clone() }).collect()
    }

    fn run(&self, _: &mut Watch) -> Result<Judged, Error> {
        let pair = Pair::by_name(self.driver)
            .ok_or_else(|| Error::impossible(format!("there is no card for {}", self.driver)))?;
        let pair = match self.bug {
            Some(bug) => bug.planted_in(pair),
            None => pair,
        };
        Ok(match self.drawn.judged(&pair) {
            Ok((outcome, violations)) => Judged {
                packets: outcome.counts.injected,
                delivered: outcome.counts.delivered,
                digest: outcome.digest,
                violations: violations
                    .iter()
                    .map(|found| Violation::by(found.checker, found.to_string()))
                    .collect(),
            },
            Err(why) => Judged {
                violations: vec![Violation::by(END, format!("it came to no end: {why}"))],
                ..Judged::default()
            },
        })
    }
}

/// What was drawn, in words.
fn features(options: &Options) -> BTreeSet<String> {
    let disturbances = &options.disturbances;
    let topology = match options.topology {
        Topology::Direct => "topology direct",
        Topology::Application => "topology application",
        Topology::StackAndApplication => "topology stack",
    };
    let strategy = match options.strategy {
        Strategy::Interrupt => "strategy interrupt",
        Strategy::Poll => "strategy poll",
        Strategy::Napi { .. } => "strategy napi",
        Strategy::Hybrid { .. } => "strategy hybrid",
        Strategy::Auto { .. } => "strategy auto",
        Strategy::Awake => "strategy awake",
    };
    let way = match options.way {
        Way::Reload => "way reload",
        Way::DataStore => "way data-store",
        Way::SharedState => "way shared-state",
    };
    let kill = |(trigger, _): &(Trigger, _)| match trigger {
        Trigger::HandOver(_) => "a part dies in a change of hands",
        Trigger::Event(_) | Trigger::After(_) => "a part dies",
    };
    let order = |(_, order): &(_, Order)| match order {
        Order::Strategy(_) => "another strategy is ordered",
        Order::Replace => "another driver is ordered",
        Order::Restart => "a restart is ordered",
    };
    let given = |given: bool, what: &'static str| given.then_some(what);
    let words = [topology, strategy, way].into_iter();
    let words = words
        .chain(disturbances.kills.iter().map(kill))
        .chain(disturbances.orders.iter().map(order))
        .chain(given(!disturbances.stalls.is_empty(), "the driver stalls"))
        .chain(given(options.sends.is_some(), "the application sends"))
        .chain(given(options.compute, "a job competes"));
    let faults = disturbances.faults.iter().map(|fault| format!("fault {}", fault.kind.name()));
    words.map(str::to_owned).chain(faults).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64) -> ProcessHistory {
        ProcessHistory::draw(seed, &mut Seed(seed).dice())
    }

    #[test]
    fn what_is_drawn_is_possible_and_the_same_again() {
        let mut features = BTreeSet::new();
        for seed in 1..3_000 {
            let history = draw(seed);
            history.drawn.options().validate(warikomi_driver::DRIVERS[0]).unwrap();
            assert_eq!(history, draw(seed));
            features.extend(history.features());
        }
        for feature in
            ["driver oc48", "way shared-state", "a part dies", "fault dma-error", "longer"]
        {
            assert!(features.contains(feature), "{feature}: {features:?}");
        }
    }

    #[test]
    fn a_planted_bug_is_found_and_its_history_made_shorter() {
        let mut watch = Watch::unobserved();
        let checkers = |history: &ProcessHistory, watch: &mut Watch| {
            let judged = history.run(watch).unwrap();
            judged.violations.iter().map(|found| found.checker).collect::<Vec<_>>()
        };
        let wrong = (1..500).map(|seed| draw(seed).with(Bug::DropsGood)).find(|history| {
            history.drawn.options().disturbances.faults.len() > 1
                && checkers(history, &mut watch).contains(&"ledger")
        });
        let wrong = wrong.unwrap();
        let short = super::super::history::shrink(wrong.clone(), 1_000, |candidate| {
            Ok(checkers(candidate, &mut watch).contains(&"ledger"))
        });
        let short = short.unwrap();
        let options = |history: &ProcessHistory| history.drawn.options();
        assert!(options(&short).disturbances.faults.is_empty(), "{}", short.command());
        assert!(options(&short).traffic.bursts <= options(&wrong).traffic.bursts);
        assert!(short.command().contains(" --without fault:0"), "{}", short.command());
    }
}
