//! A history as its seed draws it, or with parts of it left out: so a long one that is wrong becomes a short one,
//! and a command repeats that, too.

use std::fmt::{self, Write};
use std::str::FromStr;

use warikomi_clock::Seed;
use warikomi_driver::DEFAULT_DRIVER;

use super::draw::options;
use crate::checkers::{Checkers, Violation};
use crate::{Disturbances, Options, Outcome, Pair, VirtualError, Way, run_observed};

/// A history as it is drawn, but for what is said here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Everything follows from it.
    pub seed: Seed,
    /// Whether faults strike, and parts stall and die.
    pub faults: bool,
    /// The number of bursts of frames, if it is not the one that the seed says.
    pub bursts: Option<u64>,
    /// What is left out.
    pub without: Vec<Omission>,
}

/// A part of a history that can be left out. Numbers count what was drawn, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// A fault.
    Fault(usize),
    /// The death of a part.
    Kill(usize),
    /// Something that is ordered.
    Order(usize),
    /// A stall of the driver.
    Stall(usize),
    /// What the application sends.
    Sends,
    /// The job that competes for the core.
    Compute,
}

impl Drawn {
    /// The history of this seed, whole.
    pub fn of(seed: Seed, faults: bool) -> Drawn {
        Drawn { seed, faults, ..Drawn::default() }
    }

    /// What is run.
    pub fn options(&self) -> Options {
        let mut options = options(self.seed, self.faults);
        if let Some(bursts) = self.bursts {
            options.traffic.bursts = bursts;
        }
        let left =
            |one: fn(usize) -> Omission| move |number: usize| !self.without.contains(&one(number));
        let Disturbances { faults, kills, orders, stalls, .. } = &mut options.disturbances;
        keep(faults, left(Omission::Fault));
        keep(kills, left(Omission::Kill));
        keep(orders, left(Omission::Order));
        keep(stalls, left(Omission::Stall));
        if self.without.contains(&Omission::Sends) {
            options.sends = None;
        }
        options.compute &= !self.without.contains(&Omission::Compute);
        options
    }

    /// The history itself, and what is wrong with it.
    pub fn judged(&self, pair: &Pair) -> Result<(Outcome, Vec<Violation>), VirtualError> {
        let mut options = self.options();
        if !pair.driver().info().live {
            options.way = Way::Reload;
        }
        let mut checkers = Checkers::new(&options);
        let outcome = run_observed(&options, pair, &mut checkers)?;
        Ok((outcome, checkers.into_violations()))
    }

    /// Shorter histories: each with one thing less, or with fewer bursts. The most that can be saved comes first.
    pub fn shorter(&self) -> Vec<Drawn> {
        let drawn = Drawn { without: Vec::new(), ..self.clone() }.options();
        let bursts = drawn.traffic.bursts;
        let mut fewer = vec![1, bursts / 2, bursts - bursts / 4, bursts - 1];
        fewer.retain(|fewer| (1..bursts).contains(fewer));
        fewer.dedup();
        let fewer = fewer.into_iter().map(|bursts| Drawn { bursts: Some(bursts), ..self.clone() });
        let Disturbances { faults, kills, orders, stalls, .. } = &drawn.disturbances;
        let parts = (0..kills.len())
            .map(Omission::Kill)
            .chain((0..faults.len()).map(Omission::Fault))
            .chain((0..orders.len()).map(Omission::Order))
            .chain((0..stalls.len()).map(Omission::Stall))
            .chain(drawn.sends.map(|_| Omission::Sends))
            .chain(drawn.compute.then_some(Omission::Compute));
        let left = parts.filter(|part| !self.without.contains(part));
        let without = left.map(|part| {
            let without = self.without.iter().copied().chain([part]).collect();
            Drawn { without, ..self.clone() }
        });
        fewer.chain(without).collect()
    }

