//! A client of vfio-user by hand, with numbers of its own (QEMU documentation, `docs/interop/vfio-user.rst`), so that a
//! wrong one in the server does not cancel out. It reads and writes registers for a driver, and answers questions about
//! its memory while it waits.

use std::io::{ErrorKind, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use warikomi_pci::{DmaMemory, Mmio, MmioError, SharedMemory, Width};

/// No answer takes so long, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

const HEADER: usize = 16;
const REPLY: u32 = 1;
const ERROR: u32 = 1 << 5;

/// A command is not answered.
pub const NO_REPLY: u32 = 1 << 4;

/// Commands.
pub mod command {
    /// What both agree on.
    pub const VERSION: u16 = 1;
    /// A window of memory.
    pub const DMA_MAP: u16 = 2;
    /// No window any more.
    pub const DMA_UNMAP: u16 = 3;
    /// About the device.
    pub const DEVICE_GET_INFO: u16 = 4;
    /// About a region.
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    /// About interrupts.
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    /// Interrupts, and their descriptors.
    pub const DEVICE_SET_IRQS: u16 = 8;
    /// Reads a region.
    pub const REGION_READ: u16 = 9;
    /// Writes a region.
    pub const REGION_WRITE: u16 = 10;
    /// The server reads memory.
    pub const DMA_READ: u16 = 11;
    /// The server writes memory.
    pub const DMA_WRITE: u16 = 12;
    /// Resets the device.
    pub const DEVICE_RESET: u16 = 13;
}

/// A message as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfioMessage {
    /// Its sender's number.
    pub id: u16,
    /// The command, or that of which it is the reply.
    pub command: u16,
    /// Flags of its header.
    pub flags: u32,
    /// Error number of its header.
    pub error: u32,
    /// What is behind the header.
    pub body: Vec<u8>,
}

/// A client, connected to a card.
pub struct VfioClient {
    stream: UnixStream,
    next_id: u16,
    register_bar: u8,
    /// Its memory, at the bus addresses at which it answers questions about it.
    pub memory: SharedMemory,
    /// Questions about its memory that it has answered.
    pub answered: u64,
    /// Answers that questions get instead of what they ask for: that they failed.
    pub refuses: bool,
}

impl VfioClient {
    /// Over this socket; the driver's registers are in this BAR.
    pub fn new(stream: UnixStream, memory: SharedMemory, register_bar: u8) -> VfioClient {
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        VfioClient { stream, next_id: 1, register_bar, memory, answered: 0, refuses: false }
    }

