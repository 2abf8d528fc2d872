//! A chart: which columns are drawn against which.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column::{Column, at_path};
use super::show::Unit;
use super::source::{Object, Source};

/// How a chart, or one of its curves, is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line with a marker at each point.
    #[default]
    Lines,
    /// A line without markers.
    Plain,
    /// Markers alone.
    Points,
    /// How often which value came: a histogram by the logarithm. It counts the values of the curve's key,
    /// which the abscissa shows.
    Distribution,
    /// The share of values that are no greater. Likewise of the curve's key.
    Cumulative,
    /// Very many points over time, thinned so that no peak is lost.
    #[serde(rename = "course")]
    OverTime,
    /// Events over time, a line for each kind of event. The ordinate's `order` says which are shown, from
    /// below, and `background` which of them are no steps.
    Timeline,
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Evenly, and from 0 on.
    #[default]
    Zero,
    /// Logarithmic.
    Log,
}

/// What stands for several rows at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Several {
    /// Each of them.
    #[default]
    Each,
    /// The median, with the others as small dots.
    Median,
    /// The greatest.
    Greatest,
}

/// An axis of a chart, as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axis {
    /// The column, or the columns whose values together name a place. An ordinate has its curves' columns,
    /// and here only the name that its numbers have in a file.
    pub keys: Vec<String>,
    /// What it shows, for people.
    pub title: String,
    /// What its figures count, as the columns have them.
    pub unit: Unit,
    /// Scale of the axis.
    pub scale: Scale,
    /// Its places are named, not measured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// The names that are shown, in order; those of the rows if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
}

impl Axis {
    /// An axis of one column.
    pub fn new(key: &str, title: &str, unit: Unit, scale: Scale) -> Axis {
        Axis { keys: vec![key.to_owned()], title: title.to_owned(), unit, scale, ..Axis::default() }
    }

    /// An axis of places that these columns name together.
    pub fn named(keys: &[&str], title: &str) -> Axis {
        let keys = keys.iter().map(|&key| key.to_owned()).collect();
        Axis { keys, title: title.to_owned(), named: true, ..Axis::default() }
    }
}

/// A condition on a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Only {
    /// The column.
    pub key: String,
    /// The values of which the row must have one; `null` for none.
    pub is: Vec<Value>,
}

impl Only {
    /// Rows with one of these values.
    pub fn any<V: Into<Value>>(key: &str, is: impl IntoIterator<Item = V>) -> Only {
        Only { key: key.to_owned(), is: is.into_iter().map(Into::into).collect() }
    }

    /// Rows without a value.
    pub fn none(key: &str) -> Only {
        Only { key: key.to_owned(), is: vec![Value::Null] }
    }

    /// Whether a row fulfils it.
    pub fn holds(&self, row: &Object) -> bool {
        let value = at_path(row, &self.key).unwrap_or(&Value::Null);
        // A table in a file has text where a result has numbers and flags.
        let same =
            |is: &Value| is == value || is.as_f64().is_some_and(|n| value.as_f64() == Some(n));
        self.is.iter().any(same)
    }
}

/// One figure that is drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// Key of the column.
    pub key: String,
    /// What the legend calls it. Without a name there is one for each series, called as the series is; with
    /// `{}` in it there is one for each series too, whose name stands there; else there is one of all rows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// It was published, not measured here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
    /// How it is drawn, if not as the chart says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Only these rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<Only>,
    /// It has the colour of the curve before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub like_before: bool,
}

impl Curve {
    /// A figure, drawn as the chart says.
    pub fn new(key: &str, name: &str) -> Curve {
        Curve { key: key.to_owned(), name: name.to_owned(), ..Curve::default() }
    }

    /// The same, as what was published.
    pub fn published(self) -> Curve {
        Curve { published: true, ..self }
    }

    /// The same, of these rows only.
    pub fn only(mut self, only: Only) -> Curve {
        self.only.push(only);
        self
    }

    /// The same, drawn in this way.
    pub fn kind(self, kind: Kind) -> Curve {
        Curve { kind: Some(kind), ..self }
    }

    /// The same, in the colour of the one before.
    pub fn like_before(self) -> Curve {
        Curve { like_before: true, ..self }
    }
}

/// A place on the abscissa that is marked over the whole height.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Label of the mark.
    pub name: String,
    /// Where, in the unit of the abscissa.
    pub at: f64,
}

/// Points that are in no table: a fitted line, a published figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointSeries {
    /// What the legend calls it.
    pub name: String,
    /// Kind of drawing.
    pub kind: Kind,
    /// It was published, not measured here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
    /// Of which series it has the colour, by its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub like: String,
    /// Abscissa and ordinate, in the units of the axes.
    pub points: Vec<(f64, f64)>,
    /// Only in the chart of a [split](Chart::split) that is called so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
}

/// A chart of a result, as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chart {
    /// A name for files: letters, digits and dashes.
    pub name: String,
    /// What it shows, as a person would say it.
    pub title: String,
    /// Source of the rows.
    pub source: Source,
    /// Kind of drawing.
    pub kind: Kind,
    /// The abscissa.
    pub x: Axis,
    /// The ordinate.
    pub y: Axis,
    /// What its columns are, where they are neither those of `rows` nor what their keys say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
    /// The figures that are drawn.
    pub curves: Vec<Curve>,
    /// The columns whose values make series.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<String>,
    /// The columns of which each value has a chart of its own. A row without a value is in each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<String>,
    /// Only these rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<Only>,
    /// What stands for several rows at one place.
    pub several: Several,
    /// Rows with `true` here are dots and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<String>,
    /// Places on the abscissa.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// What all marks are, for the legend.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub marks_are: String,
    /// A line at this ordinate over the whole width, with its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<(String, f64)>,
    /// Points that are in no table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<PointSeries>,
    /// Events of a timeline that are no steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<String>,
    /// What one must know to read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Chart {
    /// A chart of `rows`.
    pub fn new(name: &str, title: &str, x: Axis, y: Axis) -> Chart {
        Chart { name: name.to_owned(), title: title.to_owned(), x, y, ..Chart::default() }
    }

    /// The same, of these rows only.
    pub fn only(mut self, only: Only) -> Chart {
        self.only.push(only);
        self
    }

    /// The same, with a series for each value of these columns.
    pub fn series(self, keys: &[&str]) -> Chart {
        Chart { series: keys.iter().map(|&key| key.to_owned()).collect(), ..self }
    }

    /// The chart, of the rows of `source`.
    pub fn from(self, source: Source) -> Chart {
        Chart { source, ..self }
    }

    /// The same, drawn in this way.
    pub fn kind(self, kind: Kind) -> Chart {
        Chart { kind, ..self }
    }

    /// The same, once for each value of these columns.
    pub fn split(self, keys: &[&str]) -> Chart {
        Chart { split: keys.iter().map(|&key| key.to_owned()).collect(), ..self }
    }

    /// The chart with this curve added.
    pub fn curve(mut self, curve: Curve) -> Chart {
        self.curves.push(curve);
        self
    }

    /// The chart with this note added.
    pub fn note(mut self, note: impl Into<String>) -> Chart {
        self.notes.push(note.into());
        self
    }

    /// The same with points that are in no table.
    pub fn beside(mut self, series: PointSeries) -> Chart {
        self.beside.push(series);
        self
    }
}
