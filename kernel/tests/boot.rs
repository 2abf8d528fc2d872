//! Boots the cached kernel image and speaks with its guest agent, with no NIC attached.
//!
//! Needs the image: `warikomi kernel build`. It fails, rather than passes over, without one.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use warikomi_kernel::{Cache, DriverMode, Image, PRELOAD, Wanted, inspect};
use warikomi_protocol::answers::{DriverOrigin, Run};
use warikomi_protocol::commands::*;
use warikomi_protocol::{Command as AgentCommand, Envelope, Event, FromGuest, Ready, Response};

/// Longest wait for any one line of the agent.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running guest; dropping it ends its process group.
struct Guest {
    kernel: Child,
    line: BufReader<UnixStream>,
    next_id: u64,
    _home: tempfile::TempDir,
}

impl Guest {
    fn boot(image: &Image) -> (Self, Ready) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let home = tempfile::tempdir().unwrap();
        // Inherited under its own number.
        let theirs = OwnedFd::from(theirs);
        fcntl(theirs.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&theirs);
        let memory = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
        let preload = home.path().join("preload.so");
        std::fs::write(&preload, PRELOAD).unwrap();
        let kernel = Command::new(image.kernel())
            .arg("mem=256M")
            .arg(format!("initrd={}", image.initramfs().display()))
            .arg(format!("uml_dir={}", home.path().display()))
            .args(["con0=null,fd:1", "con=null", "ssl=null"])
            .arg(format!("ssl0=fd:{number}"))
            .env("TMPDIR", memory)
            .env("HOME", home.path())
            .env("LD_PRELOAD", &preload)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        drop(theirs);
        let mut guest = Self { kernel, line: BufReader::new(ours), next_id: 1, _home: home };
        match guest.read() {
            FromGuest::Event(Event::Ready(ready)) => (guest, ready),
            other @ FromGuest::Response(_) => panic!("expected the ready event, got {other:?}"),
        }
    }

    fn read(&mut self) -> FromGuest {
        let mut line = String::new();
        self.line.read_line(&mut line).expect("the agent answers in time");
        FromGuest::parse(&line).unwrap()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.line.get_mut().write_all(bytes).unwrap();
    }

    fn response(&mut self) -> Response {
        match self.read() {
            FromGuest::Response(response) => response,
            other @ FromGuest::Event(_) => panic!("expected an answer, got {other:?}"),
        }
    }

    fn try_call<C: AgentCommand>(&mut self, command: C) -> Result<C::Answer, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(Envelope::new(id, command).to_line().as_bytes());
        let response = self.response();
        assert_eq!(response.id, id);
        response.into_answer().map_err(|error| error.to_string())
    }

    fn call<C: AgentCommand>(&mut self, command: C) -> C::Answer {
        self.try_call(command).unwrap()
    }

    fn ends_within(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if self.kernel.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Ok(id) = i32::try_from(self.kernel.id()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = self.kernel.wait();
    }
}

