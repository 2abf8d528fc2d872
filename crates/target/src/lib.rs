//! Where a driver runs: how it is started, attached to a NIC, watched and stopped.

pub mod agent;
mod card;
mod card_id;
pub mod console;
pub mod cores;
mod cycles;
mod error;
pub mod group;
mod interrupted;
pub mod kernel;
mod pass;
pub mod realtime;
pub mod request;
pub mod sandbox;
pub mod vm;

pub use agent::Agent;
pub use card::Slot;
pub use card_id::CardId;
pub use error::{ConsoleTail, TargetError};
pub use interrupted::Interrupted;
pub use pass::Pass;
pub use request::ANSWER_TIMEOUT;

use std::time::Duration;

use warikomi_clock::{Clock, Time};
use warikomi_nic::{InterruptRecord, Nic};
use warikomi_pci::{Host, SharedMemory};

/// A place where a driver runs, attached to one card or several: the device's side of it.
///
/// Nothing happens between calls: the driver's register accesses are answered, and its interrupts
/// go out, inside [`poll`](Target::poll). Whoever waits for something polls while waiting.
///
/// A card that the target does not have is [`TargetError::NoCard`], or nothing.
pub trait Target {
    /// Serves what the driver has done since the last call, a bounded amount of it. The error says
    /// how the target ended, if it has.
    fn poll(&mut self) -> Result<Pass, TargetError>;

    /// Everything that is worth doing but not on every pass: looking at the connection, the
    /// processes, the console, Ctrl-C. It takes some microseconds; call it when nothing is due
    /// soon.
    fn housekeep(&mut self) -> Result<(), TargetError>;

    /// Something is due at `due`: what can wait and takes a system call does not run into it, and virtual time
    /// does not go beyond it.
    fn keep_clear_of(&mut self, due: Time) {
        let _ = due;
    }

    /// From now on the driver waits until each of its writes has been carried out, as it does for what it reads, or
    /// goes on at once; if it can be made to wait.
    fn wait_for_writes(&mut self, wait: bool) {
        let _ = wait;
    }

    /// From now on `hook` is called at the end of each pass, or none. Returns whether this target has passes that
    /// can be watched.
    fn set_hook(&mut self, hook: Option<Box<dyn PassHook>>) -> bool {
        let _ = hook;
        false
    }

    /// How many cards there are.
    fn cards(&self) -> usize;

    /// A card, and what it is attached to.
    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError>;

    /// The place of a card, in which it can be [changed](Slot::change) between two accesses of the driver.
    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError>;

    /// The memory that the target shares with a card; `None` while its device is not set up.
    fn memory(&self, card: CardId) -> Option<&SharedMemory>;

    /// The clock that times are taken from.
    fn clock(&self) -> Clock;

    /// What the target has written to its console lately.
    fn console(&self) -> ConsoleTail;

    /// How many lines it has written there since it started.
    fn printed_lines(&self) -> u64 {
        0
    }

    /// Counts since the start.
    fn counters(&self) -> TargetCounters;

    /// Id of the process that runs the driver, for a debugger or a profiler.
    fn process_id(&self) -> u32;

    /// Ids of all processes whose processor time is the target's: the driver's, and those above it.
    fn process_ids(&self) -> Vec<u32> {
        vec![self.process_id()]
    }

    /// Whether both sides run on one core, so that a loop that waits must let the other run.
    fn shares_a_core(&self) -> bool;

    /// Ends the target and waits until all of it is gone.
    fn stop(&mut self) -> Result<(), TargetError>;

    /// Who answers requests in the target; `None` if there is nobody.
    fn agent(&mut self) -> Option<&mut dyn Agent> {
        None
    }

    /// The handlers of a card's interrupts; `None` if those of this target do not tell of themselves.
    fn handlers(&mut self, card: CardId) -> Option<&mut dyn Handlers> {
        let _ = card;
        None
    }

    /// Hands over when the target was not running since this was last asked, in order: the last time at which it
    /// was seen to run before, and the first behind. Returns whether it watches itself at all.
    fn take_hiccups(&mut self, each: &mut dyn FnMut(Time, Time)) -> bool {
        let _ = each;
        false
    }

    /// Serves the driver for this long.
    fn serve_for(&mut self, span: Duration) -> Result<(), TargetError> {
        wait::until(self, span, |_| None::<()>).map(|_| ())
    }
}

/// What is done at each pass besides serving the driver.
pub trait PassHook {
    /// Looks at the target. Nothing here may [poll](Target::poll) it.
    fn pass(&mut self, target: &mut dyn Target) -> Result<(), TargetError>;
}

/// Handlers of message-signalled interrupts, whoever sends these, that tell when they begin.
pub trait Handlers {
    /// Brings the card's log of interrupts up to date.
    fn note(&mut self);

    /// Keeps the times of the next `capacity` messages: sent, and taken up by their handlers.
    fn log(&mut self, capacity: usize);

    /// Messages since the start whose handlers have told of themselves, as far as it has been noticed.
    fn handled_count(&self) -> u64;

    /// What has been kept since.
    fn take_log(&mut self) -> Vec<InterruptRecord>;
}

