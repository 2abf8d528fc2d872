use warikomi_measure::layout::{Scale, Unit};

use super::*;
use warikomi_measure::layout::{self, Curve, PointSeries};
use warikomi_measure::{Machine, RunResult, TimeBase};

fn example() -> Chart {
    let x = Axis::new("interval", "interval_ns", Unit::Ns, Scale::Log);
    let y = Axis::new("received", "success_share", Unit::Share, Scale::Zero);
    let mut chart = Chart::new("example", "An \"example\" <of> a chart", x, y);
    let points = [(0.0, 0.0), (200.0, 0.25), (1_000.0, 1.0), (f64::NAN, 1.0)];
    chart.series = vec![
        Series::new("1,500 bytes", Shape::Line, 0, points),
        Series::new("nothing", Shape::Line, 1, []),
    ];
    chart
}

#[test]
fn the_numbers_are_what_is_drawn() {
    let chart = example().settled().unwrap();
    let expected = "series,interval_ns,success_share\n\"1,500 bytes\",200,0.25\n\
                    \"1,500 bytes\",1000,1\n";
    assert_eq!(chart.csv(), expected);
    assert!(chart.notes[0].starts_with("1 points at or below 0"), "{:?}", chart.notes);
    assert_eq!(chart.series.len(), 1);
}

#[test]
fn a_drawing_has_its_title_axes_with_units_and_legend_and_colours_for_the_dark() {
    let svg = example().settled().unwrap().svg();
    for expected in [
        "aria-label=\"An &quot;example&quot; &lt;of&gt; a chart\"",
        "interval",
        "received",
        "1 µs",
        "60%",
        "100%",
        "1,500 bytes",
        "prefers-color-scheme: dark",
    ] {
        assert!(svg.contains(expected), "{expected} is not in:\n{svg}");
    }
}

#[test]
fn every_colour_of_a_drawing_has_one_for_the_dark() {
    let svg = example().settled().unwrap().svg();
    let (_, body) = svg.split_once("</style>").unwrap();
    let rules = css();
    for attribute in ["fill", "stroke"] {
        let start = format!("{attribute}=\"");
        let colours = body.split(&start).skip(1);
        for colour in colours.filter_map(|rest| rest.split_once('"')).map(|(colour, _)| colour) {
            let known = rules.contains(&format!("[{attribute}=\"{colour}\"]"));
            assert!(known || colour == "none", "{attribute} {colour} stays as it is in the dark");
        }
    }
}

#[test]
fn a_chart_of_nothing_is_none() {
    let mut chart = example();
    chart.series.remove(0);
    assert_eq!(chart.settled(), None);
}

/// Each chart may have as many as a browser draws; all together are bounded too.
#[test]
fn what_is_left_out_for_too_many_points_is_said() {
    let mut result = RunResult::new("sweep", TimeBase::Real, Machine::default());
    let points = (0..MAX_POINTS / 4).map(|at| (at as f64, 1.0)).collect();
    let beside = PointSeries { name: "beside".to_owned(), points, ..PointSeries::default() };
    let curve = Curve { key: "value".to_owned(), ..Curve::default() };
    let chart = layout::Chart { curves: vec![curve], beside: vec![beside], ..Default::default() };
    result.layout.charts = vec![chart; 8];
    let run = Run { path: "".into(), name: "sweep".to_owned(), result, plan: None };
    let charts = charts(&run, &mut |_| true).unwrap();
    assert_eq!(charts.len(), 5);
    assert!(
        charts[4].notes.iter().any(|note| note.starts_with("3 plots")),
        "{:?}",
        charts[4].notes
    );
}
