//! The intervals at one place, and what is said about them.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};
use warikomi_measure::{BothHiccups, NotRunning};
use warikomi_nic::InterruptRecord;

use crate::inject::Injected;

/// Where intervals are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The NIC is given a packet.
    Injected,
    /// Its interrupt rises.
    Raised,
    /// The driver's handler first looks at it.
    Handler,
}

impl Place {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Place::Injected => "injected",
            Place::Raised => "raised",
            Place::Handler => "handler",
        }
    }
}

/// One interval, marked with who was not running for part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// When it ended.
    pub until: Time,
    /// How long it was.
    pub length: Span,
    /// Into whose hiccup it falls.
    pub not_running: NotRunning,
}

/// The intervals at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Kept", from = "Kept")]
pub struct Series {
    /// Which place.
    pub place: Place,
    /// What was asked for.
    pub requested: Span,
    /// What came, in order.
    pub intervals: Vec<Interval>,
    /// By how much later things came at the end of the run than at its beginning, each against its
    /// own deadline, in nanoseconds; negative if earlier. `None` of too few.
    pub drift_ns: Option<f64>,
}

/// The figures of one place: shares from 0 to 1, `quiet` without the intervals in hiccups and absent
/// if all of them are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlaceFigures {
    /// Which place.
    pub place: Place,
    /// Intervals.
    pub count: u64,
    /// Share that was off by no more than the timer's resolution.
    pub exact_share: f64,
    /// Share within 1% of the request.
    pub within_1_share: f64,
    /// Share within 6.25% of the request.
    pub within_6_25_share: f64,
    /// The largest error to either side, in nanoseconds.
    pub worst_error_ns: f64,
    /// The same as a share of the request.
    pub worst_error_share: f64,
    /// Drift over the run in nanoseconds; see [`Series::drift_ns`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_ns: Option<f64>,
    /// Share off by more than 1% though both sides were running, as far as they know.
    pub not_excused_share: f64,
    /// Share that falls into a hiccup.
    pub excused_share: f64,
    /// Intervals in no hiccup.
    pub quiet_count: u64,
    /// `exact_share` of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_exact_share: Option<f64>,
    /// `within_1_share` of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_within_1_share: Option<f64>,
    /// `within_6_25_share` of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_within_6_25_share: Option<f64>,
    /// `worst_error_ns` of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_worst_error_ns: Option<f64>,
}

/// A series in the file of steps. There may be a million intervals, so only what they do not share is kept
/// of each.
#[derive(Serialize, Deserialize)]
struct Kept {
    place: Place,
    requested: Span,
    /// When the first interval began.
    from: Time,
    lengths: Vec<Span>,
    /// Which intervals fall into a hiccup of the support side, from 0; and of the target.
    support_hiccups: Vec<usize>,
    target_hiccups: Vec<usize>,
    drift_ns: Option<f64>,
}

impl From<Series> for Kept {
    fn from(series: Series) -> Kept {
        let intervals = &series.intervals;
        let from = intervals.first().map_or(Time::ZERO, |first| {
            Time::from_ps(first.until.as_ps().saturating_sub(first.length.as_ps()))
        });
        let marked = |side: fn(NotRunning) -> bool| {
            let all = intervals.iter().enumerate();
            all.filter(|(_, interval)| side(interval.not_running)).map(|(at, _)| at).collect()
        };
        Kept {
            place: series.place,
            requested: series.requested,
            from,
            lengths: intervals.iter().map(|interval| interval.length).collect(),
            support_hiccups: marked(|side| side.support),
            target_hiccups: marked(|side| side.target),
            drift_ns: series.drift_ns,
        }
    }
}

impl From<Kept> for Series {
    fn from(kept: Kept) -> Series {
        let mut until = kept.from;
        let interval = |length: &Span| {
            until = Time::from_ps(until.as_ps().saturating_add(length.as_ps()));
            Interval { until, length: *length, not_running: NotRunning::default() }
        };
        let mut intervals: Vec<_> = kept.lengths.iter().map(interval).collect();
        let mut mark = |marked: Vec<usize>, side: fn(&mut NotRunning) -> &mut bool| {
            for at in marked {
                if let Some(interval) = intervals.get_mut(at) {
                    *side(&mut interval.not_running) = true;
                }
            }
        };
        mark(kept.support_hiccups, |side| &mut side.support);
        mark(kept.target_hiccups, |side| &mut side.target);
        let Kept { place, requested, drift_ns, .. } = kept;
        Series { place, requested, intervals, drift_ns }
    }
}

/// When something happened, and when its packet was due.
type Event = (Time, Time);

