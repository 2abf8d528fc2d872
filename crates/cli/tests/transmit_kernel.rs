//! `warikomi transmit --target kernel` as a user meets it: rows with all that was asked for, a report that
//! draws them, and what cannot be is refused before a kernel is started.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn each_sender_has_its_rows_and_a_report_draws_them() {
    let runs = tempfile::tempdir().unwrap();
    let asked = "transmit --target kernel --sizes 64,4096 --bursts 16 --interrupts napi --count 2000 \
                 --repeat 1 --json --runs";
    let mut asked: Vec<&str> = asked.split_whitespace().collect();
    asked.push(runs.path().to_str().unwrap());
    let output = run(&asked);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&result["experiment"], &result["plan"]["target"]),
        (&"transmit".into(), &"kernel".into())
    );
    let rows = result["rows"].as_array().unwrap();
    // pktgen sends no 4,096 bytes; TCP with segmentation offload and without.
    assert_eq!(rows.len(), 1 + 2 + 4, "{rows:?}");
    for row in rows {
        assert_eq!((&row["buffers"], &row["completion"]), (&"skb".into(), &"napi".into()), "{row}");
        let (bps, pps) = (row["bps"].as_f64().unwrap(), row["pps"].as_f64().unwrap());
        let size = row["size_bytes"].as_f64().unwrap();
        assert!(pps > 0.0 && (bps / (8.0 * size * pps) - 1.0).abs() < 1e-9, "{row}");
        assert!(row["messages"].as_u64().unwrap() >= 2_000, "{row}");
    }
    let directory = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let plots = runs.path().join("plots");
    let report = run(&["report", directory.to_str().unwrap(), "--plots", plots.to_str().unwrap()]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    for sender in ["pktgen", "udp", "tcp"] {
        assert!(plots.join(format!("transmit-kernel-{sender}.svg")).exists(), "{sender}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (asked, said) in [
        ("--target kernel --senders raw", "pktgen, udp, tcp"),
        ("--target kernel --bursts 0", "1..=256"),
        ("--target kernel --interrupts coalesce:0us/4", "coalesce:100us/32"),
        ("--target kernel --tso maybe", "neither on nor off"),
        ("--target kernel --both", "--both is for --target process only"),
        ("--target kernel --costs fitted-bsd-2004", "--virtual or --both"),
        ("--target kernel --virtual --costs no-such", "`warikomi calibrate` prints such a file"),
        ("--virtual --byte-cost 1ns", "--byte-cost is for --target kernel only"),
        ("--target kernel --duration 1s", "--duration is for --target process only"),
        ("--bursts 8", "--bursts is for --target kernel only"),
        ("--target process --tso on", "add --senders tcp"),
    ] {
        let arguments: Vec<&str> = ["transmit"].into_iter().chain(asked.split(' ')).collect();
        let output = run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{asked}: {error}");
    }
}
