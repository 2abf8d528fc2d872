//! Something of higher priority that takes the target's core away.
//!
//! A thread of ours and no program of its own, so that it ends when we do, however that is: one of real-time priority
//! that computes and that nobody ends would keep the core. To the scheduler a thread is what a process is.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::time::ClockId;
use warikomi_clock::Span;
use warikomi_process::{NICE, claim_for_this_thread, may_be_raised};
use warikomi_target::cores::Pinned;
use warikomi_target::realtime::{self, PRIORITY};

use super::compute::nanoseconds;

/// The longest sleep between two looks whether it shall end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What it claims of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// This real-time priority: it has the core as soon as it wants it, and for as long.
    RealTime(u32),
    /// This nice value: it has nearly all of the core.
    Nice(i32),
    /// As much as the others: no priority may be had.
    Equal,
}

impl Claim {
    /// The highest that this thread may have.
    fn highest() -> Claim {
        if realtime::claim(0, PRIORITY).is_ok() {
            return Claim::RealTime(PRIORITY);
        }
        if may_be_raised() {
            claim_for_this_thread(*NICE.start());
            return Claim::Nice(*NICE.start());
        }
        Claim::Equal
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::RealTime(priority) => write!(f, "real-time priority {priority}"),
            Claim::Nice(nice) => write!(f, "nice {nice}"),
            Claim::Equal => f.write_str("equal priority"),
        }
    }
}

/// What it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) claim: Claim,
    /// Processor time that it had.
    pub(super) cpu_ns: u64,
}

/// A thread that takes the core at times.
pub(super) struct Competitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Taken>>>,
}

impl Competitor {
    /// Takes `core` at each of these times from now on, for so long.
    pub(super) fn start(core: usize, times: Vec<(Span, Span)>) -> io::Result<Competitor> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let begun = Instant::now();
        let thread = thread::Builder::new().name("competitor".into()).spawn(move || {
            let _pinned = Pinned::to(core)?;
            let claim = Claim::highest();
            for (at, long) in times {
                let at = begun + duration(at);
                sleep_until(at, &stopped);
                spin_until(at + duration(long), &stopped);
            }
            let cpu = ClockId::CLOCK_THREAD_CPUTIME_ID.now()?;
            Ok(Taken { claim, cpu_ns: nanoseconds(cpu) })
        })?;
        Ok(Competitor { stop, thread: Some(thread) })
    }

    /// Ends it; what it took, or why it could not.
    pub(super) fn end(mut self) -> io::Result<Taken> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().ok_or_else(|| io::Error::other("it has ended before"))?;
        let failed = |_| Err(io::Error::other("what takes the core away has failed"));
        thread.join().unwrap_or_else(failed)
    }
}

impl Drop for Competitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps() / 1_000)
}

fn sleep_until(at: Instant, stop: &AtomicBool) {
    loop {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

fn spin_until(end: Instant, stop: &AtomicBool) {
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_the_core_for_as_long_as_was_said_and_ends_when_it_is_told() {
        let ms = Span::from_ms;
        let short = Competitor::start(0, vec![(ms(1), ms(5)), (ms(20), ms(5))]).unwrap();
        thread::sleep(Duration::from_millis(40));
        let taken = short.end().unwrap();
        // A machine that is busy gives less, and never more.
        assert!((1..30_000_000).contains(&taken.cpu_ns), "{taken:?}");
        let begun = Instant::now();
        let long = Competitor::start(0, vec![(ms(0), ms(60_000))]).unwrap();
        long.end().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_claim_says_what_it_is() {
        let said = [Claim::RealTime(1), Claim::Nice(-20), Claim::Equal].map(|it| it.to_string());
        assert_eq!(said, ["real-time priority 1", "nice -20", "equal priority"]);
    }
}
