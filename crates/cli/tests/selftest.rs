//! The kernel's own tests of NICs, as a user runs them: two that need little.

use std::fs;
use std::process::Command;

use serde_json::Value;
use warikomi_testbench::skipped;

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
