//! A card and its client, each in a thread of its own.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use warikomi_clock::{Clock, TscClock, read_tsc};
use warikomi_nic::{Frame, RxOutcome};
use warikomi_pci::SharedMemory;
use warikomi_testbench::{JudgingWire, Rig, Subject, VfioClient};

use super::VmPeerCard;

/// Where a client's memory is.
pub(super) const BASE: u64 = Rig::RINGS;
pub(super) const BYTES: u64 = 0x200_0000;

/// How a client shares its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// A memfd that can be sealed.
    Sealable,
    /// A file that cannot be sealed.
    Unsealable,
    /// No file.
    ByMessages,
}

/// What a client's thread has.
pub(super) struct Side {
    pub(super) client: VfioClient,
    pub(super) file: File,
    frames: Sender<Vec<u8>>,
    outcomes: Receiver<RxOutcome>,
}

impl Side {
    /// Maps all of its memory, in two windows that touch.
    pub(super) fn map(&mut self, shared: Shared) {
        let middle = BASE + BYTES / 2;
        for (address, offset) in [(BASE, 0), (middle, BYTES / 2)] {
            let file = (shared != Shared::ByMessages).then(|| (self.file.as_fd(), offset));
            self.client.map((address, BYTES / 2), file).unwrap();
        }
    }

    /// A frame comes from the wire, and what becomes of it.
    pub(super) fn arrive(&mut self, frame: &[u8]) -> RxOutcome {
        self.frames.send(frame.to_vec()).unwrap();
        let mut outcome = None;
        let outcomes = &self.outcomes;
        self.client.answer_until(std::time::Duration::from_secs(60), |_| {
            outcome = outcomes.try_recv().ok();
            outcome.is_some()
        });
        outcome.expect("the card takes it")
    }
}

pub(super) fn clock() -> Clock {
    Clock::Real(TscClock::with_frequency(read_tsc(), 1e9))
}

/// Memory as a file.
pub(super) fn memory_file(shared: Shared) -> File {
    let sealable = match shared {
        Shared::Unsealable => MemfdFlags::empty(),
        _ => MemfdFlags::ALLOW_SEALING,
    };
    let file = File::from(memfd_create("client", MemfdFlags::CLOEXEC | sealable).unwrap());
    file.set_len(BYTES).unwrap();
    file
}

/// An event descriptor, and a copy of it that does not wait.
pub(super) fn event() -> File {
    File::from(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
}

/// Events since the last look.
pub(super) fn events(mut event: &File) -> u64 {
    use std::io::Read;
    let mut bytes = [0; 8];
    event.read(&mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
}

/// Runs `client` against a card that is served meanwhile; the card, its wire, and how the connection ended.
pub(super) fn with_client<R: Send>(
    subject: &Subject,
    shared: Shared,
    client: impl FnOnce(&mut Side) -> R + Send,
) -> (R, VmPeerCard, JudgingWire, Option<String>) {
    let wire = JudgingWire::keeping();
    let nic = subject.build(Box::new(wire.clone()));
    let register_bar = nic.info().register_bar;
    let mut card = VmPeerCard::new(nic, clock()).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    card.connect(ours).unwrap();
    let (frames, arrivals) = channel::<Vec<u8>>();
    let (tell, outcomes) = channel();
    let mut ended = None;
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let file = memory_file(shared);
            let own = file.try_clone().unwrap();
            let memory = SharedMemory::from_file(BASE, own, 0, BYTES as usize).unwrap();
            let client_end = VfioClient::new(theirs, memory, register_bar);
            client(&mut Side { client: client_end, file, frames, outcomes })
        });
        while !thread.is_finished() {
            match card.poll() {
                Ok(pass) if !pass.worked => std::thread::yield_now(),
                Ok(_) => {}
                Err(error) => ended = Some(error),
            }
            for frame in arrivals.try_iter() {
                let (nic, mut host) = card.parts();
                let reception = nic.receive(&mut host, Frame::new(&frame));
                let _ = tell.send(reception.outcome);
            }
        }
        thread.join().unwrap()
    });
    (result, card, wire, ended)
}
