//! The other end of the cable as a judge: it holds what the NIC sends against what was to be sent.
//!
//! [`JudgingPeer`] is a wire around another. It shows each frame to its [`Judge`], and hands it on to the
//! wire within unless the judge keeps it. What differs is the judge:
//! - [`Numbered`](numbered::Numbered): each datagram of a run once, in order, unharmed; or each message of a TCP stream.
//! - [`InTurn`](in_turn::InTurn): each message of a kernel's own senders in its turn, also in fragments.
//! - [`Workload`](workload::Workload): numbered datagrams beside a TCP stream, and when frames of both came.
//!
//! A [`Talker`](talker::Talker) around any of these has frames for the NIC, too.

mod connection;
pub mod in_turn;
pub mod numbered;
mod packet;
mod reassembly;
mod stream;
pub mod talker;
pub mod workload;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warikomi_clock::Time;

use crate::{Wire, WireCounters};

/// What becomes of a frame that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The judge keeps the frame.
    Kept,
    /// The wire within gets it.
    Passed,
}

/// Holds frames against what was to be sent.
pub trait Judge: Send {
    /// Looks at a frame that the NIC sends at `now`.
    fn frame(&mut self, now: Time, frame: &[u8]) -> Fate;
}

/// A wire around another that shows each frame to a judge first.
#[derive(Debug)]
pub struct JudgingPeer<J, W> {
    judge: Judged<J>,
    inner: W,
    kept: WireCounters,
}

impl<J: Judge, W: Wire> JudgingPeer<J, W> {
    /// A wire whose frames `judge` sees before `inner`, and a handle on the judge.
    pub fn new(judge: J, inner: W) -> (JudgingPeer<J, W>, Judged<J>) {
        let judge = Judged(Arc::new(Mutex::new(judge)));
        (JudgingPeer { judge: judge.clone(), inner, kept: WireCounters::default() }, judge)
    }
}

impl<J: Judge, W: Wire> Wire for JudgingPeer<J, W> {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        let fate = self.judge.lock().frame(now, frame);
        match fate {
            Fate::Kept => self.kept.sent(frame),
            Fate::Passed => self.inner.transmit(now, frame),
        }
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        self.inner.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        self.inner.receive(now)
    }

    fn counters(&self) -> WireCounters {
        self.inner.counters() + self.kept
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.inner.finish()
    }
}

/// A handle on a judge, for callers that have no access to the wire.
#[derive(Debug)]
pub struct Judged<J>(Arc<Mutex<J>>);

impl<J> Judged<J> {
    /// The judge; no frame passes meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, J> {
        // A judge only counts: after a panic its numbers are still sound.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Clone for Judged<J> {
    fn clone(&self) -> Judged<J> {
        Judged(Arc::clone(&self.0))
    }
}
