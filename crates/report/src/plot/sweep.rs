//! What a sweep shows: success against interval, and throughput.

use std::collections::BTreeMap;

use super::{Axis, Chart, MAX_SERIES, Mark, Scale, Series, Shape, Unit, figure};
use crate::read::{Cycle, ReadError, Run, Watch, stream};

/// The most cycles that are drawn.
const MAX_CYCLES: usize = 20_000;
/// The length whose two curves are overlaid, in bytes, or the nearest to it.
const OVERLAID_BYTES: u64 = 1_500;

type Points = Vec<(f64, f64)>;

/// Curves of success, if there are cycles; throughput, if rows have any.
pub(super) fn charts(run: &Run, watch: Watch<'_>) -> Result<Vec<Chart>, ReadError> {
    let mut curves = Curves::default();
    stream(&run.path.join("cycles.csv"), watch, |cycle: Cycle| curves.add(&cycle))?;
    let sends = |size: u64| {
        run.result.rows.iter().flatten().find_map(|row| {
            (figure(row, "size_bytes") == Some(size as f64)).then(|| figure(row, "send_ns"))?
        })
    };
    let mut charts = Vec::new();
    if !curves.by_size.is_empty() {
        charts.push(curves.success(
            "success-driver",
            "Success at the driver",
            |size| &size.driver,
            &sends,
        ));
        let title = "Success end to end";
        charts.push(curves.success("success-end-to-end", title, |size| &size.end_to_end, &sends));
        charts.extend(curves.overlaid(&sends));
    }
    charts.extend(throughput(run));
    Ok(charts)
}

/// Success of one length.
#[derive(Default)]
struct Size {
    driver: Curve,
    end_to_end: Curve,
}

/// Success against the interval.
#[derive(Default)]
struct Curve {
    undisturbed: Points,
    disturbed: Points,
}

impl Curve {
    fn add(&mut self, cycle: &Cycle, interval: f64, share: Option<f64>) {
        let points = if cycle.disturbed { &mut self.disturbed } else { &mut self.undisturbed };
        points.extend(share.map(|share| (interval, share)));
    }

    /// The medians of the cycles at each interval, and the cycles, if there are several at one. An
    /// interval at which every cycle was disturbed has no median.
    fn series(&self, name: &str, colour: usize) -> Vec<Series> {
        let medians = medians(&self.undisturbed);
        let all: Points = self.undisturbed.iter().chain(&self.disturbed).copied().collect();
        let mut series = Vec::new();
        if all.len() > medians.len() {
            let name = format!("{name}, each cycle");
            series.push(Series::new(&name, Shape::Dots, colour, sorted(all)));
        }
        // Dots alone would have no legend.
        let medians = if medians.is_empty() { self::medians(&self.disturbed) } else { medians };
        series.push(Series::new(name, Shape::Line, colour, medians));
        series
    }
}

fn sorted(mut points: Points) -> Points {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points
}

/// The median of the ordinates at each abscissa; of two in the middle the lower, so that it is one of
/// those that were measured.
fn medians(points: &Points) -> Points {
    let points = sorted(points.clone());
    points.chunk_by(|a, b| a.0 == b.0).map(|equal| equal[(equal.len() - 1) / 2]).collect()
}

#[derive(Default)]
struct Curves {
    by_size: BTreeMap<u64, Size>,
    cycles: usize,
    left_out: usize,
}

impl Curves {
    /// A cycle with a line in between shows the line, and one without an interval has no place on a
    /// log scale.
    fn add(&mut self, cycle: &Cycle) {
        let paced = cycle.line_rate_bps.is_none();
        let Some(interval) = cycle.interval_ns.filter(|ns| paced && *ns > 0.0) else { return };
        let known = self.by_size.contains_key(&cycle.size_bytes);
        if self.cycles == MAX_CYCLES || (!known && self.by_size.len() == MAX_SERIES) {
            self.left_out += 1;
            return;
        }
        self.cycles += 1;
        let size = self.by_size.entry(cycle.size_bytes).or_default();
        size.driver.add(cycle, interval, cycle.driver_share);
        size.end_to_end.add(cycle, interval, cycle.end_to_end_share);
    }