fn image() -> Image {
    // The message says what to run.
    let cache = Cache::of_this_user().unwrap();
    cache
        .find(&Wanted { drivers: Some(DriverMode::Module), ..Wanted::default() })
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_agent_serves_and_powers_off() {
    let (mut guest, ready) = Guest::boot(&image());
    assert_eq!(ready.kernel_release, image().info().release);
    assert_eq!(ready.warnings, [""; 0]);
    assert!(ready.pci_devices.is_empty());
    let first = guest.call(PingAgent {}).tsc;
    assert!(guest.call(PingAgent {}).tsc > first);
    guest.call(PowerOff {});
    assert!(guest.ends_within(Duration::from_secs(10)), "the guest does not power off");
}

#[test]
fn garbage_is_answered_and_the_agent_goes_on() {
    let (mut guest, _) = Guest::boot(&image());
    for garbage in [&b"nonsense\n"[..], b"\xff\xfe\x03\x04\x11\x13\n", b"{}\n"] {
        guest.send(garbage);
        let response = guest.response();
        assert_eq!(response.id, 0);
        assert!(response.into_answer::<serde_json::Value>().is_err());
    }
    // Longer than a request may be, shorter than what kills the line.
    let mut long = vec![b'x'; 3500];
    long.push(b'\n');
    guest.send(&long);
    assert_eq!(guest.response().id, 0);
    guest.call(PingAgent {});
}

#[test]
fn drivers_are_loaded_with_what_they_need_and_removed() {
    let (mut guest, _) = Guest::boot(&image());
    let load = |name: &str| LoadDriver { name: name.to_owned(), params: vec![] };
    let r8169 = guest.call(load("r8169"));
    // Since Linux 7.2 it needs two more.
    assert_eq!(r8169.origin, DriverOrigin::Loaded);
    assert_eq!(r8169.loaded.last().map(String::as_str), Some("r8169"), "{:?}", r8169.loaded);
    assert_eq!(guest.call(load("r8169")).origin, DriverOrigin::AlreadyLoaded);
    assert_eq!(guest.call(load("8139too")).loaded, ["mii", "8139too"]);
    guest.call(UnloadDriver { name: "r8169".to_owned() });
    let error = guest.try_call(UnloadDriver { name: "r8169".to_owned() }).unwrap_err();
    assert!(error.contains("not loaded"), "{error}");
    let error = guest.try_call(load("no_such")).unwrap_err();
    assert!(error.contains("no_such") && error.contains("r8169"), "{error}");
    let wait = WaitInterface::of("8139too", 10);
    let error = guest.try_call(wait).unwrap_err();
    assert!(error.contains("no PCI device"), "{error}");
}

#[test]
fn what_is_sent_over_loopback_is_accounted_for() {
    let (mut guest, _) = Guest::boot(&image());
    let refused = guest.try_call(ReceiveStop {}).unwrap_err();
    assert!(refused.contains("receive_start"), "{refused}");
    guest.call(ReceiveStart::on_port(5001, 7));
    let transmit = |run_id, count| Transmit {
        count,
        payload_bytes: 1000,
        destination: "127.0.0.1:5001".to_owned(),
        run_id,
        interval_us: 0,
        vlan: None,
        timeout_ms: 1000,
    };
    assert_eq!(guest.call(transmit(7, 1000)).sent, 1000);
    assert_eq!(guest.call(transmit(8, 10)).sent, 10);
    assert_eq!(guest.call(transmit(7, 5)).sent, 5);
    let totals = guest.call(ReceiveStop {});
    assert_eq!((totals.delivered, totals.foreign, totals.duplicates), (1000, 10, 5));
    assert_eq!((totals.datagrams, totals.bytes), (1015, 1_015_000));
    assert_eq!((totals.socket_drops, totals.unrecorded, totals.short), (0, 0, 0));
    let mut runs: Vec<Run> = Vec::new();
    loop {
        let part = guest.call(ReceiveRuns { from: runs.len() as u64, max: 100 });
        runs.extend(&part.runs);
        if runs.len() as u64 == part.total {
            break;
        }
    }
    let mut expected = 0;
    for Run(first, count, tsc) in runs {
        assert_eq!(first, expected);
        assert!((totals.first_tsc..=totals.last_tsc).contains(&tsc));
        expected += count;
    }
    assert_eq!(expected, 1000);
}

#[test]
fn interfaces_are_configured_and_counted() {
    let (mut guest, _) = Guest::boot(&image());
    let on_lo = || Configure { interface: Some("lo".to_owned()), ..Configure::report_only() };
    let changed = guest.call(Configure {
        mtu: Some(9000),
        gro: Some(false),
        napi_defer_hard_irqs: Some(2),
        gro_flush_timeout_ns: Some(20_000),
        ..on_lo()
    });
    assert!(changed.before.gro && !changed.after.gro);
    assert_eq!(changed.after.mtu, 9000);
    assert_eq!(changed.after.napi_defer_hard_irqs, Some(2));
    assert_eq!(changed.after.gro_flush_timeout_ns, Some(20_000));
    let coalesce = Some(Coalesce { rx_usecs: Some(1), ..Coalesce::default() });
    let error = guest.try_call(Configure { coalesce, ..on_lo() }).unwrap_err();
    assert!(error.contains("coalesc"), "{error}");
    let offloads = [("no-such-offload".to_owned(), true)].into();
    let error = guest.try_call(Configure { offloads, ..on_lo() }).unwrap_err();
    assert!(error.contains("no-such-offload"), "{error}");
    let pinged = guest.call(Ping {
        address: "127.0.0.1".to_owned(),
        count: 3,
        interval_ms: 0,
        payload_bytes: 1000,
        timeout_ms: 1000,
    });
    assert_eq!((pinged.sent, pinged.received, pinged.corrupted), (3, 3, 0));
    let counters = guest.call(Counters { interface: Some("lo".to_owned()) });
    assert!(counters.interface["rx_packets"] >= 6);
    assert!(counters.protocol.contains_key("UdpRcvbufErrors"));
    let error = guest.try_call(Counters { interface: Some("eth7".to_owned()) }).unwrap_err();
    assert!(error.contains("eth7") && error.contains("lo"), "{error}");
}

#[test]
fn a_panic_ends_the_guest_and_a_hang_does_not() {
    let (mut guest, _) = Guest::boot(&image());
    guest.call(Panic {});
    assert!(guest.ends_within(Duration::from_secs(10)), "the panic does not end the guest");
    let (mut guest, _) = Guest::boot(&image());
    guest.call(Hang { busy: false });
    assert!(!guest.ends_within(Duration::from_millis(300)));
}

#[test]
fn the_guest_stops_when_the_support_side_goes_away() {
    let (mut guest, _) = Guest::boot(&image());
    guest.line.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    assert!(guest.ends_within(Duration::from_secs(10)), "the guest outlives the support side");
}

#[test]
fn the_image_passes_its_own_inspection() {
    let image = image();
    let info = inspect(&image.kernel()).unwrap();
    info.check().unwrap();
    assert_eq!(info.release, image.info().release);
    assert_eq!(info.pci_device_id, Some(1234));
    assert_eq!(info.drivers, image.info().drivers);
    assert_eq!(info.modules, Some(image.modules()));
}
