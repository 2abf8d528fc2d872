//! A way for packets from one core to another: what it must do to be compared.

use std::time::Duration;

use procfs::process::Process;
use warikomi_measure::core_wait_ns;
use warikomi_session::SessionError;
use warikomi_target::cores::Cores;
use warikomi_target::{Interrupted, TargetError};

/// Where and until when packets are sent.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Packet length in bytes.
    pub size_bytes: usize,
    /// The sender is on the support side's core, the receiver on the target's.
    pub cores: Cores,
    /// How long they are sent before it counts.
    pub warm_up: Duration,
    /// How long packets are counted.
    pub measured: Duration,
    /// The user may stop it.
    pub interrupted: Interrupted,
}

/// A way for packets from the support side's core to the target's.
pub trait Way {
    /// The name under which its figures are kept.
    fn name(&self) -> &'static str;

    /// How it is run and what it copies, for people.
    fn description(&self) -> &'static str;

    /// Whether it is the product's own, to be compared with what is not.
    fn is_ours(&self) -> bool {
        false
    }

    /// Sets it up. While it is not being measured it leaves the cores to the others.
    fn open(&self, setup: &Setup) -> Result<Box<dyn Running>, Failure>;
}

/// A way that is set up; dropping it takes it down and leaves nothing behind.
pub trait Running {
    /// Sends as fast as possible for the time that the setup gives.
    fn measure(&mut self) -> Result<Sample, Failure>;
}

/// What was seen in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Packets that arrived in a second.
    pub packets_per_second: f64,
    /// The share of the two cores' time in which a side was ready to run and others had its core.
    pub waited_share: f64,
}

/// Why a way could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user pressed Ctrl-C.
    #[error("stopped by the user")]
    Interrupted,
    /// A program is missing.
    #[error("{program} is not installed, and was not compared with")]
    NotInstalled {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A program did not do what it should.
    #[error("{what}; its last words: {last_words}")]
    Program {
        /// What went wrong.
        what: String,
        /// The end of its output.
        last_words: String,
    },
    /// What arrived is not what was sent.
    #[error("packet {expected} was to come, and {found} came")]
    Corrupt {
        /// The packet's number.
        expected: u64,
        /// What was found in its place.
        found: u64,
    },
    /// Our own path could not be had, or failed.
    #[error(transparent)]
    Session(SessionError),
    /// Our own path did not do what it should.
    #[error("{0}")]
    Own(String),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What the system was asked to do.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

impl Failure {
    /// Why our own path could not be had, or failed.
    pub(crate) fn own(error: impl Into<SessionError>) -> Failure {
        match error.into() {
            SessionError::Target(TargetError::Interrupted) => Failure::Interrupted,
            error => Failure::Session(error),
        }
    }

    /// Why the system did not do what was wanted.
    pub(crate) fn system<E: Into<std::io::Error>>(what: &'static str) -> impl FnOnce(E) -> Failure {
        move |error| Failure::System { what, error: error.into() }
    }

    /// What the user can do about this failure.
    pub(crate) fn hint(&self) -> String {
        match self {
            Failure::NotInstalled { package, .. } => {
                format!("install it: sudo apt-get install {package}")
            }
            Failure::Program { .. } => {
                "run it by hand as docs/benchmarks.md describes, or leave it: the other figures \
                 do not need it"
                    .into()
            }
            _ => {
                "run it again; if it happens again it is a bug of Warikomi, please report it".into()
            }
        }
    }
}

/// How long these threads together have been ready to run while others had their core.
pub(crate) fn waited_ns(threads: &[u32]) -> u64 {
    threads.iter().filter_map(|&thread| core_wait_ns(Some(thread))).sum()
}

/// The threads of a process.
pub(crate) fn threads_of(process: u32) -> Vec<u32> {
    let tasks = Process::new(process.cast_signed()).and_then(|process| process.tasks());
    tasks.into_iter().flatten().flatten().map(|task| task.tid.cast_unsigned()).collect()
}
