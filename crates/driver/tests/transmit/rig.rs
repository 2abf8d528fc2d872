//! A device of which only what matters to a transmitter is modelled: a FIFO of descriptors, transfers that
//! take time one after the other, and an interrupt. It reads a packet's bytes when the transfer ends, as
//! late as a real one could, so that memory that was used again too early is seen.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use warikomi_clock::{Span, Time};
use warikomi_driver::transmit::{
    Bounce, Completion, CostClock, Packet, Transmitter, TransmitterOptions, Work,
};
use warikomi_driver::{DriverError, DriverInfo, Hardware, TxFrame};
use warikomi_pci::{DmaMemory, SharedMemory};
use warikomi_testbench::{NoRegisters, Partial, PartialDriver};

pub(crate) const DESCRIPTORS: usize = 64;
pub(crate) const MAX_FRAME_BYTES: usize = 66_000;

static INFO: DriverInfo = DriverInfo {
    name: "simulated",
    summary: "",
    devices: &[],
    rx_descriptors: 0,
    tx_descriptors: DESCRIPTORS,
    ring_bytes: 0,
    max_buffer_bytes: 0,
    max_frame_bytes: MAX_FRAME_BYTES,
    most_segment_bytes: 0,
    vectors: 1,
    live: false,
};

/// What things take, in nanoseconds, and in picoseconds for a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) transfer_ns: u64,
    pub(crate) transfer_byte_ps: u64,
    pub(crate) register_ns: u64,
    pub(crate) copy_ns: u64,
    pub(crate) copy_byte_ps: u64,
    pub(crate) describe_ns: u64,
    /// All that the application and the stack do for a packet.
    pub(crate) application_ns: u64,
    pub(crate) interrupt_ns: u64,
}

impl Costs {
    /// Near those of a fast processor over PCI at 66 MHz.
    pub(crate) const PCI: Costs = Costs {
        transfer_ns: 800,
        transfer_byte_ps: 2_000,
        register_ns: 200,
        copy_ns: 30,
        copy_byte_ps: 250,
        describe_ns: 40,
        application_ns: 1_500,
        interrupt_ns: 2_000,
    };
}

/// The time, and what things take at present: the processor's and the device's alike.
#[derive(Clone)]
pub(crate) struct World {
    now: Rc<Cell<Time>>,
    costs: Rc<Cell<Costs>>,
}

impl World {
    pub(crate) fn now(&self) -> Time {
        self.now.get()
    }

    pub(crate) fn pass(&self, span: Span) {
        self.now.set(self.now.get() + span);
    }

    pub(crate) fn set_costs(&self, costs: Costs) {
        self.costs.set(costs);
    }
}

impl CostClock for World {
    fn now(&mut self) -> Time {
        self.now.get()
    }

    fn spend(&mut self, work: Work) {
        let costs = self.costs.get();
        self.pass(match work {
            Work::Copy { bytes } => {
                Span::from_ps(costs.copy_ns * 1_000 + costs.copy_byte_ps * bytes as u64)
            }
            Work::Describe { pieces } => Span::from_ns(costs.describe_ns * pieces as u64),
            Work::Interrupt => Span::from_ns(costs.interrupt_ns),
            _ => Span::ZERO,
        });
    }
}

struct OnCard {
    token: u32,
    pieces: Vec<(u64, u32)>,
    done_at: Time,
}

/// Device and driver in one.
pub(crate) struct Simulated {
    world: World,
    memory: SharedMemory,
    queue: VecDeque<OnCard>,
    used: usize,
    free_at: Time,
    /// Completed, in order: what the driver may give back, and how many descriptors each had.
    completed: VecDeque<(u32, usize)>,
    status: bool,
    mask: bool,
    armed: bool,
    /// Interrupts that nobody has taken.
    pub(crate) interrupts: u64,
    /// The bytes of each packet that went out, if they are kept.
    pub(crate) keep: bool,
    pub(crate) wire: Vec<Vec<u8>>,
    /// A device that stands still.
    pub(crate) stalled: bool,
}

impl Simulated {
    fn level(&self) -> bool {
        self.status && (self.mask || self.armed)
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.level();
        change(self);
        self.interrupts += u64::from(self.level() && !before);
    }

    /// Completes what is due.
    pub(crate) fn catch_up(&mut self) {
        let now = self.world.now();
        while !self.stalled && self.queue.front().is_some_and(|first| first.done_at <= now) {
            let done = self.queue.pop_front().unwrap();
            if self.keep {
                let read = |&(at, bytes): &(u64, u32)| {
                    let mut piece = vec![0; bytes as usize];
                    self.memory.read(at, &mut piece).unwrap();
                    piece
                };
                self.wire.push(done.pieces.iter().flat_map(read).collect());
            }
            self.completed.push_back((done.token, done.pieces.len()));
            self.change(|device| device.status = true);
        }
    }

