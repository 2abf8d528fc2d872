//! What a hypervisor says to its card: vfio-user messages, with any descriptors, and answers about its memory.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use arbitrary::{Result, Unstructured};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use warikomi_clock::{Clock, TscClock, read_tsc};
use warikomi_nic::Frame;
use warikomi_pci::SharedMemory;
use warikomi_target::vm::VmPeerCard;
use warikomi_testbench::vfio::{NO_REPLY, VfioMessage, command};
use warikomi_testbench::{VfioClient, card};

use crate::harness::{bounded, number, once_in, steps};

const MEMORY: u64 = 0x1_0000;
const PAGE: u64 = 0x1000;
const REPLY: u32 = 1;
const ERROR: u32 = 1 << 5;
/// The code of the last command that there is, and one more.
const LAST: u16 = 19;
/// What one look carries out at most.
const MOST_SERVED: u64 = 64;

/// A hypervisor that means no good, and its card.
struct Peer {
    stream: UnixStream,
    client: VfioClient,
    card: VmPeerCard,
    /// Memory that can be sealed, memory that cannot, and an event descriptor.
    files: [File; 3],
    /// Commands sent, and replies that have come.
    sent: u64,
    replies: u64,
    /// The number that the next question about its memory will have, unless it is wrong about that.
    question: u16,
}

fn memory(flags: MemfdFlags) -> File {
    let file = File::from(memfd_create("fuzz", MemfdFlags::CLOEXEC | flags).expect("memory"));
    file.set_len(MEMORY).expect("memory");
    file
}

impl Peer {
    fn new() -> Peer {
        let clock = Clock::Real(TscClock::with_frequency(read_tsc(), 1e9));
        let mut served = VmPeerCard::new(card("rtl8168"), clock).expect("a card");
        // No question is waited for: its answer is there before, or there is none.
        served.interrupted().set();
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        served.connect(ours).expect("a socket");
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event");
        let files =
            [memory(MemfdFlags::ALLOW_SEALING), memory(MemfdFlags::empty()), File::from(event)];
        Peer {
            client: client(&theirs),
            stream: theirs,
            card: served,
            files,
            sent: 0,
            replies: 0,
            question: 0,
        }
    }

    /// One that has agreed on a version, and mapped its memory in each way.
    fn agreed() -> Peer {
        let mut peer = Peer::new();
        peer.say(command::VERSION, 0, &[&[0; 4], &b"{}\0"[..]].concat(), &[]);
        for (window, file) in [(0, Some(0)), (1, Some(1)), (2, None)] {
            let files: Vec<usize> = file.into_iter().collect();
            peer.say(command::DMA_MAP, 0, &map([0, window * MEMORY, MEMORY]), &files);
        }
        peer.say(command::REGION_WRITE, 0, &[&access(7, 4, 2)[..], &[6, 0]].concat(), &[]);
        let irqs = [20, 1 << 5 | 4, 1, 0, 1].map(u32::to_le_bytes).concat();
        peer.say(command::DEVICE_SET_IRQS, 0, &irqs, &[2]);
        // A look carries out one command at least; where others have the core, it may be over then.
        for _ in 0..6 {
            assert!(peer.card.poll().is_ok());
        }
        peer.check();
        assert_eq!((peer.replies, peer.card.windows()), (6, 3), "all of it is answered");
        peer
    }

    fn say(&mut self, code: u16, flags: u32, body: &[u8], files: &[usize]) {
        let files: Vec<BorrowedFd<'_>> = files.iter().map(|at| self.files[*at].as_fd()).collect();
        let bytes = VfioClient::message(self.sent as u16, code, flags, 0, body);
        self.client.send_bytes(&bytes, &files);
        self.sent += 1;
    }

    /// Serves it; whether it is still connected.
    fn poll(&mut self) -> bool {
        let before = self.card.counters();
        let served = self.card.poll();
        let since = self.card.counters().since(&before);
        assert!(since.accesses + since.malformed <= 2 * MOST_SERVED, "{since:?} in one look");
        if served.is_err() {
            assert_eq!(self.card.windows(), 0, "nothing is left of it");
        }
        self.check();
        served.is_ok()
    }

