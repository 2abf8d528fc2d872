//! Whether pauses of either side explain what a run lost.
//!
//! A packet finds no descriptor if the driver has not taken what came before for as long as the ring lasts.
//! That is the driver's doing, unless one of the two sides was not running for that long: the support side,
//! which then injects at once what it has missed, or the target. The support side has a log of its hiccups
//! and knows of each packet how late it went out: what was due in 10 ms and went out in 1 is 9 ms that the
//! driver was not given. Of the target it is known how long it was kept from running during the run, not
//! when: by its driver's own log, if it is one of ours, by its wait for its core, and by what the host stole.
//!
//! None of these sees a core that slept and that the host of a virtual machine woke late (on some machines a plain
//! read of a pipe ends up to 10 ms after the write, of which neither the run queue nor the stolen time tells).
//! It is seen in the interrupts: one that was raised before, and whose handler began that late. A wake-up that was
//! lost altogether is none of these: it ends when the driver looks by itself, after [`LATEST_WAKE`] and more.

use std::collections::VecDeque;
use std::fmt;

use warikomi_clock::{Span, Time};
use warikomi_measure::{Fate, Hiccups, Ledger, Machine, Row};
use warikomi_nic::InterruptRecord;

use super::Injected;

/// The share of the missing time that pauses must cover: some of it goes by before the ring begins to fill,
/// and acceptance is noticed late.
const COVERED_SHARE: f64 = 0.8;

/// A handler that begins later than this was not woken by its interrupt.
const LATEST_WAKE: Span = Span::from_ms(50);

/// What a driver does with what has come while it did not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// It takes all of it.
    Taken,
    /// It takes this many, and the rest when another frame comes: `rtl8139_poll` of 8139too acknowledges each frame that
    /// it takes, and goes by the status rather than by the ring when its budget was used up.
    LeftBeyond(usize),
}

/// A time in which a driver did not take what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    /// When the first packet that it did not take was due, and the last that found no descriptor.
    due: (Time, Time),
    /// When that was injected.
    until: Time,
    /// Of the time between, how long the driver had packets that it did not take.
    given: Span,
}

/// Pauses that explain every packet that was lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Packets that found no descriptor, and those that the driver left behind.
    pub lost: u64,
    /// For how long the driver did not take what came, in all.
    pub missing: Span,
    /// Of that, time in which the support side was not running, or late.
    pub support: Span,
    /// The longest of its hiccups then: since the first deadline, and how long.
    pub longest: Option<(Span, Span)>,
    /// Of the missing time, what went by between an interrupt and its handler.
    pub woken_late: Span,
    /// Time for which the target was kept from running during the whole run.
    pub target: Span,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explained { lost, missing, support, longest, woken_late, target } = self;
        write!(f, "{lost} packets found no descriptor, or were left on the ring: ")?;
        write!(f, "what was due in {missing} was not taken; ")?;
        write!(f, "the support side was not running or late for {support} of it")?;
        if let Some((at, length)) = longest {
            write!(f, ", at {at} for {length}")?;
        }
        write!(f, "; handlers began {woken_late} late in it")?;
        write!(f, "; the target was kept from running for {target}")
    }
}

/// Losses that pauses do not explain.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unexplained {
    /// Packets that no pause can lose.
    #[error("{packets} packets were lost otherwise than for want of a descriptor")]
    Otherwise {
        /// How many.
        packets: u64,
    },
    /// The plan has no pace, or times of single packets are not kept, so that nothing can be said.
    #[error("nothing says when packets were due")]
    NoTimes,
    /// The pauses are shorter than what they would have to explain.
    #[error("the pauses that are known are too short: {0}")]
    TooShort(Explained),
}

impl Injected {
    /// The pauses that explain why packets found no descriptor, if they do; [`Explained::lost`] is 0 if none
    /// was lost.
    pub fn explain_loss(&self) -> Result<Explained, Unexplained> {
        self.explain_loss_if(Backlog::Taken)
    }

    /// The same of a driver that may not take all that is on its ring.
    pub fn explain_loss_if(&self, backlog: Backlog) -> Result<Explained, Unexplained> {
        let paced = self.result.pacing.is_some();
        if !self.ledger.is_detailed() || !paced {
            return Err(Unexplained::NoTimes);
        }
        let own = self.result.figures.get("driver_hiccup_ns").and_then(|ns| ns.as_u64());
        let hiccups = &self.hiccups.support;
        let target = target_pause(&self.result.machine, Span::from_ns(own.unwrap_or(0)), hiccups);
        explain(&self.ledger, hiccups, &self.interrupts, self.start, target, backlog)
    }
}

