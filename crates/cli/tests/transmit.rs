//! `warikomi transmit` as a user meets it: in virtual time one seed is one result, rows have all that was asked
//! for, and what cannot be is refused with what can.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::stopped_after;
use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs what must succeed; returns its result and the directory that it kept.
fn measured(arguments: &[&str], runs: &Path) -> (Value, PathBuf) {
    let kept = ["--json", "--runs", runs.to_str().unwrap()];
    let output = run(&[&["transmit"], arguments, &kept].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = serde_json::from_slice(&output.stdout).unwrap();
    let directory = std::fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    (result, directory)
}

fn row<'a>(result: &'a Value, bytes: u64, way: [&str; 3]) -> &'a Value {
    let rows = result["rows"].as_array().unwrap();
    let same = |row: &&Value| {
        row["size_bytes"] == bytes
            && [&row["buffers"], &row["completion"], &row["bounce"]]
                .iter()
                .zip(way)
                .all(|(a, b)| *a == b)
    };
    rows.iter().find(same).unwrap_or_else(|| panic!("no row of {bytes}, {way:?}"))
}

const VIRTUAL: [&str; 11] = [
    "--virtual",
    "--costs",
    "fitted-bsd-2004",
    "--bus",
    "fitted-2004",
    "--sizes",
    "64,16384,65507",
    "--separate",
    "--count",
    "2000",
    "--all-pairs",
];

