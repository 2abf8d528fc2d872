//! A chart before it is drawn: its series, marks and axes, and the numbers behind it.

use super::axis::{Axis, plottable};
use super::name::clean;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A line with a marker at each point.
    Line,
    /// A line without markers.
    Plain,
    /// Markers alone.
    Points,
    /// Small dots behind another series of the same colour, which speaks for them in the legend.
    Dots,
    /// Steps: each point's value holds from its abscissa to this many times as much.
    Steps(f64),
    /// Bars around each abscissa, from 0 up.
    Bars,
}

/// Points that belong together, in the units of the chart's axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Shape of the curve.
    pub shape: Shape,
    /// Which colour: 0 to [`MAX_SERIES`](super::MAX_SERIES) - 1.
    pub colour: usize,
    /// Drawn with a broken line and hollow markers, as what was not measured here.
    pub dashed: bool,
    /// Abscissa and ordinate.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series, drawn as measured. Points without a place on a chart (not numbers, or beyond all
    /// measure) are left out.
    pub fn new(
        name: &str,
        shape: Shape,
        colour: usize,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        let points = points.into_iter().filter(|(x, y)| plottable(*x) && plottable(*y));
        Series { name: clean(name), shape, colour, dashed: false, points: points.collect() }
    }

    /// The same, drawn as what was not measured here.
    pub fn dashed(self) -> Series {
        Series { dashed: true, ..self }
    }
}

/// A place on the abscissa that is marked over the whole height.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Label of the mark.
    pub name: String,
    /// Where, in the unit of the abscissa.
    pub at: f64,
    /// Which colour, as in [`Series`].
    pub colour: usize,
}

/// A chart, before it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// A name for files: letters, digits and dashes.
    pub name: String,
    /// What it shows, as a person would say it.
    pub title: String,
    /// The abscissa.
    pub x: Axis,
    /// The ordinate.
    pub y: Axis,
    /// Series of the chart.
    pub series: Vec<Series>,
    /// Marks on the abscissa.
    pub marks: Vec<Mark>,
    /// What all marks are, for the legend.
    pub marks_are: Option<String>,
    /// What one must know to read it.
    pub notes: Vec<String>,
}

impl Chart {
    /// A chart without anything in it.
    pub fn new(name: &str, title: &str, x: Axis, y: Axis) -> Chart {
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            x,
            y,
            series: Vec::new(),
            marks: Vec::new(),
            marks_are: None,
            notes: Vec::new(),
        }
    }

    /// How many points are drawn.
    pub(super) fn count_points(&self) -> usize {
        self.series.iter().map(|series| series.points.len()).sum()
    }

    /// The numbers behind it as CSV: `series`, abscissa, ordinate. A mark has no ordinate.
    pub fn csv(&self) -> String {
        let mut csv = csv::Writer::from_writer(Vec::new());
        let mut line = |cells: [&str; 3]| {
            csv.write_record(cells)
                .expect("writing to memory does not fail, and rows are of one length");
        };
        line(["series", &self.x.column, &self.y.column]);
        for series in &self.series {
            for &(x, y) in &series.points {
                line([&series.name, &self.x.number(x), &self.y.number(y)]);
            }
        }
        for mark in &self.marks {
            line([&mark.name, &self.x.number(mark.at), ""]);
        }
        let bytes = csv.into_inner().expect("flushing memory does not fail");
        String::from_utf8(bytes).expect("what was text is text")
    }

    /// The number of a series in the legend. Dots belong to the series of their colour.
    pub(super) fn legend_number(&self, series: &Series) -> usize {
        let speaks = |one: &&Series| one.shape != Shape::Dots;
        let of_dots = |one: &Series| series.shape == Shape::Dots && one.colour == series.colour;
        let mut speaking = self.series.iter().filter(speaks);
        speaking.position(|one| std::ptr::eq(one, series) || of_dots(one)).unwrap_or(usize::MAX)
    }

    /// The chart without series that have no point, or points that its scales cannot show; `None` if
    /// nothing is left.
    pub(super) fn settled(mut self) -> Option<Chart> {
        let mut hidden = 0;
        for series in &mut self.series {
            let before = series.points.len();
            series.points.retain(|&(x, y)| self.x.shows(x) && self.y.shows(y));
            hidden += before - series.points.len();
        }
        if hidden > 0 {
            self.notes.push(format!("{hidden} points at or below 0 have no place on a log scale"));
        }
        self.series.retain(|series| !series.points.is_empty());
        self.marks.retain(|mark| plottable(mark.at) && self.x.shows(mark.at));
        (!self.series.is_empty()).then_some(self)
    }
}
