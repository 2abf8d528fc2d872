//! Why an experiment has no result.

use std::io;
use std::path::PathBuf;

use warikomi_measure::{MadeShard, Unaccounted, WriteError};
use warikomi_session::SessionError;
use warikomi_sim::history::HistoryError;
use warikomi_sim::transmit::TransmitError as VirtualTransmitError;
use warikomi_sim::{CostsFileError, VirtualError};
use warikomi_target::{ConsoleTail, TargetError};

/// Why an experiment has no result. All experiments have the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be. The text says what can.
    #[error("{0}")]
    Impossible(String),
    /// The plan of the packets cannot be carried out.
    #[error(transparent)]
    Packets(#[from] warikomi_inject::PlanError),
    /// The plan of the messages cannot be carried out.
    #[error(transparent)]
    Messages(#[from] warikomi_stack::send::PlanError),
    /// A target with its driver could not be had.
    #[error(transparent)]
    Session(SessionError),
    /// The target failed, or the user stopped it.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Virtual time could not be run.
    #[error(transparent)]
    Virtual(#[from] VirtualError),
    /// The costs of virtual time cannot be had.
    #[error(transparent)]
    Costs(#[from] CostsFileError),
    /// Nothing could be sent in virtual time.
    #[error(transparent)]
    VirtualTransmit(#[from] VirtualTransmitError),
    /// A random history is wrong, or came to no end.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// Histories of a soak are wrong.
    #[error(
        "{found} of {histories} histories are wrong; the first has seed {seed}: {what}\nto try it again: {command}\n\
         the history itself: {history}"
    )]
    Soaked {
        /// How many.
        found: usize,
        /// How many were tried.
        histories: u64,
        /// Seed of the first.
        seed: u64,
        /// What a checker has found in it.
        what: String,
        /// The command that tries it again, with all checkers.
        command: String,
        /// The command that repeats it, or a shorter one.
        history: String,
    },
    /// The checkers do not find a bug that is there.
    #[error(
        "the checkers do not find {bug} (--target {target}), which was planted for them to find: whatever else they \
         pass says nothing; this is a bug of Warikomi, please report it"
    )]
    Blind {
        /// The bug.
        bug: String,
        /// Where it was planted.
        target: &'static str,
    },
    /// There is no such wire.
    #[error("cannot set up the wire: {0}")]
    NoWire(io::Error),
    /// The wire could not keep what passed.
    #[error("the wire could not keep what passed: {0}")]
    Wire(io::Error),
    /// The driver took no packet, although the guest still answers.
    #[error(
        "the driver took none of {packets} packets, though the guest still answers: it has stopped \
         serving its receive ring; run it again, and if it happens again look at the driver with a \
         debugger"
    )]
    Stalled {
        /// The packets that were injected.
        packets: u64,
    },
    /// The target's process cannot be traced.
    #[error(transparent)]
    Traced(#[from] warikomi_debugger::TraceeError),
    /// The code of kernel or driver cannot be read.
    #[error(transparent)]
    Code(#[from] warikomi_debugger::CodeError),
    /// A place is none of the driver's.
    #[error(transparent)]
    Place(#[from] warikomi_debugger::PlaceError),
    /// Something is wrong at places that were explored.
    #[error(
        "something is wrong at {places} places; the table of findings has each, with the command that repeats it"
    )]
    Found {
        /// How many.
        places: usize,
    },
    /// The target has no application.
    #[error(
        "packets are meant for an application, and this target has none above its driver; give \
         --receiver driver"
    )]
    NoApplication,
    /// The ledger does not add up.
    #[error(transparent)]
    Unaccounted(#[from] Unaccounted),
    /// The driver took steps that it must not take, and that was to fail the run.
    #[error(
        "the driver took {steps} steps that it must not take; the table of the result says which, and \
         docs/strict.md what each kind means"
    )]
    NotStrict {
        /// How many.
        steps: u64,
    },
    /// A strict card had found something before the run ended with an error.
    #[error("{error}; {steps}")]
    AfterSteps {
        /// Why the run ended.
        error: Box<Error>,
        /// The steps that the driver took until then and must not take, in words.
        steps: String,
    },
    /// The compute job did not run when it was alone.
    #[error(
        "the compute job in the target did no work while nothing was received: something else takes \
         the target's processor; look with warikomi doctor"
    )]
    NoWork,
    /// An application of the user's own does not receive.
    #[error(
        "the application says that it has received {received} of the {accepted} messages that the driver has \
         accepted, and has received nothing more since: it hangs, or does not receive by the library{console}"
    )]
    ApplicationHangs {
        /// Messages that it says it has received.
        received: u64,
        /// Messages that the driver has accepted.
        accepted: u64,
        /// Last lines that the processes printed.
        console: ConsoleTail,
    },
    /// It says something else than is known.
    #[error("{row}: {what}; the figures of the row are those of driver and card")]
    ApplicationDiffers {
        /// The row of the comparison.
        row: String,
        /// What it says, and what is known.
        what: String,
    },
    /// The processor time of the target's processes cannot be read.
    #[error("cannot read the processor time of the target's processes: {0}")]
    CpuTime(io::Error),
    /// What was sent is not what arrived.
    #[error("{row}: {what}; this is a bug of driver, stack, kernel or NIC model, please report it")]
    Wrong {
        /// The row of the comparison.
        row: String,
        /// What was found.
        what: String,
    },
    /// The target did not send what it was asked to.
    #[error("{row}: {what}")]
    NotSent {
        /// The row of the comparison.
        row: String,
        /// What became of it.
        what: String,
    },
    /// No driver could be kept running.
    #[error("the service has ended, because no driver can be kept running: {why}")]
    GivenUp {
        /// What the last one failed of.
        why: String,
    },
    /// A way to replace a driver that promises to lose nothing has lost something.
    #[error(
        "lost what was promised not to be lost: {0}; this is a bug of driver, stack or supervisor, or \
         the traffic is more than this machine can receive: try a longer --interval"
    )]
    PromiseBroken(String),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] warikomi_trace::TraceError),
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] warikomi_trace::capture::CaptureError),
    /// A file cannot be replayed.
    #[error("{}: {error}", path.display())]
    NoReplay {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: Box<Error>,
    },
    /// A driver was expected to behave as in a recording, and did not.
    #[error("the driver behaved differently from the recording")]
    Different,
    /// A recording cannot be read or written.
    #[error("it cannot be read: {0}")]
    Recording(io::Error),
    /// Tests of the kernel have failed without a reason that is written down.
    #[error(
        "{count} of the kernel's tests failed without a reason that is known: {which}; what they said is in \
         selftest.ktap"
    )]
    Selftests {
        /// How many.
        count: usize,
        /// The first of them.
        which: String,
    },
    /// A run cannot be kept.
    #[error(transparent)]
    Keep(#[from] WriteError),
    /// A run cannot go on.
    #[error("this run cannot go on: {0}")]
    NoResume(WriteError),
    /// The steps of a run that was stopped cannot be read.
    #[error("this run cannot go on: {} cannot be read: {source}", path.display())]
    Steps {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A step cannot be written down.
    #[error("steps.jsonl cannot be written: {0}")]
    Log(#[from] io::Error),
    /// The steps of a run that was stopped are damaged.
    #[error(
        "steps.jsonl is damaged at line {line}: {what}; remove that line and those after it, and \
         resume again"
    )]
    Damaged {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The steps of a run that was stopped belong to another.
    #[error(
        "the steps in steps.jsonl are not those of plan.toml beside it: one of the two was changed, \
         or another version of Warikomi wrote them; begin anew"
    )]
    OtherRun,
    /// The cases of a shard are made, so its run ends: what follows needs those of all shards.
    #[error("{} of {} cases are made, those of shard {}", .0.cases, .0.of_cases, .0.shard)]
    ShardMade(Box<MadeShard>),
    /// Shards do not make one run.
    #[error("{} cannot be merged: {what}", path.display())]
    NoMerge {
        /// The directory of a shard.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Shards are missing.
    #[error("missing: {missing} of {of}; name the directories of all shards")]
    MissingShards {
        /// The missing ones, such as `shards 1, 3`.
        missing: String,
        /// Number of shards.
        of: u32,
    },
    /// The shards lack a step.
    #[error(
        "no shard has made the step '{step}' that their plan asks for: their files were changed, or \
         another version of Warikomi wrote them; make the shards anew"
    )]
    NotInShards {
        /// The step.
        step: String,
    },
}

impl Error {
    /// Of something that was asked for and cannot be; `what` says what can.
    pub fn impossible(what: impl Into<String>) -> Error {
        Error::Impossible(what.into())
    }

    /// The same, of a flag whose value says so itself.
    pub(crate) fn impossible_as(what: impl std::fmt::Display) -> Error {
        Error::Impossible(what.to_string())
    }

    /// Whether the user stopped it, rather than that something is wrong.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Error::Target(error) => matches!(error, TargetError::Interrupted),
            Error::AfterSteps { error, .. } => error.is_interrupted(),
            Error::Session(error) => error.is_interrupted(),
            _ => false,
        }
    }
}

/// A target that fails as it is brought up has failed as any other.
impl From<SessionError> for Error {
    fn from(error: SessionError) -> Error {
        match error {
            SessionError::Target(error) => Error::Target(error),
            other => Error::Session(other),
        }
    }
}