impl Series {
    /// The series of the three places.
    pub(super) fn of(run: &Injected, requested: Span) -> [Series; 3] {
        let known = |row: warikomi_measure::Row| Some((row.injected?, row.planned?));
        let injected: Vec<Event> = run.ledger.rows().filter_map(known).collect();
        let (mut raised, mut handled) = (Vec::new(), Vec::new());
        for record in of_packets(run, requested) {
            // An interrupt is that of the latest packet before it.
            let packets = injected.partition_point(|(at, _)| *at <= record.raised);
            let Some((_, due)) = packets.checked_sub(1).and_then(|last| injected.get(last)) else {
                continue;
            };
            raised.push((record.raised, *due));
            if record.handled != Time::NEVER {
                handled.push((record.handled, *due));
            }
        }
        // Vectors are handled in any order.
        handled.sort_by_key(|(at, _)| *at);
        let places =
            [(Place::Injected, injected), (Place::Raised, raised), (Place::Handler, handled)];
        places.map(|(place, events)| Series::new(place, requested, &events, &run.hiccups))
    }

    fn new(place: Place, requested: Span, events: &[Event], hiccups: &BothHiccups) -> Series {
        let interval = |pair: &[Event]| {
            let ((from, due), (until, _)) = (pair[0], pair[1]);
            // A hiccup that made its beginning late has made it short.
            let touched = hiccups.not_running(from.min(due), until);
            // What the target does is no matter to the injection.
            let target = touched.target && place != Place::Injected;
            let not_running = NotRunning { target, ..touched };
            Interval { until, length: until.since(from), not_running }
        };
        let intervals = events.windows(2).map(interval).collect();
        Series { place, requested, intervals, drift_ns: drift_ns(events) }
    }

    /// The errors of all intervals, likewise.
    pub(super) fn errors_ns(&self) -> Vec<f64> {
        self.intervals.iter().map(|interval| self.error_ns(interval)).collect()
    }

    /// The error of an interval in nanoseconds: negative if it was too short.
    pub fn error_ns(&self, interval: &Interval) -> f64 {
        (interval.length.as_ps() as i128 - self.requested.as_ps() as i128) as f64 / 1e3
    }

    /// The figures; `None` without an interval. `resolution` is what counts as exact.
    pub fn figures(&self, resolution: Span) -> Option<PlaceFigures> {
        let all = self.judged(resolution, |_| true)?;
        let quiet = self.judged(resolution, |interval| !interval.not_running.any());
        let quiet_misses = quiet.as_ref().map_or(0, |quiet| quiet.count - quiet.within_1);
        let quiet_count = quiet.as_ref().map_or(0, |quiet| quiet.count);
        Some(PlaceFigures {
            place: self.place,
            count: all.count,
            exact_share: all.share(all.exact),
            within_1_share: all.share(all.within_1),
            within_6_25_share: all.share(all.within_6_25),
            worst_error_ns: all.worst.as_ns(),
            worst_error_share: all.worst.as_ps() as f64 / self.requested.as_ps() as f64,
            drift_ns: self.drift_ns,
            not_excused_share: all.share(quiet_misses),
            excused_share: all.share(all.count - quiet_count),
            quiet_count,
            quiet_exact_share: quiet.as_ref().map(|quiet| quiet.share(quiet.exact)),
            quiet_within_1_share: quiet.as_ref().map(|quiet| quiet.share(quiet.within_1)),
            quiet_within_6_25_share: quiet.as_ref().map(|quiet| quiet.share(quiet.within_6_25)),
            quiet_worst_error_ns: quiet.as_ref().map(|quiet| quiet.worst.as_ns()),
        })
    }

    fn judged(&self, resolution: Span, which: impl Fn(&Interval) -> bool) -> Option<Judged> {
        let mut judged = Judged::default();
        let requested = self.requested.as_ps();
        for interval in self.intervals.iter().filter(|interval| which(interval)) {
            let off = interval.length.as_ps().abs_diff(requested);
            judged.count += 1;
            judged.exact += u64::from(off <= resolution.as_ps());
            judged.within_1 += u64::from(off.saturating_mul(100) <= requested);
            judged.within_6_25 += u64::from(off.saturating_mul(16) <= requested);
            judged.worst = judged.worst.max(Span::from_ps(off));
        }
        (judged.count > 0).then_some(judged)
    }
}

#[derive(Default)]
struct Judged {
    count: u64,
    exact: u64,
    within_1: u64,
    within_6_25: u64,
    worst: Span,
}

impl Judged {
    fn share(&self, some: u64) -> f64 {
        some as f64 / self.count as f64
    }
}

/// The interrupts of the run's packets; behind the last one others may follow, such as those of what the guest
/// sends.
pub(super) fn of_packets(
    run: &Injected,
    requested: Span,
) -> impl Iterator<Item = &InterruptRecord> {
    let last = run.ledger.rows().filter_map(|row| row.injected).max().unwrap_or(Time::ZERO);
    run.interrupts.iter().take_while(move |record| record.raised <= last + requested)
}

/// A run of which more intervals than these fall into hiccups shows nothing.
pub(super) const MOST_EXCUSED: f64 = 0.1;

/// How often such a run is done again at most.
pub(super) const MOST_RETRIES: u32 = 10;

/// Whether a run was disturbed too much to show anything.
pub(super) fn is_disturbed(series: &[Series]) -> bool {
    series
        .iter()
        .filter_map(|series| series.figures(Span::ZERO))
        .any(|figures| figures.excused_share > MOST_EXCUSED)
}

