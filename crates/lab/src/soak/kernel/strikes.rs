//! Histories in which something strikes at a place in the driver's code: runs of `at --virtual`.
//!
//! A place is drawn of those that the operation reaches, which are looked for when the first history wants them: in
//! virtual time they are the same each time, so a seed is the same history of the same kernel.

use std::collections::BTreeMap;

use warikomi_clock::Dice;
use warikomi_sim::history::digest_of;

use super::arguments::{KernelArguments, experiment};
use super::checkers::of_strike;
use super::drawn::KernelHistory;
use super::line::{ANY_ACCESS, Kind, Line, PLACE};
use crate::at::At;
use crate::error::Error;
use crate::explore::reached_by;
use crate::soak::history::Judged;
use crate::strike::{OPERATIONS, Operation, Scene, Striking};
use crate::watch::Watch;

/// What strikes besides packets and interrupts. Faults of which a driver cannot know are not among them: it may hang
/// behind these.
const OTHERS: [&str; 11] = [
    "link-down",
    "link-up",
    "configure:ip link set eth0 down",
    "configure:ip link set eth0 mtu 1400",
    "configure:ethtool -r eth0",
    "fault:interrupt-delayed:by=300us",
    "fault:interrupt-duplicated",
    "fault:descriptor-crc",
    "fault:descriptor-runt",
    "fault:descriptor-rwt",
    "fault:link-flap:for=2ms",
];

/// The places that operations reach.
#[derive(Debug, Default)]
pub(in crate::soak) struct Places(BTreeMap<String, Vec<String>>);

impl Places {
    /// Those of an operation.
    fn of(
        &mut self,
        operation: Operation,
        kernel: &KernelArguments,
        watch: &mut Watch,
    ) -> Result<&[String], Error> {
        let name = operation.to_string();
        if !self.0.contains_key(&name) {
            watch.waiting("looking which places are reached");
            let line = Line::of(Kind::Strikes, &[(PLACE, ANY_ACCESS)]);
            let at: At = experiment(&[line.words(), kernel.words_of(Kind::Strikes)?].concat())?;
            let mut scene = Scene::start(watch, &at.prepared()?)?;
            let reached = reached_by(&mut scene, operation)?;
            self.0.insert(name.clone(), reached);
        }
        Ok(self.0.get(&name).map_or(&[], Vec::as_slice))
    }
}

/// What the seed says.
pub(super) fn draw(
    dice: &mut Dice,
    kernel: &KernelArguments,
    places: &mut Places,
    watch: &mut Watch,
) -> Result<Line, Error> {
    let operation = match dice.one_in(2) {
        true => Operation::Ping,
        false => dice.of(&OPERATIONS).0,
    };
    let deliver = striking(dice, operation);
    let reached = places.of(operation, kernel, watch)?;
    Ok(line(dice, operation, &deliver, reached))
}

/// What strikes in an operation.
fn striking(dice: &mut Dice, operation: Operation) -> Striking {
    let drawn = match dice.number(0, 7) {
        0..=4 => Striking::Packet,
        5 => Striking::Interrupt,
        _ => dice.of(&OTHERS).parse().unwrap_or_default(),
    };
    if drawn.check(operation).is_ok() { drawn } else { Striking::Packet }
}

fn line(dice: &mut Dice, operation: Operation, deliver: &Striking, reached: &[String]) -> Line {
    let mut line = Line::new(Kind::Strikes);
    let place = |dice: &mut Dice| match reached.len() {
        0 => ANY_ACCESS,
        many => reached[dice.number(0, many as u64 - 1) as usize].as_str(),
    };
    // Between two accesses the card knows nothing of the driver, so they are worth more than other instructions.
    let drawn = if dice.one_in(2) { ANY_ACCESS } else { place(dice) };
    line.add(PLACE, drawn);
    let nth = match drawn == ANY_ACCESS {
        true => dice.magnitude(1, 32),
        false if dice.one_in(2) => 1,
        false => dice.magnitude(2, 8),
    };
    if nth > 1 {
        line.add("nth", nth);
    }
    if operation != Operation::Ping {
        line.add("operation", operation);
    }
    if *deliver != Striking::Packet {
        line.add("deliver", deliver);
    }
    if deliver.check_then(true).is_ok() && dice.one_in(4) {
        line.add("then", place(dice));
    }
    line
}

/// Runs it, and has it judged.
pub(super) fn run(history: &KernelHistory, watch: &mut Watch) -> Result<Judged, Error> {
    let at: At = history.experiment()?;
    let tried = at.carry_out(watch)?;
    let said = tried.trials.iter().map(|trial| format!("{trial:?}")).collect::<Vec<_>>();
    let digest = digest_of(said.iter().map(String::as_str));
    let (packets, delivered) = tried.scene.count_pings();
    let violations = tried.trials.iter().flat_map(of_strike).collect();
    Ok(Judged { packets, delivered, digest, violations })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::soak::history::History;
    use warikomi_clock::Seed;

    fn drawn(seed: u64, reached: &[String]) -> Line {
        let mut dice = Seed(seed).dice();
        let operation = dice.of(&OPERATIONS).0;
        let deliver = striking(&mut dice, operation);
        line(&mut dice, operation, &deliver, reached)
    }

    #[test]
    fn every_line_is_one_that_at_takes_and_shorter_ones_too() {
        let reached = ["rtl8169_poll+0x1c", "rtl8169_interrupt"].map(str::to_owned);
        let mut features = BTreeSet::new();
        for seed in 1..500 {
            let line = drawn(seed, &reached);
            assert_eq!(line, drawn(seed, &reached));
            let history = KernelHistory { line: line.clone(), kernel: Vec::new(), bug: None };
            for history in history.shorter().into_iter().chain([history]) {
                history.check().unwrap_or_else(|error| panic!("{}: {error}", history.command()));
            }
            features.extend(line.features());
        }
        for feature in [
            "at a register access",
            "at an instruction",
            "deliver link-flap",
            "deliver configure:ip link set eth0 down",
            "operation tx timeout",
            "then",
        ] {
            assert!(features.contains(feature), "{feature}: {features:?}");
        }
    }

    #[test]
    fn where_no_place_is_known_register_accesses_are_places() {
        for seed in 1..50 {
            assert_eq!(drawn(seed, &[]).words()[1], ANY_ACCESS);
        }
    }
}
