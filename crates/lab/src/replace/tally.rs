//! Runs of the workload, summed up as a row.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};
use warikomi_live::Replacement;
use warikomi_measure::{Samples, Totals};
use warikomi_process::StoreRequest;
use warikomi_wire::peer::numbered::Seen;

use super::gaps;
use super::plan::{Case, Load, Plan};
use super::replacer::{Observed, PICTURES};
use super::row::{Row, Spread, mean};

/// Sends over which it is added up what a replacement has cost them, as was published.
const EXCESS_OVER: usize = 10;

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Its replacements.
    pub(super) observed: Vec<Observed>,
    /// When each send began, and how long it took.
    pub(super) sends: Vec<(Time, Span)>,
    /// Frames that arrived, and what became of them.
    pub(super) arrived: Totals,
    /// Frames that reached the application behind a later one.
    pub(super) out_of_order: u64,
    /// Frames that reached the application twice.
    pub(super) duplicates: u64,
    /// Datagrams that the application handed over, and what the wire has seen of them.
    pub(super) datagrams: (u64, Seen),
    /// TCP segments on the wire, and how many of them came again.
    pub(super) segments: (u64, u64),
    /// Why the connection broke, or what is wrong with its stream.
    pub(super) stream_wrong: Option<String>,
}

/// What a way came to under a load.
pub(super) struct Tally {
    pub(super) load: Load,
    pub(super) kill: bool,
    observed: Vec<Observed>,
    sends_without: Samples,
    sends_with: Samples,
    sends_during: Samples,
    /// From the beginning of a send to that of the next.
    intervals_without: Samples,
    /// The longest such interval into which a replacement fell.
    longest_interval: Option<Span>,
    /// [`EXCESS_OVER`] of them from each request on, together.
    following: Vec<Span>,
    row: Row,
    /// Frames that found no descriptor although nothing was replaced.
    pub(super) no_descriptor_without: u64,
}

impl Tally {
    pub(super) fn new(plan: &Plan, case: &Case) -> Tally {
        Tally {
            load: case.load,
            kill: plan.kill,
            observed: Vec::new(),
            sends_without: Samples::new(),
            sends_with: Samples::new(),
            sends_during: Samples::new(),
            intervals_without: Samples::new(),
            longest_interval: None,
            following: Vec::new(),
            row: Row::new(plan, case),
            no_descriptor_without: 0,
        }
    }

    /// Which row it is.
    pub(super) fn name(&self) -> String {
        self.row.name()
    }

    /// Replacements so far.
    pub(super) fn replacements(&self) -> u64 {
        self.observed.len() as u64
    }

    /// Takes a run without replacements.
    pub(super) fn without(&mut self, outcome: &Outcome) {
        outcome.sends.iter().for_each(|&(_, took)| self.sends_without.record(took));
        for pair in outcome.sends.windows(2) {
            self.intervals_without.record(pair[1].0.since(pair[0].0));
        }
        self.no_descriptor_without += outcome.arrived.no_descriptor;
    }

    /// Takes a run with replacements.
    pub(super) fn with(&mut self, outcome: Outcome) {
        for &(begun, took) in &outcome.sends {
            self.sends_with.record(took);
            let fell = |seen: &Observed| overlap((begun, begun + took), seen);
            if outcome.observed.iter().any(fell) {
                self.sends_during.record(took);
            }
        }
        let begun: Vec<Time> = outcome.sends.iter().map(|send| send.0).collect();
        for seen in &outcome.observed {
            let longest = gaps::longest(&begun, seen.begun, seen.replacement.returned);
            self.longest_interval = self.longest_interval.max(longest);
            self.following.extend(gaps::following(&begun, seen.begun, EXCESS_OVER));
        }
        let (handed_over, seen) = outcome.datagrams;
        let (segments, again) = outcome.segments;
        let row = &mut self.row;
        let arrived = &outcome.arrived;
        row.received += arrived.delivered;
        row.sent += seen.messages + segments;
        row.lost += arrived.lost + seen.lost(handed_over);
        row.duplicated += outcome.duplicates + seen.duplicated;
        row.reordered += outcome.out_of_order + seen.reordered;
        row.retransmitted += again;
        row.no_descriptor += arrived.no_descriptor;
        row.not_receiving += arrived.not_receiving;
        // The receiver's being off is one reason of the filter's.
        row.missed_otherwise += arrived.missed() - arrived.no_descriptor - arrived.not_receiving;
        row.connections_lost += u64::from(outcome.stream_wrong.is_some());
        // Each run begins with pictures of its own; a soak has hundreds of runs.
        let kept = PICTURES.saturating_sub(self.observed.len());
        let mut observed = outcome.observed;
        observed.iter_mut().skip(kept).for_each(|seen| seen.frames = None);
        self.observed.append(&mut observed);
    }

