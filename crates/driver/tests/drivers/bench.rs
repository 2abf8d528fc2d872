//! The model, memory, and a driver's way to both.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use warikomi_clock::{Span, Time};
use warikomi_driver::{Buffer, DriverError, Hardware, NicDriver, Received, RxSink, by_name};
use warikomi_nic::wire::{Wire, WireCounters};
use warikomi_nic::{Frame, Nic, NicOptions, RxFault, RxOutcome};
use warikomi_pci::{DmaMemory, Host, Interrupt, IntrLine, Mmio, MmioError, SharedMemory, Width};

/// The devices that there are models and drivers of.
pub(crate) const CARDS: [&str; 2] = ["rtl8168", "oc48"];

/// Above 4 GB, so that a forgotten high half is noticed.
pub(crate) const MEMORY_BASE: u64 = 0x3_0000_0000;
pub(crate) const RINGS: u64 = MEMORY_BASE;
const BUFFERS: u64 = MEMORY_BASE + 0x1_0000;
pub(crate) const TX_BUFFERS: u64 = MEMORY_BASE + 0x180_0000;
const MEMORY_BYTES: usize = 0x200_0000;

#[derive(Default)]
struct Messages(u64);

impl IntrLine for Messages {
    fn signal(&mut self, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Msi(_) => self.0 += 1,
            Interrupt::Intx(level) => assert!(!level, "INTx is disabled"),
        }
    }
}

/// A wire that keeps what is sent.
#[derive(Clone, Default)]
struct Tap(Arc<Mutex<Vec<Vec<u8>>>>);

impl Wire for Tap {
    fn transmit(&mut self, _now: Time, frame: &[u8]) {
        self.0.lock().unwrap().push(frame.to_vec());
    }
    fn next_arrival(&self) -> Time {
        Time::NEVER
    }
    fn receive(&mut self, _now: Time) -> Option<Vec<u8>> {
        None
    }
    fn counters(&self) -> WireCounters {
        WireCounters::default()
    }
}

/// The device.
pub(crate) struct Device {
    nic: Box<dyn Nic>,
    bar: u8,
    memory: SharedMemory,
    messages: Messages,
    now: Time,
    tap: Tap,
    /// Accesses since it was last asked.
    pub(crate) reads: u64,
}

impl Device {
    fn with<R>(&mut self, call: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        let mut host = Host { now: self.now, memory: &self.memory, interrupts: &mut self.messages };
        call(&mut *self.nic, &mut host)
    }

    pub(crate) fn inject(&mut self, bytes: &[u8]) -> RxOutcome {
        self.with(|nic, host| nic.receive(host, Frame::new(bytes)).outcome)
    }

    pub(crate) fn inject_faulty(&mut self, bytes: &[u8], fault: RxFault) -> RxOutcome {
        self.with(|nic, host| nic.receive_faulty(host, Frame::new(bytes), fault).outcome)
    }

    pub(crate) fn plug(&mut self, link: warikomi_nic::Link) {
        self.with(|nic, host| nic.set_link(host, link));
        self.now += Span::from_ms(100);
        self.with(|nic, host| nic.poll(host));
    }

    /// Lets everything happen that is to come by itself.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Lets the next thing happen that is to come by itself; whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        let due = self.nic.next_due();
        if due != Time::NEVER {
            self.now = self.now.max(due);
            self.with(|nic, host| nic.poll(host));
        }
        due != Time::NEVER
    }

    /// Message interrupts so far.
    pub(crate) fn interrupts(&self) -> u64 {
        self.messages.0
    }

    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.tap.0.lock().unwrap())
    }
}

impl Mmio for Device {
    fn read(&mut self, offset: u64, width: Width) -> Result<u64, MmioError> {
        self.reads += 1;
        let bar = self.bar;
        Ok(self.with(|nic, host| nic.bar_read(host, bar, offset, width)))
    }
    fn write(&mut self, offset: u64, width: Width, value: u64) -> Result<(), MmioError> {
        let bar = self.bar;
        self.with(|nic, host| nic.bar_write(host, bar, offset, width, value));
        Ok(())
    }
    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        Ok(self.nic.config_read(offset, width))
    }
    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.with(|nic, host| nic.config_write(host, offset, width, value));
        Ok(())
    }
}

/// A sink that watches who has which buffer.
#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) free: VecDeque<Buffer>,
    out: Vec<bool>,
    pub(crate) frames: Vec<Received>,
    pub(crate) returned: usize,
    /// Keep what comes back, as an application does that is slow.
    pub(crate) hold: bool,
    pub(crate) held: Vec<Buffer>,
}

