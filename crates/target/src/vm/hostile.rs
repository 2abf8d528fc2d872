//! A client that speaks vfio-user as badly as it can, cuts its memory short, answers questions wrongly or not at all,
//! and goes at any moment: it costs the server its connection, and a bounded time at each look, and nothing is left.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendFlags, send};
use warikomi_clock::{Dice, Seed, read_tsc};
use warikomi_nic::Frame;
use warikomi_pci::SharedMemory;
use warikomi_testbench::cards::step::Step;
use warikomi_testbench::vfio::{NO_REPLY, command};
use warikomi_testbench::{DUO, JudgingWire, RTL8168, Subject, TestCard, VfioClient, seen_at_last};

use super::VmPeerCard;
use super::testing::{clock, event};
use crate::TargetCounters;

/// Name of the files of its memory, by which what is left of them is found.
const NAME: &str = "hostile-client";
const MEMORY_BYTES: u64 = 0x4_0000;
/// Descriptors of its ring.
const RING: u64 = 4;

/// No look takes so long, on however busy a machine: one wait for the client's memory, and what is done besides.
const LONGEST_LOOK: Duration = Duration::from_secs(20);
/// Nor does it take so long until everything has happened that can.
const MOST_TIME: Duration = Duration::from_secs(100);

/// Words of 32 bits, and words of 64 bits behind them.
fn words(words: &[u64], tail: &[u64]) -> Vec<u8> {
    let words = words.iter().flat_map(|word| (*word as u32).to_le_bytes());
    words.chain(tail.iter().flat_map(|long| long.to_le_bytes())).collect()
}

/// Which descriptors come along: how many, and of what.
type Files = (usize, Kind);

#[derive(Clone, Copy)]
enum Kind {
    Socket,
    Event,
    /// The memory that can be sealed, or the other.
    Memory(usize),
}

const NO_FILES: Files = (0, Kind::Socket);

struct Peer {
    stream: UnixStream,
    /// Makes messages and sends them.
    client: VfioClient,
    dice: Dice,
    /// Memory that can be sealed, and memory that cannot.
    files: [File; 2],
    event: File,
    incoming: Vec<u8>,
    register_bar: u32,
    is_there: bool,
    /// It answers all questions, or those that chance lets it.
    answers: bool,
    reads: bool,
    /// For the moment it says what a client says.
    orderly: bool,
}

