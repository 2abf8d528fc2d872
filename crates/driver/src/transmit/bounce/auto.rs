//! A bounce buffer that is used where it gains.
//!
//! What copying, describing and transfers cost is measured all the time, and a window of packets at a
//! time the best use of the bounce buffer is predicted from it ([`choose`](super::choose)). Whether it
//! really gains is measured, too: now and then a window of packets goes the other way, and whatever took
//! less time for its work is kept.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaMemory;

use super::areas::Areas;
use super::choose::{Costs, Shapes};
use super::estimate::Amount;
use crate::DriverError;
use crate::transmit::{CostClock, Work};

/// Packets of a window.
const WINDOW: u64 = 256;
/// One of other packets than before lasts no longer, so that where packets are seldom a choice for others is soon over.
const LONGEST_WINDOW: Span = Span::from_us(500);
/// Packets of the first: nothing is known before it ends.
const FIRST_WINDOW: u64 = 64;
/// Windows from one comparison to the next: twice as many after each that says the same, up to the most.
const FEWEST_WINDOWS: u64 = 16;
const MOST_WINDOWS: u64 = 256;
/// The share of its time that the sender waits when the device is what holds it up.
const WAITS: f64 = 0.02;
/// The share of its time that the device works without a pause when it is what holds the sender up, although that never
/// waits: one that is short of room asks all the time instead.
const BUSY: f64 = 0.95;
/// The most that a window may take, of what one without copying takes for the same work.
const WORTH: f64 = 0.995;
/// Of so many packets, so many go the other way, so that what a piece costs can be told from what a byte
/// costs.
const CONTRAST: (u64, u64) = (2_048, 8);
/// Packets that the device has completed one right behind the other, of which the time is taken.
const STRETCH: usize = 16;
/// Of so many packets, one's copying and describing is measured.
const MEASURED: u64 = 16;

/// What is copied in each window in which nothing else is; no more than the longest of its packets.
const TRIALS_BYTES: [u64; 2] = [64, 1_024];
/// What is copied to find out what copies take: up to the first that is as long as a packet, before anything is
/// known and when longer packets come. Who sends short packets only never pays for long copies.
const LEARNED_BYTES: [u64; 5] = [64, 512, 4_096, 16_384, 65_536];
/// How often each.
const LEARNED_TIMES: usize = 4;

/// The two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Bounced,
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::Direct => Way::Bounced,
            Way::Bounced => Way::Direct,
        }
    }
}

/// Packets one after the other that went one way.
#[derive(Clone, Copy, Debug)]
struct Window {
    way: Way,
    /// Packets that were handed over before, and are not waited for any more, come first.
    unsettled: u64,
    left: u64,
    begun: Option<Time>,
    waited: Span,
    /// For how long the device was seen to work without a pause.
    device_busy: Span,
    /// For how long the device was asked what it has sent.
    asked: Span,
}

/// Where the device has worked without a pause: its time and what it has done.
#[derive(Clone, Copy, Debug, Default)]
struct BusyPeriod {
    /// When the last packets were seen to be completed, and how many were left then.
    seen: Option<(Time, usize)>,
    took: Span,
    amount: Amount,
    packets: usize,
}

/// What is chosen for a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    shape: Option<usize>,
    /// Bytes of the packet, if somebody has looked.
    pub(crate) bytes: u64,
    /// Pieces that are copied together; 0 for none.
    pub(crate) copied: usize,
}

impl Choice {
    /// So many pieces, whatever packet it is.
    #[inline]
    pub(crate) fn of(copied: usize) -> Choice {
        Choice { copied, ..Choice::default() }
    }

    /// Nothing to choose.
    #[inline]
    pub(crate) fn of_one_piece(pieces: &[(u64, u32)]) -> Choice {
        let bytes = pieces.first().map_or(0, |piece| piece.1.into());
        Choice { bytes, ..Choice::default() }
    }
}

fn bytes_of(pieces: &[(u64, u32)]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.1)).sum()
}

