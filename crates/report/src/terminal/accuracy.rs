//! What `warikomi accuracy` prints.

use serde_json::{Map, Value};
use warikomi_measure::RunResult;

use super::Style;
use super::figures::{count, percent, time};
use super::inject::{asked_for, tested};
use super::table::Page;

type TableRow = (bool, Vec<String>);

/// The errors of the intervals at one place, in nanoseconds: negative where they were too short.
pub struct Errors<'a> {
    /// Which place.
    pub place: &'a str,
    /// The errors.
    pub errors_ns: Vec<f64>,
}

/// The result of `warikomi accuracy` as a page of text: how exact intervals were at each place,
/// beside the published figures, a histogram of `errors`, the smallest interval, and what is to be said
/// against it.
pub fn accuracy(result: &RunResult, errors: &[Errors<'_>], style: Style) -> String {
    let mut page = Page::new(style);
    tested(&mut page, result);
    page.paragraph("asked: ", &asked_for(result));
    page.blank();
    places(&mut page, result);
    page.blank();
    beside_published(&mut page, result);
    if let (Some(requested), Some(resolution)) =
        (figure(result, "requested_ns"), resolution(result))
    {
        page.blank();
        histogram(&mut page, errors, requested, resolution);
    }
    interrupts_alone(&mut page, result);
    page.blank();
    page.table(&["Figure", "value"], &figures(result));
    for warning in &result.warnings {
        page.blank();
        page.warning(&warning.what, &warning.mend);
    }
    page.finish()
}

fn figure(result: &RunResult, name: &str) -> Option<f64> {
    result.figures.get(name).and_then(Value::as_f64)
}

fn resolution(result: &RunResult) -> Option<f64> {
    figure(result, "resolution_ns")
}

fn number(row: &Map<String, Value>, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}

fn shown(value: Option<f64>, how: fn(f64) -> String) -> String {
    value.map_or(String::new(), how)
}

fn place(row: &Map<String, Value>) -> &str {
    row.get("place").and_then(Value::as_str).unwrap_or("?")
}

fn places(page: &mut Page, result: &RunResult) {
    let mut rows: Vec<TableRow> = Vec::new();
    let mut in_hiccups = 0;
    for row in result.rows.iter().flatten() {
        let line = |name: &str, prefix: &str, drift: String| {
            let of = |figure: &str| number(row, &format!("{prefix}{figure}"));
            (
                false,
                vec![
                    name.to_owned(),
                    shown(of("count"), |number| count(number as u64)),
                    shown(of("exact_share"), percent),
                    shown(of("within_1_share"), percent),
                    shown(of("within_6_25_share"), percent),
                    shown(of("worst_error_ns"), time),
                    drift,
                ],
            )
        };
        rows.push(line(place(row), "", shown(number(row, "drift_ns"), time)));
        let marked =
            number(row, "count").unwrap_or(0.0) - number(row, "quiet_count").unwrap_or(0.0);
        if marked > 0.0 {
            in_hiccups += marked as u64;
            rows.push(line("  quiet", "quiet_", String::new()));
        }
    }
    page.table(&["Interval", "count", "exact", "in 1%", "in 6.25%", "worst", "drift"], &rows);
    if let Some(ns) = resolution(result) {
        let note = format!(
            "exact: off by at most {}, one pass of the loop that watches the clock",
            time(ns)
        );
        page.paragraph(" ", &note);
    }
    page.paragraph(
        " ",
        "drift: how much later things came at the end of the run than at its start",
    );
    if in_hiccups > 0 {
        let note =
            format!("quiet: without the intervals that fall into a hiccup ({})", count(in_hiccups));
        page.paragraph(" ", &note);
    }
}

fn beside_published(page: &mut Page, result: &RunResult) {
    let rows: Vec<&Map<String, Value>> = result.rows.iter().flatten().collect();
    let places: Vec<&str> = rows.iter().map(|row| place(row)).collect();
    let header: Vec<&str> = [&["Beside published"], &places[..], &["published"]].concat();
    let line = |name: &str, figure_name: &str| {
        let cells = rows.iter().map(|row| shown(number(row, figure_name), percent));
        let published = shown(figure(result, &format!("published_{figure_name}")), percent);
        let name = std::iter::once(name.to_owned());
        (false, name.chain(cells).chain(std::iter::once(published)).collect())
    };
    let mut lines = vec![line("exact", "exact_share"), line("worst error", "worst_error_share")];
    for (name, found, published) in [
        ("smallest interval", "smallest_interval_ns", Some("published_smallest_interval_ns")),
        ("smallest pace", "smallest_paced_interval_ns", None),
    ] {
        let Some(ns) = figure(result, found) else { continue };
        let mut cells = vec![name.to_owned(), time(ns)];
        cells.resize(places.len() + 1, String::new());
        cells.push(shown(published.and_then(|name| figure(result, name)), time));
        lines.push((false, cells));
    }
    page.table(&header, &lines);
    if let Some(ns) = figure(result, "published_requested_ns") {
        page.paragraph(" ", &format!("published: of {} intervals", time(ns)));
    }
    if let Some(share) = figure(result, "smallest_kept_limit_share") {
        let note = format!(
            "smallest interval: the shortest of which {0} are within 6.25%; smallest pace: the \
             shortest at which {0} of the packets go out before the next is due; both at the \
             injection, whether or not the driver keeps up",
            percent(share)
        );
        page.paragraph(" ", &note);
    }
}

/// Shares of the request that part the histogram.
const EDGES: [f64; 4] = [0.01, 0.0625, 0.25, 1.0];
/// The longest bar in characters.
const BAR: f64 = 10.0;

fn histogram(page: &mut Page, errors: &[Errors<'_>], requested: f64, resolution: f64) {
    let header: Vec<&str> =
        std::iter::once("Error").chain(errors.iter().map(|errors| errors.place)).collect();
    let mut rows = Vec::new();
    for bin in bins(requested, resolution) {
        let counts: Vec<usize> = errors
            .iter()
            .map(|place| place.errors_ns.iter().filter(|error| bin.holds(**error)).count())
            .collect();
        let all = errors.iter().map(|place| place.errors_ns.len());
        if counts.iter().any(|count| *count > 0) {
            let cells = counts.iter().zip(all).map(|(&part, whole)| bar(part, whole));
            rows.push((false, std::iter::once(bin.label.clone()).chain(cells).collect()));
        }
    }
    page.table(&header, &rows);
}

fn bar(part: usize, whole: usize) -> String {
    if part == 0 {
        return String::new();
    }
    let length = (BAR * part as f64 / whole as f64).round() as usize;
    let bar = if length == 0 { "▏".to_owned() } else { "█".repeat(length) };
    format!("{bar} {}", count(part as u64))
}

/// Errors from `above` (not included) to `up_to`, in nanoseconds, of one side; the exact ones are those of
/// both sides up to the resolution.
struct Bin {
    label: String,
    side: f64,
    above: f64,
    up_to: f64,
}

impl Bin {
    fn holds(&self, error_ns: f64) -> bool {
        if self.side == 0.0 {
            return error_ns.abs() <= self.up_to;
        }
        let off = error_ns * self.side;
        off > self.above && off <= self.up_to
    }
}

/// From the shortest intervals to the longest. Together they hold every error once.
fn bins(requested: f64, resolution: f64) -> Vec<Bin> {
    let mut edges = vec![resolution];
    edges.extend(EDGES.map(|share| share * requested).iter().filter(|edge| **edge > resolution));
    edges.push(f64::INFINITY);
    let side = |side: f64, word: &str| {
        let bin = |pair: &[f64]| {
            let label = match pair[1] {
                f64::INFINITY => format!("more than {} {word}", time(pair[0])),
                up_to => format!("up to {} {word}", time(up_to)),
            };
            Bin { label, side, above: pair[0], up_to: pair[1] }
        };
        edges.windows(2).map(bin).collect::<Vec<_>>()
    };
    let exact = Bin { label: "exact".to_owned(), side: 0.0, above: 0.0, up_to: resolution };
    let short = side(-1.0, "short").into_iter().rev();
    short.chain(std::iter::once(exact)).chain(side(1.0, "long")).collect()
}

/// Interrupts without packets, where they were measured.
fn interrupts_alone(page: &mut Page, result: &RunResult) {
    let rows: Vec<TableRow> = ["200", "100"]
        .into_iter()
        .filter_map(|spacing| {
            let of = |name: &str| figure(result, &format!("alone_{spacing}_{name}"));
            let counted = |name: &str| shown(of(name), |number| count(number as u64));
            of("sent")?;
            let cells = vec![
                format!("{spacing} ns"),
                counted("sent"),
                counted("handled"),
                shown(of("in_step_share"), percent),
                shown(of("within_6_25_share"), percent),
                shown(of("lag_p50_ns"), time),
                shown(of("lag_p99_ns"), time),
            ];
            Some((false, cells))
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.blank();
    let header =
        ["Interrupts alone", "sent", "handled", "in step", "in 6.25%", "lag p50", "lag p99"];
    page.table(&header, &rows);
    page.paragraph(" ", "in step: its handler began before the next interrupt was sent");
}

fn figures(result: &RunResult) -> Vec<TableRow> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push((false, vec![name.to_owned(), value]));
    if let Some(ledger) = &result.ledger {
        row("packets accepted by the driver", count(ledger.accepted));
        row("packets missed", count(ledger.injected.saturating_sub(ledger.accepted)));
        row("unaccounted", count(ledger.unaccounted));
    }
    if let Some(interrupts) = &result.interrupts {
        row("interrupts raised", count(interrupts.raised));
        row("interrupts handled", count(interrupts.handled));
        row("interrupts signalled again", count(interrupts.resignalled));
    }
    if let Some(hiccups) = result.hiccups.as_ref().and_then(|hiccups| hiccups.support.as_ref()) {
        row("hiccups of the support side", count(hiccups.count));
        row("longest of these", time(hiccups.longest_ns));
    }
    let machine = &result.machine;
    let waited = [
        ("support side waited for its core", machine.support_waited_us),
        ("target waited for its core", machine.target_waited_us),
    ];
    for (name, us) in waited {
        if let Some(us) = us {
            row(name, time(us * 1e3));
        }
    }
    if let Some(stolen) = machine.stolen_percent {
        row("time stolen by the host", percent(stolen / 100.0));
    }
    if let Some(ns) = figure(result, "clock_tick_ns") {
        row("tick of the clock", time(ns));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use warikomi_measure::{Machine, TimeBase};

    fn example() -> RunResult {
        let mut result = RunResult::new("accuracy", TimeBase::Real, Machine::default());
        let row = json!({"place": "injected", "count": 999, "exact_share": 0.991,
            "within_1_share": 0.996, "within_6_25_share": 1.0, "worst_error_ns": 2_000.0,
            "worst_error_share": 0.0526, "drift_ns": -3.0, "quiet_count": 990,
            "quiet_exact_share": 1.0, "quiet_worst_error_ns": 70.0});
        result.rows = Some(vec![row.as_object().unwrap().clone()]);
        let figures = json!({"requested_ns": 38_000.0, "resolution_ns": 64.0,
            "smallest_interval_ns": 912.0, "smallest_kept_limit_share": 0.99,
            "published_requested_ns": 38_000.0, "published_exact_share": 0.996,
            "published_worst_error_share": 0.0625, "published_smallest_interval_ns": 200.0});
        result.figures = figures.as_object().unwrap().clone();
        result
    }

    #[test]
    fn measured_and_published_stand_side_by_side() {
        let errors = Errors { place: "injected", errors_ns: vec![0.0, -64.0, 65.0, 3_000.0, -1e6] };
        let text = accuracy(&example(), &[errors], Style::default());
        for expected in [
            "99.10%",
            "99.60%",
            "5.26%",
            "6.25%",
            "912 ns",
            "200 ns",
            "-3 ns",
            "quiet",
            "(9)",
            "off by at most 64 ns",
            "exact",
            "up to 380 ns long",
            "more than 38 µs short",
            "up to 9.5 µs long",
        ] {
            assert!(text.contains(expected), "{expected} is not in:\n{text}");
        }
        assert!(!text.contains("up to 380 ns short"), "a bin that holds nothing is left out");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn interrupts_without_packets_are_shown_where_there_are_any() {
        let mut result = example();
        let shown = |result: &RunResult| accuracy(result, &[], Style::default());
        assert!(!shown(&result).contains("alone"));
        result.figures.insert("alone_200_sent".into(), 100_000.into());
        result.figures.insert("alone_200_handled".into(), 99_998.into());
        result.figures.insert("alone_200_lag_p50_ns".into(), 170.0.into());
        let text = shown(&result);
        for expected in ["Interrupts alone", "100,000", "99,998", "170 ns"] {
            assert!(text.contains(expected), "{expected} is not in:\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_result_without_figures_does_not_panic() {
        let empty = RunResult::new("accuracy", TimeBase::Real, Machine::default());
        assert!(accuracy(&empty, &[], Style::default()).contains("Beside published"));
    }

    proptest! {
        #[test]
        fn every_error_is_in_one_bin(
            error in -1e9..1e9f64,
            requested in 1.0..1e9f64,
            resolution in 0.0..1e5f64,
        ) {
            let holding = bins(requested, resolution).iter().filter(|bin| bin.holds(error)).count();
            prop_assert_eq!(holding, 1);
        }
    }
}
