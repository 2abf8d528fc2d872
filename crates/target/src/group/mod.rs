//! The processes of a target, and their end.
//!
//! Each process [leads](Leader) a group of its own, with what it starts itself, and is ended with the whole of it. A
//! [guard](Guard), a shell that waits for its standard input to close, does that when we are gone, however we went, and
//! removes what we would have.

mod guard;
mod leader;

use std::io::{self, ErrorKind};
use std::process::ExitStatus;
use std::time::Instant;

use nix::unistd::Pid;

use crate::TargetError;
use crate::sandbox::Sandbox;
use leader::DEATH_TIMEOUT;

pub use guard::{Guard, Roster};
pub use leader::{Leader, in_our_session};

/// The processes of a target, and whatever these start. Each is known by its process id.
pub struct Group {
    leaders: Vec<Leader>,
    /// Dismissed when the group is dropped, which is when all have ended.
    guard: Guard,
}

impl Group {
    /// One of no processes yet.
    pub fn new(guard: Guard) -> Group {
        Group { leaders: Vec::new(), guard }
    }

    /// One of a process that is started on a core, and confined if it is said how; its process id.
    pub fn start(
        guard: Guard,
        place: (Option<usize>, Option<&Sandbox>),
        start: impl FnOnce() -> io::Result<Pid> + Send,
    ) -> io::Result<(Group, u32)> {
        let mut group = Group::new(guard);
        let first = Leader::start(place, start)?.listed(group.roster());
        let id = group.add(first);
        Ok((group, id))
    }

    /// Where processes are listed that are started elsewhere and [taken in](Self::add).
    pub fn roster(&self) -> &Roster {
        self.guard.roster()
    }

    /// Takes in a process; returns its process id.
    pub fn add(&mut self, leader: Leader) -> u32 {
        let id = leader.id();
        self.leaders.push(leader);
        id
    }

    /// The exit status of one of ours, once it has ended.
    pub fn exit_status(&mut self, id: u32) -> Option<ExitStatus> {
        self.leaders.iter_mut().find(|leader| leader.id() == id)?.exit_status()
    }

    /// Kills one of ours with what it has started, and does not wait until it is gone.
    pub fn kill(&mut self, id: u32) {
        if let Some(leader) = self.leaders.iter().find(|leader| leader.id() == id) {
            leader.kill();
        }
    }

    /// Forgets one of ours that has [ended](Self::exit_status). What it has started ends with it.
    pub fn leave(&mut self, id: u32) {
        let stays = |leader: &mut Leader| leader.id() != id || leader.exit_status().is_none();
        self.leaders.retain_mut(stays);
    }

    /// Ends those that another process of ours has started, which must wait for them, and waits until they are gone.
    pub fn end_others(&mut self) -> Result<(), TargetError> {
        end(self.leaders.iter_mut().filter(|leader| !leader.is_child()).collect())
    }

    /// Ends every process, and waits until they are gone.
    pub fn end(&mut self) -> Result<(), TargetError> {
        let others = self.end_others();
        others.and(end(self.leaders.iter_mut().collect()))
    }
}

fn end(leaders: Vec<&mut Leader>) -> Result<(), TargetError> {
    leaders.iter().for_each(|leader| leader.kill());
    let deadline = Instant::now() + DEATH_TIMEOUT;
    let are_gone = leaders.into_iter().map(|leader| leader.end(deadline));
    if are_gone.filter(|is_gone| !is_gone).count() == 0 {
        return Ok(());
    }
    let error = io::Error::new(ErrorKind::TimedOut, "they survived SIGKILL for 5 s");
    Err(TargetError::System { what: "cannot end the target's processes", error })
}

