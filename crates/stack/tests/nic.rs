//! The whole way, from a NIC's model through a driver process to an application that accounts for
//! what it gets, in each topology.
//!
//! The support side here is the least that can serve a driver; the real one is `warikomi-target`'s.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use warikomi_clock::{TscClock, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_guest::commands::{ReceiveStart, ReceiveStatus, ReceiveStop};
use warikomi_guest::payload::Head;
use warikomi_guest::{Command as AgentCommand, Envelope, Response};
use warikomi_nic::wire::CountedSink;
use warikomi_nic::{Frame, Nic};
use warikomi_pci::attach::Access;
use warikomi_pci::attach::layout::{self, bells, header, orders, report, state};
use warikomi_pci::{Host, Interrupt, IntrLine, SharedMemory};
use warikomi_shared::{Bell, Consumer, SharedWords, Tally, Words, create_region, send};
use warikomi_stack::{Chain, ChainOptions, Event, Station, Topology, Waiting, programs};

const PART: &str = "WARIKOMI_TEST_PART";
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PORT: u16 = 5_001;
const RUN: u32 = 7;
const DMA_BYTES: u64 = 1 << 20;
/// Longer than a busy machine can make anybody wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test: what the re-executed binary runs.
#[test]
fn part() {
    let Ok(part) = std::env::var(PART) else { return };
    let outcome = match part.as_str() {
        "application" => programs::application::main(),
        "stack" => programs::stack::main(),
        "driver" => programs::driver::main("rtl8168"),
        other => panic!("no part {other}"),
    };
    if let Err(error) = &outcome {
        eprintln!("{part}: {error}");
    }
    std::process::exit(if outcome.is_ok() { 0 } else { 3 });
}

fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "part", "--nocapture"]).env(PART, name).stdout(Stdio::null());
    command
}

struct Line {
    tally: Tally<SharedWords>,
    bell: Bell<SharedWords, Event>,
}

impl IntrLine for Line {
    fn signal(&mut self, interrupt: Interrupt) {
        if let Interrupt::Msi(_) = interrupt {
            self.tally.add();
            self.bell.ring();
        }
    }
}

/// Processes that do not outlive the test.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct World {
    words: SharedWords,
    memory: SharedMemory,
    requests: Consumer<SharedWords>,
    line: Line,
    nic: Box<dyn Nic>,
    clock: TscClock,
    control: UnixStream,
    next_id: u64,
    children: Children,
    _links: Vec<OwnedFd>,
}

fn region(packet_bytes: u64, strategy: Strategy) -> (File, SharedWords) {
    let file = create_region("warikomi-test", layout::WINDOW_BYTES).unwrap();
    let bytes = layout::WINDOW_BYTES as usize;
    let words = SharedWords::map(file.try_clone().unwrap(), 0, bytes).unwrap();
    let [code, poll_ns, budget, ppm] = strategy.to_orders();
    for (at, value) in [
        (header::MAGIC, layout::MAGIC),
        (header::VERSION, layout::VERSION),
        (header::WINDOW_BYTES, layout::WINDOW_BYTES),
        (header::DMA_BYTES, DMA_BYTES),
        (header::DMA_BUS_ADDRESS, layout::DMA_BUS_ADDRESS),
        (header::PACKET_BYTES, packet_bytes),
        (header::PACKET_BUS_ADDRESS, layout::PACKET_BUS_ADDRESS),
        (header::REGISTER_BAR, 2),
        (header::TSC_HZ, 2_000_000_000),
        (orders::STRATEGY, code),
        (orders::POLL_NS, poll_ns),
        (orders::BUDGET, budget),
        (orders::CPU_BUDGET_PPM, ppm),
    ] {
        words.store(at, value, Release);
    }
    (file, words)
}

