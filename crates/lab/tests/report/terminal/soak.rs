//! What `warikomi soak` prints.

use serde_json::json;
use warikomi_measure::{Machine, RunResult, TimeBase};
use warikomi_report::terminal::Style;

use super::shown;

fn result(wrong: u64) -> RunResult {
    let mut result = RunResult::new("soak", TimeBase::Virtual, Machine::default());
    let row = json!({"target": "kernel", "histories": 40, "wrong": wrong, "packets": 900});
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    let finding = |seed| {
        json!({"seed": seed, "target": "kernel", "checkers": "order", "what": "order: packet 2 before 1",
            "command": format!("warikomi soak --target kernel --seeds {seed}"),
            "history": format!("warikomi inject --virtual --seed {seed} --count 3")})
    };
    if wrong > 0 {
        let findings: Vec<_> = (100..100 + wrong).map(finding).collect();
        result.figures.insert("findings".to_owned(), findings.into());
    }
    result
}

#[test]
fn each_history_that_is_wrong_has_its_seed_and_its_commands() {
    let text = shown(&result(2), Style { width: 160, ..Style::default() });
    assert!(text.contains("What is wrong"), "{text}");
    for seed in [100, 101] {
        assert!(text.contains(&format!("warikomi soak --target kernel --seeds {seed}")), "{text}");
        assert!(text.contains(&format!("inject --virtual --seed {seed} --count 3")), "{text}");
    }
    assert!(text.contains("order: packet 2 before 1"), "{text}");
}

#[test]
fn where_nothing_is_wrong_there_is_no_table_of_it() {
    let text = shown(&result(0), Style::default());
    assert!(!text.contains("What is wrong") && text.contains("histories"), "{text}");
}
