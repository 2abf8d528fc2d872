//! The series of a declared chart, a row at a time.

use warikomi_measure::layout::{self, Column, Curve, Kind, Object, Several};

use super::axis::Axis;
use super::chart::{Chart, Mark, Series, Shape};
use super::name::clean;
use super::samples::{BINS, level, thinned};
use super::style::MAX_SERIES;
use super::thin::{LogBins, Thinned};

/// The most points of a chart, and the most places with a name.
const MAX_POINTS: usize = 200_000;
const MAX_NAMES: usize = 64;
/// The last colour, of what stands beside all series.
const BESIDE: usize = MAX_SERIES - 1;

type Points = Vec<(f64, f64)>;

/// A declared chart, with its columns.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) chart: &'a layout::Chart,
    pub(super) x: Vec<Column>,
    pub(super) series: Vec<Column>,
    pub(super) split: Vec<Column>,
}

/// What makes the points of a curve.
#[derive(Clone, Debug)]
enum Gathered {
    Points { all: Points, aside: Points },
    Bins(LogBins),
    Values(Vec<f64>),
    Thinned(Box<Thinned>),
}

impl Gathered {
    fn of(kind: Kind) -> Gathered {
        match kind {
            Kind::Distribution => Gathered::Bins(LogBins::default()),
            Kind::Cumulative => Gathered::Values(Vec::new()),
            Kind::OverTime => Gathered::Thinned(Box::default()),
            _ => Gathered::Points { all: Points::new(), aside: Points::new() },
        }
    }
}

#[derive(Clone, Debug)]
struct Gathering {
    name: String,
    /// Which curve, and which series; none of a curve of all rows.
    curve: usize,
    of: Option<usize>,
    gathered: Gathered,
}

/// One chart while its rows come.
#[derive(Clone, Debug)]
pub(super) struct Collector<'a> {
    plan: &'a Plan<'a>,
    names: Vec<String>,
    labels: Vec<String>,
    gatherings: Vec<Gathering>,
    points: usize,
    left_out: usize,
}

/// Some columns' values as part of a file's name.
pub(super) fn slug(columns: &[Column], row: &Object) -> String {
    let cells = columns.iter().map(|column| column.cell(row)).filter(|cell| !cell.is_empty());
    let cells = cells.collect::<Vec<_>>().join("-").replace('µ', "u");
    cells.chars().filter_map(plain).take(48).collect()
}

/// The names of some columns' values, put together.
pub(super) fn label(columns: &[Column], row: &Object) -> String {
    let names = columns.iter().map(|column| column.name(row)).filter(|name| !name.is_empty());
    clean(&names.collect::<Vec<_>>().join(", "))
}