    /// What the card's side has sent are messages: replies, no more than there were commands, and questions.
    fn check(&mut self) {
        self.stream.set_nonblocking(true).expect("a socket");
        let mut bytes = Vec::new();
        // It ends where nothing more is there.
        let _ = self.stream.read_to_end(&mut bytes);
        self.stream.set_nonblocking(false).expect("a socket");
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let message = first(rest);
            if message.flags & 0xf == REPLY {
                self.replies += 1;
                let failed = message.flags & ERROR != 0;
                assert_eq!(failed, message.error != 0, "{message:?}");
                assert!(!failed || message.body.is_empty(), "{message:?}");
            } else {
                assert!([command::DMA_READ, command::DMA_WRITE].contains(&message.command));
                self.question = message.id.wrapping_add(1);
            }
            rest = &rest[16 + message.body.len()..];
        }
        assert!(self.replies <= self.sent, "{} replies to {}", self.replies, self.sent);
    }
}

fn client(stream: &UnixStream) -> VfioClient {
    let nothing = SharedMemory::anonymous(0, 4_096).expect("memory");
    VfioClient::new(stream.try_clone().expect("a socket"), nothing, 2)
}

fn first(bytes: &[u8]) -> VfioMessage {
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
    let body = bytes[16..word(4) as usize].to_vec();
    VfioMessage { id: half(0), command: half(2), flags: word(8), error: word(12), body }
}

fn map([offset, address, bytes]: [u64; 3]) -> Vec<u8> {
    let head = [32, 3].map(u32::to_le_bytes).concat();
    [head, [offset, address, bytes].map(u64::to_le_bytes).concat()].concat()
}

fn access(region: u32, offset: u64, bytes: u32) -> Vec<u8> {
    [offset, u64::from(region) | u64::from(bytes) << 32].map(u64::to_le_bytes).concat()
}

/// A number that is often one of whole pages.
fn place(from: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match from.int_in_range(0..=3u8)? {
        0 => number(from)?,
        _ => PAGE * from.int_in_range(0..=0x40u64)?,
    })
}

/// The body of a command that may be one of a hypervisor's.
fn body(code: u16, from: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = match code {
        command::VERSION => {
            let texts =
                [&b"{}\0"[..], b"", b"{\"capabilities\":{\"max_data_xfer_size\":9}}\0", b"{"];
            let text = *from.choose(&texts)?;
            [&number(from)?.to_le_bytes()[..4], text].concat()
        }
        command::DMA_MAP => map([place(from)?, place(from)?, place(from)?]),
        command::DMA_UNMAP => {
            let flags = from.int_in_range(0..=3u32)?;
            let head = [24, flags].map(u32::to_le_bytes).concat();
            [head, [place(from)?, place(from)?].map(u64::to_le_bytes).concat()].concat()
        }
        command::DEVICE_SET_IRQS => {
            let flags = 1 << from.int_in_range(3..=6)? | 1 << from.int_in_range(0..=2)?;
            let [start, count] = [(); 2].map(|()| number(from).unwrap_or_default() as u32);
            let words = [20, flags, from.int_in_range(0..=5)?, start & 3, count & 3];
            let words = if once_in(from, 6)? { [20, flags, 1, start, count] } else { words };
            [words.map(u32::to_le_bytes).concat(), vec![1, 0, 1]].concat()
        }
        command::REGION_READ | command::REGION_WRITE => {
            let region = *from.choose(&[2, 2, 2, 7, 0, 8, 99])?;
            let bytes = *from.choose(&[1u32, 2, 4, 8, 3, 64])?;
            let bytes = if once_in(from, 12)? { number(from)? as u32 } else { bytes };
            let offset =
                if once_in(from, 8)? { number(from)? } else { from.int_in_range(0..=0x104)? };
            let mut body = access(region, offset, bytes);
            if code == command::REGION_WRITE {
                let value = if once_in(from, 2)? { place(from)? } else { number(from)? };
                body.extend(value.to_le_bytes().iter().cycle().take(bytes.min(128) as usize));
            }
            body
        }
        _ => vec![number(from)? as u8; from.int_in_range(0..=40)?],
    };
    if once_in(from, 12)? {
        bytes.truncate(from.int_in_range(0..=bytes.len())?);
    }
    Ok(bytes)
}