    fn success(
        &self,
        name: &str,
        title: &str,
        which: impl Fn(&Size) -> &Curve,
        sends: &impl Fn(u64) -> Option<f64>,
    ) -> Chart {
        let mut chart = empty(name, title);
        for (colour, (bytes, size)) in self.by_size.iter().enumerate() {
            let name = size_name(*bytes);
            chart.marks.extend(mark(*bytes, colour, sends));
            chart.series.extend(which(size).series(&name, colour));
        }
        if self.left_out > 0 {
            chart
                .notes
                .push(format!("{} cycles more than a plot can show are left out.", self.left_out));
        }
        chart
    }

    fn overlaid(&self, sends: &impl Fn(u64) -> Option<f64>) -> Option<Chart> {
        let (bytes, size) =
            self.by_size.iter().min_by_key(|(bytes, _)| bytes.abs_diff(OVERLAID_BYTES))?;
        let title = format!("Success at the driver and end to end, {}", size_name(*bytes));
        let mut chart = empty("success-overlaid", &title);
        chart.series = size.driver.series("driver", 0);
        chart.series.extend(size.end_to_end.series("end to end", 1));
        chart.marks.extend(mark(*bytes, MAX_SERIES - 1, sends));
        Some(chart)
    }
}

fn empty(name: &str, title: &str) -> Chart {
    let x = Axis::new("interval between packets", "interval_ns", Unit::Time, Scale::Log);
    let y = Axis::new("packets received", "success_share", Unit::Share, Scale::FromZero);
    let mut chart = Chart::new(name, title, x, y);
    chart.marks_are = Some("time to send one of that length".to_owned());
    chart.notes.push(
        "Where several cycles had one interval, the line is at their median and small dots are the \
         cycles; those that other work of the machine disturbed are dots only."
            .to_owned(),
    );
    chart
}

fn mark(bytes: u64, colour: usize, sends: &impl Fn(u64) -> Option<f64>) -> Option<Mark> {
    let name = format!("time to send {}", size_name(bytes));
    Some(Mark { name, at: sends(bytes)?, colour })
}

pub(super) fn size_name(bytes: u64) -> String {
    format!("{} bytes", crate::terminal::figures::count(bytes))
}

/// Throughput by length, of any experiment whose rows have it.
fn throughput(run: &Run) -> Option<Chart> {
    let rows = run.result.rows.as_ref()?;
    let points = |name: &str, on_a_line: bool| -> Points {
        let rows = rows.iter().filter(|row| crate::figures::on_a_line(row) == on_a_line);
        rows.filter_map(|row| Some((figure(row, "size_bytes")?, figure(row, name)?))).collect()
    };
    // A row that is all of a line, or one that has a figure of a line besides others.
    let line = |alone: &str, beside: &str| {
        let points = points(alone, true).into_iter().chain(points(beside, false));
        points.collect::<Points>()
    };
    let over_a_line = line("loss_free_bps", "on_line_bps");
    let real_nic = line("published_bps", "published_real_nic_bps");
    let x = Axis::new("frame length (bytes)", "size_bytes", Unit::Count, Scale::FromZero);
    let y = Axis::new("throughput", "throughput_bps", Unit::Rate, Scale::FromZero);
    let mut chart = Chart::new("throughput", "Throughput by frame length", x, y);
    chart.series = vec![
        Series::new("without loss", Shape::Line, 0, points("loss_free_bps", false)),
        Series::new("as fast as possible", Shape::Line, 2, points("saturated_bps", false)),
        Series::new("published, without loss", Shape::Line, 1, points("published_bps", false))
            .dashed(),
        Series::new("over a line, without loss", Shape::Points, 3, over_a_line),
        Series::new("published, real NIC", Shape::Points, 4, real_nic).dashed(),
    ];
    Some(chart)
}
