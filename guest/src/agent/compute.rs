//! A job that computes: it takes all the time that is left over, and counts what it got.
//!
//! What it does is nobody's business but the compiler's: a unit of work is a fixed number of steps of a
//! generator of random numbers, all in registers, so that its time does not depend on what others
//! do to the caches. In virtual time computing takes none; there a unit is a time that our bridge lets pass.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::unistd::getppid;
use warikomi_protocol::answers::{ComputeSamples, ComputeTotals, Done, WorkDone};
use warikomi_protocol::commands;

use super::error::{AgentError, Context, Result};
use super::sys;

/// Steps of a unit: some ten microseconds, much less than what is to be told apart.
const STEPS: u32 = 10_000;

/// A unit in virtual time, in nanoseconds, as the bridge reads it: who is woken meanwhile has the processor behind it.
const UNIT_NS: &[u8] = b"10000";
/// Where the bridge is told.
const COMPUTE: &str = "/sys/module/warikomi_bridge/parameters/compute_ns";

/// Units between two entries into the kernel, and between two looks at the clock. User Mode Linux gives a processor to who has just
/// been woken when the one on it enters the kernel, and otherwise at the next tick, 10 ms later;
/// hardware does so at once. So this job enters the kernel often, at a cost that is in all its
/// figures alike.
const UNITS_TO_AN_ENTRY: u64 = 4;

/// Most notes that may be asked for (16 MiB).
const MOST_SAMPLES: u32 = 1 << 20;

/// Least time between two notes, in ticks of the time-stamp counter: about 40 µs.
const FEWEST_TICKS: u64 = 100_000;

/// The running job, or what the last one left.
#[derive(Default)]
pub(super) struct Computer {
    job: Option<Job>,
}

struct Job {
    shared: Arc<Shared>,
    /// `None` once it has been stopped.
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What the thread and the commands share.
struct Shared {
    stop: AtomicBool,
    units: AtomicU64,
    samples: Mutex<Vec<WorkDone>>,
}

impl Shared {
    fn samples(&self) -> MutexGuard<'_, Vec<WorkDone>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn totals(&self) -> ComputeTotals {
        ComputeTotals {
            units: self.units.load(Ordering::Acquire),
            samples: self.samples().len() as u64,
        }
    }
}

impl Computer {
    pub(super) fn start(&mut self, command: &commands::ComputeStart) -> Result<Done> {
        if self.job.as_ref().is_some_and(|job| job.thread.is_some()) {
            return Err(AgentError::Other(
                "a compute job is running; send compute_stop first".to_owned(),
            ));
        }
        check(command)?;
        // The last job's memory goes before the next one's comes.
        self.job = None;
        let most = command.max_samples as usize;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            units: AtomicU64::new(0),
            samples: Mutex::new(Vec::with_capacity(most)),
        });
        let every = command.sample_every_ticks;
        let mut work = Work::new()?;
        let thread = std::thread::Builder::new()
            .name("compute".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || compute(&shared, &mut work, every, most)
            })
            .context(|| "start the computing thread".to_owned())?;
        self.job = Some(Job { shared, thread: Some(thread) });
        Ok(Done {})
    }

    pub(super) fn stop(&mut self) -> Result<ComputeTotals> {
        let job = self.job.as_mut().ok_or_else(none_started)?;
        job.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = job.thread.take() {
            let done = thread.join().map_err(|_| {
                AgentError::Other("the computing thread died; the console has the place".into())
            })?;
            done.context(|| format!("let time pass ({COMPUTE})"))?;
        }
        Ok(job.shared.totals())
    }

    pub(super) fn samples(&self, command: &commands::ComputeSamples) -> Result<ComputeSamples> {
        let job = self.job.as_ref().ok_or_else(none_started)?;
        let samples = job.shared.samples();
        let from = usize::try_from(command.from).unwrap_or(usize::MAX).min(samples.len());
        let most = command.max.min(commands::ComputeSamples::MOST) as usize;
        let until = from + most.min(samples.len() - from);
        Ok(ComputeSamples { samples: samples[from..until].to_vec(), total: samples.len() as u64 })
    }
}

