//! The processes of a target, and their end.
//!
//! They are one process group, which is ended as a whole. A guard, a shell that waits for its standard
//! input to close, does that when we are gone, however we went, and removes what we would have. The group
//! is known by the number of its leader, which nobody else must get meanwhile: so the leader, once it has
//! ended, is waited for last.

use std::io::{ErrorKind, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::TargetError;
use crate::cores::Pinned;
use crate::sandbox::Sandbox;

/// Reads the group's id, waits for the end of its input, then cleans up.
const GUARD_SCRIPT: &str = r#"trap '' INT TERM HUP
read -r group
read -r _
[ -n "$group" ] && kill -KILL "-$group" 2>/dev/null
[ -z "$1" ] || rm -rf -- "$1"
[ -z "$2" ] || rm -f -- "$2""#;

/// How long the group may take to be gone after SIGKILL.
const DEATH_TIMEOUT: Duration = Duration::from_secs(5);

/// A process of ours in a group.
struct Member {
    child: Child,
    exited: Option<ExitStatus>,
}

impl Member {
    fn new(child: Child) -> Member {
        Member { child, exited: None }
    }
}

/// The processes that we have started, and whatever these start. Each is known by its process id.
pub struct Group {
    /// The leader first; it stays.
    members: Vec<Member>,
    id: Pid,
    /// Dismissed when the group is dropped.
    _guard: Guard,
    ended: bool,
}

impl Group {
    /// Starts the leader on a core, and confined if it is said how.
    pub fn start(
        mut guard: Guard,
        command: &mut Command,
        core: Option<usize>,
        sandbox: Option<&Sandbox>,
    ) -> std::io::Result<Group> {
        let child = start_on_core(command.process_group(0), core, sandbox)?;
        let id = Pid::from_raw(child.id() as i32);
        guard.watch(id);
        Ok(Group { members: vec![Member::new(child)], id, _guard: guard, ended: false })
    }

    /// Starts another process of ours; returns its process id.
    pub fn join(
        &mut self,
        command: &mut Command,
        core: Option<usize>,
        sandbox: Option<&Sandbox>,
    ) -> std::io::Result<u32> {
        let child = start_on_core(self.admit(command), core, sandbox)?;
        Ok(self.add(child))
    }

    /// What the command starts will be in the group.
    pub fn admit<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.process_group(self.id.as_raw())
    }

    /// Takes in a process that was [admitted](Self::admit) and started elsewhere; returns its process id.
    pub fn add(&mut self, child: Child) -> u32 {
        let id = child.id();
        self.members.push(Member::new(child));
        id
    }

    /// Process id of the leader.
    pub fn leader(&self) -> u32 {
        self.id.as_raw() as u32
    }

    /// The exit status of one of ours, once it has ended.
    pub fn exit_status(&mut self, id: u32) -> Option<ExitStatus> {
        let leader = self.leader();
        let member = self.members.iter_mut().find(|member| member.child.id() == id)?;
        if member.exited.is_none() {
            member.exited = if id == leader {
                status_of_unreaped(self.id)
            } else {
                member.child.try_wait().ok().flatten()
            };
        }
        member.exited
    }

    /// Kills one of ours, and does not wait until it is gone.
    pub fn kill(&mut self, id: u32) {
        if let Some(member) = self.members.iter_mut().find(|member| member.child.id() == id)
            && member.exited.is_none()
        {
            // One that has ended already is what is wanted.
            let _ = member.child.kill();
        }
    }

    /// Forgets one of ours that has [ended](Self::exit_status).
    pub fn leave(&mut self, id: u32) {
        let leader = self.leader();
        let stays = |member: &Member| member.child.id() != id || member.exited.is_none();
        self.members.retain(|member| member.child.id() == leader || stays(member));
    }

    /// Ends every process, and waits until they are gone.
    pub fn end(&mut self) -> Result<(), TargetError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let _ = killpg(self.id, Signal::SIGKILL);
        let deadline = Instant::now() + DEATH_TIMEOUT;
        let ours_gone = self.members.iter_mut().all(|member| wait_for(&mut member.child, deadline));
        if ours_gone && wait_for_group(self.id, deadline) {
            return Ok(());
        }
        let error = std::io::Error::new(ErrorKind::TimedOut, "they survived SIGKILL for 5 s");
        Err(TargetError::System { what: "cannot end the target's processes", error })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody is left to tell what went wrong.
        let _ = self.end();
    }
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

