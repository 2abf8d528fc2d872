//! A driver with a card of either make, and what it did to it.

use std::collections::VecDeque;

use warikomi_driver::rtl8139::Rtl8139;
use warikomi_driver::{Buffer, Hardware, NicDriver, Received, TxFrame};
use warikomi_pci::{DmaMemory, Mmio, MmioError, SharedMemory, Width};
use warikomi_testbench::{Access, Bench, QemuCard, RTL8139, Subject, Traced, WatchedSink};

/// Where the driver has its memory: rings, buffers for what comes, and room for what goes.
const RINGS: u64 = 0x100_0000;
const BUFFERS: u64 = 0x110_0000;
const OUTGOING: u64 = 0x180_0000;
const MEMORY: usize = 64 << 20;

/// Interrupt mask and status, of 16 bits each (IMR, ISR).
const MASK_AND_STATUS: u64 = 0x3c;
/// Where the card says how far it has filled the ring (CBR).
const FILLED: u64 = 0x3a;
/// PCI status, and the bit that says that the pin is asserted.
const STATUS: u16 = 0x06;
const INTERRUPT_STATUS: u64 = 1 << 3;

/// A card that the driver can be put in front of.
pub(crate) trait Card {
    fn memory(&self) -> SharedMemory;

    fn with(&mut self, call: &mut dyn FnMut(&mut dyn Mmio));

    /// Puts a frame on the cable, and waits until the card has it in its ring.
    fn arrive(&mut self, frame: &[u8]);

    /// The next frame that the card sends.
    fn left(&mut self) -> Vec<u8>;
}

/// Ours.
pub(crate) struct Model {
    bench: Bench,
    sent: VecDeque<Vec<u8>>,
}

impl Model {
    pub(crate) fn new() -> Model {
        let bench = Subject::of(RTL8139).bench().with_memory(0, MEMORY);
        Model { bench, sent: VecDeque::new() }
    }

    pub(crate) fn mac_address(&self) -> [u8; 6] {
        self.bench.nic.mac_address()
    }
}

impl Card for Model {
    fn memory(&self) -> SharedMemory {
        self.bench.memory.clone()
    }

    fn with(&mut self, call: &mut dyn FnMut(&mut dyn Mmio)) {
        call(&mut self.bench);
    }

    fn arrive(&mut self, frame: &[u8]) {
        assert!(self.bench.receive(frame).is_on_ring());
    }

    fn left(&mut self) -> Vec<u8> {
        self.bench.settle();
        self.sent.extend(self.bench.sent());
        self.sent.pop_front().expect("a frame that our card sends")
    }
}

impl Card for QemuCard {
    fn memory(&self) -> SharedMemory {
        QemuCard::memory(self)
    }

    fn with(&mut self, call: &mut dyn FnMut(&mut dyn Mmio)) {
        call(&mut Halved(self));
    }

    fn arrive(&mut self, frame: &[u8]) {
        let filled = |card: &mut QemuCard| card.read(FILLED, Width::B2).unwrap();
        let before = filled(self);
        self.send(frame);
        while filled(self) == before {
            std::thread::yield_now();
        }
    }

    fn left(&mut self) -> Vec<u8> {
        self.receive()
    }
}

/// QEMU's card as it would be if it answered a read of two registers at once, as a card on a bus does, whose byte
/// enables tell it which are meant: its interrupt mask and status (0x3c and 0x3e) read as 0 by one read of 32 bits.
struct Halved<'a>(&'a mut QemuCard);

impl Mmio for Halved<'_> {
    fn register_bar(&self) -> u8 {
        self.0.register_bar()
    }

    fn bar_read(&mut self, bar: u8, offset: u64, width: Width) -> Result<u64, MmioError> {
        if (offset, width) != (MASK_AND_STATUS, Width::B4) {
            return self.0.bar_read(bar, offset, width);
        }
        let mask = self.0.bar_read(bar, offset, Width::B2)?;
        Ok(mask | self.0.bar_read(bar, offset + 2, Width::B2)? << 16)
    }

    fn bar_write(
        &mut self,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Result<(), MmioError> {
        self.0.bar_write(bar, offset, width, value)
    }

    fn config_read(&mut self, offset: u16, width: Width) -> Result<u64, MmioError> {
        self.0.config_read(offset, width)
    }

    fn config_write(&mut self, offset: u16, width: Width, value: u64) -> Result<(), MmioError> {
        self.0.config_write(offset, width, value)
    }
}