    /// The row.
    pub(super) fn row(&self, called_off: usize) -> Row {
        let seen = &self.observed;
        let some = |of: &dyn Fn(&Observed) -> Option<Span>| {
            let mut samples = Samples::new();
            seen.iter().filter_map(of).for_each(|span| samples.record(span));
            Spread::of(&samples)
        };
        let spread = |of: &dyn Fn(&Observed) -> Span| some(&|seen| Some(of(seen)));
        // A death is no request.
        let step = |of: fn(&Replacement) -> Option<Span>| {
            some(&|seen| of(&seen.replacement).filter(|_| !self.kill))
        };
        let longest = |gap: fn(&Observed) -> Option<Span>| {
            seen.iter().filter_map(gap).max().map(|gap| gap.as_us())
        };
        let free_descriptors = seen.iter().map(|seen| seen.free_descriptors).min();
        let interval_ns = self.row.interval_ns;
        let usual = Spread::of(&self.intervals_without).map(|spread| spread.mean);
        let dispatches = seen.iter().filter_map(|seen| Some(seen.dispatches? as f64));
        let dispatches: Vec<f64> = dispatches.collect();
        let read_dispatches = seen.iter().filter_map(|seen| seen.replacement.read_dispatches);
        let read_dispatches: Vec<f64> = read_dispatches.map(|count| count as f64).collect();
        let [store_request_us, store_request_during_us] =
            [false, true].map(|during| self.store_requests(during));
        Row {
            replacements: self.replacements(),
            resets: seen.iter().filter(|seen| seen.replacement.reset).count() as u64,
            called_off: called_off as u64,
            replace_us: step(|of| Some(of.replace())),
            create_us: step(|of| Some(of.create())),
            write_state_us: step(Replacement::write_state),
            start_us: step(|of| Some(of.start())),
            read_state_us: step(Replacement::read_state),
            swap_us: spread(&|seen| seen.replacement.swap()),
            outage_us: spread(&|seen| seen.outage(self.kill)),
            send_us: Spread::of(&self.sends_without),
            send_with_us: Spread::of(&self.sends_with),
            send_during_us: Spread::of(&self.sends_during),
            usual_interval_us: usual,
            longest_interval_us: self.longest_interval.map(Span::as_us),
            excess_us: usual.and_then(|usual| self.excess(usual)),
            dispatches: mean(&dispatches),
            read_dispatches: mean(&read_dispatches),
            store_request_us,
            store_request_during_us,
            longest_send_gap_us: longest(|seen| seen.send_gap),
            longest_receive_gap_us: longest(|seen| seen.receive_gap)
                .filter(|_| self.load == Load::Heavy),
            free_descriptors,
            bridged_us: free_descriptors.zip(interval_ns).map(|(free, ns)| free as f64 * ns / 1e3),
            ..self.row.clone()
        }
    }

    /// How long other clients' requests to the data store took, of those into which a replacement fell or of all others.
    fn store_requests(&self, during: bool) -> Option<Spread> {
        let mut samples = Samples::new();
        for seen in &self.observed {
            let requests = seen.store_requests.iter();
            let of_these = |it: &&StoreRequest| overlap((it.at, it.at + it.took), seen) == during;
            requests.filter(of_these).for_each(|it| samples.record(it.took));
        }
        Spread::of(&samples)
    }

    /// What the intervals from each request on were longer than usual.
    fn excess(&self, usual_us: f64) -> Option<Spread> {
        let usual = usual_us * EXCESS_OVER as f64;
        Spread::of_us(self.following.iter().map(|all| all.as_us() - usual).collect())
    }

