//! What a kernel says to its card: vhost-user messages, and what it writes into the memory that it shares: the
//! rings of our PCI bridge, and the queues of virt-pci.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use arbitrary::{Result, Unstructured};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use warikomi_clock::{Clock, TscClock, read_tsc};
use warikomi_pci::attach::bridge::{self as layout, header};
use warikomi_pci::attach::{Access, Operation, Space};
use warikomi_pci::{Interrupt, MsiMessage, Width};
use warikomi_shared::{SharedWords, Words};
use warikomi_target::kernel::{Attachment, PeerCard};
use warikomi_testbench::card;

use crate::harness::{bounded, number, once_in, steps};

/// Memory that the kernel shares, and where it says that it has it.
const MEMORY: usize = 0x2_0000;
const USER: u64 = 0x7000_0000;
/// Where its queues are in it, one behind the other: descriptors, available ring, used ring.
const QUEUES: [u64; 2] = [0, 0x3000];
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
/// The bridge's window; for virt-pci the buffers of its queues.
const WINDOW: u64 = 0x8000;
const QUEUE_SIZE: u64 = 16;
/// Bytes of a buffer.
const BUFFER: u64 = 0x100;
/// What one pass serves at most.
const MOST_SERVED: u64 = 64;

/// Message codes that a kernel sends.
mod code {
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const SET_VRING_KICK: u32 = 12;
    pub(super) const SET_VRING_CALL: u32 = 13;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const SET_BACKEND_REQUESTS: u32 = 21;
    /// Of the last message that there is, and one more.
    pub(super) const LAST: u32 = 22;
}

const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// What is stopped in place of a kernel: a process that does nothing, and ends with us.
fn process() -> u32 {
    static PROCESS: OnceLock<Child> = OnceLock::new();
    let start = || {
        let mut command = Command::new("cat");
        // In a group of its own, which the system lets go on when we end while it is stopped.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        command.spawn().expect("there is such a program")
    };
    PROCESS.get_or_init(start).id()
}

/// A kernel that means no good, and its card.
struct Peer {
    stream: UnixStream,
    card: PeerCard,
    file: File,
    words: SharedWords,
    /// The other ends of files that it has handed over.
    ends: Vec<UnixStream>,
}

impl Peer {
    fn new(attachment: Attachment) -> Peer {
        let (stream, ours) = UnixStream::pair().expect("a pair of sockets");
        stream.set_nonblocking(true).expect("a socket");
        let clock = Clock::Real(TscClock::with_frequency(read_tsc(), 1e9));
        let card =
            PeerCard::new(card("rtl8168"), ours, (attachment, MEMORY as u64), process(), clock);
        let file = tempfile::tempfile_in("/dev/shm").expect("a file");
        file.set_len(MEMORY as u64).expect("a file");
        let words = SharedWords::map(file.try_clone().expect("a file"), 0, MEMORY).expect("memory");
        Peer { stream, card: card.expect("a process to stop"), file, words, ends: Vec::new() }
    }

