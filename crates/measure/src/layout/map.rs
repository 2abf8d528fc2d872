//! A map: lines of files, and what is known of each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column::{Column, at_path};
use super::source::{Object, Source};

/// What a line of a map is coloured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Something is wrong there.
    Bad,
    /// It was looked at, and nothing was found to be wrong.
    Good,
    /// It was not looked at.
    Unknown,
}

/// Lines of files, each with a class and a value: a heat map over a source. A row has `file` and `line`; `text`, the
/// line itself, where it is known; `class` (`bad`, `good`, `unknown`; none for a line that only stands between
/// others), and `value`, from 0 to 1, how strong its colour is. What else it has, the columns say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Map {
    /// A name for files: letters, digits and dashes.
    pub name: String,
    /// Title of the map.
    pub title: String,
    /// Source of the rows, in the order of files and lines.
    pub source: Source,
    /// The figures of a line.
    pub columns: Vec<Column>,
    /// What one must know to read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Map {
    /// A map of what is in a list of `figures`.
    pub fn of_figures(name: &str, title: &str, path: &str, columns: Vec<Column>) -> Map {
        let (name, title) = (name.to_owned(), title.to_owned());
        Map { name, title, source: Source::Figures(path.to_owned()), columns, notes: Vec::new() }
    }

    /// The map with this note added.
    pub fn note(mut self, note: impl Into<String>) -> Map {
        self.notes.push(note.into());
        self
    }

    /// How much of what raises an alarm a line has.
    pub fn alarm(&self, row: &Object) -> f64 {
        let alarming = self.columns.iter().filter(|column| column.alarm);
        alarming.filter_map(|column| column.number(row)).sum()
    }
}

impl Class {
    /// The class of a row; `None` for a line that only stands between others.
    pub fn of(row: &Object) -> Option<Class> {
        match at_path(row, "class").and_then(Value::as_str)? {
            "bad" => Some(Class::Bad),
            "good" => Some(Class::Good),
            _ => Some(Class::Unknown),
        }
    }

    /// The class as a row has it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Bad => "bad",
            Class::Good => "good",
            Class::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_class_is_read_as_it_is_written_and_any_other_word_is_unknown() {
        let of = |class: Value| Class::of(json!({ "class": class }).as_object().unwrap());
        for class in [Class::Bad, Class::Good, Class::Unknown] {
            assert_eq!(of(class.name().into()), Some(class));
        }
        assert_eq!(of("worse".into()), Some(Class::Unknown));
        assert_eq!(of(Value::Null), None);
    }
}
