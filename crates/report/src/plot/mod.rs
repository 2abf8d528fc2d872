//! Plots: what is in one, the numbers behind it, and how it is drawn.
//!
//! A result declares its charts: which columns of which table are drawn against which. One module reads the
//! tables, and one draws any chart; neither knows an experiment. The numbers of a chart are exactly the points
//! that are drawn, so that picture and table cannot differ. Courses are thinned so that no peak is lost.

mod axis;
mod chart;
mod collect;
mod declared;
mod draw;
mod name;
mod samples;
mod style;
mod thin;

pub use self::axis::Axis;
pub use self::chart::{Chart, Mark, Series, Shape};
pub use self::style::{MAX_SERIES, css};
use crate::read::{ReadError, Run, Watch};

/// How many points the plots of a run have together, and those of one chart more: a browser draws each.
const MAX_POINTS: usize = 2_000_000;

/// The charts that a run declares, as far as its tables allow, and those of its packets.
pub fn charts(run: &Run, watch: Watch<'_>) -> Result<Vec<Chart>, ReadError> {
    let mut charts = samples::charts(run, watch)?;
    let count = |charts: &[Chart]| charts.iter().map(Chart::count_points).sum::<usize>();
    let (mut points, mut left_out) = (count(&charts), 0);
    for chart in &run.result.layout.charts {
        if points > MAX_POINTS {
            left_out += 1;
            continue;
        }
        let drawn = declared::charts(run, chart, watch)?;
        points += count(&drawn);
        charts.extend(drawn);
    }
    let mut charts: Vec<Chart> = charts.into_iter().filter_map(Chart::settled).collect();
    if let Some(last) = charts.last_mut().filter(|_| left_out > 0) {
        let note = format!("{left_out} plots behind it are left out: there are too many points.");
        last.notes.push(note);
    }
    Ok(charts)
}

#[cfg(test)]
mod tests;