    fn send(&self, [code, flags, bytes]: [u32; 3], body: &[u8], files: &[BorrowedFd<'_>]) {
        let mut message = [code, flags, bytes].map(u32::to_le_bytes).concat();
        message.extend(body);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(files));
        }
        let parts = [IoSlice::new(&message)];
        let _ = sendmsg(&self.stream, &parts, &mut ancillary, SendFlags::NOSIGNAL);
    }

    /// A message as a kernel sends it, with files.
    fn say(&mut self, code: u32, body: &[u64], files: &[BorrowedFd<'_>]) {
        let body: Vec<u8> = body.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.send([code, VERSION, body.len() as u32], &body, files);
        self.card.serve_connection().expect("a kernel says so");
    }

    /// A message with one end of a pair of sockets, of which the other end is kept.
    fn hand(&mut self, code: u32, body: &[u64]) {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        other.set_nonblocking(true).expect("a socket");
        self.say(code, body, &[one.as_fd()]);
        self.ends.push(other);
    }

    fn share(&mut self) {
        let file = self.file.try_clone().expect("a file");
        self.say(code::SET_MEM_TABLE, &[1, 0, MEMORY as u64, USER, 0], &[file.as_fd()]);
    }

    fn queue(&mut self, number: u64) {
        let begin = USER + QUEUES[number as usize];
        self.say(code::SET_VRING_NUM, &[QUEUE_SIZE << 32 | number], &[]);
        self.say(code::SET_VRING_BASE, &[number], &[]);
        let places = [number, begin, begin + USED, begin + AVAILABLE, 0];
        self.say(code::SET_VRING_ADDR, &places, &[]);
        self.hand(code::SET_VRING_KICK, &[number]);
        self.hand(code::SET_VRING_CALL, &[number]);
        self.say(code::SET_VRING_ENABLE, &[1 << 32 | number], &[]);
    }

    fn store(&self, at: u64, value: u64) {
        self.words.store(at as usize / 8, value, Relaxed);
    }

    fn load(&self, at: u64) -> u64 {
        self.words.load(at as usize / 8, Relaxed)
    }

    /// A descriptor: address, length, flags, and the next one.
    fn describe(&self, queue: u64, index: u64, [address, length, flags, next]: [u64; 4]) {
        let at = QUEUES[queue as usize] + 16 * (index % QUEUE_SIZE);
        self.store(at, address);
        self.store(at + 8, length & 0xffff_ffff | (flags & 0xffff) << 32 | next << 48);
    }

    /// Offers the chain that begins with this descriptor.
    fn offer(&self, queue: u64, head: u64) {
        let begin = QUEUES[queue as usize] + AVAILABLE;
        let halves = |at: u64| -> Vec<u16> {
            self.load(at)
                .to_le_bytes()
                .chunks(2)
                .map(|half| u16::from_le_bytes([half[0], half[1]]))
                .collect()
        };
        let count = halves(begin)[1];
        let place = 2 + u64::from(count) % QUEUE_SIZE;
        let at = begin + 8 * (place / 4);
        let mut four = halves(at);
        four[place as usize % 4] = head as u16;
        let word =
            |four: &[u16]| four.iter().rev().fold(0, |word, half| word << 16 | u64::from(*half));
        self.store(at, word(&four));
        let mut first = halves(begin);
        first[1] = count.wrapping_add(1);
        self.store(begin, word(&first));
    }

    /// The card does what there is to do: a bounded amount.
    fn poll(&mut self) {
        let before = self.card.counters();
        self.card.poll();
        let since = self.card.counters().since(&before);
        assert!(since.accesses + since.malformed <= MOST_SERVED, "{since:?} in one pass");
    }

    fn interrupt(&mut self, from: &mut Unstructured<'_>) -> Result<()> {
        let data = number(from)? as u32;
        let interrupts = self.card.parts().1.interrupts;
        match from.int_in_range(0..=4u8)? {
            0 => interrupts.signal(Interrupt::Intx(from.arbitrary()?)),
            1 => interrupts.interrupt_now(),
            2 => interrupts.set_present(from.arbitrary()?),
            _ => interrupts.signal(Interrupt::Msi(MsiMessage { address: 0, data })),
        }
        Ok(())
    }

    /// What the card's side has answered is answers.
    fn check_answers(&mut self) {
        let mut bytes = Vec::new();
        // It ends where nothing more is there.
        let _ = self.stream.read_to_end(&mut bytes);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (head, behind) = rest.split_at(12);
            let word = |at: usize| {
                u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            assert_eq!((word(4), word(8)), (VERSION | REPLY, 8), "an answer, of a number");
            assert!(word(0) < code::LAST);
            rest = &behind[8..];
        }
    }
}

/// A kernel with a bridge, as far as its card is attached.
fn with_bridge() -> Peer {
    let mut peer = Peer::new(Attachment::Bridge { polling: true });
    peer.store(WINDOW + 8 * header::MAGIC as u64, layout::MAGIC);
    peer.store(WINDOW + 8 * header::VERSION as u64, layout::VERSION);
    peer.describe(0, 0, [WINDOW, layout::WINDOW_BYTES as u64, 2, 0]);
    peer.offer(0, 0);
    peer.share();
    peer.hand(code::SET_BACKEND_REQUESTS, &[]);
    peer.queue(0);
    assert!(peer.card.is_attached());
    peer
}

