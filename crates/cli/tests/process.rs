//! Drivers in processes of their own, as a user starts them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs what must succeed; returns its result and the directory that it kept.
fn measured(arguments: &[&str], runs: &Path) -> (Value, PathBuf) {
    let kept = ["--json", "--runs", runs.to_str().unwrap()];
    let output = run(&[arguments, &kept].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let directory = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(directory.join("result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), result);
    (result, directory)
}

fn count(result: &Value, column: &str) -> u64 {
    result["ledger"][column].as_u64().unwrap_or_else(|| panic!("{column}: {result}"))
}

#[test]
fn a_path_through_a_stack_delivers_and_its_plan_can_be_run_again() {
    let runs = tempfile::tempdir().unwrap();
    let target = ["--target", "process", "--path", "stack"];
    let asked = ["inject", "--strategy", "hybrid:200us", "--count", "2000", "--interval", "50us"];
    let (result, directory) = measured(&[&asked[..], &target].concat(), runs.path());
    assert_eq!(result["target"]["kind"], "process");
    assert_eq!(result["target"]["driver"], "rtl8168");
    assert_eq!(result["target"]["settings"]["strategy"], "hybrid:200us");
    assert_eq!((count(&result, "injected"), count(&result, "unaccounted")), (2_000, 0));
    // Packets that find no buffer on a machine that is busy are no fault of the path.
    assert_eq!(count(&result, "delivered") + count(&result, "no_descriptor"), 2_000);
    let samples = std::fs::read_to_string(directory.join("samples.csv")).unwrap();
    assert_eq!(samples.lines().count(), 2_001);
    let plan = directory.join("plan.toml");
    let elsewhere = tempfile::tempdir().unwrap();
    let (again, _) = measured(&["run", plan.to_str().unwrap()], elsewhere.path());
    assert_eq!(again["plan"], result["plan"]);
}

#[test]
fn every_path_can_be_asked_for() {
    for (path, column) in
        [("driver", "accepted"), ("direct", "delivered"), ("application", "delivered")]
    {
        let runs = tempfile::tempdir().unwrap();
        let asked = ["inject", "--target", "process", "--path", path, "--count", "500"];
        let (result, _) = measured(&asked, runs.path());
        assert_eq!(count(&result, "unaccounted"), 0, "{path}");
        assert_eq!(count(&result, column) + count(&result, "no_descriptor"), 500, "{path}");
    }
}

#[test]
fn receive_has_rows_that_follow_from_the_bursts_beside_them() {
    let runs = tempfile::tempdir().unwrap();
    let ways = ["--strategies", "interrupt,poll,napi,hybrid,auto", "--polls", "120"];
    let traffic = ["--bursts", "20KB", "--duration", "100ms", "--buffers", "7MB"];
    let asked = [&["receive", "--target", "process"][..], &ways, &traffic].concat();
    let (result, directory) = measured(&asked, runs.path());
    assert_eq!(result["experiment"], "receive");
    assert_eq!(result["target"]["kind"], "process");
    let rows = result["rows"].as_array().unwrap();
    let strategies: Vec<_> = rows.iter().map(|row| row["strategy"].as_str().unwrap()).collect();
    assert_eq!(strategies, ["interrupt", "poll", "napi", "hybrid", "auto"]);
    assert_eq!(rows[3]["poll_us"], 120);
    let bursts = std::fs::read_to_string(directory.join("bursts.csv")).unwrap();
    for (number, row) in rows.iter().enumerate() {
        let (delivered, lost) = (&row["delivered"], row["lost"].as_u64().unwrap());
        assert_eq!(delivered.as_u64().unwrap() + lost, row["planned"].as_u64().unwrap(), "{row}");
        assert!(row["cpu_share"].is_number() && row["delay_us"]["p50"].is_number(), "{row}");
        let of_row = bursts.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        let of_row = of_row.filter(|line| line[0] == number.to_string());
        let lost_of_bursts: u64 = of_row.map(|line| line[7].parse::<u64>().unwrap()).sum();
        assert_eq!(lost_of_bursts, lost, "{row}");
    }
    let page = runs.path().join("report.html");
    let output = run(&["report", directory.to_str().unwrap(), "--output", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read_to_string(page).unwrap().contains("hybrid"));
}

#[test]
fn the_smallest_buffer_is_looked_for() {
    let runs = tempfile::tempdir().unwrap();
    let search = ["--smallest-buffer", "--buffers", "1MB", "--strategies", "poll", "--no-compute"];
    let traffic = ["--bursts", "20KB", "--duration", "20ms"];
    let asked = [&["receive", "--target", "process"][..], &search, &traffic].concat();
    let (result, _) = measured(&asked, runs.path());
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert!(rows[0]["buffer_bytes"].as_u64().unwrap() <= 1_000_000, "{}", rows[0]);
    assert_eq!(result["plan"]["find_smallest_buffer"], true);
}

#[test]
fn what_belongs_to_another_target_or_is_none_is_refused_with_what_can_be() {
    let process = ["--target", "process"];
    for (arguments, said) in [
        (&["inject", "--strategy", "poll"][..], "--strategy is for --target process only"),
        (&["inject", "--path", "stack"], "--path is for --target process only"),
        (&["inject", "--ring-buffers", "64"], "--ring-buffers is for --target process only"),
        (&["receive", "--cpu-budget", "25%"], "--cpu-budget is for --target process only"),
        (&["receive", "--smallest-buffer"], "--smallest-buffer is for --target process only"),
        (&["receive", "--no-compute"], "--no-compute is for --target process only"),
        (&["inject", "--memory", "256", process[0], process[1]], "for --target kernel only"),
        (&["inject", "--mtu", "1500", process[0], process[1]], "--mtu is for --target kernel only"),
        (&["sweep", "--kernel-version", "6.1", process[0], process[1]], "for --target kernel only"),
        (&["receive", "--calibration", "1s", process[0], process[1]], "for --target kernel only"),
        (&["inject", "--driver", "r8169", process[0], process[1]], "there are: rtl8168"),
        (&["inject", "--driver", "./no-driver", process[0], process[1]], "must be an executable"),
        (&["inject", "--strategy", "wait", process[0], process[1]], "hybrid"),
        (
            &["inject", "--strategy", "poll", "--poll-time", "5us", process[0], process[1]],
            "no poll time",
        ),
        (&["receive", "--strategies", "busy-poll", process[0], process[1]], "hybrid"),
        (&["receive", "--strategy", "poll", process[0], process[1]], "give --strategies"),
        (&["inject", "--path", "tunnel", process[0], process[1]], "application"),
    ] {
        let output = run(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(said), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    }
}

#[test]
fn a_part_that_nobody_started_says_so() {
    for part in [&["part", "driver", "rtl8168"][..], &["part", "stack"], &["part", "application"]] {
        let output = run(part);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(part[1]), "{part:?}: {message}");
        assert!(!message.contains("panicked"), "{part:?}: {message}");
    }
}

#[test]
fn a_strict_card_says_that_a_driver_is_in_order_and_other_experiments_refuse_the_flag() {
    for strict in ["--strict", "--strict=warn", "--strict=fail"] {
        let runs = tempfile::tempdir().unwrap();
        let asked = ["inject", "--target", "process", "--count", "300", strict];
        let (result, directory) = measured(&asked, runs.path());
        assert_eq!(result["figures"]["strict_steps"], 0, "{result}");
        let plan = std::fs::read_to_string(directory.join("plan.toml")).unwrap();
        let kept = if strict.ends_with("fail") { "strict = \"fail\"" } else { "strict = \"warn\"" };
        assert!(plan.contains(kept), "{plan}");
    }
    for experiment in ["record", "sweep"] {
        let output = run(&[experiment, "--target", "process", "--strict"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("--strict"), "{said}");
    }
}

#[test]
fn a_strict_card_looks_on_while_drivers_receive_and_send_and_are_replaced() {
    let replaces = ["--way", "reload,shared-state", "--load", "idle,heavy", "--trials", "1"];
    let replaces = [&["replace", "--trial", "50ms", "--interval", "200us"], &replaces[..]].concat();
    let receives = ["receive", "--target", "process", "--strategies", "interrupt"];
    let receives = [&receives[..], &["--buffers", "7MB", "--duration", "50ms"]].concat();
    let sends = vec!["transmit", "--sizes", "64", "--repeat", "1", "--count", "200"];
    for asked in [replaces, receives, sends] {
        let runs = tempfile::tempdir().unwrap();
        let (result, _) = measured(&[&asked[..], &["--strict=fail"]].concat(), runs.path());
        assert_eq!(result["figures"]["strict_steps"], 0, "{asked:?}: {result}");
    }
}

#[test]
fn a_strict_card_and_a_debug_kernel_are_refused_where_they_do_not_apply() {
    for (flags, says) in [
        (&["receive", "--target", "process", "--virtual", "--strict"][..], "real time"),
        (&["transmit", "--virtual", "--strict"], "real time"),
        (&["transmit", "--both", "--strict=fail"], "real time"),
        (&["inject", "--target", "process", "--debug"], "--debug is for --target kernel only"),
        (&["at", "rtl_rx", "--debug"], "takes such a kernel in any case"),
        (&["inject", "--debug", "--kernel", "x"], "cannot be used with"),
    ] {
        let output = run(flags);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{flags:?}: {said}");
    }
}