fn start_driver(files: &[BorrowedFd<'_>]) -> (Child, OwnedFd) {
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    send(&near, layout::HELLO, files).unwrap();
    fcntl_setfd(&far, FdFlags::empty()).unwrap();
    let number = far.as_raw_fd().to_string();
    let mut command = command("driver");
    (command.env(layout::SOCKET_VARIABLE, number).stdin(Stdio::null()).spawn().unwrap(), near)
}

impl World {
    fn start(topology: Topology, strategy: Strategy) -> World {
        let mut chain = Chain::build(&ChainOptions {
            topology,
            application_buffers: 512,
            stack_buffers: 32,
            buffer_bytes: 2_048,
            station: Station { mac: [2, 0, 0, 0, 0, 1], address: GUEST, prefix_bits: 24 },
            hosts: vec![(NETWORK, [2, 0, 0, 0, 0, 2])],
            tcp_port: None,
            waiting: Waiting::Wait,
            copy_out: false,
            tsc_hz: 2_000_000_000,
        })
        .unwrap();
        let (packets, packet_file) = chain.memory.take().unwrap();
        let packet_bytes = packets.shape().file_bytes();
        let (file, words) = region(packet_bytes, strategy);
        let event = Event::create().unwrap();
        // The other parts first: the driver's socket is inherited, and must not be by them.
        let (mut children, mut links) = (Children(Vec::new()), Vec::new());
        for part in chain.parts.drain(..) {
            let mut command = command(part.name);
            links.push(part.prepare(&mut command));
            children.0.push(command.spawn().unwrap());
        }
        let dma = create_region("warikomi-test", DMA_BYTES).unwrap();
        let invitation = chain.driver.take().unwrap().socket().unwrap();
        let (driver, link) = start_driver(&[
            file.as_fd(),
            event.as_fd(),
            dma.as_fd(),
            packet_file.as_fd(),
            invitation.as_fd(),
        ]);
        children.0.push(driver);
        links.push(link);
        let ranges = [
            (dma, layout::DMA_BUS_ADDRESS, DMA_BYTES),
            (packet_file, layout::PACKET_BUS_ADDRESS, packet_bytes),
        ]
        .map(|(file, base, bytes)| {
            (GuestAddress(base), bytes as usize, Some(FileOffset::new(file, 0)))
        });
        let control = chain.control.take().unwrap();
        control.set_nonblocking(true).unwrap();
        World {
            memory: SharedMemory::new(GuestMemoryMmap::from_ranges_with_files(ranges).unwrap()),
            requests: Consumer::new(words.clone(), layout::REQUESTS),
            line: Line {
                tally: Tally::new(words.clone(), bells::INTERRUPTS),
                bell: Bell::new(words.clone(), bells::SLEEPING, event),
            },
            nic: warikomi_nic::build(
                &warikomi_nic::NicOptions::of("rtl8168"),
                Box::new(CountedSink::new()),
            )
            .unwrap(),
            clock: TscClock::with_frequency(read_tsc(), 2e9),
            control,
            next_id: 1,
            children,
            _links: links,
            words,
        }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        let now = self.clock.now();
        let mut host = Host { now, memory: &self.memory, interrupts: &mut self.line };
        call(&mut *self.nic, &mut host)
    }

    fn poll(&mut self) {
        while let Some(entry) = self.requests.pop().unwrap() {
            let access = Access::from_entry(entry).unwrap();
            let answer = self.with(|nic, host| access.carry_out(nic, host));
            if let Some((number, value)) = answer {
                self.words.store(bells::ANSWER, value, Relaxed);
                self.words.store(bells::ANSWERED, number, Release);
            }
            self.requests.release();
        }
        self.with(|nic, host| nic.poll(host));
    }

    fn serve_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            self.poll();
            assert!(begun.elapsed() < PATIENCE, "waited in vain for: {what}");
            assert_ne!(self.words.load(report::STATE, Acquire), state::FAILED, "{what}");
            std::thread::yield_now();
        }
    }

    fn ask<C: AgentCommand>(&mut self, command: C) -> C::Answer {
        let line = Envelope::new(self.next_id, command).to_line();
        self.next_id += 1;
        self.control.write_all(line.as_bytes()).unwrap();
        let mut answer = Vec::new();
        self.serve_until("an answer", |world| {
            let mut buffer = [0; 4_096];
            match world.control.read(&mut buffer) {
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            answer.ends_with(b"\n")
        });
        let text = String::from_utf8(answer).unwrap();
        Response::parse(&text).unwrap().into_answer().unwrap()
    }

    fn inject(&mut self, packets: u64) {
        for sequence in 0..packets {
            let mut frame = Vec::new();
            let mut payload = vec![3; 200];
            payload[..16].copy_from_slice(&Head { run_id: RUN, sequence }.to_bytes());
            PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [0xff; 6])
                .ipv4(NETWORK.octets(), GUEST.octets(), 64)
                .udp(PORT, PORT)
                .write(&mut frame, &payload)
                .unwrap();
            self.serve_until("room on the ring", |world| {
                world.with(|nic, host| nic.rx_free(host, 1)) > 0
            });
            self.with(|nic, host| nic.receive(host, Frame::new(&frame)));
        }
    }
}

