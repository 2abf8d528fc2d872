//! Histories of the kernel target: runs of `inject`, `transmit` and `at` in virtual time that a seed draws.

mod arguments;
mod checkers;
mod drawn;
mod line;
mod observed;
mod planted;
mod receives;
mod sends;
mod strikes;

use warikomi_clock::Dice;

use self::line::Kind;
use super::history::{END, History, Judged, Violation};
use crate::at::At;
use crate::error::Error;
use crate::inject::Inject;
use crate::transmit::Transmit;
use crate::watch::Watch;

pub(super) use arguments::KernelArguments;
pub(super) use drawn::KernelHistory;
pub(super) use line::as_typed;
pub(super) use planted::Bug;
pub(super) use strikes::Places;

impl KernelHistory {
    /// The history of this seed.
    pub(super) fn draw(
        seed: u64,
        dice: &mut Dice,
        kernel: &KernelArguments,
        places: &mut Places,
        watch: &mut Watch,
    ) -> Result<KernelHistory, Error> {
        // One strike is one of some thousand that there are, so they are the most.
        let line = match dice.number(0, 7) {
            0..=2 => receives::draw(seed, dice),
            3 => sends::draw(seed, dice),
            _ => strikes::draw(dice, kernel, places, watch)?,
        };
        KernelHistory::of(line, kernel, None)
    }

    /// Plain ones in which something is wrong.
    pub(super) fn with(bug: Bug, kernel: &KernelArguments) -> Result<Vec<KernelHistory>, Error> {
        bug.lines().into_iter().map(|line| KernelHistory::of(line, kernel, Some(bug))).collect()
    }

    /// An error if the experiment refuses it: what is left may not go together.
    fn check(&self) -> Result<(), Error> {
        match self.line.kind {
            Kind::Receives => self.experiment::<Inject>()?.asked().map(|_| ()),
            Kind::Sends => self.experiment::<Transmit>()?.in_kernel().map(|_| ()),
            Kind::Strikes => self.experiment::<At>()?.check(),
        }
    }
}

impl History for KernelHistory {
    const TARGET: &'static str = "kernel";

    fn features(&self) -> Vec<String> {
        self.line.features().into_iter().collect()
    }

    fn command(&self) -> String {
        let command = ["warikomi", self.line.experiment()].map(str::to_owned);
        as_typed(command.into_iter().chain(self.words()))
    }

    fn shorter(&self) -> Vec<KernelHistory> {
        let shorter = self.line.shorter().into_iter();
        let shorter = shorter.map(|line| KernelHistory { line, ..self.clone() });
        shorter.filter(|history| history.check().is_ok()).collect()
    }

    fn run(&self, watch: &mut Watch) -> Result<Judged, Error> {
        let made = match self.line.kind {
            Kind::Receives => receives::run(self, watch),
            Kind::Sends => sends::run(self, watch),
            Kind::Strikes => strikes::run(self, watch),
        };
        match made {
            Err(error) if is_the_guests(&error) => {
                let lines: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
                let why = lines.join("; ");
                Ok(Judged { violations: vec![Violation::by(END, why)], ..Judged::default() })
            }
            made => made,
        }
    }
}

/// Whether it says something about the history, and not about this machine, or about the user.
fn is_the_guests(error: &Error) -> bool {
    let of_target = matches!(error, Error::Target(_) | Error::Stalled { .. });
    of_target && !error.is_interrupted()
}
