//! Starting a process without waiting for it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use warikomi_target::TargetError;
use warikomi_target::cores::Pinned;
use warikomi_target::group::{Leader, Roster, in_our_session};
use warikomi_target::sandbox::Sandbox;

use crate::programs::starter::Request;
use crate::resident::Resident;
use crate::starter::{Asked, Starter};
use crate::{creation, priority};

/// What is started, once: its end of a socket goes with it.
pub(super) struct Start {
    /// Its program, arguments and variables.
    pub(super) command: Command,
    pub(super) input: OwnedFd,
    /// For what it prints.
    pub(super) output: OwnedFd,
    /// Its claim on its core, if not what is usual.
    pub(super) nice: Option<i32>,
    /// It may have no files but those that it is handed.
    pub(super) confined: bool,
}

/// Where processes are started.
#[derive(Clone)]
pub(super) struct Ground {
    /// On which core.
    pub(super) core: Option<usize>,
    /// Where they are listed, to be ended if we die.
    pub(super) roster: Roster,
    /// What starts them, if they are in another session than we.
    pub(super) starter: Option<Arc<Starter>>,
}

/// A process that is there, or that was asked for.
enum Begun {
    Started(Leader),
    Asked(Asked),
}

impl Ground {
    /// Starts a process, and waits until it has been started.
    pub(super) fn start(&self, start: Start) -> io::Result<Leader> {
        let leader = match self.begin(start)? {
            Begun::Started(leader) => leader,
            Begun::Asked(asked) => asked.wait()?,
        };
        Ok(leader.listed(&self.roster))
    }

    /// Begins to start a process. In our session it has the claim of this thread.
    fn begin(&self, start: Start) -> io::Result<Begun> {
        let Start { mut command, input, output, nice, confined } = start;
        let program = Path::new(command.get_program());
        match &self.starter {
            Some(starter) => {
                let request = request(&command, nice, confined);
                starter.ask(&request, [input, output]).map(Begun::Asked)
            }
            None => {
                let sandbox = confined.then(|| Sandbox::of_program(program));
                command.stdin(input).stdout(output.try_clone()?).stderr(output);
                let place = (self.core, sandbox.as_ref());
                Leader::start(place, || in_our_session(&mut command)).map(Begun::Started)
            }
        }
    }
}

fn request(command: &Command, nice: Option<i32>, confined: bool) -> Request {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => variables.insert(name.to_owned(), value.to_owned()),
            None => variables.remove(name),
        };
    }
    Request {
        program: command.get_program().to_owned(),
        arguments: command.get_args().map(OsStr::to_owned).collect(),
        environment: variables.into_iter().collect(),
        nice,
        confined,
    }
}

/// A process that is being started without anything of ours waiting for it.
pub(super) struct Launch {
    ground: Ground,
    stage: Stage,
}

enum Stage {
    /// A thread of ours begins it.
    Beginning(JoinHandle<io::Result<(Begun, Option<u64>)>>),
    /// It has begun.
    Begun(Begun, Option<u64>),
    Over,
}

/// A process that has been started.
pub(super) struct Launched {
    pub(super) leader: Leader,
    /// How often the application got the processor during the reads that came before it.
    pub(super) read_dispatches: Option<u64>,
}

/// What comes before a start.
pub(super) struct Before {
    /// Blocks of its program that are read.
    pub(super) reads: u32,
    /// The process that is watched meanwhile.
    pub(super) application: Option<u32>,
    /// What holds its program in memory.
    pub(super) resident: Resident,
}

impl Launch {
    /// Begins to start a process.
    pub(super) fn begin(
        start: Start,
        ground: Ground,
        before: Before,
    ) -> Result<Launch, TargetError> {
        let thread = std::thread::Builder::new().name("launch".to_owned());
        let there = ground.clone();
        let launch = thread
            .spawn(move || {
                if let Some(nice) = start.nice {
                    priority::claim_for_this_thread(nice);
                }
                // It is the target's time; and children inherit the affinity of the thread that starts them.
                let _pinned = there.core.map(Pinned::to).transpose()?;
                let program = Path::new(start.command.get_program());
                before.resident.hold(program);
                let read_dispatches = creation::read(program, before.reads, before.application)?;
                Ok((there.begin(start)?, read_dispatches))
            })
            .map_err(TargetError::system("cannot start a thread to start a process"))?;
        Ok(Launch { ground, stage: Stage::Beginning(launch) })
    }

    /// The process, once.
    pub(super) fn outcome(&mut self) -> Option<io::Result<Launched>> {
        let launched = self.launched().transpose()?;
        Some(launched.map(|launched| Launched {
            leader: launched.leader.listed(&self.ground.roster),
            ..launched
        }))
    }

    fn launched(&mut self) -> io::Result<Option<Launched>> {
        let (begun, read_dispatches) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Beginning(thread) if thread.is_finished() => join(thread)?,
            Stage::Begun(begun, reads) => (begun, reads),
            other => {
                self.stage = other;
                return Ok(None);
            }
        };
        let leader = match begun {
            Begun::Started(leader) => leader,
            Begun::Asked(asked) => match asked.answer() {
                Ok(answer) => answer?,
                Err(asked) => {
                    self.stage = Stage::Begun(Begun::Asked(asked), read_dispatches);
                    return Ok(None);
                }
            },
        };
        Ok(Some(Launched { leader, read_dispatches }))
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if let Stage::Beginning(thread) = std::mem::replace(&mut self.stage, Stage::Over) {
            // What it has begun ends with its handle.
            let _ = join(thread);
        }
    }
}

fn join<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it failed")))
}
