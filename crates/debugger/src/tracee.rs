//! A process that we trace.
//!
//! The thread that seizes it is the one that must make every call here. The process ends with us
//! (`PTRACE_O_EXITKILL`). Signals that others send it stop it for a moment, and are passed on by
//! [`Tracee::poll`]: nothing happens to it that would not have happened otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::memory::Memory;

/// The instruction of a breakpoint, `int3`.
const BREAKPOINT: u8 = 0xcc;

/// How long a process may take to stop when it is told to: it may be in a system call that cannot be interrupted.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often an instruction may repeat itself (`rep`) before it counts as one that jumps to itself.
const MOST_REPEATS: u32 = 1 << 16;

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceeError {
    /// Something else traces it, or the system forbids it.
    #[error("cannot trace process {pid} ({error}); is a debugger attached to it?")]
    Seize {
        /// The process.
        pid: u32,
        /// What the system says.
        error: io::Error,
    },
    /// A call failed that works as long as the process lives.
    #[error("the traced process is gone ({0})")]
    Gone(io::Error),
    /// Its memory cannot be read or written there.
    #[error("cannot access the traced process's memory at {address:#x}: {error}")]
    Memory {
        /// Where.
        address: u64,
        /// What the system says.
        error: io::Error,
    },
    /// It did not stop.
    #[error("the traced process has not stopped within {} s; it is {state}", STOP_TIMEOUT.as_secs())]
    NotStopped {
        /// What the system says of it.
        state: String,
    },
}

/// The registers that say where a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The next instruction.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
}

/// Why a process has stopped. It stays so until it is [resumed](Tracee::resume).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is about to execute the instruction at the breakpoint of this address.
    Breakpoint(u64),
    /// It is about to be interrupted by this signal, which it gets when it is resumed.
    Signal(Signal),
    /// It was told to.
    Interrupted,
    /// It has ended.
    Ended,
}

/// What has become of a process that ran.
enum Change {
    Signal(Signal),
    Event,
    End,
}

/// A process that we trace.
#[derive(Debug)]
pub struct Tracee {
    pid: Pid,
    memory: Memory,
    /// What stands in the program where breakpoints are.
    breakpoints: BTreeMap<u64, u8>,
    /// Breakpoints that were told of and before whose instruction a signal came, with the stack pointer there: behind
    /// the signal's handler it is there once more, and has not come by anew.
    told: BTreeSet<(u64, u64)>,
    /// Why it stands still, if it does.
    stopped: Option<Stop>,
    /// It belongs to another debugger.
    handed_over: bool,
}

impl Tracee {
    /// Takes hold of a process. It goes on.
    pub fn seize(pid: u32) -> Result<Tracee, TraceeError> {
        let of = |error: io::Error| TraceeError::Seize { pid, error };
        let id = Pid::from_raw(pid as i32);
        let memory = Memory::open_to_write(pid).map_err(of)?;
        ptrace::seize(id, ptrace::Options::PTRACE_O_EXITKILL).map_err(|e| of(e.into()))?;
        let (breakpoints, told) = (BTreeMap::new(), BTreeSet::new());
        Ok(Tracee { pid: id, memory, breakpoints, told, stopped: None, handed_over: false })
    }

