//! Experiments of the command on a guest of QEMU, which drives an RTL8168 with `r8169` and is asked for nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use warikomi_protocol::commands::PingAgent;
use warikomi_target::Target;

use super::Running;
use super::guest::{Card, Guest, Machine, PATIENCE};

const MODEL: &str = "rtl8168";
const MODULES: [&str; 2] = ["realtek", "r8169"];
/// As many as the ring of `r8169` holds: a guest that does not run for long drops the others.
const RING: u64 = 256;
/// A guest that is translated keeps up with packets so far apart.
const INTERVAL: &str = "5ms";

/// An experiment that has ended.
struct Experiment {
    guest: Guest,
    /// Packets that the guest's kernel has counted.
    counted: u64,
    result: Value,
    _directory: TempDir,
}

impl Experiment {
    /// Makes it, with a guest that has just booted.
    fn make(machine: &Machine, arguments: &[&str]) -> Experiment {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("card");
        let runs = directory.path().join("runs");
        let target = ["--target", "vm", "--model", MODEL, "--driver", "r8169"];
        let kept = ["--json", "--runs", runs.to_str().unwrap()];
        let mut running = Running::start(&[arguments, &target, &kept].concat(), &socket);
        let mut guest = machine.boot(Card::Ours(&socket), &MODULES, "");
        guest.bring_up(&MODULES);
        let begun = Instant::now();
        let mut counted = 0;
        while running.is_running() {
            assert!(begun.elapsed() < 5 * PATIENCE, "it does not end: {}", guest.console());
            counted = guest.counted().interface["rx_packets"].max(counted);
            std::thread::sleep(Duration::from_millis(100));
        }
        let result = serde_json::from_str(&running.ended()).unwrap();
        counted = guest.counted().interface["rx_packets"].max(counted);
        Experiment { guest, counted, result, _directory: directory }
    }

    /// All of these packets were injected, and what became of each is known.
    fn check_injected(&self, count: u64) {
        let of = |column: &str| self.of_ledger(column);
        assert_eq!((of("injected"), of("unaccounted")), (count, 0), "{}", self.result["ledger"]);
    }

    fn of_ledger(&self, column: &str) -> u64 {
        self.result["ledger"][column].as_u64().unwrap()
    }
}

#[test]
#[ignore = "boots a guest of QEMU; scripts/test-long"]
fn every_packet_for_a_guest_of_qemu_is_accounted_for_and_its_kernel_counts_as_many() {
    const COUNT: u64 = 1_000;
    let Some(machine) = Machine::find() else { return };
    let count = COUNT.to_string();
    let plan = ["inject", "--count", &count, "--interval", INTERVAL, "--warmup", "0"];
    let mut made = Experiment::make(&machine, &plan);
    let ledger = &made.result["ledger"];
    let of = |column: &str| made.of_ledger(column);
    made.check_injected(COUNT);
    assert_eq!(of("accepted") + of("no_descriptor"), COUNT, "{ledger}");
    assert!(of("accepted") >= RING, "{ledger}");
    // The guest keeps its own count, and does without its card.
    assert_eq!(made.counted, of("accepted"), "{ledger}");
    made.guest.ask(PingAgent {});
}

/// The trace of a run with this plan and one of our own drivers, made in this directory.
fn recorded(directory: &Path, plan: &[&str]) -> PathBuf {
    let mut record = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    record.args(["record", "--target", "process", "--driver", MODEL]).args(plan);
    record.arg("--runs").arg(directory);
    let output = record.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = fs::read_dir(directory).unwrap().next().unwrap().unwrap();
    run.path().join("trace.wkt")
}

/// What every one of these experiments says of a guest that is asked for nothing.
fn check(made: &Experiment, name: &str) {
    let result = &made.result;
    assert_eq!(result["experiment"], name);
    assert_eq!(result["target"]["kind"], "vm", "{name}");
    let unknown = result["target"]["settings"]["not_known"].as_array().unwrap();
    assert!(
        unknown.iter().any(|what| what == "what an application received"),
        "{name}: {unknown:?}"
    );
}

#[test]
#[ignore = "boots a guest of QEMU for each experiment; scripts/test-long"]
fn each_experiment_for_a_vm_has_a_result_of_a_guest_of_qemu() {
    const COUNT: u64 = 200;
    let Some(machine) = Machine::find() else { return };
    let count = COUNT.to_string();
    let plan = ["--interval", INTERVAL, "--count", &count];
    let all_there = |made: &Experiment| {
        let ledger = &made.result["ledger"];
        let of = |column: &str| made.of_ledger(column);
        made.check_injected(COUNT);
        assert_eq!(of("accepted") + of("no_descriptor") + of("not_completed"), COUNT, "{ledger}");
        assert!(of("accepted") > 0, "{ledger}");
    };

    let accuracy = [&["accuracy", "--repeat", "1", "--no-smallest"][..], &plan].concat();
    let made = Experiment::make(&machine, &accuracy);
    check(&made, "accuracy");
    all_there(&made);
    let errors = made.result["figures"]["errors"].as_array().unwrap();
    let handled: u64 = errors.iter().map(|error| error["handler"].as_u64().unwrap()).sum();
    assert!(handled > 0, "{errors:?}");

    let sweep = ["sweep", "--sizes", "64,1500", "--count", &count, "--repeat", "1"];
    let made = Experiment::make(&machine, &sweep);
    check(&made, "sweep");
    let rows = made.result["rows"].as_array().unwrap();
    for size in [64, 1_500] {
        assert!(rows.iter().any(|row| row["size_bytes"] == size), "{rows:?}");
    }

    let directory = tempfile::tempdir().unwrap();
    let trace = recorded(directory.path(), &plan);
    let made = Experiment::make(&machine, &["replay", trace.to_str().unwrap()]);
    check(&made, "replay");
    all_there(&made);

    let fault = ["--strict=warn", "--fault", "interrupt-delayed:at=100ms,by=1ms"];
    let made = Experiment::make(&machine, &[&["inject"][..], &plan, &fault].concat());
    check(&made, "inject");
    all_there(&made);
    let finding = &made.result["faults"]["findings"][0];
    assert_eq!(
        (&finding["injected"], &finding["verdict"]),
        (&1.into(), &"recovered".into()),
        "{finding}"
    );
}
