use warikomi_clock::{EventQueue, Span, Time};
use warikomi_pci::{
    Command, ConfigSpace, Descriptor, DmaError, Host, InterruptState, Pieces, Vector,
};

use crate::counters::FunctionCounters;
use crate::held::Held;
use crate::loopback::Loopback;
use crate::probe::Probe;
use crate::strict::{FindingKind, Place, Strict, Transfer};
use warikomi_wire::Wire;

/// Everything that a model can do to the world, for the length of one call.
///
/// It refers to the fields of a [`Host`] and copies none that is longer than a word: a pair of words that was stored
/// one by one is copied in one piece, which waits until both are in the cache, behind all stores before them, which
/// are those of the last frame into memory that is another core's.
pub struct NicContext<'a> {
    pub(crate) now: Time,
    pub(crate) looks: &'a Option<u64>,
    pub(crate) memory: &'a &'a dyn warikomi_pci::DmaMemory,
    pub(crate) line: &'a mut dyn warikomi_pci::IntrLine,
    pub(crate) lent: &'a mut Lent,
}

impl<'a> NicContext<'a> {
    /// The time of this call.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Copies from the target's memory.
    #[inline]
    pub fn dma_read(&mut self, address: u64, into: &mut [u8]) -> Result<(), DmaError> {
        self.master(address, into.len(), false)?;
        self.write_held();
        let done = self.memory.read(address, into);
        self.lent.counters.dma_bytes += into.len() as u64;
        self.counted(done)
    }

    /// Copies to the target's memory.
    #[inline]
    pub fn dma_write(&mut self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        self.master(address, from.len(), true)?;
        let done = self.memory.write(address, from);
        self.lent.counters.dma_bytes += from.len() as u64;
        self.counted(done)
    }

    /// Copies pieces to the target's memory, one behind the other.
    #[inline]
    pub fn dma_write_pieces(&mut self, address: u64, pieces: &Pieces<'_>) -> Result<(), DmaError> {
        let bytes = pieces.bytes();
        self.master(address, bytes, true)?;
        let done = self.memory.write_pieces(address, pieces);
        self.lent.counters.dma_bytes += bytes as u64;
        self.counted(done)
    }

    /// Reads a descriptor of four words, the first one first (acquire).
    #[inline]
    pub fn dma_load_descriptor(&mut self, address: u64) -> Result<[u32; 4], DmaError> {
        self.master(address, 16, false)?;
        self.write_held();
        let done = self.memory.load_descriptor(address);
        self.counted(done).map(Descriptor::words)
    }

    /// Reads a descriptor's ownership word, before the rest of the descriptor (acquire).
    #[inline]
    pub fn dma_load_u32(&mut self, address: u64) -> Result<u32, DmaError> {
        self.master(address, 4, false)?;
        self.write_held();
        let done = self.memory.load_u32(address);
        self.counted(done)
    }

    /// Writes a descriptor's ownership word, after the rest of the descriptor (release).
    #[inline]
    pub fn dma_store_u32(&mut self, address: u64, value: u32) -> Result<(), DmaError> {
        self.master(address, 4, true)?;
        let done = self.memory.store_u32(address, value);
        self.counted(done)
    }

    /// Writes the ownership word of a descriptor that was read in this call, after the rest of the descriptor
    /// (release): in a burst of frames at its end, or before the card interrupts.
    #[inline(always)]
    pub fn dma_give(&mut self, address: u64, word: u32) -> Result<(), DmaError> {
        if !self.is_in_burst() {
            return self.dma_store_u32(address, word);
        }
        self.master(address, 4, true)?;
        if self.lent.held.is_full() {
            self.write_held();
        }
        self.lent.held.push(address, word);
        Ok(())
    }

    /// Writes what is held back. What was read can be written, so that nothing fails here that the model had to know
    /// of.
    #[inline]
    pub(crate) fn write_held(&mut self) {
        if !self.lent.held.is_empty() {
            self.write_all_held();
        }
    }