/// For how long the target was kept from running, of which hiccups of the support side are not a part.
fn target_pause(machine: &Machine, own: Span, hiccups: &Hiccups) -> Span {
    let us = |us: f64| Span::from_ns((us * 1e3) as u64);
    let waited = us(machine.target_waited_us.unwrap_or(0.0));
    let cores = if machine.support_cores == machine.target_cores { 1.0 } else { 2.0 };
    let watched_us = cores * 1e3 * machine.watched_ms.unwrap_or(0.0);
    let stolen = us(machine.stolen_percent.unwrap_or(0.0) / 100.0 * watched_us);
    let support = Span::from_ns(hiccups.summary().total_ns as u64);
    own.max(waited) + beyond(stolen, support)
}

fn beyond(span: Span, covered: Span) -> Span {
    Span::from_ps(span.as_ps().saturating_sub(covered.as_ps()))
}

fn explain(
    ledger: &Ledger,
    hiccups: &Hiccups,
    interrupts: &[InterruptRecord],
    start: Time,
    target: Span,
    backlog: Backlog,
) -> Result<Explained, Unexplained> {
    let totals = ledger.totals();
    let accounted = totals.no_descriptor + totals.delivered + totals.unclaimed;
    let otherwise = totals.planned.saturating_sub(accounted);
    let behind = match backlog {
        Backlog::LeftBeyond(at_most) if otherwise > 0 => left_behind(ledger, at_most),
        _ => None,
    };
    let left = behind.map_or(0, |(_, left)| left);
    if otherwise > left {
        return Err(Unexplained::Otherwise { packets: otherwise - left });
    }
    let mut gaps = gaps(ledger.rows()).ok_or(Unexplained::NoTimes)?;
    if let Some((gap, _)) = behind {
        // Packets that found no descriptor meanwhile are of the same time.
        gaps.retain(|other| other.due.1 < gap.due.0);
        gaps.push(gap);
    }
    let mut explained = Explained {
        lost: totals.no_descriptor + left,
        missing: Span::ZERO,
        support: Span::ZERO,
        longest: None,
        woken_late: Span::ZERO,
        target,
    };
    let mut of_target = Span::ZERO;
    for gap in gaps {
        let missing = gap.due.1.since(gap.due.0);
        let late = latest(interrupts, &gap);
        let (mut hiccupped, mut in_both) = (Span::ZERO, Span::ZERO);
        for hiccup in hiccups.kept() {
            // What comes behind the last of them explains none.
            let (from, until) = (hiccup.from.max(gap.due.0), hiccup.until.min(gap.due.1));
            if from < until {
                hiccupped += until.since(from);
                in_both += until.min(late.1).since(from.max(late.0));
                let named = (hiccup.from.since(start), hiccup.until.since(hiccup.from));
                let longest = explained.longest.filter(|(_, length)| *length >= named.1);
                explained.longest = longest.or(Some(named));
            }
        }
        let support = hiccupped.max(beyond(missing, gap.given));
        explained.missing += missing;
        explained.support += support;
        let late = late.1.since(late.0);
        explained.woken_late += late;
        // One may follow the other: what both logs name counts once.
        let named = hiccupped + beyond(late, in_both);
        let covered = Span::from_ps((missing.as_ps() as f64 * COVERED_SHARE) as u64);
        of_target += beyond(covered, support.max(named));
    }
    if of_target > target { Err(Unexplained::TooShort(explained)) } else { Ok(explained) }
}

/// The time in which the last packets came, of which a driver takes `at_most` at once and has left the rest on the ring;
/// and how many these are.
fn left_behind(ledger: &Ledger, at_most: usize) -> Option<(Gap, u64)> {
    let rows: Vec<Row> = ledger.rows().collect();
    let is_left = |row: &Row| row.fate == Fate::LostOnRing;
    let is_last = |row: &&Row| is_left(row) || row.fate == Fate::NoDescriptor;
    let last = rows.iter().rev().take_while(is_last).count();
    let first_left = rows.len() - last + rows[rows.len() - last..].iter().position(is_left)?;
    let (from, until) = (rows[first_left.saturating_sub(at_most)], rows[rows.len() - 1]);
    let given = until.injected?.since(from.injected?);
    let gap = Gap { due: (from.planned?, until.planned?), until: until.injected?, given };
    Some((gap, rows[first_left..].iter().filter(|row| is_left(row)).count() as u64))
}

