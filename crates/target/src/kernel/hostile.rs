//! A peer that speaks vhost-user as badly as it can, and writes anything into the memory that it shares, while it is
//! served: it costs the support side an error, and a bounded time at each look.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use warikomi_clock::{Clock, Dice, Seed, Span, TscClock, read_tsc};
use warikomi_nic::Frame;
use warikomi_pci::attach::{Access as RingAccess, Operation, Space, bridge};
use warikomi_pci::{DmaMemory, Interrupt, SharedMemory, Width};
use warikomi_testbench::{MESSAGE, card};

use super::attached::AttachedCard;
use super::halt::Halt;
use super::handshake::Connection;
use super::options::{Attachment, GuestCosts};
use crate::{Pass, TargetCounters};

/// What a peer shares, from bus address 0 on.
const MEMORY_BYTES: u64 = 0x2_0000;
/// Where it has its memory itself.
const USER: u64 = 0x7000_0000_0000;
/// Entries of a queue.
const SIZE: u64 = 16;
/// The bridge's window.
const WINDOW: u64 = 0x8000;
const BUFFERS: u64 = 0x1_0000;

// Requests that come with a line for signals (QEMU documentation, `docs/interop/vhost-user.rst`, "Front-end message
// types").
const SET_VRING_CALL: u32 = 13;
const SET_BACKEND_REQ_FD: u32 = 21;

/// No look takes so long, on however busy a machine.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// Nor does it take so long until everything has happened that can.
const MOST_TIME: Duration = Duration::from_secs(100);

const ATTACHMENTS: [Attachment; 3] = [
    Attachment::VirtPci,
    Attachment::Bridge { polling: true },
    Attachment::InStep(GuestCosts {
        access: Span::from_ns(400),
        interrupt: Span::from_us(1),
        frame: Span::from_us(1),
        byte: Span::from_ps(100),
    }),
];

fn descriptors(queue: u64) -> u64 {
    0x1000 + queue * 0x1000
}

fn available(queue: u64) -> u64 {
    0x3000 + queue * 0x1000
}

fn used(queue: u64) -> u64 {
    0x5000 + queue * 0x1000
}

struct Peer {
    stream: UnixStream,
    dice: Dice,
    file: File,
    /// A line for signals, and its other end, which it never empties. Both may wait.
    line: [UnixStream; 2],
    memory: SharedMemory,
    has_bridge: bool,
    reads_answers: bool,
    /// What it has offered in its first queue, or put into the bridge's ring.
    made: u64,
}

impl Peer {
    fn new(stream: UnixStream, seed: u64, has_bridge: bool) -> Peer {
        stream.set_nonblocking(true).unwrap();
        let mut dice = Seed(seed).dice();
        let sealable = if dice.one_in(2) { MemfdFlags::ALLOW_SEALING } else { MemfdFlags::empty() };
        let file = File::from(memfd_create("hostile", MemfdFlags::CLOEXEC | sealable).unwrap());
        file.set_len(MEMORY_BYTES).unwrap();
        let own = file.try_clone().unwrap();
        let memory = SharedMemory::from_file(0, own, 0, MEMORY_BYTES as usize).unwrap();
        let reads_answers = !dice.one_in(4);
        let line = UnixStream::pair().unwrap().into();
        Peer { stream, dice, file, line, memory, has_bridge, reads_answers, made: 0 }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write(at, bytes).unwrap();
    }

    fn random_bytes(&mut self, most: u64) -> Vec<u8> {
        let count = self.dice.number(0, most);
        (0..count).map(|_| self.dice.number(0, 255) as u8).collect()
    }