    /// Sends any bytes, with descriptors; whether the other end is there.
    pub fn send_bytes(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)), "fewer descriptors");
        }
        let flags = SendFlags::NOSIGNAL;
        let sent = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut ancillary, flags);
        sent.is_ok_and(|sent| sent == bytes.len())
    }

    /// A message's bytes.
    pub fn message(id: u16, command: u16, flags: u32, error: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = [id, command].map(u16::to_le_bytes).concat();
        let size = (HEADER + body.len()) as u32;
        bytes.extend([size, flags, error].map(u32::to_le_bytes).concat());
        bytes.extend_from_slice(body);
        bytes
    }

    /// Sends a command; its number, if the other end is there.
    pub fn send(
        &mut self,
        command: u16,
        flags: u32,
        body: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Option<u16> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.send_bytes(&VfioClient::message(id, command, flags, 0, body), files).then_some(id)
    }

    /// The next message; `None` if the connection is over.
    pub fn receive(&mut self) -> Option<VfioMessage> {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).ok()?;
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
        let mut body = vec![0; (word(4) as usize).checked_sub(HEADER)?];
        self.stream.read_exact(&mut body).ok()?;
        Some(VfioMessage { id: half(0), command: half(2), flags: word(8), error: word(12), body })
    }

    /// The reply to a command, or the number of its error; `None` if the connection is over. Questions that come first
    /// are answered.
    pub fn reply(&mut self, id: u16, command: u16) -> Option<Result<Vec<u8>, u32>> {
        loop {
            let message = self.receive()?;
            if message.flags & 0xf != REPLY {
                self.answer(&message);
                continue;
            }
            assert_eq!((message.id, message.command), (id, command), "the reply that is due");
            let failed = message.flags & ERROR != 0;
            assert!(!failed || message.body.is_empty(), "an error has no body");
            return Some(if failed { Err(message.error) } else { Ok(message.body) });
        }
    }

    /// Sends a command and waits for its reply.
    pub fn call(
        &mut self,
        command: u16,
        body: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Option<Result<Vec<u8>, u32>> {
        let id = self.send(command, 0, body, files)?;
        self.reply(id, command)
    }

    /// Answers questions about its memory for this long, or until `is_over`.
    pub fn answer_until(
        &mut self,
        at_most: Duration,
        mut is_over: impl FnMut(&Self) -> bool,
    ) -> bool {
        let until = Instant::now() + at_most;
        self.stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
        let mut over = is_over(self);
        while !over && Instant::now() < until {
            let mut byte = [0];
            match rustix::net::recv(&self.stream, &mut byte, rustix::net::RecvFlags::PEEK) {
                Ok((1.., _)) => {
                    self.stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                    let question = self.receive().expect("all of a message");
                    self.answer(&question);
                    self.stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
                }
                Ok(_) => break,
                Err(_) => {}
            }
            over = is_over(self);
        }
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        over
    }

    fn answer(&mut self, question: &VfioMessage) {
        let long = |at: usize| {
            let bytes = question.body[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let (address, count) = (long(0), long(8) as usize);
        let head = question.body[..16].to_vec();
        let answer = match question.command {
            command::DMA_READ => {
                let mut data = vec![0; count];
                self.memory.read(address, &mut data).map(|()| [head, data].concat())
            }
            command::DMA_WRITE => {
                assert_eq!(question.body.len(), 16 + count, "as much data as it says");
                self.memory.write(address, &question.body[16..]).map(|()| head)
            }
            other => panic!("the server sent command {other}"),
        };
        self.answered += 1;
        let VfioMessage { id, command, .. } = *question;
        let bytes = match answer {
            Ok(body) if !self.refuses => VfioClient::message(id, command, REPLY, 0, &body),
            _ => VfioClient::message(id, command, REPLY | ERROR, 14, &[]),
        };
        self.send_bytes(&bytes, &[]);
    }

    /// Proposes a version, as QEMU does.
    pub fn negotiate(&mut self) {
        let text = br#"{"capabilities": {"max_msg_fds": 16, "max_data_xfer_size": 1048576, "pgsizes": 4096,
            "max_dma_maps": 65535, "write_multiple": true}}"#;
        let body = [&[0, 0, 0, 0], text.as_slice(), &[0]].concat();
        let reply = self.call(command::VERSION, &body, &[]).expect("a server").expect("a version");
        assert_eq!((&reply[..4], reply.last()), (&[0; 4][..], Some(&0)));
    }

    /// Maps a window that can be read and written.
    pub fn map(
        &mut self,
        (address, bytes): (u64, u64),
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> Result<Vec<u8>, u32> {
        let mut body = [32, 3].map(u32::to_le_bytes).concat();
        let offset = file.map_or(0, |(_, offset)| offset);
        body.extend([offset, address, bytes].map(u64::to_le_bytes).concat());
        let files: Vec<_> = file.into_iter().map(|(file, _)| file).collect();
        self.call(command::DMA_MAP, &body, &files).expect("a server")
    }

    /// Takes a window away.
    pub fn unmap(&mut self, address: u64, bytes: u64) -> Result<Vec<u8>, u32> {
        let mut body = [24, 0].map(u32::to_le_bytes).concat();
        body.extend([address, bytes].map(u64::to_le_bytes).concat());
        self.call(command::DMA_UNMAP, &body, &[]).expect("a server")
    }

    /// Sets interrupts: `flags` says what is done with which data.
    pub fn set_irqs(
        &mut self,
        flags: u32,
        [index, start, count]: [u32; 3],
        data: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, u32> {
        let bytes = 20 + data.len() as u32;
        let mut body = [bytes, flags, index, start, count].map(u32::to_le_bytes).concat();
        body.extend_from_slice(data);
        self.call(command::DEVICE_SET_IRQS, &body, files).expect("a server")
    }

    /// Reads a region.
    pub fn region_read(&mut self, region: u32, offset: u64, bytes: u32) -> Result<Vec<u8>, u32> {
        let reply = self.call(command::REGION_READ, &access(region, offset, bytes), &[]);
        reply.expect("a server").map(|body| {
            assert_eq!(body[..16], access(region, offset, bytes), "the access that was asked for");
            assert_eq!(body.len(), 16 + bytes as usize);
            body[16..].to_vec()
        })
    }

    /// Writes a region.
    pub fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<Vec<u8>, u32> {
        let body = [access(region, offset, data.len() as u32).as_slice(), data].concat();
        self.call(command::REGION_WRITE, &body, &[]).expect("a server")
    }

    /// Writes a region, and waits for no answer.
    pub fn region_post(&mut self, region: u32, offset: u64, data: &[u8]) {
        let body = [access(region, offset, data.len() as u32).as_slice(), data].concat();
        self.send(command::REGION_WRITE, NO_REPLY, &body, &[]).expect("a server");
    }

    /// Whether nothing more has come.
    pub fn is_quiet(&self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let quiet = rustix::net::recv(&self.stream, &mut [0], rustix::net::RecvFlags::PEEK)
            .is_err_and(|error| std::io::Error::from(error).kind() == ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false).expect("a socket");
        quiet
    }
}

fn access(region: u32, offset: u64, bytes: u32) -> [u8; 16] {
    let mut body = [0; 16];
    body[..8].copy_from_slice(&offset.to_le_bytes());
    body[8..12].copy_from_slice(&region.to_le_bytes());
    body[12..].copy_from_slice(&bytes.to_le_bytes());
    body
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The region of configuration space.
const CONFIG: u32 = 7;

impl Mmio for VfioClient {
    fn register_bar(&self) -> u8 {
        self.register_bar
    }
    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        let data = self.region_read(bar.into(), offset, width.bytes() as u32);
        Ok(number(&data.expect("a register")))
    }
    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        let data = &value.to_le_bytes()[..width.bytes()];
        self.region_write(bar.into(), offset, data).expect("a register");
        Ok(())
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        let data = self.region_read(CONFIG, offset.into(), width.bytes() as u32);
        Ok(number(&data.expect("configuration space")))
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        let data = &value.to_le_bytes()[..width.bytes()];
        self.region_write(CONFIG, offset.into(), data).expect("configuration space");
        Ok(())
    }
}
