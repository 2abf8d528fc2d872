//! Stops the guest for some microseconds, to interrupt it at a place of our choice.
//!
//! A process that is stopped (SIGSTOP) shows where it is: `/proc/PID/syscall` tells the system call
//! it is in, or that it is in none, its stack pointer and its program counter. What it is signalled
//! with meanwhile it handles, when it is let go (SIGCONT), before it executes anything else. Nothing here
//! waits: the support side goes on with its work until the process has stopped.
//!
//! A place is safe in a system call other than write(2), by which the kernel kicks a queue in the middle of
//! an access. It is also safe in no system call, if neither the program counter nor an address on the next
//! 1 KB of the stack is in `um_pci_send_cmd`, through which every access goes; the kernel's symbols say where
//! that is, and a kernel without symbols is interrupted in system calls only, and later. No place is safe on
//! the stack of interrupt handlers: a handler may have interrupted an access, and signals are taken when it
//! returns.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::symbols::KernelMap;

/// How far up the stack to look for the function that makes an access, in words. What that calls
/// has small frames; looking further finds what was left there by others.
const STACK_WORDS: usize = 128;

/// Number of write(2), the one system call that the kernel makes in the middle of an access, on the
/// only architecture that User Mode Linux has.
const SYS_WRITE: i64 = 1;

/// Where a stopped process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The system call it is in, if any.
    call: Option<i64>,
    stack_pointer: u64,
    program_counter: u64,
}

/// Why a guest is not stopped at a safe place yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The guest has been told to stop, and has not stopped yet. It takes some microseconds; if its
    /// core is taken by another process, until it has it back.
    Stopping,
    /// It was in the middle of an access, and goes on.
    Unsafe,
    /// It was interrupted, and goes on.
    Interrupted,
}

/// A guest that can be stopped.
pub(super) struct Halt {
    id: u32,
    process: OwnedFd,
    syscall: File,
    /// `None` for a kernel without symbols: it is interrupted in system calls only.
    map: Option<KernelMap>,
    /// Whether it has been told to stop.
    told: Cell<bool>,
}

impl Halt {
    /// Prepares to stop the process with this id, which must be a child of ours that has not been
    /// waited for.
    pub(super) fn new(process_id: u32, map: Option<KernelMap>) -> io::Result<Halt> {
        let id = Pid::from_raw(process_id as i32).ok_or(io::ErrorKind::InvalidInput)?;
        let process = pidfd_open(id, PidfdFlags::empty())?;
        let syscall = File::open(format!("/proc/{process_id}/syscall"))?;
        // Permission is asked for at each look: find out now that there is none.
        syscall.read_at(&mut [0], 0)?;
        Ok(Halt { id: process_id, process, syscall, map, told: Cell::new(false) })
    }

    /// Tells the guest to stop or, if it has stopped, runs `interrupt` if it is nowhere near an
    /// access, and lets it go on. Never waits: to be called until it says something else than
    /// [`Attempt::Stopping`].
    pub(super) fn attempt(&self, interrupt: impl FnOnce()) -> io::Result<Attempt> {
        if !self.told.get() {
            pidfd_send_signal(&self.process, Signal::STOP)?;
            self.told.set(true);
        }
        let seen = match self.look() {
            Ok(seen) => seen,
            Err(error) => {
                let _ = self.let_go();
                return Err(error);
            }
        };
        let Some(text) = seen else { return Ok(Attempt::Stopping) };
        let safe = parse(&text).is_some_and(|place| self.is_safe(place));
        if safe {
            interrupt();
        }
        self.let_go()?;
        Ok(if safe { Attempt::Interrupted } else { Attempt::Unsafe })
    }

    /// Whether the guest has been told to stop, and not yet let go.
    #[inline]
    pub(super) fn is_stopping(&self) -> bool {
        self.told.get()
    }

    /// Lets a guest go on that has been told to stop.
    pub(super) fn let_go(&self) -> io::Result<()> {
        if self.told.replace(false) {
            pidfd_send_signal(&self.process, Signal::CONT)?;
        }
        Ok(())
    }

    /// Where the process is, in its system's words; `None` while it runs or may run.
    fn look(&self) -> io::Result<Option<String>> {
        let mut text = [0; 256];
        let read = self.syscall.read_at(&mut text, 0)?;
        let text = std::str::from_utf8(&text[..read]).unwrap_or_default().trim_end();
        Ok((text != "running").then(|| text.to_owned()))
    }

    fn is_safe(&self, place: Place) -> bool {
        let Some(map) = &self.map else {
            return place.call.is_some_and(|call| call != SYS_WRITE);
        };
        // A handler may have interrupted an access, and returns to it with signals enabled.
        if map.is_on_interrupt_stack(place.stack_pointer) {
            return false;
        }
        match place.call {
            Some(call) => call != SYS_WRITE,
            None => !map.is_access(place.program_counter) && !self.is_called_by_access(map, place),
        }
    }

