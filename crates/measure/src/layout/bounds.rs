//! Bounds of a layout, which comes from a file.

use super::{Axis, Chart, Column, Layout, Map, Only, Source, Table, View};

/// A layout that is larger than any, or a name that would lead out of the run's directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in its layout {wrong}")]
pub struct OutOfBounds {
    what: &'static str,
    wrong: &'static str,
}

/// The most entries of a list, such as the columns of a table; the most charts, maps, tables and views.
const MAX_LIST: usize = 96;
/// The most remarks, each with what is not available.
const MAX_REMARKS: usize = 512;
/// The most rows of a table in the layout itself, and points of a series.
const MAX_ROWS: usize = 20_000;
/// The longest text in bytes.
const MAX_TEXT: usize = 4_096;

type Checked = Result<(), OutOfBounds>;

fn list<T>(what: &'static str, list: &[T], most: usize) -> Checked {
    let wrong = "is longer than any that Warikomi writes";
    if list.len() > most { Err(OutOfBounds { what, wrong }) } else { Ok(()) }
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Checked {
    texts.into_iter().try_for_each(|text| list("a text", text.as_bytes(), MAX_TEXT))
}

/// Whether a name can be part of a file's name.
fn name(text: &str) -> Checked {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let sound = (1..=MAX_LIST).contains(&text.len()) && text.chars().all(plain);
    let wrong = "is not made of letters, digits and dashes";
    if sound { Ok(()) } else { Err(OutOfBounds { what: "a name", wrong }) }
}

impl Layout {
    /// Whether it is no larger than what an experiment declares, and its names lead nowhere else.
    pub fn check(&self) -> Checked {
        texts(&self.asked)?;
        list("headline", &self.headline, MAX_LIST)?;
        texts(self.headline.iter().flat_map(|one| [&one.title, &one.of]))?;
        columns(&self.columns)?;
        columns(&self.figure_columns)?;
        list("views", &self.views, MAX_LIST)?;
        self.views.iter().try_for_each(view)?;
        list("tables", &self.tables, MAX_LIST)?;
        self.tables.iter().try_for_each(table)?;
        list("charts", &self.charts, MAX_LIST)?;
        self.charts.iter().try_for_each(chart)?;
        list("maps", &self.maps, MAX_LIST)?;
        self.maps.iter().try_for_each(map)?;
        list("remarks", &self.remarks, MAX_REMARKS)?;
        texts(self.remarks.iter().flat_map(|one| [&one.lead, &one.text]))
    }
}

fn columns(all: &[Column]) -> Checked {
    list("columns", all, MAX_LIST)?;
    for column in all {
        texts([&column.key, &column.title, &column.head])?;
        texts(column.published.iter().chain(&column.says))?;
        texts(column.instead.iter().flat_map(|instead| [&instead.key, &instead.says]))?;
        texts(column.words.iter().take(MAX_LIST + 1).flat_map(|(value, word)| [value, word]))?;
        list("words", &column.words.keys().collect::<Vec<_>>(), MAX_LIST)?;
    }
    Ok(())
}

fn keys(keys: &[String]) -> Checked {
    list("a list of columns", keys, MAX_LIST)?;
    texts(keys)
}

fn conditions(all: &[Only]) -> Checked {
    list("conditions", all, MAX_LIST)?;
    all.iter().try_for_each(|only| {
        texts([&only.key])?;
        list("values of a condition", &only.is, MAX_LIST)
    })
}

fn notes(notes: &[String]) -> Checked {
    list("notes", notes, MAX_LIST)?;
    texts(notes)
}

fn view(view: &View) -> Checked {
    texts([&view.title])?;
    [&view.columns, &view.split, &view.across].into_iter().try_for_each(|list| keys(list))?;
    conditions(&view.only)?;
    notes(&view.notes)
}

fn source(source: &Source) -> Checked {
    match source {
        Source::Rows => Ok(()),
        Source::Figures(path) => texts([path]),
        Source::File(file) => name(file),
        Source::Here(rows) => list("rows", rows, MAX_ROWS),
    }
}

fn table(table: &Table) -> Checked {
    name(&table.name)?;
    texts([&table.title])?;
    source(&table.source)?;
    columns(&table.columns)?;
    notes(&table.notes)
}

fn map(map: &Map) -> Checked {
    name(&map.name)?;
    texts([&map.title])?;
    source(&map.source)?;
    columns(&map.columns)?;
    notes(&map.notes)
}

fn axis(axis: &Axis) -> Checked {
    keys(&axis.keys)?;
    texts([&axis.title])?;
    keys(&axis.order)
}

fn chart(chart: &Chart) -> Checked {
    name(&chart.name)?;
    texts([&chart.title, &chart.marks_are])?;
    source(&chart.source)?;
    axis(&chart.x)?;
    axis(&chart.y)?;
    columns(&chart.columns)?;
    list("curves", &chart.curves, MAX_LIST)?;
    for curve in &chart.curves {
        texts([&curve.key, &curve.name])?;
        conditions(&curve.only)?;
    }
    [&chart.series, &chart.split, &chart.background].into_iter().try_for_each(|list| keys(list))?;
    conditions(&chart.only)?;
    texts(chart.aside.iter().chain(chart.level.iter().map(|(name, _)| name)))?;
    list("marks", &chart.marks, MAX_LIST)?;
    texts(chart.marks.iter().map(|mark| &mark.name))?;
    list("series beside", &chart.beside, MAX_LIST)?;
    for series in &chart.beside {
        texts([&series.name, &series.like, &series.of])?;
        list("points", &series.points, MAX_ROWS)?;
    }
    notes(&chart.notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else_and_no_list_is_endless() {
        let chart = |file: &str| Chart {
            name: "a".into(),
            source: Source::File(file.into()),
            ..Chart::default()
        };
        let with = |chart: Chart| Layout { charts: vec![chart], ..Layout::default() }.check();
        assert_eq!(with(chart("cycles")), Ok(()));
        for file in ["../cycles", "", "a/b", "a.b"] {
            assert!(with(chart(file)).unwrap_err().to_string().contains("a name"), "{file}");
        }
        let map = |name: &str| Map { name: name.into(), ..Map::default() };
        let with = |map: Map| Layout { maps: vec![map], ..Layout::default() }.check();
        assert_eq!(with(map("lines")), Ok(()));
        assert!(with(map("../lines")).unwrap_err().to_string().contains("a name"));
        assert!(with(Map { notes: vec![String::new(); MAX_LIST + 1], ..map("lines") }).is_err());
        let many = Layout { columns: vec![Column::of("a"); MAX_LIST + 1], ..Layout::default() };
        assert!(many.check().unwrap_err().to_string().contains("columns"));
        let long = Column::of(&"a".repeat(MAX_TEXT + 1));
        assert!(Layout { columns: vec![long], ..Layout::default() }.check().is_err());
    }
}
