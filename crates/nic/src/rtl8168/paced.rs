//! Transmitting over a bus, and down a line, that take their time.
//!
//! The engine reads the chain at a ring's head and begins its transfers; when the last is completed,
//! the bytes are moved, the frame is sent and its descriptors are given back. Nothing of it happens
//! within a register write, and a call that comes late finishes each frame at its own time. A chain
//! that the driver hands over while such a call is due counts as one that was there already.

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::Rtl8168;
use super::tx::{Head, Queue, Walk};
use crate::NicContext;
use crate::engine::Engine;

/// Chains that one call finishes before the support side gets to do something else.
const CHAINS_PER_CALL: usize = 64;
/// How soon the rest is taken up.
const CONTINUE_AFTER: Span = Span::from_ns(1);

/// What the engine does.
#[derive(Clone, Copy, Debug)]
enum State {
    /// It waits for a doorbell.
    Idle,
    /// It looks for a chain, from this time on.
    Looking(Time),
    /// The transfers of the chain that it has read are completed at this time.
    Transferring(Queue, Head, Time),
}

/// The engine, and what it is doing.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) engine: Engine,
    state: State,
}

impl Pace {
    pub(super) fn new(engine: Engine) -> Self {
        Pace { engine, state: State::Idle }
    }

    /// The ring of this queue is somewhere else from now on.
    pub(super) fn ring_gone(&mut self, queue: Queue) {
        if let State::Transferring(of, _, due) = self.state
            && of == queue
        {
            self.state = State::Looking(due);
        }
    }

    pub(super) fn reset(&mut self) {
        self.engine.reset();
        self.state = State::Idle;
    }

    /// When there is something to do.
    fn due(&self) -> Time {
        match self.state {
            State::Idle => Time::NEVER,
            State::Looking(due) | State::Transferring(.., due) => due,
        }
    }
}

impl Rtl8168 {
    /// A doorbell: the engine looks at the ring when it has the time.
    pub(super) fn begin_paced(&mut self, cx: &mut NicContext<'_>, queue: Queue) {
        self.tx.rings[queue as usize].unfinished = true;
        let Some(pace) = &mut self.tx.pace else { return };
        if let State::Idle = pace.state {
            pace.state = State::Looking(cx.now());
            self.tx.alarm.set(cx, cx.now());
        }
    }

    /// The timer: goes on with what is due, a bounded number of chains.
    pub(super) fn transmit_paced(&mut self, cx: &mut NicContext<'_>) {
        let mut walk = Walk::default();
        let mut ended = Ok(false);
        for _ in 0..2 * CHAINS_PER_CALL {
            let due = self.tx.pace.as_ref().map_or(Time::NEVER, Pace::due);
            if due > cx.now() {
                break;
            }
            ended = self.advance(cx, &mut walk);
            if ended.is_err() {
                break;
            }
        }
        self.walked(cx, &walk, ended);
        let due = self.tx.pace.as_ref().map_or(Time::NEVER, Pace::due);
        if due != Time::NEVER {
            let soonest = if due > cx.now() { due } else { cx.now() + CONTINUE_AFTER };
            self.tx.alarm.set(cx, soonest);
        }
    }

    /// Does the next thing. Whether the rings' ends were reached.
    fn advance(&mut self, cx: &mut NicContext<'_>, walk: &mut Walk) -> Result<bool, DmaError> {
        let Some(pace) = &mut self.tx.pace else { return Ok(true) };
        let state = std::mem::replace(&mut pace.state, State::Idle);
        if !self.tx.is_open() {
            return Ok(false);
        }
        let next = match state {
            State::Idle => State::Idle,
            State::Looking(from) => self.look_paced(cx, from)?,
            State::Transferring(queue, head, due) => {
                self.tx.at = due;
                self.send_chain(cx, queue, head, walk)?;
                State::Looking(due)
            }
        };
        if let Some(pace) = &mut self.tx.pace {
            pace.state = next;
        }
        Ok(matches!(next, State::Idle))
    }

    /// Looks for a chain on the rings, and begins its transfers.
    fn look_paced(&mut self, cx: &mut NicContext<'_>, from: Time) -> Result<State, DmaError> {
        for queue in [Queue::High, Queue::Normal] {
            if !self.tx.rings[queue as usize].unfinished {
                continue;
            }
            let head = self.tx.look(cx, queue)?;
            if head != Head::Nothing {
                return Ok(State::Transferring(queue, head, self.tx.transfer_chain(from)));
            }
            self.tx.rings[queue as usize].unfinished = false;
        }
        Ok(State::Idle)
    }
}