/// The longest part of a gap that went by between an interrupt and its handler.
fn latest(interrupts: &[InterruptRecord], gap: &Gap) -> (Time, Time) {
    let woken = |record: &&InterruptRecord| {
        record.handled != Time::NEVER && record.handled.since(record.raised) <= LATEST_WAKE
    };
    let within =
        |record: &InterruptRecord| (record.raised.max(gap.due.0), record.handled.min(gap.until));
    let all = interrupts.iter().filter(woken).map(within);
    all.max_by_key(|(from, until)| until.since(*from)).unwrap_or((gap.due.0, gap.due.0))
}

/// The times in which packets were lost, from when the first packet was due that the driver did not take;
/// such as overlap are one.
fn gaps(rows: impl Iterator<Item = Row>) -> Option<Vec<Gap>> {
    let mut gaps: Vec<Gap> = Vec::new();
    // Packets on the ring: when they were due, injected and accepted.
    let mut on_ring: VecDeque<(Time, Time, Time)> = VecDeque::new();
    for row in rows {
        let (due, injected) = (row.planned?, row.injected?);
        if row.fate != Fate::NoDescriptor {
            on_ring.push_back((due, injected, row.accepted.unwrap_or(Time::NEVER)));
            continue;
        }
        while on_ring.front().is_some_and(|(_, _, accepted)| *accepted <= injected) {
            on_ring.pop_front();
        }
        // With nothing on the ring it is no pause that is missing a descriptor.
        let &(from, given_from, _) = on_ring.front()?;
        match gaps.last_mut().filter(|gap| from <= gap.due.1) {
            Some(gap) => {
                gap.given += injected.since(given_from.max(gap.until));
                (gap.due.1, gap.until) = (due, injected);
            }
            None => {
                let given = injected.since(given_from);
                gaps.push(Gap { due: (from, due), until: injected, given });
            }
        }
    }
    Some(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_measure::{Outcome, Packet};
    use warikomi_pci::Vector;

    const EVERY: Span = Span::from_us(38);
    const RING: u64 = 256;

    fn ms(ms: u64) -> Span {
        Span::from_ms(ms)
    }

    /// A second of packets, of which the driver takes each at once but those that come while it is away, and
    /// which the support side injects at their times but when it is away.
    fn run(
        driver_away: Option<(Span, Span)>,
        support_away: Option<(Span, Span)>,
    ) -> (Ledger, Hiccups) {
        let at = |span: Span| Time::ZERO + ms(1_000) + span;
        let mut ledger = Ledger::new(20_000).without_application();
        let mut hiccups = Hiccups::default();
        let (mut on_ring, mut accepted) = (0, 0);
        for sequence in 0..20_000 {
            let due = EVERY * sequence;
            let away = |away: Option<(Span, Span)>| {
                away.is_some_and(|(from, until)| due >= from && due < until)
            };
            let mut injected = due;
            if let Some((from, until)) = support_away.filter(|_| away(support_away)) {
                if hiccups.count() == 0 {
                    hiccups.seen(at(from), at(until));
                }
                injected = until;
            }
            let full = on_ring - accepted >= RING;
            let outcome = if full { Outcome::NoDescriptor } else { Outcome::OnRing };
            on_ring += u64::from(!full);
            ledger.injected(&Packet {
                sequence,
                planned: at(due),
                injected: at(injected),
                took: Span::from_ns(100),
                queue: 0,
                outcome,
            });
            if !away(driver_away) && !away(support_away) {
                accepted = on_ring;
                ledger.progress(0, accepted, 0, at(injected + Span::from_us(10)));
            }
        }
        (ledger, hiccups)
    }

    fn explained(run: (Ledger, Hiccups), target: Span) -> Result<Explained, Unexplained> {
        explain(&run.0, &run.1, &[], Time::ZERO + ms(1_000), target, Backlog::Taken)
    }

    #[test]
    fn nothing_lost_needs_no_explanation() {
        let nothing = explained(run(None, None), Span::ZERO).unwrap();
        assert_eq!((nothing.lost, nothing.missing), (0, Span::ZERO));
    }

    #[test]
    fn a_driver_that_was_away_by_itself_is_not_explained() {
        let away = || run(Some((ms(100), ms(130))), None);
        assert!(matches!(explained(away(), Span::ZERO), Err(Unexplained::TooShort(_))));
        assert!(matches!(explained(away(), ms(15)), Err(Unexplained::TooShort(_))));
    }

    #[test]
    fn a_target_that_was_kept_from_running_for_so_long_is() {
        let found = explained(run(Some((ms(100), ms(130))), None), ms(30)).unwrap();
        assert!(found.missing > ms(29) && found.missing < ms(31) && found.lost > 500, "{found}");
        assert_eq!((found.support, found.longest), (Span::ZERO, None));
    }

    #[test]
    fn a_hiccup_of_the_support_side_explains_the_packets_of_its_time_and_is_named() {
        let found = explained(run(None, Some((ms(200), ms(240)))), Span::ZERO).unwrap();
        assert!(found.lost > 700 && found.support > ms(38), "{found}");
        assert_eq!(found.longest, Some((ms(200), ms(40))));
        let text = found.to_string();
        assert!(text.contains("at 200 ms for 40 ms"), "{text}");
    }

    #[test]
    fn packets_that_went_out_late_explain_it_also_without_a_hiccup_in_the_log() {
        let (ledger, _) = run(None, Some((ms(200), ms(240))));
        let found = explained((ledger, Hiccups::default()), Span::ZERO).unwrap();
        assert!(found.support > ms(38) && found.longest.is_none(), "{found}");
    }

    #[test]
    fn a_hiccup_at_another_time_explains_nothing() {
        let mut elsewhere = run(Some((ms(100), ms(130))), None);
        elsewhere.1.seen(Time::ZERO + ms(1_400), Time::ZERO + ms(1_450));
        assert!(matches!(explained(elsewhere, Span::ZERO), Err(Unexplained::TooShort(_))));
    }

    #[test]
    fn a_handler_that_began_late_explains_the_packets_of_its_time_and_a_lost_wake_up_none() {
        let (ledger, hiccups) = run(Some((ms(100), ms(130))), None);
        let at = |offset: u64| Time::ZERO + ms(1_000 + offset);
        let handled = |raised, handled| {
            let record = InterruptRecord { vector: Vector(0), raised, handled };
            explain(&ledger, &hiccups, &[record], at(0), Span::ZERO, Backlog::Taken)
        };
        let found = handled(at(100), at(130)).unwrap();
        assert!(found.woken_late > ms(28), "{found}");
        for (raised, begun) in [
            // In time, at another time, too short, never, and woken by its own clock.
            (at(100), at(100)),
            (at(200), at(230)),
            (at(100), at(115)),
            (at(100), Time::NEVER),
            (at(75), at(130)),
        ] {
            assert!(matches!(handled(raised, begun), Err(Unexplained::TooShort(_))), "{begun:?}");
        }
    }

    #[test]
    fn a_handler_that_began_late_and_a_hiccup_behind_it_explain_what_neither_does_alone() {
        let (ledger, _) = run(Some((ms(100), ms(130))), None);
        let at = |offset: u64| Time::ZERO + ms(1_000 + offset);
        let both = |handled: Option<u64>, hiccup: Option<(u64, u64)>| {
            let record = handled.map(|offset| InterruptRecord {
                vector: Vector(0),
                raised: at(100),
                handled: at(offset),
            });
            let mut hiccups = Hiccups::default();
            if let Some((from, until)) = hiccup {
                hiccups.seen(at(from), at(until));
            }
            explain(&ledger, &hiccups, record.as_slice(), at(0), Span::ZERO, Backlog::Taken)
        };
        assert!(both(Some(115), Some((115, 130))).is_ok());
        // One alone, and both at the same time.
        for (handled, hiccup) in
            [(Some(115), None), (None, Some((115, 130))), (Some(115), Some((100, 115)))]
        {
            let found = both(handled, hiccup);
            assert!(matches!(found, Err(Unexplained::TooShort(_))), "{found:?}");
        }
    }

    #[test]
    fn one_pause_of_the_target_does_not_explain_two_losses() {
        let (mut ledger, hiccups) = (Ledger::new(1_200).without_application(), Hiccups::default());
        let at = |sequence: u64| Time::ZERO + EVERY * sequence;
        for sequence in 0..1_200 {
            // It stops after 100 and after 700, and goes on after 300 more.
            let lost = matches!(sequence, 356..400 | 956..1_000);
            let outcome = if lost { Outcome::NoDescriptor } else { Outcome::OnRing };
            let (planned, injected) = (at(sequence), at(sequence));
            ledger.injected(&Packet {
                sequence,
                planned,
                injected,
                took: Span::ZERO,
                queue: 0,
                outcome,
            });
            let accepted = match sequence {
                0..100 => sequence,
                100..400 => 100,
                400..700 => sequence - 44,
                700..1_000 => 656,
                _ => sequence - 88,
            };
            ledger.progress(0, accepted, 0, injected);
        }
        ledger.progress(0, 1_112, 0, at(1_200));
        let both = explain(&ledger, &hiccups, &[], Time::ZERO, ms(12), Backlog::Taken);
        assert!(matches!(both, Err(Unexplained::TooShort(_))), "{both:?}");
        assert!(explain(&ledger, &hiccups, &[], Time::ZERO, ms(19), Backlog::Taken).is_ok());
    }

    /// A driver takes nothing of the last 200 packets until all have come, and then `taken` of them.
    fn left(taken: u64) -> Ledger {
        let mut ledger = Ledger::new(1_000).without_application();
        let at = |sequence: u64| Time::ZERO + EVERY * sequence;
        for sequence in 0..1_000 {
            let (planned, injected, took) = (at(sequence), at(sequence), Span::ZERO);
            let outcome = Outcome::OnRing;
            ledger.injected(&Packet { sequence, planned, injected, took, queue: 0, outcome });
            ledger.progress(0, sequence.min(800), 0, injected);
        }
        ledger.progress(0, 800 + taken, 0, at(1_000));
        ledger
    }

    #[test]
    fn what_a_driver_left_behind_is_explained_by_a_pause_in_which_it_and_all_before_it_came() {
        let hiccups = Hiccups::default();
        let explained = |taken, target, backlog| {
            explain(&left(taken), &hiccups, &[], Time::ZERO, target, backlog)
        };
        let takes_all = explained(64, ms(8), Backlog::Taken);
        assert_eq!(takes_all, Err(Unexplained::Otherwise { packets: 136 }));
        // 200 packets came in 7.6 ms.
        let leaves = explained(64, ms(8), Backlog::LeftBeyond(64)).unwrap();
        assert_eq!(leaves.lost, 136, "{leaves}");
        assert!(leaves.missing > ms(7) && leaves.missing < ms(8), "{leaves}");
        let too_short = explained(64, ms(5), Backlog::LeftBeyond(64));
        assert!(matches!(too_short, Err(Unexplained::TooShort(_))), "{too_short:?}");
        // One packet that was left in the middle is another thing.
        let mut dropped = Ledger::new(200).without_application();
        for sequence in 0..200 {
            let planned = Time::ZERO + EVERY * sequence;
            let (injected, took, outcome) = (planned, Span::ZERO, Outcome::OnRing);
            dropped.injected(&Packet { sequence, planned, injected, took, queue: 0, outcome });
            let lost = u64::from(sequence >= 100);
            dropped.progress(0, sequence + 1 - lost, lost, injected);
        }
        let backlog = Backlog::LeftBeyond(64);
        let found = explain(&dropped, &hiccups, &[], Time::ZERO, ms(1_000), backlog);
        assert_eq!(found, Err(Unexplained::Otherwise { packets: 1 }));
    }

    #[test]
    fn what_was_lost_behind_the_ring_is_never_explained() {
        let mut ledger = Ledger::new(3);
        for sequence in 0..3 {
            let (planned, outcome) = (Time::ZERO + EVERY * sequence, Outcome::OnRing);
            ledger.injected(&Packet {
                sequence,
                planned,
                injected: planned,
                took: Span::ZERO,
                queue: 0,
                outcome,
            });
        }
        ledger.progress(0, 3, 0, Time::ZERO + ms(1));
        let found =
            explain(&ledger, &Hiccups::default(), &[], Time::ZERO, ms(1_000), Backlog::Taken);
        assert_eq!(found, Err(Unexplained::Otherwise { packets: 3 }));
    }

    #[test]
    fn what_the_target_missed_is_its_own_log_or_its_wait_and_what_was_stolen_beyond_our_hiccups() {
        let machine = Machine {
            target_waited_us: Some(3_000.0),
            stolen_percent: Some(1.0),
            watched_ms: Some(1_000.0),
            support_cores: vec![0],
            target_cores: vec![1],
            ..Machine::default()
        };
        let none = Hiccups::default();
        assert_eq!(target_pause(&machine, Span::ZERO, &none), ms(23));
        assert_eq!(target_pause(&machine, ms(5), &none), ms(25));
        let mut ours = Hiccups::default();
        ours.pass(Time::ZERO);
        ours.pass(Time::ZERO + ms(18));
        assert_eq!(target_pause(&machine, ms(5), &ours), ms(7));
        assert_eq!(target_pause(&Machine::default(), Span::ZERO, &none), Span::ZERO);
    }
}