impl Peer {
    fn new(stream: UnixStream, seed: u64, register_bar: u8) -> Peer {
        stream.set_nonblocking(true).unwrap();
        let mut dice = Seed(seed).dice();
        let file = |flags: MemfdFlags| {
            let file = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC | flags).unwrap());
            file.set_len(MEMORY_BYTES).unwrap();
            file
        };
        let memory = SharedMemory::anonymous(0, 4_096).unwrap();
        Peer {
            client: VfioClient::new(stream.try_clone().unwrap(), memory, register_bar),
            stream,
            files: [file(MemfdFlags::ALLOW_SEALING), file(MemfdFlags::empty())],
            event: event(),
            incoming: Vec::new(),
            register_bar: register_bar.into(),
            is_there: true,
            // Each that does not answer takes a second.
            answers: !dice.one_in(20),
            reads: !dice.one_in(6),
            orderly: false,
            dice,
        }
    }

    fn number(&mut self) -> u64 {
        match self.dice.number(0, 3) {
            0 => self.dice.of(&[
                0,
                1,
                4,
                0xfff,
                0x1000,
                u64::MAX,
                u64::MAX - 0xfff,
                1 << 31,
                1 << 63,
            ]),
            1 => 0x1000 * self.dice.number(0, MEMORY_BYTES / 0x1000),
            _ => self.dice.number(0, 64),
        }
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.dice.number(0, most)).map(|_| self.dice.number(0, 255) as u8).collect()
    }

    /// Sends bytes, whole or in drips, with descriptors beside the first of them.
    fn send(&mut self, bytes: &[u8], (files, kind): Files) {
        let drip = if self.dice.one_in(30) { self.dice.number(1, 16) as usize } else { usize::MAX };
        let kind = match kind {
            _ if self.orderly || !self.dice.one_in(20) => kind,
            _ => self.dice.of(&[Kind::Socket, Kind::Event, Kind::Memory(0), Kind::Memory(1)]),
        };
        let Peer { files: memory, event, stream, .. } = &*self;
        let mut is_there = self.is_there;
        let file: BorrowedFd<'_> = match kind {
            Kind::Socket => stream.as_fd(),
            Kind::Event => event.as_fd(),
            Kind::Memory(which) => memory[which].as_fd(),
        };
        let mut all = vec![file; files];
        for piece in bytes.chunks(drip.min(bytes.len().max(1))) {
            // A socket that is full is one of a server that has stopped to listen for a moment.
            let sent = self.client.send_bytes(piece, &all);
            is_there &= sent || send(stream, &[], SendFlags::NOSIGNAL).is_ok();
            all.clear();
        }
        self.is_there = is_there;
    }

    /// Sends a message, now and then one that is not what it should be.
    fn say(&mut self, command: u16, mut body: Vec<u8>, (mut files, kind): Files) {
        let mut flags = if self.dice.one_in(4) { NO_REPLY } else { 0 };
        if !self.orderly && self.dice.one_in(40) {
            match self.dice.number(0, 4) {
                0 => body.truncate(self.dice.number(0, 8) as usize),
                1 => flags = self.number() as u32,
                2 => files = self.dice.number(0, 20) as usize,
                3 => body.extend(self.bytes(5_000)),
                _ => body.iter_mut().step_by(3).for_each(|byte| *byte ^= 0x55),
            }
        }
        let mut bytes = VfioClient::message(7, command, flags, 0, &body);
        if !self.orderly && self.dice.one_in(1_000) {
            let size = self.number() as u32;
            bytes[4..8].copy_from_slice(&size.to_le_bytes());
        }
        self.send(&bytes, (files, kind));
    }

    fn negotiate(&mut self) {
        let text: &[u8] = self.dice.of(&[
            &b"{\"capabilities\":{\"max_data_xfer_size\":7}}\0"[..],
            &b"{\"capabilities\":{\"max_msg_fds\":8,\"pgsizes\":4096}}\0"[..],
            &b""[..],
        ]);
        let body = [&[0; 4], text].concat();
        self.say(command::VERSION, body, NO_FILES);
    }

    fn map(&mut self, address: u64, bytes: u64, offset: u64) {
        let kind = Kind::Memory(self.dice.number(0, 1) as usize);
        let files = self.dice.of(&[0, 1, 1]);
        let flags = if !self.orderly && self.dice.one_in(10) { self.dice.number(0, 2) } else { 3 };
        let body = words(&[32, flags], &[offset, address, bytes]);
        self.say(command::DMA_MAP, body, (files, kind));
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        let body = words(&[], &[offset, u64::from(region) | (data.len() as u64) << 32]);
        self.say(command::REGION_WRITE, [&body, data].concat(), NO_FILES);
    }

    fn read(&mut self, region: u32, offset: u64, bytes: usize) {
        let body = words(&[], &[offset, u64::from(region) | (bytes as u64) << 32]);
        self.say(command::REGION_READ, body, NO_FILES);
    }

    /// Sets it up so that the card has something to do with its memory.
    fn begin(&mut self, card: &dyn TestCard) {
        self.orderly = !self.dice.one_in(4);
        self.negotiate();
        self.map(0, MEMORY_BYTES, 0);
        self.write(7, 4, &[6, 0]);
        for index in 0..3 {
            let body = words(&[20, 1 << 5 | 4, index, 0, 1], &[]);
            self.say(command::DEVICE_SET_IRQS, body, (1, Kind::Event));
        }
        for step in card.open(RING, 256) {
            self.step(&step);
        }
        // For a while the card has a driver that does nothing wrong.
        for _ in 0..self.dice.number(0, 200) {
            self.refill(card);
            self.listen();
            std::thread::yield_now();
        }
        self.orderly = false;
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { bar, offset, width, value } => {
                self.write(bar.into(), offset, &value.to_le_bytes()[..width.bytes()]);
            }
            Step::Config { offset, width, value } => {
                self.write(7, offset.into(), &value.to_le_bytes()[..width.bytes()]);
            }
            Step::Memory { address, word } => self.store(address, &word.to_le_bytes()),
            Step::Ring { address, words, length, end } => {
                for index in 0..length {
                    let mark = if end && index + 1 == length { 1 << 30 } else { 0 };
                    let first = words[0] | mark;
                    let all = [first, words[1], words[2], words[3]].map(u32::to_le_bytes);
                    self.store(address + 16 * index, all.as_flattened());
                }
            }
            _ => {}
        }
    }

    /// Writes into the memory that it shares.
    fn store(&self, address: u64, bytes: &[u8]) {
        for file in &self.files {
            let _ = file.write_at(bytes, address);
        }
    }

    /// Gives the card its descriptors again.
    fn refill(&mut self, card: &dyn TestCard) {
        let opened = card.open(RING, 256);
        let memory = |step: &&Step| matches!(step, Step::Memory { .. } | Step::Ring { .. });
        opened.iter().filter(memory).for_each(|step| self.step(step));
    }

    fn do_something(&mut self) {
        let (one, other, third) = (self.number(), self.number(), self.number());
        match self.dice.number(0, 60) {
            0 => self.negotiate(),
            1..4 => self.map(one, other, third),
            4 | 5 => {
                let body = words(&[24, self.dice.of(&[0, 0, 0, 1, 2])], &[0, MEMORY_BYTES]);
                self.say(command::DMA_UNMAP, body, NO_FILES);
            }
            6 => self.map(0, MEMORY_BYTES, 0),
            7..10 => {
                let flags = 1 << self.dice.number(3, 5) | 1 << self.dice.number(0, 2);
                let body = words(&[20, flags, self.dice.number(0, 5), one, other], &[third]);
                let files = self.dice.number(0, 2) as usize;
                self.say(command::DEVICE_SET_IRQS, body, (files, Kind::Event));
            }
            10 if self.dice.one_in(4) => self.say(command::DEVICE_RESET, Vec::new(), NO_FILES),
            11 => {
                let code = self.dice.number(0, 20) as u16;
                let body = self.bytes(64);
                self.say(code, body, NO_FILES);
            }
            12 if self.dice.one_in(50) => {
                let bytes = self.bytes(300);
                self.send(&bytes, NO_FILES);
            }
            13 => {
                // Under the hands of the card.
                let bytes = self.dice.of(&[0, 0x1000, MEMORY_BYTES]);
                let _ = self.files.iter().map(|file| file.set_len(bytes)).collect::<Vec<_>>();
            }
            14 => {
                let file = &mut &self.files[self.dice.number(0, 1) as usize];
                let _ = file.write_at(&third.to_le_bytes(), other % MEMORY_BYTES);
            }
            15 => {
                let info = self.dice.of(&[
                    command::DEVICE_GET_INFO,
                    command::DEVICE_GET_REGION_INFO,
                    command::DEVICE_GET_IRQ_INFO,
                ]);
                let body = words(&[32, 0, one], &[0, 0, 0]);
                self.say(info, body, NO_FILES);
            }
            _ => {
                let region = self.dice.of(&[self.register_bar, self.register_bar, 7, one as u32]);
                let offset = self.dice.number(0, if region == 7 { 0x110 } else { 0x80 });
                let data = third.to_le_bytes();
                let bytes = self.dice.of(&[1, 2, 4, 8, 3]);
                if self.dice.one_in(4) {
                    self.read(region, offset, bytes);
                } else {
                    self.write(region, offset, &data[..bytes]);
                }
            }
        }
    }

    /// Reads what has come, and answers questions, mostly rightly.
    fn listen(&mut self) {
        let mut piece = [0; 4_096];
        match self.stream.read(&mut piece) {
            Ok(0) => self.is_there = false,
            Ok(count) => self.incoming.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_there = false,
        }
        while self.incoming.len() >= 16 {
            let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| self.incoming[at + i]));
            let (size, flags) = (word(4) as usize, word(8));
            assert!(size >= 16 && flags & 0xf <= 1, "whatever it was told, it sends messages");
            if self.incoming.len() < size {
                return;
            }
            let message: Vec<u8> = self.incoming.drain(..size).collect();
            if flags & 0xf == 0 {
                self.answer(&message);
            }
        }
    }

    fn answer(&mut self, question: &[u8]) {
        if !self.answers {
            return;
        }
        let half = |at: usize| u16::from_le_bytes([question[at], question[at + 1]]);
        let (mut id, command) = (half(0), half(2));
        let mut count = usize::from(half(24)).min(0x4000);
        let mut flags = 1;
        if self.dice.one_in(60) {
            match self.dice.number(0, 3) {
                0 => id = self.number() as u16,
                1 => count += 1,
                2 => flags = self.number() as u32,
                _ => return self.do_something(),
            }
        }
        let data = if command == command::DMA_READ { count } else { 0 };
        let body = [&question[16..32], &vec![self.dice.number(0, 255) as u8; data]].concat();
        let bytes = VfioClient::message(id, command, flags, 0, &body);
        self.send(&bytes, NO_FILES);
    }

    fn rage(mut self, card: &dyn TestCard) {
        if !self.dice.one_in(10) {
            self.begin(card);
        }
        for _ in 0..self.dice.number(1, 600) {
            if !self.is_there {
                return;
            }
            self.do_something();
            if self.dice.one_in(8) {
                self.refill(card);
            }
            if self.reads {
                (0..4).for_each(|_| self.listen());
            }
        }
        // Until the server has seen that nothing more comes, questions are answered.
        for _ in 0..self.dice.number(0, 500) {
            if self.reads && self.is_there {
                self.listen();
            }
            std::thread::yield_now();
        }
    }
}

