//! `warikomi replace --target kernel` as a user meets it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_module_is_replaced_and_a_report_has_its_row() {
    let runs = tempfile::tempdir().unwrap();
    let asked = "replace --target kernel --load idle --trials 2 --json --runs";
    let mut asked: Vec<&str> = asked.split_whitespace().collect();
    asked.push(runs.path().to_str().unwrap());
    let output = run(&asked);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&result["experiment"], &result["plan"]["target"]),
        (&"replace".into(), &"kernel".into())
    );
    let row = &result["rows"][0];
    assert_eq!((&row["way"], &row["load"]), (&"kernel-module".into(), &"idle".into()), "{row}");
    assert_eq!((&row["replacements"], &row["resets"]), (&2.into(), &2.into()), "{row}");
    assert!(row["swap_us"]["min"].as_f64().unwrap() > 0.0, "{row}");
    let directory = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let report = run(&["report", directory.to_str().unwrap()]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("kernel-module"));
}
