//! DPDK's `testpmd`, one that only transmits into one that only receives, over a link between two
//! processes.
//!
//! Both are told what to do line by line on standard input, and stopped while others are measured: a
//! core of theirs that does not forward sleeps. What they print comes through a terminal of its own,
//! because into a pipe they would write only once a buffer is full. The kernel ends them if we go
//! without doing so (`setpriv --pdeathsig`).

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;
use warikomi_target::Interrupted;
use warikomi_target::cores::Pinned;

use crate::way::{Failure, Running, Sample, Setup, Way, threads_of, waited_ns};

const PROGRAM: &str = "dpdk-testpmd";
const PACKAGE: &str = "dpdk-dev";

/// How long a process may take to start, to answer, and until packets come: seldom a second, but
/// others may have the cores. One that ends is found out at once.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const FLOW_TIMEOUT: Duration = Duration::from_secs(30);
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks at whether packets come.
const LOOK: Duration = Duration::from_millis(100);

/// Packet buffers of a process: more than its rings and caches hold together.
const BUFFERS: usize = 4_096;
/// Room in a buffer before the packet, and the least for the packet, as DPDK has them by default.
const HEADROOM_BYTES: usize = 128;
const LEAST_BUFFER_BYTES: usize = 2_048;
/// What DPDK keeps beside each buffer, and beside all of them, at most.
const BESIDE_A_BUFFER_BYTES: usize = 256;
const BESIDE_ALL_MB: usize = 64;

/// What is kept of a process's output.
const MOST_OUTPUT_BYTES: usize = 32 * 1_024;
/// What is shown of it when something goes wrong.
const LAST_WORDS_CHARACTERS: usize = 300;

/// What connects the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Shared memory that the sender makes, without its zero copy, which needs huge pages.
    Memif,
    /// The sender is the device and the receiver drives it, as NIC and driver.
    VhostToVirtio,
    /// The other way around.
    VirtioToVhost,
}

/// One side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Sender,
    Receiver,
}

impl Link {
    pub(super) const ALL: [Link; 3] = [Link::Memif, Link::VhostToVirtio, Link::VirtioToVhost];

    /// Who has to be there first, because the other connects to it.
    fn listener(self) -> Side {
        match self {
            Link::Memif | Link::VirtioToVhost => Side::Receiver,
            Link::VhostToVirtio => Side::Sender,
        }
    }

    /// A side's device, as `--vdev` takes it.
    fn device(self, side: Side, socket: &Path, size_bytes: usize) -> String {
        let socket = socket.display();
        match (self, side == self.listener()) {
            (Link::Memif, listens) => {
                let role = if listens { "server" } else { "client" };
                // A packet that does not fit would be split.
                let buffer = size_bytes.next_power_of_two().max(LEAST_BUFFER_BYTES);
                format!(
                    "net_memif0,id=0,role={role},socket={socket},socket-abstract=no,bsize={buffer}"
                )
            }
            (_, true) => format!("net_vhost0,iface={socket},queues=1"),
            (_, false) => format!("net_virtio_user0,path={socket},queues=1"),
        }
    }
}

impl Way for Link {
    fn name(&self) -> &'static str {
        match self {
            Link::Memif => "memif",
            Link::VhostToVirtio => "vhost",
            Link::VirtioToVhost => "virtio",
        }
    }

    fn description(&self) -> &'static str {
        match self {
            Link::Memif => {
                "two testpmd (txonly into rxonly, bursts of 32, no huge pages) over memif, rings of \
                 1,024; each packet is copied twice, into shared memory by the sender and out of \
                 it by the receiver; of what it sends, the sender writes the headers only"
            }
            Link::VhostToVirtio => {
                "two testpmd, the same, from a vhost-user device to its virtio-user driver, ring of \
                 256; each packet is copied once, by the device into the driver's buffer"
            }
            Link::VirtioToVhost => {
                "two testpmd, the same, from a virtio-user driver to its vhost-user device, ring of \
                 256; each packet is copied once, by the device out of the driver's buffer"
            }
        }
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Running>, Failure> {
        let program =
            find(PROGRAM).ok_or(Failure::NotInstalled { program: PROGRAM, package: PACKAGE })?;
        Ok(Box::new(Pair::start(*self, &program, setup)?))
    }
}

/// Where a program is that can be started by its name alone.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Both processes, connected, and not forwarding.
struct Pair {
    sender: Testpmd,
    receiver: Testpmd,
    setup: Setup,
    /// Has the socket; goes last.
    _dir: TempDir,
}

