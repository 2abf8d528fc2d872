//! The data store of a target whose drivers follow one another by it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use warikomi_target::TargetError;

use crate::programs::store::{CLIENT, HELLO};

use super::Program;
use super::parts::{Parts, Running, sockets};
use super::seats::Seats;

/// The least time between two starts.
const START_EVERY: Duration = Duration::from_millis(100);

/// The store's process, which is started again when it ends, and its ends of the sockets to drivers. As
/// long as we keep those, a driver's socket does not hang up, and another store can be handed them.
pub(super) struct Store {
    program: Program,
    part: Option<Running>,
    /// It does not take what it is sent.
    is_stuck: bool,
    started: Option<Instant>,
    clients: Vec<(u32, OwnedFd)>,
}

impl Store {
    /// One that runs after the first [look](Self::look).
    pub(super) fn new(program: Program) -> Store {
        Store { program, part: None, is_stuck: false, started: None, clients: Vec::new() }
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
        self.part = parts.begin("store", &self.program, HELLO, &[]).ok();
        let Some(part) = &self.part else { return };
        let told = |(_, client): &(u32, OwnedFd)| part.tell(CLIENT, &[client.as_fd()]).is_ok();
        self.is_stuck = part.never_wait().is_err() || !self.clients.iter().all(told);
    }

    /// Its process id, if it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.part.as_ref().and_then(Running::id)
    }
}
