//! The kernel's packet generator (`Documentation/networking/pktgen.rst`). It is told what to do, and
//! tells what it did, in files.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use warikomi_protocol::answers::Generated;
use warikomi_protocol::commands::{LoadDriver, Pktgen};
use warikomi_protocol::payload::HEAD_BYTES;

use super::drivers;
use super::error::{self, AgentError, Result};
use super::netif::{self, Interface};

const DIRECTORY: &str = "/proc/net/pktgen";

/// Ethernet, IPv4 and UDP headers.
const HEADERS_BYTES: u32 = 42;
/// Of these, what the MTU counts.
const INNER_HEADERS_BYTES: u32 = 28;

/// 0 is endless; of a longer number the generator reads ten digits.
const COUNT: std::ops::RangeInclusive<u64> = 1..=9_999_999_999;
const BURST: std::ops::RangeInclusive<u32> = 1..=256;

/// How often it is looked whether a generator has ended that had not begun when it was said to have.
const LOOKS: u32 = 200;
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(super) fn run(interface: &Interface, command: &Pktgen) -> Result<Generated> {
    let settings = settings(command, interface.number("mtu").unwrap_or(0))?;
    drivers::load(&LoadDriver { name: "pktgen".to_owned(), params: Vec::new() })?;
    let device = Device::add(interface)?;
    for setting in settings {
        error::write(&device.file, &setting)?;
    }
    let timed_out = start(Duration::from_millis(command.timeout_ms.max(1)))?;
    let text = device.result()?;
    report(&text, timed_out).ok_or_else(|| {
        let result = text.lines().find(|line| line.starts_with("Result:")).unwrap_or("no result");
        AgentError::Other(format!(
            "pktgen did not send on {} (it says: {result}); is the link up?",
            interface.name
        ))
    })
}

/// What is written into the device's file, line by line.
fn settings(command: &Pktgen, mtu_bytes: u32) -> Result<Vec<String>> {
    let invalid = |what, expected, given: String| AgentError::Invalid { what, expected, given };
    let longest = mtu_bytes.saturating_sub(INNER_HEADERS_BYTES);
    if !(HEAD_BYTES as u32..=longest).contains(&command.payload_bytes) {
        return Err(AgentError::Other(format!(
            "payload_bytes is not {HEAD_BYTES} to {longest}, which is what an MTU of {mtu_bytes} has \
             room for: {}; pktgen makes no fragments",
            command.payload_bytes
        )));
    }
    if !COUNT.contains(&command.count) {
        return Err(invalid("count", "1 to 9999999999", command.count.to_string()));
    }
    if !BURST.contains(&command.burst) {
        return Err(invalid("burst", "1 to 256", command.burst.to_string()));
    }
    let destination = netif::parse_destination(&command.destination)?;
    let [a, b, c, d, e, f] = netif::parse_mac(&command.destination_mac)?;
    let port = destination.port();
    Ok(vec![
        format!("count {}", command.count),
        format!("pkt_size {}", command.payload_bytes + HEADERS_BYTES),
        format!("burst {}", command.burst),
        format!("dst {}", destination.ip()),
        format!("dst_mac {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
        format!("udp_dst_min {port}"),
        format!("udp_dst_max {port}"),
    ])
}

/// An interface that is the generator's, for as long as this lives.
struct Device {
    file: PathBuf,
}

/// The thread of the first processor, the only one of a guest.
fn thread() -> PathBuf {
    Path::new(DIRECTORY).join("kpktgend_0")
}

impl Device {
    fn add(interface: &Interface) -> Result<Device> {
        error::write(thread(), &format!("add_device {}", interface.name))?;
        Ok(Device { file: Path::new(DIRECTORY).join(&interface.name) })
    }

    /// What the generator says once it has ended. Linux waits 125 ms for its thread, which looks every 100 ms whether it
    /// shall begin, and goes on before that has, if it comes late (net/core/pktgen.c, `pktgen_run_all_threads`).
    fn result(&self) -> Result<String> {
        let mut text = error::read(&self.file)?;
        for _ in 0..LOOKS {
            if !is_of_setting(&text) {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
            text = error::read(&self.file)?;
        }
        Ok(text)
    }
}

impl Drop for Device {
    /// An interface that the generator holds cannot go away.
    fn drop(&mut self) {
        if let Err(error) = error::write(thread(), "rem_device_all") {
            eprintln!("warikomi-guest: {error}");
        }
    }
}

/// Lets the generator run until it is done. Whether it had to be stopped.
fn start(timeout: Duration) -> Result<bool> {
    let control = Path::new(DIRECTORY).join("pgctrl");
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let stop = scope.spawn({
            let control = &control;
            move || match ended.recv_timeout(timeout) {
                Err(RecvTimeoutError::Timeout) => error::write(control, "stop\n").map(|()| true),
                _ => Ok(false),
            }
        });
        // Returns when all has been sent.
        let started = error::write(&control, "start\n");
        drop(done);
        let stopped = stop.join().unwrap_or(Ok(false));
        started.and(stopped)
    })
}

