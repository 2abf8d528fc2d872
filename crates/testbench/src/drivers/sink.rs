use std::collections::VecDeque;

use warikomi_driver::{Buffer, Received, RxSink};

/// Distance of buffers: one may be this long.
pub(super) const STRIDE: u64 = 0x4000;

/// A sink that watches who has which buffer.
#[derive(Default)]
pub struct WatchedSink {
    /// Buffers that the driver may have.
    pub free: VecDeque<Buffer>,
    /// By token: the driver has it.
    out: Vec<bool>,
    /// Frames that have come, and where.
    pub frames: Vec<(Buffer, Received)>,
    /// Buffers that came back without a frame.
    pub returned: usize,
    /// Keep what comes back, as an application does that is slow.
    pub hold: bool,
    /// Buffers that were kept.
    pub held: Vec<Buffer>,
}

impl WatchedSink {
    /// A sink with so many buffers of so many bytes, from the bus address `base` on.
    pub fn new(base: u64, buffers: usize, bytes: u32) -> WatchedSink {
        let places = (base..).step_by(STRIDE as usize);
        let free =
            (0u32..).zip(places).filter_map(|(token, address)| Buffer::new(address, bytes, token));
        let free = free.take(buffers).collect();
        WatchedSink { free, out: vec![false; buffers], ..WatchedSink::default() }
    }

    fn back(&mut self, buffer: Buffer) {
        let out = &mut self.out[buffer.token() as usize];
        assert!(std::mem::replace(out, false), "{buffer:?} comes back twice");
        if self.hold { self.held.push(buffer) } else { self.free.push_back(buffer) }
    }

    /// Lets go of what was kept.
    pub fn release(&mut self) {
        self.hold = false;
        self.free.extend(self.held.drain(..));
    }

    /// Buffers that the driver has.
    pub fn out(&self) -> usize {
        self.out.iter().filter(|out| **out).count()
    }
}

impl RxSink for WatchedSink {
    fn buffer(&mut self) -> Option<Buffer> {
        let buffer = self.free.pop_front()?;
        let out = &mut self.out[buffer.token() as usize];
        assert!(!std::mem::replace(out, true), "{buffer:?} is given twice");
        Some(buffer)
    }
    fn received(&mut self, buffer: Buffer, frame: Received) {
        self.frames.push((buffer, frame));
        self.back(buffer);
    }
    fn returned(&mut self, buffer: Buffer) {
        self.returned += 1;
        self.back(buffer);
    }
}
