//! The processes of a target: the driver, and what stands above it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use warikomi_pci::attach::layout::SOCKET_VARIABLE;
use warikomi_stack::Part;

use crate::TargetError;
use crate::console::console_pipe;
use crate::group::{Group, Guard};

/// Messages of a part that are thrown away in one look: it has nothing to say on its socket.
const MESSAGES_PER_LOOK: usize = 16;

/// A program, and what it is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Environment variables beside our own.
    pub environment: Vec<(OsString, OsString)>,
}

/// A part that runs.
struct Running {
    name: &'static str,
    socket: OwnedFd,
}

/// All parts that run; the driver is the first.
pub(super) struct Parts {
    running: Vec<Running>,
    group: Group,
    console: OwnedFd,
    core: Option<usize>,
}

/// What is wrong with a part.
pub(super) enum Trouble {
    /// It ended, with this status.
    Ended(&'static str, String),
    /// It closed its socket, but lives.
    HungUp(&'static str),
}

impl Parts {
    /// Starts the driver and hands it `files`; also gives the reading end of what all parts print.
    pub(super) fn start(
        driver: &Program,
        hello: &[u8],
        files: &[BorrowedFd<'_>],
        core: Option<usize>,
    ) -> Result<(Parts, File), TargetError> {
        let (console, console_end) = console_pipe()?;
        let (ours, theirs) = sockets()?;
        send(&ours, hello, files)?;
        let mut command = command(driver, &console_end)?;
        command.env(SOCKET_VARIABLE, "0").stdin(theirs);
        let nothing = Path::new("");
        let guard = Guard::start(nothing, nothing)?;
        let group = Group::start(guard, &mut command, core)
            .map_err(|error| cannot_run("driver", driver, error))?;
        let running = vec![Running { name: "driver", socket: ours }];
        Ok((Parts { running, group, console: console_end, core }, console))
    }

    /// Starts a further part.
    pub(super) fn add(&mut self, program: &Program, part: Part) -> Result<(), TargetError> {
        let name = part.name;
        let mut command = command(program, &self.console)?;
        let socket = part.prepare(&mut command);
        self.group
            .join(&mut command, self.core)
            .map_err(|error| cannot_run(name, program, error))?;
        self.running.push(Running { name, socket });
        Ok(())
    }

    /// Process ids of all of them.
    pub(super) fn ids(&self) -> Vec<u32> {
        (0..self.running.len()).map(|number| self.group.process_id(number)).collect()
    }

    /// What is wrong, if anything is.
    pub(super) fn look(&mut self) -> Option<Trouble> {
        for (number, part) in self.running.iter().enumerate() {
            if let Some(status) = self.group.exit_status(number) {
                return Some(Trouble::Ended(part.name, status.to_string()));
            }
            if is_closed(&part.socket) {
                return Some(Trouble::HungUp(part.name));
            }
        }
        None
    }

    /// A part whose end is the cause of all trouble for certain: one that a signal has ended, or the
    /// only one. Any other may have ended for want of another.
    pub(super) fn cause(&mut self) -> Option<Trouble> {
        let alone = self.is_driver_alone();
        self.running.iter().enumerate().find_map(|(number, part)| {
            let status = self.group.exit_status(number)?;
            let certain = alone || status.signal().is_some();
            certain.then(|| Trouble::Ended(part.name, status.to_string()))
        })
    }

    /// Whether the driver works alone.
    pub(super) fn is_driver_alone(&self) -> bool {
        self.running.len() == 1
    }

    /// Whether the driver process has ended.
    pub(super) fn driver_has_ended(&mut self) -> bool {
        self.group.exit_status(0).is_some()
    }

    /// Process id of the driver.
    pub(super) fn driver_id(&self) -> u32 {
        self.group.process_id(0)
    }

    /// Ends all of them.
    pub(super) fn end(&mut self) -> Result<(), TargetError> {
        self.group.end()
    }
}

fn cannot_run(part: &'static str, program: &Program, error: io::Error) -> TargetError {
    TargetError::CannotRun { part, path: program.path.clone(), error }
}

/// The socket of a part is its standard input: the one descriptor that a process is started with
/// without any other process, started at the same moment, getting it, too.
fn command(program: &Program, console: &OwnedFd) -> Result<Command, TargetError> {
    let share = || console.try_clone().map_err(TargetError::system("cannot share a pipe"));
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .stdout(share()?)
        .stderr(share()?);
    Ok(command)
}

fn sockets() -> Result<(OwnedFd, OwnedFd), TargetError> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    socketpair(family, kind, SocketFlags::CLOEXEC, None)
        .map_err(|error| TargetError::system("cannot make a socket pair")(error.into()))
}

fn send(socket: &OwnedFd, hello: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), TargetError> {
    warikomi_shared::send(socket, hello, files)
        .map_err(TargetError::system("cannot hand a part its memory"))
}

/// Whether nobody holds the other end any more.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut byte = [0];
    for _ in 0..MESSAGES_PER_LOOK {
        match recv(socket, &mut byte, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return false,
            Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendFlags, send};

    #[test]
    fn a_socket_is_closed_when_its_other_end_is() {
        let (ours, theirs) = sockets().unwrap();
        assert!(!is_closed(&ours));
        // What is said is not heard, and does not keep us.
        for _ in 0..3 * MESSAGES_PER_LOOK {
            send(&theirs, b"hello?", SendFlags::empty()).unwrap();
        }
        assert!(!is_closed(&ours));
        drop(theirs);
        let seen = (0..4).any(|_| is_closed(&ours));
        assert!(seen);
    }
}
