//! The processes of a target: the driver, and what stands above it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use warikomi_pci::attach::layout::SOCKET_VARIABLE;
use warikomi_stack::Part;
use warikomi_target::TargetError;
use warikomi_target::console::console_pipe;
use warikomi_target::group::{Group, Guard};

use crate::launch::{Before, Ground, Launch, Start};
use crate::priority::{self, Claims, Wanted};
use crate::resident::Resident;
use crate::starter::Starter;

/// Messages of a part that are thrown away in one look: it has nothing to say on its socket.
const MESSAGES_PER_LOOK: usize = 16;

/// How long what starts the others may take to end by itself.
const STARTER_ENDS_WITHIN: Duration = Duration::from_secs(1);

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
    /// What it claims of its core, if that is not what it was started with.
    claim: Option<i32>,
    /// How often the application got the processor during the reads that its creation waited for.
    read_dispatches: Option<u64>,
}

/// The name of a driver, whichever it is.
pub(super) const DRIVER: &str = "driver";
/// That of an application.
pub(super) const APPLICATION: &str = "application";
/// That of what starts the others.
const STARTER: &str = "starter";

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
    fn new(name: &'static str, socket: OwnedFd, process: Process) -> Running {
        Running { name, socket, process, claim: None, read_dispatches: None }
    }

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

    /// Gives it its claim, or if it is just being started, as soon as it is.
    fn set_claim(&self) {
        if let (Some(nice), Some(id)) = (self.claim, self.id()) {
            priority::claim(id, nice);
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
    ground: Ground,
    /// What starts them, if that is not we.
    starter: Option<u32>,
    confined: bool,
    /// What each claims of its core.
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
    /// Starts the first driver on a core, confined or not, and hands it `files`; it and all others are started by
    /// `starter`, if there is one. Also gives the reading end of what all parts print.
    pub(super) fn start(
        (driver, starter): (&Program, Option<&Program>),
        hello: &[u8],
        files: &[BorrowedFd<'_>],
        (core, confined): (Option<usize>, bool),
    ) -> Result<(Parts, Running, File), TargetError> {
        let (console, console_end) = console_pipe()?;
        let nothing = Path::new("");
        let mut group = Group::new(Guard::start(nothing, nothing)?);
        let mut ground = Ground { core, roster: group.roster().clone(), starter: None };
        let mut starter_id = None;
        if let Some(program) = starter {
            let mut command = command(program);
            command.stdout(share(&console_end)?).stderr(share(&console_end)?);
            let (starter, leader) = Starter::start(command, core)
                .map_err(|error| cannot_run(STARTER, program, error))?;
            starter_id = Some(group.add(leader.listed(group.roster())));
            ground.starter = Some(Arc::new(starter));
        }
        let mut parts = Parts {
            above: Vec::new(),
            group,
            console: console_end,
            ground,
            starter: starter_id,
            confined,
            claims: Claims::Equal,
            resident: Resident::default(),
            holds_programs: false,
            creation_reads: 0,
        };
        let (ours, theirs) = handed(hello, files)?;
        let first = parts.running(DRIVER, driver, (ours, theirs), confined)?;
        Ok((parts, first, console))
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
        let nice = self.claims.at_device();
        if nice.is_some() && driver.claim != nice {
            driver.claim = nice;
            driver.set_claim();
        }
    }

    /// A driver that is being started no longer comes after everything.
    pub(super) fn make_equal(&self, driver: &mut Running) {
        if self.are_drivers_first() && driver.claim.is_none() {
            driver.claim = Some(priority::EQUAL);
            driver.set_claim();
        }
    }

    /// Starts a part above the driver. An application of the user's own is trusted with what the user is.
    pub(super) fn add(
        &mut self,
        program: &Program,
        part: Part,
        is_users_own: bool,
    ) -> Result<(), TargetError> {
        let confined = self.confined && !is_users_own;
        let part = self.running(part.name, program, (part.ours, part.theirs), confined)?;
        self.claim(&part);
        self.above.push(part);
        Ok(())
    }

    /// Starts a part, with both ends of its socket, and waits until it runs.
    fn running(
        &mut self,
        name: &'static str,
        program: &Program,
        (ours, theirs): (OwnedFd, OwnedFd),
        confined: bool,
    ) -> Result<Running, TargetError> {
        let start = Start { confined, ..self.prepared(program, theirs)? };
        let leader = self.ground.start(start).map_err(|error| cannot_run(name, program, error))?;
        Ok(Running::new(name, ours, Process::Started(self.group.add(leader))))
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
        let (ours, theirs) = handed(hello, files)?;
        let (nice, reads) = match wanted {
            Some(wanted) => (self.claims.of_driver(wanted), self.creation_reads),
            None => (self.claims.at_start(name), 0),
        };
        let start = Start { nice, ..self.prepared(program, theirs)? };
        let application = self.id_above(APPLICATION);
        let before = Before { reads, application, resident: self.resident.clone() };
        let launch = Launch::begin(start, self.ground.clone(), before)?;
        Ok(Running::new(name, ours, Process::Starting(launch)))
    }

    /// What starts a program as a part: confined as all are, and with the usual claim. The socket of a part is its
    /// standard input: the one descriptor that a process is started with without any other process, started at the same
    /// moment, getting it, too.
    fn prepared(&self, program: &Program, socket: OwnedFd) -> Result<Start, TargetError> {
        let mut command = command(program);
        command.env(SOCKET_VARIABLE, "0");
        let output = share(&self.console)?;
        Ok(Start { command, input: socket, output, nice: None, confined: self.confined })
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

    /// What is wrong with anything above the driver, or with what starts all.
    pub(super) fn failure_above(&mut self) -> Option<PartFailure> {
        if let Some(status) = self.starter.and_then(|id| self.group.exit_status(id)) {
            return Some(PartFailure::Ended(STARTER, status.to_string()));
        }
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
                    Process::Started(self.group.add(launched.leader))
                }
                Err(error) => Process::NotStarted(format!("it cannot be started: {error}")),
            };
            part.set_claim();
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
        let others = self.group.end_others();
        // Without a socket what starts them ends by itself, with what it was just starting.
        self.ground.starter = None;
        if let Some(id) = self.starter.take() {
            let deadline = Instant::now() + STARTER_ENDS_WITHIN;
            while self.group.exit_status(id).is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        others.and(self.group.end())
    }
}

fn cannot_run(part: &'static str, program: &Program, error: io::Error) -> TargetError {
    TargetError::CannotRun { part, path: program.path.clone(), error }
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    let variables = program.environment.iter().map(|(name, value)| (name, value));
    command.args(&program.arguments).envs(variables);
    command
}

fn share(console: &OwnedFd) -> Result<OwnedFd, TargetError> {
    console.try_clone().map_err(TargetError::system("cannot share a pipe"))
}

/// Our end of a part's socket and its own, in which a message with its files waits.
fn handed(hello: &[u8], files: &[BorrowedFd<'_>]) -> Result<(OwnedFd, OwnedFd), TargetError> {
    let (ours, theirs) = sockets()?;
    send(&ours, hello, files)?;
    Ok((ours, theirs))
}

/// Both ends of a socket.
pub(super) fn sockets() -> Result<(OwnedFd, OwnedFd), TargetError> {
    warikomi_shared::socket_pair().map_err(TargetError::system("cannot make a socket pair"))
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
