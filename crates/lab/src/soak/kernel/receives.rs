//! Histories in which packets come: runs of `inject --virtual`.

use warikomi_clock::{Dice, Span};
use warikomi_inject::{Fault, FaultKind, Planned, Probability, When};
use warikomi_nic::RxError;
use warikomi_session::Session;

use super::checkers::violations;
use super::drawn::{KernelHistory, harm};
use super::line::{Kind, Line};
use super::observed::Observed;
use super::planted::{Bug, Planted};
use crate::error::Error;
use crate::inject::{Inject, Injected, Order, Ordered, inject_from, inject_plan};
use crate::soak::history::Judged;
use crate::watch::Watch;

/// What the seed says.
pub(super) fn draw(seed: u64, dice: &mut Dice) -> Line {
    let (count, interval_ns) = (dice.magnitude(8, 512), dice.magnitude(1_000, 256_000));
    let packets_per_interrupt = if dice.one_in(4) { dice.magnitude(2, 64) } else { 1 };
    let mut line = Line::new(Kind::Receives);
    let interval = Span::from_ns(interval_ns) * packets_per_interrupt;
    line.add("seed", seed);
    line.add("count", count);
    line.add("interval", format!("{}ns", interval.as_ps() / 1_000));
    traffic(&mut line, dice, packets_per_interrupt);
    way(&mut line, dice);
    if dice.one_in(2) {
        line.costs(dice);
    }
    let duration = interval * count.div_ceil(packets_per_interrupt);
    if dice.one_in(2) {
        for _ in 0..dice.number(1, 3) {
            line.add("fault", fault(dice, duration));
        }
    }
    line
}

/// What arrives.
fn traffic(line: &mut Line, dice: &mut Dice, packets_per_interrupt: u64) {
    let most = if dice.one_in(6) { 9_000 } else { 1_514 };
    line.add("size", dice.number(60, most));
    if packets_per_interrupt > 1 {
        line.add("packets-per-interrupt", packets_per_interrupt);
    }
    if dice.one_in(2) {
        line.add("arrival", "poisson");
    }
    if dice.one_in(3) {
        line.add("flows", dice.magnitude(2, 256));
    }
    if dice.one_in(4) {
        line.add("line-rate", dice.of(&["100M", "1G", "10G"]));
    }
    if dice.one_in(4) {
        line.add("warmup", dice.number(0, 64));
    }
}

/// What it goes through.
fn way(line: &mut Line, dice: &mut Dice) {
    match dice.number(0, 3) {
        0 => line.add("wire", "loopback"),
        1 => line.add("wire", "responder"),
        _ => {}
    }
    if dice.one_in(4) {
        line.add("receiver", "driver");
    } else if dice.one_in(4) {
        line.add("socket-buffer", dice.magnitude(4_096, 262_144));
    }
    if dice.one_in(4) {
        line.add("gro", dice.of(&["on", "off"]));
    }
    if dice.one_in(4) {
        line.add("napi-defer-hard-irqs", dice.magnitude(1, 16));
        line.add("gro-flush-timeout", format!("{}us", dice.magnitude(1, 128)));
    }
}

/// A fault within the time of the packets. Those behind which a driver may hang end what is to be seen, so they are
/// seldom.
fn fault(dice: &mut Dice, duration: Span) -> Fault {
    let span = |dice: &mut Dice, most_ns| Span::from_ns(dice.magnitude(100, most_ns));
    let at = When::At(Span::from_ns(dice.number(0, duration.as_ps() / 1_000)));
    let often = |dice: &mut Dice, most| {
        Probability::from_billionths(dice.magnitude(1_000_000, most) as u32)
            .map_or(at, When::Probability)
    };
    let when = if dice.one_in(2) { at } else { often(dice, 200_000_000) };
    let (kind, when) = match dice.number(0, 17) {
        0 | 1 => (FaultKind::InterruptDelayed { by: span(dice, 500_000) }, when),
        2 | 3 => (FaultKind::InterruptDuplicated, when),
        4 => (FaultKind::InterruptSpurious { vector: 0 }, when),
        5 => {
            let count = dice.magnitude(2, 128) as u32;
            let every = Span::from_ns(dice.magnitude(1_000, 10_000));
            (FaultKind::InterruptStorm { vector: 0, count, every }, at)
        }
        6 | 7 => (FaultKind::DescriptorCompletedLate { by: span(dice, 500_000) }, when),
        8..=10 => {
            let error = dice.of(&[RxError::Crc, RxError::Runt, RxError::TooLong]);
            (FaultKind::DescriptorError(error), when)
        }
        11 => (FaultKind::DescriptorLength { bytes: dice.number(64, 1_518) as u16 }, when),
        12 | 13 => (FaultKind::LinkFlap { down_for: span(dice, 5_000_000) }, at),
        14 | 15 => (FaultKind::DeviceUnplugged { out_for: span(dice, 20_000_000) }, at),
        16 => (FaultKind::InterruptDropped, at),
        _ => {
            let last =
                [FaultKind::DmaError, FaultKind::DeviceGone, FaultKind::DescriptorNeverCompleted];
            (dice.of(&last), at)
        }
    };
    Fault { kind, when }
}