/// What a target counts about the way to and from the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetCounters {
    /// Register and configuration accesses served.
    pub accesses: u64,
    /// Accesses that made no sense and were dropped.
    pub malformed: u64,
    /// Fills of a BAR (`memset_io`) that came as configuration writes, and were taken for what they
    /// were meant to be.
    pub disguised_fills: u64,
    /// Interrupts handed to the target.
    pub interrupts_sent: u64,
    /// How many had to wait: the target had no buffer free for them, or the driver was transmitting
    /// and the moment not safe.
    pub interrupts_delayed: u64,
    /// Interrupts lost because more waited than any sane driver lets pile up.
    pub interrupts_dropped: u64,
    /// Times that the target had to be woken a second time for an interrupt that it had slept
    /// through.
    pub resignalled: u64,
    /// INTx changes that this target cannot deliver.
    pub intx_undeliverable: u64,
    /// Times that a count of a shared ring made no sense, and what was in the ring was skipped.
    pub corrupt_rings: u64,
    /// Times of handlers that made no sense, or came too late to be read.
    pub bad_stamps: u64,
}

impl TargetCounters {
    /// Both counts together.
    pub fn with(&self, other: &TargetCounters) -> TargetCounters {
        self.combine(other, u64::saturating_add)
    }

    /// What has been counted since `earlier`.
    pub fn since(&self, earlier: &TargetCounters) -> TargetCounters {
        self.combine(earlier, u64::saturating_sub)
    }

    fn combine(&self, other: &TargetCounters, f: fn(u64, u64) -> u64) -> TargetCounters {
        TargetCounters {
            accesses: f(self.accesses, other.accesses),
            malformed: f(self.malformed, other.malformed),
            disguised_fills: f(self.disguised_fills, other.disguised_fills),
            interrupts_sent: f(self.interrupts_sent, other.interrupts_sent),
            interrupts_delayed: f(self.interrupts_delayed, other.interrupts_delayed),
            interrupts_dropped: f(self.interrupts_dropped, other.interrupts_dropped),
            resignalled: f(self.resignalled, other.resignalled),
            intx_undeliverable: f(self.intx_undeliverable, other.intx_undeliverable),
            corrupt_rings: f(self.corrupt_rings, other.corrupt_rings),
            bad_stamps: f(self.bad_stamps, other.bad_stamps),
        }
    }
}

/// Waiting, while the target is served.
pub mod wait {
    use std::time::{Duration, Instant};

    use warikomi_clock::{Span, Time};

    use crate::{Target, TargetError};

    /// Virtual time may pass more slowly than real time, but not for ever: a target that hangs stops it.
    const SLOWEST: u32 = 10;
    const HANGS_AFTER: Duration = Duration::from_secs(30);
    const A_DAY: Duration = Duration::from_secs(24 * 3600);

    /// When a wait is over, by the clock of the target.
    enum Deadline {
        Real(Instant),
        Virtual { at: Time, at_last: Instant },
    }

    impl Deadline {
        fn in_time_of<T: Target + ?Sized>(target: &T, within: Duration) -> Deadline {
            let clock = target.clock();
            if clock.is_virtual() {
                let within = within.min(A_DAY);
                let at = clock.now() + Span::from_ns(within.as_nanos() as u64);
                return Deadline::Virtual {
                    at,
                    at_last: Instant::now() + within * SLOWEST + HANGS_AFTER,
                };
            }
            Deadline::Real(Instant::now() + within)
        }

        fn has_come<T: Target + ?Sized>(&self, target: &T) -> bool {
            match *self {
                Deadline::Real(at) => Instant::now() >= at,
                Deadline::Virtual { at, at_last } => {
                    target.clock().now() >= at || Instant::now() >= at_last
                }
            }
        }
    }

    /// Polls `target` until `done` gives something; `None` when time is up.
    pub fn until<T: Target + ?Sized, R>(
        target: &mut T,
        within: Duration,
        mut done: impl FnMut(&mut T) -> Option<R>,
    ) -> Result<Option<R>, TargetError> {
        const FIRST_PASSES: u32 = 256;
        const MOST_PASSES: u32 = 16_384;
        // A pass may take long: what it serves is bounded in number, and a client's memory may be slow.
        const LOOK_AT_LAST: Span = Span::from_ms(10);
        // What takes long is looked at less and less often: while we look at processes, the driver waits.
        let mut passes = FIRST_PASSES;
        let deadline = Deadline::in_time_of(target, within);
        target.keep_clear_of(Time::NEVER);
        loop {
            target.housekeep()?;
            if let Some(found) = done(target) {
                return Ok(Some(found));
            }
            if deadline.has_come(target) {
                return Ok(None);
            }
            // In virtual time much may happen within one pass.
            let most = if target.clock().is_virtual() { 1 } else { passes };
            let mut begun = None;
            for _ in 0..most {
                let at = target.poll()?.at;
                if target.shares_a_core() {
                    std::thread::yield_now();
                    break;
                }
                if at.since(*begun.get_or_insert(at)) > LOOK_AT_LAST {
                    break;
                }
                std::hint::spin_loop();
            }
            passes = (2 * passes).min(MOST_PASSES);
        }
    }
}
