//! Rows as tables, by what their columns say.

use warikomi_measure::layout::{Column, Layout, Object, Unit, View, count};

use super::table::Page;
use crate::columns;

/// The most tables that one view is split into, and rows of one.
const MAX_TABLES: usize = 32;
const MAX_ROWS: usize = 200;
/// The most columns of a table whose columns are values.
const MAX_ACROSS: usize = 7;
/// The longest bar in characters.
const BAR: f64 = 10.0;

type Lines = Vec<(bool, Vec<String>)>;

/// Draws a view of rows: a table, or one for each value of what it is split by.
pub(super) fn view(page: &mut Page, layout: &Layout, rows: &[&Object], view: &View) {
    let shown: Vec<&Object> = rows
        .iter()
        .copied()
        .filter(|row| view.only.iter().all(|only| only.holds(row)))
        .take(MAX_ROWS * MAX_TABLES)
        .collect();
    if shown.is_empty() {
        return;
    }
    let column = |key: &String| layout.column(key);
    let split: Vec<Column> = view.split.iter().map(column).collect();
    let chosen: Vec<Column> = view.columns.iter().map(column).collect();
    for (of, group) in grouped(&split, &shown).into_iter().take(MAX_TABLES) {
        let title = [view.title.as_str(), &of].into_iter().filter(|part| !part.is_empty());
        let title = title.collect::<Vec<_>>().join(", ");
        let columns = match chosen.is_empty() {
            true => columns::of_rows(layout, &group),
            false => columns::filled(chosen.clone(), &group),
        };
        page.blank();
        if view.across.is_empty() {
            draw(page, &title, &columns, &group, &View { notes: Vec::new(), ..view.clone() });
        } else {
            let across: Vec<Column> = view.across.iter().map(column).collect();
            draw_across(page, &title, &columns, &group, &across);
        }
    }
    view.notes.iter().for_each(|note| page.paragraph(" ", note));
}

/// Rows that have the same values in these columns, in the order of the first of each.
fn grouped<'a>(by: &[Column], rows: &[&'a Object]) -> Vec<(String, Vec<&'a Object>)> {
    let mut groups: Vec<(String, Vec<&Object>)> = Vec::new();
    for row in rows {
        let name = name(by, row);
        match groups.iter().position(|(known, _)| *known == name) {
            Some(at) => groups[at].1.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    groups
}

fn name(columns: &[Column], row: &Object) -> String {
    let names = columns.iter().map(|column| column.name(row)).filter(|name| !name.is_empty());
    names.collect::<Vec<_>>().join(", ")
}

/// Draws rows as they are, or turned, with a heading and notes.
pub(super) fn draw(
    page: &mut Page,
    title: &str,
    columns: &[Column],
    rows: &[&Object],
    view: &View,
) {
    if !title.is_empty() {
        page.heading(title);
    }
    let cells = |row: &&Object| -> Vec<String> {
        columns.iter().map(|column| cell(column, row, rows)).collect()
    };
    let alarming =
        |row: &&Object| columns.iter().any(|column| column.alarm && column.number(row) > Some(0.0));
    let lines: Lines = rows.iter().take(MAX_ROWS).map(|row| (alarming(row), cells(row))).collect();
    let header: Vec<String> = columns.iter().map(head).collect();
    let (header, lines) = match view.turned {
        true => turned(&header, &lines),
        false => narrowed(page.width(), columns, header, lines),
    };
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    page.table(&header, &lines);
    if rows.len() > MAX_ROWS {
        page.paragraph(" ", &format!("the first {MAX_ROWS} of {} rows", count(rows.len() as u64)));
    }
    view.notes.iter().for_each(|note| page.paragraph(" ", note));
}

fn head(column: &Column) -> String {
    if column.head.is_empty() { &column.title } else { &column.head }.clone()
}

/// What a cell says; of bars, how long this one is among those of its column.
fn cell(column: &Column, row: &Object, rows: &[&Object]) -> String {
    let number = column.number(row).filter(|_| column.unit == Unit::Bar);
    let Some(part) = number else { return column.cell(row) };
    let whole: f64 = rows.iter().filter_map(|row| column.number(row)).sum();
    if part <= 0.0 || whole <= 0.0 {
        return String::new();
    }
    let length = (BAR * part / whole).round().clamp(0.0, BAR) as usize;
    let bar = if length == 0 { "▏".to_owned() } else { "█".repeat(length) };
    format!("{bar} {}", column.cell(row))
}

/// A line for each column.
fn turned(header: &[String], lines: &Lines) -> (Vec<String>, Lines) {
    let line = |at: usize| {
        let cells = lines.iter().map(|(_, cells)| cells[at].clone());
        std::iter::once(header[at].clone()).chain(cells).collect::<Vec<_>>()
    };
    if header.is_empty() {
        return Default::default();
    }
    let rest = (1..header.len()).map(|at| (false, line(at))).collect();
    (line(0), rest)
}

/// Without the columns that a narrow terminal leaves out, as far as it must.
fn narrowed(
    width: u16,
    columns: &[Column],
    mut header: Vec<String>,
    mut lines: Lines,
) -> (Vec<String>, Lines) {
    let mut wide: Vec<usize> =
        columns.iter().enumerate().filter(|(_, column)| column.wide).map(|(at, _)| at).collect();
    while natural(&header, &lines) > usize::from(width) {
        let Some(at) = wide.pop() else { break };
        header.remove(at);
        lines.iter_mut().for_each(|(_, cells)| drop(cells.remove(at)));
    }
    (header, lines)
}

/// How wide a table is whose cells are not broken.
fn natural(header: &[String], lines: &Lines) -> usize {
    const PADDING: usize = 2;
    let width = |at: usize| {
        let cells = lines.iter().map(|(_, cells)| cells[at].chars().count());
        cells.chain([header[at].chars().count()]).max().unwrap_or(0) + PADDING
    };
    (0..header.len()).map(width).sum()
}

/// A line for each value of the parameters, a column for each of `across`, and in it the one figure.
fn draw_across(
    page: &mut Page,
    title: &str,
    columns: &[Column],
    rows: &[&Object],
    across: &[Column],
) {
    let (parameters, figures): (Vec<_>, Vec<_>) =
        columns.iter().cloned().partition(|column| column.parameter);
    let Some(figure) = figures.first() else { return };
    let heads: Vec<String> = grouped(across, rows).into_iter().map(|(name, _)| name).collect();
    let groups = grouped(&parameters, rows);
    for (number, heads) in heads.chunks(MAX_ACROSS).enumerate() {
        if number > 0 {
            page.blank();
        }
        let first = if title.is_empty() { &figure.title } else { title };
        let header: Vec<&str> =
            std::iter::once(first).chain(heads.iter().map(String::as_str)).collect();
        let line = |(_, group): &(String, Vec<&Object>)| {
            let first = parameters.iter().map(|column| column.cell(group[0]));
            let first = first.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(", ");
            let cells = heads.iter().map(|head| {
                let row = group.iter().find(|row| name(across, row) == *head);
                row.map_or(String::new(), |row| figure.cell(row))
            });
            (false, std::iter::once(first).chain(cells).collect())
        };
        let lines: Lines = groups.iter().take(MAX_ROWS).map(line).collect();
        page.table(&header, &lines);
    }
}