/// Whether the last that was done well is a setting, and no run: that begins with how long it took.
fn is_of_setting(text: &str) -> bool {
    let done = text.split_once("Result: OK: ");
    done.is_some_and(|(_, what)| !what.starts_with(|first: char| first.is_ascii_digit()))
}

/// Reads what the generator says of itself; `None` if it has not run.
fn report(text: &str, timed_out: bool) -> Option<Generated> {
    (text.contains("Result: OK") && !is_of_setting(text)).then_some(())?;
    let number = |name: &str| {
        let (_, rest) = text.split_once(name)?;
        let rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u64>().ok()
    };
    let took_us = number("stopped:")?.checked_sub(number("started:")?)?;
    Some(Generated {
        sent: number("pkts-sofar:")?,
        errors: number("errors:")?,
        took_ns: took_us.saturating_mul(1_000),
        timed_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command() -> Pktgen {
        Pktgen {
            interface: None,
            count: 10,
            payload_bytes: 18,
            burst: 8,
            destination: "10.9.0.2:9".to_owned(),
            destination_mac: "02:57:4b:00:00:02".to_owned(),
            timeout_ms: 1_000,
        }
    }

    #[test]
    fn a_command_becomes_lines() {
        let lines = settings(&command(), 1_500).unwrap();
        for expected in ["count 10", "pkt_size 60", "burst 8", "dst 10.9.0.2", "udp_dst_min 9"] {
            assert!(lines.iter().any(|line| line == expected), "{expected} is not in {lines:?}");
        }
        assert!(lines.contains(&"dst_mac 02:57:4b:00:00:02".to_owned()));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_range() {
        let refused = |change: fn(&mut Pktgen)| {
            let mut command = command();
            change(&mut command);
            settings(&command, 1_500).unwrap_err().to_string()
        };
        assert!(refused(|c| c.payload_bytes = 15).contains("16 to 1472"));
        assert!(refused(|c| c.payload_bytes = 1_473).contains("16 to 1472"));
        assert!(refused(|c| c.count = 0).contains("1 to 9999999999"));
        assert!(refused(|c| c.count = u64::MAX).contains("1 to 9999999999"));
        assert!(refused(|c| c.burst = 0).contains("1 to 256"));
        assert!(refused(|c| c.burst = 257).contains("1 to 256"));
        assert!(refused(|c| c.destination = "10.9.0.2".into()).contains("a port"));
        assert!(refused(|c| c.destination_mac = "1".into()).contains("six bytes"));
        // Nothing fits.
        assert!(settings(&command(), 0).is_err());
    }

    /// As 6.1 has it.
    const SAID: &str = "\
Params: count 10000  min_pkt_size: 60  max_pkt_size: 60
     frags: 0  delay: 0  clone_skb: 0  ifname: eth0
Current:
     pkts-sofar: 10008  errors: 2
     started: 1234500us  stopped: 1239750us idle: 17us
     seq_num: 10009  cur_dst_mac_offset: 0  cur_src_mac_offset: 0
Result: OK: 5250(c5233+d17) usec, 10008 (60byte,0frags)
  1906285pps 915Mb/sec (915016800bps) errors: 2
";

    #[test]
    fn what_it_did_is_read() {
        let expected = Generated { sent: 10_008, errors: 2, took_ns: 5_250_000, timed_out: false };
        assert_eq!(report(SAID, false), Some(expected));
        assert_eq!(report(&SAID.replace("Result: OK", "Result: Idle"), false), None);
        // What was set last stands there until a run has ended.
        let set = SAID.replace("5250(c5233+d17) usec, 10008 (60byte,0frags)", "udp_dst_max=9");
        assert_eq!((is_of_setting(&set), report(&set, false)), (true, None));
        assert!(!is_of_setting(SAID) && !is_of_setting("Result: Idle"));
        assert_eq!(report(&SAID.replace("10008", "99999999999999999999"), false), None);
        assert_eq!(report(&SAID.replace("1239750us", "1us"), false), None, "back in time");
    }

    proptest! {
        #[test]
        fn no_text_panics(cut in 0..SAID.len(), junk in ".{0,40}") {
            let _ = report(&format!("{}{junk}{}", &SAID[..cut], &SAID[cut..]), true);
            let _ = report(&SAID[..cut], false);
        }
    }
}
