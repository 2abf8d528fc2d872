//! The calendar of a kernel in virtual time: the other end of User Mode Linux's external time travel
//! (`time-travel=ext`; Linux, include/uapi/linux/um_timetravel.h, CONFIG_UML_TIME_TRAVEL_SUPPORT).
//!
//! The kernel's time stands still while it runs. When it has nothing left to do at this time, or lets time pass, it
//! says when it wants to run again and waits; then it is told a time and runs. A message is 16 bytes: operation and
//! number (32 bits each), time in nanoseconds. Each is acknowledged with its number.
//!
//! Newer kernels (6.12) take two files with the acknowledgement of their first message, and close whatever they
//! find in their place: shared memory in which they would find the time, and a log. The memory that they are given is
//! of no version that they know, so they go on with messages, as 6.1 does.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use warikomi_clock::{Span, Time, VirtualClock};

const MESSAGE_BYTES: usize = 16;
/// The least that a kernel maps of the shared memory.
const SCHEDULE_BYTES: u64 = 4096;
/// The date that kernels start with, in nanoseconds since 1970: 2024-01-01, at every start the same.
const DATE_NS: u64 = 1_704_067_200_000_000_000;

/// Messages taken in one look. A kernel that asks for the time again and again gets it, and keeps nothing else waiting:
/// its accesses, Ctrl-C, the end of its patience.
const MESSAGES_PER_LOOK: usize = 64;

/// Operations of messages.
mod op {
    pub(super) const ACK: u32 = 0;
    pub(super) const START: u32 = 1;
    pub(super) const REQUEST: u32 = 2;
    pub(super) const WAIT: u32 = 3;
    pub(super) const GET: u32 = 4;
    pub(super) const UPDATE: u32 = 5;
    pub(super) const RUN: u32 = 6;
    pub(super) const GET_TOD: u32 = 8;
}

/// The calendar of one kernel.
pub(super) struct Calendar {
    listener: UnixListener,
    line: Option<UnixStream>,
    clock: VirtualClock,
    received: Vec<u8>,
    /// When the kernel wants to run again, in nanoseconds.
    asked_for: Option<u64>,
    waiting: bool,
    runs: u32,
    /// The number of an UPDATE that has not been acknowledged.
    listens: Option<u32>,
}

impl Calendar {
    /// One that a kernel finds at this path.
    pub(super) fn at(path: &Path, clock: VirtualClock) -> Result<Calendar> {
        let listener = warikomi_shared::listen_at(path)?;
        Ok(Calendar {
            listener,
            line: None,
            clock,
            received: Vec::with_capacity(MESSAGE_BYTES),
            asked_for: None,
            waiting: false,
            runs: 0,
            listens: None,
        })
    }

    /// The clock that it moves.
    pub(super) fn clock(&self) -> VirtualClock {
        self.clock
    }

    /// Whether the kernel has asked for its time at all.
    pub(super) fn is_asked(&self) -> bool {
        self.line.is_some()
    }

    /// Whether the kernel waits to be told that it may run.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// When the kernel wants to run again; [`Time::NEVER`] if nothing but an interrupt will make it.
    pub(super) fn next_run(&self) -> Time {
        let forever = i64::MAX as u64;
        match self.asked_for {
            Some(ns) if ns < forever / 1_000 => Time::ZERO + Span::from_ns(ns),
            _ => Time::NEVER,
        }
    }

    /// Lets the kernel run, at the time of the clock.
    pub(super) fn run(&mut self) -> Result<()> {
        (self.waiting, self.asked_for) = (false, None);
        self.runs = self.runs.wrapping_add(1);
        self.send(op::RUN, self.runs, self.now_ns())
    }

    /// Whether the kernel listens: it takes signals later, and waits for [`said`](Self::said).
    pub(super) fn is_listening(&self) -> bool {
        self.listens.is_some()
    }

    /// Lets a kernel that listens go on: what it shall hear has been said.
    pub(super) fn said(&mut self) -> Result<()> {
        let Some(number) = self.listens.take() else { return Ok(()) };
        self.send(op::ACK, number, 0)
    }

