//! The command as a user meets it: what it prints, how it ends, what it leaves behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn warikomi(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    warikomi(arguments).output().unwrap()
}

/// Runs what must fail, and returns its message.
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!message.contains("panicked at"), "{message}");
    message
}

#[test]
fn each_bad_plan_gets_a_sentence_that_says_what_is_possible() {
    for (arguments, expected) in [
        (&["--size", "59"][..], "60 to 16379"),
        (&["--size", "16380"], "60 to 16379"),
        (&["--size", "big"], "bytes"),
        (&["--interval", "-1us"], "negative"),
        (&["--interval", "38"], "no unit"),
        (&["--interval", "soon"], "not a time"),
        (&["--count", "0"], "choose 1 to"),
        (&["--packets-per-interrupt", "0"], "1 (an interrupt for every packet)"),
        (&["--arrival", "poisson", "--interval", "0"], "mean"),
        (&["--line-rate", "1Q"], "line rate"),
        (&["--fault", "lightning:at=1ms"], "interrupt-dropped"),
        (&["--fault", "dma-error"], "probability=0.01"),
        (&["--fault", "link-flap:at=soon"], "not a time"),
    ] {
        let message = refused(&[&["inject"], arguments].concat());
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn an_unknown_driver_model_or_kernel_names_the_choices() {
    assert!(refused(&["inject", "--driver", "e1001"]).contains("r8169"));
    assert!(refused(&["inject", "--model", "rtl9999"]).contains("rtl8168"));
    let message = refused(&["inject", "--driver", "8139cp", "--model", "rtl8168"]);
    assert!(message.contains("--driver r8169"), "{message}");
    let message = refused(&["inject", "--kernel", "/bin/true"]);
    assert!(message.contains("/bin/true"), "{message}");
    let message = refused(&["inject", "--kernel-version", "2.4"]);
    assert!(message.contains("warikomi kernel build"), "{message}");
}

#[test]
fn a_flag_that_a_target_cannot_use_is_refused_with_the_reason() {
    for (command, flag, because) in [
        ("receive --target process --virtual --driver ./mine", "--driver", "is one of ours"),
        ("receive --target process --virtual --path stack", "--path", "a driver of ours"),
        ("receive --target process --virtual --model oc48", "--model", "a driver of ours"),
        ("receive --target process --virtual --mtu 1500", "--mtu", "kernel"),
        ("receive --target kernel --stall 100ms:every=1s", "--stall", "process"),
        ("receive --target kernel --whole-messages", "--whole-messages", "process"),
        ("receive --target process --claim cpu-halved", "--virtual", "is declared"),
        ("receive --target process --strategies poll --polls 100", "--polls", "poll for a time"),
        ("receive --target process --strategies poll --real-time", "real-time", "never sleeps"),
        ("receive --target process --whole-messages", "--driver oc48", "50000 bytes"),
        ("live --target kernel", "--target kernel", "a process of its own"),
        ("inject --through route --target process", "--through", "a kernel of ours"),
        ("inject --through route --target vm", "--through", "a kernel of ours"),
        ("inject --through route --virtual", "--virtual", "real time"),
        ("inject --through route --receiver driver", "--receiver", "leave it"),
        ("inject --through route --socket-buffer 9000", "--socket-buffer", "none"),
        ("inject --target process --path driver --socket-buffer 9000", "--socket-buffer", "none"),
        ("sweep --receiver driver --socket-buffer 9000", "--socket-buffer", "none"),
        ("round-trip --virtual --cpu-budget 10%", "--cpu-budget", "is for auto"),
        (
            "inject --through route --fault device-unplugged:at=1ms,for=1ms",
            "--through",
            "interface",
        ),
        ("inject --through route --second-driver e1001", "e1001", "NIC model"),
        ("record --through bridge", "--through", "of one card"),
        ("transmit --target kernel --seed 7", "--seed", "in virtual time only"),
        ("bench --only transmit --driver r8169", "--driver", "drivers of its own"),
        ("bench --only comparison --target process", "--target", "drivers of its own"),
        ("bench --only memory --driver r8169", "--driver", "about memory alone"),
        ("bench --only memory --qemu-kernel /", "--qemu-kernel", "only --only qemu"),
        ("bench --only transmit --ring-buffers 8", "--ring-buffers", "drivers of its own"),
    ] {
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let message = refused(&arguments);
        assert!(message.contains(flag) && message.contains(because), "{command}: {message}");
    }
}

#[test]
fn a_busy_socket_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nic");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let message = refused(&["inject", "--count", "1", "--socket", socket.to_str().unwrap()]);
    assert!(message.contains("in use by another process"), "{message}");
    assert!(socket.exists(), "and it is not ours to remove");
}

#[test]
fn help_teaches_and_the_doctor_speaks_json() {
    let help = String::from_utf8(run(&["inject", "--help"]).stdout).unwrap();
    for word in ["38us", "--line-rate", "frame", "as fast as possible", "link-flap", "probability"]
    {
        assert!(help.to_lowercase().contains(word), "{word} is not in the help");
    }
    let findings: serde_json::Value =
        serde_json::from_slice(&run(&["doctor", "--json"]).stdout).unwrap();
    let subjects: Vec<_> =
        findings.as_array().unwrap().iter().map(|finding| finding["subject"].clone()).collect();
    for subject in ["cores", "stolen time", "clock", "kernels", "memory file system"] {
        assert!(subjects.contains(&subject.into()), "{subjects:?}");
    }
}

#[test]
fn a_run_prints_json_and_keeps_its_directory() {
    let runs = tempfile::tempdir().unwrap();
    let runs_path = runs.path().to_str().unwrap();
    let output = run(&["inject", "--count", "200", "--json", "--runs", runs_path]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["ledger"]["accepted"], 200);
    assert_eq!(result["ledger"]["unaccounted"], 0);
    assert_eq!(result["target"]["driver"], "r8169");
    let kept = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(kept.join("result.json")).unwrap()).unwrap();
    assert_eq!(written, result);
    let samples = std::fs::read_to_string(kept.join("samples.csv")).unwrap();
    assert_eq!(samples.lines().count(), 201);
    // The plan is enough to run it again.
    let plan = kept.join("plan.toml");
    let again = run(&["run", plan.to_str().unwrap(), "--json", "--runs", runs_path]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["plan"], result["plan"]);
}

