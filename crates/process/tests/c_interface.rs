//! The C interface against the Rust one: the example in C receives what the driver's side of a
//! channel gives it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use warikomi_driver::{Buffer, Received, RxSink, Upper};
use warikomi_pci::attach::layout::PACKET_BUS_ADDRESS;
use warikomi_pci::{DmaMemory, SharedMemory};
use warikomi_process::programs::{Above, above_driver};
use warikomi_stack::{Chain, ChainOptions, ChannelUpper, Station, Topology, Waiting};

/// Long enough for any machine; nothing is measured with it.
const PATIENCE: Duration = Duration::from_secs(60);

const C: [&str; 4] = ["cc", "-std=c11", "-x", "c"];
const CXX: [&str; 4] = ["g++", "-std=c++17", "-x", "c++"];

fn compile(directory: &Path, [compiler, language @ ..]: [&str; 4]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = directory.join(format!("vi_receive_{compiler}"));
    let output = Command::new(compiler)
        .args(language)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-I"])
        .arg(root.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(root.join("examples/c/vi_receive.c"))
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot run {compiler}: {error}; scripts/setup test installs it")
        });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

struct Driver {
    upper: ChannelUpper,
    memory: SharedMemory,
    ring: Vec<Buffer>,
    made: u64,
    sum: u64,
    sent: u64,
}

fn start(program: &Path, count: u64, way: &str) -> (Driver, Child, std::os::fd::OwnedFd) {
    let options = ChainOptions {
        topology: Topology::Application,
        application_buffers: 64,
        stack_buffers: 0,
        buffer_bytes: 2_048,
        station: Station { mac: [2; 6], address: Ipv4Addr::LOCALHOST, prefix_bits: 24 },
        hosts: Vec::new(),
        tcp_port: None,
        waiting: Waiting::Wait,
        copy_out: false,
        tsc_hz: 1_000_000_000,
    };
    let mut chain = Chain::build(&options).unwrap();
    let part = chain.parts.pop().unwrap();
    let mut command = Command::new(program);
    command.args([count.to_string().as_str(), way]);
    let link = part.prepare(&mut command);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (packets, file) = chain.memory.take().unwrap();
    let bytes = packets.shape().file_bytes() as usize;
    let memory = SharedMemory::from_file(PACKET_BUS_ADDRESS, file, 0, bytes).unwrap();
    let files = vec![chain.driver.take().unwrap().socket().unwrap()];
    let Above::Channel(upper) = above_driver(files).unwrap() else { panic!("no channel") };
    (Driver { upper: *upper, memory, ring: Vec::new(), made: 0, sum: 0, sent: 0 }, child, link)
}

impl Driver {
    /// Receives one frame more, if there is a buffer; sends what is to be sent.
    fn step(&mut self, wanted: u64) {
        while let Some(buffer) = self.upper.buffer() {
            self.ring.push(buffer);
        }
        if self.made < wanted
            && let Some(buffer) = self.ring.pop()
        {
            let length = 60 + (self.made % 1_400) as usize;
            let frame = vec![self.made as u8; length];
            self.memory.write(buffer.address, &frame).unwrap();
            let bytes = length as u32;
            self.upper.received(buffer, Received { bytes, checksums_good: true });
            self.sum += u64::from(self.made as u8) * length as u64;
            self.made += 1;
        }
        while let Some(transmit) = self.upper.next_transmit() {
            self.sent += 1;
            self.upper.sent(transmit.token());
        }
        self.upper.flush();
    }
}

#[test]
fn a_program_in_c_receives_everything_in_place() {
    receives_everything(C);
}

#[test]
fn a_program_in_cxx_receives_everything_in_place() {
    receives_everything(CXX);
}

fn receives_everything(language: [&str; 4]) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), language);
    for way in ["poll", "wait", "hybrid"] {
        const COUNT: u64 = 20_000;
        let (mut driver, mut child, _link) = start(&program, COUNT, way);
        let deadline = Instant::now() + PATIENCE;
        let mut passes = 0u64;
        while child.try_wait().unwrap().is_none() {
            for _ in 0..64 {
                driver.step(COUNT);
            }
            passes += 1;
            if passes.is_multiple_of(8) {
                // So that the program sleeps now and then.
                std::thread::sleep(Duration::from_micros(300));
            }
            assert!(Instant::now() < deadline, "{way}: it does not end");
        }
        driver.step(COUNT);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{way}: {}", String::from_utf8_lossy(&output.stderr));
        let bytes: u64 = (0..COUNT).map(|number| 60 + number % 1_400).sum();
        let expected = format!("{COUNT} packets, {bytes} bytes, sum {}, ", driver.sum);
        assert!(said.starts_with(&expected), "{way}: {said} instead of {expected}");
        assert!(said.ends_with("0 refused\n"), "{way}: {said}");
        assert!(driver.sent > 0, "{way}: nothing was sent back");
        assert_eq!(driver.upper.refusals().total(), 0);
    }
}

#[test]
fn a_program_in_c_is_told_when_the_driver_or_the_support_side_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), C);
    for (way, driver_goes) in [("wait", true), ("poll", true), ("hybrid", false)] {
        let (mut driver, mut child, link) = start(&program, 1_000, way);
        for _ in 0..100 {
            driver.step(10);
        }
        let (mut driver, mut link) = (Some(driver), Some(link));
        if driver_goes {
            driver = None;
        } else {
            link = None;
        }
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{way}: it does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop((driver, link));
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let who = if driver_goes { "the neighbour below" } else { "the support side" };
        assert!(said.contains(who) && said.contains("is gone"), "{way}: {said}");
    }
}
