//! A service whose driver is replaced, as a user runs and asks it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A service takes a core for itself: one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// On a machine that is busy a driver may be late, so that it is called off or taken for dead.
const ATTEMPTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(20);

/// Ended with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Service {
    child: Running,
    control: PathBuf,
    directory: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Service {
    fn start() -> Service {
        Service::start_in(tempfile::tempdir().unwrap())
    }

    fn start_in(directory: tempfile::TempDir) -> Service {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let control = directory.path().join("control");
        let mut child = warikomi(&["live", "--for", "2min", "--control"])
            .arg(&control)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        assert!(first.contains("serving") && first.contains("control"), "{first:?}");
        Service { child: Running(child), control, directory, _one: one }
    }

    fn asked(&self, arguments: &[&str]) -> Output {
        let all = [&["live"], arguments, &["--control", self.control.to_str().unwrap()]].concat();
        warikomi(&all).output().unwrap()
    }

    /// Asks for what must succeed.
    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.asked(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.ask(&["status", "--json"])).unwrap()
    }

    /// Replaces the driver, however often it is called off because the machine is busy.
    fn replace(&self, driver: &str) -> String {
        for _ in 1..ATTEMPTS {
            let output = self.asked(&["replace", "--driver", driver]);
            if output.status.success() {
                return String::from_utf8(output.stdout).unwrap();
            }
        }
        self.ask(&["replace", "--driver", driver])
    }

    /// A program that is a driver, by its path.
    fn program(&self, name: &str, script: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if holds(&status) {
                return status;
            }
            assert!(Instant::now() < until, "not {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a hundred echoes more have come.
    fn goes_on(&self) -> Value {
        let before = count(&self.status(), "udp_back");
        self.wait_until("going on", |status| count(status, "udp_back") > before + 100)
    }

    /// How it ends.
    fn end(mut self) -> (bool, tempfile::TempDir) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                return (status.success(), self.directory);
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn warikomi(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn count(status: &Value, name: &str) -> u64 {
    let value = if name.contains("p_") { &status["echo"][name] } else { &status[name] };
    value.as_u64().unwrap_or_else(|| panic!("{name}: {status:#}"))
}

/// Nothing came back changed or twice, and the connection stayed.
fn is_sound(status: &Value) {
    for name in ["udp_wrong", "udp_repeated", "tcp_wrong_bytes", "tcp_lost"] {
        assert_eq!(count(status, name), 0, "{name}: {status:#}");
    }
    assert!(count(status, "tcp_back_bytes") > 0, "{status:#}");
}

fn lives(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn a_rolling_upgrade_of_a_running_echo_service() {
    let service = Service::start();
    let first = service.goes_on();
    assert_eq!((&first["driver"], count(&first, "generation")), (&Value::from("rtl8168"), 1));
    assert!(said(&service.asked(&["rollback"])).contains("nothing to go back to"));

    let old =
        format!("exec {} part driver rtl8168 --state-version 1", env!("CARGO_BIN_EXE_warikomi"));
    let old = service.program("old-version", &old);
    assert!(service.replace(&old).contains("µs"));
    let second = service.goes_on();
    assert_eq!((&second["driver"], &second["before"]), (&old.into(), &"rtl8168".into()));
    assert!(count(&second, "generation") > 1 && count(&second, "planned") >= 1);

    let broken = service.program("broken", "exit 3");
    let refused = service.asked(&["replace", "--driver", &broken]);
    assert!(
        !refused.status.success() && said(&refused).contains("rolled back"),
        "{}",
        said(&refused)
    );
    let third = service.goes_on();
    assert_eq!((&third["driver"], count(&third, "rolled_back") > 0), (&second["driver"], true));

    let back = (0..ATTEMPTS).any(|_| service.asked(&["rollback"]).status.success());
    let last = service.goes_on();
    assert_eq!((back, &last["driver"]), (true, &Value::from("rtl8168")));
    is_sound(&last);
    let metrics = service.ask(&["metrics"]);
    let planned = count(&last, "planned");
    let line = format!("warikomi_replacement_seconds_count{{kind=\"planned\"}} {planned}");
    assert!(
        metrics.contains(&line) && metrics.contains("warikomi_serving 1"),
        "{line} in {metrics}"
    );

    let (control, process) = (service.control.clone(), count(&last, "process_id") as u32);
    service.ask(&["stop"]);
    assert!(!control.exists() && !lives(process), "stop waits until all of it is gone");
    assert!(service.end().0);
}

#[test]
fn a_driver_that_is_killed_is_followed_by_another() {
    let service = Service::start();
    let before = service.goes_on();
    let process = count(&before, "process_id") as i32;
    kill(Pid::from_raw(process), Signal::SIGKILL).unwrap();
    let after = service.wait_until("recovered", |status| count(status, "recovered") > 0);
    assert!(count(&after, "generation") > count(&before, "generation"));
    assert_ne!(count(&after, "process_id") as i32, process);
    assert_eq!(after["last"]["kind"], "recovery");
    is_sound(&service.goes_on());
    service.ask(&["stop"]);
}

#[test]
fn clients_that_mean_harm_are_nothing_to_the_service() {
    let service = Service::start();
    let before = service.goes_on();
    let connect = || UnixStream::connect(&service.control).unwrap();
    let mut huge = connect();
    // It is hung up on before it is through.
    let _ = huge.write_all(&vec![b'['; 1 << 20]);
    let mut rubbish = connect();
    rubbish
        .write_all(b"\xff\xfe{\n{\"cmd\":\"replace\"}\n{\"cmd\":\"reboot\"}\n{\"cmd\":")
        .unwrap();
    rubbish.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    rubbish.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("\"ok\":false").count(), 4, "{answers}");
    let hanging: Vec<_> = (0..10).map(|_| connect()).collect();
    is_sound(&service.goes_on());
    assert_eq!(count(&service.status(), "process_id"), count(&before, "process_id"));
    for bad in [&["replace", "--driver", "e1000"][..], &["replace", "--driver", "./no-driver"]] {
        assert!(!service.asked(bad).status.success());
    }
    drop(hanging);
    let mut second = warikomi(&["live", "--control", service.control.to_str().unwrap()]);
    let second = second.output().unwrap();
    assert!(said(&second).contains("live stop"), "{}", said(&second));
    service.ask(&["stop"]);
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let service = Service::start();
    let process = count(&service.goes_on(), "process_id") as u32;
    kill(Pid::from_raw(service.child.0.id() as i32), Signal::SIGTERM).unwrap();
    let control = service.control.clone();
    let (success, _directory) = service.end();
    assert!(success && !control.exists() && !lives(process));
}

#[test]
fn one_that_was_killed_takes_all_with_it_and_the_next_takes_its_socket_over() {
    let service = Service::start();
    let process = count(&service.goes_on(), "process_id") as u32;
    kill(Pid::from_raw(service.child.0.id() as i32), Signal::SIGKILL).unwrap();
    let control = service.control.clone();
    let (success, directory) = service.end();
    assert!(!success && control.exists());
    let until = Instant::now() + PATIENCE;
    while lives(process) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!lives(process), "the driver outlives its service");
    let mut nobody = warikomi(&["live", "status", "--control", control.to_str().unwrap()]);
    let nobody = nobody.output().unwrap();
    assert!(said(&nobody).contains("start one with 'warikomi live'"), "{}", said(&nobody));
    let next = Service::start_in(directory);
    next.goes_on();
    next.ask(&["stop"]);
}