#[derive(Debug, Default)]
struct Survived {
    peers: u64,
    looks: u64,
    /// Ends of connections, by why.
    errors: BTreeMap<String, u64>,
    /// Looks at which windows were mapped.
    mapped: u64,
    /// Frames that the card has placed in a client's memory.
    placed: u64,
    longest_look: Duration,
}

impl Survived {
    fn has_seen_all(&self, counters: &TargetCounters) -> bool {
        let served =
            counters.accesses > 0 && counters.malformed > 0 && counters.interrupts_sent > 0;
        served && !self.errors.is_empty() && self.mapped > 0 && self.placed > 0
    }
}

fn survive(subject: &Subject, span: Duration, seed: u64) {
    let mut card =
        VmPeerCard::new(subject.build(Box::new(JudgingWire::judging(|_, _| Ok(())))), clock())
            .unwrap();
    let register_bar = card.parts().0.info().register_bar;
    let begun = Instant::now();
    // On a busy machine until everything has happened at all.
    let is_over = |survived: &Survived, counters: &TargetCounters| {
        let elapsed = begun.elapsed();
        elapsed > MOST_TIME || elapsed > span && survived.has_seen_all(counters)
    };
    let mut survived = Survived::default();
    while !is_over(&survived, &card.counters()) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        card.connect(ours).unwrap();
        let peer = Peer::new(theirs, seed.wrapping_add(survived.peers), register_bar);
        let test_card = subject.card;
        let peer = std::thread::spawn(move || peer.rage(test_card));
        survived.peers += 1;
        while !is_over(&survived, &card.counters()) {
            let begun = Instant::now();
            let served = card.poll();
            let (nic, mut host) = card.parts();
            let reception = nic.receive(&mut host, Frame::new(&[0xff; 300]));
            survived.placed += u64::from(reception.outcome.is_on_ring());
            nic.rx_progress(&mut host, usize::MAX);
            survived.longest_look = survived.longest_look.max(begun.elapsed());
            survived.looks += 1;
            survived.mapped += u64::from(card.windows() > 0);
            if let Err(why) = served {
                let kind = why.split(|letter: char| letter.is_ascii_digit()).next();
                *survived.errors.entry(kind.unwrap_or_default().to_owned()).or_default() += 1;
                break;
            }
            if survived.looks.is_multiple_of(16) {
                std::thread::yield_now();
            }
        }
        card.detach();
        peer.join().unwrap();
    }
    let counters = card.counters();
    println!("{}: {survived:?}, {counters:?}", subject.card.name());
    assert!(survived.longest_look < LONGEST_LOOK, "{survived:?}");
    assert!(survived.has_seen_all(&counters), "{survived:?}, {counters:?}");
}

/// Files and mappings of clients' memory that this process still has.
fn left() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let files = links.filter(|link| link.to_string_lossy().contains(NAME)).count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    files + maps.lines().filter(|line| line.contains(NAME)).count()
}

fn survive_all(span: Duration) {
    let given = std::env::var("WARIKOMI_TEST_SEED").ok();
    let seed = given.map_or_else(read_tsc, |text| text.parse().unwrap());
    println!(
        "WARIKOMI_TEST_SEED={seed} cargo test -p warikomi-target --lib vm::hostile -- --nocapture"
    );
    [RTL8168, DUO].into_iter().for_each(|card| survive(&Subject::of(card), span / 2, seed));
    assert!(seen_at_last(|| left() == 0), "{} files and mappings are left", left());
}

#[test]
fn a_client_that_means_no_good_costs_its_connection_and_no_look_takes_long() {
    survive_all(Duration::from_secs(4));
}

/// The same for a minute.
#[test]
#[ignore = "takes a minute; scripts/test-long"]
fn a_client_that_means_no_good_for_a_minute_costs_its_connection_and_no_look_takes_long() {
    survive_all(Duration::from_secs(60));
}
