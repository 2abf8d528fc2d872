//! Each number of a report against the raw samples, and reports of runs that are not what they should
//! be.

mod fixtures;
mod hostile;
mod numbers;
mod page;
mod terminal;

use std::path::Path;

use warikomi_report::plot::{Chart, charts};
use warikomi_report::read::Run;

/// The charts of a run that can be read.
fn charts_of(path: &Path) -> Vec<Chart> {
    charts(&Run::load(path).unwrap(), &mut |_| true).unwrap()
}

fn chart(path: &Path, name: &str) -> Chart {
    let all = charts_of(path);
    let names: Vec<_> = all.iter().map(|chart| chart.name.clone()).collect();
    all.into_iter()
        .find(|chart| chart.name == name)
        .unwrap_or_else(|| panic!("no chart {name}, only {names:?}"))
}

/// The lines of a chart's CSV of one series, which must be what is drawn of it.
fn numbers(chart: &Chart, series: &str) -> Vec<(f64, f64)> {
    let csv = chart.csv();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(header, ["series", &chart.x.column, &chart.y.column]);
    let rows: Vec<(String, f64, Option<f64>)> = reader.deserialize().map(Result::unwrap).collect();
    let of_series = rows.into_iter().filter(|(name, _, _)| name == series);
    let points: Vec<_> = of_series.map(|(_, x, y)| (x, y.unwrap())).collect();
    let drawn = chart.series.iter().find(|drawn| drawn.name == series);
    assert_eq!(points, drawn.unwrap_or_else(|| panic!("no series {series}")).points);
    points
}
