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

/// The charts that a run declares, as far as its tables allow, and those of its packets.
pub fn charts(run: &Run, watch: Watch<'_>) -> Result<Vec<Chart>, ReadError> {
    let mut charts = samples::charts(run, watch)?;
    for chart in &run.result.layout.charts {
        charts.extend(declared::charts(run, chart, watch)?);
    }
    Ok(charts.into_iter().filter_map(Chart::settled).collect())
}

#[cfg(test)]
mod tests;