    #[cold]
    fn write_all_held(&mut self) {
        if let Err(error) = self.lent.held.write(*self.memory) {
            self.failed(error);
        }
    }

    /// Whether the frames that come now are a [`Burst`](crate::Burst).
    #[inline]
    pub(crate) fn is_in_burst(&self) -> bool {
        self.lent.held.is_open()
    }

    /// Looks at a word without being a DMA transfer of the device: no bus mastering is needed, and
    /// a failure counts nowhere. For keeping account of what the driver has done; `None` if the
    /// word is not in shared memory.
    #[inline]
    pub fn peek_u32(&self, address: u64) -> Option<u32> {
        self.memory.load_u32(address).ok()
    }

    /// Says that `bytes` bytes from each of these addresses on will be written soon
    /// ([`warikomi_pci::DmaMemory::expect_writes`]).
    pub fn expect_writes(&self, addresses: &[u64], bytes: usize) {
        self.memory.expect_writes(addresses, bytes);
    }

    /// The same with the four words of a descriptor, the first one first (acquire).
    #[inline]
    pub fn peek_descriptor(&self, address: u64) -> Option<[u32; 4]> {
        self.memory.load_descriptor(address).ok().map(Descriptor::words)
    }

    /// The same of descriptors in a row, up to one that is not in shared memory; how many.
    #[inline]
    pub fn peek_descriptors(&self, address: u64, into: &mut [Descriptor]) -> usize {
        self.memory.load_descriptors(address, into)
    }

    /// What a strict device knows; `None` if the card is not to be strict.
    #[inline]
    pub(crate) fn strict(&mut self) -> Option<&mut Strict> {
        self.lent.strict.as_deref_mut()
    }