fn with_virt_pci() -> Peer {
    let mut peer = Peer::new(Attachment::VirtPci);
    peer.share();
    (0..2).for_each(|number| peer.queue(number));
    assert!(peer.card.is_attached());
    peer
}

/// The body of a message that may be one of a kernel's.
fn body(code: u32, from: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let index = from.int_in_range(0..=2)?;
    let words = match code {
        code::SET_MEM_TABLE => {
            let count = from.int_in_range(0..=9)?;
            let mut words = vec![if once_in(from, 6)? { number(from)? } else { count }];
            for region in 0..count {
                // Never much, and never a little less than too much: all of it is made at once.
                let length =
                    *from.choose(&[0x1000, 0x1_0000, 0, 1, 4_095, 65 << 30, 1 << 62, u64::MAX])?;
                let bus = if once_in(from, 3)? { number(from)? } else { region << 20 };
                let user = if once_in(from, 3)? { number(from)? } else { USER + (region << 20) };
                let offset = *from.choose(&[0, 0, 0x1000, 8, u64::MAX, 1 << 63])?;
                words.extend([bus, length, user, offset]);
            }
            words
        }
        code::SET_VRING_ADDR => {
            let begin = USER + QUEUES[0];
            let mut words = vec![index, begin, begin + USED, begin + AVAILABLE, 0];
            if once_in(from, 2)? {
                words[from.int_in_range(1..=3)?] = USER.wrapping_add(number(from)?);
            }
            words
        }
        code::SET_VRING_NUM | code::SET_VRING_BASE | code::SET_VRING_ENABLE => {
            vec![number(from)? << 32 | index]
        }
        code::SET_VRING_KICK | code::SET_VRING_CALL => vec![index | (number(from)? & 0x1ff)],
        _ => vec![number(from)?; from.int_in_range(0..=4)?],
    };
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if once_in(from, 6)? {
        bytes.truncate(from.int_in_range(0..=bytes.len())?);
    }
    Ok(bytes)
}

/// Any message, with any files.
fn message(peer: &Peer, from: &mut Unstructured<'_>) -> Result<()> {
    let code = from.int_in_range(0..=code::LAST)?;
    let flags = if once_in(from, 12)? { from.arbitrary()? } else { VERSION };
    let flags = if once_in(from, 2)? { flags | NEED_REPLY } else { flags };
    let body = body(code, from)?;
    let small = tempfile::tempfile_in("/dev/shm").expect("a file");
    let (one, _other) = UnixStream::pair().expect("a pair of sockets");
    let mut files = Vec::new();
    let most = if once_in(from, 8)? { 12 } else { 2 };
    for _ in 0..from.int_in_range(0..=most)? {
        files.push(match from.int_in_range(0..=3u8)? {
            0 => small.as_fd(),
            1 => one.as_fd(),
            _ => peer.file.as_fd(),
        });
    }
    peer.send([code, flags, body.len() as u32], &body, &files);
    Ok(())
}

fn conversation(mut peer: Peer, from: &mut Unstructured<'_>) {
    let mut over = false;
    steps(from, 40, |from| {
        if over {
            return Err(arbitrary::Error::IncorrectFormat);
        }
        match from.int_in_range(0..=5u8)? {
            0..=3 => {
                message(&peer, from)?;
                over = peer.card.serve_connection().is_err();
            }
            4 => {
                let at = from.int_in_range(0..=MEMORY as u64 / 8 - 1)?;
                peer.store(8 * at, number(from)?);
            }
            _ => peer.poll(),
        }
        Ok(())
    });
    if !over && from.int_in_range(0..=1u8) == Ok(1) {
        // The last message promises more than comes: the end of the connection is behind it.
        peer.send([number(from).unwrap_or_default() as u32, VERSION, 40], &[0; 8], &[]);
        let _ = peer.stream.shutdown(std::net::Shutdown::Write);
        assert!(peer.card.serve_connection().is_err());
        assert!(!peer.card.is_attached());
    }
    peer.check_answers();
    peer.poll();
}