    /// Sends bytes, with a file so often: its memory's, or a line for signals; whether the other end is there.
    fn send(&self, bytes: &[u8], files: usize, are_lines: bool) -> bool {
        let file = if are_lines { self.line[0].as_fd() } else { self.file.as_fd() };
        let all: Vec<BorrowedFd<'_>> = vec![file; files];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if files > 0 {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&all)));
        }
        let flags = SendFlags::NOSIGNAL;
        match sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut ancillary, flags) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Sends a message, now and then one that is not what it should be.
    fn say(&mut self, code: u32, mut body: Vec<u8>, mut files: usize) -> bool {
        let mut flags = if self.dice.one_in(2) { 1 } else { 1 | 1 << 3 };
        let mut len = body.len() as u32;
        if self.dice.one_in(40) {
            match self.dice.number(0, 4) {
                0 if !body.is_empty() => {
                    let at = self.dice.number(0, body.len() as u64 - 1) as usize;
                    body[at] = self.dice.number(0, 255) as u8;
                }
                1 => len = self.dice.number(0, u32::MAX.into()) as u32,
                2 => flags = self.dice.number(0, u32::MAX.into()) as u32,
                3 => body.truncate(self.dice.number(0, 8) as usize),
                _ => files = self.dice.number(0, 10) as usize,
            }
        }
        let mut bytes = [code, flags, len].map(u32::to_le_bytes).concat();
        bytes.extend_from_slice(&body);
        let are_lines =
            [SET_VRING_CALL, SET_BACKEND_REQ_FD].contains(&code) != self.dice.one_in(40);
        if !self.dice.one_in(20) {
            return self.send(&bytes, files, are_lines);
        }
        // In drips, the files with the first of them.
        let mut files = Some(files);
        let drips = bytes.chunks(self.dice.number(1, 16) as usize);
        drips.fold(true, |is_there, drip| {
            std::thread::yield_now();
            is_there && self.send(drip, files.take().unwrap_or_default(), are_lines)
        })
    }

    fn attach(&mut self) -> bool {
        self.fill();
        let mut table = [1u32, 0].map(u32::to_le_bytes).concat();
        table.extend([0, MEMORY_BYTES, USER, 0].map(u64::to_le_bytes).concat());
        let mut is_there = self.say(3, Vec::new(), 0) && self.say(5, table, 1);
        is_there &= self.say(SET_BACKEND_REQ_FD, Vec::new(), 1);
        for queue in 0..2u32 {
            let pair = |value: u32| [queue, value].map(u32::to_le_bytes).concat();
            let vring = u64::from(queue);
            let mut addresses = [queue, 0].map(u32::to_le_bytes).concat();
            let places = [descriptors(vring), used(vring), available(vring)].map(|at| USER + at);
            addresses.extend(places.map(u64::to_le_bytes).concat());
            addresses.extend([0; 8]);
            let file_of = vring.to_le_bytes().to_vec();
            is_there = is_there
                && self.say(8, pair(SIZE as u32), 0)
                && self.say(10, pair(0), 0)
                && self.say(9, addresses, 0)
                && self.say(12, file_of.clone(), 1)
                && self.say(SET_VRING_CALL, file_of, 1)
                && self.say(18, pair(1), 0);
        }
        is_there
    }

    /// Makes its memory that of a kernel that is about to attach its card.
    fn fill(&mut self) {
        self.made = 0;
        for queue in 0..2 {
            for index in 0..SIZE {
                self.describe(queue, index, (BUFFERS + index * 0x100, 20), 2, 0);
                self.put(available(queue) + 4 + 2 * index, &(index as u16).to_le_bytes());
            }
        }
        self.put(available(1), &[0, 0, 10, 0]);
        self.put(available(0), &[0; 4]);
        if self.has_bridge {
            self.describe(0, 0, (WINDOW, bridge::WINDOW_BYTES as u32), 2, 0);
            self.put(available(0), &[0, 0, 1, 0]);
            self.put(WINDOW, &vec![0; bridge::WINDOW_BYTES]);
            for (word, value) in
                [(bridge::header::MAGIC, bridge::MAGIC), (bridge::header::VERSION, bridge::VERSION)]
            {
                self.put(WINDOW + 8 * word as u64, &value.to_le_bytes());
            }
        }
    }

    fn describe(&self, queue: u64, index: u64, (at, len): (u64, u32), flags: u16, next: u16) {
        let place = descriptors(queue) + 16 * (index % SIZE);
        self.put(place, &at.to_le_bytes());
        self.put(place + 8, &len.to_le_bytes());
        self.put(place + 12, &flags.to_le_bytes());
        self.put(place + 14, &next.to_le_bytes());
    }

    /// An access that makes sense, or nearly.
    fn access(&mut self) {
        let offset = self.dice.number(0, 0x100);
        let value = if self.dice.one_in(2) {
            self.dice.number(0, MEMORY_BYTES)
        } else {
            self.dice.number(0, u64::MAX - 1)
        };
        if self.has_bridge {
            let operation = match self.dice.number(0, 1) {
                0 => Operation::Read(value),
                _ => Operation::Write(value),
            };
            let space = self.dice.of(&[Space::Config, Space::Bar(2), Space::Bar(0)]);
            let width = self.dice.of(&[Width::B1, Width::B2, Width::B4, Width::B8]);
            let access = RingAccess { space, offset: offset as u32, width, operation };
            let slot = self.made % bridge::REQUESTS_CAPACITY as u64;
            let at = WINDOW + 8 * (bridge::REQUESTS_ENTRIES as u64 + 2 * slot);
            self.put(at, access.to_entry().map(u64::to_le_bytes).as_flattened());
            self.made += 1;
            self.put(WINDOW + 8 * bridge::REQUESTS_HEAD as u64, &self.made.to_le_bytes());
            return;
        }
        let mut taken = [0; 2];
        self.memory.read(used(0) + 2, &mut taken).unwrap();
        let waiting = (self.made as u16).wrapping_sub(u16::from_le_bytes(taken));
        if u64::from(waiting) >= SIZE && !self.dice.one_in(1_000) {
            // A full queue; of one that it has spoilt, its beginning.
            self.made = u64::from(u16::from_le_bytes(taken));
            return;
        }
        let (size, op) = (self.dice.of(&[1u32, 2, 4, 8, 64]), self.dice.number(0, 6) as u8);
        let mut message = vec![op, self.dice.of(&[0, 2]), 0, 0];
        message.extend(size.to_le_bytes());
        message.extend(offset.to_le_bytes());
        message.extend(value.to_le_bytes());
        let index = 2 * self.dice.number(0, SIZE / 2 - 1);
        let buffer = BUFFERS + index * 0x100;
        self.put(buffer, &message);
        let next = self.dice.of(&[index + 1, index + 1, index + 1, index]) as u16;
        let flags = self.dice.of(&[1u16, 1, 1, 0, 4, 5]);
        self.describe(0, index, (buffer, message.len() as u32), flags, next);
        self.describe(0, index + 1, (buffer + 0x100, size), 2, 0);
        self.put(available(0) + 4 + 2 * (self.made % SIZE), &(index as u16).to_le_bytes());
        self.made += 1;
        self.put(available(0) + 2, &(self.made as u16).to_le_bytes());
    }

    /// Writes anything anywhere, more often where it hurts.
    fn scribble(&mut self) {
        let value = self.dice.number(0, u64::MAX - 1).to_le_bytes();
        let words = MEMORY_BYTES / 8;
        let at = match self.dice.number(0, 3) {
            0 => 8 * self.dice.number(0, words - 1),
            1 => 0x1000 + 8 * self.dice.number(0, 0x6000 / 8 - 1),
            _ => WINDOW + 8 * self.dice.number(0, 255),
        };
        let count = self.dice.of(&[1, 2, 4, 8]);
        self.put(at, &value[..count]);
    }

    /// Does all of it for a while, or until the other end is gone.
    fn rage(mut self) {
        if !self.attach() {
            return;
        }
        let steps = self.dice.number(1, 4_000);
        for _ in 0..steps {
            (0..self.dice.number(0, 20)).for_each(|_| self.access());
            if self.dice.one_in(4) {
                self.scribble();
            }
            let is_there = match self.dice.number(0, 4_999) {
                0 => self.attach(),
                1..4 => {
                    let (code, body) = (self.dice.number(0, 24) as u32, self.random_bytes(120));
                    self.say(code, body, 0)
                }
                4 => {
                    let bytes = self.random_bytes(2_000);
                    self.send(&bytes, 0, false)
                }
                // Questions, more than are answered in one look.
                5 => (0..200).all(|_| self.say(17, Vec::new(), 0)),
                _ => true,
            };
            if !is_there || self.reads_answers && !self.read() {
                return;
            }
        }
    }

    fn read(&mut self) -> bool {
        match self.stream.read(&mut [0; 4_096]) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

/// A process that stands for the guest's kernel, to be stopped for interrupts.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug, Default)]
struct Survived {
    peers: u64,
    looks: u64,
    /// Looks at a card with a port.
    attached: u64,
    errors: u64,
    longest_look: Duration,
}

impl Survived {
    fn has_seen_all(&self, counters: &TargetCounters) -> bool {
        self.errors > 0 && self.attached > 0 && counters.accesses > 0
    }
}

fn survive(attachment: Attachment, span: Duration, seed: u64) {
    let guest = Guest(Command::new("sleep").arg("100000").spawn().unwrap());
    let halt = Rc::new(Halt::new(guest.0.id(), None).unwrap());
    let clock = Clock::Real(TscClock::with_frequency(0, 1e9));
    let mut attached = AttachedCard::new(card("rtl8168")).unwrap();
    let begun = Instant::now();
    // On a busy machine until everything has happened at all.
    let is_over = |survived: &Survived, counters: &TargetCounters| {
        let elapsed = begun.elapsed();
        elapsed > MOST_TIME || elapsed > span && survived.has_seen_all(counters)
    };
    let mut survived = Survived::default();
    while !is_over(&survived, &attached.counters()) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        attached.connect(Connection::new(ours, attachment, MEMORY_BYTES).unwrap());
        let has_bridge = attachment != Attachment::VirtPci;
        let peer = Peer::new(theirs, seed.wrapping_add(survived.peers), has_bridge);
        let peer = std::thread::spawn(move || peer.rage());
        survived.peers += 1;
        while !is_over(&survived, &attached.counters()) {
            let begun = Instant::now();
            let checked = attached.check_memory();
            let served = checked.and_then(|()| attached.serve_connection(&halt, &clock));
            look(&mut attached, &clock);
            survived.longest_look = survived.longest_look.max(begun.elapsed());
            survived.looks += 1;
            survived.attached += u64::from(attached.port().is_some());
            if served.is_err() {
                survived.errors += 1;
                break;
            }
            if survived.looks.is_multiple_of(16) {
                std::thread::yield_now();
            }
        }
        attached.detach();
        peer.join().unwrap();
    }
    let counters = attached.counters();
    println!("{attachment:?}: {survived:?}, {counters:?}");
    assert!(survived.longest_look < LONGEST_LOOK, "{survived:?}");
    assert!(survived.has_seen_all(&counters), "{survived:?}, {counters:?}");
    // Of each look one interrupt, and whatever its accesses raise: no count of the guest's is believed.
    assert!(counters.interrupts_sent < survived.looks + counters.accesses, "{counters:?}");
}

