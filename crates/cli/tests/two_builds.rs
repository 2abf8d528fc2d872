//! One seed is one history, whichever build of Warikomi makes it: a release, and one with every check of a debug build.
//!
//! The other build is `WARIKOMI_OTHER_BUILD`; scripts/test says which.

use std::process::{Command, Stdio};

use serde_json::Value;
use warikomi_kernel::{Cache, Image, Wanted};
use warikomi_testbench::LOOKS_ONCE;

/// The kernel whose time can be virtual: that of the tests of virtual time, which has a driver of theirs beside.
fn kernel() -> Image {
    let version = Some("6.1");
    let own_module = Some(LOOKS_ONCE);
    let wanted = Wanted { version, virtual_time: true, own_module, ..Wanted::default() };
    let found = Cache::of_this_user().unwrap().find(&wanted);
    found.unwrap_or_else(|error| panic!("the tests of virtual time make this kernel: {error}"))
}

/// What a run of this build printed with `--json`.
fn result_of(program: &str, arguments: &[&str]) -> Value {
    let runs = tempfile::tempdir().unwrap();
    let kept = ["--json", "--runs", runs.path().to_str().unwrap()];
    let mut command = Command::new(program);
    let output = command.args(arguments).args(kept).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What both builds make of it.
fn both(arguments: &[&str]) -> [Value; 2] {
    let other = std::env::var("WARIKOMI_OTHER_BUILD")
        .expect("WARIKOMI_OTHER_BUILD is the command as another profile builds it");
    [env!("CARGO_BIN_EXE_warikomi"), &other].map(|program| result_of(program, arguments))
}

#[test]
#[ignore = "needs a second build of the command, which scripts/test names"]
fn a_kernel_in_virtual_time_has_the_same_digest_in_another_build() {
    let kernel = kernel().kernel();
    for seed in ["7", "8"] {
        let [release, other] = both(&[
            "inject",
            "--virtual",
            "--kernel",
            kernel.to_str().unwrap(),
            "--arrival",
            "poisson",
            "--interval",
            "20us",
            "--count",
            "500",
            "--wire",
            "responder",
            "--access-cost",
            "250ns",
            "--frame-cost",
            "1us",
            "--seed",
            seed,
        ]);
        let digest = release["figures"]["digest"].as_str().unwrap();
        assert_eq!(other["figures"]["digest"], *digest, "seed {seed}");
        for part in ["ledger", "intervals", "interrupts"] {
            assert!(release[part].is_object(), "{part}");
            assert_eq!(other[part], release[part], "seed {seed}: {part}");
        }
    }
}

#[test]
#[ignore = "needs a second build of the command, which scripts/test names"]
fn driver_processes_in_virtual_time_have_the_same_histories_in_another_build() {
    let [release, other] = both(&["histories", "--faults", "--count", "500", "--seed", "40000"]);
    assert!(release["rows"][0]["digest"].is_string());
    assert_eq!(other["rows"], release["rows"]);
    let traffic = ["--polls", "100", "--bursts", "20KB", "--buffers", "7MB", "--duration", "20ms"];
    let receive = ["receive", "--target", "process", "--virtual", "--poisson"];
    let [release, other] = both(&[&receive[..], &traffic].concat());
    assert!(release["rows"][0]["digest"].is_string());
    assert_eq!(other["rows"], release["rows"]);
}
