//! The engine that empties transmit queues.
//!
//! The engine looks for descriptors that belong to the card, transfers what they name, hands it to
//! the model, which sends it, and gives the descriptors back. What it does within one call is bounded
//! ([`TxLimits`]); a timer takes up the rest.
//!
//! - Without an [`Engine`] nothing takes time, and all of it happens within the doorbell's write. A
//!   descriptor that the driver hands over later comes with a doorbell of its own, so none is lost.
//! - With one, nothing of it happens within a register write, but that a FIFO on the card is looked at:
//!   bytes are moved, frames sent and descriptors given back when a timer finds the transfers
//!   completed. A call that comes late finishes each at its own time. Descriptors in memory that the
//!   driver hands over while such a call is due count as ones that were there already.

use std::fmt::Debug;

use warikomi_clock::{Span, Time};
use warikomi_pci::DmaError;

use super::bell::Ring;
use super::{Alarm, Engine, Outgoing, TxFormat, TxQueue};
use crate::NicContext;
use crate::strict::{FindingKind, Place};

/// What is said of a doorbell more than there were frames.
const RUNG_AGAIN: &str =
    "rung once more, and no descriptor is the card's, which has just carried out the last";
/// Who does that on purpose.
const RINGS_AGAIN: &str = "as Linux r8169 does in rtl_tx, comment \"8168 hack\"; harmless";

/// How much an engine does in one call before the support side gets to do something else.
#[derive(Clone, Copy, Debug)]
pub struct TxLimits {
    /// Times that something is handed to the model.
    pub chains: usize,
    /// Descriptors given back; the last chain may go beyond.
    pub descriptors: usize,
    /// Frames sent; the same.
    pub frames: usize,
    /// How soon the rest is taken up.
    pub pause: Span,
}

/// Which queue comes first if several have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// The one with the lowest number.
    Strict,
    /// The one behind that which was last.
    RoundRobin,
}

/// What the engine is doing.
#[derive(Clone, Copy, Debug)]
enum State {
    /// It waits for a doorbell.
    Idle,
    /// It looks at the queues, from this time on.
    Looking(Time),
    /// The transfers of what it has found on this queue are completed at this time.
    Transferring(usize, Time),
}

impl State {
    /// When there is something to do.
    #[inline]
    fn due(self) -> Time {
        match self {
            State::Idle => Time::NEVER,
            State::Looking(due) | State::Transferring(_, due) => due,
        }
    }
}

/// What one call of the engine has done.
#[derive(Debug)]
pub struct TxRun {
    /// Frames sent.
    pub frames: usize,
    /// Whether it has come to the end of all queues; or the transfer that failed, after which it
    /// stands still.
    pub ended: Result<bool, DmaError>,
}

/// Transmit queues, and the engine that empties them.
#[derive(Debug)]
pub struct TxEngine<F: TxFormat> {
    queues: Vec<TxQueue<F>>,
    arbitration: Arbitration,
    /// The queue that was last.
    last: usize,
    limits: TxLimits,
    enabled: bool,
    halted: bool,
    link: bool,
    /// What takes time, if anything does.
    engine: Option<Engine>,
    /// Bytes on the card of a frame that is not complete.
    held: usize,
    state: State,
    alarm: Alarm,
}

impl<F: TxFormat> TxEngine<F> {
    /// An engine that is switched off, and its queues. Its timer has this tag.
    pub fn new(
        formats: impl IntoIterator<Item = F>,
        arbitration: Arbitration,
        engine: Option<Engine>,
        limits: TxLimits,
        tag: u32,
    ) -> Self {
        TxEngine {
            queues: formats.into_iter().map(TxQueue::new).collect(),
            arbitration,
            last: 0,
            limits,
            enabled: false,
            halted: false,
            link: true,
            engine,
            held: 0,
            state: State::Idle,
            alarm: Alarm::new(tag),
        }
    }

    /// One of its queues.
    ///
    /// # Panics
    ///
    /// If there is none with this number.
    pub fn queue(&self, queue: u16) -> &TxQueue<F> {
        &self.queues[usize::from(queue)]
    }

    /// The same, to be changed. A format that gets another ring needs
    /// [`restart_queue`](Self::restart_queue).
    pub fn queue_mut(&mut self, queue: u16) -> &mut TxQueue<F> {
        &mut self.queues[usize::from(queue)]
    }

