//! How a result is to be shown: its columns, tables, charts and remarks.
//!
//! An experiment declares this beside its rows, and it is kept in `result.json`. So whoever shows,
//! plots or compares results needs to know none of the experiments. It comes from a file like
//! everything else in a result, so [`Layout::check`] bounds all of it before anybody uses it: names lead to no
//! other directory, and all of it is text. It follows from a finished result alone, so that a result of an older
//! version can be described too.

mod bounds;
mod chart;
mod column;
mod map;
mod publisher;
mod show;
mod source;

use serde::{Deserialize, Serialize};

pub use bounds::OutOfBounds;
pub use chart::{Axis, Chart, Curve, Kind, Mark, Only, PointSeries, Scale, Several};
pub use column::{Better, Column, Instead, at_path, raw};
pub use map::{Class, Map};
pub use show::{Unit, count, percent, rate, size, time};
pub use source::{Object, Source};

/// How a result is to be shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// What was asked for, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The figures that matter most, with what was published.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headline: Vec<Headline>,
    /// The columns of `rows`. A row may have more keys than these; their columns follow from their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
    /// What the single figures in `figures` are, by their keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figure_columns: Vec<Column>,
    /// How a terminal shows `rows`; one table of all columns if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<View>,
    /// Further tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// The charts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<Chart>,
    /// Lines of files with what is known of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<Map>,
    /// What a reader must be told besides: advice, what is not available, where published figures are from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
}

/// One of the figures that matter most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// What the figure measures.
    pub title: String,
    /// The measured value, in `unit`.
    pub value: f64,
    /// Unit of `value` and `published`.
    pub unit: Unit,
    /// What was published for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Of which row it is, or what else must be known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
}

/// Some columns of `rows`, as a terminal shows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct View {
    /// Title of the table.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The keys of its columns, in order; all columns if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Each value of these columns has a table of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<String>,
    /// Each value of these columns heads a column, which has the one figure among `columns`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub across: Vec<String>,
    /// Only these rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<Only>,
    /// A line for each column and a column for each row.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turned: bool,
    /// What one must know to read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A table besides `rows`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// A name for files: letters, digits and dashes.
    pub name: String,
    /// Title of the table.
    pub title: String,
    /// Source of the rows.
    pub source: Source,
    /// Its columns; none may be left out, because its rows may have none of some.
    pub columns: Vec<Column>,
    /// A line for each column and a column for each row.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turned: bool,
    /// What one must know to read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Something that a reader must be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The remark's kind, such as `advice`.
    pub lead: String,
    /// The remark itself.
    pub text: String,
}

impl Layout {
    /// Adds a remark.
    pub fn say(&mut self, lead: impl Into<String>, text: impl Into<String>) {
        self.remarks.push(Remark { lead: lead.into(), text: text.into() });
    }

    /// Leaves out what is no finite number, such as a line through figures that make no sense: JSON has none.
    pub fn settle(&mut self) {
        self.headline.retain(|figure| figure.value.is_finite());
        for figure in &mut self.headline {
            figure.published = figure.published.filter(|value| value.is_finite());
        }
        for chart in &mut self.charts {
            chart.marks.retain(|mark| mark.at.is_finite());
            chart.level = chart.level.take().filter(|(_, at)| at.is_finite());
            for series in &mut chart.beside {
                series.points.retain(|(x, y)| x.is_finite() && y.is_finite());
            }
        }
    }

    /// The column of `rows` with this key, or the one that follows from its name.
    pub fn column(&self, key: &str) -> Column {
        let known = self.columns.iter().find(|column| column.key == key);
        known.cloned().unwrap_or_else(|| Column::of(key))
    }

    /// The column of a single figure.
    pub fn figure(&self, key: &str) -> Column {
        let known = self.figure_columns.iter().find(|column| column.key == key);
        known.cloned().unwrap_or_else(|| Column::of(key))
    }
}

impl Table {
    /// A table with its rows in it.
    pub fn here(name: &str, title: &str, columns: Vec<Column>, rows: Vec<Object>) -> Table {
        Table {
            name: name.to_owned(),
            title: title.to_owned(),
            source: Source::Here(rows),
            columns,
            ..Table::default()
        }
    }

    /// A table of what is in a list of `figures`.
    pub fn of_figures(name: &str, title: &str, path: &str, columns: Vec<Column>) -> Table {
        let source = Source::Figures(path.to_owned());
        Table { source, ..Table::here(name, title, columns, Vec::new()) }
    }

    /// The table with this note added.
    pub fn note(mut self, note: impl Into<String>) -> Table {
        self.notes.push(note.into());
        self
    }
}