impl<'a> Collector<'a> {
    pub(super) fn new(plan: &'a Plan<'a>) -> Collector<'a> {
        Collector {
            plan,
            names: plan.chart.x.order.clone(),
            labels: Vec::new(),
            gatherings: Vec::new(),
            points: 0,
            left_out: 0,
        }
    }

    /// Takes a row for every curve that it has a figure of.
    pub(super) fn add(&mut self, row: &Object) {
        let plan = self.plan;
        if !plan.chart.only.iter().all(|only| only.holds(row)) {
            return;
        }
        for (number, curve) in plan.chart.curves.iter().enumerate() {
            if curve.only.iter().all(|only| only.holds(row)) {
                self.add_to(number, curve, row);
            }
        }
    }

    fn add_to(&mut self, number: usize, curve: &Curve, row: &Object) {
        let chart = self.plan.chart;
        let kind = curve.kind.unwrap_or(chart.kind);
        let counted = matches!(kind, Kind::Distribution | Kind::Cumulative);
        let unit = if counted { chart.x.unit } else { chart.y.unit };
        let Some(value) = Column::of(&curve.key).number(row) else { return };
        let value = value * unit.base();
        let Some(x) = (if counted { Some(value) } else { self.abscissa(row) }) else { return };
        if self.points == MAX_POINTS && !matches!(kind, Kind::Distribution | Kind::OverTime) {
            self.left_out += 1;
            return;
        }
        let aside = chart.aside.as_ref().and_then(|key| row.get(key)?.as_bool()).unwrap_or(false);
        let Some(gathering) = self.gathering(number, curve, kind, row) else {
            self.left_out += 1;
            return;
        };
        match &mut gathering.gathered {
            Gathered::Points { aside: dots, .. } if aside => dots.push((x, value)),
            Gathered::Points { all, .. } => all.push((x, value)),
            Gathered::Bins(bins) => bins.add(value.abs()),
            Gathered::Values(values) => values.push(value),
            Gathered::Thinned(thinned) => thinned.add(x, value),
        }
        self.points += 1;
    }

    fn abscissa(&mut self, row: &Object) -> Option<f64> {
        let axis = &self.plan.chart.x;
        if !axis.named {
            let value = self.plan.x.first()?.number(row)?;
            return Some(value * axis.unit.base());
        }
        let name = label(&self.plan.x, row);
        let known = self.names.iter().position(|known| *known == name);
        if known.is_none() && axis.order.is_empty() && self.names.len() < MAX_NAMES {
            self.names.push(name);
            return Some((self.names.len() - 1) as f64);
        }
        self.left_out += usize::from(known.is_none() && axis.order.is_empty());
        known.map(|at| at as f64)
    }

    /// Where the points of a curve of this row belong; nothing if there are more series than colours.
    fn gathering(
        &mut self,
        curve: usize,
        of: &Curve,
        kind: Kind,
        row: &Object,
    ) -> Option<&mut Gathering> {
        let series = match self.plan.is_of_all(of) {
            true => None,
            false => Some(self.series(row)?),
        };
        let same = |one: &Gathering| one.curve == curve && one.of == series;
        let at = self.gatherings.iter().position(same);
        let at = at.unwrap_or_else(|| {
            let label = series.map_or("", |series| self.labels[series].as_str());
            let name = match of.name.as_str() {
                "" => label.to_owned(),
                name => name.replace("{}", label),
            };
            let gathered = Gathered::of(kind);
            self.gatherings.push(Gathering { name, curve, of: series, gathered });
            self.gatherings.len() - 1
        });
        self.gatherings.get_mut(at)
    }

    fn series(&mut self, row: &Object) -> Option<usize> {
        let label = label(&self.plan.series, row);
        let known = self.labels.iter().position(|known| *known == label);
        known.or_else(|| {
            let room = self.plan.series_that_fit();
            (self.labels.len() < room).then(|| {
                self.labels.push(label);
                self.labels.len() - 1
            })
        })
    }

    /// The chart, which is of these values of what it is split by, in words and for a file's name.
    pub(super) fn finish(mut self, of: &str, slug: &str) -> Chart {
        let declared = self.plan.chart;
        let mut chart = self.empty(of, slug);
        self.gatherings
            .sort_by_key(|one| (declared.curves[one.curve].published, one.of, one.curve));
        let mut group = 1;
        for gathering in self.gatherings {
            if let Gathered::Thinned(thinned) = &gathering.gathered {
                group = group.max(thinned.group_size());
            }
            let curve = &declared.curves[gathering.curve];
            let colour = self.plan.colour(gathering.of, gathering.curve);
            let kind = curve.kind.unwrap_or(declared.kind);
            let series = self.plan.series_of(gathering, kind, colour);
            chart.series.extend(series.into_iter().map(|one| match curve.published {
                true => one.dashed(),
                false => one,
            }));
        }
        for beside in declared.beside.iter().filter(|one| one.of.is_empty() || one.of == of) {
            let like = chart.series.iter().find(|series| series.name == beside.like);
            let colour = like.map_or(BESIDE, |series| series.colour);
            let points = beside.points.iter().copied();
            let series = Series::new(&beside.name, shape(beside.kind), colour, points);
            chart.series.push(if beside.published { series.dashed() } else { series });
        }
        // What was published stands beside something, not alone.
        if chart.series.iter().all(|series| series.dashed || series.points.is_empty()) {
            chart.series.clear();
        }
        if let Some((name, at)) = declared.level.as_ref().filter(|_| !chart.series.is_empty()) {
            chart.series.push(level(name, *at * declared.y.unit.base(), &chart.series));
        }
        chart.marks = declared.marks.iter().map(|mark| chart.marked(mark)).collect();
        chart.notes.extend(thinned(group));
        if self.left_out > 0 {
            let left_out = layout::count(self.left_out as u64);
            chart.notes.push(format!("{left_out} rows more than a plot can show are left out."));
        }
        chart
    }

    fn empty(&self, of: &str, slug: &str) -> Chart {
        let declared = self.plan.chart;
        let (name, title) = match of {
            "" => (declared.name.clone(), declared.title.clone()),
            _ => (format!("{}-{slug}", declared.name), format!("{}, {of}", declared.title)),
        };
        let title: String = title.chars().filter(|c| !c.is_control()).collect();
        let x = match declared.x.named {
            true => {
                let names = self.names.iter().map(|name| clean(name)).collect();
                Axis::named(&clean(&declared.x.title), &declared.x.keys.join(" "), names)
            }
            false => Axis::declared(&declared.x),
        };
        let mut chart = Chart::new(&name, &title, x, Axis::declared(&declared.y));
        let marks_are = clean(&declared.marks_are);
        chart.marks_are = (!marks_are.is_empty()).then_some(marks_are);
        chart.notes.clone_from(&declared.notes);
        if declared.kind == Kind::Distribution {
            chart.notes.push(BINS.to_owned());
        }
        chart
    }
}