    /// The driver switches it on or off. What that means for what is under way is the model's to say
    /// ([`stop`](Self::stop), [`start`](Self::start)); a transfer that is completed while it is off is
    /// forgotten.
    pub fn enable(&mut self, on: bool) {
        self.enabled = on;
    }

    /// Whether the driver has switched it on.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A DMA transfer has failed: nothing is sent before a reset.
    pub fn halt(&mut self) {
        self.halted = true;
        self.stop();
    }

    /// Whether the engine is on and not halted after an error.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.enabled && !self.halted
    }

    /// Switched off, all queues at their first descriptors, and nothing under way. The formats are as
    /// they were.
    pub fn reset(&mut self) {
        (self.enabled, self.halted, self.held) = (false, false, 0);
        self.queues.iter_mut().for_each(|queue| queue.restart_at(F::Place::default()));
        if let Some(engine) = &mut self.engine {
            engine.reset();
        }
        self.stop();
    }

    /// The ring of this queue is somewhere else from now on: it starts at its first descriptor, and
    /// what is under way from it is forgotten.
    pub fn restart_queue(&mut self, queue: u16) {
        self.restart_queue_at(queue, F::Place::default());
    }

    /// The same, and it starts at this descriptor, where a driver may say that.
    pub fn restart_queue_at(&mut self, queue: u16, place: F::Place) {
        let queue = usize::from(queue);
        self.queues[queue].restart_at(place);
        if let State::Transferring(from, due) = self.state
            && from == queue
        {
            self.state = State::Looking(due);
        }
    }

    /// A transfer that is under way begins anew with the next [`start`](Self::start).
    pub fn stop(&mut self) {
        self.state = State::Idle;
        self.alarm.cancel();
    }

    /// Notes what the driver has done to descriptors that are the card's, of every queue; for
    /// [`NicModel::inspect`](crate::NicModel::inspect).
    pub fn inspect(&mut self, cx: &mut NicContext<'_>) {
        let (open, active) = (self.is_open(), !matches!(self.state, State::Idle));
        if open && !self.queues.iter().any(|queue| queue.format.is_set()) {
            let which = (FindingKind::RingNotSet, Place::TxQueue(0));
            cx.note(which, F::SOURCE, || "switched on without a ring".to_owned());
        }
        for (index, queue) in (0..).zip(&mut self.queues) {
            if open && queue.format.is_set() {
                queue.inspect(cx, Place::TxQueue(index), active);
            } else {
                queue.watch.forget();
            }
        }
    }

    /// A doorbell of this queue is about to ring: notes if it rings for nothing.
    #[inline]
    pub fn check_doorbell(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        if cx.is_strict() && !self.halted {
            self.judge_doorbell(cx, queue);
        }
    }

    #[cold]
    fn judge_doorbell(&mut self, cx: &mut NicContext<'_>, number: u16) {
        let enabled = self.enabled;
        let queue = &mut self.queues[usize::from(number)];
        let owned = queue.format.look(cx, queue.head()).is_some();
        let (kind, what, source) = match queue.bell.ring(cx.now(), queue.done, owned) {
            _ if !queue.format.is_set() => {
                (FindingKind::RingNotSet, "rung without a ring", F::SOURCE)
            }
            _ if !enabled => {
                (FindingKind::EmptyDoorbell, "rung while the transmitter is off", F::SOURCE)
            }
            Ring::Frame => return,
            Ring::Again => (FindingKind::DoorbellAgain, RUNG_AGAIN, RINGS_AGAIN),
            Ring::Nothing => {
                (FindingKind::EmptyDoorbell, "rung, and no descriptor is the card's", F::SOURCE)
            }
        };
        cx.note((kind, Place::TxQueue(number)), source, || what.to_owned());
    }

    /// The link has come or gone, of a card that transfers nothing while there is none: what there is waits, and a
    /// transfer that is under way begins anew. Whether [`run`](Self::run) is to be called at once.
    pub fn set_link(&mut self, cx: &mut NicContext<'_>, link: bool) -> bool {
        self.link = link;
        if !link {
            self.stop();
        }
        self.start(cx)
    }

    /// A doorbell: there may be something on this queue. Whether [`run`](Self::run) is to be called at
    /// once.
    pub fn doorbell(&mut self, cx: &mut NicContext<'_>, queue: u16) -> bool {
        self.queues[usize::from(queue)].pending = true;
        self.start(cx)
    }

    /// Begins with what there is, if the engine stands still. Whether [`run`](Self::run) is to be called
    /// at once.
    pub fn start(&mut self, cx: &mut NicContext<'_>) -> bool {
        if !self.is_open() || !self.link {
            return false;
        }
        let immediate = self.engine.is_none();
        if let State::Idle = self.state {
            self.state = State::Looking(cx.now());
            if !immediate {
                if !F::IN_MEMORY
                    && let Ok(next) = self.look(cx, cx.now())
                {
                    self.state = next;
                }
                self.set_alarm(cx, cx.now());
            }
        }
        immediate
    }

    /// The engine's timer: whether [`run`](Self::run) is to be called.
    pub fn timer(&mut self, cx: &mut NicContext<'_>) -> bool {
        self.alarm.event(cx)
    }

    /// Does what is due, as much as the limits allow. `send` gets what has been transferred, and says how
    /// many frames it has sent.
    pub fn run(
        &mut self,
        cx: &mut NicContext<'_>,
        mut send: impl FnMut(&mut NicContext<'_>, &mut Outgoing<'_, F>) -> Result<usize, DmaError>,
    ) -> TxRun {
        let mut run = TxRun { frames: 0, ended: Ok(false) };
        let (mut state, mut chains, mut descriptors) = (self.state, 0, 0);
        while state.due() <= cx.now()
            && chains < self.limits.chains
            && descriptors < self.limits.descriptors
            && run.frames < self.limits.frames
        {
            if !self.is_open() {
                state = State::Idle;
                break;
            }
            let next = match state {
                State::Idle => break,
                State::Looking(from) => self.look(cx, from),
                State::Transferring(queue, at) => {
                    chains += 1;
                    descriptors += self.queues[queue].chain.len();
                    self.finish(cx, (queue, at), &mut send, &mut run.frames)
                        .map(|()| State::Looking(at))
                }
            };
            state = next.unwrap_or(State::Idle);
            run.ended = next.map(|next| matches!(next, State::Idle));
            if run.ended.is_err() {
                break;
            }
        }
        self.state = state;
        self.set_alarm(cx, cx.now() + self.limits.pause);
        run
    }

    /// The timer comes when there is something to do; at `soonest`, if there is by now.
    fn set_alarm(&mut self, cx: &mut NicContext<'_>, soonest: Time) {
        let due = self.state.due();
        if due != Time::NEVER {
            self.alarm.set(cx, if due > cx.now() { due } else { soonest });
        }
    }

    /// Looks at the queues, and begins to transfer what is there.
    #[inline]
    fn look(&mut self, cx: &mut NicContext<'_>, from: Time) -> Result<State, DmaError> {
        let count = self.queues.len();
        let first = match self.arbitration {
            Arbitration::Strict => 0,
            Arbitration::RoundRobin => self.last + 1,
        };
        for index in (first..first + count).map(|index| index % count) {
            let queue = &mut self.queues[index];
            if !queue.pending {
                continue;
            }
            if queue.look(cx)? {
                self.last = index;
                return Ok(State::Transferring(index, self.transfer(cx, index, from)));
            }
            queue.pending = false;
        }
        Ok(State::Idle)
    }

    /// Begins the transfers of what was found on a queue: when the last one is completed.
    #[inline]
    fn transfer(&mut self, cx: &NicContext<'_>, queue: usize, from: Time) -> Time {
        let Some(engine) = &mut self.engine else { return cx.now() };
        let (mut at, mut held) = (from, self.held);
        for descriptor in &self.queues[queue].chain {
            at = engine.transfer(at.max(descriptor.since), held, descriptor.bytes, F::IN_MEMORY);
            held += descriptor.bytes;
        }
        at
    }

    /// Hands what has been transferred to the model, and the descriptors back to the driver. Counts the
    /// frames that were sent.
    #[inline]
    fn finish(
        &mut self,
        cx: &mut NicContext<'_>,
        (index, at): (usize, Time),
        send: &mut impl FnMut(&mut NicContext<'_>, &mut Outgoing<'_, F>) -> Result<usize, DmaError>,
        frames: &mut usize,
    ) -> Result<(), DmaError> {
        let queue = &mut self.queues[index];
        let mut outgoing = Outgoing {
            queue: index as u16,
            at,
            chain: &queue.chain,
            usable: queue.usable,
            engine: self.engine.as_mut(),
            held: &mut self.held,
        };
        let sent = send(cx, &mut outgoing)?;
        *frames += sent;
        queue.give_back(cx, sent)
    }
}