/// Driver, card, and what came of it.
pub(crate) struct Stand {
    card: Box<dyn Card>,
    driver: Rtl8139,
    sink: WatchedSink,
    memory: SharedMemory,
    /// What the driver did.
    pub(crate) accesses: Vec<Access>,
}

impl Stand {
    pub(crate) fn new(card: impl Card + 'static) -> Stand {
        let memory = card.memory();
        let sink = WatchedSink::new(BUFFERS, 16, 2_048);
        let (card, driver) = (Box::new(card), Rtl8139::new());
        Stand { card, driver, sink, memory, accesses: Vec::new() }
    }

    /// Calls the driver.
    pub(crate) fn call<R>(
        &mut self,
        call: impl FnOnce(&mut Rtl8139, &mut Hardware<'_>, &mut WatchedSink) -> R,
    ) -> R {
        let Stand { card, driver, sink, memory, accesses } = self;
        let (mut call, mut result) = (Some(call), None);
        card.with(&mut |mmio| {
            let mut traced = Traced { mmio, accesses };
            let mut hw = Hardware { mmio: &mut traced, memory };
            result = call.take().map(|call| call(driver, &mut hw, sink));
        });
        result.expect("it was called")
    }

    pub(crate) fn init(&mut self) {
        self.call(|driver, hw, sink| driver.init(hw, RINGS, 16, sink)).unwrap();
    }

    /// Whether the pin is asserted, which the driver does not see.
    pub(crate) fn interrupts(&mut self) -> bool {
        let mut status = 0;
        self.card.with(&mut |mmio| status = mmio.config_read(STATUS, Width::B2).unwrap());
        status & INTERRUPT_STATUS != 0
    }

    pub(crate) fn arrive(&mut self, frame: &[u8]) {
        self.card.arrive(frame);
    }

    /// Lets the driver take at most `budget` frames; their bytes.
    pub(crate) fn poll(&mut self, budget: usize) -> Vec<Vec<u8>> {
        self.call(|driver, hw, sink| driver.poll(hw, budget, sink)).unwrap();
        let frames = std::mem::take(&mut self.sink.frames);
        let bytes = |(buffer, frame): (Buffer, Received)| {
            let mut bytes = vec![0; frame.bytes as usize];
            self.memory.read(buffer.address, &mut bytes).unwrap();
            bytes
        };
        frames.into_iter().map(bytes).collect()
    }

    /// Hands a frame over, in two pieces.
    pub(crate) fn put(&mut self, frame: &[u8], token: u32) -> bool {
        let (head, rest) = frame.split_at(14);
        let at = OUTGOING + u64::from(token) * 0x1000;
        self.memory.write(at, head).unwrap();
        self.memory.write(at + 0x100, rest).unwrap();
        let pieces = [(at, head.len() as u32), (at + 0x100, rest.len() as u32)];
        self.call(|driver, hw, _| {
            driver.transmit(hw, TxFrame { pieces: &pieces, token, segments: None })
        })
        .unwrap()
    }

    pub(crate) fn kick(&mut self) {
        self.call(|driver, hw, _| driver.kick(hw)).unwrap();
    }

    /// The next frame that leaves.
    pub(crate) fn left(&mut self) -> Vec<u8> {
        self.card.left()
    }

    /// The names of frames that have gone.
    pub(crate) fn reclaim(&mut self) -> Vec<u32> {
        let mut sent = Vec::new();
        self.call(|driver, hw, _| driver.reclaim(hw, &mut |token| sent.push(token))).unwrap();
        sent
    }
}
