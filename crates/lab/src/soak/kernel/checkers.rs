//! What must hold of a history of the kernel target. Each checker knows what was asked for and what was seen, and
//! nothing of the system in between.

use std::collections::BTreeMap;

use warikomi_clock::Span;
use warikomi_inject::Receiver;
use warikomi_measure::{Fate, Verdict};

use super::observed::Observed;
use crate::error::Error;
use crate::soak::history::Violation;
use crate::strike::{Trial, report_in};

/// A checker: its name, and what is wrong, if anything is.
type Checker = (&'static str, fn(&Observed) -> Result<(), String>);

/// All of them.
const CHECKERS: [Checker; 6] = [
    ("ledger", ledger),
    ("losses", losses),
    ("order", order),
    ("times", times),
    ("kernel", kernel),
    ("progress", progress),
];

/// Faults behind which a driver may hang: nothing tells it that something is amiss.
const SILENT: [&str; 4] =
    ["interrupt-dropped", "descriptor-never-completed", "dma-error", "device-gone"];

/// Faults during which the card takes nothing.
const AWAY: [&str; 4] = ["link-flap", "device-unplugged", "device-gone", "dma-error"];

/// Faults for which a driver comes to its ring late.
const LATE: [&str; 2] = ["interrupt-delayed", "descriptor-completed-late"];

const DAMAGED: [&str; 3] = ["descriptor-crc", "descriptor-runt", "descriptor-rwt"];

/// The ledger keeps times behind the injection in whole nanoseconds.
const RESOLUTION: Span = Span::from_ns(1);

/// What every checker finds.
pub(super) fn violations(observed: &Observed) -> Vec<Violation> {
    let found = CHECKERS.iter().map(|(name, check)| (*name, check(observed)));
    found.filter_map(|(name, found)| Some(Violation::by(name, found.err()?))).collect()
}

fn holds(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Every packet is in one place, once, and both ends say the same.
fn ledger(observed: &Observed) -> Result<(), String> {
    let Observed { plan, totals, rows, received, .. } = observed;
    let wrong = totals.contradictions.by_kind().into_iter().filter(|(_, count)| *count > 0);
    let wrong: Vec<_> = wrong.map(|(kind, count)| format!("{count} {kind}")).collect();
    holds(totals.unaccounted == 0, || format!("unaccounted: {}", wrong.join(", ")))?;
    let planned = (totals.planned, rows.len() as u64);
    holds(planned == (plan.count, plan.count), || {
        format!("{} packets were asked for, and {planned:?} are known", plan.count)
    })?;
    let mut counts: BTreeMap<Fate, u64> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row.fate).or_default() += 1);
    let of = |fate| counts.get(&fate).copied().unwrap_or(0);
    for (name, counted, said) in [
        ("not injected", of(Fate::NotInjected), totals.not_injected),
        ("no descriptor", of(Fate::NoDescriptor), totals.no_descriptor),
        ("filtered", of(Fate::Filtered) + of(Fate::NotReceiving), totals.filtered),
        ("delivered", of(Fate::Delivered), totals.delivered),
        ("unclaimed", of(Fate::Unclaimed), totals.unclaimed),
        ("lost on the ring", of(Fate::LostOnRing), totals.lost_on_ring),
        ("lost in the stack", of(Fate::LostInStack), totals.lost_in_stack),
    ] {
        holds(counted == said, || format!("{name}: {counted} packets, and the ledger has {said}"))?;
    }
    let asked = plan.receiver == Receiver::Application && !observed.was_cut_short();
    let (delivered, own) = (totals.delivered, received.delivered);
    holds(!asked || delivered == own, || {
        format!("{delivered} packets were delivered, and the application counts {own}")
    })
}

/// A packet is lost only for something that was asked for, and not more often.
fn losses(observed: &Observed) -> Result<(), String> {
    let Observed { totals, received, has_costs, .. } = observed;
    let (silent, away) = (observed.struck(&SILENT) > 0, observed.struck(&AWAY) > 0);
    let late = *has_costs || observed.struck(&LATE) > 0;
    let all = u64::MAX;
    let if_any = |any: bool| if any { all } else { 0 };
    let behind_driver = received.socket_drops + observed.struck(&["descriptor-length"]);
    for (what, lost, explained) in [
        ("not injected", totals.not_injected, if_any(observed.was_cut_short() && silent)),
        ("no descriptor", totals.no_descriptor, if_any(late || silent || away)),
        ("filtered", totals.filtered, if_any(away)),
        ("DMA errors", totals.dma_error, if_any(observed.struck(&["dma-error"]) > 0)),
        ("not completed", totals.not_completed, observed.struck(&["descriptor-never-completed"])),
        ("refused", totals.refused, observed.struck(&DAMAGED)),
        ("lost on the ring", totals.lost_on_ring, if_any(silent || away)),
        ("lost in the stack", totals.lost_in_stack, if away { all } else { behind_driver }),
    ] {
        holds(lost <= explained, || {
            format!("{what}: {lost} packets, and what was asked for explains {explained}")
        })?;
    }
    Ok(())
}

