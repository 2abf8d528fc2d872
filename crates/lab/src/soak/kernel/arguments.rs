//! Which kernel and driver a soak is of, and experiments of words.

use clap::{Args, Command, FromArgMatches, ValueHint};
use warikomi_session::ImageArguments;

use super::line::{Kind, Line};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::inject::Inject;

/// Which driver in which kernel; as `inject` chooses them if none is given.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::soak) struct KernelArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// The kernel's driver, as Linux calls it, or a module of your own [default: r8169]
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub(in crate::soak) driver: Option<String>,
    /// The NIC model that it drives [default: one that the driver drives]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

impl KernelArguments {
    /// As words of a command line.
    pub(in crate::soak) fn words(&self) -> Vec<String> {
        [self.image.words(), self.driver_words()].concat()
    }

    fn driver_words(&self) -> Vec<String> {
        let flags = [("--driver", &self.driver), ("--model", &self.model)];
        let given = flags.into_iter().filter_map(|(name, value)| Some([name, value.as_ref()?]));
        given.flatten().map(str::to_owned).collect()
    }

    /// Those of an experiment. One that strikes at places wants a kernel with more checks unless one is named, and here it
    /// is that of the others.
    pub(super) fn words_of(&self, kind: Kind) -> Result<Vec<String>, Error> {
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

    pub(in crate::soak) fn are_given(&self) -> bool {
        !self.words().is_empty()
    }

    /// An error if there is no such kernel.
    pub(in crate::soak) fn refuse_without(&self) -> Result<(), Error> {
        self.words_of(Kind::Strikes).map(|_| ())
    }
}

/// An experiment of these words.
pub(super) fn experiment<E: Experiment + Args + FromArgMatches>(
    words: &[String],
) -> Result<E, Error> {
    let command = E::augment_args(Command::new(E::NAME).no_binary_name(true));
    let matches = command.try_get_matches_from(words).map_err(Error::impossible_as)?;
    E::from_arg_matches(&matches).map_err(Error::impossible_as)
}