/// The median lateness of the last tenth less that of the first: single delays at either end do not
/// count as drift.
fn drift_ns(events: &[Event]) -> Option<f64> {
    const LEAST: usize = 20;
    if events.len() < LEAST {
        return None;
    }
    let tenth = events.len() / 10;
    let median = |events: &[Event]| {
        let late = |(at, due): &Event| at.as_ps() as i128 - due.as_ps() as i128;
        let mut late: Vec<i128> = events.iter().map(late).collect();
        late.sort_unstable();
        late[late.len() / 2]
    };
    let drift = median(&events[events.len() - tenth..]) - median(&events[..tenth]);
    Some(drift as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_measure::Hiccups;

    const REQUESTED: Span = Span::from_ns(1_000);

    fn at(ns: u64) -> Time {
        Time::from_ps(ns * 1_000)
    }

    fn series(times_ns: &[u64], hiccups: &Hiccups) -> Series {
        let events: Vec<Event> =
            times_ns.iter().zip(0..).map(|(&ns, k)| (at(ns), at(k * 1_000))).collect();
        let hiccups = BothHiccups { support: hiccups.clone(), target: None };
        Series::new(Place::Injected, REQUESTED, &events, &hiccups)
    }

    /// Injections, while our side stood still once, between these times in nanoseconds.
    fn with_a_hiccup(from_ns: u64, until_ns: u64, events: &[Event]) -> Series {
        let mut support = Hiccups::default();
        for pass in [from_ns, until_ns] {
            support.pass(at(pass));
        }
        let hiccups = BothHiccups { support, target: None };
        Series::new(Place::Injected, REQUESTED, events, &hiccups)
    }

    fn marked(series: &Series) -> Vec<bool> {
        series.intervals.iter().map(|each| each.not_running.any()).collect()
    }

    #[test]
    fn every_limit_includes_its_edge_and_the_worst_error_is_of_either_side() {
        // Off by 0, +10 (1%), +62, +63 and -400 ns.
        let series = series(&[0, 1_000, 2_010, 3_072, 4_135, 4_735], &Hiccups::default());
        let figures = series.figures(Span::from_ns(10)).unwrap();
        assert_eq!(figures.count, 5);
        assert_eq!(figures.exact_share, 0.4);
        assert_eq!((figures.within_1_share, figures.within_6_25_share), (0.4, 0.6));
        assert_eq!((figures.worst_error_ns, figures.worst_error_share), (400.0, 0.4));
        assert_eq!(series.error_ns(&series.intervals[4]), -400.0);
        assert_eq!(series.figures(Span::from_ns(9)).unwrap().exact_share, 0.2);
    }

    #[test]
    fn an_interval_in_a_hiccup_is_marked_and_stays_in_the_figures_with_all() {
        // As if nothing had been due meanwhile.
        let events = [0, 1_000, 4_000, 5_000].map(|ns| (at(ns), at(ns)));
        let series = with_a_hiccup(1_000, 4_000, &events);
        assert_eq!(marked(&series), [false, true, false]);
        let kept = serde_json::to_string(&series).unwrap();
        assert_eq!(serde_json::from_str::<Series>(&kept).unwrap(), series);
        let figures = series.figures(Span::ZERO).unwrap();
        assert_eq!((figures.count, figures.quiet_count), (3, 2));
        assert_eq!((figures.worst_error_ns, figures.quiet_worst_error_ns), (2_000.0, Some(0.0)));
        assert_eq!(figures.quiet_exact_share, Some(1.0));
    }

    #[test]
    fn an_interval_whose_beginning_a_hiccup_made_late_is_marked_as_well() {
        let events = [(0, 0), (3_950, 1_000), (4_000, 4_000), (5_000, 5_000)];
        let events = events.map(|(seen, due)| (at(seen), at(due)));
        assert_eq!(marked(&with_a_hiccup(900, 3_900, &events)), [true, true, false]);
    }

    #[test]
    fn where_all_intervals_are_in_hiccups_there_are_no_quiet_figures() {
        let mut hiccups = Hiccups::default();
        for pass in [at(0), at(4_000)] {
            hiccups.pass(pass);
        }
        let figures = series(&[0, 4_000], &hiccups).figures(Span::ZERO).unwrap();
        assert_eq!((figures.quiet_count, figures.quiet_exact_share), (0, None));
        assert_eq!(series(&[0], &hiccups).figures(Span::ZERO), None);
    }

    #[test]
    fn drift_is_what_remains_and_not_what_was_late_once() {
        let steady: Vec<u64> =
            (0..100).map(|k| k * 1_000 + if k == 99 { 500 } else { 7 }).collect();
        assert_eq!(series(&steady, &Hiccups::default()).drift_ns, Some(0.0));
        let slow: Vec<u64> = (0..100).map(|k| k * 1_003).collect();
        assert_eq!(series(&slow, &Hiccups::default()).drift_ns, Some(270.0));
        assert_eq!(series(&slow[..19], &Hiccups::default()).drift_ns, None);
    }
}