/// Packets reach the application in the order in which they were sent, each once.
fn order(observed: &Observed) -> Result<(), String> {
    let mut last = None;
    for row in &observed.rows {
        let Some(at) = row.delivered else { continue };
        if let Some((before, sequence)) = last.replace((at, row.sequence))
            && before > at + RESOLUTION
        {
            return Err(format!("packet {} was delivered before packet {sequence}", row.sequence));
        }
    }
    let received = &observed.received;
    let wrong = (received.out_of_order, received.duplicates);
    holds(wrong == (0, 0), || {
        format!("the application had {} out of order and {} twice", wrong.0, wrong.1)
    })
}

/// Packets go out at their times, and nothing comes before what it comes of.
fn times(observed: &Observed) -> Result<(), String> {
    for row in observed.rows.iter().filter(|row| row.fate != Fate::NotInjected) {
        let (sequence, planned, injected) = (row.sequence, row.planned, row.injected);
        holds(planned.is_some() && planned == injected, || {
            format!("packet {sequence} was due at {planned:?}, and went out at {injected:?}")
        })?;
        for (what, at) in [("accepted", row.accepted), ("delivered", row.delivered)] {
            holds(at.is_none_or(|at| Some(at) >= injected), || {
                format!("packet {sequence} was {what} at {at:?}, and went out at {injected:?}")
            })?;
        }
    }
    Ok(())
}

/// The kernel has reported nothing.
fn kernel(observed: &Observed) -> Result<(), String> {
    let evidence = observed.faults.as_ref().map(|report| &report.evidence);
    let alarm = evidence.and_then(|evidence| evidence.alarm());
    says_nothing(&observed.console, alarm, observed.harm)
}

/// Nothing in what a kernel has printed, in its alarm, and in its marks of harm is a report.
fn says_nothing(console: &[String], alarm: Option<&str>, harm: u64) -> Result<(), String> {
    if let Some((verdict, line)) = report_in(console) {
        return Err(format!("{verdict}: {line}"));
    }
    if let Some(line) = alarm {
        return Err(line.to_owned());
    }
    holds(harm == 0, || {
        format!("it has marked itself tainted ({harm:#x}), and its console does not say why")
    })
}

/// What is wrong with a history in which the guest sent: what the wire says, which holds each frame against what was
/// to be sent, and what the kernel says.
pub(super) fn of_sending(
    sent: &Result<(u64, String), Error>,
    console: &[String],
    harm: u64,
) -> Vec<Violation> {
    let sent = sent.as_ref().err().map(|error| Violation::by("sent", error.to_string()));
    let kernel = says_nothing(console, None, harm).err();
    sent.into_iter().chain(kernel.map(|what| Violation::by("kernel", what))).collect()
}

/// What is wrong with a strike. A place that was not reached is not wrong; that packets were not answered is, though
/// nothing has struck: a driver that hangs in the operation itself reaches no place behind that.
pub(super) fn of_strike(trial: &Trial) -> Vec<Violation> {
    let said = || match trial.evidence.is_empty() {
        true => trial.verdict.to_string(),
        false => format!("{}: {}", trial.verdict, trial.evidence),
    };
    let is_bad = trial.verdict.is_bad() || trial.unstruck.is_some();
    is_bad.then(|| Violation::by("strike", said())).into_iter().collect()
}

