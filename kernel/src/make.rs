//! Running the steps of a build: in a process group of their own, logged, and stoppable.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::{FileContext, KernelError, Result};

/// How often a running step looks whether it should stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a step that was told to stop may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Lines of the log that an error shows.
const TAIL_LINES: usize = 20;

/// How far a build has come, counted in lines of its output that name an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Steps done.
    pub done: u32,
    /// Steps in all: counted in an earlier build of the same kernel, or an estimate. Never less
    /// than `done`.
    pub total: u32,
    /// The step: a phase, or the object that is being made.
    pub what: &'a str,
}

/// Stops a build from another thread or a signal handler. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the build soon: its processes are ended and reaped before `build` returns.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Has it been set?
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error if it has been set.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(KernelError::Cancelled) } else { Ok(()) }
    }
}

impl From<Arc<AtomicBool>> for Cancel {
    /// A flag that somebody else sets.
    fn from(flag: Arc<AtomicBool>) -> Self {
        Cancel(flag)
    }
}

/// Runs steps one after another, all into one log.
pub(crate) struct Runner<'a> {
    log: File,
    log_path: PathBuf,
    cancel: &'a Cancel,
    tail: VecDeque<String>,
}

impl<'a> Runner<'a> {
    /// Starts the log anew.
    pub(crate) fn new(log_path: &Path, cancel: &'a Cancel) -> Result<Self> {
        let log = File::create(log_path).at("create", log_path)?;
        Ok(Self { log, log_path: log_path.to_owned(), cancel, tail: VecDeque::new() })
    }

    /// What stops it.
    pub(crate) fn cancel(&self) -> &'a Cancel {
        self.cancel
    }

    /// Runs one command to its end; gives every line of its output to `on_line`.
    pub(crate) fn run(
        &mut self,
        step: &str,
        mut command: Command,
        mut on_line: impl FnMut(&str),
    ) -> Result<()> {
        self.cancel.check()?;
        self.note(&format!("# {step}: {command:?}"))?;
        let (output, mut group) = start(&mut command)?;
        // The command holds the pipe's writing ends; as long as it lives there is no end of file.
        drop(command);
        let lines = read_lines(output);
        loop {
            match lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => {
                    self.note(&line)?;
                    on_line(&line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Leaving drops the group, which ends it.
            self.cancel.check()?;
        }
        let status = group.wait(self.cancel)?;
        if status.success() {
            return Ok(());
        }
        Err(KernelError::Step {
            step: step.to_owned(),
            status: status.to_string(),
            log: self.log_path.clone(),
            tail: self.tail.iter().fold(String::new(), |text, line| text + line + "\n"),
        })
    }

    fn note(&mut self, line: &str) -> Result<()> {
        writeln!(self.log, "{line}").at("write", &self.log_path)?;
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
        Ok(())
    }
}

/// Starts a command as the leader of a new process group, both outputs into one pipe.
fn start(command: &mut Command) -> Result<(PipeReader, Group)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut spawn = || {
        let (reader, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stderr(writer.try_clone()?).stdout(writer);
        Ok((reader, Group { child: command.process_group(0).spawn()?, reaped: false }))
    };
    spawn().map_err(|source| KernelError::Run { program, source })
}

fn read_lines(output: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        // An error ends it as the end of file does; the exit status says what happened.
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A process group; dropping it ends every member and reaps the leader.
pub(crate) struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    pub(crate) fn from_leader(child: Child) -> Self {
        Self { child, reaped: false }
    }

    fn wait(&mut self, cancel: &Cancel) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            cancel.check()?;
            std::thread::sleep(LOOK_EVERY / 10);
        }
    }

    /// The leader's end, if it has come.
    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        let status = self
            .child
            .try_wait()
            .map_err(|source| KernelError::Run { program: "wait".to_owned(), source })?;
        self.reaped |= status.is_some();
        Ok(status)
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            // A group that is gone already is what is wanted.
            let _ = killpg(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.signal(Signal::SIGTERM);
        let until = Instant::now() + GRACE;
        // Not reaped before the last signal, so that the group's id stays ours: look at the
        // leader's state only once the grace is over, or when nothing of the group is left.
        while Instant::now() < until && group_has_others(self.child.id()) {
            std::thread::sleep(LOOK_EVERY / 5);
        }
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Whether any process of the group still runs (a zombie does not).
fn group_has_others(group: u32) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else { return true };
    entries.flatten().any(|entry| {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { return false };
        // "pid (comm) state ppid pgrp ..."; the name may hold anything, so look behind its end.
        let Some((_, rest)) = stat.rsplit_once(')') else { return false };
        let mut fields = rest.split_whitespace();
        let state = fields.next();
        let pgrp = fields.nth(1).and_then(|field| field.parse::<u32>().ok());
        pgrp == Some(group) && state != Some("Z")
    })
}

