//! What is between the driver's process and the next: packet memory with a channel, and the channel's end
//! above; and what the application sends.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};

use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use warikomi_clock::Time;
use warikomi_driver::Transmit;
use warikomi_inject::{Addresses, FrameTemplate, PlanError};
use warikomi_pci::attach::layout::PACKET_BUS_ADDRESS;
use warikomi_pci::{DmaMemory, SharedMemory};
use warikomi_shared::{SharedWords, Wakeup};
use warikomi_stack::memory::BUFFER_ALIGN_BYTES;
use warikomi_stack::{
    ChannelPlace, ChannelUpper, Event, PacketMemory, Shape, Slice, UserEnd, Watch,
};
use warikomi_wire::{Wire, WireCounters};

use super::trace;
use super::traffic::number_in;
use super::{Options, VirtualError};
use crate::recorder::{RINGS, Recorder};

/// Frames that the application sends carry this.
const SENT_RUN_ID: u32 = 2;
/// Nobody reads the time stamps of packets here.
const TSC_HZ: u64 = 1_000_000_000;

/// What ends a sleep in virtual time: a call that is kept until the sleeper sees it.
#[derive(Clone, Default)]
pub(super) struct Ring {
    called: Rc<Cell<bool>>,
    rings: Rc<Cell<u32>>,
}

impl Wakeup for Ring {
    fn wake(&self) {
        self.called.set(true);
        self.rings.set(self.rings.get() + 1);
    }
}

impl Ring {
    /// Whether somebody has called; still so afterwards.
    pub(super) fn is_called(&self) -> bool {
        self.called.get()
    }

    /// The call is seen, if there was one.
    pub(super) fn clear(&self) -> bool {
        self.called.replace(false)
    }

    /// Calls since this was last asked.
    #[inline]
    pub(super) fn take_rings(&self) -> u32 {
        self.rings.replace(0)
    }
}

/// What the wire has taken from the NIC.
#[derive(Clone, Default)]
pub(super) struct Tap(Arc<Taken>);

#[derive(Default)]
struct Taken {
    frames: Mutex<VecDeque<Vec<u8>>>,
    /// Whether there may be one: whoever looks after every event takes the lock only then.
    some: AtomicBool,
}

impl Tap {
    #[inline]
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        if !self.0.some.load(Acquire) {
            return None;
        }
        let frame = self.0.frames.lock().ok()?.pop_front();
        self.0.some.store(frame.is_some(), Relaxed);
        frame
    }

    /// Tells of what the wire has taken since the last look.
    #[inline]
    pub(super) fn tell(&self, outgoing: &mut Outgoing, recorder: &mut Recorder<'_>) {
        while let Some(frame) = self.take() {
            recorder.emit(&trace::Event::OnWire { sequence: outgoing.number_of(&frame) });
        }
    }
}

impl Wire for Tap {
    fn transmit(&mut self, _: Time, frame: &[u8]) {
        if let Ok(mut frames) = self.0.frames.lock() {
            frames.push_back(frame.to_vec());
            self.0.some.store(true, Release);
        }
    }

    fn next_arrival(&self) -> Time {
        Time::NEVER
    }

    fn receive(&mut self, _: Time) -> Option<Vec<u8>> {
        None
    }

    fn counters(&self) -> WireCounters {
        WireCounters::default()
    }
}

/// What the application sends: numbered frames, each from a buffer of its own.
pub(super) struct Outgoing {
    template: FrameTemplate,
    /// Of each buffer: its bus address, and the number of the frame that it has on its way.
    buffers: Vec<(u64, Option<u64>)>,
    /// Token of the first.
    first: u32,
    every: u64,
    next: u64,
    /// Frames for a driver in the same process.
    pub(super) waiting: VecDeque<Transmit>,
}

impl Outgoing {
    /// Takes a buffer for the next frame, and writes the frame there: its token, number, and bytes.
    pub(super) fn begin(&mut self, memory: &SharedMemory) -> Option<(u32, u64, u32)> {
        let at = self.buffers.iter().position(|(_, frame)| frame.is_none())?;
        let sequence = self.next;
        let frame = self.template.frame(sequence);
        let (address, on_its_way) = &mut self.buffers[at];
        memory.write(*address, frame.bytes).ok()?;
        *on_its_way = Some(sequence);
        self.next += 1;
        Some((self.first + at as u32, sequence, frame.bytes.len() as u32))
    }

    /// A buffer comes back: the number of its frame.
    pub(super) fn back(&mut self, token: u32) -> Option<u64> {
        self.buffers.get_mut(token.checked_sub(self.first)? as usize)?.1.take()
    }

    /// Frames on their way.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = u64> + '_ {
        self.buffers.iter().filter_map(|(_, frame)| *frame)
    }

    /// Everything on its way is lost.
    pub(super) fn forget(&mut self) {
        self.buffers.iter_mut().for_each(|(_, frame)| *frame = None);
        self.waiting.clear();
    }

    /// Whether a frame is due when so many packets were delivered.
    pub(super) fn is_due(&self, delivered: u64) -> bool {
        delivered.is_multiple_of(self.every)
    }

    /// Where the frame in a buffer lies.
    pub(super) fn transmit(&self, token: u32, bytes: u32) -> Option<Transmit> {
        let at = token.checked_sub(self.first)? as usize;
        Transmit::new(&[(self.buffers.get(at)?.0, bytes)], token)
    }

    /// The number of a frame on the wire; `None` if it is none of these, or changed.
    pub(super) fn number_of(&mut self, frame: &[u8]) -> Option<u64> {
        let sequence = number_in(frame)?;
        (self.template.frame(sequence).bytes == frame).then_some(sequence)
    }
}

