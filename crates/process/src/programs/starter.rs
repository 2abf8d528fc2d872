//! The process that starts the others of a target, in a session of its own.
//!
//! Its standard input is a socket of the support side. With each process that it is asked for comes another, on which it
//! says what has come of it. It keeps the process, also when that has ended, until this socket is closed, or the support
//! side is gone.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};

use nix::unistd::setsid;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use warikomi_shared::{receive, send, take_input};
use warikomi_stack::StackError;
use warikomi_target::group::{Leader, in_our_session};
use warikomi_target::sandbox::Sandbox;

use crate::priority;

/// Its first message: it leads its session.
pub(crate) const READY: &[u8] = b"warikomi starter 1";
/// The message that asks for a process. With it come a file with a [`Request`], the files for the process's input and for
/// what it prints, and the socket for the [`Answer`].
pub(crate) const START: &[u8] = b"start";

/// What is to be started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// All of its variables.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What it claims of its core, if not what is usual.
    pub(crate) nice: Option<i32>,
    /// It may have no files but those that it is handed.
    pub(crate) confined: bool,
}

/// A process's id, or why it could not be started.
pub(crate) type Answer = Result<u32, Failure>;

/// An error of the system's, or another one in words.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    code: Option<i32>,
    said: String,
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Failure {
        Failure { code: error.raw_os_error(), said: error.to_string() }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        match failure.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::other(failure.said),
        }
    }
}

/// Runs until the support side is gone, and ends what it has started.
pub fn main() -> Result<(), StackError> {
    let support = take_input()?;
    setsid().map_err(io::Error::from)?;
    send(&support, READY, &[])?;
    let mut keepers: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let (message, files) = receive(&support)?;
        if message.is_empty() {
            break;
        }
        let files = <[OwnedFd; 4]>::try_from(files);
        let (START, Ok([request, input, output, answer])) = (message.as_slice(), files) else {
            let what = "a message that asks a starter for nothing".to_owned();
            return Err(StackError::Invitation(what));
        };
        keepers.retain(|keeper| !keeper.is_finished());
        keepers.push(thread::spawn(move || keep(request.into(), [input, output], &answer)));
    }
    for keeper in keepers {
        // One that has failed has nothing to keep.
        let _ = keeper.join();
    }
    Ok(())
}

/// Starts a process, says what has come of it, and keeps it until it is let go of.
fn keep(request: File, files: [OwnedFd; 2], socket: &OwnedFd) {
    let started = start(request, files);
    let answer: Answer = started.as_ref().map(Leader::id).map_err(Failure::from);
    let told = serde_json::to_vec(&answer).map_err(io::Error::from);
    if told.and_then(|text| send(socket, &text, &[])).is_ok() && started.is_ok() {
        let mut closed = [PollFd::new(socket, PollFlags::empty())];
        while poll(&mut closed, None) == Err(rustix::io::Errno::INTR) {}
    }
}

fn start(mut file: File, [input, output]: [OwnedFd; 2]) -> io::Result<Leader> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    let request: Request = serde_json::from_slice(&text)?;
    let sandbox = request.confined.then(|| Sandbox::of_program(Path::new(&request.program)));
    let mut command = Command::new(&request.program);
    command.args(request.arguments).env_clear().envs(request.environment);
    command.stdin(input).stdout(output.try_clone()?).stderr(output);
    let leader = Leader::start((None, sandbox.as_ref()), || in_our_session(&mut command))?;
    if let Some(nice) = request.nice {
        // Not this thread: it would have its turn to answer only after the process.
        priority::claim(leader.id(), nice);
    }
    Ok(leader)
}
