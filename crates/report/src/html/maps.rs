//! Maps of a page: the lines of files, coloured.

use maud::{Markup, html};
use warikomi_measure::layout::{Class, Map, Object};

use super::parts::{cell_markup, download};
use super::tables::{Cell, Table};
use crate::read::{Run, rows};

/// The most lines of a map that are shown.
const MAX_LINES: usize = 20_000;

/// The longest text of a line that is shown, in characters.
const MAX_TEXT: usize = 160;

/// The weakest colour, and how much stronger the strongest is, in percent of it.
const WEAKEST: f64 = 20.0;
const RANGE: f64 = 60.0;

/// A map: each file is a part to be opened; the first is open, and those with something wrong.
pub(super) fn map_markup(run: &Run, map: &Map) -> Markup {
    let mut lines = rows(&run.result, &map.source);
    let all = lines.len();
    lines.truncate(MAX_LINES);
    let looked_at: Vec<&Object> =
        lines.iter().copied().filter(|row| Class::of(row).is_some()).collect();
    let csv = Table::of_lines(map, &looked_at).csv();
    html! {
        @if !lines.is_empty() {
            h3 { (map.title) }
            @for (at, file) in lines.chunk_by(|a, b| a.get("file") == b.get("file")).enumerate() {
                (file_markup(map, file, at == 0))
            }
            @if all > MAX_LINES { p.soft { "The first " (MAX_LINES) " of " (all) " lines." } }
            @for note in &map.notes { p.soft { (note) } }
            p.soft { (download(run, &map.name, &csv)) }
        }
    }
}

fn file_markup(map: &Map, lines: &[&Object], is_first: bool) -> Markup {
    let count = |class: Class| lines.iter().filter(|row| Class::of(row) == Some(class)).count();
    let (bad, good, unknown) = (count(Class::Bad), count(Class::Good), count(Class::Unknown));
    let name = lines.first().map_or("", |row| text(row, "file"));
    let has_text = lines.iter().any(|row| !text(row, "text").is_empty());
    html! {
        details open[bad > 0 || is_first] {
            summary {
                (name) ": " (bad + good + unknown) @if bad + good + unknown == 1 { " line" } @else { " lines" }
                @if bad > 0 { ", " (bad) " with something wrong" }
                @if unknown > 0 { ", " (unknown) " not looked at" }
            }
            div.wide {
                table.map {
                    thead {
                        tr {
                            th scope="col" { "line" }
                            @for column in &map.columns { th scope="col" title=(column.key) { (column.title) } }
                            @if has_text { th.code scope="col" { "source" } }
                        }
                    }
                    tbody {
                        @for (at, row) in lines.iter().enumerate() {
                            @let before = at.checked_sub(1).and_then(|before| number(lines[before]));
                            (line_markup(map, row, has_text, before))
                        }
                    }
                }
            }
        }
    }
}

/// A line; one that does not follow the line before it has a rule above.
fn line_markup(map: &Map, row: &Object, has_text: bool, before: Option<u64>) -> Markup {
    let class = Class::of(row);
    let follows = before.is_none_or(|before| number(row) == before.checked_add(1));
    let value = row.get("value").and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let heat = (WEAKEST + RANGE * value.clamp(0.0, 1.0)).round();
    html! {
        tr.(class.map_or("between", Class::name)).gap[!follows] style={ "--heat:" (heat) "%" } {
            td { (number(row).unwrap_or(0)) }
            @for column in &map.columns { (cell_markup(&Cell::of(column, row, 0.0))) }
            @if has_text { td.code { code { (text(row, "text").chars().take(MAX_TEXT).collect::<String>()) } } }
        }
    }
}

fn text<'a>(row: &'a Object, key: &str) -> &'a str {
    row.get(key).and_then(serde_json::Value::as_str).unwrap_or_default()
}

fn number(row: &Object) -> Option<u64> {
    row.get("line")?.as_u64()
}
