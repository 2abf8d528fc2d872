//! A column: what a figure is, and how it is written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::show::Unit;
use super::source::Object;

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The more the better.
    More,
    /// The less the better.
    Less,
}

/// What a cell says in place of a figure that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instead {
    /// The column that says that it is not there: with anything but `false`.
    pub key: String,
    /// The text of the cell.
    pub says: String,
}

/// A column of a table, or what a single figure is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// Its key in a row. A path such as `delay_us.p50` reaches into an object.
    pub key: String,
    /// Title of the column.
    pub title: String,
    /// The same for a terminal, in few letters; the title if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub head: String,
    /// Unit of its values.
    pub unit: Unit,
    /// Which way its figures are better; absent if neither is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// The column with the published figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// It is a parameter of the row, which tells it from others, and no figure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parameter: bool,
    /// A narrow terminal leaves it out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wide: bool,
    /// A row with more than 0 here is alarming.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub alarm: bool,
    /// What stands for a figure that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<Instead>,
    /// Words for values; for none (`""`) the word of a row without a value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<String, String>,
    /// How a name says a value that has no word: `T = {}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

impl Column {
    /// The column that follows from a key: its end is the unit.
    pub fn of(key: &str) -> Column {
        let (stem, unit) = unit_of(key);
        let says = (key == "size_bytes").then(|| "{} bytes".to_owned());
        let title = if key == "size_bytes" { "length in bytes".to_owned() } else { stem };
        let better = better(key);
        let parameter = GIVEN.contains(&key);
        Column { key: key.to_owned(), title, unit, better, says, parameter, ..Column::default() }
    }

    /// A figure, titled.
    pub fn figure(key: &str, title: &str) -> Column {
        Column { title: title.to_owned(), ..Column::of(key) }
    }

    /// A parameter, titled.
    pub fn parameter(key: &str, title: &str) -> Column {
        Column { parameter: true, better: None, ..Column::figure(key, title) }
    }

    /// The same, with a short title for a terminal.
    pub fn head(self, head: &str) -> Column {
        Column { head: head.to_owned(), ..self }
    }

    /// The column with this unit.
    pub fn unit(self, unit: Unit) -> Column {
        Column { unit, ..self }
    }

    /// The column with the direction in which its values are better.
    pub fn better(self, better: Better) -> Column {
        Column { better: Some(better), ..self }
    }

    /// The same, with a column of published figures beside it.
    pub fn published(self, key: &str) -> Column {
        Column { published: Some(key.to_owned()), ..self }
    }

    /// The same, which a narrow terminal leaves out.
    pub fn wide(self) -> Column {
        Column { wide: true, ..self }
    }

    /// The column, marked as alarming above 0.
    pub fn alarm(self) -> Column {
        Column { alarm: true, better: Some(Better::Less), ..self }
    }

    /// The same, which says this where another column says that there is no figure.
    pub fn instead(self, key: &str, says: &str) -> Column {
        Column { instead: Some(Instead { key: key.to_owned(), says: says.to_owned() }), ..self }
    }

    /// The same, with a word for a value.
    pub fn word(mut self, value: &str, word: &str) -> Column {
        self.words.insert(value.to_owned(), word.to_owned());
        self
    }

    /// The same, with a way to say a value in a name.
    pub fn says(self, says: &str) -> Column {
        Column { says: Some(says.to_owned()), ..self }
    }

    /// The value that a row has here; nothing if it is `null`.
    pub fn value<'a>(&self, row: &'a Object) -> Option<&'a Value> {
        at_path(row, &self.key).filter(|value| !value.is_null())
    }

    /// The value as a number.
    pub fn number(&self, row: &Object) -> Option<f64> {
        self.value(row)?.as_f64()
    }

    /// The text of the column's cell in `row`.
    pub fn cell(&self, row: &Object) -> String {
        let Some(value) = self.value(row) else {
            let instead = self.instead.as_ref().filter(|instead| {
                at_path(row, &instead.key)
                    .is_some_and(|v| !matches!(v, Value::Bool(false) | Value::Null))
            });
            return instead.map_or(String::new(), |instead| instead.says.clone());
        };
        let raw = raw(value);
        if let Some(word) = self.words.get(&raw) {
            return word.clone();
        }
        value.as_f64().map_or(raw, |number| self.unit.show(number))
    }

    /// What the value is called in a name: of a series, a chart, a row. Empty if there is nothing to say.
    pub fn name(&self, row: &Object) -> String {
        let raw = self.value(row).map(raw).unwrap_or_default();
        match (self.words.get(&raw), &self.says) {
            (Some(word), _) => word.clone(),
            (None, Some(says)) if !raw.is_empty() => says.replacen("{}", &self.cell(row), 1),
            _ => self.cell(row),
        }
    }
}

/// Keys of what was asked for, or of what the machine is, wherever they are.
const GIVEN: [&str; 5] = ["size_bytes", "requested_ns", "resolution_ns", "count", "quiet_count"];

/// A value as its file has it.
pub fn raw(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // A number without an exponent, which people and tables read more easily.
    let exponent = value.as_f64().filter(|_| text.contains('e'));
    exponent.map_or(text, |number| number.to_string())
}

