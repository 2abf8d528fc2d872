use warikomi_clock::{Span, Time};
use warikomi_driver::{Buffer, DriverError, Hardware, NicDriver, Received, TxFrame};
use warikomi_nic::Link;
use warikomi_pci::SharedMemory;

use super::sink::WatchedSink;
use crate::bench::Bench;
use crate::cards::Subject;
use crate::line::Line;

/// A driver and its card, in one thread: every access takes effect at once.
pub struct Rig {
    /// The card.
    pub bench: Bench,
    /// The driver.
    pub driver: Box<dyn NicDriver>,
    /// Takes the frames that the driver received.
    pub sink: WatchedSink,
    /// The memory that both reach.
    pub memory: SharedMemory,
    /// First address of the memory.
    base: u64,
}

impl Rig {
    /// First address of the memory, if the card reaches it. Above 4 GB, so that a forgotten high half is noticed.
    const BASE: u64 = 0x3_0000_0000;
    /// First address of a card that does not.
    const LOW_BASE: u64 = 0x8000_0000;
    /// Where a driver has its rings whose card reaches all memory.
    pub const RINGS: u64 = Rig::BASE;
    const BUFFERS_OFFSET: u64 = 0x1_0000;
    /// From here on are the buffers of such a driver.
    pub const BUFFERS: u64 = Rig::BASE + Rig::BUFFERS_OFFSET;
    const TX_BUFFERS_OFFSET: u64 = 0x180_0000;
    /// From here on is room for frames that such a card sends.
    pub const TX_BUFFERS: u64 = Rig::BASE + Rig::TX_BUFFERS_OFFSET;
    const BYTES: usize = 0x200_0000;

    /// A driver that nobody has called yet, with so many buffers of so many bytes.
    pub fn new(subject: &Subject, buffers: usize, bytes: u32) -> Rig {
        let abilities = subject.card.abilities();
        let base = if abilities.wide { Rig::BASE } else { Rig::LOW_BASE };
        let line = if abilities.messages { Line::messages_only() } else { Line::default() };
        let bench = subject
            .bench()
            .with_memory(base, Rig::BYTES)
            .at(Time::from_ps(1_000_000))
            .signalling(line);
        let memory = bench.memory.clone();
        let sink = WatchedSink::new(base + Rig::BUFFERS_OFFSET, buffers, bytes);
        Rig { bench, driver: subject.card.driver(), sink, memory, base }
    }

    /// Where the driver has its rings.
    pub fn rings(&self) -> u64 {
        self.base
    }

    /// From here on is room for frames to be sent.
    pub fn tx_buffers(&self) -> u64 {
        self.base + Rig::TX_BUFFERS_OFFSET
    }

    /// A driver that receives, into this many buffers of so many bytes.
    pub fn open(subject: &Subject, buffers: usize, bytes: u32) -> Rig {
        let mut rig = Rig::new(subject, buffers, bytes);
        rig.init(buffers).expect("a driver that opens its card");
        rig
    }

    /// Lets the driver open the card, with so many of the buffers.
    pub fn init(&mut self, buffers: usize) -> Result<(), DriverError> {
        let rings = self.rings();
        self.with_sink(|driver, hw, sink| driver.init(hw, rings, buffers, sink))
    }

    /// Calls the driver.
    pub fn with<R>(&mut self, call: impl FnOnce(&mut dyn NicDriver, &mut Hardware<'_>) -> R) -> R {
        self.with_sink(|driver, hw, _| call(driver, hw))
    }

    /// Calls the driver, with its sink.
    pub fn with_sink<R>(
        &mut self,
        call: impl FnOnce(&mut dyn NicDriver, &mut Hardware<'_>, &mut WatchedSink) -> R,
    ) -> R {
        let mut hw = Hardware { mmio: &mut self.bench, memory: &self.memory };
        call(&mut *self.driver, &mut hw, &mut self.sink)
    }

    /// Lets the driver take at most `budget` frames; how many.
    pub fn poll(&mut self, budget: usize) -> Result<usize, DriverError> {
        self.with_sink(|driver, hw, sink| driver.poll(hw, budget, sink))
    }

    /// The bytes of each frame that has come since the last time.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        let frames = std::mem::take(&mut self.sink.frames);
        let bytes = |(buffer, frame): (Buffer, Received)| {
            self.bench.bytes(buffer.address, frame.bytes as usize)
        };
        frames.into_iter().map(bytes).collect()
    }

    /// Puts the pieces of a frame into memory, a little apart, and hands it over.
    pub fn put(&mut self, pieces: &[&[u8]], token: u32) -> Result<bool, DriverError> {
        let mut at = self.tx_buffers() + u64::from(token % 64) * 0x8000;
        let mut places = Vec::new();
        for piece in pieces {
            self.bench.put_bytes(at, piece);
            places.push((at, piece.len() as u32));
            at += piece.len() as u64 + 3;
        }
        self.with(|driver, hw| {
            driver.transmit(hw, TxFrame { pieces: &places, token, segments: None })
        })
    }

    /// Rings the doorbell, and lets the card do its work.
    pub fn kick(&mut self) {
        self.with(|driver, hw| driver.kick(hw)).expect("a doorbell");
        self.bench.settle();
    }

    /// The names of frames that have gone since the last time.
    pub fn reclaim(&mut self) -> Vec<u32> {
        let mut sent = Vec::new();
        let count = self.with(|driver, hw| driver.reclaim(hw, &mut |token| sent.push(token)));
        assert_eq!(count, Ok(sent.len()));
        sent
    }

    /// Interrupts so far, by messages or the pin.
    pub fn interrupts(&self) -> u64 {
        self.bench.line.messages() + self.bench.line.rises()
    }

    /// Register reads so far.
    pub fn reads(&self) -> u64 {
        self.bench.nic.counters().reads
    }

    /// Plugs or pulls the cable, and waits until that is noticed.
    pub fn plug(&mut self, link: Link) {
        self.bench.plug(link);
        self.bench.wait(Span::from_ms(100));
    }

    /// Lets the driver stop, and the names of frames that it gives back.
    pub fn quiesce(&mut self) -> (Result<(), DriverError>, Vec<u32>) {
        let mut sent = Vec::new();
        let done = self
            .with_sink(|driver, hw, sink| driver.quiesce(hw, sink, &mut |token| sent.push(token)));
        (done, sent)
    }
}
