//! Interrupts without packets, closer together than packets could be.
//!
//! The support side sends messages at absolute deadlines and nothing else; the driver's handler takes
//! them one by one and tells when. This shows what the way of an interrupt can do by itself: whether
//! each reaches the handler, and at what distance from the one before. Only a target whose handlers
//! tell of themselves can be asked.

use serde_json::{Map, Value};
use warikomi_clock::{Span, Time};
use warikomi_measure::{Hiccups, Samples};
use warikomi_nic::InterruptRecord;
use warikomi_pci::{Interrupt, MsiMessage};
use warikomi_target::{CardId, Target, TargetError};

/// The distances, the first of which is to be kept and the second aimed at.
const SPACINGS: [Span; 2] = [Span::from_ns(200), Span::from_ns(100)];

/// Interrupts of each distance that count ...
const COUNT: usize = 100_000;
/// ... and before them, to wake the driver up.
const WARMUP: usize = 2_000;

/// Handlers that have not come by then do not come.
const PATIENCE: Span = Span::from_ms(10_000);

/// The figures of each distance, by names that begin with `alone_200_` and so on; nothing of a target
/// that cannot tell.
pub(super) fn measure(target: &mut dyn Target) -> Result<Map<String, Value>, TargetError> {
    let mut figures = Map::new();
    if target.handlers(CardId::FIRST).is_none() {
        return Ok(figures);
    }
    for spacing in SPACINGS {
        send(target, spacing, WARMUP)?;
        let sent = send(target, spacing, COUNT)?;
        let name = format!("alone_{}_", spacing.as_ps() / 1_000);
        let of_spacing = sent.figures(spacing);
        figures
            .extend(of_spacing.into_iter().map(|(figure, value)| (name.clone() + figure, value)));
    }
    Ok(figures)
}

/// What became of a series.
struct Sent {
    log: Vec<InterruptRecord>,
    /// Handlers that have come; the times of some may be missing in the log.
    handled: u64,
    hiccups: Hiccups,
}

/// Sends `count` interrupts, and waits for their handlers.
fn send(target: &mut dyn Target, spacing: Span, count: usize) -> Result<Sent, TargetError> {
    let message = Interrupt::Msi(MsiMessage { address: 0, data: 0 });
    let clock = target.clock();
    let mut hiccups = Hiccups::new(Hiccups::DEFAULT_THRESHOLD);
    if let Some(handlers) = target.handlers(CardId::FIRST) {
        handlers.log(count);
    }
    let handled_before = handled(target);
    let mut due = clock.now() + Span::from_us(10);
    for _ in 0..count {
        loop {
            let pass = target.poll()?;
            hiccups.pass(pass.at);
            if pass.at >= due {
                break;
            }
        }
        target.card(CardId::FIRST)?.1.interrupts.signal(message);
        due += spacing;
    }
    let deadline = clock.now() + PATIENCE;
    while handled(target) - handled_before < count as u64 && clock.now() < deadline {
        for _ in 0..256 {
            target.poll()?;
        }
        target.housekeep()?;
    }
    let log = target.handlers(CardId::FIRST).map(|handlers| handlers.take_log());
    let handled = handled(target) - handled_before;
    Ok(Sent { log: log.unwrap_or_default(), handled, hiccups })
}

fn handled(target: &mut dyn Target) -> u64 {
    target.handlers(CardId::FIRST).map_or(0, |handlers| handlers.handled_count())
}

impl Sent {
    fn figures(&self, spacing: Span) -> Vec<(&'static str, Value)> {
        let handled: Vec<&InterruptRecord> =
            self.log.iter().filter(|record| record.handled != Time::NEVER).collect();
        let mut lag = Samples::new();
        handled.iter().for_each(|record| lag.record(record.handled.since(record.raised)));
        // Its handler began before the next one was sent.
        let in_step = self.log.windows(2).filter(|pair| pair[0].handled < pair[1].raised).count();
        let errors: Vec<(u64, bool)> = handled
            .windows(2)
            .map(|pair| {
                let (from, until) = (pair[0].handled, pair[1].handled);
                let touched = self.hiccups.touch(pair[0].raised, until);
                (until.since(from).as_ps().abs_diff(spacing.as_ps()), touched)
            })
            .collect();
        let share = |which: &dyn Fn(u64) -> bool, quiet: bool| {
            let all = errors.iter().filter(|(_, touched)| !(quiet && *touched));
            let (within, count) = all.fold((0u64, 0u64), |(within, count), (error, _)| {
                (within + u64::from(which(*error)), count + 1)
            });
            Value::from(within as f64 / count.max(1) as f64)
        };
        let within = |parts: u64| move |error: u64| error.saturating_mul(parts) <= spacing.as_ps();
        let mut figures = vec![
            ("sent", self.log.len().into()),
            ("handled", self.handled.into()),
            ("timed", handled.len().into()),
            ("in_step_share", (in_step as f64 / (self.log.len().max(2) - 1) as f64).into()),
            ("within_1_share", share(&within(100), false)),
            ("within_6_25_share", share(&within(16), false)),
            ("quiet_within_6_25_share", share(&within(16), true)),
        ];
        if let Some(lag) = lag.summary() {
            figures.push(("lag_p50_ns", lag.p50.into()));
            figures.push(("lag_p99_ns", lag.p99.into()));
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_pci::Vector;

    #[test]
    fn figures_tell_late_lost_and_in_step_apart() {
        let at = |ns: u64| Time::ZERO + Span::from_ns(ns);
        let record =
            |raised, handled| InterruptRecord { vector: Vector(0), raised: at(raised), handled };
        let log = vec![
            record(0, at(100)),
            record(200, at(300)),
            record(400, at(650)),
            record(600, Time::NEVER),
            record(800, at(900)),
        ];
        let hiccups = Hiccups::new(Hiccups::DEFAULT_THRESHOLD);
        let sent = Sent { log, handled: 5, hiccups };
        let figures: Map<String, Value> =
            sent.figures(Span::from_ns(200)).into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        let counts = ["sent", "handled", "timed"].map(|name| figures[name].as_u64().unwrap());
        assert_eq!(counts, [5, 5, 4]);
        assert_eq!(figures["in_step_share"], 0.5);
        assert_eq!(figures["within_6_25_share"], 1.0 / 3.0);
    }
}
