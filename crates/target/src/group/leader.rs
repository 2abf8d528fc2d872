//! A process of ours, and what it starts.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};
use warikomi_shared::is_readable;

use super::guard::Roster;
use crate::cores::Pinned;
use crate::sandbox::Sandbox;

/// How long a group may take to be gone after SIGKILL.
pub(super) const DEATH_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the exit status is in `/proc/PID/stat` behind the state: it is the 52nd field.
const EXIT_CODE: usize = 52 - 3;

/// Starts a process that leads a group in our session.
pub fn in_our_session(command: &mut Command) -> io::Result<Pid> {
    // Its handle may go: that neither ends the process nor waits for it.
    Ok(Pid::from_raw(command.process_group(0).spawn()?.id().cast_signed()))
}

/// A process that leads a group: itself, and what it starts. Dropping it ends them.
///
/// The group is known by the number of its leader, which no other process must get meanwhile: so the leader, once it
/// has ended, is not waited for before the group is ended.
#[derive(Debug)]
pub struct Leader {
    id: Pid,
    parent: Parent,
    exited: Option<ExitStatus>,
    line: Option<(Roster, usize)>,
    ended: bool,
}

/// Who waits for it.
#[derive(Debug)]
enum Parent {
    Us,
    /// Another process of ours, once the second of these is closed; the first is readable when it has ended.
    Other(Option<(OwnedFd, OwnedFd)>),
}

impl Leader {
    /// Starts a child of ours on a core, and confined if it is said how.
    pub fn start(
        (core, sandbox): (Option<usize>, Option<&Sandbox>),
        start: impl FnOnce() -> io::Result<Pid> + Send,
    ) -> io::Result<Leader> {
        // Children inherit the affinity of the thread that starts them.
        let _pinned = core.map(Pinned::to).transpose()?;
        let id = match sandbox {
            Some(sandbox) => sandbox.spawn(start)?,
            None => start()?,
        };
        Ok(Leader { id, parent: Parent::Us, exited: None, line: None, ended: false })
    }

    /// One that another process of ours has started, which will wait for it when this file is closed.
    pub fn of_other(id: Pid, file: OwnedFd) -> io::Result<Leader> {
        let found = rustix::process::Pid::from_raw(id.as_raw());
        let found = found.ok_or(io::ErrorKind::InvalidInput)?;
        let ends = pidfd_open(found, PidfdFlags::empty())?;
        let parent = Parent::Other(Some((ends, file)));
        Ok(Leader { id, parent, exited: None, line: None, ended: false })
    }

    /// If we die, what has this list ends it.
    #[must_use]
    pub fn listed(mut self, roster: &Roster) -> Leader {
        self.line = Some((roster.clone(), roster.enter(self.id)));
        self
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id.as_raw().cast_unsigned()
    }

    /// Whether it is a child of ours.
    pub(super) fn is_child(&self) -> bool {
        matches!(self.parent, Parent::Us)
    }

    /// Its exit status, once it has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.exited.is_none() && !self.ended {
            self.exited = match &self.parent {
                Parent::Us => status_of_unreaped(self.id),
                Parent::Other(files) => {
                    let has_ended = files.as_ref().is_some_and(|(ends, _)| is_readable(ends));
                    has_ended.then(|| status_of_zombie(self.id)).flatten()
                }
            };
        }
        self.exited
    }

    /// Kills the group, and does not wait until it is gone.
    pub fn kill(&self) {
        if !self.ended {
            // One that has ended already is what is wanted.
            let _ = killpg(self.id, Signal::SIGKILL);
        }
    }

    /// Ends the group; whether it is gone by then.
    pub fn end(&mut self, deadline: Instant) -> bool {
        if self.ended {
            return true;
        }
        self.let_go();
        (!self.is_child() || wait_for_child(self.id, deadline)) && wait_for_group(self.id, deadline)
    }

    /// Kills the group, and lets its leader be waited for.
    fn let_go(&mut self) {
        if self.ended {
            return;
        }
        self.exit_status();
        self.kill();
        self.ended = true;
        if let Some((roster, line)) = self.line.take() {
            roster.strike(line);
        }
        if let Parent::Other(files) = &mut self.parent {
            *files = None;
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.is_child() {
            self.end(Instant::now() + DEATH_TIMEOUT);
        } else {
            // Its parent sees to it.
            self.let_go();
        }
    }
}

/// The exit status of a process that has ended and that its parent has not waited for. The card waits meanwhile, and
/// `procfs` takes several system calls more.
fn status_of_zombie(id: Pid) -> Option<ExitStatus> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    fields_behind_name(&stat).nth(EXIT_CODE)?.trim_end().parse().ok().map(ExitStatus::from_raw)
}

/// Fields of `/proc/PID/stat` from the state on, which is the third (proc(5)): the name before is in brackets and may
/// hold anything.
fn fields_behind_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit(") ").next().unwrap_or_default().split(' ')
}

/// The exit status of a child that has ended, which stays to be waited for.
fn status_of_unreaped(id: Pid) -> Option<ExitStatus> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(id), flags).ok()? {
        WaitStatus::Exited(_, code) => Some(ExitStatus::from_raw((code & 0xff) << 8)),
        WaitStatus::Signaled(_, signal, _) => Some(ExitStatus::from_raw(signal as i32)),
        _ => None,
    }
}

/// Waits for a child. One of several threads may be listed as a zombie before the last of them has ended.
fn wait_for_child(id: Pid, deadline: Instant) -> bool {
    while waitpid(id, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Waits until every process of a group has ended. What its leader has started ends a moment after it, and is not our
/// child.
fn wait_for_group(group: Pid, deadline: Instant) -> bool {
    loop {
        reap(group);
        if killpg(group, None).is_err() {
            return true;
        }
        if !has_living_member(group) {
            // Where we are their reaper, the last of them has become ours behind the first look.
            reap(group);
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for what has ended of a group and is our child.
fn reap(group: Pid) {
    let whole_group = Pid::from_raw(-group.as_raw());
    while waitpid(whole_group, Some(WaitPidFlag::WNOHANG))
        .is_ok_and(|status| status != WaitStatus::StillAlive)
    {}
}

/// Whether a process of the group is there that has not ended. One that has not been waited for is still listed, as a
/// zombie.
pub(super) fn has_living_member(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let mut fields = fields_behind_name(&stat);
        let (state, of_group) = (fields.next(), fields.nth(1));
        of_group == Some(&group.to_string()) && !matches!(state, Some("Z" | "X"))
    })
}
