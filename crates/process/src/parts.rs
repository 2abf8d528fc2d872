//! The processes of a target: the driver, and what stands above it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use warikomi_pci::attach::layout::SOCKET_VARIABLE;
use warikomi_stack::Part;
use warikomi_target::TargetError;
use warikomi_target::console::console_pipe;
use warikomi_target::group::{Group, Guard};
use warikomi_target::sandbox::Sandbox;

use crate::launch::{self, Launch};
use crate::priority::{self, Claims, Wanted};
use crate::resident::Resident;

/// Messages of a part that are thrown away in one look: it has nothing to say on its socket.
const MESSAGES_PER_LOOK: usize = 16;

/// A program, and what it is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Environment variables beside our own.
    pub environment: Vec<(OsString, OsString)>,
}

/// A part: its process, and our end of its socket.
pub(super) struct Running {
    name: &'static str,
    socket: OwnedFd,
    process: Process,
    /// It has a driver's claim on its core.
    raised: bool,
    /// How often the application got the processor during the reads that its creation waited for.
    read_dispatches: Option<u64>,
}

/// The name of a driver, whichever it is.
pub(super) const DRIVER: &str = "driver";
/// That of an application.
pub(super) const APPLICATION: &str = "application";

/// A process that is starting or running.
enum Process {
    /// A thread is starting it.
    Starting(Launch),
    /// It has this id; it may have ended.
    Started(u32),
    /// It could not be started.
    NotStarted(String),
}

impl Running {
    /// Its process id, once it has one.
    pub(super) fn id(&self) -> Option<u32> {
        match self.process {
            Process::Started(id) => Some(id),
            Process::Starting(_) | Process::NotStarted(_) => None,
        }
    }

    /// How often the application got the processor during the reads that its creation waited for, if it was looked at.
    pub(super) fn read_dispatches(&self) -> Option<u64> {
        self.read_dispatches
    }
}

impl Running {
    /// Ends it if it is just being started.
    pub(super) fn call_off(&mut self) {
        if let Process::Starting(_) = self.process {
            self.process = Process::NotStarted("it was called off".to_owned());
        }
    }

    /// Sends it a message with files.
    pub(super) fn tell(&self, message: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        warikomi_shared::send(&self.socket, message, files)
    }

    /// From now on a message for which there is no room is an error.
    pub(super) fn never_wait(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, true)?)
    }
}

/// The group of all parts, and what stands above the driver.
pub(super) struct Parts {
    above: Vec<Running>,
    group: Group,
    console: OwnedFd,
    core: Option<usize>,
    confined: bool,
    /// What each claims of it.
    claims: Claims,
    /// Programs that are held in memory.
    resident: Resident,
    holds_programs: bool,
    /// Reads that the creation of a driver waits for.
    creation_reads: u32,
}