fn wait_for(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

/// Waits until every process of the group has ended: a kernel's own processes do so a moment after
/// the kernel, and are not our children.
fn wait_for_group(group: Pid, deadline: Instant) -> bool {
    let whole_group = Pid::from_raw(-group.as_raw());
    loop {
        let have_ended = killpg(group, None).is_err() || !has_living_member(group);
        // Where we are their reaper, they have become ours; also the last of them, behind the look at them.
        while waitpid(whole_group, Some(WaitPidFlag::WNOHANG))
            .is_ok_and(|status| status != WaitStatus::StillAlive)
        {}
        if have_ended {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process of the group is there that has not ended. One that nobody has waited for yet
/// is still listed, as a zombie, for as long as its reaper takes.
fn has_living_member(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name is in brackets and may hold anything.
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, of_group) = (fields.next(), fields.nth(1));
        of_group == Some(&group.to_string()) && !matches!(state, Some("Z" | "X"))
    })
}

/// The guard process; dropping it dismisses it.
pub struct Guard {
    child: Child,
    line: Option<ChildStdin>,
}

impl Guard {
    /// A guard that removes a directory and a file once it has ended the group; an empty path is none.
    pub fn start(dir: &Path, file: &Path) -> Result<Guard, TargetError> {
        // A group of its own, so that Ctrl-C at a terminal does not reach it.
        let mut child = Command::new("/bin/sh")
            .args(["-c", GUARD_SCRIPT, "warikomi-guard"])
            .args([dir, file])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(TargetError::system("cannot start /bin/sh as the target's guard"))?;
        let line = child.stdin.take();
        Ok(Guard { child, line })
    }

    fn watch(&mut self, group: Pid) {
        // A guard that has died already cannot be told; without it only a SIGKILL to us would
        // leave the target behind.
        let _ = self.line.as_mut().map(|line| writeln!(line, "{group}"));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a process on one core: children inherit the affinity of the thread that starts them.
fn start_on_core(
    command: &mut Command,
    core: Option<usize>,
    sandbox: Option<&Sandbox>,
) -> std::io::Result<Child> {
    let _pinned = core.map(Pinned::to).transpose()?;
    match sandbox {
        Some(sandbox) => sandbox.spawn(command),
        None => command.spawn(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_cleans_up_when_its_line_closes() {
        let dir = tempfile::tempdir().unwrap().keep();
        let mut sleeper = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let mut guard = Guard::start(&dir, &dir.join("nic")).unwrap();
        guard.watch(Pid::from_raw(sleeper.id() as i32));
        drop(guard.line.take());
        let deadline = Instant::now() + Duration::from_secs(10);
        assert!(wait_for(&mut sleeper, deadline) && wait_for(&mut guard.child, deadline));
        assert!(!dir.exists());
    }

    #[test]
    fn all_of_a_group_ends_with_it() {
        let nothing = Path::new("");
        let guard = Guard::start(nothing, nothing).unwrap();
        let mut sleeper = Command::new("sleep");
        let mut group = Group::start(guard, sleeper.arg("1000"), None, None).unwrap();
        // One that leaves a child of its own behind.
        let mut parent = Command::new("/bin/sh");
        let member = group.join(parent.args(["-c", "sleep 1000 & exit 3"]), None, None).unwrap();
        let status = wait_for_end(&mut group, member);
        let leader = group.leader();
        assert_eq!((status.code(), group.exit_status(leader)), (Some(3), None));
        let id = group.id;
        group.end().unwrap();
        assert!(!has_living_member(id));
    }

    #[test]
    fn nothing_of_a_group_is_left_to_be_waited_for_where_we_are_its_reaper() {
        nix::sys::prctl::set_child_subreaper(true).unwrap();
        let nothing = Path::new("");
        for _ in 0..50 {
            let guard = Guard::start(nothing, nothing).unwrap();
            let mut parent = Command::new("/bin/sh");
            let children = "sleep 1000 & sleep 1000 & sleep 1000 & wait";
            let mut group = Group::start(guard, parent.args(["-c", children]), None, None).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            group.end().unwrap();
            // A group of which only zombies are left still is one.
            assert!(killpg(group.id, None).is_err());
        }
    }

    fn wait_for_end(group: &mut Group, id: u32) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match group.exit_status(id) {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "it does not end"),
            }
        }
    }

    #[test]
    fn members_come_and_go_also_when_the_leader_has_ended() {
        let nothing = Path::new("");
        let guard = Guard::start(nothing, nothing).unwrap();
        let mut group = Group::start(guard, &mut Command::new("true"), None, None).unwrap();
        let leader = group.leader();
        assert_eq!(wait_for_end(&mut group, leader).code(), Some(0));
        for _ in 0..20 {
            let id = group.join(Command::new("sleep").arg("1000"), None, None).unwrap();
            assert_eq!(group.exit_status(id), None);
            group.leave(id);
            group.kill(id);
            assert_eq!(wait_for_end(&mut group, id).signal(), Some(Signal::SIGKILL as i32));
            group.leave(id);
            assert_eq!((group.members.len(), group.exit_status(id)), (1, None));
        }
        group.leave(leader);
        assert_eq!(group.exit_status(leader).and_then(|status| status.code()), Some(0));
        group.end().unwrap();
    }
}