fn every_datagram_arrives(topology: Topology, strategy: Strategy) {
    const PACKETS: u64 = 20_000;
    let mut world = World::start(topology, strategy);
    world.serve_until("the driver to be ready", |world| {
        world.words.load(report::STATE, Acquire) == state::READY
    });
    world.ask(ReceiveStart::on_port(PORT, RUN));
    world.inject(PACKETS);
    let begun = Instant::now();
    while world.ask(ReceiveStatus {}).delivered < PACKETS {
        assert!(begun.elapsed() < PATIENCE, "{:?}", world.ask(ReceiveStatus {}));
    }
    let totals = world.ask(ReceiveStop {});
    assert_eq!((totals.delivered, totals.datagrams), (PACKETS, PACKETS), "{totals:?}");
    assert_eq!((totals.duplicates, totals.out_of_order, totals.socket_drops), (0, 0, 0));
    world.words.store(orders::STOP, 1, Release);
    world.line.bell.ring();
    world.serve_until("the driver to stop", |world| {
        world.words.load(report::STATE, Acquire) == state::STOPPED
    });
    assert_eq!(world.words.load(report::RX_DROPPED, Acquire), 0);
    assert_eq!(world.words.load(report::RX_PACKETS, Acquire), PACKETS);
    let mut driver = world.children.0.pop().unwrap();
    assert!(driver.wait().unwrap().success());
}

fn strategies() -> [Strategy; 2] {
    ["interrupt", "hybrid"].map(|name| name.parse().unwrap())
}

#[test]
fn an_application_in_the_drivers_process_gets_every_datagram() {
    for strategy in strategies() {
        every_datagram_arrives(Topology::Direct, strategy);
    }
}

#[test]
fn an_application_above_the_driver_gets_every_datagram() {
    for strategy in strategies() {
        every_datagram_arrives(Topology::Application, strategy);
    }
}

#[test]
fn an_application_above_stack_and_driver_gets_every_datagram() {
    for strategy in strategies() {
        every_datagram_arrives(Topology::Stack, strategy);
    }
}

#[test]
fn a_driver_whose_application_was_killed_says_so_in_its_last_words() {
    for strategy in strategies() {
        let mut world = World::start(Topology::Application, strategy);
        world.serve_until("the driver to be ready", |world| {
            world.words.load(report::STATE, Acquire) == state::READY
        });
        world.children.0[0].kill().unwrap();
        let begun = Instant::now();
        while world.words.load(report::STATE, Acquire) != state::FAILED {
            world.poll();
            assert!(begun.elapsed() < PATIENCE, "the driver does not notice");
            std::thread::yield_now();
        }
        let bytes = world.words.load(report::LAST_WORDS_LEN, Acquire) as usize;
        let words = (0..bytes.div_ceil(8)).map(|at| report::LAST_WORDS + at);
        let text: Vec<u8> =
            words.flat_map(|at| world.words.load(at, Relaxed).to_le_bytes()).collect();
        let text = String::from_utf8_lossy(&text[..bytes]).into_owned();
        assert!(text.contains("the application is gone"), "{text}");
    }
}
