//! The kernel as a process, and everything that has to go when it goes.
//!
//! The kernel forks: its own processes run under its `ptrace`, and would be left behind, running
//! free, if only the first process were killed. So it leads a process group of its own (it would
//! start a session, and leave any other group), which is ended as a whole. A guard, a shell that
//! waits for its standard input to close, does that when we are gone, however we went, and removes
//! the directory.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::LaunchOptions;
use crate::TargetError;
use crate::cores::Pinned;

/// Where the kernel keeps its memory: a file system in memory.
const MEMORY_DIR: &str = "/dev/shm";

/// What the kernel needs there beyond its memory, in MB.
const SLACK_MB: u64 = 16;

/// Room in the console's pipe, so that a burst of messages does not stop the guest while we look
/// elsewhere. The usual limit for unprivileged users.
const CONSOLE_PIPE_BYTES: i32 = 1 << 20;

/// How long the group may take to be gone after SIGKILL.
const DEATH_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the group's id, waits for the end of its input, then cleans up.
const GUARD_SCRIPT: &str = r#"trap '' INT TERM HUP
read -r group
read -r _
[ -n "$group" ] && kill -KILL "-$group" 2>/dev/null
rm -rf -- "$1"
rm -f -- "$2""#;

/// The running kernel.
pub(super) struct Process {
    child: Child,
    /// Dismissed when the process is dropped.
    _guard: Guard,
    group: Pid,
    dir: Option<TempDir>,
    _socket: SocketFile,
    exited: Option<ExitStatus>,
}

/// Our ends of what the kernel was given.
pub(super) struct Channels {
    pub(super) listener: UnixListener,
    pub(super) agent: UnixStream,
    pub(super) console: File,
}

impl Process {
    /// Starts the kernel.
    pub(super) fn start(options: &LaunchOptions) -> Result<(Process, Channels), TargetError> {
        check_space(Path::new(MEMORY_DIR), options.memory_mb)?;
        let dir = tempfile::Builder::new()
            .prefix("warikomi-")
            .tempdir_in(MEMORY_DIR)
            .map_err(TargetError::system("cannot make a directory in /dev/shm"))?;
        // The kernel runs in another directory than we do.
        let path = match &options.socket {
            Some(path) => std::path::absolute(path)
                .map_err(TargetError::system("cannot tell where the socket should be"))?,
            None => dir.path().join("nic"),
        };
        let (listener, socket) = listen(&path)?;

        let mut guard = Guard::start(dir.path(), &path)?;
        let (ours, theirs) =
            UnixStream::pair().map_err(TargetError::system("cannot make a socket pair"))?;
        let (console, console_end) = console_pipe()?;
        let mut command = kernel_command(options, dir.path(), &path);
        command
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(console_end.try_clone().map_err(TargetError::system("cannot share a pipe"))?)
            .stderr(console_end);
        let child = start_on_core(&mut command, options.core)
            .map_err(|error| TargetError::CannotStart { path: options.kernel.clone(), error })?;
        let group = Pid::from_raw(child.id() as i32);
        guard.watch(group);
        let process =
            Process { child, _guard: guard, group, dir: Some(dir), _socket: socket, exited: None };
        Ok((process, Channels { listener, agent: ours, console }))
    }