/// When faults are over the driver works again, unless one has struck that it cannot know of.
fn progress(observed: &Observed) -> Result<(), String> {
    let Some(report) = &observed.faults else { return Ok(()) };
    let (evidence, silent) = (&report.evidence, observed.struck(&SILENT) > 0);
    holds(silent || evidence.verdict() != Verdict::Hung, || match &evidence.ended {
        Some(why) => format!("the run ended before its time: {why}"),
        None => format!(
            "of {} packets that came after all faults the driver took {}",
            evidence.probe_packets, evidence.probe_accepted
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_clock::Time;
    use warikomi_inject::Plan;
    use warikomi_measure::{Evidence, FaultFinding, FaultReport, Row, Totals};
    use warikomi_protocol::answers::ReceiveTotals;

    const COUNT: u64 = 10;

    fn at(us: u64) -> Option<Time> {
        Some(Time::ZERO + Span::from_us(us))
    }

    /// A run in which nothing went wrong.
    fn fine() -> Observed {
        let row = |sequence: u64| Row {
            sequence,
            fate: Fate::Delivered,
            queue: None,
            planned: at(sequence),
            injected: at(sequence),
            took: None,
            accepted: at(sequence),
            delivered: at(sequence + 1),
        };
        let totals = Totals {
            planned: COUNT,
            injected: COUNT,
            accepted: COUNT,
            delivered: COUNT,
            ..Totals::default()
        };
        Observed {
            plan: Plan { count: COUNT, ..Plan::default() },
            has_costs: false,
            totals,
            rows: (0..COUNT).map(row).collect(),
            faults: None,
            received: ReceiveTotals { delivered: COUNT, ..ReceiveTotals::default() },
            console: vec!["r8169 0000:00:00.0 eth0: Link is Up - 1Gbps/Full".into()],
            harm: 0,
        }
    }

    fn found(change: impl FnOnce(&mut Observed)) -> Vec<&'static str> {
        let mut observed = fine();
        change(&mut observed);
        violations(&observed).iter().map(|violation| violation.checker).collect()
    }

    /// The last packet ends so.
    fn lose(observed: &mut Observed, fate: Fate) {
        let last = observed.rows.last_mut().unwrap();
        (last.fate, last.delivered) = (fate, None);
        observed.totals.delivered -= 1;
        observed.received.delivered -= 1;
        match fate {
            Fate::NoDescriptor => observed.totals.no_descriptor += 1,
            Fate::LostInStack => observed.totals.lost_in_stack += 1,
            Fate::LostOnRing => observed.totals.lost_on_ring += 1,
            other => unreachable!("{other:?}"),
        }
    }

    fn fault(observed: &mut Observed, text: &str, evidence: Evidence) {
        observed.plan.faults.push(text.parse().unwrap());
        let fault = observed.plan.faults[0].to_string();
        let verdict = evidence.verdict();
        let (first_ns, last_ns, packets_after, accepted_after) = (None, None, None, None);
        let finding = FaultFinding {
            fault,
            injected: 1,
            first_ns,
            last_ns,
            packets_after,
            accepted_after,
            verdict,
        };
        observed.faults = Some(FaultReport { findings: vec![finding], evidence });
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        assert!(found(|_| ()).is_empty());
    }

    #[test]
    fn a_loss_needs_something_that_was_asked_for() {
        assert_eq!(found(|observed| lose(observed, Fate::NoDescriptor)), ["losses"]);
        assert_eq!(found(|observed| lose(observed, Fate::LostOnRing)), ["losses"]);
        assert_eq!(found(|observed| lose(observed, Fate::LostInStack)), ["losses"]);
        let with_costs = |observed: &mut Observed| {
            lose(observed, Fate::NoDescriptor);
            observed.has_costs = true;
        };
        assert!(found(with_costs).is_empty());
        let drops = |observed: &mut Observed| {
            lose(observed, Fate::LostInStack);
            observed.received.socket_drops = 1;
        };
        assert!(found(drops).is_empty());
        let flap = |observed: &mut Observed| {
            lose(observed, Fate::LostOnRing);
            fault(observed, "link-flap:at=1us", Evidence::default());
        };
        assert!(found(flap).is_empty());
        let unknown = |observed: &mut Observed| {
            flap(observed);
            observed.plan.faults.clear();
        };
        assert_eq!(found(unknown), ["losses"], "a fault that was not asked for explains nothing");
    }

    #[test]
    fn both_ends_are_held_against_the_ledger() {
        assert_eq!(found(|observed| observed.received.delivered -= 1), ["ledger"]);
        assert_eq!(found(|observed| observed.totals.unaccounted = 1), ["ledger"]);
        assert_eq!(found(|observed| observed.rows[3].fate = Fate::Unclaimed), ["ledger"]);
        assert_eq!(found(|observed| observed.plan.count += 1), ["ledger"]);
    }

    #[test]
    fn order_and_times_are_looked_at() {
        assert_eq!(found(|observed| observed.rows[3].delivered = at(9)), ["order"]);
        assert_eq!(found(|observed| observed.received.duplicates = 1), ["order"]);
        assert_eq!(found(|observed| observed.rows[3].injected = at(4)), ["times"]);
        assert_eq!(found(|observed| observed.rows[9].accepted = at(1)), ["times"]);
    }

    #[test]
    fn what_the_kernel_says_counts_and_a_driver_must_work_again() {
        let warned = |observed: &mut Observed| observed.console.push("WARNING: CPU: 0".into());
        assert_eq!(found(warned), ["kernel"]);
        assert_eq!(found(|observed| observed.harm = 512), ["kernel"]);
        let hung = || Evidence { probe_packets: 64, probe_accepted: 63, ..Evidence::default() };
        let by = |text: &'static str| found(|observed| fault(observed, text, hung()));
        assert_eq!(by("link-flap:at=1us"), ["progress"]);
        assert!(by("interrupt-dropped:at=1us").is_empty());
    }
}