    /// Takes what the kernel says, without waiting, and a bounded part of it.
    pub(super) fn serve(&mut self) -> Result<()> {
        if self.line.is_none() {
            match self.listener.accept() {
                Ok((line, _)) if !warikomi_shared::is_peer_trusted(&line) => return Ok(()),
                Ok((line, _)) => {
                    line.set_nonblocking(true)?;
                    self.line = Some(line);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        for _ in 0..MESSAGES_PER_LOOK {
            let Some([operation, number, time]) = self.next_message()? else { break };
            self.take(operation as u32, number as u32, time)?;
        }
        Ok(())
    }

    fn take(&mut self, operation: u32, number: u32, time: u64) -> Result<()> {
        match operation {
            // Of a RUN.
            op::ACK => return Ok(()),
            op::START => return self.acknowledge_start(number),
            op::REQUEST => self.asked_for = Some(time),
            op::WAIT => self.waiting = true,
            op::UPDATE => {
                self.listens = Some(number);
                return Ok(());
            }
            op::GET => return self.send(op::ACK, number, self.now_ns()),
            op::GET_TOD => return self.send(op::ACK, number, DATE_NS),
            other => {
                let what =
                    format!("the kernel asks its calendar for an unknown operation, {other}");
                return Err(Error::new(ErrorKind::InvalidData, what));
            }
        }
        self.send(op::ACK, number, 0)
    }

    /// The next message that has come whole: operation, number, time.
    fn next_message(&mut self) -> Result<Option<[u64; 3]>> {
        let Some(line) = &mut self.line else { return Ok(None) };
        let mut bytes = [0; MESSAGE_BYTES];
        let missing = MESSAGE_BYTES - self.received.len();
        match line.read(&mut bytes[..missing]) {
            // The kernel has ended, which is found out otherwise.
            Ok(0) => return Ok(None),
            Ok(count) => self.received.extend_from_slice(&bytes[..count]),
            Err(error) if is_no_error(&error) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
        let Ok(message) = <[u8; MESSAGE_BYTES]>::try_from(&self.received[..]) else {
            return Ok(None);
        };
        self.received.clear();
        let whole = u128::from_le_bytes(message);
        let word = |shift: u32, bits: u128| (whole >> shift & bits) as u64;
        Ok(Some([word(0, 0xffff_ffff), word(32, 0xffff_ffff), word(64, u64::MAX.into())]))
    }

    fn send(&mut self, operation: u32, number: u32, time: u64) -> Result<()> {
        let message = encoded(operation, number, time);
        match self.line.as_mut().map(|line| line.write(&message)) {
            Some(Ok(MESSAGE_BYTES)) | None => Ok(()),
            // The kernel has ended, which is found out otherwise.
            Some(Err(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) => Err(Error::new(ErrorKind::WriteZero, "its calendar's line is full")),
        }
    }

    fn acknowledge_start(&mut self, number: u32) -> Result<()> {
        let Some(line) = &self.line else { return Ok(()) };
        let schedule = File::from(memfd_create("schedule", MemfdFlags::CLOEXEC)?);
        schedule.set_len(SCHEDULE_BYTES)?;
        let log = File::options().write(true).open("/dev/null")?;
        let message = encoded(op::ACK, number, 0);
        warikomi_shared::send(line, &message, &[schedule.as_fd(), log.as_fd()])
    }

    fn now_ns(&self) -> u64 {
        self.clock.now().as_ps() / 1_000
    }
}

fn encoded(operation: u32, number: u32, time: u64) -> [u8; MESSAGE_BYTES] {
    let words = u128::from(operation) | u128::from(number) << 32 | u128::from(time) << 64;
    words.to_le_bytes()
}

fn is_no_error(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        kernel: UnixStream,
        calendar: Calendar,
        _dir: tempfile::TempDir,
    }

    fn bench() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("time");
        let mut calendar = Calendar::at(&path, VirtualClock::at_zero()).unwrap();
        calendar.serve().unwrap();
        let kernel = UnixStream::connect(&path).unwrap();
        kernel.set_nonblocking(true).unwrap();
        Bench { kernel, calendar, _dir: dir }
    }

    impl Bench {
        fn say(&mut self, operation: u32, number: u32, time: u64) {
            self.kernel.write_all(&encoded(operation, number, time)).unwrap();
            self.calendar.serve().unwrap();
        }

        fn hears(&mut self) -> Option<(u32, u32, u64)> {
            let mut bytes = [0; MESSAGE_BYTES];
            self.kernel.read_exact(&mut bytes).ok()?;
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            Some((word(0), word(4), u64::from_le_bytes(bytes[8..].try_into().unwrap())))
        }
    }

    #[test]
    fn a_kernel_that_waits_runs_at_the_time_that_it_is_told() {
        let mut bench = bench();
        assert!(!bench.calendar.is_asked());
        bench.say(op::START, 1, u64::MAX);
        assert!(bench.calendar.is_asked());
        assert_eq!(bench.hears(), Some((op::ACK, 1, 0)));
        bench.say(op::REQUEST, 2, 5_000);
        assert!(!bench.calendar.is_waiting());
        bench.say(op::WAIT, 3, u64::MAX);
        assert!(bench.calendar.is_waiting());
        assert_eq!((bench.hears(), bench.hears()), (Some((op::ACK, 2, 0)), Some((op::ACK, 3, 0))));
        assert_eq!(bench.calendar.next_run(), Time::ZERO + Span::from_us(5));

        bench.calendar.clock().advance_to(Time::ZERO + Span::from_us(3));
        bench.say(op::GET, 4, 0);
        assert_eq!(bench.hears(), Some((op::ACK, 4, 3_000)));
        bench.calendar.run().unwrap();
        assert_eq!(bench.hears(), Some((op::RUN, 1, 3_000)));
        assert!(!bench.calendar.is_waiting());
        bench.say(op::ACK, 1, 0);
        assert_eq!(bench.hears(), None, "an acknowledgement is not acknowledged");
        assert_eq!(bench.calendar.next_run(), Time::NEVER);
        bench.say(op::REQUEST, 5, i64::MAX as u64);
        assert_eq!(bench.calendar.next_run(), Time::NEVER, "it sleeps until it is interrupted");
        assert_eq!(bench.hears(), Some((op::ACK, 5, 0)));
        bench.say(op::UPDATE, 6, 3_000);
        assert_eq!((bench.hears(), bench.calendar.is_listening()), (None, true));
        bench.calendar.said().unwrap();
        assert_eq!((bench.hears(), bench.calendar.is_listening()), (Some((op::ACK, 6, 0)), false));
    }

    #[test]
    fn a_kernel_that_asks_without_end_is_answered_a_part_at_a_time() {
        let mut bench = bench();
        let questions = (0..3 * MESSAGES_PER_LOOK as u32).map(|number| encoded(op::GET, number, 0));
        bench.kernel.write_all(questions.collect::<Vec<_>>().as_flattened()).unwrap();
        for _ in 0..3 {
            bench.calendar.serve().unwrap();
            let answers = std::iter::from_fn(|| bench.hears()).count();
            assert_eq!(answers, MESSAGES_PER_LOOK);
        }
    }

    #[test]
    fn half_a_message_is_waited_for_and_nonsense_is_an_error() {
        let mut bench = bench();
        let message = encoded(op::GET_TOD, 9, 0);
        bench.kernel.write_all(&message[..7]).unwrap();
        bench.calendar.serve().unwrap();
        assert_eq!(bench.hears(), None);
        bench.kernel.write_all(&message[7..]).unwrap();
        bench.calendar.serve().unwrap();
        assert_eq!(bench.hears(), Some((op::ACK, 9, DATE_NS)));
        bench.kernel.write_all(&encoded(77, 1, 0)).unwrap();
        assert!(bench.calendar.serve().unwrap_err().to_string().contains("77"));
        drop(bench.kernel);
        bench.calendar.serve().unwrap();
        bench.calendar.run().unwrap();
    }
}
