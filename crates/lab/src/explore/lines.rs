//! The map of an exploration: what came of the places of each source line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;
use warikomi_measure::layout::{Class, Column, Map, Object};

use super::counted::Counted;
use super::places::Instruction;
use super::row::Explored;
use super::sources::Sources;
use crate::cells::object;

/// Lines between two of a map that are shown as well, if there are no more of them: comments, braces.
const MOST_BETWEEN: u32 = 4;

/// The longest text of a line that is kept, in characters.
const MAX_TEXT: usize = 200;

/// A row for each line that has places, in the order of files, the one with the most places first. `places` are
/// those of what was explored, in the same order.
pub(super) fn rows(
    places: &[Instruction],
    explored: &[Explored],
    sources: &Sources,
) -> Vec<Object> {
    let mut files: BTreeMap<&str, BTreeMap<u32, Counted<'_>>> = BTreeMap::new();
    for (place, explored) in places.iter().zip(explored) {
        if let Some((file, line)) = &place.line {
            let lines = files.entry(file).or_default();
            lines.entry(*line).or_default().add(&explored.row);
        }
    }
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by_key(|(_, lines)| Reverse(lines.values().map(|one| one.places).sum::<u64>()));
    files.iter().flat_map(|(file, lines)| rows_of(file, lines, sources)).collect()
}

fn rows_of(file: &str, lines: &BTreeMap<u32, Counted<'_>>, sources: &Sources) -> Vec<Object> {
    let texts = sources.lines(file);
    let text = |line: u32| {
        let text = texts.as_ref()?.get(usize::try_from(line).ok()?.checked_sub(1)?)?;
        Some(text.chars().take(MAX_TEXT).collect::<String>())
    };
    let mut rows = Vec::new();
    let mut last = None;
    for (&line, counted) in lines {
        let between = last.map_or(line, |last: u32| last + 1)..line;
        if texts.is_some() && between.len() <= MOST_BETWEEN as usize {
            rows.extend(between.map(|line| row(file, line, text(line), None)));
        }
        rows.push(row(file, line, text(line), Some(counted)));
        last = Some(line);
    }
    rows
}

fn row(file: &str, line: u32, text: Option<String>, counted: Option<&Counted<'_>>) -> Object {
    let text = text.map_or(Value::Null, Value::from);
    let mut row = object([("file", file.into()), ("line", line.into()), ("text", text)]);
    let Some(counted) = counted else { return row };
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let (class, value) = match counted {
        Counted { bad: 1.., .. } => (Class::Bad, share(counted.bad, counted.reached)),
        Counted { reached: 1.., .. } => (Class::Good, share(counted.reached, counted.places)),
        _ => (Class::Unknown, 0.0),
    };
    row.extend(object([
        ("class", class.name().into()),
        ("value", value.into()),
        ("places", counted.places.into()),
        ("reached", counted.reached.into()),
        ("bad", counted.bad.into()),
        ("worst", counted.worst().into()),
    ]));
    row
}

/// The map of these rows, which are in `figures`.
pub(super) fn map(key: &str) -> Map {
    let columns = vec![
        Column::figure("places", "places"),
        Column::figure("reached", "reached"),
        Column::figure("bad", "findings").alarm(),
        Column::figure("worst", "worst verdict"),
    ];
    Map::of_figures("lines", "Source lines", key, columns).note(
        "Red: something is wrong, at more of the line's places the stronger. Green: struck, and nothing was wrong; \
         pale where some of its places were not. Without colour: not struck.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::row::PlaceRow;
    use crate::strike::Verdict;

    fn place(file: &str, line: u32, verdict: Verdict) -> (Instruction, Explored) {
        let line = Some((file.to_owned(), line));
        let place = Instruction { symbol: "f".into(), line, ..Instruction::default() };
        let row = PlaceRow::new("f+0x0".into(), Some(&place), None, verdict);
        (place, Explored { row, trial: None, seconds: 0.0 })
    }

    fn rows_with(sources: &Sources) -> Vec<Object> {
        let (places, explored): (Vec<_>, Vec<_>) = [
            place("linux/a.h", 7, Verdict::NotReached),
            place("net/b.c", 2, Verdict::Accounted),
            place("net/b.c", 2, Verdict::Stuck),
            place("net/b.c", 5, Verdict::Accounted),
            place("net/b.c", 5, Verdict::NotReached),
        ]
        .into_iter()
        .unzip();
        rows(&places, &explored, sources)
    }

    #[test]
    fn each_line_has_its_class_and_how_much_of_it() {
        let rows = rows_with(&Sources::default());
        let of = |row: &Object| (row["file"].to_string(), row["line"].as_u64().unwrap());
        let places: Vec<_> = rows.iter().map(of).collect();
        let wanted = [("net/b.c", 2), ("net/b.c", 5), ("linux/a.h", 7)];
        assert_eq!(places, wanted.map(|(file, line)| (format!("\"{file}\""), line)));
        let classes: Vec<_> = rows.iter().map(|row| (Class::of(row), &row["value"])).collect();
        let half = Value::from(0.5);
        assert_eq!(classes[0], (Some(Class::Bad), &half));
        assert_eq!(classes[1], (Some(Class::Good), &half));
        assert_eq!(classes[2].0, Some(Class::Unknown));
        assert_eq!((&rows[0]["bad"], &rows[0]["worst"]), (&1.into(), &"stuck".into()));
        assert!(!rows[0].contains_key("text"));
    }

    #[test]
    fn the_text_of_a_line_stands_beside_it_and_so_do_lines_between() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("net")).unwrap();
        let long = "x".repeat(2 * MAX_TEXT);
        let text = format!("one\n\ttwo <b>\nthree\nfour\n{long}\n");
        std::fs::write(directory.path().join("net/b.c"), text).unwrap();
        let sources = Sources::below(directory.path());
        let rows = rows_with(&sources);
        let texts: Vec<_> =
            rows.iter().map(|row| row.get("text").and_then(Value::as_str)).collect();
        let cut = &long[..MAX_TEXT];
        let wanted = [Some("\ttwo <b>"), Some("three"), Some("four"), Some(cut), None];
        assert_eq!(texts, wanted);
        assert_eq!(Class::of(&rows[1]), None);
    }
}
