//! What is shown of the kernel's own tests: how many cases ended how, and those that did not pass.

use std::collections::BTreeMap;

use serde_json::Value;
use warikomi_measure::RunResult;
use warikomi_measure::layout::{Column, Layout, Table, Unit};

use crate::cells::{list, object, text};

/// Bytes of what a test says that are shown; a row has all of it.
const SHOWN_BYTES: usize = 100;

/// What the lists among the figures are called.
const TESTS: &str = "tests";
const OTHERS: &str = "others";

/// Ways to end, with the titles of their columns.
const OUTCOMES: [(&str, &str); 4] = [
    ("passed", "passed"),
    ("failed", "failed"),
    ("skipped", "skipped"),
    ("expected", "expected failures"),
];

/// Puts into a result how many cases of each test ended how, and those that did not pass.
pub(super) fn fill(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let mut tests: BTreeMap<(&str, &str), BTreeMap<&str, u64>> = BTreeMap::new();
    for row in rows {
        let counts = tests.entry((text(row, "driver"), text(row, "test"))).or_default();
        *counts.entry(text(row, "result")).or_default() += 1;
    }
    let counted = tests.iter().map(|((driver, test), counts)| {
        let outcomes = OUTCOMES
            .map(|(outcome, _)| (outcome, counts.get(outcome).copied().unwrap_or_default().into()));
        let [passed, failed, skipped, expected] = outcomes;
        let (driver, test) = (("driver", (*driver).into()), ("test", (*test).into()));
        Value::from(object([driver, test, passed, failed, skipped, expected]))
    });
    let counted: Vec<Value> = counted.collect();
    let others = rows.iter().filter(|row| text(row, "result") != "passed").map(|row| {
        // What is known of it says more than what the test says, of which the end is what counts.
        let said = text(row, "said").lines().last().unwrap_or_default();
        let said = &said[..said.floor_char_boundary(SHOWN_BYTES)];
        let why = Some(text(row, "reason")).filter(|why| !why.is_empty()).unwrap_or(said);
        let same = ["driver", "test", "case", "result", "lacks"];
        let [driver, test, case, result, lacks] = same.map(|key| (key, text(row, key).into()));
        Value::from(object([driver, test, case, result, lacks, ("why", why.into())]))
    });
    let others: Vec<Value> = others.collect();
    result.figures.insert(TESTS.to_owned(), counted.into());
    if !others.is_empty() {
        result.figures.insert(OTHERS.to_owned(), others.into());
    }
}

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let said = |key: &str, title: &str| Column::figure(key, title);
    let named = |key: &str, title: &str| Column::parameter(key, title);
    let mut of_tests = vec![named("driver", "driver"), named("test", "test")];
    of_tests.extend(OUTCOMES.map(|(key, title)| said(key, title).unit(Unit::Count)));
    let of_others = vec![
        named("driver", "driver"),
        named("test", "test"),
        named("case", "case"),
        said("result", "result"),
        said("lacks", "who lacks it"),
        said("why", "why"),
    ];
    let plan = |key: &str| result.plan.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut layout = Layout {
        asked: Some(format!("the tests of {} in Linux {}", plan("tests_of"), plan("kernel"))),
        columns: vec![
            named("driver", "driver"),
            named("test", "test"),
            named("case", "case"),
            said("result", "result"),
            said("lacks", "who lacks it"),
            said("took_s", "test took, s"),
        ],
        ..Layout::default()
    };
    let tables = [
        (TESTS, "How the cases of each test ended", of_tests),
        (OTHERS, "Cases that did not pass", of_others),
    ];
    for (key, title, columns) in tables {
        if list(&result.figures, key).next().is_some() {
            layout.tables.push(Table::of_figures(key, title, key, columns));
        }
    }
    result.layout = layout;
}