impl Pair {
    fn start(link: Link, program: &Path, setup: &Setup) -> Result<Pair, Failure> {
        let dir = tempfile::Builder::new()
            .prefix("warikomi-")
            .tempdir()
            .map_err(Failure::system("cannot make a directory for testpmd's socket"))?;
        let socket = dir.path().join("link");
        let start = |side| {
            let device = link.device(side, &socket, setup.size_bytes);
            Testpmd::start(&mut command(program, side, &device, dir.path(), setup), side, setup)
        };
        // One that connects does so once: the other must not only have made its socket by then, but be
        // listening on it.
        let ready = |side| -> Result<Testpmd, Failure> {
            let mut testpmd = start(side)?;
            testpmd.wait_for("testpmd>", START_TIMEOUT)?;
            Ok(testpmd)
        };
        let (sender, receiver) = if link.listener() == Side::Sender {
            let sender = ready(Side::Sender)?;
            (sender, ready(Side::Receiver)?)
        } else {
            let receiver = ready(Side::Receiver)?;
            (ready(Side::Sender)?, receiver)
        };
        Ok(Pair { sender, receiver, setup: setup.clone(), _dir: dir })
    }

    fn stop_forwarding(&mut self) -> Result<(), Failure> {
        for testpmd in [&mut self.sender, &mut self.receiver] {
            testpmd.say("stop")?;
        }
        for testpmd in [&mut self.sender, &mut self.receiver] {
            testpmd.wait_for("Accumulated forward statistics", ANSWER_TIMEOUT)?;
        }
        Ok(())
    }

    /// Waits until packets come, which they do not while the two still connect.
    fn wait_for_packets(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + FLOW_TIMEOUT;
        while self.receiver.statistics()?.packets_per_second == 0 {
            if Instant::now() > deadline {
                return Err(self
                    .receiver
                    .failed(&format!("no packet came within {FLOW_TIMEOUT:?}")));
            }
            self.pause(LOOK)?;
        }
        Ok(())
    }

