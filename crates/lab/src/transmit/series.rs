//! All rows, each as often as asked for, in turns.

use warikomi_clock::Span;
use warikomi_driver::DriverInfo;
use warikomi_driver::transmit::Bounce;
use warikomi_stack::send::SendPlan;
use warikomi_wire::peer::numbered::{Look, Seen};

use super::options::{Amount, Case, Messages, Options};
use super::row::{Outcome, Repetition, Row};
use crate::error::Error;
use crate::watch::Watch;

/// Carries a plan out, in real or in virtual time.
pub(super) trait Bench {
    /// Sends everything; what came of it, and what the wire has seen, warm-up included.
    fn send(
        &mut self,
        plan: &SendPlan,
        look: Look,
        watch: &mut Watch,
    ) -> Result<(Outcome, Seen), Error>;
}

/// Messages by which the rate is estimated: a few, or for short ones as many as take as long.
const PILOT_BYTES: u64 = 2_000_000;
const PILOT_MESSAGES: std::ops::RangeInclusive<u64> = 200..=2_000;
/// Messages of a repetition, however slow or fast they are.
const MESSAGES: std::ops::RangeInclusive<u64> = 100..=10_000_000;

/// How much of the payload is judged of what a dummy driver sends.
pub(super) fn look(bounce: Bounce) -> Look {
    if bounce == Bounce::Dummy { Look::Head } else { Look::Whole }
}

/// All rows, with their repetitions. Each run is a step: a comparison that goes on takes what it must know of
/// earlier runs, such as their rates, from those that were kept.
pub(super) fn rows(
    options: &Options,
    driver: &DriverInfo,
    bench: &mut dyn Bench,
    watch: &mut Watch,
) -> Result<(Vec<Row>, Vec<Repetition>), Error> {
    let cases = options.cases();
    let mut entries: Vec<Entry> = cases.into_iter().map(|case| Entry::new(options, case)).collect();
    let all = u64::from(options.repeats) * entries.len() as u64;
    let mut series = Series { options, driver, bench, watch, run_id: 0 };
    // In turns: what the machine does meanwhile meets all rows alike.
    let mut done = 0;
    for _ in 0..options.repeats {
        for entry in &mut entries {
            series.watch.progress(done, all, &entry.row.name());
            series.measure(entry)?;
            done += 1;
        }
    }
    let mut repetitions = Vec::new();
    let mut rows = Vec::new();
    for (number, entry) in entries.into_iter().enumerate() {
        repetitions.extend(Repetition::all(number, &entry.row, &entry.outcomes));
        rows.push(entry.row.with(&entry.outcomes));
    }
    Ok((rows, repetitions))
}

/// A row on its way.
struct Entry {
    case: Case,
    row: Row,
    /// Known as soon as the rate has been estimated.
    messages: Option<Messages>,
    outcomes: Vec<Outcome>,
}

impl Entry {
    fn new(options: &Options, case: Case) -> Entry {
        let row = Row::new(options, &case);
        Entry { row, case, messages: None, outcomes: Vec::new() }
    }

    /// What comes to a dead-lock does so every time.
    fn is_dead_locked(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.sent.dead_locked)
    }
}

struct Series<'a> {
    options: &'a Options,
    driver: &'a DriverInfo,
    bench: &'a mut dyn Bench,
    watch: &'a mut Watch,
    run_id: u32,
}

impl Series<'_> {
    fn measure(&mut self, entry: &mut Entry) -> Result<(), Error> {
        if entry.is_dead_locked() {
            return Ok(());
        }
        let messages = match (entry.messages, self.options.amount) {
            (Some(messages), _) => messages,
            (None, Amount::Messages(count)) => Messages::measured(count),
            (None, Amount::For(time)) => match self.estimate(entry, time)? {
                Some(messages) => messages,
                None => return Ok(()),
            },
        };
        entry.messages = Some(messages);
        let outcome = self.run(entry, messages)?;
        entry.outcomes.push(outcome);
        Ok(())
    }

    /// How many messages take about so long; `None` if it came to a dead-lock.
    fn estimate(&mut self, entry: &mut Entry, time: Span) -> Result<Option<Messages>, Error> {
        let interval = self.options.interval(&entry.case).as_secs();
        let pps = if interval > 0.0 {
            1.0 / interval
        } else {
            let bytes = entry.case.traffic.mean_bytes().max(1);
            let count = (PILOT_BYTES / bytes).clamp(*PILOT_MESSAGES.start(), *PILOT_MESSAGES.end());
            let pilot = self.run(entry, Messages { count, warmup: 0 })?;
            if pilot.sent.dead_locked {
                entry.outcomes.push(pilot);
                return Ok(None);
            }
            pilot.pps().unwrap_or_default()
        };
        let count = (pps * time.as_secs()).round() as u64;
        Ok(Some(Messages::measured(count.clamp(*MESSAGES.start(), *MESSAGES.end()))))
    }

    /// One run, judged.
    fn run(&mut self, entry: &Entry, messages: Messages) -> Result<Outcome, Error> {
        // Runs that were kept count as well, so that a run has the same id every time.
        self.run_id += 1;
        let row = entry.row.name();
        self.watch.step(&format!("run {}: {row}", self.run_id), |watch| {
            let plan = self.options.plan(self.driver, &entry.case, messages, self.run_id);
            let (outcome, seen) = self.bench.send(&plan, look(plan.bounce), watch)?;
            match judge(&outcome, &seen, &plan) {
                None => Ok(outcome),
                Some(what) => Err(Error::Wrong { row, what }),
            }
        })
    }
}

/// What is wrong with a run, if anything is.
pub(super) fn judge(outcome: &Outcome, seen: &Seen, plan: &SendPlan) -> Option<String> {
    let sent = &outcome.sent;
    if sent.errors > 0 {
        return Some(format!("the driver refused {} messages", sent.errors));
    }
    // What a dead-lock holds never comes back, and only the wire knows how much of it was sent; nor does
    // anybody count for how many messages of a warm-up at a pace there was no room.
    if sent.dead_locked {
        return seen.wrong(seen.messages.max(sent.sent));
    }
    if !sent.pools_full {
        return Some("buffers did not come back to their pools".to_owned());
    }
    seen.wrong(match plan.interval_ps {
        0 => plan.warmup + sent.sent,
        _ => seen.messages.max(sent.sent),
    })
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