/// The bounce buffer that is used where it gains.
#[derive(Debug)]
pub(crate) struct Auto {
    costs: Costs,
    shapes: Shapes,
    packets: u64,
    /// What is preferred, by what was measured, and how the other way is tried.
    favourite: Way,
    comparing: bool,
    windows: u64,
    next_comparison: u64,
    patience: u64,
    window: Window,
    /// What the last window of the favourite took, in time for work.
    pace: f64,
    /// What work was counted by when that was measured.
    measure: Costs,
    busy_period: BusyPeriod,
    waiting_since: Option<Time>,
    device_bound: bool,
    /// Packets since others went the other way.
    contrast: u64,
    /// Bytes that are to be copied to find out what that takes; 0 for none.
    trial_bytes: u64,
    /// Bytes of the longest packet so far, and how many of [`LEARNED_BYTES`] were copied.
    longest_bytes: u64,
    learned: usize,
    /// More is watched: a choice of long standing is made anew when the mix of packets changes, and the device's work
    /// tells that it is what is waited for.
    watches: bool,
}

impl Auto {
    /// Nothing is known; the first packet is of these pieces. Whether more is watched than
    /// the time that the sender waits.
    pub(crate) fn new(pieces: &[(u64, u32)], watches: bool) -> Auto {
        let costs = Costs::new();
        Auto {
            costs,
            shapes: Shapes::new(),
            packets: 0,
            favourite: Way::Direct,
            comparing: false,
            windows: 0,
            next_comparison: 1,
            patience: FEWEST_WINDOWS,
            window: Window::new(Way::Direct, 0, FIRST_WINDOW),
            pace: 0.0,
            measure: costs,
            busy_period: BusyPeriod::default(),
            waiting_since: None,
            device_bound: false,
            contrast: 0,
            trial_bytes: 0,
            longest_bytes: bytes_of(pieces),
            learned: 0,
            watches,
        }
    }

    /// Measures what copies as long as the longest packet cost, unless that is known, in an area that the device never
    /// has.
    #[inline]
    pub(crate) fn learn(
        &mut self,
        areas: &Areas,
        memory: &dyn DmaMemory,
        clock: &mut impl CostClock,
    ) -> Result<(), DriverError> {
        let longest = LEARNED_BYTES[..self.learned].last().copied().unwrap_or(0);
        let all = self.learned == LEARNED_BYTES.len();
        if all || self.longest_bytes <= longest {
            Ok(())
        } else {
            self.copy_longer(areas, memory, clock)
        }
    }

    #[cold]
    fn copy_longer(
        &mut self,
        areas: &Areas,
        memory: &dyn DmaMemory,
        clock: &mut impl CostClock,
    ) -> Result<(), DriverError> {
        let shorter = LEARNED_BYTES.iter().filter(|bytes| **bytes < self.longest_bytes).count();
        let to = (shorter + 1).min(LEARNED_BYTES.len());
        for bytes in LEARNED_BYTES[self.learned..to].repeat(LEARNED_TIMES) {
            self.trial_bytes = bytes;
            self.try_copy(areas, memory, clock)?;
        }
        self.learned = to;
        Ok(())
    }

    /// Copies something for the sake of the estimate, if nothing was copied for long.
    #[inline]
    pub(crate) fn refresh_estimate(
        &mut self,
        areas: &Areas,
        memory: &dyn DmaMemory,
        clock: &mut impl CostClock,
    ) -> Result<(), DriverError> {
        if self.trial_bytes > 0 { self.try_copy(areas, memory, clock) } else { Ok(()) }
    }

    #[cold]
    fn try_copy(
        &mut self,
        areas: &Areas,
        memory: &dyn DmaMemory,
        clock: &mut impl CostClock,
    ) -> Result<(), DriverError> {
        let begun = clock.now();
        let bytes = areas.try_copy(memory, std::mem::take(&mut self.trial_bytes))?;
        clock.spend(Work::Copy { bytes: bytes as usize });
        self.costs.copy.observe(Amount { pieces: 1, bytes }, clock.now().since(begun));
        Ok(())
    }

