//! In virtual time: the same rows, asked of declared costs.

use serde_json::json;
use warikomi_measure::{Machine, TargetInfo, TimeBase, as_object};
use warikomi_sim::transmit::{self as virtual_time, SendCosts};
use warikomi_stack::send::SendPlan;
use warikomi_target::TargetError;
use warikomi_wire::peer::numbered::{Look, Seen};

use super::fitted;
use super::made::{self, Transmitted};
use super::options::{Options, driver};
use super::row::{Outcome, Row};
use super::series::{self, Bench};
use crate::error::Error;
use crate::watch::Watch;

/// Compares all rows; one seed is one history, so each is run once.
pub fn transmit(
    options: &Options,
    costs: &SendCosts,
    watch: &mut Watch,
) -> Result<Transmitted, Error> {
    transmit_all(std::slice::from_ref(options), costs, watch)
}

/// The same over several cards, one after the other.
pub fn transmit_all(
    cards: &[Options],
    costs: &SendCosts,
    watch: &mut Watch,
) -> Result<Transmitted, Error> {
    let once = |options: &Options| Options { repeats: 1, ..options.clone() };
    let cards: Vec<Options> = cards.iter().map(once).collect();
    for options in &cards {
        options.validate(driver(&options.driver)?)?;
    }
    let rows = made::of_each(&cards, |options| {
        let mut bench = Simulated { options, costs };
        series::rows(options, driver(&options.driver)?, &mut bench, watch)
    })?;
    let Some(first) = cards.first() else {
        let nothing = (Vec::new(), Vec::new());
        let seen = (TargetInfo::default(), Machine::default());
        return Ok(Transmitted::of(&cards, TimeBase::Virtual, seen, nothing));
    };
    let mut found = Transmitted::of(&cards, TimeBase::Virtual, seen(first), rows);
    note_costs(&mut found, first, costs);
    Ok(found)
}

/// What runs where, of a card in virtual time.
pub(super) fn seen(options: &Options) -> (TargetInfo, Machine) {
    let target = TargetInfo::of_simulated(&options.driver, &options.nic.model);
    (target, Machine::default())
}

/// Puts the declared costs into a result.
pub(super) fn note_costs(found: &mut Transmitted, options: &Options, costs: &SendCosts) {
    found.result.figures.insert("costs".into(), json!(costs));
    fitted::note(&mut found.result, options.nic.bus.as_ref(), Some(costs));
}

/// What carries a plan out in virtual time.
pub(super) fn bench<'a>(options: &'a Options, costs: &'a SendCosts) -> impl Bench + 'a {
    Simulated { options, costs }
}

/// Puts the rates of the same rows in virtual time beside those in real time.
pub fn beside(real: &mut Transmitted, simulated: &Transmitted) {
    let rows = std::mem::take(&mut real.rows);
    real.rows = rows.into_iter().zip(&simulated.rows).map(|(row, of)| row.beside(of)).collect();
    real.result.rows = Some(real.rows.iter().map(as_object).collect());
    for key in ["costs", fitted::KEY] {
        if let Some(figure) = simulated.result.figures.get(key) {
            real.result.figures.insert(key.into(), figure.clone());
        }
    }
    if let Some(median) = median_difference(&real.rows) {
        real.result.figures.insert("virtual_difference_median_share".into(), json!(median));
    }
}

/// Half of the rows differ by no more than this share, in either direction.
fn median_difference(rows: &[Row]) -> Option<f64> {
    let differences = rows.iter().filter_map(|row| row.virtual_difference_share);
    let mut differences: Vec<f64> = differences.map(f64::abs).collect();
    differences.sort_by(f64::total_cmp);
    differences.get(differences.len() / 2).copied()
}

struct Simulated<'a> {
    options: &'a Options,
    costs: &'a SendCosts,
}

impl Bench for Simulated<'_> {
    fn send(
        &mut self,
        plan: &SendPlan,
        _: Look,
        watch: &mut Watch,
    ) -> Result<(Outcome, Seen), Error> {
        if watch.interrupted.is_set() {
            return Err(TargetError::Interrupted.into());
        }
        let virtual_time::Outcome { sent, seen, digest, .. } =
            virtual_time::run(&virtual_time::Options {
                plan: plan.clone(),
                nic: self.options.nic.clone(),
                driver: self.options.driver.clone(),
                costs: *self.costs,
                stalls: Vec::new(),
            })?;
        let segments_per_message = seen.segments_per_message();
        Ok((Outcome { sent, segments_per_message, digest: Some(digest) }, seen))
    }
}
