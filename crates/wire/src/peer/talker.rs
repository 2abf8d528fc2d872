//! Numbered frames for the NIC, whatever its driver is doing.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warikomi_clock::{Span, Time};

use crate::{Wire, WireCounters};

/// Makes the frame with this number.
type MakeFrame = Box<dyn FnMut(u64) -> Vec<u8> + Send>;

/// Frames for the NIC, one every interval.
struct Source {
    make: MakeFrame,
    interval: Span,
    due: Time,
}

#[derive(Default)]
struct State {
    source: Option<Source>,
    /// Frames that the source has sent since it began.
    sent: u64,
}

/// Tells a [`Talker`] what to send.
#[derive(Clone, Default)]
pub struct Talk(Arc<Mutex<State>>);

impl Talk {
    /// From `start` on sends a frame every `interval`, numbered from 0 on.
    pub fn begin(
        &self,
        make: impl FnMut(u64) -> Vec<u8> + Send + 'static,
        interval: Span,
        start: Time,
    ) {
        let source = Source { make: Box::new(make), interval, due: start };
        *self.state() = State { source: Some(source), sent: 0 };
    }

    /// Sends no more frames; how many it has sent.
    pub fn end(&self) -> u64 {
        let mut state = self.state();
        state.source = None;
        state.sent
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is only counted: after a panic its numbers are still sound.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self) -> Time {
        self.state().source.as_ref().map_or(Time::NEVER, |source| source.due)
    }

    /// The next frame, if it is due.
    fn take(&self, now: Time) -> Option<Vec<u8>> {
        let mut state = self.state();
        let State { source, sent } = &mut *state;
        let source = source.as_mut().filter(|source| source.due <= now)?;
        let frame = (source.make)(*sent);
        source.due += source.interval;
        *sent += 1;
        Some(frame)
    }
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("sent", &self.state().sent).finish_non_exhaustive()
    }
}

/// A wire around another that has frames of its own for the NIC.
#[derive(Debug)]
pub struct Talker<W> {
    talk: Talk,
    inner: W,
    own: WireCounters,
}

impl<W: Wire> Talker<W> {
    /// A wire that is quiet, and what tells it what to send.
    pub fn new(inner: W) -> (Talker<W>, Talk) {
        let talk = Talk::default();
        (Talker { talk: talk.clone(), inner, own: WireCounters::default() }, talk)
    }
}

impl<W: Wire> Wire for Talker<W> {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.inner.transmit(now, frame);
    }

    fn next_arrival(&self) -> Time {
        self.inner.next_arrival().min(self.talk.due())
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        let Some(frame) = self.talk.take(now) else { return self.inner.receive(now) };
        self.own.received(&frame);
        Some(frame)
    }

    fn counters(&self) -> WireCounters {
        self.inner.counters() + self.own
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.inner.finish()
    }
}
