//! A compute job that wants the target's core.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use warikomi_clock::{Span, TscClock, read_tsc};
use warikomi_target::cores::Pinned;

use crate::receive::Work;

/// Rounds of arithmetic that make a unit of work: some hundred nanoseconds, short against a time slice
/// and long against a look at the clock.
const ROUNDS_PER_UNIT: u32 = 256;

/// Most notes kept: half an hour of them.
const MOST_NOTES: usize = 1 << 21;

/// A running job: a thread of the usual priority on the target's core, that counts what it has done.
#[derive(Debug)]
pub(super) struct ComputeJob {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<(u64, u64)>>>,
}

impl ComputeJob {
    /// Starts computing on `core`, with a note every `note_every`.
    pub(super) fn start(core: usize, clock: &TscClock, note_every: Span) -> io::Result<ComputeJob> {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let ticks = (note_every.as_secs() * clock.ticks_per_second()) as u64;
        let thread = thread::Builder::new().name("compute".into()).spawn(move || {
            // Without its core it would not take anything from the receiver: no notes then.
            Pinned::to(core).map_or_else(|_| Vec::new(), |_pinned| compute(&ended, ticks))
        })?;
        Ok(ComputeJob { stop, thread: Some(thread) })
    }

    /// Ends it; how far it had come when.
    pub(super) fn stop(mut self, clock: &TscClock) -> Work {
        let notes = self.end();
        Work::new(notes.into_iter().map(|(tsc, units)| (clock.at(tsc), units)))
    }

    fn end(&mut self) -> Vec<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for ComputeJob {
    fn drop(&mut self) {
        self.end();
    }
}

fn compute(stop: &AtomicBool, note_every_ticks: u64) -> Vec<(u64, u64)> {
    let mut notes = Vec::new();
    let (mut units, mut number, mut due) = (0, 1u64, read_tsc());
    while !stop.load(Ordering::Relaxed) {
        let now = read_tsc();
        if now >= due && notes.len() < MOST_NOTES {
            notes.push((now, units));
            due = now + note_every_ticks;
        }
        for _ in 0..ROUNDS_PER_UNIT {
            // A step of a congruential generator; the next needs its result, so it cannot be skipped.
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        number = std::hint::black_box(number);
        units += 1;
    }
    notes.push((read_tsc(), units));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_job_notes_its_work_until_it_is_ended() {
        let clock = TscClock::calibrate().unwrap();
        let job = ComputeJob::start(0, &clock, Span::from_us(100)).unwrap();
        thread::sleep(Duration::from_millis(50));
        let work = job.stop(&clock);
        let (from, until) = work.span().unwrap();
        assert!(work.rate(from, until).unwrap() > 0.0);
    }
}
