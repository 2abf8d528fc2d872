//! Which functions of the target's kernel its time goes to, as `perf` samples them.
//!
//! A kernel target is an ordinary process, and its kernel's functions are symbols of its program: the
//! profiler of the host sees them as it sees any program's. The driver, if it is a module, has no
//! symbols there; it counts as what it is, none of the copying functions and none of a protocol's. The clock of
//! the processor is sampled rather than its cycles, because virtual machines seldom have a counter for these; so
//! a sample stands for a known time.
//!
//! Before and after a run the target answers requests and waits, which is no cost of a packet. So
//! samples carry the time of the system's monotonic clock, and only those within a run count. `perf` may take seconds
//! until it samples; it begins when it is asked to, by one pipe, and says so by another.
//!
//! `perf` is a program that may be missing and that may not be permitted. Then there is no
//! figure, and the reason.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, mkfifo};
use warikomi_clock::{Span, Time};
use warikomi_target::{Target, TargetError};

/// Processor time from one sample to the next, in nanoseconds: short enough for a short run, long enough not to slow
/// it.
const EVERY_NS: u64 = 200_000;
/// Sampling begins within this.
const START: Span = Span::from_ms(20_000);
/// What perf is asked to begin by, and what it answers (perf-record(1), `--control`).
const BEGIN: &[u8] = b"enable\n";
const HAS_BEGUN: &[u8] = b"ack\n";
/// Writing the samples down, or reading them, takes no longer.
const END: Span = Span::from_ms(20_000);
/// What is read of the list of samples, in bytes.
const MOST_OUTPUT: u64 = 64 << 20;
/// Fewer samples than this say nothing.
pub(super) const LEAST_SAMPLES: u64 = 200;

/// Functions that copy, by the beginning of their names. UML's kernels copy between kernel and
/// applications with its own functions, and everything else with the C library's names.
const COPIES: [&str; 8] =
    ["memcpy", "__memcpy", "memmove", "__memmove", "copy_", "_copy_", "raw_copy_", "__copy_"];

/// Functions of Linux between a driver and a socket, by the beginning of their names: generic reception, IP, UDP,
/// sockets, and the buffers that all of these hand on.
const PROTOCOL: [&str; 40] = [
    "ip_",
    "__ip_",
    "ip4_",
    "ipv4_",
    "udp",
    "__udp",
    "inet",
    "__inet",
    "netif_",
    "__netif_",
    "napi_gro",
    "dev_gro",
    "gro_",
    "eth_type_trans",
    "sock_",
    "__sock",
    "sk_",
    "__sk_",
    "skb_",
    "__skb",
    "kfree_skb",
    "__kfree_skb",
    "consume_skb",
    "__consume_stateless_skb",
    "__alloc_skb",
    "__napi_alloc_skb",
    "napi_alloc_skb",
    "build_skb",
    "__build_skb",
    "fib_",
    "nf_",
    "dst_",
    "rt_",
    "reuseport_",
    "csum_",
    "do_csum",
    "__checksum",
    "process_backlog",
    "put_cmsg",
    "__cgroup_bpf",
];

/// Why there are no samples.
#[derive(Debug)]
pub(super) enum NoSamples {
    /// perf is missing, not permitted, or does not do what it should: a sentence.
    Perf(String),
    /// The target failed meanwhile.
    Target(TargetError),
}

impl From<TargetError> for NoSamples {
    fn from(error: TargetError) -> NoSamples {
        NoSamples::Target(error)
    }
}

impl From<std::io::Error> for NoSamples {
    fn from(error: std::io::Error) -> NoSamples {
        match error.kind() {
            ErrorKind::NotFound => NoSamples::Perf("there is no program 'perf'".into()),
            _ => NoSamples::Perf(format!("perf cannot be used: {error}")),
        }
    }
}

/// How many samples fell into what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Samples {
    /// Into functions that copy.
    pub(super) copy: u64,
    /// Into functions of the protocols.
    pub(super) protocol: u64,
    /// Into anything else.
    pub(super) rest: u64,
}

impl Samples {
    /// All of them.
    pub(super) fn count(&self) -> u64 {
        self.copy + self.protocol + self.rest
    }

    /// Processor time of so many of them, in nanoseconds.
    pub(super) fn time_ns(samples: u64) -> f64 {
        samples as f64 * EVERY_NS as f64
    }

    /// The share (0 to 1) of copying.
    pub(super) fn copy_share(&self) -> f64 {
        self.copy as f64 / self.count() as f64
    }
}

/// A program of ours that ends with us, whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A profiler at work.
pub(super) struct Sampler {
    perf: Ended,
    data: tempfile::TempDir,
}