/// Runs it, and has it judged.
pub(super) fn run(history: &KernelHistory, watch: &mut Watch) -> Result<Judged, Error> {
    let inject: Inject = history.experiment()?;
    let (observed, digest) =
        inject.carry_out(watch, |session, ordered, _| observe(history, session, &ordered))?;
    Ok(Judged {
        packets: observed.totals.injected,
        delivered: observed.totals.delivered + observed.totals.unclaimed,
        digest,
        violations: violations(&observed),
    })
}

/// What is seen of it, and its digest.
fn observe(
    history: &KernelHistory,
    session: &mut Session,
    ordered: &Ordered<'_>,
) -> Result<(Observed, String), Error> {
    let before = harm(session)?;
    let Ordered { plan, application, run_id, .. } = *ordered;
    let order = Order { plan, application, run_id, tape: None };
    let injected = match history.bug {
        Some(Bug::Receiving(bug)) => inject_from(
            session,
            &order,
            |addresses, start| {
                let packets = Planned::new(plan, addresses, run_id, start)?;
                let others = Planned::new(plan, addresses, run_id ^ 1, start)?;
                Ok(Planted { packets, others, bug })
            },
            &mut |_| (),
        ),
        _ => inject_plan(session, &order, &mut |_| ()),
    }?;
    let Injected { result, ledger, received, .. } = injected;
    let mut plan = plan.clone();
    if history.bug.is_some() {
        plan.faults.clear();
    }
    let mut observed = Observed {
        plan,
        has_costs: history.line.has_costs(),
        totals: ledger.totals(),
        rows: ledger.rows().collect(),
        faults: result.faults,
        received,
        console: session.target.console().0,
        harm: 0,
    };
    if !observed.was_cut_short() {
        observed.harm = harm(session)? & !before;
    }
    let digest = result.figures.get("digest").and_then(|digest| digest.as_str());
    Ok((observed, digest.unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::arguments::experiment;
    use super::*;
    use crate::inject::Inject;
    use warikomi_clock::Seed;

    fn drawn(seed: u64) -> Line {
        draw(seed, &mut Seed(seed).dice())
    }

    /// The plan that `inject` makes of a line.
    fn check(line: &Line) {
        let inject: Inject = experiment(&line.words()).unwrap();
        let plan = inject.asked().unwrap_or_else(|error| panic!("{:?}: {error}", line.words()));
        plan.validate_vectors(1).unwrap();
    }

    #[test]
    fn every_line_is_one_that_inject_takes_and_the_same_again() {
        let mut features = BTreeSet::new();
        for seed in 1..1_500 {
            let line = drawn(seed);
            check(&line);
            assert_eq!(line, drawn(seed));
            features.extend(line.features());
        }
        for feature in ["fault device-unplugged", "frame cost", "wire loopback", "arrival poisson"]
        {
            assert!(features.contains(feature), "{feature}: {features:?}");
        }
    }

    #[test]
    fn shorter_lines_are_taken_too_and_come_to_an_end() {
        for seed in 1..8 {
            let (mut line, mut steps) = (drawn(seed), 0);
            while let Some(next) = line.shorter().pop() {
                line.shorter().iter().for_each(check);
                assert_ne!(next, line);
                (line, steps) = (next, steps + 1);
                assert!(steps < 1_000);
            }
            let end = Line::of(Kind::Receives, &[("seed", &seed.to_string()), ("count", "1")]);
            assert_eq!(line, end);
        }
    }
}