    pub(crate) fn next_completion(&self) -> Option<Time> {
        self.queue.front().map(|first| first.done_at)
    }
}

impl PartialDriver for Simulated {
    fn info(&self) -> &'static DriverInfo {
        &INFO
    }
    fn acknowledge(&mut self) {
        self.catch_up();
        self.change(|device| device.status = false);
    }
    fn arm(&mut self) {
        self.catch_up();
        self.change(|device| device.status = false);
        self.change(|device| device.armed = true);
    }
    fn disarm(&mut self) {
        self.change(|device| device.armed = false);
    }
    fn transmit(&mut self, frame: TxFrame<'_>) -> bool {
        if frame.pieces.len() > self.tx_room() {
            return false;
        }
        let costs = self.world.costs.get();
        let bytes: u64 = frame.pieces.iter().map(|piece| u64::from(piece.1)).sum();
        let pieces = frame.pieces.len() as u64;
        let takes = costs.transfer_ns * 1_000 * pieces + costs.transfer_byte_ps * bytes;
        self.free_at = self.free_at.max(self.world.now()) + Span::from_ps(takes);
        self.used += frame.pieces.len();
        let (token, pieces) = (frame.token, frame.pieces.to_vec());
        self.queue.push_back(OnCard { token, pieces, done_at: self.free_at });
        true
    }
    fn reclaim(&mut self, sent: &mut dyn FnMut(u32)) -> usize {
        self.world.pass(Span::from_ns(self.world.costs.get().register_ns));
        self.catch_up();
        let packets = self.completed.len();
        for (token, pieces) in self.completed.drain(..) {
            self.used -= pieces;
            sent(token);
        }
        packets
    }
    fn tx_room(&self) -> usize {
        DESCRIPTORS - self.used
    }
    fn transmit_interrupts(&mut self, on: bool) {
        self.catch_up();
        self.change(|device| device.status &= !on);
        self.change(|device| device.mask = on);
    }
}

const PACKETS_AT: u64 = 0x10_0000;
/// Packets are written into places in turn, more of them than the device can have.
const PLACES: u64 = 2 * DESCRIPTORS as u64;
const PLACE_BYTES: u64 = 0x1_8000;

/// A sender: it has a send buffer, and each packet is made of pieces of given lengths.
pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) device: Partial<Simulated>,
    pub(crate) transmitter: Transmitter,
    memory: SharedMemory,
    all_bytes: u64,
    used_bytes: u64,
    lengths: Vec<u64>,
    /// The tokens that came back, and those that were handed over.
    pub(crate) back: Vec<u32>,
    pub(crate) handed: u32,
    pub(crate) sleeps: u64,
}

/// The sender waits for something that never happens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeadLocked;

impl Rig {
    pub(crate) fn new(completion: Completion, bounce: Bounce, costs: Costs, all_bytes: u64) -> Rig {
        let area_bytes = Transmitter::area_bytes(DESCRIPTORS, MAX_FRAME_BYTES);
        Rig::with_areas(completion, bounce, costs, all_bytes, area_bytes).unwrap()
    }

    /// A rig with so many bytes of bounce buffers.
    pub(crate) fn with_areas(
        completion: Completion,
        bounce: Bounce,
        costs: Costs,
        all_bytes: u64,
        area_bytes: u64,
    ) -> Result<Rig, DriverError> {
        let world = World { now: Rc::default(), costs: Rc::new(Cell::new(costs)) };
        world.pass(Span::from_ms(1));
        let areas = (PACKETS_AT + PLACES * PLACE_BYTES, area_bytes);
        let memory = SharedMemory::anonymous(0, (areas.0 + areas.1) as usize).unwrap();
        let mut device = Partial(Simulated {
            world: world.clone(),
            memory: memory.clone(),
            queue: VecDeque::new(),
            used: 0,
            free_at: Time::ZERO,
            completed: VecDeque::new(),
            status: false,
            mask: false,
            armed: false,
            interrupts: 0,
            keep: false,
            wire: Vec::new(),
            stalled: false,
        });
        let options = TransmitterOptions { completion, bounce, alignment_bytes: 1, areas };
        let mut hw = Hardware { mmio: &mut NoRegisters, memory: &memory };
        let transmitter = Transmitter::new(options, &mut device, &mut hw)?;
        let (used_bytes, lengths, back) = (0, Vec::new(), Vec::new());
        let (handed, sleeps) = (0, 0);
        Ok(Rig {
            world,
            device,
            transmitter,
            memory,
            all_bytes,
            used_bytes,
            lengths,
            back,
            handed,
            sleeps,
        })
    }

