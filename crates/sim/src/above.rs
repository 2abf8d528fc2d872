//! What a driver in virtual time sees of its device and of the layer above, during one step.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use warikomi_clock::Span;
use warikomi_driver::device::Window;
use warikomi_driver::run::store::{Snapshot, SnapshotStore, StoreError};
use warikomi_driver::run::{Attachment, Lineage};
use warikomi_driver::state::{Held, LocalWords, Shown, StateError};
use warikomi_driver::{Buffer, Forgotten, Received, RxSink, Transmit, Upper};
use warikomi_pci::{Mmio, SharedMemory};
use warikomi_shared::{Message, SharedWords};
use warikomi_stack::ChannelUpper;

use super::device::Registers;
use super::known_frames::KnownFrames;
use super::pair::ChannelBug;
use super::pool::{Packet, Pool};
use super::session::{Outgoing, Ring, Session, Tap};
use super::trace::Event;
use crate::recorder::{RINGS, Recorder};

/// The data store: what the last driver has put there.
pub(super) type Kept = Rc<RefCell<Option<Snapshot>>>;

pub(super) struct Store(pub(super) Kept);

impl SnapshotStore for Store {
    fn put(&self, snapshot: Snapshot) -> Result<(), StoreError> {
        *self.0.borrow_mut() = Some(snapshot);
        Ok(())
    }

    fn get(&self) -> Result<Snapshot, StoreError> {
        self.0.borrow().clone().ok_or(StoreError::Missing(0))
    }
}

/// The device.
pub(super) struct Attached<'a> {
    pub(super) registers: Registers<'a>,
    pub(super) window: &'a mut Window<LocalWords>,
    pub(super) lineage: Option<&'a Lineage>,
    pub(super) store: Option<Kept>,
    pub(super) ring_bytes: u64,
    pub(super) processor_time: Span,
    /// Whether the next driver is to be woken.
    pub(super) passed_on: &'a std::cell::Cell<bool>,
}

impl Attachment for Attached<'_> {
    type Words = LocalWords;

    #[inline]
    fn registers(&mut self) -> &mut dyn Mmio {
        &mut self.registers
    }

    #[inline]
    fn window(&self) -> &Window<LocalWords> {
        self.window
    }

    #[inline]
    fn take_interrupt(&mut self) -> Option<Message> {
        self.window.take_interrupt(|| 0)
    }

    fn dma(&self) -> (u64, u64) {
        (RINGS, self.ring_bytes)
    }

    fn lineage(&self) -> Option<Lineage> {
        self.lineage.cloned()
    }

    fn take_store(&mut self, _: u64) -> Option<Box<dyn SnapshotStore>> {
        self.store.take().map(|kept| Box::new(Store(kept)) as Box<dyn SnapshotStore>)
    }

    fn wake_successor(&self) {
        self.passed_on.set(true);
    }

    fn processor_time(&self) -> Span {
        self.processor_time
    }
}

/// What a step has done with frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// Frames given up.
    pub(super) received: u64,
    /// Buffers given back without one.
    pub(super) returned: u64,
    /// Frames taken to be sent.
    pub(super) transmits: u64,
    /// What was on the ring is lost.
    pub(super) forgotten: bool,
}

/// The layer above: a channel, or the application in the same process. Tells what passes.
pub(super) struct Above<'a, 'o> {
    pub(super) channel: Option<(&'a mut Channel, &'a mut Session)>,
    pub(super) pool: &'a mut Pool,
    pub(super) outgoing: Option<&'a mut Outgoing>,
    /// What the card has put on the wire.
    pub(super) tap: &'a Tap,
    pub(super) given: &'a mut VecDeque<Packet>,
    pub(super) memory: &'a SharedMemory,
    pub(super) known_frames: &'a mut KnownFrames,
    pub(super) recorder: &'a mut Recorder<'o>,
    pub(super) moved: Moved,
    pub(super) channel_bug: Option<ChannelBug>,
}

/// The driver's end of a channel.
pub(super) type Channel = ChannelUpper<SharedWords, Ring>;

impl Above<'_, '_> {
    /// Tells of what the card has put on the wire in this step.
    fn tell_wire(&mut self) {
        if let Some(outgoing) = &mut self.outgoing {
            self.tap.tell(outgoing, self.recorder);
        }
    }

    fn is_sent(&mut self, token: u32, sent: bool) {
        // A card with few places has them back within the step in which they were filled.
        self.tell_wire();
        let sequence = self.outgoing.as_mut().and_then(|outgoing| outgoing.back(token));
        self.recorder.emit(&Event::SentBack { sequence, sent });
    }
}

