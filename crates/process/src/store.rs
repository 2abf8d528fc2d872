//! The data store of a target whose drivers follow one another by it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use warikomi_clock::TscClock;
use warikomi_target::TargetError;

use crate::programs::store::{CLIENT, HELLO, IN_TURN};
use crate::programs::store_client;

use super::parts::{Parts, Running, sockets};
use super::request_log::{self, Reader, StoreRequest};
use super::seats::Seats;
use super::succession::{MOST_STORE_CLIENTS, StateIo, StoreOptions};

/// The least time between two starts.
const START_EVERY: Duration = Duration::from_millis(100);

/// The store's process, which is started again when it ends, and its ends of the sockets to drivers. As
/// long as we keep those, a driver's socket does not hang up, and another store can be handed them.
pub(super) struct Store {
    options: StoreOptions,
    part: Option<Running>,
    /// It does not take what it is sent.
    is_stuck: bool,
    started: Option<Instant>,
    clients: Vec<(u32, OwnedFd)>,
    others: Vec<Other>,
    others_started: Option<Instant>,
}

/// One of its other clients.
struct Other {
    /// The store's end of its socket.
    socket: OwnedFd,
    part: Running,
    requests: Reader,
}

impl Store {
    /// One that runs after the first [look](Self::look).
    pub(super) fn new(options: StoreOptions) -> Store {
        Store {
            options,
            part: None,
            is_stuck: false,
            started: None,
            clients: Vec::new(),
            others: Vec::new(),
            others_started: None,
        }
    }

    /// A socket to the store, for the driver of a generation.
    pub(super) fn client(&mut self, generation: u32) -> Result<OwnedFd, TargetError> {
        let (ours, theirs) = sockets()?;
        if let Some(part) = &self.part {
            self.is_stuck |= part.tell(CLIENT, &[ours.as_fd()]).is_err();
        }
        self.clients.push((generation, ours));
        Ok(theirs)
    }

    /// Starts the store if there is none (any more), and lets go of the sockets of drivers that have no
    /// seat.
    pub(super) fn look(&mut self, parts: &mut Parts, seats: &Seats) {
        self.clients.retain(|(generation, _)| seats.has(*generation));
        if let Some(part) = &mut self.part {
            if !self.is_stuck && parts.failure_of(part).is_none() {
                self.look_at_others(parts);
                return;
            }
            if parts.end_of(part).is_none() {
                parts.kill(part);
                return;
            }
        }
        if let Some(part) = self.part.take() {
            parts.forget(part);
        }
        if self.started.is_some_and(|at| at.elapsed() < START_EVERY) {
            return;
        }
        self.started = Some(Instant::now());
        // What does not work is tried again: a store is needed only when a driver hands over.
        self.part = parts.begin(("store", None), &self.options.program, HELLO, &[]).ok();
        let Some(part) = &self.part else { return };
        let is_told = self.options.state_io == StateIo::First || part.tell(IN_TURN, &[]).is_ok();
        let drivers = self.clients.iter().map(|(_, socket)| socket);
        let mut all = drivers.chain(self.others.iter().map(|other| &other.socket));
        let is_handed = all.all(|socket| part.tell(CLIENT, &[socket.as_fd()]).is_ok());
        self.is_stuck = part.never_wait().is_err() || !is_told || !is_handed;
    }

    /// Starts clients that there ought to be, and lets go of those that have ended.
    fn look_at_others(&mut self, parts: &mut Parts) {
        for mut other in std::mem::take(&mut self.others) {
            match parts.end_of(&mut other.part) {
                None => self.others.push(other),
                Some(_) => parts.forget(other.part),
            }
        }
        let wanted = self.options.clients.min(MOST_STORE_CLIENTS) as usize;
        let too_soon = self.others_started.is_some_and(|at| at.elapsed() < START_EVERY);
        if self.others.len() >= wanted || too_soon {
            return;
        }
        self.others_started = Some(Instant::now());
        for number in self.others.len()..wanted {
            // What does not work is tried again.
            let Some(other) = self.begin_other(number, parts) else { return };
            self.others.push(other);
        }
    }

    fn begin_other(&mut self, number: usize, parts: &mut Parts) -> Option<Other> {
        let (ours, theirs) = sockets().ok()?;
        let log = request_log::create().ok()?;
        let requests = Reader::new(log.try_clone().ok()?).ok()?;
        let hello = store_client::hello(number, self.options.client_interval);
        let files = [theirs.as_fd(), log.as_fd()];
        let program = &self.options.client;
        let part = parts.begin(("store-client", None), program, hello.as_bytes(), &files).ok()?;
        if let Some(part) = &self.part {
            self.is_stuck |= part.tell(CLIENT, &[ours.as_fd()]).is_err();
        }
        Some(Other { socket: ours, part, requests })
    }

    /// What its other clients have asked for since the last call.
    pub(super) fn take_requests(&mut self, clock: &TscClock) -> Vec<StoreRequest> {
        self.others.iter_mut().flat_map(|other| other.requests.take(clock)).collect()
    }

    /// Process ids of the store and of its other clients, of those that run.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.id().into_iter().chain(self.others.iter().filter_map(|other| other.part.id()))
    }

    /// Its process id, if it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.part.as_ref().and_then(Running::id)
    }
}