    /// The bytes of packet `token`, `bytes` long.
    pub(crate) fn contents(token: u32, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at + 31 * token as usize) as u8).collect()
    }

    fn with<R>(
        &mut self,
        call: impl FnOnce(
            &mut Transmitter,
            &mut Partial<Simulated>,
            &mut Hardware<'_>,
            &mut World,
            &mut dyn FnMut(u32, Span),
        ) -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        let mut hw = Hardware { mmio: &mut NoRegisters, memory: &self.memory };
        let (back, used, lengths) = (&mut self.back, &mut self.used_bytes, &self.lengths);
        let mut sent = |token: u32, _| {
            back.push(token);
            *used -= lengths[token as usize];
        };
        let mut clock = self.world.clone();
        let done = call(&mut self.transmitter, &mut self.device, &mut hw, &mut clock, &mut sent)?;
        let free = self.all_bytes - self.used_bytes;
        self.transmitter.room(&mut self.device, &mut hw, &mut clock, free, self.all_bytes)?;
        Ok(done)
    }

    /// Takes an interrupt, if one has come.
    pub(crate) fn take_interrupt(&mut self) -> Result<bool, DriverError> {
        self.device.catch_up();
        if self.device.interrupts == 0 {
            return Ok(false);
        }
        self.device.interrupts -= 1;
        self.with(|transmitter, device, hw, clock, sent| {
            transmitter.interrupted(device, hw, clock, sent)
        })?;
        Ok(true)
    }

    /// Sends a packet of pieces of these lengths, waiting for room as a sender does.
    pub(crate) fn send(&mut self, pieces: &[u32]) -> Result<(), DeadLocked> {
        let bytes: u64 = pieces.iter().map(|&bytes| u64::from(bytes)).sum();
        self.take_interrupt().unwrap();
        while self.used_bytes + bytes > self.all_bytes {
            self.rest()?;
        }
        let costs = self.world.costs.get();
        self.world.pass(Span::from_ns(costs.application_ns));
        let (token, places) = self.make(pieces);
        self.used_bytes += bytes;
        loop {
            let packet = Packet { pieces: &places, token, segments: None };
            let handed = self.with(|transmitter, device, hw, clock, sent| {
                transmitter.send(device, hw, clock, packet, sent)
            });
            if handed.unwrap() {
                return Ok(());
            }
            if !self.take_interrupt().unwrap() {
                self.world.pass(Span::from_ns(50));
            }
        }
    }

    /// Waits for a completed packet, if it will be told.
    fn rest(&mut self) -> Result<(), DeadLocked> {
        if self.take_interrupt().unwrap() {
            return Ok(());
        }
        if !self.transmitter.will_be_interrupted() {
            return Err(DeadLocked);
        }
        let found = self.with(|transmitter, device, hw, clock, sent| {
            transmitter.last_look(device, hw, clock, sent)
        });
        if found.unwrap() > 0 {
            return Ok(());
        }
        self.sleeps += 1;
        let next = self.device.next_completion().ok_or(DeadLocked)?;
        if next > self.world.now() {
            self.world.pass(next.since(self.world.now()));
        }
        if self.take_interrupt().unwrap() { Ok(()) } else { Err(DeadLocked) }
    }

    /// Writes a packet's bytes, each piece in a place of its own.
    fn make(&mut self, pieces: &[u32]) -> (u32, Vec<(u64, u32)>) {
        let token = self.handed;
        self.handed += 1;
        let bytes: u32 = pieces.iter().sum();
        self.lengths.push(u64::from(bytes));
        let mut at = PACKETS_AT + PLACE_BYTES * (u64::from(token) % PLACES);
        let mut places = Vec::new();
        for &piece in pieces {
            places.push((at, piece));
            at += u64::from(piece) + 7;
        }
        if self.device.keep {
            let contents = Self::contents(token, bytes as usize);
            let mut from = 0;
            for &(at, bytes) in &places {
                let to = from + bytes as usize;
                self.memory.write(at, &contents[from..to]).unwrap();
                from = to;
            }
        }
        (token, places)
    }

    /// Waits until everything has come back.
    pub(crate) fn drain(&mut self) {
        while self.transmitter.in_flight() > 0 {
            self.world.pass(Span::from_us(1));
            self.with(|transmitter, device, hw, clock, sent| {
                transmitter.reclaim(device, hw, clock, sent)
            })
            .unwrap();
        }
    }
}