#[test]
fn faults_are_in_the_plan_the_result_and_the_page() {
    let runs = tempfile::tempdir().unwrap();
    let runs_path = runs.path().to_str().unwrap();
    let common = ["inject", "--count", "300", "--interval", "50us", "--runs", runs_path];
    let fault =
        ["--fault", "descriptor-crc:probability=0.1", "--fault", "interrupt-spurious:at=2ms"];
    let page = run(&[&common[..], &fault].concat());
    assert!(page.status.success(), "{}", String::from_utf8_lossy(&page.stderr));
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("evidence:") && page.contains("refused by the driver"), "{page}");
    let kept = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let plan = std::fs::read_to_string(kept.join("plan.toml")).unwrap();
    assert!(plan.contains("descriptor-crc:probability=0.1"), "{plan}");
    // The plan is enough to have the same faults again.
    let plan = kept.join("plan.toml");
    let again = run(&["run", plan.to_str().unwrap(), "--json", "--runs", runs_path]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    let first = std::fs::read_to_string(kept.join("result.json")).unwrap();
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let hit = |result: &serde_json::Value| result["faults"]["findings"][0]["injected"].clone();
    assert!(hit(&first).as_u64() > Some(0));
    assert_eq!(hit(&again), hit(&first));
    assert_eq!(again["ledger"]["unaccounted"], 0);
}

