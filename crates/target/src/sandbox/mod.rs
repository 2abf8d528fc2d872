//! What the processes of a target may do on this machine: they run what is under test.
//!
//! Their own files, this program, and the system's programs and libraries are open to them, the latter to be read; no
//! other file, no network, no signal to a process outside, no capability, no system call that reaches further than a
//! driver or a kernel needs, and no more memory, files and processes. A program that root starts is another user's. What
//! they were handed (sockets, pipes, shared memory) is theirs as before.
//!
//! Landlock, closed calls, capabilities, `no_new_privs` and the user belong to a thread, and whatever it starts inherits
//! them. So a thread of ours confines itself, starts the process, and ends: no program stands between ours and the one
//! under test, and nothing of it runs unconfined. Limits belong to a process; they are set from outside as soon as it is
//! there.
//! Nothing here keeps us from tracing it: a process that is not confined may trace one that is.

mod calls;
mod user;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use procfs::process::all_processes;
use rustix::process::{Pid, Resource, Rlimit, geteuid, getrlimit, prlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};

use calls::Calls;
use user::OwnUser;

/// The newest of Landlock that is asked for; an older kernel holds what it knows of it.
const NEWEST: ABI = ABI::V7;

/// Where systems have their programs and libraries, to be read and run.
const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/nix/store",
    "/gnu/store",
];

/// This very program: parts of a target that are ours run it, also from a script that stands in for a driver.
const OURSELVES: &str = "/proc/self/exe";

/// Devices that tell nothing of this machine, to be read.
const SOURCES: [&str; 4] = ["/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// The one that may be written.
const NOWHERE: &str = "/dev/null";

/// Memory of its own that a process may have, in bytes; what is shared with it does not count.
const MEMORY_BYTES: u64 = 1 << 30;
/// The longest file that a process may write that has no files of its own, in bytes.
const FILE_BYTES: u64 = 64 << 20;
/// Files that a process may have open.
const FILES: u64 = 1_024;
/// Processes and threads that the user may have besides those that there were. Of root's the kernel counts none.
const FURTHER_PROCESSES: u64 = 1_024;

static PROCESSES: LazyLock<u64> = LazyLock::new(|| {
    let ours = geteuid().as_raw();
    let all = all_processes().into_iter().flatten().flatten();
    let of_this_user = all.filter(|process| process.uid().is_ok_and(|uid| uid == ours));
    let threads = of_this_user.filter_map(|process| process.stat().ok());
    threads.map(|stat| stat.num_threads.unsigned_abs()).sum::<u64>() + FURTHER_PROCESSES
});

/// How far the processes of a target are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// In all that is said above.
    Whole,
    /// This kernel's Landlock does not know all of it.
    OlderLandlock,
    /// This kernel has no Landlock: files, network and signals are open to them.
    NoLandlock,
    /// Not at all, as was asked for.
    Off,
}

impl Confinement {
    /// What this system can do, if it is wanted.
    pub fn of_this_system(wanted: bool) -> Confinement {
        if !wanted {
            return Confinement::Off;
        }
        // A thread that tries it ends with it.
        let tried = thread::spawn(|| Sandbox::default().confine_this_thread(None)).join();
        tried.map_or(Confinement::NoLandlock, |tried| tried.unwrap_or(Confinement::NoLandlock))
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Confinement::Whole => "yes",
            Confinement::OlderLandlock => "but for what this kernel's Landlock does not know",
            Confinement::NoLandlock => "not in files and network: this kernel has no Landlock",
            Confinement::Off => "no (--no-sandbox)",
        })
    }
}

/// What one process of a target may do.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// Files and directories that are its own.
    owns: Vec<PathBuf>,
    /// Files and directories that it may read and run, besides those of the system.
    reads: Vec<PathBuf>,
    file_bytes: u64,
    /// Memory of its own, if that has an end.
    memory_bytes: Option<u64>,
    calls: Calls,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox {
            owns: Vec::new(),
            reads: Vec::new(),
            file_bytes: FILE_BYTES,
            memory_bytes: Some(MEMORY_BYTES),
            calls: Calls::OfProgram,
        }
    }
}

impl Sandbox {
    /// Of a program that has no files but those that it is handed.
    pub fn of_program(program: &Path) -> Sandbox {
        Sandbox { reads: vec![program.to_owned()], ..Sandbox::default() }
    }

    /// Of a kernel in user mode. Its memory is a file; a kernel that checks each access keeps terabytes besides of which it
    /// touches a few pages, and so they have no limit.
    pub fn of_kernel(kernel: &Path) -> Sandbox {
        let program = Sandbox::of_program(kernel);
        Sandbox { memory_bytes: None, calls: Calls::OfKernel, ..program }
    }

