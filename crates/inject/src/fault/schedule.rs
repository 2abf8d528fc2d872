//! When which fault strikes.

use warikomi_clock::{Chance, Seed, Time};

use super::{Fault, FaultKind, When};

/// Something at which a fault may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTrigger {
    /// The NIC sends an interrupt.
    Interrupt,
    /// A frame of the plan arrives.
    Frame,
    /// Time passes.
    Time,
}

/// How often a fault has struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCount {
    /// How often the fault was injected.
    pub injected: u64,
    /// Time of the first.
    pub first: Option<Time>,
    /// Time of the last.
    pub last: Option<Time>,
}

/// The faults of a plan. Each has random numbers of its own, taken once for each of its occasions
/// while the schedule runs, so one seed is one history.
#[derive(Clone, Debug)]
pub struct FaultSchedule {
    entries: Vec<Entry>,
    /// The first deadline; `None` while nothing goes wrong.
    start: Option<Time>,
}

#[derive(Clone, Debug)]
struct Entry {
    fault: Fault,
    occasion: FaultTrigger,
    chance: Option<Chance>,
    count: FaultCount,
}

impl Entry {
    fn strikes(&mut self, start: Time, now: Time) -> bool {
        match (self.fault.when, &mut self.chance) {
            (When::At(at), _) => self.count.injected == 0 && now >= start + at,
            (When::Probability(_), Some(chance)) => chance.happens(),
            (When::Probability(_), None) => false,
        }
    }
}

impl FaultSchedule {
    /// The schedule of these faults; nothing goes wrong before [`start`](Self::start).
    pub fn new(faults: &[Fault], seed: Seed) -> FaultSchedule {
        // Stream 0 of the seed is the arrivals'.
        let entry = |(stream, fault): (u64, &Fault)| Entry {
            fault: *fault,
            occasion: trigger(fault),
            chance: match fault.when {
                When::Probability(p) => Some(Chance::new(seed, stream, p.billionths())),
                When::At(_) => None,
            },
            count: FaultCount::default(),
        };
        FaultSchedule { entries: (1..).zip(faults).map(entry).collect(), start: None }
    }

    /// From now on faults strike; `at` is the first deadline.
    pub fn start(&mut self, at: Time) {
        self.start = Some(at);
    }

    /// Ends the schedule: no more faults strike.
    pub fn stop(&mut self) {
        self.start = None;
    }

    /// Which fault strikes on this occasion: the first in the plan's order, with its place there. It
    /// has not done so before [`record_strike`](Self::record_strike) is called.
    pub fn strikes(&mut self, occasion: FaultTrigger, now: Time) -> Option<(usize, FaultKind)> {
        let start = self.start?;
        let mut found = None;
        for (place, entry) in self.entries.iter_mut().enumerate() {
            // Each takes its number, whether or not another is before it.
            if entry.occasion == occasion && entry.strikes(start, now) && found.is_none() {
                found = Some((place, entry.fault.kind));
            }
        }
        found
    }

    /// The fault at this place has struck.
    pub fn record_strike(&mut self, place: usize, now: Time) {
        let Some(entry) = self.entries.get_mut(place) else { return };
        entry.count.injected += 1;
        entry.count.first.get_or_insert(now);
        entry.count.last = Some(now);
    }

    /// When the next fault that waits for nothing but a time is due; [`Time::NEVER`] if there is none.
    pub fn next_due(&self) -> Time {
        let Some(start) = self.start else { return Time::NEVER };
        let waiting = self.entries.iter().filter(|entry| entry.occasion == FaultTrigger::Time);
        let due = waiting.filter(|entry| entry.count.injected == 0).filter_map(|entry| match entry
            .fault
            .when
        {
            When::At(at) => Some(start + at),
            When::Probability(_) => None,
        });
        due.min().unwrap_or(Time::NEVER)
    }

    /// Every fault, in the plan's order, and how often it has struck.
    pub fn counts(&self) -> impl Iterator<Item = (Fault, FaultCount)> + '_ {
        self.entries.iter().map(|entry| (entry.fault, entry.count))
    }
}

/// What a fault waits for. What begins by itself begins at its time, or else with a frame.
fn trigger(fault: &Fault) -> FaultTrigger {
    match (fault.kind, fault.when) {
        (
            FaultKind::InterruptDropped
            | FaultKind::InterruptDelayed { .. }
            | FaultKind::InterruptDuplicated,
            _,
        ) => FaultTrigger::Interrupt,
        (
            FaultKind::InterruptSpurious { .. }
            | FaultKind::InterruptStorm { .. }
            | FaultKind::LinkFlap { .. }
            | FaultKind::DeviceGone
            | FaultKind::DeviceUnplugged { .. },
            When::At(_),
        ) => FaultTrigger::Time,
        _ => FaultTrigger::Frame,
    }
}
