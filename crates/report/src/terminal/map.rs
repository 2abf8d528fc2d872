//! What a terminal shows of a map: its worst lines.

use warikomi_measure::RunResult;
use warikomi_measure::layout::{Class, Column, Map, Object, View};

use super::table::Page;
use super::view;
use crate::read::rows;

/// How many lines are shown.
const WORST: usize = 10;

/// The longest text of a line that is shown, in characters.
const MAX_TEXT: usize = 60;

/// Draws the lines at which something is wrong, those with the most of it first; nothing if there are none.
pub(super) fn draw(page: &mut Page, result: &RunResult, map: &Map) {
    let mut lines = rows(result, &map.source);
    lines.retain(|row| Class::of(row) == Some(Class::Bad));
    let all = lines.len();
    lines.sort_by(|a, b| map.alarm(b).total_cmp(&map.alarm(a)));
    let lines: Vec<Object> = lines.into_iter().take(WORST).map(named).collect();
    if lines.is_empty() {
        return;
    }
    let place = Column::parameter("place", "line");
    let source = Column::parameter("text", "source");
    let has_text = lines.iter().any(|row| !source.cell(row).is_empty());
    let columns: Vec<Column> = std::iter::once(place)
        .chain(map.columns.iter().cloned())
        .chain(has_text.then_some(source.wide()))
        .collect();
    let lines: Vec<&Object> = lines.iter().collect();
    page.blank();
    let title = match all {
        many if many > WORST => format!("{}: the {WORST} worst of {many} lines", map.title),
        _ => map.title.clone(),
    };
    view::draw(page, &title, &columns, &lines, &View::default());
}

/// The line with its place as it is written, and no more of its text than fits.
fn named(row: &Object) -> Object {
    let mut named = row.clone();
    let text = |key: &str| row.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let line = row.get("line").and_then(serde_json::Value::as_u64).unwrap_or(0);
    named.insert("place".to_owned(), format!("{}:{line}", text("file")).into());
    let short: String = text("text").trim().chars().take(MAX_TEXT).collect();
    named.insert("text".to_owned(), short.into());
    named
}