    /// A line for each replacement.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        self.observed.iter().enumerate().map(|(at, seen)| Line::of(self, at, seen))
    }

    /// The steps of one replacement, and the frames around it: of the first ones that whose time to replace is
    /// in the middle.
    pub(super) fn timeline(&self) -> Vec<Moment> {
        let mut first: Vec<&Observed> =
            self.observed.iter().filter(|seen| seen.frames.is_some()).collect();
        first.sort_by_key(|seen| seen.replacement.swap());
        let Some(typical) = first.get(first.len().saturating_sub(1) / 2) else {
            return Vec::new();
        };
        self.moments(typical)
    }

    fn moments(&self, seen: &Observed) -> Vec<Moment> {
        let replacement = &seen.replacement;
        let steps = [
            (if self.kill { "killed" } else { "request" }, Some(seen.begun)),
            ("warm", Some(replacement.warm)),
            ("order", (!self.kill).then_some(replacement.begun)),
            ("order seen", replacement.order_seen.filter(|_| !self.kill)),
            ("death seen", self.kill.then_some(replacement.begun)),
            ("handed over", Some(replacement.handed_over)),
            ("awake", Some(replacement.awake)),
            ("accepted", Some(replacement.accepted)),
            ("served", Some(replacement.served)),
            ("result", Some(replacement.returned)),
        ];
        let steps = steps.into_iter().filter_map(|(what, at)| Some((what, at?)));
        let frames = seen.frames.iter().flat_map(|frames| {
            let kind = |what: &'static str, times: &[Time]| {
                let times: Vec<Time> = times.to_vec();
                times.into_iter().map(move |at| (what, at))
            };
            kind("frame arrived", &frames.arrived)
                .chain(kind("frame taken", &frames.taken))
                .chain(kind("frame sent", &frames.sent))
        });
        let moment = |(what, at): (&'static str, Time)| Moment {
            way: self.row.way.clone(),
            load: self.row.load.clone(),
            kind: self.row.kind.clone(),
            spare: self.row.spare.clone(),
            what: what.to_owned(),
            at_us: relative_us(at, seen.begun),
        };
        steps.chain(frames).filter(|(_, at)| *at != Time::NEVER).map(moment).collect()
    }
}

/// Whether a replacement fell into this time.
fn overlap((from, to): (Time, Time), seen: &Observed) -> bool {
    seen.begun <= to && seen.replacement.served >= from
}

/// A time in microseconds from another on; below 0 before it.
fn relative_us(at: Time, from: Time) -> f64 {
    if at >= from { at.since(from).as_us() } else { -from.since(at).as_us() }
}

/// A line of `replacements.csv`. Times are in microseconds from the request, or the kill, on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// See [`Row`].
    pub way: String,
    /// See [`Row`].
    pub load: String,
    /// See [`Row`].
    pub kind: String,
    /// See [`Row`].
    pub spare: String,
    /// Which replacement of its row, from 1.
    pub number: usize,
    /// The generation that was replaced.
    pub from: u32,
    /// The one that followed.
    pub to: u32,
    /// The device was reset.
    pub reset: bool,
    /// Time to replace, from the request; absent of a kill.
    pub replace_us: Option<f64>,
    /// Time to switch, from the order.
    pub swap_us: f64,
    /// How long no driver served the device.
    pub outage_us: f64,
    /// When the new process waited for the device.
    pub warm_us: f64,
    /// When the order went out; of a kill, when the death was seen.
    pub order_us: f64,
    /// When the order, or the death, was seen.
    pub seen_us: Option<f64>,
    /// When the old driver had let go.
    pub handed_over_us: f64,
    /// When the new one saw the baton.
    pub awake_us: f64,
    /// When it had accepted what was left.
    pub accepted_us: f64,
    /// When its first pass had served the device.
    pub served_us: f64,
    /// Between two frames of the workload on the wire, around it.
    pub send_gap_us: Option<f64>,
    /// Between two frames taken from the receive ring, around it.
    pub receive_gap_us: Option<f64>,
    /// Free receive descriptors when it began.
    pub free_descriptors: u64,
}