    /// Whether an access is among the callers. What lies unused on the stack may look like one; the
    /// next look is at another depth.
    fn is_called_by_access(&self, map: &KernelMap, place: Place) -> bool {
        let mut bytes = [0; STACK_WORDS * 8];
        let from = RemoteIoVec { base: place.stack_pointer as usize, len: bytes.len() };
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let id = nix::unistd::Pid::from_raw(self.id as i32);
        let Ok(read) = process_vm_readv(id, into, &[from]) else { return true };
        let (words, _) = bytes[..read].as_chunks();
        words.iter().any(|word| map.is_access(u64::from_ne_bytes(*word)))
    }
}

impl Drop for Halt {
    fn drop(&mut self) {
        // It fails only for a process that has ended.
        let _ = self.let_go();
    }
}

/// Reads `NUMBER ARGUMENT*6 SP PC`, or `-1 SP PC` outside a system call.
fn parse(text: &str) -> Option<Place> {
    let mut words = text.split(' ');
    let call: i64 = words.next()?.parse().ok()?;
    let mut from_end = words.rev().map(|word| {
        let digits = word.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    });
    let (program_counter, stack_pointer) = (from_end.next()??, from_end.next()??);
    Some(Place { call: (call >= 0).then_some(call), stack_pointer, program_counter })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A process that goes with its test, also if that fails.
    struct Guest(Child);

    impl Guest {
        fn start(program: &str, arguments: &[&str], stdout: Stdio) -> Guest {
            let mut command = Command::new(program);
            Guest(command.args(arguments).stdin(Stdio::null()).stdout(stdout).spawn().unwrap())
        }

        fn asleep() -> Guest {
            let guest = Guest::start("sleep", &["100"], Stdio::null());
            wait_until("it sleeps", || guest.state() == 'S');
            guest
        }

        fn busy() -> Guest {
            Guest::start("sh", &["-c", "while :; do :; done"], Stdio::null())
        }

        fn state(&self) -> char {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            stat.rsplit(") ").next().unwrap().chars().next().unwrap()
        }

        fn halt(&self, map: Option<KernelMap>) -> Halt {
            Halt::new(self.0.id(), map).unwrap()
        }
    }

    impl Drop for Guest {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn everywhere() -> Option<KernelMap> {
        Some(KernelMap::with(0..u64::MAX, 0..0))
    }

    /// Attempts until the guest has stopped; whether it was interrupted.
    fn interrupted(halt: &Halt, mut interrupt: impl FnMut()) -> bool {
        let begun = Instant::now();
        loop {
            match halt.attempt(&mut interrupt).unwrap() {
                Attempt::Stopping => assert!(begun.elapsed() < Duration::from_secs(20)),
                Attempt::Unsafe => return false,
                Attempt::Interrupted => return true,
            }
        }
    }

    fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_process_that_sleeps_is_in_a_system_call_and_safe() {
        let guest = Guest::asleep();
        for map in [None, everywhere()] {
            let halt = guest.halt(map);
            let mut count = 0;
            wait_until("it is in a system call", || interrupted(&halt, || count += 1));
            assert_eq!(count, 1);
            wait_until("it goes on", || guest.state() == 'S');
        }
    }

    #[test]
    fn a_process_that_is_where_it_must_not_be_interrupted_goes_on_without() {
        let guest = Guest::busy();
        let halt = guest.halt(everywhere());
        // The shell makes some system calls as it starts.
        wait_until("it is not in a system call", || !interrupted(&halt, || ()));
        wait_until("it runs on", || guest.state() == 'R');
    }

    #[test]
    fn a_process_that_is_not_near_an_access_is_interrupted_as_it_runs() {
        let guest = Guest::busy();
        // No address of code, and nothing that is likely on a stack.
        const NOWHERE: Range<u64> = 0x1234_5678_0000..0x1234_5678_0001;
        let map = KernelMap::with(NOWHERE, NOWHERE);
        let halt = guest.halt(Some(map));
        for _ in 0..100 {
            wait_until("it is interrupted", || interrupted(&halt, || ()));
        }
        wait_until("it runs on", || guest.state() == 'R');
    }

    #[test]
    fn a_process_that_writes_is_not_safe() {
        // Into a pipe that nobody reads.
        let guest = Guest::start("yes", &[], Stdio::piped());
        let halt = guest.halt(None);
        wait_until("its pipe is full", || guest.state() == 'S');
        assert!(!interrupted(&halt, || ()));
    }

    #[test]
    fn a_process_that_has_ended_is_an_error() {
        let guest = Guest::asleep();
        let halt = guest.halt(None);
        drop(guest);
        assert!(halt.attempt(|| ()).is_err());
    }

    #[test]
    fn the_kernels_text_is_understood() {
        let in_call = parse("35 0x7ffd 0x0 0x0 0x0 0x0 0x0 0x7ffd10 0x7f22").unwrap();
        let expected = Place { call: Some(35), stack_pointer: 0x7ffd10, program_counter: 0x7f22 };
        assert_eq!(in_call, expected);
        let outside = parse("-1 0x7ffd10 0x7f22").unwrap();
        assert_eq!(outside, Place { call: None, ..expected });
        for nonsense in ["", "running", "35", "-1 7 7", "x 0x1 0x2"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }
}