/// Counts what make says that it does.
pub(crate) struct Counter<'a> {
    done: u32,
    total: u32,
    report: &'a mut dyn FnMut(Progress<'_>),
}

impl<'a> Counter<'a> {
    pub(crate) fn new(total: u32, report: &'a mut dyn FnMut(Progress<'_>)) -> Self {
        Self { done: 0, total, report }
    }

    /// A phase that has no objects.
    pub(crate) fn phase(&mut self, what: &str) {
        self.tell(what);
    }

    /// One line of make's output.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(object) = object_of(line) {
            self.done += 1;
            self.tell(object);
        }
    }

    /// Lines so far that named an object.
    pub(crate) fn done(&self) -> u32 {
        self.done
    }

    fn tell(&mut self, what: &str) {
        let total = self.total.max(self.done);
        (self.report)(Progress { done: self.done, total, what });
    }
}

/// `  CC      net/core/dev.o` names an object; anything else is talk.
fn object_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("  ")?;
    let (tool, object) = rest.split_once(' ')?;
    let is_tool = !tool.is_empty() && tool.chars().all(|c| c.is_ascii_uppercase());
    is_tool.then(|| object.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failure_shows_the_end_of_the_log_and_where_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("build.log");
        let cancel = Cancel::new();
        let mut runner = Runner::new(&log, &cancel).unwrap();
        let mut lines = 0;
        let script = "seq 100; echo oh no >&2; exit 3";
        let error = runner.run("make", shell(script), |_| lines += 1).unwrap_err().to_string();
        assert_eq!(lines, 101);
        assert!(error.contains("oh no") && error.contains("build.log"), "{error}");
        assert!(!error.contains("\n50\n"), "{error}");
        assert!(std::fs::read_to_string(&log).unwrap().contains("\n50\n"));
    }

    #[test]
    fn cancelling_ends_the_whole_group() {
        let directory = tempfile::tempdir().unwrap();
        let cancel = Cancel::new();
        let mut runner = Runner::new(&directory.path().join("log"), &cancel).unwrap();
        // The grandchildren ignore SIGTERM and hold the pipe.
        let script = "(trap '' TERM; sleep 60) & (trap '' TERM; sleep 60) & echo $$; wait";
        let mut group = 0;
        let started = Instant::now();
        let result = runner.run("step", shell(script), |line| {
            group = line.parse().unwrap();
            cancel.cancel();
        });
        assert!(matches!(result, Err(KernelError::Cancelled)));
        assert!(started.elapsed() < Duration::from_secs(20));
        assert!(group > 0);
        let until = Instant::now() + Duration::from_secs(5);
        while group_has_others(group) {
            assert!(Instant::now() < until, "a process of the group {group} is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn objects_are_counted_and_talk_is_not() {
        assert_eq!(object_of("  CC      net/core/dev.o"), Some("net/core/dev.o"));
        assert_eq!(object_of("  LD [M]  drivers/r8169.ko"), Some("[M]  drivers/r8169.ko"));
        assert_eq!(object_of("make[1]: Entering directory"), None);
        assert_eq!(object_of("  note: this is"), None);
        let mut seen = Vec::new();
        let mut report = |progress: Progress<'_>| seen.push((progress.done, progress.total));
        let mut counter = Counter::new(1, &mut report);
        for line in ["  CC      a.o", "talk", "  CC      b.o"] {
            counter.line(line);
        }
        assert_eq!(seen, [(1, 1), (2, 2)]);
    }
}