/// What a path leads to: keys of objects and, from 0, places in lists, with points between.
pub fn at_path<'a>(row: &'a Object, path: &str) -> Option<&'a Value> {
    if let Some(value) = row.get(path) {
        return Some(value);
    }
    let mut parts = path.split('.');
    let first = row.get(parts.next()?)?;
    parts.try_fold(first, |value, part| match value {
        Value::Object(object) => object.get(part),
        Value::Array(list) => list.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A key's name for people, and its unit. Of `delay_us.p50` the unit is that of `delay_us`.
fn unit_of(key: &str) -> (String, Unit) {
    const UNITS: [(&str, Unit); 8] = [
        ("_ns", Unit::Ns),
        ("_us", Unit::Us),
        ("_bps", Unit::Bps),
        ("_pps", Unit::Pps),
        ("_share", Unit::Share),
        ("_percent", Unit::Percent),
        ("_bytes", Unit::Count),
        ("_kib", Unit::Count),
    ];
    let (name, part) = key.split_once('.').unwrap_or((key, ""));
    let known = UNITS.iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, *unit)));
    let (stem, unit) = match known {
        _ if name.contains("within_") => {
            (name.trim_end_matches("_share").trim_end_matches("_percent"), Unit::Share)
        }
        Some(known) => known,
        None if matches!(name, "bps" | "pps") => {
            (name, if name == "bps" { Unit::Bps } else { Unit::Pps })
        }
        None if name.starts_with("share_of_") => (name, Unit::Share),
        None if name.ends_with("_per_packet") || name.contains("_over_") => (name, Unit::Number),
        None => (name, Unit::Plain),
    };
    let title = stem.replace("6_25", "6.25").replace('_', " ");
    let unit_word = if name.ends_with("_pps") { " frames/s" } else { "" };
    let percent = if name.contains("within_") { "%" } else { "" };
    let part = if part.is_empty() { String::new() } else { format!(" {}", part.replace('_', " ")) };
    (format!("{title}{percent}{unit_word}{part}"), unit)
}

/// Which way a figure is better, by its key; `None` where neither is.
fn better(figure: &str) -> Option<Better> {
    let figure = figure.split('.').next().unwrap_or(figure);
    if figure.contains("drift") || figure == "interval_ns" || figure.starts_with("published_") {
        return None;
    }
    let bad_share = ["error", "lost", "missed", "drop"].iter().any(|bad| figure.contains(bad));
    let ends = |ends: &[&str]| ends.iter().any(|end| figure.ends_with(end));
    match figure {
        _ if ends(&["_ns", "_us", "_ns_per_byte"]) => Some(Better::Less),
        _ if ends(&["_bps", "_pps"]) || matches!(figure, "bps" | "pps") => Some(Better::More),
        _ if figure.ends_with("_share") && bad_share => Some(Better::Less),
        _ if figure.ends_with("_share") || figure.starts_with("share_of_") => Some(Better::More),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_key_says_its_unit_and_which_way_is_better() {
        for (key, title, unit, better) in [
            ("send_ns", "send", Unit::Ns, Some(Better::Less)),
            ("delay_us.p99", "delay p99", Unit::Us, Some(Better::Less)),
            ("loss_free_bps", "loss free", Unit::Bps, Some(Better::More)),
            ("saturated_pps", "saturated frames/s", Unit::Pps, Some(Better::More)),
            ("lost_share", "lost", Unit::Share, Some(Better::Less)),
            ("within_6_25_share", "within 6.25%", Unit::Share, Some(Better::More)),
            ("drift_ns", "drift", Unit::Ns, None),
            ("replacements", "replacements", Unit::Plain, None),
        ] {
            let column = Column::of(key);
            assert_eq!((column.title.as_str(), column.unit, column.better), (title, unit, better));
        }
    }

    #[test]
    fn a_path_reaches_into_objects_and_lists_and_what_is_not_there_says_why() {
        let row = row(json!({"delay_us": {"p50": 61.0}, "edges": [{"way": "a"}], "refused": "no"}));
        assert_eq!(Column::of("delay_us.p50").cell(&row), "61 µs");
        assert_eq!(at_path(&row, "edges.0.way"), Some(&json!("a")));
        assert_eq!(at_path(&row, "edges.1.way"), None);
        let cpu = Column::of("cpu_share").instead("refused", "none");
        assert_eq!(cpu.cell(&row), "none");
        assert_eq!(Column::of("cpu_share").instead("other", "none").cell(&row), "");
    }

    #[test]
    fn names_have_words_for_values_and_for_none() {
        let poll = Column::of("poll_us").word("", "no T").says("T = {}");
        assert_eq!(poll.name(&row(json!({"poll_us": 100}))), "T = 100 µs");
        assert_eq!(poll.name(&row(json!({}))), "no T");
        let bounce = Column::of("bounce").word("none", "").says("bounce {}");
        assert_eq!(bounce.name(&row(json!({"bounce": "auto"}))), "bounce auto");
        assert_eq!(bounce.name(&row(json!({"bounce": "none"}))), "");
        assert_eq!(Column::of("size_bytes").name(&row(json!({"size_bytes": 1500}))), "1,500 bytes");
    }
}
