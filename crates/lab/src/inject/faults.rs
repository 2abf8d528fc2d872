//! Faults of a plan: what makes them happen, and what the driver did about them.
//!
//! A verdict needs evidence. After the run, and without faults, [`PROBES`] packets go to the driver;
//! a driver that takes all of them works. What the kernel printed meanwhile, and whether it has marked
//! itself tainted, says whether it came to harm.

use std::time::Duration;

use warikomi_clock::{Span, Time};
use warikomi_inject::{
    Addresses, FaultCount, FaultKind, FaultSchedule, Faulty, Injector, Plan, Receiver, Warmup,
};
use warikomi_measure::{Evidence, Fate, FaultFinding, FaultReport, Ledger, Verdict};
use warikomi_protocol::commands::LinkState;
use warikomi_session::{Session, bring_up_again};
use warikomi_target::{CardId, ConsoleTail, Target, TargetError};

use super::records::Records;
use super::spin::{Patience, drain, rx_counters, spin};
use crate::error::Error;

/// Packets that show whether the driver still takes any: fewer than a ring holds, so that a driver
/// which waits for one descriptor is not helped along by the ring's coming round.
const PROBES: u64 = 64;
const PROBE_BYTES: usize = 500;
const PROBE_INTERVAL: Span = Span::from_us(200);

/// How long a link may take to come back before the probes.
const LINK_PATIENCE: Duration = Duration::from_secs(1);

/// How long what has begun may go on after the last packet.
const FAULTS_PATIENCE: Span = Span::from_ms(30_000);

/// Lines of the console that are kept.
const CONSOLE_LINES: usize = 40;

/// Looks after the faults of one run.
pub(super) struct FaultWatch {
    console: ConsoleTail,
    harm: u64,
    /// How often the card had been plugged in anew before.
    replugs: u64,
}

impl FaultWatch {
    /// Puts the faults of a plan around the NIC; `None` for a plan without any, whose NIC stays as
    /// it is.
    pub(super) fn prepare(
        target: &mut dyn Target,
        plan: &Plan,
    ) -> Result<Option<FaultWatch>, TargetError> {
        let schedule = FaultSchedule::new(&plan.faults, plan.seed);
        let slot = target.slot(CardId::FIRST)?;
        if let Some(faulty) = Faulty::of(&mut **slot) {
            *faulty.schedule() = schedule;
        } else if !plan.faults.is_empty() {
            slot.change(|nic| Box::new(Faulty::new(nic, schedule)));
        }
        if plan.faults.is_empty() {
            return Ok(None);
        }
        if let Some(agent) = target.agent() {
            agent.print_all()?;
        }
        let harm = harm(target)?;
        let replugs = replugs(target);
        Ok(Some(FaultWatch { console: target.console(), harm, replugs }))
    }

    /// Whether the driver has found the card anew since.
    pub(super) fn is_anew(&self, target: &mut dyn Target) -> bool {
        replugs(target) > self.replugs
    }

    /// From now on faults strike; `at` is the first deadline.
    pub(super) fn start(&self, target: &mut dyn Target, at: Time) -> Result<(), TargetError> {
        if let Some(faulty) = Faulty::of(target.card(CardId::FIRST)?.0) {
            faulty.schedule().start(at);
        }
        Ok(())
    }

    /// No more faults strike. Waits until those that have begun are over, and brings up the interface of a card
    /// that was plugged in again.
    pub(super) fn end(&self, target: &mut dyn Target, driver: &str) -> Result<(), TargetError> {
        self.wait_until_over(target)?;
        if self.is_anew(target) { bring_up_again(target, driver) } else { Ok(()) }
    }

    fn wait_until_over(&self, target: &mut dyn Target) -> Result<(), TargetError> {
        let begun = target.clock().now();
        loop {
            let (nic, host) = target.card(CardId::FIRST)?;
            let Some(faulty) = Faulty::of(nic) else { return Ok(()) };
            faulty.schedule().stop();
            if !faulty.is_busy() || host.now.since(begun) > FAULTS_PATIENCE {
                return Ok(());
            }
            for _ in 0..256 {
                target.poll()?;
            }
            target.housekeep()?;
        }
    }

    /// What the driver did. `ended` says how the run ended.
    pub(super) fn judge(
        self,
        session: &mut Session,
        ledger: &Ledger,
        start: Time,
        ended: Result<(), Error>,
    ) -> Result<FaultReport, Error> {
        let mut evidence = Evidence::default();
        let totals = ledger.totals();
        let target = &mut *session.target;
        let counts: Vec<_> = match Faulty::of(target.card(CardId::FIRST)?.0) {
            Some(faulty) => {
                faulty.schedule().stop();
                faulty.schedule().counts().collect()
            }
            None => Vec::new(),
        };
        let dma: u64 = counts
            .iter()
            .filter(|(fault, _)| fault.kind == FaultKind::DmaError)
            .map(|(_, count)| count.injected)
            .sum();
        evidence.hit_packets = totals.not_completed + totals.refused + dma;
        let missing = totals.injected - totals.accepted;
        evidence.lost_packets = missing.saturating_sub(evidence.hit_packets);
        let seen = ended.and_then(|()| self.examine(target, &mut evidence));
        if let Err(error) = seen {
            (evidence.ended, evidence.kernel_died) = guests_failure(error)?;
        }
        evidence.console = since(&self.console, target.console());
        let findings = counts
            .into_iter()
            .map(|(fault, count)| finding(fault.to_string(), count, ledger, start, &evidence))
            .collect();
        Ok(FaultReport { findings, evidence })
    }

