//! The processor time of a guest.
//!
//! Linux brings the time of a process that runs on another core up to date at that core's ticks, and when the process
//! gives the core up (kernel/time/posix-cpu-timers.c: `thread_group_cputime` asks the scheduler for the caller's own
//! process alone). So what is read may be a tick old: 4 ms at 250 a second, in which a guest sends 10,000 packets. What
//! has changed is of a moment since the reading before.

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

/// A share is told if the time that it is of is known as well as this: the time of a tick or less is not.
const MOST_UNCERTAIN_SHARE: f64 = 0.05;

/// What was read, and between which times it was true.
#[derive(Clone, Copy, Debug)]
struct Note {
    from: Time,
    until: Time,
    ns: u64,
}

impl Note {
    fn width_ns(&self) -> f64 {
        self.until.since(self.from).as_ns()
    }
}

/// Notes the processor time of a guest's kernel and of the processes in which its programs run.
pub struct CpuTime {
    /// In virtual time nothing else has the processor: it is the time, and none of these is read.
    processes: Vec<ClockId>,
    clock: Clock,
    /// Time between two notes, at least: one takes some hundred nanoseconds for each process.
    every: Span,
    noted: Vec<Note>,
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
            true => {
                let now = self.clock.now();
                Note { from: now, until: now, ns: now.as_ps() / 1_000 }
            }
            false => read_together(&self.clock, || sum_ns(&self.processes)),
        });
    }

    /// The same, but not more often than it is to be.
    pub fn note_from_time_to_time(&mut self) {
        if self.noted.last().is_none_or(|last| self.clock.now().since(last.from) >= self.every) {
            self.note();
        }
    }

    /// The share (0 to 1) of the time in which it had a processor, from the first change that was noted to the last;
    /// `None` if that is too short a time to tell.
    pub fn share(&self) -> Option<f64> {
        share(&self.noted)
    }

    /// What was noted, in nanoseconds.
    pub fn count(self) -> CountOverTime {
        CountOverTime::new(self.noted.into_iter().map(|note| (note.from, note.ns)))
    }
}

fn share(noted: &[Note]) -> Option<f64> {
    let changed = noted.windows(2).filter(|pair| pair[0].ns < pair[1].ns);
    let mut changes = changed.map(|pair| Note { from: pair[0].from, ..pair[1] });
    let first = changes.next()?;
    let last = changes.next_back()?;
    // From the middle of one to the middle of the other.
    let between = last.from.since(first.from).as_ns() + last.until.since(first.until).as_ns();
    let between = between / 2.0;
    let uncertain = (first.width_ns() + last.width_ns()) / 2.0;
    let is_known = uncertain <= MOST_UNCERTAIN_SHARE * between;
    is_known.then(|| (last.ns - first.ns) as f64 / between)
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

/// What `read` returns, and when. A pause in between would count as processor time of no time at all, so the closest of
/// several tries is taken.
fn read_together(clock: &Clock, mut read: impl FnMut() -> u64) -> Note {
    let mut once = || {
        let (from, ns) = (clock.now(), read());
        Note { from, until: clock.now(), ns }
    };
    let apart = |note: &Note| note.until.since(note.from);
    let mut closest = once();
    for _ in 1..TRIES {
        if apart(&closest) <= TOGETHER {
            break;
        }
        let again = once();
        if apart(&again) < apart(&closest) {
            closest = again;
        }
    }
    closest
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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
        assert!(cpu.noted.len() <= 6, "once in 5 ms, and at the end: {:?}", cpu.noted);
        let ns = cpu.count().between(begun + Span::from_ms(1), begun + Span::from_ms(20)).unwrap();
        assert!(ns > 0.0, "{ns}");
        // Ids do not go so high.
        assert!(CpuTime::of(u32::MAX >> 1, clock, Span::ZERO).is_err());
    }

    /// Notes of a process that has its core this share of the time, as a system shows them that brings them up to date
    /// every 4 ms.
    fn noted(share: f64, for_us: u64, every_us: u64, phase_us: u64) -> Vec<Note> {
        let at = |us: u64| {
            let (from, ticks) = (Time::ZERO + Span::from_us(us), (us + phase_us) / 4_000);
            let ns = (4e6 * share * ticks as f64) as u64;
            Note { from, until: from + Span::from_ns(500), ns }
        };
        (0..for_us).step_by(every_us as usize).map(at).collect()
    }

    #[test]
    fn a_share_is_right_whenever_the_ticks_are_or_there_is_none() {
        for phase_us in (0..4_000).step_by(50) {
            for wanted in [0.1, 0.5, 1.0] {
                let known = share(&noted(wanted, 12_500, 100, phase_us)).expect("three ticks");
                assert!((known / wanted - 1.0).abs() < 0.03, "{known} for {wanted} at {phase_us}");
            }
            assert_eq!(share(&noted(1.0, 4_000, 100, phase_us)), None, "one tick at most");
            // What changed between two far notes, when is not known.
            assert_eq!(share(&noted(1.0, 12_500, 1_000, phase_us)), None);
        }
        let slowly = share(&noted(1.0, 100_000, 1_000, 0)).expect("it is long enough");
        assert!((slowly - 1.0).abs() < 0.03, "{slowly}");
        assert_eq!((share(&[]), share(&noted(0.0, 100_000, 100, 0))), (None, None));
    }

    /// The share of a process that works, noted until it is known.
    fn known_share(process: u32, clock: Clock) -> f64 {
        let mut cpu = CpuTime::of(process, clock, Span::from_us(100)).unwrap();
        let begun = clock.now();
        while clock.now().since(begun) < Span::from_ms(10_000) {
            cpu.note_from_time_to_time();
            if let Some(share) = cpu.share() {
                return share;
            }
        }
        panic!("no share is known of {} notes", cpu.noted.len());
    }

    #[test]
    fn a_process_that_works_has_a_share_and_no_more_than_there_is_of_another_core() {
        let clock = Clock::from(TscClock::calibrate().unwrap());
        assert!(known_share(std::process::id(), clock) > 0.0);
        let mut other = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let shares = [(); 20].map(|()| known_share(other.id(), clock));
        other.kill().and_then(|()| other.wait()).unwrap();
        assert!(shares.iter().all(|share| *share > 0.0 && *share < 1.06), "{shares:?}");
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
        let note = read_together(&Clock::Virtual(calendar), || {
            pause(pauses.next().expect("the third try is close enough"));
            calendar.now().as_ps()
        });
        assert_eq!((note.from, note.ns), (Time::ZERO + Span::from_ms(4), 4_001_000_000));
        let mut growing = 0;
        let note = read_together(&Clock::Virtual(calendar), || {
            growing += 1;
            pause(Span::from_ms(growing));
            0
        });
        let from = Time::ZERO + Span::from_us(4_001);
        assert_eq!((note.from, growing), (from, 10), "the closest of ten");
    }
}