    /// What is to be copied of this packet.
    #[inline]
    pub(crate) fn choose(&mut self, pieces: &[(u64, u32)]) -> Choice {
        let bytes = bytes_of(pieces);
        self.longest_bytes = self.longest_bytes.max(bytes);
        let shape = self.shapes.find(pieces, bytes);
        let chosen = match shape {
            Some(shape) if self.window.way == Way::Bounced => self.shapes.copied(shape),
            _ => 0,
        };
        let copied = match shape {
            Some(shape) if self.contrast < CONTRAST.1 && self.device_bound => {
                if chosen > 0 {
                    0
                } else {
                    self.shapes.affordable(shape)
                }
            }
            _ => chosen,
        };
        Choice { shape, bytes, copied }
    }

    /// Whether the time is to be taken for the next packet.
    #[inline]
    pub(crate) fn measures(&self) -> bool {
        self.packets.is_multiple_of(MEASURED)
    }

    /// Copying and describing a packet took so long.
    #[cold]
    pub(crate) fn measured(
        &mut self,
        choice: Choice,
        bounced: u32,
        copying: Span,
        pieces: usize,
        describing: Span,
    ) {
        if bounced > 0 {
            let amount = Amount { pieces: choice.copied as u64, bytes: bounced.into() };
            self.costs.copy.observe(amount, copying);
        }
        self.costs.describe.observe(Amount { pieces: pieces as u64, bytes: 0 }, describing);
    }

    /// A packet was handed over at this time, behind so many that the device has.
    #[inline]
    pub(crate) fn handed(
        &mut self,
        choice: Choice,
        pieces: &[(u64, u32)],
        now: Time,
        before: usize,
    ) {
        self.packets += 1;
        // The first of these comes as soon as the device is what is waited for.
        if self.device_bound {
            self.contrast = if self.contrast + 1 == CONTRAST.0 { 0 } else { self.contrast + 1 };
        }
        if self.window.unsettled > 0 {
            self.window.unsettled -= 1;
            return;
        }
        if self.window.begun.is_none() {
            self.begin(now, before as u64);
        }
        self.shapes.count(choice.shape, pieces, choice.bytes);
        self.window.left -= 1;
        if self.window.left == 0 || self.is_over(now) {
            self.end(now, before as u64);
        }
    }

    /// Whether the window is of other packets than the one before, and has lasted for long.
    fn is_over(&self, now: Time) -> bool {
        self.watches
            && self.window.begun.is_some_and(|at| now.since(at) >= LONGEST_WINDOW)
            && self.shapes.is_another_mix()
    }

    fn begin(&mut self, now: Time, in_flight: u64) {
        self.window.begun = Some(now);
        let window = &mut self.window;
        (window.waited, window.device_busy, window.asked) = (Span::ZERO, Span::ZERO, Span::ZERO);
        self.shapes.begin(in_flight);
    }

    /// The device has no room, or the sender waits for what it has sent.
    #[inline]
    pub(crate) fn waits(&mut self, now: Time) {
        self.waiting_since.get_or_insert(now);
    }

