//! A card at a socket, and packets for a driver at the other end of it: a client and a driver of ours stand for a
//! hypervisor and its guest.

use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;
use warikomi_driver::{Hardware, NicDriver};
use warikomi_pci::{Mmio, SharedMemory, Width};
use warikomi_testbench::{RTL8168, Rig, VfioClient, WatchedSink};

const BYTES: usize = 0x200_0000;
/// The command register: memory decoding, bus mastering, no INTx.
const ENABLED: u64 = 0x0406;
/// The BAR with the registers.
const BAR: u8 = 2;

/// No command takes so long, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Connects once the command listens.
fn connect(socket: &Path) -> UnixStream {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client that has shared its memory, and turned the card on.
fn client(socket: &Path) -> VfioClient {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = std::fs::File::from(memfd_create("guest", flags).unwrap());
    file.set_len(BYTES as u64).unwrap();
    let own = file.try_clone().unwrap();
    let memory = SharedMemory::from_file(Rig::RINGS, own, 0, BYTES).unwrap();
    let mut client = VfioClient::new(connect(socket), memory, BAR);
    client.negotiate();
    client.map((Rig::RINGS, BYTES as u64), Some((file.as_fd(), 0))).unwrap();
    client.config_write(4, Width::B2, ENABLED).unwrap();
    client
}

#[test]
fn a_card_is_served_to_one_client_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("card");
    let path = socket.to_str().unwrap();
    let mut served = start(&["serve", "--model", "rtl8168", "--socket", path]);
    for _ in 0..2 {
        let mut client = client(&socket);
        assert_eq!(client.config_read(0, Width::B4), Ok(0x8168_10ec));
        assert_eq!(client.config_read(4, Width::B2), Ok(ENABLED));
    }
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second =
        start(&["serve", "--model", "rtl8168", "--socket", path]).wait_with_output().unwrap();
    assert!(!second.status.success());
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains("in use by another process"), "{message}");
    let id = nix::unistd::Pid::from_raw(served.id() as i32);
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(served.wait().unwrap().success());
    let output = served.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    // Also one that is gone again before the next look at it.
    assert!(printed.matches("a hypervisor has come").count() >= 2, "{printed}");
    for text in ["vfio-user-pci", "--user-device", "it made "] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
    assert!(!socket.exists(), "its file goes with it");
}

#[test]
fn packets_reach_a_driver_at_the_other_end_and_the_result_says_what_is_not_known() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("card");
    let runs = directory.path().join("runs");
    let (path, runs) = (socket.to_str().unwrap(), runs.to_str().unwrap());
    let plan = ["--count", "200", "--interval", "1ms", "--json", "--runs", runs];
    let target = ["inject", "--target", "vm", "--socket", path, "--driver", "ours"];
    let mut injecting = start(&[&target[..], &plan].concat());
    let mut client = client(&socket);
    let mut driver = RTL8168.driver();
    let mut sink = WatchedSink::new(Rig::BUFFERS, 64, 2_048);
    let memory = client.memory.clone();
    let mut call = |driver: &mut dyn NicDriver, sink: &mut WatchedSink| {
        let mut hw = Hardware { mmio: &mut client, memory: &memory };
        driver.init(&mut hw, Rig::RINGS, 64, sink).unwrap();
        // A card is taken to receive once it may interrupt.
        driver.arm(&mut hw).unwrap();
        let begun = Instant::now();
        // Looking at the ring needs no access, and giving buffers back needs none either.
        while injecting.try_wait().unwrap().is_none() {
            driver.poll(&mut hw, 64, sink).unwrap();
            if begun.elapsed() > PATIENCE {
                injecting.kill().unwrap();
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    };
    call(&mut *driver, &mut sink);
    let output = injecting.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&result["target"]["kind"], &result["target"]["driver"]),
        (&"vm".into(), &"ours".into())
    );
    let ledger = &result["ledger"];
    assert_eq!((&ledger["injected"], &ledger["unaccounted"]), (&200.into(), &0.into()));
    let of = |column: &str| ledger[column].as_u64().unwrap();
    assert_eq!(of("accepted") + of("no_descriptor"), 200, "{ledger}");
    assert!(of("accepted") > 0 && sink.frames.len() as u64 >= of("accepted"));
    let unknown = result["target"]["settings"]["not_known"].as_array().unwrap();
    assert!(unknown.iter().any(|what| what == "what an application received"), "{unknown:?}");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("nothing in this target can be asked"), "{warnings}");
}

#[test]
fn a_virtual_machine_needs_a_socket_and_takes_no_flags_of_other_targets() {
    for (flags, text) in [
        (&["--target", "vm"][..], "--socket"),
        (&["--target", "vm", "--socket", "x", "--memory", "64"], "--memory"),
        (&["--target", "vm", "--socket", "x", "--strategy", "poll"], "--strategy"),
        (&["--target", "vm", "--socket", "x", "--no-sandbox"], "--no-sandbox"),
        (&["--target", "vm", "--socket", "x", "--virtual"], "its own time"),
    ] {
        let output = start(&[&["inject"], flags].concat()).wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(text), "{flags:?}: {message}");
    }
}

#[test]
fn an_experiment_that_asks_more_of_a_target_refuses_a_virtual_machine() {
    let vm = ["--target", "vm", "--socket", "x"];
    for command in [
        &["receive"][..],
        &["receive", "--virtual"],
        &["transmit"],
        &["transmit", "--virtual"],
        &["replace"],
        &["round-trip"],
        &["cost"],
        &["explore"],
        &["bench", "--only", "kernel"],
        &["live"],
    ] {
        let output = start(&[command, &vm].concat()).wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        let refused = !output.status.success() && message.contains("--target vm is for inject");
        assert!(refused, "{command:?}: {message}");
    }
}
