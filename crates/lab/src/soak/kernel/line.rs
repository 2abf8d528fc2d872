//! A history of the kernel target: the flags of `warikomi inject --virtual`, so that a command repeats it, and a shorter
//! one, too.

use std::collections::BTreeSet;

use warikomi_clock::{Dice, Span};
use warikomi_inject::{Fault, FaultKind, Probability, When};
use warikomi_nic::RxError;

/// Flags of `inject`, each once but for faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::soak) struct Line {
    flags: Vec<(&'static str, String)>,
}

/// What a line has in any case: a plan without it is another one.
const KEPT: [&str; 2] = ["seed", "count"];

impl Line {
    /// Of these flags.
    pub(super) fn of(flags: &[(&'static str, &str)]) -> Line {
        Line { flags: flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect() }
    }

    /// What the seed says.
    pub(super) fn draw(seed: u64, dice: &mut Dice) -> Line {
        let (count, interval_ns) = (dice.magnitude(8, 512), dice.magnitude(1_000, 256_000));
        let packets_per_interrupt = if dice.one_in(4) { dice.magnitude(2, 64) } else { 1 };
        let mut line = Line { flags: Vec::new() };
        let interval = Span::from_ns(interval_ns) * packets_per_interrupt;
        line.add("seed", seed);
        line.add("count", count);
        line.add("interval", format!("{}ns", interval.as_ps() / 1_000));
        line.traffic(dice, packets_per_interrupt);
        line.way(dice);
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

    fn add(&mut self, name: &'static str, value: impl ToString) {
        self.flags.push((name, value.to_string()));
    }

    /// What arrives.
    fn traffic(&mut self, dice: &mut Dice, packets_per_interrupt: u64) {
        let most = if dice.one_in(6) { 9_000 } else { 1_514 };
        self.add("size", dice.number(60, most));
        if packets_per_interrupt > 1 {
            self.add("packets-per-interrupt", packets_per_interrupt);
        }
        if dice.one_in(2) {
            self.add("arrival", "poisson");
        }
        if dice.one_in(3) {
            self.add("flows", dice.magnitude(2, 256));
        }
        if dice.one_in(4) {
            self.add("line-rate", dice.of(&["100M", "1G", "10G"]));
        }
        if dice.one_in(4) {
            self.add("warmup", dice.number(0, 64));
        }
    }

    /// What it goes through.
    fn way(&mut self, dice: &mut Dice) {
        match dice.number(0, 3) {
            0 => self.add("wire", "loopback"),
            1 => self.add("wire", "responder"),
            _ => {}
        }
        if dice.one_in(4) {
            self.add("receiver", "driver");
        } else if dice.one_in(4) {
            self.add("socket-buffer", dice.magnitude(4_096, 262_144));
        }
        if dice.one_in(4) {
            self.add("gro", dice.of(&["on", "off"]));
        }
        if dice.one_in(4) {
            self.add("napi-defer-hard-irqs", dice.magnitude(1, 16));
            self.add("gro-flush-timeout", format!("{}us", dice.magnitude(1, 128)));
        }
    }

    /// What work takes.
    fn costs(&mut self, dice: &mut Dice) {
        for (name, most) in
            [("access-cost", 1_024), ("interrupt-cost", 8_192), ("frame-cost", 16_384)]
        {
            if dice.one_in(2) {
                self.add(name, format!("{}ns", dice.magnitude(32, most)));
            }
        }
    }

    /// The words of the command line, behind its name.
    pub(super) fn words(&self) -> Vec<String> {
        let words =
            self.flags.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
        ["--virtual".to_owned()].into_iter().chain(words).collect()
    }

    /// Whether work takes time.
    pub(super) fn has_costs(&self) -> bool {
        self.flags.iter().any(|(name, _)| name.ends_with("-cost"))
    }

    /// What others do not have.
    pub(super) fn features(&self) -> BTreeSet<String> {
        let words = |(name, value): &(&'static str, String)| match *name {
            "seed" | "count" | "interval" | "size" => None,
            "fault" => Some(format!("fault {}", value.split(':').next().unwrap_or_default())),
            "wire" | "arrival" | "receiver" | "gro" => Some(format!("{name} {value}")),
            name => Some(name.replace('-', " ")),
        };
        self.flags.iter().filter_map(words).collect()
    }

    /// Lines with fewer packets, or with one flag less.
    pub(super) fn shorter(&self) -> Vec<Line> {
        let count = self.flags.iter().position(|(name, _)| *name == "count");
        let fewer = count.into_iter().flat_map(|at| {
            let count: u64 = self.flags[at].1.parse().unwrap_or(1);
            let mut fewer = vec![1, count / 8, count / 2, count - count / 4, count - 1];
            fewer.retain(|fewer| (1..count).contains(fewer));
            fewer.dedup();
            fewer.into_iter().map(move |fewer| {
                let mut line = self.clone();
                line.flags[at].1 = fewer.to_string();
                line
            })
        });
        let left = (0..self.flags.len()).filter(|at| !KEPT.contains(&self.flags[*at].0));
        let without = left.map(|at| {
            let mut line = self.clone();
            line.flags.remove(at);
            line
        });
        // A flag less is often worth more than packets are: it is the first that is read.
        without.chain(fewer).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::inject::Inject;
    use clap::{Args, Command, FromArgMatches};
    use warikomi_clock::Seed;

    fn draw(seed: u64) -> Line {
        Line::draw(seed, &mut Seed(seed).dice())
    }

    /// The plan that `inject` makes of a line.
    fn check(line: &Line) {
        let command = Inject::augment_args(Command::new(Inject::NAME).no_binary_name(true));
        let matches = command.try_get_matches_from(line.words());
        let matches = matches.unwrap_or_else(|error| panic!("{:?}: {error}", line.words()));
        let inject = Inject::from_arg_matches(&matches).unwrap();
        let plan = inject.asked().unwrap_or_else(|error| panic!("{:?}: {error}", line.words()));
        plan.validate_vectors(1).unwrap();
    }

    #[test]
    fn every_line_is_one_that_inject_takes_and_the_same_again() {
        let mut features = BTreeSet::new();
        for seed in 1..1_500 {
            let line = draw(seed);
            check(&line);
            assert_eq!(line, draw(seed));
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
            let (mut line, mut steps) = (draw(seed), 0);
            while let Some(next) = line.shorter().pop() {
                line.shorter().iter().for_each(check);
                assert_ne!(next, line);
                (line, steps) = (next, steps + 1);
                assert!(steps < 1_000);
            }
            let end = Line::of(&[("seed", &seed.to_string()), ("count", "1")]);
            assert_eq!(line, end);
        }
    }
}
