//! Histories in which the guest sends: runs of `transmit --virtual --target kernel`, of one sender each.

use warikomi_clock::Dice;
use warikomi_session::Session;
use warikomi_wire::Wire;

use super::checkers::of_sending;
use super::drawn::{KernelHistory, harm};
use super::line::{Kind, Line};
use super::planted::{Bug, PlantedWire};
use crate::error::Error;
use crate::soak::history::Judged;
use crate::transmit::Transmit;
use crate::transmit::kernel::{Judge, JudgingHost, Options, send_once};
use crate::watch::Watch;

/// The longest payload of a datagram that fits into a frame (RFC 894, less headers of IPv4 and UDP).
const FRAME_PAYLOAD_BYTES: u64 = 1_472;

/// The longest payload of any datagram.
const MOST_BYTES: u64 = 65_507;

/// What the seed says.
pub(super) fn draw(seed: u64, dice: &mut Dice) -> Line {
    let sender = dice.of(&["pktgen", "udp", "tcp"]);
    let is_long = sender != "pktgen" && dice.one_in(3);
    let most_bytes = if is_long { MOST_BYTES } else { FRAME_PAYLOAD_BYTES };
    let mut line = Line::new(Kind::Sends);
    line.add("seed", seed);
    line.add("count", dice.magnitude(8, if is_long { 64 } else { 512 }));
    line.add("senders", sender);
    line.add("sizes", dice.magnitude(16, most_bytes));
    line.add("repeat", 1);
    line.add(
        "interrupts",
        match dice.one_in(2) {
            true => "napi".to_owned(),
            false => format!("coalesce:{}us/{}", dice.magnitude(1, 256), dice.number(0, 15) * 4),
        },
    );
    match sender {
        "pktgen" => line.add("bursts", dice.magnitude(1, 64)),
        "udp" if dice.one_in(3) => line.add("interval", format!("{}us", dice.magnitude(1, 256))),
        "tcp" => line.add("tso", dice.of(&["on", "off"])),
        _ => {}
    }
    if dice.one_in(3) {
        line.add("bus", dice.of(&["pci-64-66", "pcie1-x1", "pcie3-x1"]));
    }
    if dice.one_in(3) {
        line.add("line-rate", dice.of(&["100M", "1G", "10G"]));
    }
    if dice.one_in(2) {
        line.costs(dice);
    }
    line
}

/// Runs it, and has it judged.
pub(super) fn run(history: &KernelHistory, watch: &mut Watch) -> Result<Judged, Error> {
    let transmit: Transmit = history.experiment()?;
    let cable = |host: JudgingHost| -> Box<dyn Wire> {
        match history.bug {
            Some(Bug::Sending(carried, bug)) => Box::new(PlantedWire::new(host, carried, bug)),
            _ => Box::new(host),
        }
    };
    transmit.carry_out_in_kernel(watch, cable, |session, judge, options, _| {
        judged(session, judge, options)
    })
}

fn judged(session: &mut Session, judge: &Judge, options: &Options) -> Result<Judged, Error> {
    let before = harm(session)?;
    let sent = match send_once(session, judge, options) {
        Err(error) if !matches!(error, Error::Wrong { .. } | Error::NotSent { .. }) => {
            return Err(error);
        }
        sent => sent,
    };
    let harm = harm(session)? & !before;
    let violations = of_sending(&sent, &session.target.console().0, harm);
    let (packets, digest) = sent.unwrap_or_default();
    Ok(Judged { packets, delivered: packets, digest, violations })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::arguments::experiment;
    use super::*;
    use warikomi_clock::Seed;

    fn drawn(seed: u64) -> Line {
        draw(seed, &mut Seed(seed).dice())
    }

    fn check(line: &Line) {
        let transmit: Transmit = experiment(&line.words()).unwrap();
        let options = transmit.in_kernel();
        let options = options.unwrap_or_else(|error| panic!("{:?}: {error}", line.words()));
        assert_eq!(options.rows(), 1, "{:?}: one sender sends in one way", line.words());
    }

    #[test]
    fn every_line_is_one_that_transmit_takes_with_one_row_and_the_same_again() {
        let mut features = BTreeSet::new();
        for seed in 1..500 {
            let line = drawn(seed);
            check(&line);
            assert_eq!(line, drawn(seed));
            features.extend(line.features());
        }
        for feature in ["senders pktgen", "senders tcp", "interrupts coalesce", "bus", "frame cost"]
        {
            assert!(features.contains(feature), "{feature}: {features:?}");
        }
    }

    #[test]
    fn shorter_lines_have_one_row_too_and_come_to_an_end() {
        for seed in 1..8 {
            let (mut line, mut steps) = (drawn(seed), 0);
            while let Some(next) = line.shorter().pop() {
                line.shorter().iter().for_each(check);
                (line, steps) = (next, steps + 1);
                assert!(steps < 1_000);
            }
            assert!(line.words().join(" ").contains("--count 1 --senders"), "{line:?}");
            assert!(line.words().join(" ").contains("--sizes 64 --repeat 1 --interrupts napi"));
        }
    }
}
