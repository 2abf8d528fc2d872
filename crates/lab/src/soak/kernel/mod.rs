//! Histories of the kernel target: runs of `inject`, `transmit` and `at` in virtual time that a seed draws.

mod checkers;
mod line;
mod observed;
mod planted;
mod receives;
mod sends;
mod strikes;

use clap::{Args, Command, FromArgMatches, ValueHint};
use warikomi_clock::Dice;
use warikomi_session::{ImageArguments, Session};
use warikomi_target::TargetError;

use self::line::{Kind, Line};
use super::history::{END, History, Judged, Violation};
use crate::at::At;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::inject::Inject;
use crate::transmit::Transmit;
use crate::watch::Watch;

pub(super) use line::as_typed;
pub(super) use planted::Bug;
pub(super) use strikes::Places;

/// Which driver in which kernel; as `inject` chooses them if none is given.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct KernelArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// The kernel's driver, as Linux calls it, or a module of your own [default: r8169]
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub(super) driver: Option<String>,
    /// The NIC model that it drives [default: one that the driver drives]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

impl KernelArguments {
    /// As words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        [self.image.words(), self.driver_words()].concat()
    }

    fn driver_words(&self) -> Vec<String> {
        let flags = [("--driver", &self.driver), ("--model", &self.model)];
        let given = flags.into_iter().filter_map(|(name, value)| Some([name, value.as_ref()?]));
        given.flatten().map(str::to_owned).collect()
    }

    /// Those of an experiment. One that strikes at places wants a kernel with more checks unless one is named, and here it
    /// is that of the others.
    fn words_of(&self, kind: Kind) -> Result<Vec<String>, Error> {
        if kind != Kind::Strikes {
            return Ok(self.words());
        }
        let line = Line::of(Kind::Receives, &[]);
        let inject: Inject = experiment(&[line.words(), self.words()].concat())?;
        let prepared = inject.prepared()?;
        let kernel = prepared.kernel().map(|options| options.kernel.display().to_string());
        let kernel = kernel.into_iter().flat_map(|path| ["--kernel".to_owned(), path]);
        Ok(kernel.chain(self.driver_words()).collect())
    }

    pub(super) fn are_given(&self) -> bool {
        !self.words().is_empty()
    }

    /// An error if there is no such kernel.
    pub(super) fn refuse_without(&self) -> Result<(), Error> {
        self.words_of(Kind::Strikes).map(|_| ())
    }
}

/// An experiment of these words.
fn experiment<E: Experiment + Args + FromArgMatches>(words: &[String]) -> Result<E, Error> {
    let command = E::augment_args(Command::new(E::NAME).no_binary_name(true));
    let matches = command.try_get_matches_from(words).map_err(Error::impossible_as)?;
    E::from_arg_matches(&matches).map_err(Error::impossible_as)
}

/// A history of the kernel target.
#[derive(Clone, Debug)]
pub(super) struct KernelHistory {
    line: Line,
    kernel: Vec<String>,
    /// What is planted, to be found.
    bug: Option<Bug>,
}

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

    /// A plain one in which something is wrong.
    pub(super) fn with(bug: Bug, kernel: &KernelArguments) -> Result<KernelHistory, Error> {
        KernelHistory::of(bug.line(), kernel, Some(bug))
    }

    fn of(line: Line, kernel: &KernelArguments, bug: Option<Bug>) -> Result<KernelHistory, Error> {
        let kernel = kernel.words_of(line.kind)?;
        Ok(KernelHistory { line, kernel, bug })
    }

    /// The words behind the experiment's name.
    fn words(&self) -> Vec<String> {
        [self.line.words(), self.kernel.clone()].concat()
    }

    /// An error if the experiment refuses it: what is left may not go together.
    fn check(&self) -> Result<(), Error> {
        match self.line.kind {
            Kind::Receives => self.experiment::<Inject>()?.asked().map(|_| ()),
            Kind::Sends => self.experiment::<Transmit>()?.in_kernel().map(|_| ()),
            Kind::Strikes => self.experiment::<At>()?.check(),
        }
    }

    /// The experiment that has it.
    fn experiment<E: Experiment + Args + FromArgMatches>(&self) -> Result<E, Error> {
        experiment(&self.words())
    }
}

/// Marks of harm that the kernel has set.
fn harm(session: &mut Session) -> Result<u64, TargetError> {
    session.target.agent().map_or(Ok(0), |agent| agent.fault_marks())
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
