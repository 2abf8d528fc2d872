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

/// Success of one length, against the interval.
#[derive(Default)]
struct Size {
    driver: Points,
    end_to_end: Points,
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
        size.driver.extend(cycle.driver_share.map(|share| (interval, share)));
        size.end_to_end.extend(cycle.end_to_end_share.map(|share| (interval, share)));
    }

    fn success(
        &self,
        name: &str,
        title: &str,
        which: impl Fn(&Size) -> &Points,
        sends: &impl Fn(u64) -> Option<f64>,
    ) -> Chart {
        let mut chart = empty(name, title);
        for (colour, (bytes, size)) in self.by_size.iter().enumerate() {
            let name = size_name(*bytes);
            chart.marks.extend(mark(*bytes, colour, sends));
            chart.series.push(Series::new(&name, Shape::Line, colour, sorted(which(size))));
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
        chart.series = vec![
            Series::new("driver", Shape::Line, 0, sorted(&size.driver)),
            Series::new("end to end", Shape::Line, 1, sorted(&size.end_to_end)),
        ];
        chart.marks.extend(mark(*bytes, MAX_SERIES - 1, sends));
        Some(chart)
    }
}

fn empty(name: &str, title: &str) -> Chart {
    let x = Axis::new("interval between packets", "interval_ns", Unit::Time, Scale::Log);
    let y = Axis::new("packets received", "success_share", Unit::Share, Scale::FromZero);
    let mut chart = Chart::new(name, title, x, y);
    chart.marks_are = Some("time to send one of that length".to_owned());
    chart
}

fn mark(bytes: u64, colour: usize, sends: &impl Fn(u64) -> Option<f64>) -> Option<Mark> {
    let name = format!("time to send {}", size_name(bytes));
    Some(Mark { name, at: sends(bytes)?, colour })
}

pub(super) fn size_name(bytes: u64) -> String {
    format!("{} bytes", crate::terminal::figures::count(bytes))
}

fn sorted(points: &Points) -> Points {
    let mut points = points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Throughput by length, of any experiment whose rows have it.
fn throughput(run: &Run) -> Option<Chart> {
    let rows = run.result.rows.as_ref()?;
    let points = |name: &str, on_a_line: bool| -> Points {
        let rows = rows.iter().filter(|row| figure(row, "line_rate_bps").is_some() == on_a_line);
        rows.filter_map(|row| Some((figure(row, "size_bytes")?, figure(row, name)?))).collect()
    };
    let x = Axis::new("frame length (bytes)", "size_bytes", Unit::Count, Scale::FromZero);
    let y = Axis::new("throughput", "throughput_bps", Unit::Rate, Scale::FromZero);
    let mut chart = Chart::new("throughput", "Throughput by frame length", x, y);
    chart.series = vec![
        Series::new("without loss", Shape::Line, 0, points("loss_free_bps", false)),
        Series::new("as fast as possible", Shape::Line, 2, points("saturated_bps", false)),
        Series::new("published, without loss", Shape::Line, 1, points("published_bps", false))
            .dashed(),
        Series::new("over a line, without loss", Shape::Points, 3, points("loss_free_bps", true)),
        Series::new("published, real NIC", Shape::Points, 4, points("published_bps", true))
            .dashed(),
    ];
    Some(chart)
}