/// Words of the bridge's window that matter.
fn bridge_step(peer: &mut Peer, from: &mut Unstructured<'_>) -> Result<()> {
    let word = |at: usize| WINDOW + 8 * at as u64;
    match from.int_in_range(0..=6u8)? {
        0 | 1 => {
            let access = Access {
                space: if once_in(from, 3)? { Space::Config } else { Space::Bar(2) },
                offset: if once_in(from, 6)? {
                    from.arbitrary()?
                } else {
                    from.int_in_range(0..=0x108)?
                },
                width: *from.choose(&[Width::B1, Width::B2, Width::B4, Width::B8])?,
                operation: match from.arbitrary()? {
                    true => Operation::Read(number(from)?),
                    false => Operation::Write(number(from)?),
                },
            };
            let head = peer.load(word(layout::REQUESTS_HEAD));
            let place = head as usize % layout::REQUESTS.capacity;
            let [first, second] = access.to_entry();
            let first = if once_in(from, 8)? { number(from)? } else { first };
            peer.store(word(layout::REQUESTS.entries + 2 * place), first);
            peer.store(word(layout::REQUESTS.entries + 2 * place + 1), second);
            peer.store(word(layout::REQUESTS_HEAD), head.wrapping_add(1));
        }
        2 => {
            let words = [
                layout::REQUESTS_HEAD,
                layout::REQUESTS_TAIL,
                layout::SLEEPING,
                layout::TAKEN,
                layout::INTERRUPTS,
                layout::HICCUPS,
            ];
            let at = *from.choose(&words)?;
            peer.store(word(at), number(from)?);
        }
        3 => {
            let at = from.int_in_range(0..=layout::WINDOW_BYTES / 8 - 1)?;
            peer.store(word(at), number(from)?);
        }
        4 => peer.interrupt(from)?,
        _ => peer.poll(),
    }
    Ok(())
}

/// Messages and descriptors of virt-pci's queues.
fn queue_step(peer: &mut Peer, from: &mut Unstructured<'_>) -> Result<()> {
    let queue = from.int_in_range(0..=1)?;
    let index = from.int_in_range(0..=QUEUE_SIZE - 1)?;
    match from.int_in_range(0..=7u8)? {
        0..=2 => {
            let op = from.int_in_range(0..=8u64)?;
            let bar = from.int_in_range(0..=5u64)?;
            let size = if once_in(from, 4)? { number(from)? } else { from.int_in_range(0..=16)? };
            let address =
                if once_in(from, 4)? { number(from)? } else { from.int_in_range(0..=0x108)? };
            let begin = WINDOW + BUFFER * index;
            peer.store(begin, op | bar << 8 | size << 32);
            peer.store(begin + 8, address);
            peer.store(begin + 16, number(from)?);
            let length =
                if once_in(from, 4)? { number(from)? } else { 16 + from.int_in_range(0..=16)? };
            peer.describe(queue, index, [begin, length, 1, index + 1]);
            peer.describe(queue, index + 1, [begin + BUFFER, from.int_in_range(0..=64)?, 2, 0]);
            peer.offer(queue, index);
        }
        3 => {
            let address = if once_in(from, 2)? { number(from)? } else { WINDOW + BUFFER * index };
            let flags = from.int_in_range(0..=7)?;
            peer.describe(queue, index, [address, number(from)?, flags, number(from)? & 0xffff]);
            peer.offer(queue, number(from)?);
        }
        4 => {
            let at = QUEUES[queue as usize] + 8 * from.int_in_range(0..=0x2fff / 8)?;
            peer.store(at, number(from)?);
        }
        5 => peer.interrupt(from)?,
        _ => peer.poll(),
    }
    Ok(())
}

#[test]
fn vhost_user() {
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        bounded(|| {
            let peer = match from.int_in_range(0..=4u8) {
                Ok(0) => with_bridge(),
                Ok(1) => with_virt_pci(),
                Ok(2) => Peer::new(Attachment::VirtPci),
                _ => Peer::new(Attachment::Bridge { polling: false }),
            };
            conversation(peer, &mut from);
        });
    });
}

#[test]
fn bridge_window() {
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        bounded(|| {
            let mut peer = with_bridge();
            steps(&mut from, 100, |from| bridge_step(&mut peer, from));
            peer.poll();
        });
    });
}

#[test]
fn virtqueues() {
    bolero::check!().with_max_len(1_024).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        bounded(|| {
            let mut peer = with_virt_pci();
            steps(&mut from, 100, |from| queue_step(&mut peer, from));
            peer.poll();
        });
    });
}