/// A letter of a file's name.
fn plain(c: char) -> Option<char> {
    match c {
        c if c.is_ascii_alphanumeric() || c == '-' => Some(c),
        ',' | ':' | '_' => Some('-'),
        _ => None,
    }
}

impl Chart {
    /// A mark in the colour of the series whose name it ends with.
    fn marked(&self, mark: &layout::Mark) -> Mark {
        let of = self.series.iter().find(|series| mark.name.ends_with(&series.name));
        let colour = of.map_or(BESIDE, |series| series.colour);
        Mark { name: clean(&mark.name), at: mark.at, colour }
    }
}

impl Plan<'_> {
    /// Whether a curve has one series of all rows.
    fn is_of_all(&self, curve: &Curve) -> bool {
        !self.series.is_empty() && !curve.name.is_empty() && !curve.name.contains("{}")
    }

    /// How many series have a colour of their own.
    fn series_that_fit(&self) -> usize {
        let beside = self.chart.curves.iter().any(|curve| self.is_of_all(curve))
            || self.chart.beside.iter().any(|series| series.like.is_empty());
        let colours = self.colours().last().map_or(1, |last| last + 1);
        (MAX_SERIES - usize::from(beside)) / colours
    }

    /// The colours of the curves within a series, from 0.
    fn colours(&self) -> Vec<usize> {
        let mut next = 0;
        let colour = |(at, curve): (usize, &Curve)| {
            let same = at == 0 || curve.like_before || self.is_of_all(curve);
            next += usize::from(!same);
            next
        };
        self.chart.curves.iter().enumerate().map(colour).collect()
    }

    fn colour(&self, series: Option<usize>, curve: usize) -> usize {
        let colours = self.colours();
        let each = colours.last().map_or(1, |last| last + 1);
        series.map_or(BESIDE, |series| series * each + colours[curve])
    }

    fn series_of(&self, gathering: Gathering, kind: Kind, colour: usize) -> Vec<Series> {
        let Gathering { name, gathered, .. } = gathering;
        let one = |points| vec![Series::new(&name, shape(kind), colour, points)];
        match gathered {
            Gathered::Bins(bins) => one(bins.points()),
            Gathered::Thinned(thinned) => one(thinned.points()),
            Gathered::Values(mut values) => {
                values.sort_by(f64::total_cmp);
                let all = values.len() as f64;
                let share = |(at, value)| (value, (at + 1) as f64 / all);
                one(values.into_iter().enumerate().map(share).collect())
            }
            Gathered::Points { all, aside } => match self.chart.several {
                Several::Each => {
                    let mut points = sorted(all);
                    points.dedup();
                    one(points)
                }
                // In order of both: the last at a place is the greatest.
                Several::Greatest => one(at_each(all, |same| same[same.len() - 1])),
                Several::Median => medians(&name, shape(kind), colour, all, aside),
            },
        }
    }
}

/// The medians at each abscissa, and every point, if there are several at one. A place at which every point
/// is to be left aside has no median.
fn medians(name: &str, shape: Shape, colour: usize, all: Points, aside: Points) -> Vec<Series> {
    // Of two in the middle the lower, so that it is one of those that were measured.
    let median = |same: &[(f64, f64)]| same[(same.len() - 1) / 2];
    let middle = at_each(all.clone(), median);
    let dots: Points = all.into_iter().chain(aside.clone()).collect();
    let mut series = Vec::new();
    if dots.len() > middle.len() {
        let name = format!("{name}, each");
        series.push(Series::new(&name, Shape::Dots, colour, sorted(dots)));
    }
    // Dots alone would have no legend.
    let middle = if middle.is_empty() { at_each(aside, median) } else { middle };
    series.push(Series::new(name, shape, colour, middle));
    series
}

fn sorted(mut points: Points) -> Points {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points
}

fn at_each(points: Points, one: impl Fn(&[(f64, f64)]) -> (f64, f64)) -> Points {
    sorted(points).chunk_by(|a, b| a.0 == b.0).map(one).collect()
}

fn shape(kind: Kind) -> Shape {
    match kind {
        Kind::Lines => Shape::Line,
        Kind::Plain | Kind::Cumulative => Shape::Plain,
        Kind::Points | Kind::OverTime | Kind::Timeline => Shape::Points,
        Kind::Distribution => Shape::Steps(LogBins::ratio()),
    }
}
