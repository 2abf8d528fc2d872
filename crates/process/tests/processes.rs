//! The packet path as real processes: this test binary runs itself again as each of the parts.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use fake::DriverProcess;
use parts::{GUEST, NETWORK, PATIENCE, PORT};
use warikomi_clock::{Seed, TscClock};
use warikomi_process::programs;
use warikomi_protocol::answers::ReceiveTotals;
use warikomi_protocol::commands::{
    ReceiveRuns, ReceiveStart, ReceiveStatus, ReceiveStop, Transmit,
};
use warikomi_protocol::{Command as AgentCommand, Envelope, Response};
use warikomi_stack::{Chain, ChainOptions, Station, Topology, Waiting};

#[path = "parts/driver.rs"]
mod fake;
mod parts;

const RUN: u32 = 77;

/// Not a test: what the re-executed binary runs.
#[test]
#[ignore = "another test starts it, in a process of its own"]
fn part() {
    parts::run_if_asked(&[
        ("application", programs::application::main),
        ("stack", programs::stack::main),
        ("driver", fake::main),
    ]);
}

fn options(topology: Topology, waiting: Waiting) -> ChainOptions {
    ChainOptions {
        topology,
        application_buffers: 256,
        stack_buffers: 32,
        buffer_bytes: 2_048,
        station: Station { mac: [2, 0, 0, 0, 0, 1], address: GUEST, prefix_bits: 24 },
        hosts: vec![(NETWORK, [2, 0, 0, 0, 0, 2])],
        tcp_port: None,
        waiting,
        copy_out: false,
        tsc_hz: TscClock::calibrate().unwrap().ticks_per_second() as u64,
    }
}

fn start(name: &str, give: impl FnOnce(&mut Command) -> OwnedFd) -> (Running, OwnedFd) {
    let mut command = parts::command(name);
    command.stderr(Stdio::piped());
    let link = give(&mut command);
    (Running { name: name.to_owned(), child: command.spawn().unwrap() }, link)
}

struct Running {
    name: String,
    child: Child,
}

