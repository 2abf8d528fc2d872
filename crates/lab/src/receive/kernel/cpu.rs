//! The processor time of a guest.

use std::io;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use warikomi_clock::{Span, Time};

use crate::receive::Course;

/// Time between two notes: reading takes some hundred nanoseconds for each process.
const NOTE_EVERY: Span = Span::from_ms(5);

/// Notes the processor time of a guest's kernel and of the processes in which its programs run.
pub(super) struct CpuTime {
    clocks: Vec<ClockId>,
    noted: Vec<(Time, u64)>,
}

impl CpuTime {
    /// Of the kernel with this process id, and its children of this moment.
    pub(super) fn of(kernel: u32) -> io::Result<CpuTime> {
        let children = std::fs::read_to_string(format!("/proc/{kernel}/task/{kernel}/children"))?;
        let children = children.split_whitespace().filter_map(|id| id.parse().ok());
        let clocks: Vec<ClockId> = std::iter::once(kernel as i32)
            .chain(children)
            .filter_map(|id| clock_getcpuclockid(Pid::from_raw(id)).ok())
            .collect();
        if clocks.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(CpuTime { clocks, noted: Vec::new() })
        }
    }

    /// Notes how much it has been at `now`.
    pub(super) fn note(&mut self, now: Time) {
        let times = self.clocks.iter().filter_map(|clock| clock.now().ok());
        let ns = times.map(|time| {
            time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs()
        });
        self.noted.push((now, ns.sum()));
    }

    /// The same, but not too often.
    pub(super) fn note_from_time_to_time(&mut self, now: Time) {
        if self.noted.last().is_none_or(|last| now.since(last.0) >= NOTE_EVERY) {
            self.note(now);
        }
    }

    /// What was noted.
    pub(super) fn course(self) -> Course {
        Course::new(self.noted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_uses_its_processor() {
        let mut cpu = CpuTime::of(std::process::id()).unwrap();
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        cpu.note(at(0));
        let begun = std::time::Instant::now();
        let mut number = 1u64;
        while begun.elapsed().as_millis() < 20 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        cpu.note_from_time_to_time(at(1));
        cpu.note_from_time_to_time(at(20));
        let ns = cpu.course().between(at(0), at(20)).unwrap();
        assert!(ns > 0.0, "{ns}");
        // Ids do not go so high.
        assert!(CpuTime::of(u32::MAX >> 1).is_err());
    }
}