    /// The command that repeats it, with the driver of this name.
    pub fn command(&self, driver: &str) -> String {
        let mut command = format!("warikomi histories --count 1 --seed {}", self.seed.0);
        if self.faults {
            command.push_str(" --faults");
        }
        if driver != DEFAULT_DRIVER {
            let _ = write!(command, " --driver {driver}");
        }
        if let Some(bursts) = self.bursts {
            let _ = write!(command, " --bursts {bursts}");
        }
        for omission in &self.without {
            let _ = write!(command, " --without {omission}");
        }
        command
    }
}

/// Keeps those whose number is to be kept.
fn keep<T>(list: &mut Vec<T>, is_left: impl Fn(usize) -> bool) {
    let mut number = 0..;
    list.retain(|_| number.next().is_some_and(&is_left));
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Omission::Fault(number) => write!(f, "fault:{number}"),
            Omission::Kill(number) => write!(f, "kill:{number}"),
            Omission::Order(number) => write!(f, "order:{number}"),
            Omission::Stall(number) => write!(f, "stall:{number}"),
            Omission::Sends => f.write_str("sends"),
            Omission::Compute => f.write_str("compute"),
        }
    }
}

/// Why a text is no part of a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no part that can be left out; there are fault:N, kill:N, order:N and stall:N, by their numbers \
     from 0, and sends and compute"
)]
pub struct ParseOmissionError(String);

impl FromStr for Omission {
    type Err = ParseOmissionError;

    fn from_str(text: &str) -> Result<Omission, ParseOmissionError> {
        let wrong = || ParseOmissionError(text.to_owned());
        let Some((kind, number)) = text.split_once(':') else {
            return match text {
                "sends" => Ok(Omission::Sends),
                "compute" => Ok(Omission::Compute),
                _ => Err(wrong()),
            };
        };
        let number = number.parse().map_err(|_| wrong())?;
        match kind {
            "fault" => Ok(Omission::Fault(number)),
            "kill" => Ok(Omission::Kill(number)),
            "order" => Ok(Omission::Order(number)),
            "stall" => Ok(Omission::Stall(number)),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_not_there_and_the_rest_is() {
        let busy = (1..).map(|seed| Drawn::of(Seed(seed), true)).find(|drawn| {
            let disturbances = drawn.options().disturbances;
            disturbances.faults.len() > 1 && disturbances.kills.len() > 1
        });
        let whole = busy.unwrap();
        let mut drawn = whole.clone();
        drawn.without = vec![Omission::Fault(0), Omission::Kill(1), Omission::Compute];
        drawn.bursts = Some(1);
        let (before, after) = (whole.options(), drawn.options());
        assert_eq!(after.disturbances.faults, before.disturbances.faults[1..]);
        assert_eq!(after.disturbances.kills[0], before.disturbances.kills[0]);
        assert_eq!(after.disturbances.kills.len(), before.disturbances.kills.len() - 1);
        assert_eq!((after.compute, after.traffic.bursts), (false, 1));
        assert_eq!(after.disturbances.stalls, before.disturbances.stalls);
    }

    #[test]
    fn each_shorter_history_is_another_and_in_the_end_there_is_none() {
        let driver = warikomi_driver::DRIVERS[0];
        for seed in 1..200 {
            let mut drawn = Drawn::of(Seed(seed), true);
            let mut steps = 0;
            while let Some(next) = drawn.shorter().pop() {
                assert_ne!(next, drawn);
                assert!(drawn.shorter().iter().all(|one| one.options().validate(driver).is_ok()));
                drawn = next;
                steps += 1;
                assert!(steps < 400, "{drawn:?}");
            }
            assert_eq!(drawn.options().traffic.bursts, 1, "{drawn:?}");
        }
    }

    #[test]
    fn omissions_are_read_as_they_are_written() {
        use Omission::{Compute, Fault, Kill, Order, Sends, Stall};
        for omission in [Fault(0), Kill(12), Order(3), Stall(1), Sends, Compute] {
            assert_eq!(omission.to_string().parse(), Ok(omission));
        }
        for text in ["", "fault", "fault:", "fault:x", "sends:1", "frob:1"] {
            assert!(text.parse::<Omission>().is_err(), "{text}");
        }
    }
}