impl Line {
    fn of(tally: &Tally, at: usize, seen: &Observed) -> Line {
        let replacement = &seen.replacement;
        let us = |time: Time| relative_us(time, seen.begun);
        let noticed = if tally.kill { Some(replacement.begun) } else { replacement.order_seen };
        Line {
            way: tally.row.way.clone(),
            load: tally.row.load.clone(),
            kind: tally.row.kind.clone(),
            spare: tally.row.spare.clone(),
            number: at + 1,
            from: replacement.from,
            to: replacement.to,
            reset: replacement.reset,
            replace_us: (!tally.kill).then(|| replacement.replace().as_us()),
            swap_us: replacement.swap().as_us(),
            outage_us: seen.outage(tally.kill).as_us(),
            warm_us: us(replacement.warm),
            order_us: us(replacement.begun),
            seen_us: noticed.map(us),
            handed_over_us: us(replacement.handed_over),
            awake_us: us(replacement.awake),
            accepted_us: us(replacement.accepted),
            served_us: us(replacement.served),
            send_gap_us: seen.send_gap.map(|gap| gap.as_us()),
            receive_gap_us: seen.receive_gap.map(|gap| gap.as_us()),
            free_descriptors: seen.free_descriptors,
        }
    }
}

/// A line of `timeline.csv`: something that happened in or around the replacement that is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// See [`Row`].
    pub way: String,
    /// See [`Row`].
    pub load: String,
    /// See [`Row`].
    pub kind: String,
    /// See [`Row`].
    pub spare: String,
    /// A step of the replacement, such as `handed over`, or what became of a frame.
    pub what: String,
    /// When, in microseconds from the request, or the kill, on.
    pub at_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replace::replacer::Frames;
    use warikomi_live::Kind;

    /// A run of a soak with this many replacements, each with its picture.
    fn run(replacements: usize) -> Outcome {
        let at = Time::from_ps(1_000_000);
        let replacement = Replacement {
            kind: Kind::Planned,
            from: 1,
            to: 2,
            reset: false,
            requested: at,
            creating: at,
            warm: at,
            begun: at,
            order_seen: Some(at),
            handed_over: at,
            awake: at,
            accepted: at,
            served: at,
            returned: at,
            read_dispatches: None,
        };
        let frames = Some(Frames { sent: vec![at; 3], ..Frames::default() });
        let seen = Observed {
            replacement,
            begun: at,
            free_descriptors: 1,
            send_gap: None,
            receive_gap: None,
            frames,
            dispatches: None,
            store_requests: Vec::new(),
        };
        Outcome { observed: vec![seen; replacements], ..Outcome::default() }
    }

    /// Every frame that arrived is in one column of the row.
    #[test]
    fn a_frame_that_the_card_could_not_write_is_in_the_row() {
        let plan = Plan::default();
        let mut tally = Tally::new(&plan, &plan.cases()[0]);
        let arrived = Totals {
            injected: 42,
            no_descriptor: 1,
            filtered: 5,
            not_receiving: 2,
            dma_error: 7,
            not_completed: 8,
            refused: 9,
            delivered: 10,
            lost: 2,
            ..Totals::default()
        };
        tally.with(Outcome { arrived, ..Outcome::default() });
        let row = tally.row(0);
        assert_eq!((row.no_descriptor, row.not_receiving, row.missed_otherwise), (1, 2, 27));
        let sum = row.received + row.lost + row.no_descriptor + row.not_receiving;
        assert_eq!(sum + row.missed_otherwise, arrived.injected);
    }

    /// They took a megabyte each run, which a soak of 10,000 replacements had a hundred of.
    #[test]
    fn only_the_first_replacements_of_a_row_keep_their_pictures() {
        let plan = Plan::default();
        let mut tally = Tally::new(&plan, &plan.cases()[0]);
        for _ in 0..5 {
            tally.with(run(PICTURES / 2 + 1));
        }
        let kept: Vec<usize> =
            (0..tally.observed.len()).filter(|&at| tally.observed[at].frames.is_some()).collect();
        assert_eq!(kept, (0..PICTURES).collect::<Vec<_>>());
        assert_eq!(tally.replacements(), 5 * (PICTURES as u64 / 2 + 1));
    }
}
