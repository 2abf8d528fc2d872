//! The processor time of a guest.

use std::io;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use procfs::process::Process;
use warikomi_clock::{Span, Time};

use crate::count::CountOverTime;

/// Notes the processor time of a guest's kernel and of the processes in which its programs run.
pub struct CpuTime {
    clocks: Vec<ClockId>,
    /// In virtual time nothing else has the processor: it is the time.
    is_the_time: bool,
    /// Time between two notes, at least: one takes some hundred nanoseconds for each process.
    every: Span,
    noted: Vec<(Time, u64)>,
}

impl CpuTime {
    /// Of the kernel with this process id, and its children of this moment; noted once in `every`, unless
    /// it is asked for.
    pub fn of(kernel: u32, every: Span) -> io::Result<CpuTime> {
        let first =
            Process::new(kernel.cast_signed()).and_then(|process| process.task_main_thread());
        let children = first.and_then(|thread| thread.children()).map_err(io::Error::other)?;
        let clocks: Vec<ClockId> = std::iter::once(kernel)
            .chain(children)
            .map(u32::cast_signed)
            .filter_map(|id| clock_getcpuclockid(Pid::from_raw(id)).ok())
            .collect();
        if clocks.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(CpuTime { clocks, is_the_time: false, every, noted: Vec::new() })
        }
    }

    /// Of a guest in virtual time, of which nothing takes the processor.
    pub fn of_virtual_time(every: Span) -> CpuTime {
        CpuTime { clocks: Vec::new(), is_the_time: true, every, noted: Vec::new() }
    }

    /// Notes how much it has been at `now`.
    pub fn note(&mut self, now: Time) {
        let times = self.clocks.iter().filter_map(|clock| clock.now().ok());
        let ns = times.map(|time| {
            time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs()
        });
        let ns = if self.is_the_time { now.as_ps() / 1_000 } else { ns.sum() };
        self.noted.push((now, ns));
    }

    /// The same, but not more often than it is to be.
    pub fn note_from_time_to_time(&mut self, now: Time) {
        if self.noted.last().is_none_or(|last| now.since(last.0) >= self.every) {
            self.note(now);
        }
    }

    /// The share (0 to 1) of the time from the first note to the last in which it had a processor;
    /// `None` if there are no two.
    pub fn share(&self) -> Option<f64> {
        let (first, last) = (self.noted.first()?, self.noted.last()?);
        let ns = last.0.since(first.0).as_ns();
        (ns > 0.0).then(|| last.1.saturating_sub(first.1) as f64 / ns)
    }

    /// What was noted, in nanoseconds.
    pub fn count(self) -> CountOverTime {
        CountOverTime::new(self.noted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_uses_its_processor() {
        let mut cpu = CpuTime::of(std::process::id(), Span::from_ms(5)).unwrap();
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        cpu.note(at(0));
        let begun = std::time::Instant::now();
        let mut number = 1u64;
        while begun.elapsed().as_millis() < 20 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        cpu.note_from_time_to_time(at(1));
        cpu.note_from_time_to_time(at(20));
        assert!(cpu.share().is_some_and(|share| share > 0.0), "{:?}", cpu.share());
        let ns = cpu.count().between(at(0), at(20)).unwrap();
        assert!(ns > 0.0, "{ns}");
        let mut its = CpuTime::of_virtual_time(Span::ZERO);
        [at(1), at(4)].into_iter().for_each(|now| its.note(now));
        assert_eq!(its.count().between(at(1), at(4)), Some(3e6));
        // Ids do not go so high.
        assert!(CpuTime::of(u32::MAX >> 1, Span::ZERO).is_err());
    }
}