    /// Whether the driver still takes frames, and what it and its kernel say.
    fn examine(&self, target: &mut dyn Target, evidence: &mut Evidence) -> Result<(), Error> {
        for _ in 0..LINK_PATIENCE.as_millis() / 10 {
            if target.card(CardId::FIRST)?.0.receiving() {
                break;
            }
            target.serve_for(Duration::from_millis(10))?;
        }
        let plan = Plan {
            size_bytes: PROBE_BYTES,
            interval: PROBE_INTERVAL,
            count: PROBES,
            receiver: Receiver::Driver,
            warmup: Warmup::NONE,
            ..Plan::default()
        };
        let addresses = Addresses::to_guest(target.card(CardId::FIRST)?.0.mac_address());
        let mut records = Records::new(&plan, &rx_counters(target)?);
        let start = target.clock().now() + PROBE_INTERVAL;
        let mut injector = Injector::new(&plan, &addresses, u32::MAX, start)?;
        evidence.probe_packets = PROBES;
        let spun = spin(target, &mut injector, &mut records, Patience::Endless, &mut |_| ());
        let drained = spun.and_then(|()| drain(target, &mut records));
        evidence.probe_accepted = records.ledger.totals().accepted;
        drained?;
        evidence.tainted = harm(target)? & !self.harm != 0;
        if target.agent().is_some() {
            let link = target.ask(LinkState { interface: None }, Duration::ZERO)?;
            evidence.carrier = Some(link.carrier);
        }
        // What it printed last may be on its way.
        target.serve_for(Duration::from_millis(10))?;
        Ok(())
    }
}

/// How often the card has been plugged in anew.
fn replugs(target: &mut dyn Target) -> u64 {
    let card = target.card(CardId::FIRST).ok();
    card.and_then(|(nic, _)| Faulty::of(nic)).map_or(0, |faulty| faulty.replugs())
}

/// Marks of harm that the driver's system has noticed; 0 for a system that notices none.
fn harm(target: &mut dyn Target) -> Result<u64, TargetError> {
    target.agent().map_or(Ok(0), |agent| agent.fault_marks())
}

/// What a failure of the guest is as evidence: a sentence, and whether its kernel is dead. Failures
/// of ours, and the user's wish to stop, are none.
fn guests_failure(error: Error) -> Result<(Option<String>, bool), Error> {
    let Error::Target(failure) = &error else { return Err(error) };
    let died = match failure {
        TargetError::Panicked { .. }
        | TargetError::Exited { .. }
        | TargetError::ConnectionLost { .. }
        | TargetError::Protocol { .. }
        | TargetError::PartEnded { .. }
        | TargetError::PartHungUp { .. }
        | TargetError::DriverFailed { .. } => true,
        TargetError::Silent { .. }
        | TargetError::Hung { .. }
        | TargetError::Refused { .. }
        | TargetError::ClientGone
        | TargetError::ClientError { .. } => false,
        _ => return Err(error),
    };
    let sentence = failure.to_string().lines().next().unwrap_or_default().to_owned();
    Ok((Some(sentence), died))
}

/// The lines of `now` that were not there `before`: from the first alarming one on, or else the last.
fn since(before: &ConsoleTail, now: ConsoleTail) -> Vec<String> {
    let last = before.0.last();
    let known = now.0.iter().rposition(|line| Some(line) == last).map_or(0, |at| at + 1);
    let new = &now.0[known..];
    let alarm = new.iter().position(|line| Evidence::is_alarming(line));
    let from = alarm.unwrap_or(new.len().saturating_sub(CONSOLE_LINES));
    new[from..].iter().take(CONSOLE_LINES).cloned().collect()
}

fn finding(
    fault: String,
    count: FaultCount,
    ledger: &Ledger,
    start: Time,
    evidence: &Evidence,
) -> FaultFinding {
    let ns = |at: Option<Time>| at.map(|at| at.since(start).as_ns());
    let after = count.last.filter(|_| ledger.is_detailed()).map(|last| {
        let accepted = |fate| matches!(fate, Fate::Delivered | Fate::Unclaimed | Fate::LostInStack);
        let mut counts = (0, 0);
        for row in ledger.rows().filter(|row| row.injected.is_some_and(|at| at > last)) {
            counts.0 += 1;
            counts.1 += u64::from(accepted(row.fate));
        }
        counts
    });
    FaultFinding {
        fault,
        injected: count.injected,
        first_ns: ns(count.first),
        last_ns: ns(count.last),
        packets_after: after.map(|(packets, _)| packets),
        accepted_after: after.map(|(_, accepted)| accepted),
        verdict: if count.injected > 0 { evidence.verdict() } else { Verdict::NotInjected },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_lines_of_the_console_are_evidence() {
        let tail = |lines: &[&str]| ConsoleTail(lines.iter().map(|line| (*line).into()).collect());
        assert_eq!(since(&tail(&["a", "b"]), tail(&["a", "b", "c"])), ["c"]);
        assert_eq!(since(&tail(&[]), tail(&["c"])), ["c"]);
        assert_eq!(since(&tail(&["a"]), tail(&["x", "y"])), ["x", "y"], "it has run over");
        assert!(since(&tail(&["a"]), tail(&["a"])).is_empty());
        let mut lines = vec!["a", "b", "Kernel panic - not syncing"];
        lines.extend(["trace"; 2 * CONSOLE_LINES]);
        let kept = since(&tail(&["a"]), tail(&lines));
        assert_eq!((kept.len(), kept[0].as_str()), (CONSOLE_LINES, lines[2]));
    }
}
