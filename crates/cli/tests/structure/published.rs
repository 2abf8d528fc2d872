//! That all of what was published is read, and stands in docs/published.md with a command beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{ImplItem, Item, Visibility};
use toml::Value;

use crate::pages::{root, tree};

const FIGURES: &str = "crates/measure/src/published.toml";
const READER: &str = "crates/measure/src/published.rs";
const PAGE: &str = "docs/published.md";
const RUNS: &[&str] = &["docs/experiments.md", "docs/benchmarks.md", PAGE];

/// What is told in words only, and compared by a person: it stands in the page and nowhere else.
const FOR_PEOPLE: &[&str] = &["announced_next", "rtt_us"];

/// What one key says: a value, or for a table of several keys one each.
fn leaves(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    let below = |key: &str| match (path.is_empty(), key.contains([' ', '.'])) {
        (true, _) => key.to_owned(),
        (false, true) => format!("{path}.\"{key}\""),
        (false, false) => format!("{path}.{key}"),
    };
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| leaves(&below(key), value, into))
        }
        Value::Array(all) if all.iter().all(Value::is_table) => {
            let rows = all.iter().enumerate();
            into.extend(rows.map(|(at, row)| (format!("{path}[{at}]"), written(row))));
        }
        other => {
            into.insert(path.to_owned(), written(other));
        }
    }
}

/// A value as the page has it: texts without quotation marks.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(written).collect::<Vec<_>>().join(", "),
        Value::Table(row) => {
            let cells = row.iter().map(|(key, value)| format!("{key} = {}", written(value)));
            cells.collect::<Vec<_>>().join(", ")
        }
        // Without an exponent, and seen to be no whole number.
        Value::Float(number) if number.fract() == 0.0 => format!("{number:.1}"),
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

fn published() -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join(FIGURES)).expect("it is there");
    let mut all = BTreeMap::new();
    leaves("", &Value::Table(text.parse().expect("it is TOML")), &mut all);
    all
}

/// The rows of the page, cell by cell; the first is the key.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join(PAGE)).expect("it is there");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim().trim_matches('`').to_owned()).collect())
        .collect()
}

#[test]
fn every_published_key_has_a_row_with_its_value_a_command_and_a_verdict() {
    let (rows, published) = (rows(), published());
    let runs = runs();
    for (key, value) in &published {
        let of_key: Vec<_> = rows.iter().filter(|row| row[0] == *key).collect();
        let [row] = &of_key[..] else { panic!("{PAGE} has {} rows of {key}", of_key.len()) };
        let [_, said, command, _ours, verdict, why] = &row[..] else {
            panic!("{PAGE}: the row of {key} has {} columns", row.len())
        };
        assert_eq!(said, value, "{PAGE}: {key}");
        let known = ["same", "different", "parameter", "not here"].contains(&&**verdict);
        assert!(known, "{PAGE}: {key}: '{verdict}' is no verdict");
        assert!(!why.is_empty(), "{PAGE}: {key}: why?");
        let name = command.trim_start_matches('[').split(']').next().unwrap_or_default();
        let name = name.trim_matches('`');
        assert!(runs.contains(name), "{PAGE}: {key}: there is no run '{name}'");
    }
    for row in &rows {
        assert!(published.contains_key(&row[0]), "{PAGE}: nothing was published as {}", row[0]);
    }
    assert!(published.len() > 70, "{}", published.len());
}

/// The names of the commands that `scripts/measure` runs.
fn runs() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for page in RUNS {
        let text = fs::read_to_string(root().join(page)).expect("a page can be read");
        let parts =
            text.split("<!-- run ").skip(1).filter_map(|part| part.split_once(" -->\n```text\n$ "));
        for (name, _) in parts {
            assert!(all.insert(name.to_owned()), "two runs have the name {name}");
        }
    }
    all
}

#[test]
fn every_published_figure_is_read_by_an_experiment() {
    let text = fs::read_to_string(root().join(READER)).expect("it is there");
    let file = syn::parse_file(&text).expect("it is Rust");
    let mut names = Vec::new();
    for item in file.items {
        match item {
            // A field that is not public is read by a function that is, or the compiler complains.
            Item::Struct(of) => names.extend(
                of.fields
                    .into_iter()
                    .filter(|field| matches!(field.vis, Visibility::Public(_)))
                    .filter_map(|field| field.ident),
            ),
            Item::Impl(of) => names.extend(of.items.into_iter().filter_map(|item| match item {
                ImplItem::Fn(of) if matches!(of.vis, Visibility::Public(_)) => Some(of.sig.ident),
                _ => None,
            })),
            _ => {}
        }
    }
    let readers = readers();
    let read = |name: &str| {
        let (field, call) = (format!(".{name}"), format!("{name}("));
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        readers.iter().any(|text| {
            text.contains(&call)
                || text.match_indices(&field).any(|(at, _)| ends(&text[at + field.len()..]))
        })
    };
    let never: Vec<String> =
        names.iter().map(ToString::to_string).filter(|name| !read(name)).collect();
    assert_eq!(never, FOR_PEOPLE, "published, and never read");
    assert!(names.len() > 40, "{}", names.len());
}

/// All sources that read what was published.
fn readers() -> Vec<String> {
    let mut all = Vec::new();
    tree(&root().join("crates"), &mut all);
    let sources =
        all.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let others = sources.filter(|path: &PathBuf| path != Path::new(READER));
    let texts = others.filter_map(|path| fs::read_to_string(root().join(path)).ok());
    texts.filter(|text| text.contains("published::")).collect()
}
