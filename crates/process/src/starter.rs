//! A process of ours that [starts](crate::programs::starter) the others, in a session that is not ours.
//!
//! Linux shares cores out by session before it looks at priorities (sched(7), "The autogroup feature"). Beside a session
//! whose processes compute on two cores, the card's and the target's, others had no turn on the second for seconds, among
//! them threads of the kernel's that a start waits for. So what is on the target's core is in no session with the card;
//! and it is in one session, because a process that gives its core up (sched_yield(2)) does so for those of its session.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use nix::unistd::Pid;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use warikomi_shared::{is_readable, receive, send, socket_pair};
use warikomi_target::group::Leader;

use crate::programs::starter::{Answer, READY, Request, START};

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Our end of its socket.
pub(super) struct Starter(OwnedFd);

impl Starter {
    /// Starts it on a core.
    pub(super) fn start(
        mut command: Command,
        core: Option<usize>,
    ) -> io::Result<(Starter, Leader)> {
        let (ours, theirs) = sockets()?;
        command.stdin(theirs);
        let leader = Leader::start((core, None), || greeted(command, &ours))?;
        Ok((Starter(ours), leader))
    }

    /// Asks for a process, with files for its input and for what it prints.
    pub(super) fn ask(&self, request: &Request, files: [OwnedFd; 2]) -> io::Result<Asked> {
        let mut asked = File::from(memfd_create("warikomi-request", MemfdFlags::CLOEXEC)?);
        asked.write_all(&serde_json::to_vec(request)?)?;
        let (ours, theirs) = sockets()?;
        let [input, output] = &files;
        let sent = [asked.as_fd(), input.as_fd(), output.as_fd(), theirs.as_fd()];
        send(&self.0, START, &sent)?;
        Ok(Asked(ours))
    }
}

/// A process that was asked for; dropping it calls it off.
pub(super) struct Asked(OwnedFd);

impl Asked {
    /// The process, once it has been started; itself before.
    pub(super) fn answer(self) -> Result<io::Result<Leader>, Asked> {
        if is_readable(&self.0) { Ok(self.wait()) } else { Err(self) }
    }

    /// The process; waits until it has been started.
    pub(super) fn wait(self) -> io::Result<Leader> {
        let id = serde_json::from_slice::<Answer>(&heard(&self.0)?)??;
        Leader::of_other(Pid::from_raw(id.cast_signed()), self.0)
    }
}

/// The next message.
fn heard(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    match receive(socket) {
        Ok((message, _)) if message.is_empty() => {
            Err(io::Error::other("the process that starts the others has ended"))
        }
        Ok((message, _)) => Ok(message),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let what = format!(
                "the process that starts the others has said nothing for {} s",
                PATIENCE.as_secs()
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        }
        Err(error) => Err(error),
    }
}

/// Starts a starter; its process id once it leads its session, and with it a group.
fn greeted(mut command: Command, socket: &OwnedFd) -> io::Result<Pid> {
    let mut child = command.spawn()?;
    // With our copy of its end of the socket.
    drop(command);
    let greeting = heard(socket);
    if greeting.as_ref().is_ok_and(|message| message == READY) {
        return Ok(Pid::from_raw(child.id().cast_signed()));
    }
    // One that has ended already is what is wanted.
    let _ = child.kill().and_then(|()| child.wait());
    Err(greeting.err().unwrap_or_else(|| io::Error::other("it says what no starter says")))
}

/// Both ends of a socket; the first does not wait for ever.
fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socket_pair()?;
    set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
    Ok((ours, theirs))
}