/// Any command, with any files; whether a part of it is missing.
fn say(peer: &mut Peer, from: &mut Unstructured<'_>) -> Result<()> {
    let likely = [
        command::REGION_WRITE,
        command::REGION_WRITE,
        command::REGION_READ,
        command::DMA_MAP,
        command::DMA_UNMAP,
        command::DEVICE_SET_IRQS,
    ];
    let code =
        if once_in(from, 3)? { from.int_in_range(0..=LAST)? } else { *from.choose(&likely)? };
    let flags = if once_in(from, 30)? { from.arbitrary()? } else { 0 };
    let flags = if once_in(from, 3)? { flags | NO_REPLY } else { flags };
    let body = body(code, from)?;
    let most = if once_in(from, 12)? { 18 } else { 1 };
    let count = from.int_in_range(0..=most)?;
    let files: Vec<usize> = (0..count).map(|_| from.int_in_range(0..=2)).collect::<Result<_>>()?;
    peer.say(code, flags, &body, &files);
    Ok(())
}

/// An answer to a question that will be asked, or to none.
fn answer(peer: &mut Peer, from: &mut Unstructured<'_>) -> Result<()> {
    let (address, bytes) = (2 * MEMORY + place(from)? % MEMORY, *from.choose(&[4u64, 12, 16, 64])?);
    let mut body = [address, bytes].map(u64::to_le_bytes).concat();
    let code = *from.choose(&[command::DMA_READ, command::DMA_WRITE])?;
    if code == command::DMA_READ {
        body.extend(number(from)?.to_le_bytes().iter().cycle().take(bytes as usize));
    }
    let id = if once_in(from, 8)? { from.arbitrary()? } else { peer.question };
    let flags = if once_in(from, 8)? { REPLY | ERROR } else { REPLY };
    peer.client.send_bytes(&VfioClient::message(id, code, flags, 5, &body), &[]);
    Ok(())
}

fn step(peer: &mut Peer, from: &mut Unstructured<'_>) -> Result<bool> {
    match from.int_in_range(0..=11u8)? {
        0..=5 => say(peer, from)?,
        6 => answer(peer, from)?,
        7 => {
            let bytes = from.bytes(from.len().min(40))?;
            peer.client.send_bytes(bytes, &[]);
            peer.sent += 3;
        }
        8 => {
            let bytes = *from.choose(&[0, PAGE, MEMORY])?;
            let _ = peer.files[1].set_len(bytes);
        }
        9 => {
            let bytes = vec![0xff; from.int_in_range(14..=1_514)?];
            let (nic, mut host) = peer.card.parts();
            nic.receive(&mut host, Frame::new(&bytes));
        }
        _ => return Ok(peer.poll()),
    }
    Ok(true)
}

#[test]
fn vfio_user() {
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        bounded(|| {
            let mut peer = match from.int_in_range(0..=3u8) {
                Ok(0) => Peer::new(),
                _ => Peer::agreed(),
            };
            steps(&mut from, 60, |from| match step(&mut peer, from)? {
                true => Ok(()),
                false => Err(arbitrary::Error::IncorrectFormat),
            });
            peer.poll();
            // It goes at this moment, and the next one is served.
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            peer.card.connect(ours).expect("a socket");
            assert_eq!(peer.card.windows(), 0);
            let body = [&[0; 4], &b"{}\0"[..]].concat();
            let bytes = VfioClient::message(1, command::VERSION, 0, 0, &body);
            client(&theirs).send_bytes(&bytes, &[]);
            assert!(peer.card.poll().is_ok());
            let reply = client(&theirs).receive().expect("a version");
            assert_eq!((reply.command, reply.flags), (command::VERSION, REPLY));
        });
    });
}
