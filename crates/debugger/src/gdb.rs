//! gdb, on a program that another debugger has let go of where it stands.

use std::fmt::Write;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use crate::code::Program;

/// What User Mode Linux signals itself with: it goes on with each.
const SIGNALS_OF_ITS_OWN: &str = "SIGSEGV SIGUSR1 SIGALRM SIGIO SIGWINCH SIGCHLD";

/// Where the system says who may trace whom (Linux, Documentation/admin-guide/LSM/Yama.rst).
const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// A gdb that was started.
#[derive(Debug)]
pub struct Gdb {
    child: Child,
    pid: Pid,
    /// Who had the terminal before.
    terminal: Option<Terminal>,
}

impl Gdb {
    /// Why there can be no gdb here, if there can be none.
    pub fn check() -> Result<(), String> {
        if Command::new("gdb").arg("--version").output().is_err() {
            return Err("there is no gdb; install it (Debian: apt-get install gdb)".to_owned());
        }
        let scope = std::fs::read_to_string(PTRACE_SCOPE).unwrap_or_default();
        match scope.trim() {
            "" | "0" => Ok(()),
            _ => Err(format!(
                "this system lets no debugger attach ({PTRACE_SCOPE} is {}); allow it: sysctl -w \
                 kernel.yama.ptrace_scope=0",
                scope.trim()
            )),
        }
    }

    /// Attaches it to a process that stands still, whose code this is, and has it carry out `commands` first. It has
    /// the terminal, if there is one: Ctrl-C is for it.
    pub fn attach(pid: u32, program: &Program, commands: &[String]) -> io::Result<Gdb> {
        let mut command = Command::new("gdb");
        command.args(["-q", "-iex", "set confirm off", "-iex", "set pagination off"]);
        for line in symbol_files(program) {
            command.args(["-ex", &line]);
        }
        command.args(["-ex", &format!("attach {pid}")]);
        command.args(["-ex", &format!("handle {SIGNALS_OF_ITS_OWN} nostop noprint pass")]);
        // The one that it was stopped with when it was let go of.
        command.args(["-ex", "handle SIGSTOP nostop noprint nopass"]);
        for line in commands {
            command.args(["-ex", line]);
        }
        let terminal = Terminal::of_ours();
        if terminal.is_some() {
            command.process_group(0);
        }
        let child = command.spawn()?;
        if let Some(terminal) = &terminal {
            terminal.give(Pid::from_raw(child.id() as i32));
        }
        Ok(Gdb { child, pid: Pid::from_raw(pid as i32), terminal })
    }

    /// Whether it has ended. The process goes on then, if it still lives.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        if self.child.try_wait()?.is_none() {
            return Ok(false);
        }
        if let Some(terminal) = self.terminal.take() {
            terminal.take_back();
        }
        // It may have left the process as it found it.
        let _ = kill(self.pid, Signal::SIGCONT);
        Ok(true)
    }
}

impl Drop for Gdb {
    /// Nothing of ours is left behind.
    fn drop(&mut self) {
        if !self.has_ended().unwrap_or(true) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Some(terminal) = self.terminal.take() {
            terminal.take_back();
        }
    }
}

/// The terminal that we were in the foreground of.
#[derive(Debug)]
struct Terminal {
    group: Pid,
}

impl Terminal {
    /// `None` if our input is no terminal, or not ours.
    fn of_ours() -> Option<Terminal> {
        let group = getpgrp();
        (tcgetpgrp(io::stdin()) == Ok(group)).then_some(Terminal { group })
    }

    fn give(&self, group: Pid) {
        set_foreground(group);
        // It may have been stopped because it read before.
        let _ = kill(group, Signal::SIGCONT);
    }

    fn take_back(self) {
        set_foreground(self.group);
    }
}

/// A process in the background that takes the terminal is stopped for it, unless it holds that signal back.
fn set_foreground(group: Pid) {
    let mut held_back = SigSet::empty();
    held_back.add(Signal::SIGTTOU);
    let before = SigSet::thread_get_mask();
    let _ = held_back.thread_block();
    let _ = tcsetpgrp(io::stdin(), group);
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
}

/// The commands by which gdb finds functions and lines.
fn symbol_files(program: &Program) -> Vec<String> {
    let files = program.parts.iter().map(|code| {
        let path = code.path.display();
        if code.sections.is_empty() {
            return format!("file \"{path}\"");
        }
        let sections = code.sections.iter().fold(String::new(), |mut all, (name, address)| {
            let _ = write!(all, " -s {name} {address:#x}");
            all
        });
        format!("add-symbol-file \"{path}\"{sections}")
    });
    let mut files: Vec<String> = files.collect();
    // The program first: it takes away what was there before.
    files.sort_by_key(|line| !line.starts_with("file"));
    files
}
