//! `warikomi histories` and `warikomi calibrate`, as a user types them.

use std::process::{Command, Output};

fn warikomi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warikomi")).args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let runs = tempfile::tempdir().unwrap();
    let kept = ["--runs", runs.path().to_str().unwrap()];
    let kept = if arguments[0] == "histories" { &kept[..] } else { &[] };
    let output = warikomi(&[arguments, kept].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn one_seed_is_one_history_and_the_next_seed_another() {
    let of = |seed| json(&["histories", "--count", "20", "--faults", "--json", "--seed", seed]);
    let (first, again, other) = (of("7"), of("7"), of("8"));
    let all = |result: &serde_json::Value| result["rows"][0].clone();
    assert_eq!(all(&first)["histories"], 20);
    assert_eq!(all(&first), all(&again));
    assert_ne!(all(&first)["digest"], all(&other)["digest"]);
}

#[test]
fn what_there_is_not_is_refused() {
    let none = warikomi(&["histories", "--driver", "e1000e", "--count", "1"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("no driver called e1000e"));
    assert!(!none.status.success());
    assert!(!warikomi(&["histories", "--count", "0"]).status.success());
}

#[test]
fn what_is_charged_is_measured_and_what_is_not_is_marked() {
    let calibration = json(&["calibrate", "--json"]);
    let costs = calibration["costs"].as_object().unwrap();
    assert!(costs["copy_ps_per_byte"].as_u64().is_some());
    let kernel = calibration["kernel"].as_object().unwrap();
    assert_eq!(kernel["ps_per_byte"], costs["copy_ps_per_byte"]);
    for name in calibration["declared"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        assert!(costs.contains_key(name) || kernel.contains_key(name), "{name}");
    }
}