    fn pause(&self, span: Duration) -> Result<(), Failure> {
        std::thread::sleep(span);
        if self.setup.interrupted.is_set() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

impl Running for Pair {
    fn measure(&mut self) -> Result<Sample, Failure> {
        self.receiver.say("start")?;
        self.sender.say("start")?;
        self.wait_for_packets()?;
        self.pause(self.setup.warm_up)?;
        let threads: Vec<u32> = [&self.sender, &self.receiver]
            .iter()
            .flat_map(|testpmd| threads_of(testpmd.child.id()))
            .collect();
        // Rates are counted since the last look.
        self.receiver.statistics()?;
        let (from, waited_before) = (Instant::now(), waited_ns(&threads));
        self.pause(self.setup.measured)?;
        let seen = self.receiver.statistics()?;
        let (took, waited) = (from.elapsed(), waited_ns(&threads).saturating_sub(waited_before));
        self.stop_forwarding()?;
        // Exact only now that nothing comes any more.
        let all = self.receiver.statistics()?;
        if all.bytes != all.packets.saturating_mul(self.setup.size_bytes as u64) {
            let what = format!(
                "{} packets of {} bytes cannot have {} bytes",
                all.packets, self.setup.size_bytes, all.bytes
            );
            return Err(self.receiver.failed(&what));
        }
        Ok(Sample {
            packets_per_second: seen.packets_per_second as f64,
            waited_share: waited as f64 / 1e9 / (2.0 * took.as_secs_f64()),
        })
    }
}

/// What starts a side. It stays on its core with all of its threads.
fn command(program: &Path, side: Side, device: &str, dir: &Path, setup: &Setup) -> Command {
    let core = side.core(setup);
    let buffer_bytes = setup.size_bytes.max(LEAST_BUFFER_BYTES) + HEADROOM_BYTES;
    let memory_mb = BUFFERS * (buffer_bytes + BESIDE_A_BUFFER_BYTES) / 1_000_000 + BESIDE_ALL_MB;
    let mode = match side {
        Side::Sender => "txonly",
        Side::Receiver => "rxonly",
    };
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        // Core 0 of DPDK reads commands, core 1 forwards.
        .args([format!("--lcores=0@{core},1@{core}"), "--main-lcore=0".into()])
        .args(["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry"])
        .args([format!("-m {memory_mb}"), format!("--vdev={device}")])
        .arg("--")
        .args(["-i", "--nb-cores=1", "--no-lsc-interrupt", "--disable-link-check"])
        // Before the length of packets, which must not be longer than a buffer.
        .args([format!("--total-num-mbufs={BUFFERS}"), format!("--mbuf-size={buffer_bytes}")])
        .arg(format!("--forward-mode={mode}"))
        // Where DPDK makes a directory of its own.
        .envs(["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"].map(|name| (name, dir)))
        .process_group(0);
    if side == Side::Sender {
        command.arg(format!("--txpkts={}", setup.size_bytes));
    }
    command
}

impl Side {
    fn core(self, setup: &Setup) -> usize {
        match self {
            Side::Sender => setup.cores.support,
            Side::Receiver => setup.cores.target,
        }
    }
}

/// A running testpmd; dropping it ends it.
struct Testpmd {
    child: Child,
    terminal: File,
    /// What it has printed and nobody has looked at.
    output: String,
    interrupted: Interrupted,
}

impl Testpmd {
    fn start(command: &mut Command, side: Side, setup: &Setup) -> Result<Testpmd, Failure> {
        let terminal = openpty(None, None)
            .map_err(Failure::system("cannot make a terminal for testpmd to print on"))?;
        let for_errors =
            terminal.slave.try_clone().map_err(Failure::system("cannot share a terminal"))?;
        let _pinned = Pinned::to(side.core(setup))
            .map_err(Failure::system("cannot pin testpmd to its core"))?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(terminal.slave)
            .stderr(for_errors)
            .spawn()
            .map_err(Failure::system("cannot start testpmd by setpriv (of util-linux)"))?;
        // The command keeps copies of the terminal that would hide that the process is gone.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Testpmd {
            child,
            terminal: terminal.master.into(),
            output: String::new(),
            interrupted: setup.interrupted.clone(),
        })
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        self.output.clear();
        let said = self.child.stdin.as_mut().map(|input| writeln!(input, "{line}"));
        match said {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed("testpmd has ended")),
        }
    }

    /// Waits for these words in what it prints since it was last spoken to.
    fn wait_for(&mut self, words: &str, timeout: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + timeout;
        while !self.output.contains(words) {
            if Instant::now() > deadline {
                let what = format!("testpmd did not say \"{words}\" within {timeout:?}");
                return Err(self.failed(&what));
            }
            self.listen()?;
        }
        Ok(())
    }

    /// Takes what it prints, for a moment.
    fn listen(&mut self) -> Result<(), Failure> {
        const MOMENT_MS: u8 = 20;
        if self.interrupted.is_set() {
            return Err(Failure::Interrupted);
        }
        let mut polled = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PollTimeout::from(MOMENT_MS)).unwrap_or(0) == 0 {
            return Ok(());
        }
        let mut bytes = [0; 4_096];
        match self.terminal.read(&mut bytes) {
            // A terminal that nobody has open any more gives an error, EIO.
            Ok(0) => Err(self.failed("testpmd has ended")),
            Ok(read) => {
                self.output.push_str(&String::from_utf8_lossy(&bytes[..read]));
                keep_end(&mut self.output, MOST_OUTPUT_BYTES);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(self.failed("testpmd has ended")),
        }
    }

    fn statistics(&mut self) -> Result<Statistics, Failure> {
        self.say("show port stats 0")?;
        self.wait_for("Tx-bps:", ANSWER_TIMEOUT)?;
        match Statistics::parse(&self.output) {
            Some(statistics) => Ok(statistics),
            None => Err(self.failed("testpmd's statistics are in another form than known")),
        }
    }

    fn failed(&self, what: &str) -> Failure {
        let mut words: String = self.output.split_whitespace().collect::<Vec<_>>().join(" ");
        keep_end(&mut words, LAST_WORDS_CHARACTERS);
        Failure::Program { what: what.to_owned(), last_words: words }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It has nothing to save: what it made is in its memory and in our directory.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let deadline = Instant::now() + END_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Removes what is before the last `bytes`.
fn keep_end(text: &mut String, bytes: usize) {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.drain(..from);
}

/// What came in at a port: in all, and in a second since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Statistics {
    packets: u64,
    bytes: u64,
    packets_per_second: u64,
}

impl Statistics {
    fn parse(output: &str) -> Option<Statistics> {
        let number = |name: &str| -> Option<u64> {
            let (_, behind) = output.rsplit_once(name)?;
            behind.split_ascii_whitespace().next()?.parse().ok()
        };
        Some(Statistics {
            packets: number("RX-packets:")?,
            bytes: number("RX-bytes:")?,
            packets_per_second: number("Rx-pps:")?,
        })
    }
}

#[cfg(test)]
mod tests;
