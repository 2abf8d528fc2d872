//! The processor time of a guest.

use std::io;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use procfs::process::Process;
use warikomi_clock::{Clock, Span, Time};

use crate::count::CountOverTime;

/// A time and what was read at it belong together if no more than this is between the clock's readings around it.
const TOGETHER: Span = Span::from_us(20);
/// A core that is shared may be taken away in between: then it is read again, at most as often as this.
const TRIES: usize = 10;

/// Notes the processor time of a guest's kernel and of the processes in which its programs run.
pub struct CpuTime {
    /// In virtual time nothing else has the processor: it is the time, and none of these is read.
    processes: Vec<ClockId>,
    clock: Clock,
    /// Time between two notes, at least: one takes some hundred nanoseconds for each process.
    every: Span,
    noted: Vec<(Time, u64)>,
}

impl CpuTime {
    /// Of the kernel with this process id, and its children of this moment; noted once in `every`, unless
    /// it is asked for.
    pub fn of(kernel: u32, clock: Clock, every: Span) -> io::Result<CpuTime> {
        let processes = if clock.is_virtual() { Vec::new() } else { processes(kernel)? };
        Ok(CpuTime { processes, clock, every, noted: Vec::new() })
    }

    /// Notes how much it has been until now.
    pub fn note(&mut self) {
        self.noted.push(match self.processes.is_empty() {
            true => (self.clock.now(), self.clock.now().as_ps() / 1_000),
            false => read_together(&self.clock, || sum_ns(&self.processes)),
        });
    }

    /// The same, but not more often than it is to be.
    pub fn note_from_time_to_time(&mut self) {
        if self.noted.last().is_none_or(|last| self.clock.now().since(last.0) >= self.every) {
            self.note();
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

/// The clocks of a process and of its children.
fn processes(kernel: u32) -> io::Result<Vec<ClockId>> {
    let first = Process::new(kernel.cast_signed()).and_then(|process| process.task_main_thread());
    let children = first.and_then(|thread| thread.children()).map_err(io::Error::other)?;
    let ids = std::iter::once(kernel).chain(children).map(u32::cast_signed);
    let clocks: Vec<ClockId> =
        ids.filter_map(|id| clock_getcpuclockid(Pid::from_raw(id)).ok()).collect();
    if clocks.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(clocks) }
}

fn sum_ns(processes: &[ClockId]) -> u64 {
    let times = processes.iter().filter_map(|clock| clock.now().ok());
    let ns = |time: TimeSpec| {
        time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs()
    };
    times.map(ns).sum()
}

/// What `read` returns, and the time at which it did so. A pause between the two would count as processor time of
/// no time at all, so the closest of several tries is taken.
fn read_together(clock: &Clock, mut read: impl FnMut() -> u64) -> (Time, u64) {
    let mut closest: Option<(Span, (Time, u64))> = None;
    for _ in 0..TRIES {
        let before = clock.now();
        let value = read();
        let apart = clock.now().since(before);
        if closest.is_none_or(|(least, _)| apart < least) {
            closest = Some((apart, (before, value)));
        }
        if apart <= TOGETHER {
            break;
        }
    }
    closest.expect("there is at least one try").1
}

#[cfg(test)]
mod tests {
    use warikomi_clock::{TscClock, VirtualClock};

    use super::*;

    #[test]
    fn a_process_that_works_uses_its_processor() {
        let clock = Clock::from(TscClock::calibrate().unwrap());
        let mut cpu = CpuTime::of(std::process::id(), clock, Span::from_ms(5)).unwrap();
        let begun = clock.now();
        cpu.note();
        let mut number = 1u64;
        while clock.now().since(begun) < Span::from_ms(20) {
            number = std::hint::black_box(number.wrapping_mul(3));
            cpu.note_from_time_to_time();
        }
        cpu.note();
        assert!(cpu.share().is_some_and(|share| share > 0.0), "{:?}", cpu.share());
        assert!(cpu.noted.len() <= 6, "once in 5 ms, and at the end: {:?}", cpu.noted);
        let ns = cpu.count().between(begun + Span::from_ms(1), begun + Span::from_ms(20)).unwrap();
        assert!(ns > 0.0, "{ns}");
        // Ids do not go so high.
        assert!(CpuTime::of(u32::MAX >> 1, clock, Span::ZERO).is_err());
    }

    #[test]
    fn in_virtual_time_the_processor_time_is_the_time() {
        let calendar = VirtualClock::at_zero();
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut cpu =
            CpuTime::of(std::process::id(), Clock::Virtual(calendar), Span::ZERO).unwrap();
        for ms in [1, 4] {
            calendar.advance_to(at(ms));
            cpu.note();
        }
        assert_eq!(cpu.count().between(at(1), at(4)), Some(3e6));
    }

    #[test]
    fn a_pause_between_a_time_and_what_was_read_at_it_does_not_count() {
        let calendar = VirtualClock::at_zero();
        let mut pauses = [Span::from_ms(3), Span::from_ms(1), Span::from_us(1)].into_iter();
        let pause = |span: Span| calendar.advance_to(calendar.now() + span);
        let (time, value) = read_together(&Clock::Virtual(calendar), || {
            pause(pauses.next().expect("the third try is close enough"));
            calendar.now().as_ps()
        });
        assert_eq!((time, value), (Time::ZERO + Span::from_ms(4), 4_001_000_000));
        let mut growing = 0;
        let (time, _) = read_together(&Clock::Virtual(calendar), || {
            growing += 1;
            pause(Span::from_ms(growing));
            0
        });
        assert_eq!((time, growing), (Time::ZERO + Span::from_us(4_001), 10), "the closest of ten");
    }
}
