//! Runs that are stopped while they are under way.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Begins an experiment and stops it as Ctrl-C does, after this number of steps. Returns the
/// directory of its run.
pub(crate) fn stopped_after(steps: usize, arguments: &[&str], runs: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).arg("--runs").arg(runs);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let run = wait_for_steps(runs, steps);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let stopped = child.wait_with_output().unwrap();
    let message = String::from_utf8(stopped.stderr).unwrap();
    assert_eq!(stopped.status.code(), Some(130), "{message}");
    let how = format!("go on with: warikomi {} --resume {}", arguments[0], run.display());
    assert!(message.contains(&how), "{message}");
    assert!(!run.join("result.json").exists());
    run
}

/// The directory of the only run, once it has made this number of steps.
fn wait_for_steps(runs: &Path, count: usize) -> PathBuf {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "no steps after a minute");
        let run = std::fs::read_dir(runs).ok().and_then(|mut runs| runs.next()?.ok());
        if let Some(run) = run.map(|entry| entry.path()) {
            let steps = std::fs::read_to_string(run.join("steps.jsonl")).unwrap_or_default();
            if steps.lines().count() >= count {
                return run;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
