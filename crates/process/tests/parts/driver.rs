//! A driver without a NIC: it makes up the frames that it receives, and tells what it was given to
//! send.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use warikomi_clock::Seed;
use warikomi_driver::{Buffer, Received, RxSink, Upper};
use warikomi_pci::DmaMemory;
use warikomi_pci::attach::layout::PACKET_BUS_ADDRESS;
use warikomi_process::programs::{Above, above_driver};
use warikomi_stack::{ChannelUpper, StackError};

use super::Running;

/// Buffers that it takes at a time.
const RING: usize = 64;

/// The test's handle on it.
pub(crate) struct DriverProcess {
    socket: OwnedFd,
}

impl DriverProcess {
    /// Starts it with the file of packet memory, and the socket of its invitation.
    pub(crate) fn start(
        files: Vec<OwnedFd>,
        start: impl FnOnce(&str, Box<dyn FnOnce(&mut Command) -> OwnedFd>) -> (Running, OwnedFd),
    ) -> (DriverProcess, Running) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(std::os::fd::AsFd::as_fd).collect();
        warikomi_shared::send(&ours, b"files", &borrowed).unwrap();
        let give = move |command: &mut Command| {
            command.stdin(theirs);
            ours
        };
        let (running, socket) = start("driver", Box::new(give));
        (DriverProcess { socket }, running)
    }

    /// Receives `count` times this frame, with the head's run and sequence number put in.
    pub(crate) fn send_frames(&mut self, count: u64, run_id: u32, frame: &[u8]) {
        let mut message = b"many".to_vec();
        message.extend(count.to_le_bytes());
        message.extend(run_id.to_le_bytes());
        message.extend(frame);
        warikomi_shared::send(&self.socket, &message, &[]).unwrap();
    }

    /// Receives this frame as it is.
    pub(crate) fn send_raw(&mut self, frame: &[u8]) {
        let message = [b"once".as_slice(), frame].concat();
        warikomi_shared::send(&self.socket, &message, &[]).unwrap();
    }

    /// Waits until so many frames have been sent; how many, and the first.
    pub(crate) fn frames_sent(&mut self, count: u64) -> (u64, Vec<u8>) {
        let message = [b"tell".as_slice(), &count.to_le_bytes()].concat();
        warikomi_shared::send(&self.socket, &message, &[]).unwrap();
        let (answer, _) = warikomi_shared::receive(&self.socket).unwrap();
        let (number, first) = answer.split_first_chunk().unwrap();
        (u64::from_le_bytes(*number), first.to_vec())
    }
}

/// Numbers that follow from a seed (splitmix64).
pub(crate) fn numbers(seed: Seed) -> impl FnMut() -> u64 {
    let mut state = seed.0;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// A frame to receive, how often, and the run and the next sequence number to put in.
type Job = (Vec<u8>, u64, Option<(u32, u64)>);

struct Fake {
    upper: ChannelUpper,
    memory: warikomi_pci::SharedMemory,
    ring: Vec<Buffer>,
    jobs: std::collections::VecDeque<Job>,
    sent: u64,
    first: Vec<u8>,
    tell_at: Option<u64>,
}

/// The process.
pub(crate) fn main() -> Result<(), StackError> {
    let socket = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?;
    let (_, mut files) = warikomi_shared::receive(&socket)?;
    let file = std::fs::File::from(files.remove(0));
    let bytes = file.metadata()?.len() as usize;
    let memory = warikomi_pci::SharedMemory::from_file(PACKET_BUS_ADDRESS, file, 0, bytes)?;
    let Above::Channel(upper) = above_driver(files)? else { panic!("no channel") };
    let mut fake = Fake {
        upper: *upper,
        memory,
        ring: Vec::new(),
        jobs: std::collections::VecDeque::new(),
        sent: 0,
        first: Vec::new(),
        tell_at: None,
    };
    let mut next = 0;
    loop {
        if !fake.step(&socket) {
            fake.sleep(&socket)?;
        }
        next += 1;
        if next % 256 == 0 || fake.jobs.is_empty() {
            fake.upper.neighbour()?;
            while fake.order(&socket)? {}
        }
    }
}

impl Fake {
    /// Whether something was done.
    fn step(&mut self, socket: &OwnedFd) -> bool {
        while self.ring.len() < RING
            && let Some(buffer) = self.upper.buffer()
        {
            self.ring.push(buffer);
        }
        let mut done = false;
        while let Some((frame, count, numbers)) = self.jobs.front_mut() {
            let Some(buffer) = (*count > 0).then(|| self.ring.pop()).flatten() else { break };
            if let Some((run, next)) = numbers
                && frame.len() >= 58
            {
                frame[42..46].copy_from_slice(b"WRIK");
                frame[46..50].copy_from_slice(&run.to_le_bytes());
                frame[50..58].copy_from_slice(&next.to_le_bytes());
                *next += 1;
            }
            self.memory.write(buffer.address, frame).unwrap();
            *count -= 1;
            let (bytes, checksums_good) = (frame.len() as u32, frame.len() >= 58);
            self.upper.received(buffer, Received { bytes, checksums_good });
            done = true;
            if *count == 0 {
                self.jobs.pop_front();
            }
        }
        while let Some(transmit) = self.upper.next_transmit() {
            if self.first.is_empty() {
                self.first = vec![0; transmit.bytes() as usize];
                self.memory.read(transmit.pieces()[0].0, &mut self.first).unwrap();
            }
            self.sent += 1;
            self.upper.sent(transmit.token());
            done = true;
        }
        self.upper.flush();
        if self.tell_at.is_some_and(|count| self.sent >= count) {
            self.tell_at = None;
            let answer = [self.sent.to_le_bytes().as_slice(), &self.first].concat();
            warikomi_shared::send(socket, &answer, &[]).unwrap();
        }
        done
    }

    fn sleep(&mut self, socket: &OwnedFd) -> Result<(), StackError> {
        if !self.upper.prepare_to_sleep() {
            let wakeup = self.upper.wakeup().unwrap();
            let mut files =
                [PollFd::new(&wakeup, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
            let limit = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let _ = poll(&mut files, Some(&limit));
        }
        self.upper.awake();
        self.upper.neighbour()
    }

    /// Whether there was one.
    fn order(&mut self, socket: &OwnedFd) -> Result<bool, StackError> {
        let mut files = [PollFd::new(socket, PollFlags::IN)];
        if poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap_or(0) == 0 {
            return Ok(false);
        }
        let (message, _) = warikomi_shared::receive(socket)?;
        match message.split_at_checked(4) {
            Some((b"many", rest)) => {
                let count = u64::from_le_bytes(rest[..8].try_into().unwrap());
                let run = u32::from_le_bytes(rest[8..12].try_into().unwrap());
                self.jobs.push_back((rest[12..].to_vec(), count, Some((run, 0))));
            }
            Some((b"once", rest)) => self.jobs.push_back((rest.to_vec(), 1, None)),
            Some((b"tell", rest)) => {
                self.tell_at = Some(u64::from_le_bytes(rest.try_into().unwrap()));
            }
            _ => return Err(StackError::Gone("the support side")),
        }
        Ok(true)
    }
}