    /// The exit status, once the kernel has ended.
    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.exited.is_none() {
            self.exited = self.child.try_wait().ok().flatten();
        }
        self.exited
    }

    /// Process id of the kernel, for a debugger.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends every process of the group, waits until they are gone, and removes the directory.
    pub(super) fn stop(&mut self) -> Result<(), TargetError> {
        if self.dir.is_none() {
            return Ok(());
        }
        let _ = killpg(self.group, Signal::SIGKILL);
        let deadline = Instant::now() + DEATH_TIMEOUT;
        let gone = wait_for(&mut self.child, deadline) && wait_for_group(self.group, deadline);
        if let Some(dir) = self.dir.take() {
            dir.close().map_err(TargetError::system("cannot remove the target's directory"))?;
        }
        if gone {
            return Ok(());
        }
        let error = std::io::Error::new(ErrorKind::TimedOut, "it survived SIGKILL for 5 s");
        Err(TargetError::System { what: "cannot end the kernel's processes", error })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to tell what went wrong.
        let _ = self.stop();
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

/// Waits until every process of the group has ended: the kernel's own processes do so a moment after
/// the kernel, and are not our children.
fn wait_for_group(group: Pid, deadline: Instant) -> bool {
    let whole_group = Pid::from_raw(-group.as_raw());
    loop {
        // Where we are their reaper, they have become ours.
        while waitpid(whole_group, Some(WaitPidFlag::WNOHANG))
            .is_ok_and(|status| status != WaitStatus::StillAlive)
        {}
        if killpg(group, None).is_err() || !has_living_member(group) {
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
struct Guard {
    child: Child,
    line: Option<ChildStdin>,
}

impl Guard {
    fn start(dir: &Path, socket: &Path) -> Result<Guard, TargetError> {
        // A group of its own, so that Ctrl-C at a terminal does not reach it.
        let mut child = Command::new("/bin/sh")
            .args(["-c", GUARD_SCRIPT, "warikomi-guard"])
            .args([dir, socket])
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
fn start_on_core(command: &mut Command, core: Option<usize>) -> std::io::Result<Child> {
    let _pinned = core.map(Pinned::to).transpose()?;
    command.spawn()
}

fn kernel_command(options: &LaunchOptions, dir: &Path, socket: &Path) -> Command {
    let mut command = Command::new(&options.kernel);
    command
        .arg(format!("mem={}M", options.memory_mb))
        .arg(format!("initrd={}", options.initramfs.display()))
        .arg(format!("virtio_uml.device={}:1234", socket.display()))
        .arg(format!("uml_dir={}", dir.display()))
        .args(["umid=target", "rdinit=/init", "root=/dev/ram0"])
        // The agent's line is the first serial line, on our standard input; the console goes out
        // through standard output. Nothing else may start a terminal.
        .args(["ssl0=fd:0", "ssl=null", "con0=null,fd:1", "con=null"])
        .args(["console=tty0", "loglevel=4", "panic=-1"])
        .args(&options.extra_arguments)
        .env_clear()
        .env("TMPDIR", dir)
        .env("HOME", dir)
        .current_dir(dir);
    command
}

/// A pipe for the console; our end does not block.
fn console_pipe() -> Result<(File, OwnedFd), TargetError> {
    let (ours, theirs) =
        nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(TargetError::errno("cannot make a pipe"))?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(TargetError::errno("cannot set up the console's pipe"))?;
    // Smaller is no error: a user may have used up what the system grants in all.
    let _ = fcntl(&ours, FcntlArg::F_SETPIPE_SZ(CONSOLE_PIPE_BYTES));
    Ok((File::from(ours), theirs))
}

/// The socket's file, which goes with this.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have gone with the target's directory.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn listen(socket: &Path) -> Result<(UnixListener, SocketFile), TargetError> {
    match UnixListener::bind(socket) {
        Ok(listener) => {
            let file = SocketFile(socket.to_owned());
            listener
                .set_nonblocking(true)
                .map_err(TargetError::system("cannot set up the NIC's socket"))?;
            Ok((listener, file))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            Err(TargetError::SocketBusy { path: socket.to_owned() })
        }
        Err(error) => {
            Err(TargetError::System { what: "cannot make the socket for the NIC", error })
        }
    }
}

fn check_space(dir: &Path, memory_mb: u64) -> Result<(), TargetError> {
    let stat = nix::sys::statvfs::statvfs(dir)
        .map_err(TargetError::errno("cannot look at /dev/shm, where the target's memory goes"))?;
    let have_mb = stat.blocks_available() * stat.fragment_size() / (1 << 20);
    let need_mb = memory_mb + SLACK_MB;
    if have_mb >= need_mb {
        return Ok(());
    }
    Err(TargetError::NoSpace { dir: dir.to_owned(), need_mb, have_mb })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

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
    fn a_busy_socket_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nic");
        let first = listen(&path).unwrap();
        let Err(error) = listen(&path) else { panic!("it was bound twice") };
        let error = error.to_string();
        assert!(error.contains("in use by another process") && error.contains("nic"), "{error}");
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn too_little_space_is_found_before_the_start() {
        let error = check_space(Path::new("/dev/shm"), 1 << 40).unwrap_err().to_string();
        assert!(error.contains("MB free"), "{error}");
    }

    #[test]
    fn the_console_pipe_does_not_block() {
        let (mut ours, _theirs) = console_pipe().unwrap();
        let error = ours.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let (_, theirs) = console_pipe().unwrap();
        let _ = File::from(theirs).write(b"x");
    }
}
