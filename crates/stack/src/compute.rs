//! A job that wants the processor, to see what receiving leaves of it.
//!
//! It counts units of work in a page that whoever started it reads. How many it does in a second alone
//! is measured first, with the receiver asleep; how many beside the receiver, then.

use std::fs::File;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use warikomi_clock::read_tsc;
use warikomi_shared::{SharedWords, Words, create_region};

use crate::wait::{Event, Watch};
use crate::{Invitation, StackError};

const PAGE_BYTES: usize = 4_096;
/// Units done.
const UNITS: usize = 0;
/// Not 0: go on.
const RUN: usize = 16;
/// Steps of one unit: about a microsecond.
const STEPS: u64 = 1_000;
/// Units between two looks at the orders: about 0.1 ms.
const UNITS_A_LOOK: u64 = 100;
/// Looks between two at the support side's socket, a system call.
const LOOKS_A_CHECK: u64 = 100;
/// How long a job that shall not run sleeps before it looks again.
const REST: Duration = Duration::from_millis(2);

/// A job, seen from outside.
#[derive(Debug)]
pub struct Job {
    page: SharedWords,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Units done.
    pub units: u64,
    /// The time stamp counter when that was read.
    pub tsc: u64,
}

impl Progress {
    /// Units in a million ticks since `earlier`; `None` if no time has passed.
    pub fn rate_since(&self, earlier: Progress) -> Option<f64> {
        let ticks = self.tsc.checked_sub(earlier.tsc).filter(|&ticks| ticks > 0)?;
        Some(self.units.wrapping_sub(earlier.units) as f64 * 1e6 / ticks as f64)
    }
}

impl Job {
    /// A job that does not run yet, and the file that its process gets.
    pub fn create() -> Result<(Job, File), StackError> {
        let file = create_region("warikomi-compute", PAGE_BYTES as u64)?;
        let page = SharedWords::map(file.try_clone()?, 0, PAGE_BYTES)?;
        Ok((Job { page }, file))
    }

    /// Lets it run, or not.
    pub fn run(&self, run: bool) {
        self.page.store(RUN, u64::from(run), Relaxed);
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress { units: self.page.load(UNITS, Relaxed), tsc: read_tsc() }
    }
}

/// Work that no compiler can leave out, and that fits into registers.
fn unit(mut state: u64) -> u64 {
    for _ in 0..STEPS {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

/// The process of a job; ends when whoever started it does.
pub fn main() -> Result<(), StackError> {
    let mut invitation = Invitation::accept("compute")?;
    let page = SharedWords::map(invitation.file("the page")?.into(), 0, PAGE_BYTES)?;
    let watch = Watch::new(Event::create()?, invitation.support().into_iter().collect(), None);
    let mut state = 1;
    let mut units: u64 = 0;
    let mut looks: u64 = 0;
    loop {
        if page.load(RUN, Relaxed) == 0 {
            watch.sleep(Some(REST))?;
            continue;
        }
        for _ in 0..UNITS_A_LOOK {
            state = unit(state);
            units = units.wrapping_add(1);
            page.store(UNITS, units, Relaxed);
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS_A_CHECK) {
            watch.check()?;
        }
    }
}