impl Sampler {
    /// Begins to sample a process. The reason if that is not possible.
    pub(super) fn start(target: &mut dyn Target) -> Result<Sampler, NoSamples> {
        let data = tempfile::tempdir()?;
        let ([mut requests, mut answers], control) = pipes(data.path())?;
        let mut command = Command::new("perf");
        command
            .arg("record")
            .arg("--delay=-1")
            .arg(control)
            .args(["--quiet", "--event", "cpu-clock", "--count", &EVERY_NS.to_string()])
            .args(["--clockid", "CLOCK_MONOTONIC", "--output"])
            .arg(data.path().join("samples"))
            .args(["--pid", &target.process_id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for us; perf is ended with the signal below.
            .process_group(0);
        let mut sampler = Sampler { perf: Ended(command.spawn()?), data };
        requests.write_all(BEGIN)?;
        let deadline = target.clock().now() + START;
        let mut answer = Vec::new();
        while !answer.starts_with(HAS_BEGUN) {
            if sampler.perf.0.try_wait()?.is_some() {
                return Err(NoSamples::Perf(sampler.complaint()));
            }
            if target.clock().now() > deadline {
                return Err(NoSamples::Perf(format!("perf did not begin within {START}")));
            }
            target.serve_for(Duration::from_millis(10))?;
            let mut bytes = [0; HAS_BEGUN.len()];
            match answers.read(&mut bytes) {
                Ok(count) => answer.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sampler)
    }

    /// Ends sampling and counts what fell into runs, each from one time to another.
    pub(super) fn finish(
        mut self,
        target: &mut dyn Target,
        runs: &[(Time, Time)],
    ) -> Result<Samples, NoSamples> {
        let window = |&(from, until): &(Time, Time)| {
            Ok::<_, NoSamples>(monotonic(target, from)?..monotonic(target, until)?)
        };
        let windows = runs.iter().map(window).collect::<Result<Vec<_>, _>>()?;
        if let Ok(id) = i32::try_from(self.perf.0.id()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGINT);
        }
        if !ended(&mut self.perf.0, target)? {
            return Err(NoSamples::Perf("perf did not end".into()));
        }
        read(&self.data.path().join("samples"), target, &windows)
    }

    /// What perf says against it, in a line.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(errors) = self.perf.0.stderr.take() {
            let _ = errors.take(4_096).read_to_string(&mut text);
        }
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let said = lines.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        format!("perf ended at once: {said}")
    }
}

/// Named pipes for requests to perf and for its answers, and the argument that names both. This side keeps both ends of
/// each, so that neither side waits for the other to open its own.
fn pipes(directory: &Path) -> std::io::Result<([File; 2], String)> {
    let [requests, answers] = ["requests", "answers"].map(|name| directory.join(name));
    let open = |path: &Path| {
        mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        File::options().read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
    };
    let control = format!("--control=fifo:{},{}", requests.display(), answers.display());
    Ok(([open(&requests)?, open(&answers)?], control))
}

/// Waits until a program has ended, and serves the target meanwhile, which otherwise would find its
/// device gone.
fn ended(program: &mut Child, target: &mut dyn Target) -> Result<bool, NoSamples> {
    let deadline = target.clock().now() + END;
    while target.clock().now() < deadline {
        target.serve_for(Duration::from_millis(10))?;
        if program.try_wait()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A time of ours as seconds of the system's monotonic clock.
fn monotonic(target: &dyn Target, at: Time) -> Result<f64, NoSamples> {
    let clock = target.clock();
    let system = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(std::io::Error::from)?;
    let ago = clock.now().since(at).as_secs();
    Ok(system.tv_sec() as f64 + system.tv_nsec() as f64 / 1e9 - ago)
}

/// Has perf turn the samples into names.
fn read(
    samples: &Path,
    target: &mut dyn Target,
    windows: &[Range<f64>],
) -> Result<Samples, NoSamples> {
    let list = samples.with_extension("txt");
    let script = Command::new("perf")
        .args(["script", "--fields", "time,ip,sym", "--input"])
        .arg(samples)
        .stdin(Stdio::null())
        .stdout(File::create(&list)?)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let mut script = Ended(script);
    if !ended(&mut script.0, target)? {
        return Err(NoSamples::Perf("perf did not finish reading its samples".into()));
    }
    let mut text = Vec::new();
    File::open(&list)?.take(MOST_OUTPUT).read_to_end(&mut text)?;
    Ok(count(&String::from_utf8_lossy(&text), windows))
}

/// Counts the lines of `perf script` whose time is within one of the windows: each a time in seconds with
/// a colon, an address and a function's name.
fn count(list: &str, windows: &[Range<f64>]) -> Samples {
    let mut samples = Samples::default();
    for line in list.lines() {
        let mut words = line.split_whitespace();
        let time = words.next().and_then(|word| word.strip_suffix(':')?.parse().ok());
        let address = words.next().filter(|word| u64::from_str_radix(word, 16).is_ok());
        let (Some(time), Some(_), Some(name)) = (time, address, words.next()) else { continue };
        if !windows.iter().any(|window| window.contains(&time)) {
            continue;
        }
        let is_of = |names: &[&str]| names.iter().any(|beginning| name.starts_with(beginning));
        let kind = match () {
            () if is_of(&COPIES) => &mut samples.copy,
            () if is_of(&PROTOCOL) => &mut samples.protocol,
            () => &mut samples.rest,
        };
        *kind += 1;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_functions_that_copy_are_told_from_the_rest_within_the_run() {
        let list = " 12.000100:  6026a1f0 memcpy_orig\n\
                    12.000300:  60123456 __netif_receive_skb_core.constprop.0\n\n\
                    12.000500:  7fff1234 [unknown]\n12.000700: ffffffff81000000 copy_page_to_iter\n\
                    12.000800: nonsense memcpy\n12.000900:  6026a1f0\n6026a1f0 memcpy\n\
                    11.999900:  6026a1f0 memcpy\n12.5: 6026a1f0 memcpy\n";
        let samples = count(list, &[12.0..12.5]);
        assert_eq!(samples, Samples { copy: 2, protocol: 1, rest: 1 });
        assert_eq!((samples.copy_share(), Samples::time_ns(3)), (0.5, 600_000.0));
        assert_eq!(count(list, &[11.0..12.0, 12.0..12.0002]).copy, 2, "of two runs");
    }

    proptest! {
        #[test]
        fn no_text_is_counted_more_often_than_it_has_lines(text in "[0-9a-f.: \n]{0,400}") {
            prop_assert!(count(&text, &[0.0..1e9]).count() <= text.lines().count() as u64);
        }
    }
}