#[test]
fn the_support_side_stays_within_64_mb_beyond_what_it_shares() {
    let runs = tempfile::tempdir().unwrap();
    let runs = runs.path().to_str().unwrap();
    // The largest run whose times are kept one by one.
    let mut child =
        warikomi(&["inject", "--count", "1000000", "--interval", "4us", "--runs", runs])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let mut largest_kb = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let kb = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
        };
        largest_kb = largest_kb.max(kb("RssAnon:") + kb("RssFile:"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(largest_kb > 0 && largest_kb <= 64 * 1024, "{largest_kb} KB");
}

/// A run that would take minutes, once its kernel is up.
fn long_run(runs: &Path) -> std::process::Child {
    let child = warikomi(&["inject", "--count", "10000000", "--runs", runs.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while kernels_of(child.id()).is_empty() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(!kernels_of(child.id()).is_empty(), "the kernel is up");
    child
}

/// Processes below this one whose command line is that of a target's kernel.
fn kernels_of(parent: u32) -> Vec<u32> {
    let directory = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(directory).unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .filter(|id: &u32| {
            std::fs::read(format!("/proc/{id}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("virtio_uml.device="))
        })
        .collect()
}

fn gone(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

/// The directory of a kernel in memory: it runs there.
fn memory_directory(kernel: u32) -> PathBuf {
    let directory = std::fs::read_link(format!("/proc/{kernel}/cwd")).unwrap();
    assert!(directory.starts_with("/dev/shm"), "{}", directory.display());
    directory
}

fn leaves_nothing_after(signal: Signal, wait: Duration) -> std::process::ExitStatus {
    let runs = tempfile::tempdir().unwrap();
    let mut child = long_run(runs.path());
    let kernels = kernels_of(child.id());
    let directory = memory_directory(kernels[0]);
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    let begun = Instant::now();
    let clean = || kernels.iter().all(|&id| gone(id)) && !directory.exists();
    while !clean() && begun.elapsed() < wait {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(clean(), "{signal}: processes {kernels:?} or {} are left", directory.display());
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0, "no half-made run is left");
    status
}

#[test]
fn ctrl_c_ends_everything_at_once() {
    let status = leaves_nothing_after(Signal::SIGINT, Duration::ZERO);
    assert_eq!(status.code(), Some(130));
}

#[test]
fn even_sigkill_leaves_no_process_and_no_file() {
    let status = leaves_nothing_after(Signal::SIGKILL, Duration::from_secs(5));
    assert!(!status.success());
}

/// Some of the subcommands.
const SUBCOMMANDS: [&str; 4] = ["inject", "transmit", "histories", "completions"];

#[test]
fn each_shell_is_told_of_every_subcommand_and_flag() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in SUBCOMMANDS.iter().chain(&["interval", "kernel-version"]) {
            assert!(script.contains(word), "{word} is not in the script for {shell}");
        }
    }
    assert!(refused(&["completions", "tcsh"]).contains("bash"));
    let script = run(&["completions", "bash"]).stdout;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("warikomi");
    std::fs::write(&file, script).unwrap();
    let asked = "source \"$1\" && COMP_WORDS=(warikomi inj) COMP_CWORD=1 && \
                 _warikomi warikomi inj warikomi && echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", asked, "bash"]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&bash.stdout), "inject\n", "{bash:?}");
}

#[test]
fn there_is_a_page_of_the_manual_for_each_subcommand() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("man").join("man1");
    let output = run(&["man", "--dir", dir.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let first = page("warikomi.1");
    for name in SUBCOMMANDS {
        assert!(first.contains(name), "{name} is not in the first page");
        assert!(page(&format!("warikomi-{name}.1")).contains(".SH OPTIONS"), "{name}");
    }
    assert!(page("warikomi-inject.1").contains("interval"));
    assert!(page("warikomi-kernel-build.1").contains("source"));
    let here = |dir: &Path| std::fs::read_to_string(dir.join("warikomi_here.3"));
    assert!(here(&dir.with_file_name("man3")).unwrap().contains("warikomi at here:"));
    assert!(here(&dir).is_err(), "man does not look into man1 for a page of section 3");
    let flat = directory.path().join("pages");
    assert!(run(&["man", "--dir", flat.to_str().unwrap()]).status.success());
    assert!(here(&flat).unwrap().contains("warikomi at here:"), "all pages are in one directory");
    // What only the command itself starts is not for users.
    let hidden = std::fs::read_dir(&dir).unwrap().flatten();
    let hidden = hidden.filter(|entry| entry.file_name().to_string_lossy().contains("part"));
    assert_eq!(hidden.count(), 0);
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(refused(&["man", "--dir", file.to_str().unwrap()]).contains("cannot make"));
}