/// What is wrong with a part.
#[derive(Debug)]
pub(super) enum PartFailure {
    /// It ended, with this status.
    Ended(&'static str, String),
    /// It closed its socket, but lives.
    HungUp(&'static str),
}

impl Parts {
    /// Starts the first driver on a core, confined or not, and hands it `files`; also gives the reading end of what all
    /// parts print.
    pub(super) fn start(
        driver: &Program,
        hello: &[u8],
        files: &[BorrowedFd<'_>],
        (core, confined): (Option<usize>, bool),
    ) -> Result<(Parts, Running, File), TargetError> {
        let (console, console_end) = console_pipe()?;
        let (mut command, socket) = handed(driver, &console_end, hello, files)?;
        let nothing = Path::new("");
        let guard = Guard::start(nothing, nothing)?;
        let sandbox = confined.then(|| Sandbox::of_program(&driver.path));
        let group = Group::start(guard, &mut command, core, sandbox.as_ref())
            .map_err(|error| cannot_run(DRIVER, driver, error))?;
        let process = Process::Started(group.leader());
        let parts = Parts {
            above: Vec::new(),
            group,
            console: console_end,
            core,
            confined,
            claims: Claims::Equal,
            resident: Resident::default(),
            holds_programs: false,
            creation_reads: 0,
        };
        Ok((
            parts,
            Running { name: DRIVER, socket, process, raised: false, read_dispatches: None },
            console,
        ))
    }

    /// What parts claim that are started from now on, and what is read before drivers are. Their programs are held in
    /// memory.
    pub(super) fn settle(&mut self, claims: Claims, creation_reads: u32) {
        (self.claims, self.creation_reads) = (claims, creation_reads);
        self.holds_programs = self.resident.hold_ours();
    }

    /// Whether the programs of drivers to come are held in memory.
    pub(super) fn holds_programs(&self) -> bool {
        self.holds_programs
    }

    /// Gives a part the claim with which it would be started now.
    pub(super) fn claim(&self, part: &Running) {
        let nice = match part.name {
            DRIVER => self.claims.of_driver(Wanted::Later),
            name => self.claims.at_start(name),
        };
        if let (Some(nice), Some(id)) = (nice, part.id()) {
            priority::claim(id, nice);
        }
    }

    /// Whether the driver comes before the other parts.
    pub(super) fn are_drivers_first(&self) -> bool {
        self.claims == Claims::DriversFirst
    }

    /// A driver has, or is about to get, the device.
    pub(super) fn raise(&self, driver: &mut Running) {
        if let (Some(nice), false, Some(id)) = (self.claims.at_device(), driver.raised, driver.id())
        {
            priority::claim(id, nice);
            driver.raised = true;
        }
    }

    /// A driver that is being started no longer comes after everything.
    pub(super) fn make_equal(&self, driver: &Running) {
        if let (true, false, Some(id)) = (self.are_drivers_first(), driver.raised, driver.id()) {
            priority::claim(id, priority::EQUAL);
        }
    }

    /// Starts a part above the driver. An application of the user's own is trusted with what the user is.
    pub(super) fn add(
        &mut self,
        program: &Program,
        part: Part,
        is_users_own: bool,
    ) -> Result<(), TargetError> {
        let name = part.name;
        let sandbox = self.sandbox(program).filter(|_| !is_users_own);
        let mut command = command(program, &self.console)?;
        let socket = part.prepare(&mut command);
        let id = self
            .group
            .join(&mut command, self.core, sandbox.as_ref())
            .map_err(|error| cannot_run(name, program, error))?;
        let part = Running {
            name,
            socket,
            process: Process::Started(id),
            raised: false,
            read_dispatches: None,
        };
        self.claim(&part);
        self.above.push(part);
        Ok(())
    }

    /// Begins to start a process, a driver that is wanted or another part, and hands it `files`. A thread does it: to
    /// start a process takes longer than the NIC can be left alone, and on the target's core it has to wait for its
    /// turn.
    pub(super) fn begin(
        &mut self,
        (name, wanted): (&'static str, Option<Wanted>),
        program: &Program,
        hello: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Running, TargetError> {
        let (mut command, socket) = handed(program, &self.console, hello, files)?;
        self.group.admit(&mut command);
        let (nice, reads) = match wanted {
            Some(wanted) => (self.claims.of_driver(wanted), self.creation_reads),
            None => (self.claims.at_start(name), 0),
        };
        let how = launch::How {
            core: self.core,
            nice,
            reads,
            application: self.id_above(APPLICATION),
            sandbox: self.sandbox(program),
            resident: self.resident.clone(),
        };
        let launch = Launch::begin(command, how)?;
        Ok(Running {
            name,
            socket,
            process: Process::Starting(launch),
            raised: false,
            read_dispatches: None,
        })
    }

    /// What a part that runs this program may do, if that is less than the user may.
    fn sandbox(&self, program: &Program) -> Option<Sandbox> {
        self.confined.then(|| Sandbox::of_program(&program.path))
    }

    /// Process id of a part above the driver, by its name.
    pub(super) fn id_above(&self, name: &str) -> Option<u32> {
        self.above.iter().find(|part| part.name == name)?.id()
    }

    /// Process ids of all that live above the driver.
    pub(super) fn ids_above(&self) -> impl Iterator<Item = u32> {
        self.above.iter().filter_map(Running::id)
    }

    /// What is wrong with a part, if anything is.
    pub(super) fn failure_of(&mut self, part: &mut Running) -> Option<PartFailure> {
        if let Some(status) = self.end_of(part) {
            return Some(PartFailure::Ended(part.name, status));
        }
        (part.id().is_some() && is_closed(&part.socket)).then_some(PartFailure::HungUp(part.name))
    }

    /// What is wrong with anything above the driver.
    pub(super) fn failure_above(&mut self) -> Option<PartFailure> {
        let mut above = std::mem::take(&mut self.above);
        let failure = above.iter_mut().find_map(|part| self.failure_of(part));
        self.above = above;
        failure
    }

    /// The part that a signal has ended: the cause of every other failure. Any other may have ended for want of
    /// another, unless it is the only one.
    pub(super) fn cause(&mut self, driver: Option<&Running>) -> Option<PartFailure> {
        let alone = self.above.is_empty();
        driver.into_iter().chain(&self.above).find_map(|part| {
            let status = self.group.exit_status(part.id()?)?;
            let certain = alone || status.signal().is_some();
            certain.then(|| PartFailure::Ended(part.name, status.to_string()))
        })
    }

    /// How a part's process ended, if it has.
    pub(super) fn end_of(&mut self, part: &mut Running) -> Option<String> {
        if let Process::Starting(launch) = &mut part.process
            && let Some(started) = launch.outcome()
        {
            part.process = match started {
                Ok(launched) => {
                    part.read_dispatches = launched.read_dispatches;
                    Process::Started(self.group.add(launched.child))
                }
                Err(error) => Process::NotStarted(format!("it cannot be started: {error}")),
            };
        }
        match &part.process {
            Process::Starting(_) => None,
            Process::Started(id) => self.group.exit_status(*id).map(|status| status.to_string()),
            Process::NotStarted(why) => Some(why.clone()),
        }
    }

    /// Kills a part, and does not wait until it is gone. One that is just being started is killed when it is.
    pub(super) fn kill(&mut self, part: &Running) {
        if let Some(id) = part.id() {
            self.group.kill(id);
        }
    }

    /// Lets go of a part that has ended.
    pub(super) fn forget(&mut self, part: Running) {
        if let Some(id) = part.id() {
            self.group.leave(id);
        }
    }

    /// Whether there is nothing above the driver.
    pub(super) fn is_driver_alone(&self) -> bool {
        self.above.is_empty()
    }

    /// Lets go of what is above the driver, which sees that it is over, and waits until it has ended, for so long at
    /// most.
    pub(super) fn hang_up(&mut self, within: Duration) {
        let ids: Vec<u32> = self.above.drain(..).filter_map(|part| part.id()).collect();
        let deadline = Instant::now() + within;
        while ids.iter().any(|&id| self.group.exit_status(id).is_none())
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(1));
        }
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

/// A program's command with our end of its socket, in which a message with its files waits.
fn handed(
    program: &Program,
    console: &OwnedFd,
    hello: &[u8],
    files: &[BorrowedFd<'_>],
) -> Result<(Command, OwnedFd), TargetError> {
    let (ours, theirs) = sockets()?;
    send(&ours, hello, files)?;
    let mut command = command(program, console)?;
    command.env(SOCKET_VARIABLE, "0").stdin(theirs);
    Ok((command, ours))
}

/// Both ends of a socket.
pub(super) fn sockets() -> Result<(OwnedFd, OwnedFd), TargetError> {
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
    use warikomi_testbench::seen_at_last;

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
        assert!(seen_at_last(|| is_closed(&ours)));
    }
}