/// A channel and the layer above it.
pub(super) struct Session {
    pub(super) packets: PacketMemory,
    pub(super) place: ChannelPlace,
    pub(super) user: UserEnd<SharedWords, Ring>,
    /// The events of both ends.
    pub(super) for_user: Ring,
    pub(super) for_provider: Ring,
    /// Packets that are in the channel on their way up.
    pub(super) rising: u64,
    /// The process above has died.
    pub(super) gone: bool,
}

/// Everything that is to be reached by DMA.
pub(super) struct DmaLayout {
    pub(super) memory: SharedMemory,
    pub(super) session: Option<Session>,
    /// Bus address of the first buffer, and from each to the next, without a session.
    pub(super) buffers: (u64, u32),
    pub(super) outgoing: Option<Outgoing>,
}

impl DmaLayout {
    /// Memory for rings and buffers: with a channel in front of the driver, or without.
    pub(super) fn new(
        options: &Options,
        rings: u64,
        split: bool,
        station: [u8; 6],
    ) -> Result<DmaLayout, VirtualError> {
        let sends = options.sends.map_or(0, |sends| sends.buffers);
        let all = options.buffers as u32 + sends;
        let longest = options.sends.map_or(0, |sends| sends.frame_bytes as u32);
        let each = options.buffer_bytes.max(longest);
        if !split {
            let memory = SharedMemory::anonymous(
                RINGS,
                (rings + u64::from(all) * u64::from(each)) as usize,
            )?;
            let address = |number: u32| RINGS + rings + u64::from(number) * u64::from(each);
            let outgoing = outgoing(options, station, address)?;
            return Ok(DmaLayout {
                memory,
                session: None,
                buffers: (RINGS + rings, each),
                outgoing,
            });
        }
        let shape = Shape {
            channels: 1,
            application_buffers: all,
            stack_buffers: 0,
            buffer_bytes: each.next_multiple_of(BUFFER_ALIGN_BYTES),
            tsc_hz: TSC_HZ,
        };
        let (packets, file) = PacketMemory::create(shape)
            .map_err(|error| VirtualError::Memory(std::io::Error::other(error)))?;
        let ranges = [
            (GuestAddress(RINGS), rings as usize, None),
            (
                GuestAddress(PACKET_BUS_ADDRESS),
                shape.file_bytes() as usize,
                Some(FileOffset::new(file, 0)),
            ),
        ];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges)
            .map_err(|error| VirtualError::Memory(std::io::Error::other(error)))?;
        let address = |token: u32| packets.bus_address(token, 0, 1).unwrap_or(u64::MAX);
        let outgoing = outgoing(options, station, address)?;
        let session = Session::new(packets)?;
        let memory = SharedMemory::new(memory);
        Ok(DmaLayout { memory, session: Some(session), buffers: (0, 0), outgoing })
    }
}

fn outgoing(
    options: &Options,
    station: [u8; 6],
    address: impl Fn(u32) -> u64,
) -> Result<Option<Outgoing>, PlanError> {
    let Some(sends) = options.sends else { return Ok(None) };
    let first = options.buffers as u32;
    let template =
        FrameTemplate::new(&Addresses::to_guest(station), sends.frame_bytes, SENT_RUN_ID)?;
    Ok(Some(Outgoing {
        template,
        buffers: (first..first + sends.buffers).map(|token| (address(token), None)).collect(),
        first,
        every: sends.every.max(1),
        next: 0,
        waiting: VecDeque::new(),
    }))
}

impl Session {
    fn new(packets: PacketMemory) -> Result<Session, VirtualError> {
        let none = || VirtualError::Memory(std::io::Error::other("there is no channel"));
        let place = packets.channel(0).ok_or_else(none)?;
        let (for_user, for_provider) = (Ring::default(), Ring::default());
        let user = user_end(&packets, place, &for_provider);
        Ok(Session { packets, place, user, for_user, for_provider, rising: 0, gone: false })
    }

    /// The driver's end, for one more driver.
    pub(super) fn upper(&self) -> std::io::Result<ChannelUpper<SharedWords, Ring>> {
        let watch = Watch::new(Event::create()?, Vec::new(), None);
        let (words, packets) = (self.packets.words(), self.packets.clone());
        let upper = ChannelUpper::through(words, packets, self.for_user.clone(), watch)?;
        upper.ok_or_else(|| std::io::Error::other("there is no channel"))
    }

    /// Everybody is started again: as if the channel were new.
    pub(super) fn renew(&mut self) {
        let words = self.packets.words();
        let all =
            self.place.first_word..self.place.first_word + ChannelPlace::words(self.place.capacity);
        all.for_each(|at| words[at].store(0, Relaxed));
        self.for_user.clear();
        self.for_provider.clear();
        self.user = user_end(&self.packets, self.place, &self.for_provider);
        (self.rising, self.gone) = (0, false);
    }

    pub(super) fn address(&self, token: u32) -> u64 {
        self.packets.bus_address(token, 0, 1).unwrap_or(u64::MAX)
    }

    /// Hands a frame over to be sent.
    pub(super) fn send(&mut self, token: u32, bytes: u32) -> bool {
        let sent = self.user.transmit(Slice { length: bytes as u16, ..Slice::posted(token) });
        self.user.flush();
        sent
    }
}

fn user_end(
    packets: &PacketMemory,
    place: ChannelPlace,
    for_provider: &Ring,
) -> UserEnd<SharedWords, Ring> {
    let (tokens, bytes) = (packets.application_tokens(), packets.shape().buffer_bytes);
    UserEnd::new(packets.words(), place, tokens, bytes, for_provider)
}
