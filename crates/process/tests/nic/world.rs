//! The least support side that can serve a driver, and the processes above it.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

use etherparse::PacketBuilder;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use warikomi_clock::{TscClock, read_tsc};
use warikomi_driver::strategy::Strategy;
use warikomi_nic::{Frame, Nic};
use warikomi_pci::attach::Access;
use warikomi_pci::attach::layout::{self, bells, header, orders, report, state};
use warikomi_pci::{Host, Interrupt, SharedMemory};
use warikomi_process::programs;
use warikomi_protocol::payload::Head;
use warikomi_protocol::{Command as AgentCommand, Envelope, Response};
use warikomi_shared::{Bell, Consumer, SharedWords, Tally, Words, create_region, send};
use warikomi_stack::{Chain, ChainOptions, Event, Station, Topology, Waiting};
use warikomi_testbench::Bench;
use warikomi_wire::{CountedSink, Responder, Wire};

use super::RUN;
use super::parts::{GUEST, NETWORK, PATIENCE, PORT, command};

const DMA_BYTES: u64 = 1 << 20;
const TSC_HZ: u64 = 2_000_000_000;

/// Processes that do not outlive the test.
pub(super) struct Children(pub(super) Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) struct World {
    pub(super) words: SharedWords,
    requests: Consumer<SharedWords>,
    tally: Tally<SharedWords>,
    pub(super) bell: Bell<SharedWords, Event>,
    card: Bench,
    clock: TscClock,
    control: UnixStream,
    next_id: u64,
    pub(super) children: Children,
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
        (header::TSC_HZ, TSC_HZ),
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
    let mut command = command("driver");
    (command.env(layout::SOCKET_VARIABLE, "0").stdin(far).spawn().unwrap(), near)
}

fn dma_memory(dma: File, (packets, packet_bytes): (File, u64)) -> SharedMemory {
    let ranges = [
        (dma, layout::DMA_BUS_ADDRESS, DMA_BYTES),
        (packets, layout::PACKET_BUS_ADDRESS, packet_bytes),
    ]
    .map(|(file, base, bytes)| {
        (GuestAddress(base), bytes as usize, Some(FileOffset::new(file, 0)))
    });
    SharedMemory::new(GuestMemoryMmap::from_ranges_with_files(ranges).unwrap())
}

/// The parts above the driver; the application is the program `application`.
fn start_parts(chain: &mut Chain, application: &str) -> (Children, Vec<OwnedFd>) {
    let (mut children, mut links) = (Children(Vec::new()), Vec::new());
    for part in chain.parts.drain(..) {
        let program = if part.name == "application" { application } else { part.name };
        let mut command = command(program);
        links.push(part.prepare(&mut command));
        children.0.push(command.spawn().unwrap());
    }
    (children, links)
}

impl World {
    pub(super) fn start(topology: Topology, strategy: Strategy) -> World {
        World::cabled(topology, strategy, Box::new(CountedSink::new()), "application")
    }

    /// With this at the other end of the cable, and this program as the application.
    pub(super) fn cabled(
        topology: Topology,
        strategy: Strategy,
        wire: Box<dyn Wire>,
        application: &str,
    ) -> World {
        let nic = warikomi_nic::build(&warikomi_nic::NicOptions::of("rtl8168"), wire).unwrap();
        let mut chain = Chain::build(&ChainOptions {
            topology,
            application_buffers: 512,
            stack_buffers: 32,
            buffer_bytes: 2_048,
            station: Station { mac: nic.mac_address(), address: GUEST, prefix_bits: 24 },
            hosts: vec![(Responder::ADDRESS, Responder::MAC)],
            tcp_port: Some(programs::echo::PORT),
            waiting: Waiting::Wait,
            copy_out: false,
            tsc_hz: TSC_HZ,
        })
        .unwrap();
        let (packets, packet_file) = chain.memory.take().unwrap();
        let packet_bytes = packets.shape().file_bytes();
        let (file, words) = region(packet_bytes, strategy);
        let event = Event::create().unwrap();
        let (mut children, mut links) = start_parts(&mut chain, application);
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
        let control = chain.control.take().unwrap();
        control.set_nonblocking(true).unwrap();
        World {
            requests: Consumer::new(words.clone(), layout::REQUESTS),
            tally: Tally::new(words.clone(), bells::INTERRUPTS),
            bell: Bell::new(words.clone(), bells::SLEEPING, event),
            card: Bench::around(nic).sharing(dma_memory(dma, (packet_file, packet_bytes))),
            clock: TscClock::with_frequency(read_tsc(), TSC_HZ as f64),
            control,
            next_id: 1,
            children,
            _links: links,
            words,
        }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        self.card.now = self.clock.now();
        let answer = self.card.host(call);
        for interrupt in self.card.line.take() {
            if let Interrupt::Msi(_) = interrupt {
                self.tally.add();
                self.bell.ring();
            }
        }
        answer
    }

    pub(super) fn poll(&mut self) {
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

    /// Frames that came over the cable and found no descriptor.
    pub(super) fn missed(&mut self) -> u64 {
        let came = self.card.nic.wire().counters().rx_frames;
        came - self.with(|nic, host| nic.rx_progress(host, usize::MAX)).on_ring
    }

    pub(super) fn serve_until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            self.poll();
            assert!(begun.elapsed() < PATIENCE, "waited in vain for: {what}");
            assert_ne!(self.words.load(report::STATE, Acquire), state::FAILED, "{what}");
            std::thread::yield_now();
        }
    }

    pub(super) fn ask<C: AgentCommand>(&mut self, command: C) -> C::Answer {
        self.try_ask(command).unwrap()
    }

    /// Asks, and gives what was said against it if that was refused.
    pub(super) fn try_ask<C: AgentCommand>(&mut self, command: C) -> Result<C::Answer, String> {
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
        Response::parse(&text).unwrap().into_answer().map_err(|error| error.to_string())
    }

    pub(super) fn inject(&mut self, packets: u64) {
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
