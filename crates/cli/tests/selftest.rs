//! The kernel's own tests of NICs, as a user runs them: two that need little, and the table of all in docs/fidelity.md.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use warikomi_testbench::{MarkedPart, skipped};

/// Runs these tests with r8169; nothing where this machine lacks what they need.
fn tested(only: &str) -> Option<(Value, String)> {
    let runs = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(["selftest", "--driver", "r8169", "--only", only, "--runs"]).arg(runs.path());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("scripts/setup selftest") || errors.contains("--selftests") {
        skipped(errors.lines().last().unwrap_or_default());
        return None;
    }
    assert!(output.status.success(), "{errors}{}", String::from_utf8_lossy(&output.stdout));
    let run = fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let result = fs::read(run.join("result.json")).unwrap();
    let ktap = fs::read_to_string(run.join("selftest.ktap")).unwrap();
    Some((serde_json::from_slice(&result).unwrap(), ktap))
}

/// How the cases of a test ended, in order.
fn results(result: &Value, test: &str) -> Vec<(String, String)> {
    let rows = result["rows"].as_array().unwrap().iter().filter(|row| row["test"] == test);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["case"]), text(&row["result"]))).collect()
}

#[test]
#[ignore = "boots a kernel of its own, and needs python3 and others"]
fn each_card_reaches_the_other() {
    let Some((result, ktap)) = tested("drivers/net/ping.py") else { return };
    let expected = ["ping.test_v4", "ping.test_v6", "ping.test_tcp"];
    let expected = expected.map(|case| (case.to_owned(), "passed".to_owned()));
    assert_eq!(results(&result, "drivers/net/ping.py"), expected);
    assert!(ktap.starts_with("KTAP version 1\n"), "{ktap}");
    assert!(ktap.contains("    ok 1 ping.test_v4\n"), "{ktap}");
    assert!(ktap.ends_with("ok 1 r8169 drivers/net/ping.py\n"), "{ktap}");
}

#[test]
#[ignore = "boots a kernel of its own, and needs ethtool and others"]
fn every_feature_of_the_driver_is_turned_off_and_on() {
    let Some((result, _)) = tested("net/netdevice.sh") else { return };
    let results = results(&result, "net/netdevice.sh");
    let ended = |name: &str| {
        let found = results.iter().find(|(case, _)| case == name);
        found.map(|(_, result)| result.as_str())
    };
    for interface in ["eth0", "eth1"] {
        for what in ["set interface up", "set MAC address", "ethtool stats", "stop interface"] {
            let case = format!("{interface}: {what}");
            assert_eq!(ended(&case), Some("passed"), "{case} in {results:?}");
        }
        let off = format!("{interface}: Turned off feature: tx-checksumming");
        assert_eq!(ended(&off), Some("passed"), "{results:?}");
    }
}

/// Names the results from which the tables are to be written, as PATH names directories.
const RESULTS: &str = "WARIKOMI_SELFTEST_RESULTS";
const TABLES: MarkedPart = MarkedPart::new(
    "fidelity.md",
    ["<!-- selftests: scripts/fidelity writes them -->\n", "<!-- end of selftests -->\n"],
);
/// Every driver, in the order of the table.
const DRIVERS: [&str; 5] = ["r8169", "8139too", "8139cp", "e1000e", "igb"];
/// Ways to end, which a cell has behind the number of cases that passed.
const OUTCOMES: [&str; 3] = ["failed", "expected", "skipped"];

/// How the cases of a test ended with a driver; `notes` are the reasons of the failures so far.
fn cell(rows: &[&Value], notes: &mut Vec<String>) -> String {
    let of = |outcome: &str| rows.iter().filter(|row| row["result"] == outcome).count();
    let mut parts = vec![of("passed").to_string()];
    for outcome in OUTCOMES.into_iter().filter(|outcome| of(outcome) > 0) {
        let mut numbers = BTreeSet::new();
        for row in rows.iter().filter(|row| row["result"] == outcome && !row["reason"].is_null()) {
            let text = |key: &str| row[key].as_str().unwrap();
            let note = format!("{}: {}", text("lacks"), text("reason"));
            let known = notes.iter().position(|one| *one == note).unwrap_or(notes.len());
            if known == notes.len() {
                notes.push(note);
            }
            numbers.insert(known + 1);
        }
        let numbers: Vec<_> = numbers.iter().map(usize::to_string).collect();
        let numbers = numbers.join(", ");
        let why = if numbers.is_empty() { String::new() } else { format!(" ({numbers})") };
        parts.push(format!("{} {outcome}{why}", of(outcome)));
    }
    parts.join("; ")
}

/// The table of one kernel's tests.
fn table(result: &Value, notes: &mut Vec<String>) -> String {
    let rows = result["rows"].as_array().unwrap();
    let tests: BTreeSet<&str> = rows.iter().map(|row| row["test"].as_str().unwrap()).collect();
    let kernel = result["plan"]["kernel"].as_str().unwrap();
    let source = Path::new(result["plan"]["tests_of"].as_str().unwrap());
    let source = source.file_name().unwrap().to_string_lossy();
    let mut text = format!("\nLinux {kernel}, the tests of {source}.\n\n|");
    let _ = write!(text, " test | {} |\n|{}", DRIVERS.join(" | "), "---|".repeat(6));
    for test in tests {
        let _ = write!(text, "\n| {test} |");
        for driver in DRIVERS {
            let theirs = |row: &&Value| row["test"] == test && row["driver"] == driver;
            let theirs: Vec<&Value> = rows.iter().filter(theirs).collect();
            let _ = write!(text, " {} |", cell(&theirs, notes));
        }
    }
    text.push('\n');
    text
}

/// All of them, and the reasons of all failures.
fn render(results: &[Value]) -> String {
    let mut notes = Vec::new();
    let mut text: String = results.iter().map(|result| table(result, &mut notes)).collect();
    text.push('\n');
    for (number, why) in (1..).zip(&notes) {
        let _ = writeln!(text, "{number}. {why}");
    }
    text.push('\n');
    text
}

#[test]
fn the_tables_in_the_docs_have_every_driver_and_a_reason_for_each_failure() {
    if let Some(results) = std::env::var_os(RESULTS) {
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let results: Vec<Value> = std::env::split_paths(&results).map(read).collect();
        return TABLES.replace(&render(&results));
    }
    let text = TABLES.text();
    let header = format!("| test | {} |", DRIVERS.join(" | "));
    let tables: Vec<&str> = text.split(&header).skip(1).collect();
    assert!(!tables.is_empty(), "{text}");
    for table in tables {
        for test in ["drivers/net/ping.py", "drivers/net/hw/ethtool.sh", "net/netdevice.sh"] {
            assert!(table.contains(&format!("| {test} |")), "{test}");
        }
        let rows = table.lines().filter(|line| line.starts_with("| "));
        for row in rows {
            let cells: Vec<&str> =
                row.trim_matches('|').split('|').skip(1).map(str::trim).collect();
            assert_eq!(cells.len(), DRIVERS.len(), "{row}");
            for cell in cells {
                assert!(cell.starts_with(|first: char| first.is_ascii_digit()), "{row}");
                let failed = cell.split("; ").filter(|part| part.contains(" failed"));
                assert!(failed.clone().all(|part| part.ends_with(')')), "{row}");
            }
        }
    }
    assert!(!text.contains("model: "), "what our card lacks is a bug");
}
