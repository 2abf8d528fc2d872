use warikomi_clock::{Span, Time};
use warikomi_driver::{DriverError, Hardware, NicDriver, Received, TxFrame};
use warikomi_nic::Link;
use warikomi_pci::SharedMemory;

use super::sink::WatchedSink;
use crate::bench::Bench;
use crate::cards::Subject;
use crate::line::Line;
use crate::mmio::DirectMmio;

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
}

impl Rig {
    /// First address of the memory. Above 4 GB, so that a forgotten high half is noticed.
    pub const BASE: u64 = 0x3_0000_0000;
    /// Where the driver has its rings.
    pub const RINGS: u64 = Rig::BASE;
    /// Where its sink has buffers.
    pub const BUFFERS: u64 = Rig::BASE + 0x1_0000;
    /// From here on is room for frames to be sent.
    pub const TX_BUFFERS: u64 = Rig::BASE + 0x180_0000;
    const BYTES: usize = 0x200_0000;

    /// A driver that nobody has called yet, with so many buffers of so many bytes.
    pub fn new(subject: &Subject, buffers: usize, bytes: u32) -> Rig {
        let bench = subject
            .bench()
            .with_memory(Rig::BASE, Rig::BYTES)
            .at(Time::from_ps(1_000_000))
            .signalling(Line::messages_only());
        let memory = bench.memory.clone();
        let sink = WatchedSink::new(Rig::BUFFERS, buffers, bytes);
        Rig { bench, driver: subject.card.driver(), sink, memory }
    }

    /// A driver that receives, into this many buffers of so many bytes.
    pub fn open(subject: &Subject, buffers: usize, bytes: u32) -> Rig {
        let mut rig = Rig::new(subject, buffers, bytes);
        rig.init(buffers).expect("a driver that opens its card");
        rig
    }

    /// Lets the driver open the card, with so many of the buffers.
    pub fn init(&mut self, buffers: usize) -> Result<(), DriverError> {
        self.with_sink(|driver, hw, sink| driver.init(hw, Rig::RINGS, buffers, sink))
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
        let mut mmio = DirectMmio { bench: &mut self.bench };
        let mut hw = Hardware { mmio: &mut mmio, memory: &self.memory };
        call(&mut *self.driver, &mut hw, &mut self.sink)
    }

    /// Lets the driver take at most `budget` frames; how many.
    pub fn poll(&mut self, budget: usize) -> Result<usize, DriverError> {
        self.with_sink(|driver, hw, sink| driver.poll(hw, budget, sink))
    }

    /// The bytes of each frame that has come since the last time.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        let frames = std::mem::take(&mut self.sink.frames);
        let bytes = |frame: Received| self.bench.bytes(frame.buffer.address, frame.bytes as usize);
        frames.into_iter().map(bytes).collect()
    }

    /// Puts the pieces of a frame into memory, a little apart, and hands it over.
    pub fn put(&mut self, pieces: &[&[u8]], token: u32) -> Result<bool, DriverError> {
        let mut at = Rig::TX_BUFFERS + u64::from(token % 64) * 0x8000;
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

    /// Message interrupts so far.
    pub fn interrupts(&self) -> u64 {
        self.bench.line.messages()
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