fn none_started() -> AgentError {
    AgentError::Other("there was no compute job; send compute_start first".to_owned())
}

fn check(command: &commands::ComputeStart) -> Result<()> {
    let invalid = |what, expected, given: u64| {
        Err(AgentError::Invalid { what, expected, given: given.to_string() })
    };
    if command.sample_every_ticks < FEWEST_TICKS {
        return invalid("sample_every_ticks", "100000 or more", command.sample_every_ticks);
    }
    if !(1..=MOST_SAMPLES).contains(&command.max_samples) {
        return invalid("max_samples", "1 to 1048576", command.max_samples.into());
    }
    Ok(())
}

/// What the job does.
enum Work {
    /// Steps of a generator, whose state this is.
    Steps(u64),
    /// It lets virtual time pass.
    Declared(File),
}

impl Work {
    fn new() -> Result<Work> {
        if !sys::time_is_virtual() {
            return Ok(Work::Steps(0x9e37_79b9_7f4a_7c15));
        }
        let file = File::options().write(true).open(COMPUTE);
        Ok(Work::Declared(file.context(|| format!("open {COMPUTE}"))?))
    }

    fn unit(&mut self) -> io::Result<()> {
        match self {
            Work::Steps(state) => *state = unit(*state),
            Work::Declared(file) => file.write_all_at(UNIT_NS, 0)?,
        }
        Ok(())
    }
}

/// The thread.
fn compute(
    shared: &Shared,
    work: &mut Work,
    sample_every: u64,
    most_samples: usize,
) -> io::Result<()> {
    let (mut units, mut noted) = (0, 0);
    while !shared.stop.load(Ordering::Acquire) {
        let tsc = sys::counter();
        if tsc.wrapping_sub(noted) >= sample_every {
            noted = tsc;
            let mut samples = shared.samples();
            if samples.len() < most_samples {
                samples.push(WorkDone(tsc, units));
            }
        }
        for _ in 0..UNITS_TO_AN_ENTRY {
            work.unit()?;
            units += 1;
            shared.units.store(units, Ordering::Release);
        }
        black_box(getppid());
    }
    Ok(())
}

/// A unit of work: a fixed number of steps.
fn unit(mut state: u64) -> u64 {
    for _ in 0..STEPS {
        // xorshift64: each step needs the one before it.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn start(sample_every_ticks: u64, max_samples: u32) -> commands::ComputeStart {
        commands::ComputeStart { sample_every_ticks, max_samples }
    }

    #[test]
    fn a_job_counts_its_work_and_notes_it_in_order() {
        let mut computer = Computer::default();
        assert!(computer.stop().is_err(), "there is none yet");
        computer.start(&start(100_000, 50)).unwrap();
        assert!(computer.start(&start(100_000, 50)).is_err(), "one at a time");
        let all = commands::ComputeSamples { from: 0, max: u32::MAX };
        let patience = Instant::now() + Duration::from_secs(60);
        while computer.samples(&all).unwrap().total < 50 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let totals = computer.stop().unwrap();
        assert_eq!(totals.samples, 50, "no more than asked for, and the job goes on without");
        let samples = computer.samples(&all).unwrap().samples;
        for pair in samples.windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1, "{pair:?}");
        }
        assert!(totals.units >= samples[49].1);
        let part = commands::ComputeSamples { from: 49, max: 9 };
        assert_eq!(computer.samples(&part).unwrap().samples, samples[49..]);
        let beyond = commands::ComputeSamples { from: u64::MAX, max: 9 };
        assert_eq!(computer.samples(&beyond).unwrap().samples, []);
        computer.start(&start(1_000_000, 1)).unwrap();
        assert!(computer.stop().unwrap().units < totals.units + 1_000_000, "it begins anew");
    }

    #[test]
    fn sizes_out_of_range_are_named() {
        assert!(check(&start(99_999, 1)).unwrap_err().to_string().contains("sample_every_ticks"));
        assert!(check(&start(100_000, 0)).unwrap_err().to_string().contains("max_samples"));
        assert!(check(&start(100_000, MOST_SAMPLES + 1)).is_err());
        assert!(check(&start(1_000_000, MOST_SAMPLES)).is_ok());
    }
}