    /// Whether the card is to name the steps that a driver must not take.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.lent.strict.is_some()
    }

    /// Notes a step that a driver must not take, if the card is to be strict. `source` is the document and
    /// section that says so, or a Linux symbol.
    pub fn note(
        &mut self,
        which: (FindingKind, Place),
        source: &'static str,
        what: impl FnOnce() -> String,
    ) {
        let now = self.now;
        if let Some(strict) = self.strict() {
            strict.note(now, which, source, what);
        }
    }

    /// Asserts an interrupt; nothing if it is asserted already.
    #[inline]
    pub fn raise(&mut self, vector: Vector) {
        self.set_level(vector, true);
    }

    /// Takes an interrupt back.
    #[inline]
    pub fn lower(&mut self, vector: Vector) {
        self.set_level(vector, false);
    }

    /// Asserts an interrupt, or takes it back.
    #[inline]
    pub fn set_level(&mut self, vector: Vector, level: bool) {
        // With nearly every frame nothing changes.
        if level != self.is_asserted(vector) {
            self.change_level(vector, level);
        }
    }

    fn change_level(&mut self, vector: Vector, level: bool) {
        self.write_held();
        if self.lent.interrupts.set_level(vector, level, &mut *self.line) {
            self.lent.probe.raised(vector, self.now);
            if let Some(strict) = &mut self.lent.strict {
                strict.raised(self.now, vector);
            }
        }
    }

    /// Whether interrupts are messages of MSI-X, so that each vector has its own.
    #[inline]
    pub fn has_msix(&self) -> bool {
        self.lent.interrupts.is_msix()
    }

    /// Whether a message has gone out for an interrupt that is asserted.
    #[inline]
    pub fn is_reported(&self, vector: Vector) -> bool {
        self.lent.interrupts.is_reported(vector)
    }

    /// Whether an interrupt is asserted.
    #[inline]
    pub fn is_asserted(&self, vector: Vector) -> bool {
        self.lent.interrupts.is_high(vector)
    }

    /// Sends a frame, without check sequence, down the wire.
    #[inline]
    pub fn frame_tx(&mut self, frame: &[u8]) {
        self.frame_tx_at(self.now, frame);
    }

    /// Sends a frame, without check sequence, that went down the wire at `at`, if this call comes
    /// late for it.
    #[inline]
    pub fn frame_tx_at(&mut self, at: Time, frame: &[u8]) {
        if !self.lent.loopback.takes(frame) {
            self.lent.wire.transmit(at.min(self.now), frame);
        }
    }

    /// The PHY goes into loopback, or leaves it.
    pub(crate) fn loop_back(&mut self, on: bool) {
        self.lent.loopback.set(on);
    }

    /// Counts descriptors that the model has carried out and given back to the driver.
    #[inline]
    pub fn descriptors_sent(&mut self, count: usize) {
        self.lent.counters.tx_descriptors += count as u64;
    }

    /// Asks for [`NicModel::timer`](crate::NicModel::timer) with this tag after `delay`, and not at
    /// the time that was asked for before.
    pub fn schedule(&mut self, delay: Span, tag: u32) {
        self.lent.timers.reschedule(self.now + delay, tag);
    }

    /// Whether the card may transfer at all; a strict one asks, too, whether the driver has foreseen this.
    #[inline(always)]
    fn master(&mut self, address: u64, bytes: usize, writes: bool) -> Result<(), DmaError> {
        if self.lent.command.bus_master && self.lent.strict.is_none() {
            return Ok(());
        }
        self.master_or_fail(Transfer { address, bytes, writes })
    }

    #[cold]
    fn master_or_fail(&mut self, transfer: Transfer) -> Result<(), DmaError> {
        if !self.lent.command.bus_master {
            return Err(self.failed(DmaError::BusMasterOff { address: transfer.address }));
        }
        let now = self.now;
        if let Some(strict) = self.strict() {
            strict.transfers(now, transfer);
        }
        Ok(())
    }

    /// Keeps count of failures. A success is taken apart and put together again, so that it moves
    /// in registers: moving the whole result would load in one piece what the callee has just
    /// stored in several, and wait for every store before it, the frame's payload included.
    #[inline(always)]
    fn counted<T>(&mut self, done: Result<T, DmaError>) -> Result<T, DmaError> {
        match done {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(error)),
        }
    }

    #[cold]
    fn failed(&mut self, error: DmaError) -> DmaError {
        self.lent.counters.dma_errors += 1;
        self.lent.master_abort |= matches!(error, DmaError::NotShared { .. });
        self.note((FindingKind::Dma, Place::Memory), DMA, || error.to_string());
        error
    }

    pub(crate) fn new(host: &'a mut Host<'_>, lent: &'a mut Lent) -> Self {
        let Host { now, memory, looks, interrupts } = host;
        NicContext { now: *now, looks, memory, line: interrupts, lent }
    }
}

/// What a function lends to its model.
pub(crate) struct Lent {
    /// A copy of what the configuration space says, because every register access needs it.
    pub(crate) command: Command,
    pub(crate) interrupts: InterruptState,
    pub(crate) timers: EventQueue<u32>,
    pub(crate) wire: Box<dyn Wire>,
    pub(crate) loopback: Loopback,
    pub(crate) held: Held,
    pub(crate) probe: Probe,
    pub(crate) counters: FunctionCounters,
    /// A DMA transfer has ended in a master abort since the status register was last brought up to date.
    pub(crate) master_abort: bool,
    /// What names the steps that a driver must not take, if that is wanted.
    pub(crate) strict: Option<Box<Strict>>,
}

impl Lent {
    /// That of a function at power-on.
    pub(crate) fn new(config: &ConfigSpace, wire: Box<dyn Wire>) -> Self {
        Lent {
            command: config.command(),
            interrupts: InterruptState::new(config),
            timers: EventQueue::new(),
            wire,
            loopback: Loopback::default(),
            held: Held::default(),
            probe: Probe::default(),
            counters: FunctionCounters::default(),
            master_abort: false,
            strict: None,
        }
    }
}

/// What says where a function may transfer, and when.
const DMA: &str = "PCI 3.0, 6.2.2 (bus master) and 3.3.3.1 (master abort)";