    /// Whether it wants to be told how long the device was asked.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        self.watches
    }

    /// The device was asked for so long what it has sent.
    #[inline]
    pub(crate) fn asked(&mut self, span: Span) {
        self.window.asked += span;
    }

    /// The sender goes on.
    #[inline]
    pub(crate) fn resume(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.window.waited += now.since(since);
        }
    }

    /// The device has completed so many packets, and so many are left.
    #[inline]
    pub(crate) fn completed(&mut self, now: Time, packets: usize, left: usize, amount: Amount) {
        let busy_period = &mut self.busy_period;
        match busy_period.seen.replace((now, left)) {
            // Of those that it had then, some are left: it has not paused.
            Some((seen, had)) if packets < had => {
                busy_period.took += now.since(seen);
                self.window.device_busy += now.since(seen);
                busy_period.packets += packets;
                busy_period.amount.add(amount.pieces, amount.bytes);
            }
            _ => *busy_period = BusyPeriod { seen: busy_period.seen, ..BusyPeriod::default() },
        }
        if busy_period.packets >= STRETCH {
            let BusyPeriod { seen, amount, took, .. } = *busy_period;
            self.costs.device.observe(amount, took);
            self.busy_period = BusyPeriod { seen, ..BusyPeriod::default() };
        }
    }

    /// A window has ended: what comes next?
    #[cold]
    fn end(&mut self, now: Time, in_flight: u64) {
        let Some(begun) = self.window.begun else { return };
        self.windows += 1;
        let took_ps = now.since(begun).as_ps().max(1) as f64;
        let way = self.window.way;
        let measure = if self.comparing { self.measure } else { self.costs };
        let pace = took_ps / self.shapes.work(&measure).max(1.0);
        if self.comparing {
            self.compare(way, pace);
        } else {
            (self.pace, self.measure) = (pace, measure);
        }
        let waited_ps = self.window.waited.as_ps() as f64;
        // Others find out by waiting, and are not told more than they were when their histories were written down.
        let never_pauses = self.watches && self.window.device_busy.as_ps() as f64 >= BUSY * took_ps;
        self.device_bound = never_pauses || waited_ps >= WAITS * took_ps;
        let driver_ps = self.shapes.processor(&self.costs, way == Way::Bounced);
        // Asking a device that never pauses is waiting for it.
        let asked_ps = if never_pauses { self.window.asked.as_ps() as f64 } else { 0.0 };
        let other_ps = (took_ps - waited_ps - asked_ps - driver_ps).max(0.0);
        let chosen = self.shapes.choose(&self.costs, other_ps);
        if chosen.changed && self.favourite == Way::Bounced {
            self.patience = FEWEST_WINDOWS;
            self.next_comparison = self.next_comparison.min(self.windows + FEWEST_WINDOWS);
        }
        if self.watches && self.shapes.mix_has_changed() {
            self.patience = FEWEST_WINDOWS;
            self.next_comparison = self.windows;
        }
        let gains = chosen.copies && self.costs.device.is_resolved();
        let waits = way == Way::Bounced || self.device_bound;
        let due = self.windows >= self.next_comparison;
        let try_other = due && !self.comparing && gains && waits;
        self.comparing = try_other;
        let next = if try_other { self.favourite.other() } else { self.favourite };
        if !(chosen.copies && next == Way::Bounced) {
            let bytes = TRIALS_BYTES[(self.windows % 2) as usize];
            self.trial_bytes = bytes.min(self.shapes.longest_bytes());
        }
        let unsettled = if next == way { 0 } else { in_flight };
        self.window = Window::new(next, unsettled, WINDOW);
        self.begin_if_settled(now, in_flight);
    }

    /// The way that was tried took so much time for its work.
    fn compare(&mut self, tried: Way, pace: f64) {
        let (direct, bounced) = match tried {
            Way::Direct => (pace, self.pace),
            Way::Bounced => (self.pace, pace),
        };
        let better = if bounced < WORTH * direct { Way::Bounced } else { Way::Direct };
        let same = better == self.favourite;
        self.patience = if same { (2 * self.patience).min(MOST_WINDOWS) } else { FEWEST_WINDOWS };
        self.favourite = better;
        self.next_comparison = self.windows + self.patience;
    }

    fn begin_if_settled(&mut self, now: Time, in_flight: u64) {
        if self.window.unsettled == 0 {
            self.begin(now, in_flight);
        }
    }
}

impl Window {
    fn new(way: Way, unsettled: u64, left: u64) -> Window {
        Window {
            way,
            unsettled,
            left,
            begun: None,
            waited: Span::ZERO,
            device_busy: Span::ZERO,
            asked: Span::ZERO,
        }
    }
}