impl Drop for Group {
    fn drop(&mut self) {
        // There is no caller any more to be told what went wrong.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use nix::sys::signal::{Signal, killpg};
    use nix::sys::wait::waitpid;

    use super::leader::has_living_member;
    use super::*;

    fn group(command: &mut Command) -> (Group, u32) {
        let guard = Guard::start(Path::new(""), Path::new("")).unwrap();
        Group::start(guard, (None, None), || in_our_session(command)).unwrap()
    }

    fn join(group: &mut Group, command: &mut Command) -> u32 {
        let start = || in_our_session(command);
        let leader = Leader::start((None, None), start).unwrap();
        group.add(leader.listed(group.roster()))
    }

    fn pid(id: u32) -> Pid {
        Pid::from_raw(id.cast_signed())
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

    /// A shell that leaves a child of its own behind.
    const LEAVES_ONE: &str = "sleep 1000 & exit 3";

    #[test]
    fn all_of_a_group_ends_with_it() {
        let (mut group, first) = group(Command::new("sleep").arg("1000"));
        let other = join(&mut group, Command::new("/bin/sh").args(["-c", LEAVES_ONE]));
        let status = wait_for_end(&mut group, other);
        assert_eq!((status.code(), group.exit_status(first)), (Some(3), None));
        assert!([first, other].map(pid).into_iter().all(has_living_member));
        group.end().unwrap();
        assert!(![first, other].map(pid).into_iter().any(has_living_member));
    }

    #[test]
    fn what_one_has_started_ends_when_it_is_killed_or_forgotten() {
        let (mut group, first) = group(Command::new("sleep").arg("1000"));
        let left = join(&mut group, Command::new("/bin/sh").args(["-c", LEAVES_ONE]));
        wait_for_end(&mut group, left);
        assert!(has_living_member(pid(left)));
        group.leave(left);
        assert!(!has_living_member(pid(left)));
        let mut waits = Command::new("/bin/sh");
        let killed = join(&mut group, waits.args(["-c", "sleep 1000 & wait"]));
        group.kill(killed);
        wait_for_end(&mut group, killed);
        let deadline = Instant::now() + Duration::from_secs(10);
        while has_living_member(pid(killed)) {
            assert!(Instant::now() < deadline, "what it has started lives");
        }
        assert_eq!(group.exit_status(first), None, "the others go on");
    }

    #[test]
    fn one_of_another_parent_is_let_go_of_when_it_is_forgotten_and_its_end_is_known_before() {
        let terminated = Signal::SIGTERM as i32;
        for (script, code, signal) in
            [("exit 3", Some(3), None), ("kill -TERM $$", None, Some(terminated))]
        {
            let (mut kept, file) = io::pipe().unwrap();
            // The parent that waits for it is this test.
            let id = in_our_session(Command::new("/bin/sh").args(["-c", script])).unwrap();
            let mut group = Group::new(Guard::start(Path::new(""), Path::new("")).unwrap());
            let other = group.add(Leader::of_other(id, file.into()).unwrap());
            let status = wait_for_end(&mut group, other);
            assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
            assert!(killpg(id, None).is_ok(), "it is still there");
            group.leave(other);
            assert_eq!(kept.read(&mut [0]).unwrap(), 0, "its parent is told");
            assert_eq!(group.exit_status(other), None);
            waitpid(id, None).unwrap();
        }
    }

    #[test]
    fn nothing_of_a_group_is_left_to_be_waited_for_where_we_are_its_reaper() {
        nix::sys::prctl::set_child_subreaper(true).unwrap();
        for _ in 0..50 {
            let mut parent = Command::new("/bin/sh");
            let children = "sleep 1000 & sleep 1000 & sleep 1000 & wait";
            let (mut group, first) = group(parent.args(["-c", children]));
            std::thread::sleep(Duration::from_millis(5));
            group.end().unwrap();
            // A group of which only zombies are left still is one.
            assert!(killpg(pid(first), None).is_err());
        }
    }

    const THREADS: &str = "WARIKOMI_TEST_THREADS";

    #[test]
    #[ignore = "another test starts it, in a process of its own"]
    fn a_process_of_many_threads() {
        if std::env::var_os(THREADS).is_some() {
            let rest = || std::thread::sleep(Duration::from_secs(1_000));
            (0..100).for_each(|_| drop(std::thread::spawn(rest)));
            rest();
        }
    }

    #[test]
    fn a_process_that_ends_thread_by_thread_is_waited_for() {
        for _ in 0..20 {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "group::tests::a_process_of_many_threads", "--ignored"]);
            let (mut group, first) = group(command.env(THREADS, "1").stdout(Stdio::null()));
            let threads = || std::fs::read_dir(format!("/proc/{first}/task")).unwrap().count();
            let deadline = Instant::now() + Duration::from_secs(10);
            while threads() < 100 {
                assert!(Instant::now() < deadline, "it does not start its threads");
            }
            group.end().unwrap();
            assert_eq!(waitpid(pid(first), None), Err(nix::errno::Errno::ECHILD));
        }
    }

    #[test]
    fn members_come_and_go_also_when_the_first_has_ended() {
        let (mut group, first) = group(&mut Command::new("true"));
        assert_eq!(wait_for_end(&mut group, first).code(), Some(0));
        for _ in 0..20 {
            let id = join(&mut group, Command::new("sleep").arg("1000"));
            assert_eq!(group.exit_status(id), None);
            group.leave(id);
            group.kill(id);
            assert_eq!(wait_for_end(&mut group, id).signal(), Some(Signal::SIGKILL as i32));
            group.leave(id);
            assert_eq!((group.leaders.len(), group.exit_status(id)), (1, None));
            assert!(killpg(pid(id), None).is_err(), "it was waited for");
        }
        assert_eq!(group.exit_status(first).and_then(|status| status.code()), Some(0));
        group.leave(first);
        assert_eq!(group.exit_status(first), None);
        group.end().unwrap();
    }
}
