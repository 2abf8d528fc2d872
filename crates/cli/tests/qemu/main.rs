//! Drivers of a distribution's kernel in a guest of QEMU, with the card at a socket of the command (vfio-user).
//!
//! `scripts/setup vm` fetches both. A guest is translated, because few machines that run tests have KVM: it boots in
//! ten seconds to a minute.

mod experiments;
mod guest;
mod ipxe;
mod judges;
mod latency;
mod saturated;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warikomi_inject::NETWORK_IP;
use warikomi_protocol::answers::InterruptKind;
use warikomi_protocol::commands::{LinkDown, Ping, PingAgent};
use warikomi_target::Target;

use self::guest::{Card, Guest, Machine};

/// The command is there by then, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command that runs, and is ended when it is dropped.
struct Running {
    child: Child,
    /// What it prints: a pipe that is not read would stop it.
    output: File,
}

impl Running {
    /// Begins, and waits until the hypervisor can come.
    fn start(arguments: &[&str], socket: &Path) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warikomi"));
        command.args(arguments).arg("--socket").arg(socket);
        let output = tempfile::tempfile().unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap());
        let mut running = Running { child: command.spawn().unwrap(), output };
        let begun = Instant::now();
        while !socket.exists() {
            let waits = running.is_running() && begun.elapsed() < PATIENCE;
            assert!(waits, "{arguments:?} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        running
    }

    /// Ends it as Ctrl-C does; what it has printed.
    fn interrupt(self) -> String {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        self.ended()
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it has ended, without an error; what it has printed.
    fn ended(mut self) -> String {
        let status = self.child.wait().unwrap();
        let mut printed = String::new();
        self.output.rewind().unwrap();
        self.output.read_to_string(&mut printed).unwrap();
        assert!(status.success(), "{status}: {printed}");
        printed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A card, the modules that its driver consists of, the driver last, and how it interrupts.
struct Pairing {
    model: &'static str,
    modules: &'static [&'static str],
    kernel: &'static str,
    interrupts: InterruptKind,
}

const PAIRINGS: [Pairing; 7] = [
    Pairing {
        model: "rtl8168",
        modules: &["realtek", "r8169"],
        kernel: "",
        interrupts: InterruptKind::Msi,
    },
    Pairing {
        model: "rtl8168",
        modules: &["realtek", "r8169"],
        kernel: "pci=nomsi",
        interrupts: InterruptKind::Intx,
    },
    Pairing { model: "e1000e", modules: &["e1000e"], kernel: "", interrupts: InterruptKind::MsiX },
    Pairing {
        model: "e1000e",
        modules: &["e1000e"],
        kernel: "pci=nomsi",
        interrupts: InterruptKind::Intx,
    },
    Pairing { model: "igb", modules: &["igb"], kernel: "", interrupts: InterruptKind::MsiX },
    Pairing {
        model: "rtl8139",
        modules: &["8139too"],
        kernel: "",
        interrupts: InterruptKind::Intx,
    },
    Pairing {
        model: "rtl8139cp",
        modules: &["8139cp"],
        kernel: "",
        interrupts: InterruptKind::Intx,
    },
];

/// Echo requests of a small and of a large size, all of which are answered as they were sent.
fn ping(guest: &mut Guest, what: &str) {
    for payload_bytes in [56, 1_400] {
        let pinged = guest.ask(Ping {
            address: NETWORK_IP.to_string(),
            count: 10,
            interval_ms: 10,
            payload_bytes,
            timeout_ms: 5_000,
        });
        let counts = (pinged.sent, pinged.received, pinged.corrupted);
        assert_eq!(counts, (10, 10, 0), "{what}, {payload_bytes} bytes: {}", guest.console());
    }
}

fn drives(machine: &Machine, pairing: &Pairing) {
    let Pairing { model, modules, kernel, interrupts } = *pairing;
    let what = format!("{model} {kernel}");
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("card");
    let serving = Running::start(&["serve", "--model", model], &socket);
    let mut guest = machine.boot(Card::Ours(&socket), modules, kernel);
    guest.bring_up(modules);
    ping(&mut guest, &what);
    let counted = guest.counted();
    assert_eq!(counted.interrupt_kind, interrupts, "{what}");
    assert!(counted.interrupts.iter().any(|line| line.count > 0), "{what}: {counted:?}");
    for name in ["rx_errors", "tx_errors", "rx_dropped", "tx_dropped"] {
        assert_eq!(counted.interface[name], 0, "{what}: {name}");
    }
    // Down, and up again.
    guest.ask(LinkDown { interface: None });
    warikomi_session::link_up(&mut guest).unwrap();
    ping(&mut guest, &what);
    guest.stop().unwrap();
    let printed = serving.interrupt();
    assert!(printed.contains("a hypervisor has come"), "{what}: {printed}");
    assert!(!printed.contains("refused: "), "{what}: {printed}");
}

#[test]
#[ignore = "boots a guest of QEMU for each card; scripts/test-long"]
fn drivers_of_a_distribution_probe_their_cards_and_send_and_receive() {
    let Some(machine) = Machine::find() else { return };
    for pairing in &PAIRINGS {
        drives(&machine, pairing);
    }
}

#[test]
#[ignore = "boots a guest of QEMU; scripts/test-long"]
fn a_guest_of_qemu_goes_on_without_its_card() {
    let Some(machine) = Machine::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("card");
    let serving = Running::start(&["serve", "--model", "rtl8168"], &socket);
    let modules = ["realtek", "r8169"];
    let mut guest = machine.boot(Card::Ours(&socket), &modules, "");
    guest.bring_up(&modules);
    ping(&mut guest, "rtl8168");
    serving.interrupt();
    let lost = guest.ask(Ping {
        address: NETWORK_IP.to_string(),
        count: 3,
        interval_ms: 10,
        payload_bytes: 56,
        timeout_ms: 500,
    });
    assert_eq!((lost.sent, lost.received), (3, 0));
    guest.ask(PingAgent {});
}