#[test]
fn one_seed_is_one_result_in_virtual_time_and_it_has_the_published_shape() {
    let (first, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (result, directory) = measured(&VIRTUAL, first.path());
    assert_eq!(measured(&VIRTUAL, again.path()).0, result, "same seed, same result");
    assert_eq!(
        (&result["experiment"], &result["time_base"]),
        (&"transmit".into(), &"virtual".into())
    );
    // Two kinds of mbufs in 20 ways and by a dummy driver, contiguous buffers in four and by one; of each size.
    assert_eq!(result["rows"].as_array().unwrap().len(), 3 * (2 * 21 + 5));
    let bps = |bytes, way| row(&result, bytes, way)["bps"].as_f64().unwrap();
    let [interrupt, adaptive] =
        ["interrupt", "adaptive"].map(|completion| bps(64, ["mbuf-2k", completion, "none"]));
    assert!(adaptive > 1.1 * interrupt, "{adaptive} against {interrupt}");
    let [small, large, contiguous] = ["mbuf-2k", "mbuf-4k", "contiguous"]
        .map(|buffers| bps(65_507, [buffers, "adaptive", "none"]));
    assert!(small < large && large < contiguous, "{small} {large} {contiguous}");
    let locked = row(&result, 65_507, ["contiguous", "interrupt-free", "none"]);
    assert_eq!((&locked["dead_locked"], locked.get("bps")), (&true.into(), None));
    let all = row(&result, 65_507, ["mbuf-2k", "adaptive", "all"]);
    assert_eq!(all["transfers_per_packet"], 1.0);
    assert!(row(&result, 65_507, ["mbuf-2k", "adaptive", "none"])["published_bps"] == 1.9e9);
    let shares = result["figures"]["shares"].as_array().unwrap();
    assert_eq!(shares.len(), 2 * 3);
    assert_eq!(
        result["figures"]["fitted"],
        serde_json::json!(["bus fitted-2004", "costs fitted-bsd-2004"])
    );
    let titles = result["columns"].as_array().unwrap().iter();
    let titles: Vec<_> = titles.filter(|column| column["parameter"] != true).collect();
    let said = |column: &&&Value| column["title"].as_str().unwrap().ends_with(", fitted");
    assert_eq!(titles.iter().filter(said).count(), titles.len() - 1, "all but what was published");
    let kept: Value =
        serde_json::from_str(&std::fs::read_to_string(directory.join("result.json")).unwrap())
            .unwrap();
    assert_eq!(kept, result);
    let repetitions = std::fs::read_to_string(directory.join("repetitions.csv")).unwrap();
    assert_eq!(repetitions.lines().count(), 1 + result["rows"].as_array().unwrap().len());
    let page = first.path().join("report.html");
    let plots = first.path().join("plots");
    let [directory, output, plots_to] =
        [&directory, &page, &plots].map(|path| path.to_str().unwrap());
    let report = run(&["report", directory, "--output", output, "--plots", plots_to]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    for name in ["throughput", "completion", "ways-mbuf-2k", "bounce-mbuf-4k", "shares"] {
        for ending in ["svg", "csv"] {
            assert!(plots.join(format!("transmit-{name}.{ending}")).exists(), "{name}.{ending}");
        }
    }
}

#[test]
fn a_run_that_was_stopped_goes_on_and_is_as_one_that_was_not() {
    let asked = ["--virtual", "--systems", "mbuf-2k", "--sizes", "64,1472", "--duration", "200ms"];
    let (stopped, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A pilot, and the first run that is measured.
    let run_directory = stopped_after(2, &[&["transmit"][..], &asked].concat(), stopped.path());
    let directory = run_directory.to_str().unwrap();
    let resumed = run(&["transmit", "--json", "--resume", directory]);
    let message = String::from_utf8_lossy(&resumed.stderr);
    assert!(resumed.status.success() && message.contains("going on after"), "{message}");
    let result: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!(result, measured(&asked, whole.path()).0);
    let kept = ["plan.toml", "repetitions.csv", "result.json", "steps.jsonl"];
    let kept = kept.map(|name| run_directory.join(name).exists());
    assert_eq!(kept, [true, true, true, false]);
}

#[test]
fn tcp_with_and_without_tso_is_one_result_in_virtual_time_and_is_drawn() {
    const ASKED: [&str; 13] = [
        "--virtual",
        "--cards",
        "ge10",
        "--mtu",
        "1500",
        "--senders",
        "tcp",
        "--sizes",
        "64,65507",
        "--completions",
        "interrupt",
        "--count",
        "300",
    ];
    let (first, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (result, directory) = measured(&ASKED, first.path());
    assert_eq!(measured(&ASKED, again.path()).0, result, "same seed, same result");
    let rows = result["rows"].as_array().unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (&row["size_bytes"], &row["tso"], &row["transfers_per_packet"]))
        .map(|(size, tso, transfers)| (size.as_u64(), tso.as_bool(), transfers.as_f64()))
        .collect();
    let due = [(64, false, 1.0), (64, true, 1.0), (65_507, false, 45.0), (65_507, true, 2.0)];
    assert_eq!(found, due.map(|(size, tso, n)| (Some(size), Some(tso), Some(n))));
    let [off, on] = [&rows[2], &rows[3]].map(|row| row["busy_ns_per_byte"].as_f64().unwrap());
    assert!(on < off, "{on} ns with TSO, {off} without");
    let plots = first.path().join("plots");
    let [directory, plots_to] = [&directory, &plots].map(|path| path.to_str().unwrap());
    let report = run(&["report", directory, "--plots", plots_to]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let page = String::from_utf8_lossy(&report.stdout);
    let html = std::fs::read_to_string(page.trim()).unwrap();
    assert!(html.contains("TSO") && html.contains("segments"), "{html}");
    for name in ["segmentation", "segmentation-transfers", "segmentation-busy"] {
        assert!(plots.join(format!("transmit-{name}.svg")).exists(), "{name}");
    }
}

#[test]
fn a_process_sends_and_the_table_ends_with_advice() {
    let runs = tempfile::tempdir().unwrap();
    let output = run(&[
        "transmit",
        "--sizes",
        "64,4KB",
        "--mixture",
        "64x10,1472x5",
        "--systems",
        "mbuf-2k",
        "--completions",
        "interrupt,adaptive:10%,30%",
        "--bounces",
        "none,auto",
        "--count",
        "500",
        "--repeat",
        "1",
        "--runs",
        runs.path().to_str().unwrap(),
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in
        ["oc48 on oc48 (process target)", "4,000", "64x10,1472x5", "advice: with mbuf-2k use"]
    {
        assert!(words.contains(expected), "{expected} is not in:\n{text}");
    }
    let directory = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let plan = std::fs::read_to_string(directory.join("plan.toml")).unwrap();
    assert!(plan.contains("adaptive:10%,30%") && plan.contains("count = 500"), "{plan}");
}

#[test]
fn a_mixed_load_ends_with_a_verdict_that_follows_from_its_rows() {
    let runs = tempfile::tempdir().unwrap();
    let systems = ["--systems", "mbuf-2k,contiguous", "--bounces", "none,all"];
    let (result, directory) = measured(
        &[&["--virtual", "--mixed", "--duration", "5ms"], &systems[..]].concat(),
        runs.path(),
    );
    let rows = result["rows"].as_array().unwrap();
    // Six phases and the whole: four fixed choices or two, and three that adapt themselves.
    assert_eq!(rows.len(), 7 * (4 + 3) + 7 * (2 + 3));
    let verdicts = result["figures"]["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 2);
    for verdict in verdicts {
        let ours = rows.iter().filter(|row| {
            row["buffers"] == verdict["buffers"] && row["completion"] == "adaptive-watching"
        });
        let regret = |row: &Value| row["regret_share"].as_f64().unwrap();
        let (whole, phases): (Vec<_>, Vec<_>) = ours.partition(|row| row["phase"] == "all");
        let most = phases.iter().map(|row| regret(row)).fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(verdict["regret_most_share"].as_f64(), Some(most));
        assert_eq!(verdict["ahead_share"].as_f64(), Some(-regret(whole[0])));
        assert_eq!(verdict["holds"], most <= 0.05 && regret(whole[0]) < 0.0, "{verdict}");
        assert!(most <= 0.05, "{verdict}");
        assert!(phases.iter().all(|row| row["received_pps"].as_f64().unwrap() > 40_000.0));
    }
    let page = directory.join("page.html");
    let report = run(&["report", directory.to_str().unwrap(), "--output", page.to_str().unwrap()]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    for expected in ["with mbuf-2k, adaptive-watching is at most", "4096/compute=30us"] {
        assert!(page.contains(expected), "{expected} is not on the page");
    }
}

#[test]
fn a_process_carries_a_mixed_load_out_while_frames_come() {
    let runs = tempfile::tempdir().unwrap();
    let (result, _) = measured(
        &[
            "--mixed",
            "--phase",
            "64",
            "--phase",
            "random:64,9000/compute=20us",
            "--systems",
            "mbuf-2k",
            "--bounces",
            "none",
            "--completions",
            "interrupt,adaptive",
            "--duration",
            "100ms",
            "--repeat",
            "1",
            "--receive-interval",
            "100us",
        ],
        runs.path(),
    );
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 3);
    for row in rows.iter().filter(|row| row["phase"] != "all") {
        assert!(row["pps"].as_f64().unwrap() > 0.0 && row["held_p50_us"].is_number(), "{row}");
        let received = row["received_pps"].as_f64().unwrap();
        assert!(received > 0.0 || row["receive_missing"].as_u64().unwrap() > 0, "{row}");
    }
    assert_eq!(result["figures"]["verdicts"].as_array().unwrap().len(), 1);
}

fn refused(cases: &[(&[&str], &str)]) {
    for (arguments, said) in cases {
        let output = run(&[&["transmit", "--runs", "/nonexistent"], *arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn a_mixed_load_that_cannot_be_is_refused_with_what_can() {
    refused(&[
        (&["--phase", "64"][..], "--mixed"),
        (&["--receive-interval", "5us"], "--mixed"),
        (&["--mixed", "--receive-interval", "1ns"], "or none"),
        (&["--mixed", "--phase", "64/5us"], "4096/compute=30us"),
        (&["--mixed", "--phase", "15"], "16 to 65507"),
        (&["--mixed", "--sizes", "64"], "--sizes does not go with --mixed"),
        (&["--mixed", "--rate", "1G"], "--rate does not go with --mixed"),
        (&["--mixed", "--count", "10"], "--count does not go with --mixed"),
        (&["--mixed", "--both"], "--both does not go with --mixed"),
        (&["--mixed", "--separate"], "--separate does not go with --mixed"),
        (&["--mixed", "--cards", "oc48,ge10"], "--cards does not go with --mixed"),
        (&["--mixed", "--completions", "adaptive"], "--completions with interrupt"),
        (&["--mixed", "--bounces", "auto"], "--bounces with none"),
        (&["--mixed", "--repeat", "64"], "1 to 64 of them"),
        (&["--target", "kernel", "--mixed"], "--mixed"),
    ]);
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    refused(&[
        (&["--sizes", "15"][..], "16 to 65507"),
        (&["--sizes", "65508"], "16 to 65507"),
        (&["--sizes", "64", "--mtu", "40"], "68 to 65535"),
        (&["--cards", "oc48,ge10", "--mtu", "20000"], "68 to 16114"),
        (&["--cards", "oc48,oc48"], "oc48 twice"),
        (&["--cards", "oc48,ne2000"], "rtl8168, oc48, oc192, ge10"),
        (&["--cards", "ge10", "--model", "ge10"], "leave --model out"),
        (&["--target", "kernel", "--cards", "ge10"], "--cards"),
        (&["--target", "kernel", "--alignment", "8"], "--alignment"),
        (&["--alignment", "3", "--bounces", "none"], "power of two"),
        (&["--alignment", "8"], "give other --bounces"),
        (&["--checksum", "some"], "possible values: on, off"),
        (&["--target", "kernel", "--checksum", "off"], "--checksum"),
        (&["--mixed", "--senders", "tcp"], "--senders does not go with --mixed"),
        (&["--mixture", "64"], "SIZExCOUNT"),
        (&["--mixture", "64x100,128x1"], "64 are possible"),
        (&["--systems", "mbuf:0"], "512 to 65536"),
        (&["--systems", "mbuf:3000"], "power of two"),
        (&["--systems", ""], "mbuf-2k"),
        (&["--completions", "adaptive:50%,25%"], "the first below the second"),
        (&["--completions", "adaptive:0%,25%"], "above 0%"),
        (&["--completions", "poll"], "interrupt-free"),
        (&["--bounces", "65"], "1 to 64"),
        (&["--send-buffer", "4KB"], "at least the longest message"),
        (&["--send-buffer", "4GB"], "MB of 1,000,000"),
        (&["--bus", "isa"], "pci-64-66"),
        (&["--bus", "pci-64-66,burst=1"], "8 to 1,048,576"),
        (&["--line-rate", "5"], "line rate"),
        (&["--interval", "2s"], "1 s"),
        (&["--interval", "1us", "--rate", "1G"], "cannot be used with"),
        (&["--duration", "1us"], "1 ms"),
        (&["--count", "0"], "1..=1000000000"),
        (&["--repeat", "0"], "1..=100"),
        (&["--costs", "fitted-bsd-2004"], "--virtual or --both"),
        (&["--virtual", "--costs", "no-such"], "fitted-bsd-2004"),
        (&["--virtual", "--both"], "cannot be used with"),
        (&["--model", "ne2000"], "oc48"),
        (&["--driver", "e1000"], "rtl8168"),
        (&["--strategy", "poll"], "this experiment sends"),
        (&["--memory", "128"], "--target kernel"),
        (&["--senders", "pktgen"], "Leave pktgen out"),
        (&["--senders", "udp,tcp"], "one of udp and tcp"),
        (&["--tso", "on"], "add --senders tcp"),
        (&["--senders", "tcp"], "ge10 and rtl8168 do"),
        (&["--senders", "tcp", "--tso", "off", "--systems", "mbuf-2k"], "contiguous buffers only"),
        (&["--senders", "tcp", "--tso", "off", "--checksum", "off"], "TCP always has one"),
        (&["--senders", "tcp", "--tso", "off", "--separate"], "TCP has no dummy"),
        (&["--senders", "tcp", "--cards", "ge10", "--bounces", "all"], "give --bounces none"),
        (&["--senders", "tcp", "--cards", "ge10", "--alignment", "8"], "no --alignment"),
        (&["--senders", "tcp", "--cards", "rtl8168"], "an --mtu of 2087 bytes or less"),
    ]);
}