impl RxSink for Above<'_, '_> {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        let buffer = match &mut self.channel {
            Some((channel, _)) => channel.buffer()?,
            None => self.pool.take()?,
        };
        if self.pool.is_forgotten(buffer.token()) {
            self.recorder.emit(&Event::BufferFreed { token: buffer.token() });
        }
        self.pool.on_ring(buffer.token());
        self.recorder.emit(&Event::BufferPosted { token: buffer.token() });
        Some(buffer)
    }

    #[inline]
    fn received(&mut self, buffer: Buffer, frame: Received) {
        let bytes = frame.bytes;
        let sequence = self.known_frames.sequence_at(self.memory, buffer.address, bytes);
        self.recorder.emit(&Event::FrameReceived { token: buffer.token(), sequence, bytes });
        self.pool.in_chain(buffer.token());
        self.moved.received += 1;
        match &mut self.channel {
            Some((channel, session)) => {
                channel.received(buffer, frame);
                session.rising += 1;
            }
            None => self.given.push_back(Packet { buffer, bytes }),
        }
    }

    fn returned(&mut self, buffer: Buffer) {
        self.recorder.emit(&Event::BufferReturned { token: buffer.token() });
        self.moved.returned += 1;
        match &mut self.channel {
            Some((channel, _)) => {
                self.pool.off_ring(buffer.token());
                channel.returned(buffer);
            }
            None => self.pool.release(buffer.token()),
        }
    }

    fn named(&self, token: u32) -> Option<Buffer> {
        self.channel.as_ref()?.0.named(token)
    }
}

impl Upper for Above<'_, '_> {
    #[inline]
    fn flush(&mut self) {
        if let Some((channel, _)) = &mut self.channel {
            channel.flush();
        }
    }

    #[inline]
    fn next_transmit(&mut self) -> Option<Transmit> {
        let next = match &mut self.channel {
            Some((channel, _)) => channel.next_transmit(),
            None => self.outgoing.as_mut()?.waiting.pop_front(),
        };
        self.moved.transmits += u64::from(next.is_some());
        next
    }

    fn sent(&mut self, token: u32) {
        match &mut self.channel {
            Some((channel, _)) => channel.sent(token),
            None => self.is_sent(token, true),
        }
    }

    fn not_sent(&mut self, token: u32) {
        match &mut self.channel {
            Some((channel, _)) => channel.not_sent(token),
            None => self.is_sent(token, false),
        }
    }

    fn prepare_to_sleep(&mut self) -> bool {
        match &mut self.channel {
            Some((channel, _)) => channel.prepare_to_sleep(),
            None => self.outgoing.as_ref().is_some_and(|outgoing| !outgoing.waiting.is_empty()),
        }
    }

    fn awake(&mut self) {
        if let Some((channel, session)) = &mut self.channel {
            session.for_provider.clear();
            channel.awake();
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn failure(&mut self) -> Option<String> {
        let (channel, session) = self.channel.as_mut()?;
        if session.gone { Some("the application is gone".to_owned()) } else { channel.failure() }
    }

    fn dropped(&self) -> u64 {
        self.channel.as_ref().map_or(0, |(channel, _)| channel.dropped())
    }

    fn rehearse(&self, held: &Held) {
        if let Some((channel, _)) = &self.channel {
            channel.rehearse(held);
        }
    }

    fn wake(&mut self) {
        if let Some((channel, _)) = &mut self.channel {
            channel.wake();
        }
    }

    fn shown(&self) -> Shown {
        self.channel.as_ref().map_or_else(Shown::default, |(channel, _)| channel.shown())
    }

    fn resume(&mut self, held: &Held) -> Result<(), StateError> {
        let nonsense = || StateError::Nonsense("there is no channel".to_owned());
        self.channel.as_mut().ok_or_else(nonsense)?.0.resume(held)
    }

    fn forget(&mut self) -> Forgotten {
        // What a dead driver had posted takes effect in the step that resets the device.
        self.tell_wire();
        self.recorder.emit(&Event::Forgotten);
        self.moved.forgotten = true;
        let Some((channel, session)) = &mut self.channel else { return Forgotten::default() };
        let forgotten = channel.forget();
        if let Some(bug) = self.channel_bug {
            bug(session, forgotten.buffers);
        }
        if forgotten.buffers == 0 {
            // Whoever died had not taken for good what it had: it is still posted.
            for token in self.pool.reclaim_ring() {
                self.recorder.emit(&Event::BufferFreed { token });
            }
        }
        self.pool.forget_ring();
        forgotten
    }
}