impl Watched {
    pub(crate) fn new(buffers: usize, bytes: u32) -> Watched {
        let buffer = |token: usize| Buffer {
            address: BUFFERS + (token * 0x4000) as u64,
            bytes,
            token: token as u32,
        };
        let free = (0..buffers).map(buffer).collect();
        Watched { free, out: vec![false; buffers], ..Watched::default() }
    }

    fn back(&mut self, buffer: Buffer) {
        let out = &mut self.out[buffer.token as usize];
        assert!(std::mem::replace(out, false), "{buffer:?} comes back twice");
        if self.hold { self.held.push(buffer) } else { self.free.push_back(buffer) }
    }

    /// Lets go of what was kept.
    pub(crate) fn release(&mut self) {
        self.hold = false;
        self.free.extend(self.held.drain(..));
    }

    /// Buffers that the driver has.
    pub(crate) fn out(&self) -> usize {
        self.out.iter().filter(|out| **out).count()
    }
}

impl RxSink for Watched {
    fn buffer(&mut self) -> Option<Buffer> {
        let buffer = self.free.pop_front()?;
        assert!(!std::mem::replace(&mut self.out[buffer.token as usize], true));
        Some(buffer)
    }
    fn received(&mut self, frame: Received) {
        self.frames.push(frame);
        self.back(frame.buffer);
    }
    fn returned(&mut self, buffer: Buffer) {
        self.returned += 1;
        self.back(buffer);
    }
}

pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) memory: SharedMemory,
    pub(crate) driver: Box<dyn NicDriver>,
    pub(crate) sink: Watched,
}

impl Bench {
    pub(crate) fn new(card: &str, buffers: usize, bytes: u32) -> Bench {
        let memory = SharedMemory::anonymous(MEMORY_BASE, MEMORY_BYTES).unwrap();
        let tap = Tap::default();
        let nic = warikomi_nic::build(&NicOptions::of(card), Box::new(tap.clone())).unwrap();
        let device = Device {
            bar: nic.info().register_bar,
            nic,
            memory: memory.clone(),
            messages: Messages::default(),
            now: Time::from_ps(1_000_000),
            tap,
            reads: 0,
        };
        let driver = by_name(card).unwrap();
        Bench { device, memory, driver, sink: Watched::new(buffers, bytes) }
    }

    /// A driver that receives, into this many buffers of so many bytes.
    pub(crate) fn open(card: &str, buffers: usize, bytes: u32) -> Bench {
        let mut bench = Bench::new(card, buffers, bytes);
        bench.init(buffers).unwrap();
        bench
    }

    pub(crate) fn init(&mut self, buffers: usize) -> Result<(), DriverError> {
        let (driver, sink) = (&mut self.driver, &mut self.sink);
        let mut hw = Hardware { mmio: &mut self.device, memory: &self.memory };
        driver.init(&mut hw, RINGS, buffers, sink)
    }

    pub(crate) fn with<R>(
        &mut self,
        call: impl FnOnce(&mut dyn NicDriver, &mut Hardware<'_>) -> R,
    ) -> R {
        call(&mut *self.driver, &mut Hardware { mmio: &mut self.device, memory: &self.memory })
    }

    pub(crate) fn poll(&mut self, budget: usize) -> Result<usize, DriverError> {
        let mut hw = Hardware { mmio: &mut self.device, memory: &self.memory };
        self.driver.poll(&mut hw, budget, &mut self.sink)
    }

    /// The bytes of each frame that has come since the last time.
    pub(crate) fn frames(&mut self) -> Vec<Vec<u8>> {
        let bytes = |frame: Received| {
            let mut bytes = vec![0; frame.bytes as usize];
            self.memory.read(frame.buffer.address, &mut bytes).unwrap();
            bytes
        };
        std::mem::take(&mut self.sink.frames).into_iter().map(bytes).collect()
    }

    pub(crate) fn quiesce(&mut self) -> (Result<(), DriverError>, Vec<u32>) {
        let mut sent = Vec::new();
        let mut hw = Hardware { mmio: &mut self.device, memory: &self.memory };
        let done = self.driver.quiesce(&mut hw, &mut self.sink, &mut |token| sent.push(token));
        (done, sent)
    }
}

/// A frame to everybody, whose bytes count up from `from`.
pub(crate) fn frame(bytes: usize, from: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend((frame.len()..bytes).map(|at| (at + from) as u8));
    frame
}