    /// Its number.
    pub fn process_id(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    /// Whether it stands still.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Why it has stopped, if it has. Signals are passed on meanwhile.
    pub fn poll(&mut self) -> Result<Option<Stop>, TraceeError> {
        let stood = self.stopped.is_some();
        match self.look()? {
            Some(Stop::Signal(_)) if !stood => {
                self.resume()?;
                Ok(None)
            }
            stopped => Ok(stopped),
        }
    }

    /// Lets go of it where it stands, for another debugger: it stays there, without breakpoints of ours, and nothing
    /// here has to do with it any longer.
    pub fn hand_over(&mut self) -> Result<(), TraceeError> {
        self.clear_breakpoints()?;
        let signal = match self.stopped.take() {
            Some(Stop::Signal(signal)) => Some(signal),
            _ => None,
        };
        // It is stopped by this as soon as it is no longer by us.
        kill(self.pid, Signal::SIGSTOP).map_err(gone)?;
        ptrace::detach(self.pid, signal).map_err(gone)?;
        self.handed_over = true;
        Ok(())
    }

    /// Why it has stopped, if it has, whatever it is.
    fn look(&mut self) -> Result<Option<Stop>, TraceeError> {
        if self.handed_over {
            return Ok(None);
        }
        if self.stopped.is_none() {
            self.stopped = match self.state() {
                Ok(None) => None,
                Ok(Some(Change::Signal(Signal::SIGTRAP))) => self.trapped()?,
                Ok(Some(Change::Signal(signal))) => Some(Stop::Signal(signal)),
                Ok(Some(Change::Event)) => self.interrupted()?,
                Ok(Some(Change::End)) | Err(Errno::ECHILD) => Some(Stop::Ended),
                Err(error) => return Err(gone(error)),
            };
        }
        Ok(self.stopped)
    }

    /// It was stopped by a trap: at one of our breakpoints, or by an instruction of its own.
    fn trapped(&mut self) -> Result<Option<Stop>, TraceeError> {
        let mut registers = ptrace::getregs(self.pid).map_err(gone)?;
        let address = registers.rip.wrapping_sub(1);
        if !self.breakpoints.contains_key(&address) {
            return Ok(Some(Stop::Signal(Signal::SIGTRAP)));
        }
        registers.rip = address;
        ptrace::setregs(self.pid, registers).map_err(gone)?;
        Ok(Some(match self.told.contains(&(address, registers.rsp)) {
            true => Stop::Interrupted,
            false => Stop::Breakpoint(address),
        }))
    }

    /// It was stopped because it was told to. If it has executed a breakpoint at the same moment, the signal for that is
    /// still to come (Linux kernel/signal.c, `get_signal`), and must not come once the breakpoint is gone.
    fn interrupted(&mut self) -> Result<Option<Stop>, TraceeError> {
        let registers = ptrace::getregs(self.pid).map_err(gone)?;
        let is_behind_one = self.breakpoints.contains_key(&registers.rip.wrapping_sub(1));
        if !is_behind_one || !self.is_pending(Signal::SIGTRAP) {
            return Ok(Some(Stop::Interrupted));
        }
        ptrace::cont(self.pid, None).map_err(gone)?;
        match self.wait_for_stop()? {
            Change::Signal(Signal::SIGTRAP) => self.trapped(),
            Change::Signal(signal) => Ok(Some(Stop::Signal(signal))),
            Change::Event => Ok(Some(Stop::Interrupted)),
            Change::End => Ok(Some(Stop::Ended)),
        }
    }

    /// Whether this signal was sent to it and waits to be delivered (proc_pid_status(5)).
    fn is_pending(&self, signal: Signal) -> bool {
        let status = self.about("status");
        let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
        let pending = pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        pending.is_some_and(|set| set & (1 << (signal as u32 - 1)) != 0)
    }

    /// What the system says of it, in a file of this name.
    fn about(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.pid)).unwrap_or_default()
    }

    /// Lets it go on. At a breakpoint that still stands it first executes what is beneath.
    pub fn resume(&mut self) -> Result<(), TraceeError> {
        let Some(stop) = self.stopped else { return Ok(()) };
        let signal = match stop {
            Stop::Signal(signal) => Some(signal),
            Stop::Breakpoint(address) => self.step_over(address)?,
            Stop::Interrupted => match self.take_told()? {
                Some(address) => self.step_over(address)?,
                None => None,
            },
            Stop::Ended => None,
        };
        self.stopped = None;
        match ptrace::cont(self.pid, signal) {
            // Killed meanwhile: the next look says so.
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(gone(error)),
        }
    }

    /// The breakpoint at which it stands and which was told of before.
    fn take_told(&mut self) -> Result<Option<u64>, TraceeError> {
        if self.told.is_empty() {
            return Ok(None);
        }
        let Registers { pc, sp, .. } = self.registers()?;
        Ok(self.told.remove(&(pc, sp)).then_some(pc))
    }

    /// Executes the one instruction beneath a breakpoint. A signal that comes first is returned.
    fn step_over(&mut self, address: u64) -> Result<Option<Signal>, TraceeError> {
        let Some(&byte) = self.breakpoints.get(&address) else { return Ok(None) };
        self.write(address, &[byte])?;
        let signal = self.step_beyond(address);
        self.write(address, &[BREAKPOINT])?;
        signal
    }

    /// Executes this instruction, all its repetitions included, or comes to a signal.
    fn step_beyond(&mut self, address: u64) -> Result<Option<Signal>, TraceeError> {
        for _ in 0..MOST_REPEATS {
            ptrace::step(self.pid, None).map_err(gone)?;
            let change = self.wait_for_stop()?;
            if matches!(change, Change::End) {
                break;
            }
            let Registers { pc, sp, .. } = self.registers()?;
            match change {
                Change::Signal(signal) if signal != Signal::SIGTRAP => {
                    if pc == address {
                        self.told.insert((address, sp));
                    }
                    return Ok(Some(signal));
                }
                _ if pc != address => break,
                _ => {}
            }
        }
        Ok(None)
    }

    fn wait_for_stop(&self) -> Result<Change, TraceeError> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.state().map_err(gone)? {
                Some(change) => return Ok(change),
                None if Instant::now() > deadline => return Err(self.not_stopped()),
                None => std::hint::spin_loop(),
            }
        }
    }

    /// What has changed since it was last resumed. Its end stays to be waited for by what started it.
    fn state(&self) -> Result<Option<Change>, Errno> {
        let flags = WaitPidFlag::WEXITED
            | WaitPidFlag::WSTOPPED
            | WaitPidFlag::WNOHANG
            | WaitPidFlag::WNOWAIT;
        Ok(match waitid(Id::Pid(self.pid), flags)? {
            // waitid(2) tells both kinds of stops in the same way; only one has an event.
            WaitStatus::Stopped(_, signal) | WaitStatus::PtraceEvent(_, signal, 0) => {
                Some(Change::Signal(signal))
            }
            WaitStatus::PtraceEvent(..) => Some(Change::Event),
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => Some(Change::End),
            _ => None,
        })
    }

    /// Stops it wherever it is, and waits until it stands.
    pub fn interrupt(&mut self) -> Result<Stop, TraceeError> {
        if self.handed_over {
            return Ok(Stop::Ended);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        if let Some(stop) = self.look()? {
            return Ok(stop);
        }
        ptrace::interrupt(self.pid).map_err(gone)?;
        loop {
            // Whatever comes first is as good: a stop for a signal takes back the one that was asked for (Linux,
            // kernel/signal.c, `ptrace_stop`), so it would be waited for in vain behind it.
            match self.look()? {
                Some(stop) => return Ok(stop),
                None if Instant::now() > deadline => return Err(self.not_stopped()),
                None => std::hint::spin_loop(),
            }
        }
    }

    fn not_stopped(&self) -> TraceeError {
        let status = self.about("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        let state = state.unwrap_or("gone").trim();
        TraceeError::NotStopped {
            state: format!("{state} (system call {})", self.about("syscall").trim()),
        }
    }

    /// Where it stands. It must be stopped.
    pub fn registers(&self) -> Result<Registers, TraceeError> {
        let registers = ptrace::getregs(self.pid).map_err(gone)?;
        Ok(Registers { pc: registers.rip, sp: registers.rsp, fp: registers.rbp })
    }

    /// Puts a breakpoint there. It must be stopped, or not come by meanwhile.
    pub fn set_breakpoint(&mut self, address: u64) -> Result<(), TraceeError> {
        if self.breakpoints.contains_key(&address) {
            return Ok(());
        }
        let mut byte = [0];
        self.read(address, &mut byte)?;
        self.write(address, &[BREAKPOINT])?;
        self.breakpoints.insert(address, byte[0]);
        Ok(())
    }

    /// Takes the breakpoint away again, if there is one.
    pub fn clear_breakpoint(&mut self, address: u64) -> Result<(), TraceeError> {
        self.told.retain(|(told, _)| *told != address);
        match self.breakpoints.remove(&address) {
            Some(byte) => self.write(address, &[byte]),
            None => Ok(()),
        }
    }

    /// Takes all breakpoints away.
    pub fn clear_breakpoints(&mut self) -> Result<(), TraceeError> {
        while let Some((&address, _)) = self.breakpoints.first_key_value() {
            self.clear_breakpoint(address)?;
        }
        Ok(())
    }

    /// Reads its memory, breakpoints included.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), TraceeError> {
        let read = self.memory.read(address, bytes);
        read.map_err(|error| TraceeError::Memory { address, error })
    }

    /// Reads a word of its memory; `None` where there is none.
    pub fn word(&self, address: u64) -> Option<u64> {
        self.memory.word(address)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), TraceeError> {
        let written = self.memory.write(address, bytes);
        written.map_err(|error| TraceeError::Memory { address, error })
    }
}

impl Drop for Tracee {
    /// It goes on as if we had never been there.
    fn drop(&mut self) {
        if self.handed_over {
            return;
        }
        // It may have ended, and then nothing of this is needed.
        if let Ok(stop) = self.interrupt() {
            let _ = self.clear_breakpoints();
            let signal = match stop {
                Stop::Signal(signal) => Some(signal),
                _ => None,
            };
            let _ = ptrace::detach(self.pid, signal);
        }
    }
}

fn gone(error: Errno) -> TraceeError {
    TraceeError::Gone(error.into())
}