/// Serves the card as a target does, with a frame for it and an interrupt.
fn look(attached: &mut AttachedCard, clock: &Clock) {
    let mut pass = Pass::idle(clock.now());
    (0..16).for_each(|_| attached.poll(clock, &mut pass));
    let (nic, mut host) = attached.parts(clock);
    nic.receive(&mut host, Frame::new(&[0x5a; 1_500]));
    nic.rx_progress(&mut host, usize::MAX);
    host.interrupts.signal(Interrupt::Msi(MESSAGE));
    if let Some(port) = attached.port_mut() {
        port.take_hiccups(&mut |_, _| {});
        port.owes_interrupts();
    }
}

fn survive_all(span: Duration) {
    let given = std::env::var("WARIKOMI_TEST_SEED").ok();
    let seed = given.map_or_else(read_tsc, |text| text.parse().unwrap());
    println!(
        "WARIKOMI_TEST_SEED={seed} cargo test -p warikomi-target --lib hostile -- --nocapture"
    );
    ATTACHMENTS.into_iter().for_each(|attachment| survive(attachment, span / 3, seed));
}

#[test]
fn a_peer_that_means_no_good_costs_an_error_and_no_look_takes_long() {
    survive_all(Duration::from_secs(3));
}

/// The same for a minute.
#[test]
#[ignore = "takes a minute; scripts/test-long"]
fn a_peer_that_means_no_good_for_a_minute_costs_an_error_and_no_look_takes_long() {
    survive_all(Duration::from_secs(60));
}