    /// Of a program with a directory of its own, in which it may write files of this length.
    #[must_use]
    pub fn with_directory(mut self, directory: &Path, file_bytes: u64) -> Sandbox {
        self.owns.push(directory.to_owned());
        self.file_bytes = self.file_bytes.max(file_bytes);
        self
    }

    /// The same, which may also read this file or directory.
    #[must_use]
    pub fn reading(mut self, path: &Path) -> Sandbox {
        self.reads.push(path.to_owned());
        self
    }

    /// Starts a process in it, as a child of ours.
    pub fn spawn(
        &self,
        start: impl FnOnce() -> io::Result<nix::unistd::Pid> + Send,
    ) -> io::Result<nix::unistd::Pid> {
        // Counted by a thread to which `/proc` is open.
        let user = self.own_user();
        let processes = if user.is_some() { FURTHER_PROCESSES } else { *PROCESSES };
        let confined = || {
            self.confine_this_thread(user)?;
            let child = start()?;
            self.limit(child, processes).inspect_err(|_| {
                // One that has ended already is what is wanted.
                let _ = kill(child, Signal::SIGKILL).and_then(|()| waitpid(child, None));
            })?;
            Ok(child)
        };
        let started = thread::scope(|scope| scope.spawn(confined).join());
        started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it failed")))
    }

    /// The user of a program that has no files of its own, if that is to be another than ours.
    fn own_user(&self) -> Option<OwnUser> {
        // Parts of ours run this very program.
        let ourselves = std::env::current_exe().ok()?;
        let paths = self.reads.iter().map(PathBuf::as_path).chain([ourselves.as_path()]);
        let is_program = self.owns.is_empty() && self.calls == Calls::OfProgram;
        is_program.then(|| OwnUser::of(paths)).flatten()
    }

    fn confine_this_thread(&self, user: Option<OwnUser>) -> io::Result<Confinement> {
        set_no_new_privs(true)?;
        let status = self.rules().and_then(RulesetCreated::restrict_self);
        let status = status.map_err(io::Error::other)?;
        // Else a program that root starts would gain capabilities, and lose them by no_new_privs, and fixed addresses
        // with them (Linux, `cap_bprm_creds_from_file`). Who may not say so has no root's programs either.
        let _ = set_capabilities_secure_bits(CapabilitiesSecureBits::NO_ROOT);
        user.map_or(Ok(()), OwnUser::take)?;
        // Last: files of the caller may need them to be found.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets)?;
        self.calls.close()?;
        Ok(match status.ruleset {
            RulesetStatus::FullyEnforced => Confinement::Whole,
            RulesetStatus::PartiallyEnforced => Confinement::OlderLandlock,
            RulesetStatus::NotEnforced => Confinement::NoLandlock,
        })
    }