impl Running {
    /// Its exit code (`None`: a signal) and what it said.
    fn end(mut self) -> (String, Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.name.clone(), self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A whole path, running.
struct World {
    parts: Vec<Running>,
    links: Vec<OwnedFd>,
    driver: DriverProcess,
    control: BufReader<UnixStream>,
    next_id: u64,
}

impl World {
    fn start(options: &ChainOptions) -> World {
        let mut chain = Chain::build(options).unwrap();
        let (mut parts, mut links) = (Vec::new(), Vec::new());
        for part in chain.parts.drain(..) {
            let (running, link) = start(part.name, |command| part.prepare(command));
            parts.push(running);
            links.push(link);
        }
        let invitation = chain.driver.take().unwrap().socket().unwrap();
        let packets = chain.memory.take().unwrap().1;
        let (driver, running) = DriverProcess::start(vec![packets.into(), invitation], start);
        parts.push(running);
        let control = chain.control.take().unwrap();
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        World { parts, links, driver, control: BufReader::new(control), next_id: 1 }
    }

    fn ask<C: AgentCommand>(&mut self, command: C) -> C::Answer {
        let line = Envelope::new(self.next_id, command).to_line();
        self.control.get_mut().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.control.read_line(&mut answer).unwrap();
        let response = Response::parse(&answer).unwrap();
        assert_eq!(response.id, self.next_id);
        self.next_id += 1;
        response.into_answer().unwrap()
    }

    fn wait_for(&mut self, what: &str, done: impl Fn(&ReceiveTotals) -> bool) -> ReceiveTotals {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let totals = self.ask(ReceiveStatus {});
            if done(&totals) {
                return totals;
            }
            assert!(Instant::now() < deadline, "{what}: {totals:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
        .ipv4(NETWORK.octets(), GUEST.octets(), 64)
        .udp(PORT, port)
        .write(&mut bytes, payload)
        .unwrap();
    bytes
}

fn receives_all(topology: Topology, waiting: Waiting) {
    const PACKETS: u64 = 50_000;
    let mut world = World::start(&options(topology, waiting));
    world.ask(ReceiveStart::on_port(PORT, RUN));
    world.driver.send_frames(PACKETS, RUN, &frame(PORT, &[0; 200]));
    let totals = world.wait_for("all packets", |totals| totals.delivered == PACKETS);
    assert_eq!((totals.bytes, totals.duplicates), (PACKETS * 200, 0));
    assert_eq!((totals.out_of_order, totals.foreign, totals.socket_drops), (0, 0, 0));
    // A datagram for nobody, and one that is damaged, are not the application's.
    world.driver.send_frames(3, RUN, &frame(PORT + 1, &[0; 64]));
    world.driver.send_frames(2, RUN, &frame(PORT, &[0; 64])[..40]);
    world.driver.send_frames(1, RUN + 1, &frame(PORT, &[0; 64]));
    world.wait_for("another run's packet", |totals| totals.foreign == 1);
    let stopped = world.ask(ReceiveStop {});
    assert_eq!((stopped.delivered, stopped.datagrams), (PACKETS, PACKETS + 1));
    let runs = world.ask(ReceiveRuns { from: 0, max: 4_096 });
    let counted: u64 = runs.runs.iter().map(|run| run.1).sum();
    assert!(runs.total > 4_096 || counted == PACKETS);
    assert!(
        runs.runs.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0 && two[0].2 <= two[1].2)
    );
    // The orderly end: the support side closes its sockets.
    drop(world.links);
    drop(world.control);
    for (name, code, said) in world.parts.drain(..).map(Running::end) {
        let fine = code == Some(0) || said.contains("is gone");
        assert!(fine, "{name} ended with {code:?}: {said}");
    }
}

#[test]
fn an_application_above_a_driver_gets_every_datagram() {
    receives_all(Topology::Application, Waiting::Wait);
    receives_all(Topology::Application, Waiting::Hybrid { poll_ns: 50_000 });
}

#[test]
fn with_a_stack_in_between_it_gets_every_datagram() {
    receives_all(Topology::Stack, Waiting::Wait);
    receives_all(Topology::Stack, Waiting::Hybrid { poll_ns: 50_000 });
    receives_all(Topology::Stack, Waiting::Poll);
}

#[test]
fn datagrams_are_sent_with_their_headers_in_place() {
    let mut world = World::start(&options(Topology::Stack, Waiting::Hybrid { poll_ns: 20_000 }));
    let command = Transmit {
        count: 500,
        payload_bytes: 100,
        destination: format!("{NETWORK}:9"),
        run_id: RUN,
        interval_us: 0,
        vlan: None,
        timeout_ms: 10_000,
    };
    let outcome = world.ask(command);
    assert_eq!((outcome.sent, outcome.errors, outcome.timed_out), (500, 0, false));
    let (count, first) = world.driver.frames_sent(500);
    assert_eq!(count, 500);
    let parsed = etherparse::SlicedPacket::from_ethernet(&first).unwrap();
    let Some(etherparse::TransportSlice::Udp(udp)) = parsed.transport else { panic!("no UDP") };
    assert_eq!((udp.destination_port(), udp.payload().len()), (9, 100));
}

#[test]
fn a_full_socket_drops_and_counts_what_it_drops() {
    let mut world = World::start(&options(Topology::Stack, Waiting::Wait));
    let start = ReceiveStart { buffer_bytes: 150, ..ReceiveStart::on_port(PORT, RUN) };
    world.ask(start);
    world.driver.send_frames(20_000, RUN, &frame(PORT, &[0; 100]));
    let totals = world.wait_for("every packet somewhere", |totals| {
        totals.delivered + totals.socket_drops == 20_000
    });
    assert!(totals.delivered > 0);
    // And one that is longer than the whole buffer.
    world.driver.send_frames(1, RUN, &frame(PORT, &[0; 200]));
    world.wait_for("the long one", |after| after.socket_drops == totals.socket_drops + 1);
}

#[test]
fn ping_and_arp_are_answered() {
    let mut world = World::start(&options(Topology::Stack, Waiting::Wait));
    let mut echo = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
        .ipv4(NETWORK.octets(), GUEST.octets(), 64)
        .icmpv4_echo_request(5, 6)
        .write(&mut echo, b"who is there")
        .unwrap();
    // "Who has 10.9.0.1? Tell 10.9.0.2" (RFC 826).
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 9, 0, 2]);
    arp.extend([0, 0, 0, 0, 0, 0, 10, 9, 0, 1]);
    world.driver.send_raw(&arp);
    world.driver.send_raw(&echo);
    let (_, first) = world.driver.frames_sent(2);
    assert_eq!((first[12..14].to_vec(), first[21]), (vec![8, 6], 2), "an ARP reply");
    assert_eq!(first[22..28], [2, 0, 0, 0, 0, 1], "with our address");
}

/// Whoever dies, at whatever moment: the others end, and say why.
#[test]
fn a_part_that_is_killed_ends_the_others_with_a_clear_error() {
    let seed = Seed(warikomi_clock::read_tsc());
    println!("seed {seed:?}");
    let mut numbers = fake::numbers(seed);
    for round in 0..12 {
        let topology = if round % 4 == 3 { Topology::Application } else { Topology::Stack };
        let waiting = [Waiting::Wait, Waiting::Poll, Waiting::Hybrid { poll_ns: 30_000 }]
            [(numbers() % 3) as usize];
        let mut world = World::start(&options(topology, waiting));
        if !numbers().is_multiple_of(4) {
            world.ask(ReceiveStart::on_port(PORT, RUN));
            world.driver.send_frames(u64::MAX, RUN, &frame(PORT, &[0; 64]));
        }
        std::thread::sleep(Duration::from_micros(numbers() % 20_000));
        let victim = (numbers() % world.parts.len() as u64) as usize;
        world.parts[victim].child.kill().unwrap();
        for (index, running) in world.parts.drain(..).enumerate() {
            let (name, code, said) = running.end();
            if index == victim {
                assert_eq!(code, None, "{name}: {said}");
            } else {
                assert_eq!(code, Some(3), "{seed:?}, round {round}, {name}: {said}");
                assert!(said.contains("is gone"), "{seed:?}, round {round}, {name}: {said}");
            }
        }
    }
}
