//! A compute job that wants the target's core.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use warikomi_clock::read_tsc;
use warikomi_target::cores::Pinned;

/// Rounds of arithmetic that make a unit of work: some hundred nanoseconds, long against a look at the
/// counter.
const ROUNDS_PER_UNIT: u32 = 256;

/// Ticks of the time stamp counter between two notes: less than a millisecond on any processor.
const TICKS_PER_NOTE: u64 = 1_000_000;

/// A running job: a thread of the usual priority on the target's core.
#[derive(Debug)]
pub(super) struct ComputeJob {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Processor time that it has had; while it runs, at most one note old.
    cpu_ns: AtomicU64,
}

impl ComputeJob {
    /// Starts computing on `core`.
    pub(super) fn start(core: usize) -> io::Result<ComputeJob> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("compute".into()).spawn(move || {
            // Elsewhere it would take nothing from the receiver; that it has had no time is an error
            // of the experiment.
            if let Ok(_pinned) = Pinned::to(core) {
                compute(&own);
            }
        })?;
        Ok(ComputeJob { shared, thread: Some(thread) })
    }

    /// Processor time that it has had, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.shared.cpu_ns.load(Ordering::Relaxed)
    }
}

impl Drop for ComputeJob {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn compute(shared: &Shared) {
    let (mut number, mut due) = (1u64, read_tsc());
    while !shared.stop.load(Ordering::Relaxed) {
        let now = read_tsc();
        if now >= due {
            if let Ok(time) = ClockId::CLOCK_THREAD_CPUTIME_ID.now() {
                shared.cpu_ns.store(nanoseconds(time), Ordering::Relaxed);
            }
            due = now + TICKS_PER_NOTE;
        }
        for _ in 0..ROUNDS_PER_UNIT {
            // A step of a congruential generator; the next needs its result, so it cannot be skipped.
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        number = std::hint::black_box(number);
    }
}

/// A clock's time in nanoseconds.
pub(super) fn nanoseconds(time: TimeSpec) -> u64 {
    time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_job_takes_processor_time_until_it_is_dropped() {
        let job = ComputeJob::start(0).unwrap();
        let begun = Instant::now();
        while job.cpu_ns() < 1_000_000 && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(job.cpu_ns() >= 1_000_000, "it has had {} ns", job.cpu_ns());
    }
}