    /// What is there of the paths is allowed; what is not there, is not.
    fn rules(&self) -> Result<RulesetCreated, RulesetError> {
        let (all, read) = (AccessFs::from_all(NEWEST), AccessFs::from_read(NEWEST));
        Ruleset::default()
            .handle_access(all)?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM, read))?
            .add_rules(path_beneath_rules([OURSELVES], read))?
            .add_rules(path_beneath_rules(SOURCES, AccessFs::ReadFile))?
            .add_rules(path_beneath_rules([NOWHERE], AccessFs::ReadFile | AccessFs::WriteFile))?
            .add_rules(path_beneath_rules(&self.reads, read))?
            .add_rules(path_beneath_rules(&self.owns, all))
    }

    fn limit(&self, child: nix::unistd::Pid, processes: u64) -> io::Result<()> {
        let pid = Pid::from_raw(child.as_raw());
        let limits = [
            (Resource::Data, self.memory_bytes),
            (Resource::Fsize, Some(self.file_bytes)),
            (Resource::Nofile, Some(FILES)),
            (Resource::Nproc, Some(processes)),
        ];
        for (resource, most) in limits.into_iter().filter_map(|(of, most)| Some((of, most?))) {
            let ours = getrlimit(resource);
            let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
            let limit = Rlimit { current: least(ours.current), maximum: least(ours.maximum) };
            prlimit(pid, resource, limit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    use nix::sys::wait::WaitStatus;

    /// Starts a process by a command.
    fn start(command: &mut Command) -> io::Result<nix::unistd::Pid> {
        Ok(nix::unistd::Pid::from_raw(command.spawn()?.id().cast_signed()))
    }

    /// What a shell says of a command, and whether it succeeded.
    fn shell(sandbox: Option<&Sandbox>, script: &str) -> (String, bool) {
        let (mut printed, output) = io::pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        let child = match sandbox {
            Some(sandbox) => sandbox.spawn(|| start(&mut command)),
            None => start(&mut command),
        };
        // Our end of what it prints into goes with it.
        drop(command);
        let mut said = String::new();
        printed.read_to_string(&mut said).unwrap();
        let succeeded = matches!(waitpid(child.unwrap(), None).unwrap(), WaitStatus::Exited(_, 0));
        (said, succeeded)
    }

    fn of_shell() -> Sandbox {
        Sandbox::of_program(Path::new("/bin/sh"))
    }

    /// Whether files are closed to it on this system.
    fn closes_files() -> bool {
        Confinement::of_this_system(true) != Confinement::NoLandlock
    }

    #[test]
    fn files_of_others_are_closed_and_its_own_are_open() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("file"), "theirs").unwrap();
        let sandbox = of_shell().with_directory(own.path(), 0);
        let write = |directory: &Path| format!("echo hi > {}/new", directory.display());
        let read = format!("cat {}/file", other.path().display());
        for script in [write(other.path()), read.clone(), "cat /etc/passwd".to_owned()] {
            assert!(shell(None, &script).1, "{script}");
            assert_eq!(shell(Some(&sandbox), &script).1, !closes_files(), "{script}");
        }
        assert!(shell(Some(&sandbox), &write(own.path())).1);
        assert_eq!(std::fs::read_to_string(own.path().join("new")).unwrap(), "hi\n");
        let reading = sandbox.reading(other.path());
        assert_eq!(shell(Some(&reading), &read), ("theirs".to_owned(), true));
        assert_eq!(shell(Some(&reading), &write(other.path())).1, !closes_files());
        assert!(shell(Some(&reading), "echo hi > /dev/null").1);
    }

    #[test]
    fn it_has_no_capabilities_and_can_get_none() {
        // Read by us: nothing of /proc is open to it.
        let mut command = Command::new("/bin/sleep");
        let child = of_shell().spawn(|| start(command.arg("1000"))).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{child}/limits")).unwrap();
        kill(child, Signal::SIGKILL).unwrap();
        waitpid(child, None).unwrap();
        let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap();
        for name in ["CapInh:", "CapPrm:", "CapEff:"] {
            assert!(line(name).ends_with("\t0000000000000000"), "{}", line(name));
        }
        assert_eq!(line("NoNewPrivs:"), "NoNewPrivs:\t1");
        let limit = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(limit("Max data size"), MEMORY_BYTES);
        assert_eq!(limit("Max file size"), FILE_BYTES);
        assert!(limit("Max open files") <= FILES);
        assert!(limit("Max processes") <= *PROCESSES);
        let user = of_shell().own_user().map_or(geteuid().as_raw(), OwnUser::number);
        assert_eq!(line("Uid:"), format!("Uid:\t{user}\t{user}\t{user}\t{user}"));
        assert!(user == geteuid().as_raw() || line("Groups:").trim_end() == "Groups:");
    }

    #[test]
    fn limits_hold() {
        let own = tempfile::tempdir().unwrap();
        let sandbox = of_shell().with_directory(own.path(), 0);
        let count = |megabytes| {
            let file = own.path().join("long");
            let script = format!(
                "sleep 0.3; dd if=/dev/zero of={} bs=1048576 count={megabytes} 2>/dev/null",
                file.display()
            );
            shell(Some(&sandbox), &script).1
        };
        // The limits are there soon after the process, and not before.
        assert!(count(64) && !count(65));
        // A buffer of 2 GB is memory of its own.
        let memory = "sleep 0.3; dd if=/dev/zero of=/dev/null bs=2147483648 count=1 2>/dev/null";
        assert!(!shell(Some(&sandbox), memory).1);
    }

    #[test]
    fn signals_reach_nothing_outside() {
        let script = format!("kill -0 {}", std::process::id());
        assert!(shell(None, &script).1);
        if Confinement::of_this_system(true) == Confinement::Whole {
            assert!(!shell(Some(&of_shell()), &script).1);
        }
        assert!(shell(Some(&of_shell()), "sleep 1000 & kill -9 $!").1);
    }

    #[test]
    fn the_thread_that_starts_it_is_as_before() {
        assert!(shell(Some(&of_shell()), "true").1);
        assert!(std::fs::read("/etc/passwd").is_ok());
        assert!(shell(None, "cat /etc/passwd").1);
    }

    #[test]
    fn it_may_run_this_very_program() {
        let ours = std::env::current_exe().unwrap();
        let script = format!("{} --list > /dev/null", ours.display());
        assert!(shell(Some(&of_shell()), &script).1);
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        let missing = of_shell().spawn(|| start(&mut Command::new("/no/such/program")));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        let own = tempfile::tempdir().unwrap();
        std::fs::copy("/bin/true", own.path().join("true")).unwrap();
        let mut command = Command::new(own.path().join("true"));
        let refused = of_shell().spawn(|| start(&mut command)).is_err();
        assert_eq!(refused, closes_files());
    }

    #[test]
    fn how_far_it_goes_is_said() {
        assert_eq!(Confinement::of_this_system(false).to_string(), "no (--no-sandbox)");
        assert!(Confinement::NoLandlock.to_string().contains("no Landlock"));
    }
}
