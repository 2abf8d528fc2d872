//! The model.

use warikomi_clock::{Span, Time};
use warikomi_nic::queue::{
    Arbitration, Causes, Completion, Engine, Line, Placement, RxDescriptor, RxFormat, RxQueue,
    Steering, TxDescriptor, TxEngine, TxFormat, TxLimits,
};
use warikomi_nic::strict::Look;
use warikomi_nic::{
    Frame, Link, ModelInfo, NicContext, NicModel, NicOptions, Reception, ResetKind, RxCounters,
    RxFault, RxOutcome, checksums_good,
};
use warikomi_pci::{
    BarKind, Capability, ConfigSpace, DmaError, Identity, MsixLayout, Pieces, Vector, Width,
};
use warikomi_wire::wire_time;

use super::regs;

/// The longest frame in bytes without check sequence.
pub(super) const MAX_FRAME_BYTES: usize = 16_379;

/// The model's description.
pub static INFO: ModelInfo = ModelInfo {
    name: "duo",
    summary: "Test card (two queues each way, two vectors by MSI-X or MSI, two BARs)",
    linux_drivers: &[],
    register_bar: regs::BAR,
    rx_queues: regs::QUEUES,
    max_frame_bytes: MAX_FRAME_BYTES,
    registers: regs::REGISTERS,
};

/// What says what descriptors look like.
const SOURCE: &str = "documentation of warikomi_testbench::cards::duo, Descriptors";

const TIMER_TX: u32 = 0;
/// Of the first vector; the other's follows.
const TIMER_HOLD: u32 = 1;
/// Of the first queue; the other's follows.
const TIMER_LATE: u32 = 3;

/// The key of the data sheet, and as many entries of the table as there are queues.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

const LIMITS: TxLimits = TxLimits {
    chains: 64,
    descriptors: regs::RING as usize,
    frames: regs::RING as usize,
    pause: Span::from_ns(1),
};
/// Memory on the card for frames that wait for the line.
const MEMORY_BYTES: usize = 64 << 10;

/// A ring of either direction.
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    base: u64,
}

impl Ring {
    fn address(self, index: u16) -> u64 {
        self.base.wrapping_add(regs::DESCRIPTOR * u64::from(index))
    }

    fn following(index: u16) -> u16 {
        (index + 1) % regs::RING
    }

    /// The first word and the buffer's address of a descriptor that is the card's.
    fn load(self, cx: &mut NicContext<'_>, index: u16) -> Result<Option<(u32, u64)>, DmaError> {
        let [word, _, low, high] = cx.dma_load_descriptor(self.address(index))?;
        let address = u64::from(high) << 32 | u64::from(low);
        Ok((word & regs::OWN != 0).then_some((word, address)))
    }

    fn look(self, cx: &NicContext<'_>, index: u16) -> Option<Look<u16>> {
        let words = cx.peek_descriptor(self.address(index))?;
        let [word, _, low, high] = words;
        (word & regs::OWN != 0).then(|| Look {
            next: Ring::following(index),
            buffer: u64::from(high) << 32 | u64::from(low),
            bytes: (word & regs::LENGTH) as usize,
            first: word & regs::FIRST != 0,
            last: word & regs::LAST != 0,
            words,
        })
    }
}

impl RxFormat for Ring {
    type Place = u16;
    type Words = ();
    /// Bits of the first word.
    type Status = u32;

    const SOURCE: &'static str = SOURCE;
    const DESCRIPTORS: usize = regs::RING as usize;
    const CHAINS: bool = true;

    fn at(&self, place: u16) -> u64 {
        Ring::address(*self, place)
    }

    fn descriptor(
        &self,
        place: u16,
        _bytes: usize,
        [[word, _, low, high], _]: [[u32; 4]; 2],
    ) -> Option<RxDescriptor<u16, ()>> {
        (word & regs::OWN != 0).then(|| RxDescriptor {
            place,
            next: Ring::following(place),
            buffer: u64::from(high) << 32 | u64::from(low),
            bytes: (word & regs::LENGTH) as usize,
            words: (),
        })
    }

    fn complete(
        &self,
        cx: &mut NicContext<'_>,
        descriptor: &RxDescriptor<u16, ()>,
        completion: Completion,
        status: u32,
    ) -> Result<(), DmaError> {
        let first = if completion.first { regs::FIRST } else { 0 };
        let last = if completion.last { regs::LAST } else { 0 };
        let word = first | last | status | completion.bytes as u32 & regs::LENGTH;
        cx.dma_give(self.at(descriptor.place), word)
    }

    /// The driver has given it another buffer, or cleared it.
    fn is_taken(&self, cx: &NicContext<'_>, place: u16) -> bool {
        let word = cx.peek_u32(self.at(place));
        word.is_some_and(|word| word == 0 || word & regs::OWN != 0)
    }

    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        Ring::look(*self, cx, place).map(|look| Look { first: true, last: true, ..look })
    }

    fn is_set(&self) -> bool {
        self.base != 0
    }

    fn is_reused(earlier: u16, place: u16) -> bool {
        earlier == place
    }
}

impl TxFormat for Ring {
    type Place = u16;
    type Words = ();

    const SOURCE: &'static str = SOURCE;
    const DESCRIPTORS: usize = regs::RING as usize;
    const IN_MEMORY: bool = true;
    const WHOLE_FRAMES: bool = true;
    const MAX_BYTES: usize = MAX_FRAME_BYTES;

    fn load(
        &self,
        cx: &mut NicContext<'_>,
        place: u16,
    ) -> Result<Option<TxDescriptor<u16, ()>>, DmaError> {
        let found = Ring::load(*self, cx, place)?;
        Ok(found.map(|(word, buffer)| TxDescriptor {
            place,
            next: Ring::following(place),
            buffer,
            bytes: (word & regs::LENGTH) as usize,
            first: word & regs::FIRST != 0,
            last: word & regs::LAST != 0,
            since: Time::ZERO,
            words: (),
        }))
    }

    fn look(&self, cx: &NicContext<'_>, place: u16) -> Option<Look<u16>> {
        Ring::look(*self, cx, place)
    }

    fn is_set(&self) -> bool {
        self.base != 0
    }

    fn give_back(
        &mut self,
        cx: &mut NicContext<'_>,
        descriptor: &TxDescriptor<u16, ()>,
        _frames: usize,
    ) -> Result<(), DmaError> {
        cx.dma_store_u32(self.address(descriptor.place), 0)
    }
}

/// Status, mask and moderation of a vector, which can hold RX_DONE back.
fn causes(vector: u16) -> Causes<1> {
    Causes::new(Vector(vector), regs::INTR_ALL, [regs::RX_DONE], TIMER_HOLD + u32::from(vector))
}

/// The model.
pub struct Duo {
    options: NicOptions,
    causes: [Causes<1>; regs::QUEUES as usize],
    hold_ns: [u32; regs::QUEUES as usize],
    rx: [RxQueue<Ring>; regs::QUEUES as usize],
    tx: TxEngine<Ring>,
    steering: Steering,
    steer: bool,
    link: bool,
    max_frame_bytes: usize,
    buffer: Box<[u8]>,
}

impl Duo {
    /// A card that has just been powered on, with its cable in. Of the options the bus, the line rate and
    /// the MTU count; without them its transfers take no time.
    pub fn new(options: &NicOptions) -> Duo {
        const HEADER_BYTES: usize = 14;
        let line = options.line_rate_bps;
        let line = line.map(|bits_per_second| Line { bits_per_second, frame_time: wire_time });
        let engine = (options.bus.is_some() || line.is_some())
            .then(|| Engine::new(options.bus, line, MEMORY_BYTES));
        let rings = [Ring::default(); regs::QUEUES as usize];
        let mut steering = Steering::new(rings.len());
        steering.set_key(KEY);
        steering.set_udp_ports(true);
        (0..regs::QUEUES).for_each(|queue| steering.set_entry(queue.into(), queue));
        Duo {
            options: options.clone(),
            causes: [0, 1].map(causes),
            hold_ns: [0; 2],
            rx: [0, 1].map(|queue| RxQueue::new(Ring::default(), TIMER_LATE + queue)),
            tx: TxEngine::new(rings, Arbitration::RoundRobin, engine, LIMITS, TIMER_TX),
            steering,
            steer: false,
            link: true,
            max_frame_bytes: options
                .mtu
                .map_or(MAX_FRAME_BYTES, |mtu| MAX_FRAME_BYTES.min(mtu as usize + HEADER_BYTES)),
            buffer: vec![0; MAX_FRAME_BYTES].into(),
        }
    }

    fn soft_reset(&mut self, cx: &mut NicContext<'_>) {
        self.rx.iter_mut().for_each(|queue| queue.reset(cx));
        self.tx.reset();
        self.causes.iter_mut().for_each(|causes| causes.reset(cx));
        (self.steer, self.hold_ns) = (false, [0; 2]);
    }

    fn power_on(&mut self, cx: &mut NicContext<'_>) {
        self.soft_reset(cx);
        let before = std::mem::replace(self, Duo::new(&self.options));
        for (queue, before) in self.rx.iter_mut().zip(&before.rx) {
            queue.keep_counters(before);
        }
        self.link = before.link;
    }

    fn control(&self) -> u32 {
        let bit = |on, bit| if on { bit } else { 0 };
        bit(self.tx.is_enabled(), regs::TX_ENABLE)
            | bit(self.rx[0].is_enabled(), regs::RX_ENABLE)
            | bit(self.steer, regs::STEER)
    }

    fn set_control(&mut self, cx: &mut NicContext<'_>, control: u32) {
        if control & regs::RESET != 0 {
            return self.soft_reset(cx);
        }
        let receive = control & regs::RX_ENABLE != 0;
        self.rx.iter_mut().for_each(|queue| queue.enable(cx, receive));
        self.tx.enable(control & regs::TX_ENABLE != 0);
        self.steer = control & regs::STEER != 0;
    }

    /// A DMA transfer failed: nothing goes on before RESET.
    fn system_error(&mut self, cx: &mut NicContext<'_>) {
        self.rx.iter_mut().for_each(RxQueue::halt);
        self.tx.halt();
        self.report(cx, 0, regs::SYS_ERROR);
    }

    fn report(&mut self, cx: &mut NicContext<'_>, vector: u16, bits: u32) {
        self.causes[usize::from(vector)].report(cx, bits);
    }

    /// A frame is on a queue's ring: its vector says so, at once or when it has been held long enough.
    fn received(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        self.causes[usize::from(queue)].report_frames(cx, 0, 1);
    }

    /// Sends what is due; the frames of a queue are told by its vector.
    fn transmit(&mut self, cx: &mut NicContext<'_>) {
        let (link, longest, buffer) = (self.link, self.max_frame_bytes, &mut self.buffer);
        let mut report = [0; regs::QUEUES as usize];
        let run = self.tx.run(cx, |cx, out| {
            let bits = &mut report[usize::from(out.queue)];
            let bytes = if out.usable { out.collect(cx, buffer)? } else { 0 };
            if bytes == 0 || bytes > longest {
                *bits |= regs::TX_ERROR;
                return Ok(0);
            }
            *bits |= regs::TX_DONE;
            if link {
                out.send(cx, &buffer[..bytes])
            } else {
                out.complete(bytes)
            }
            Ok(1)
        });
        if run.ended.is_err() {
            self.system_error(cx);
        }
        for (vector, bits) in (0..).zip(report) {
            self.report(cx, vector, bits);
        }
    }

    fn complete_late(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        if !self.rx[usize::from(queue)].timer(cx) {
            return;
        }
        while let Some(completed) = self.rx[usize::from(queue)].complete_late(cx) {
            match completed {
                Ok(_) => self.received(cx, queue),
                Err(_) => self.system_error(cx),
            }
        }
    }

    fn receive(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: Option<RxFault>,
    ) -> Reception {
        const HEADER_BYTES: usize = 14;
        let bytes = frame.bytes;
        if self.rx[0].is_halted() {
            return Reception::first(RxOutcome::DmaError);
        }
        if !self.rx[0].is_enabled() || !self.link {
            return Reception::first(RxOutcome::NotReceiving);
        }
        let possible = (HEADER_BYTES..=self.max_frame_bytes).contains(&bytes.len());
        let damaged = matches!(fault, Some(RxFault::Crc | RxFault::Alignment));
        let ours = bytes.first_chunk().is_some_and(admits);
        if !possible || damaged || !ours {
            return Reception::first(RxOutcome::Filtered);
        }
        let queue = if self.steer { self.steering.queue_of(bytes) } else { 0 };
        Reception { queue, outcome: self.place(cx, queue, bytes, fault) }
    }

    fn place(
        &mut self,
        cx: &mut NicContext<'_>,
        queue: u16,
        bytes: &[u8],
        fault: Option<RxFault>,
    ) -> RxOutcome {
        let reported = matches!(fault, Some(RxFault::Reported(_)));
        let good = if checksums_good(bytes) { regs::CHECKSUMS_GOOD } else { 0 };
        let status = good | if reported { regs::ERROR } else { 0 };
        let ring = &mut self.rx[usize::from(queue)];
        let placed = match fault {
            None => ring.place(cx, &Pieces::whole(bytes), status),
            Some(fault) => ring.place_with_fault(cx, &Pieces::whole(bytes), status, fault),
        };
        match placed {
            Ok(Placement::Completed) => {
                self.received(cx, queue);
                if reported { RxOutcome::OnRingDamaged } else { RxOutcome::OnRing }
            }
            Ok(Placement::NoDescriptor) => {
                self.report(cx, queue, regs::RX_MISSED);
                RxOutcome::NoDescriptor
            }
            Ok(Placement::CompletedLate) => RxOutcome::OnRing,
            Ok(Placement::NeverCompleted) => RxOutcome::NotCompleted,
            Err(_) => {
                self.system_error(cx);
                RxOutcome::DmaError
            }
        }
    }

    /// What a register that can be read holds.
    fn value(&self, bar: u8, offset: u64) -> u64 {
        if bar != regs::BAR {
            return 0;
        }
        match offset {
            regs::ID => regs::ID_VALUE.into(),
            regs::CONTROL => self.control().into(),
            regs::LINK => self.link.into(),
            regs::QUEUE_COUNT => regs::QUEUES.into(),
            regs::MAC => regs::STATION,
            _ => self.queue_value(offset),
        }
    }

    fn queue_value(&self, offset: u64) -> u64 {
        for queue in 0..regs::QUEUES {
            let index = usize::from(queue);
            let value = match offset {
                _ if offset == regs::status(queue) => self.causes[index].status().into(),
                _ if offset == regs::mask(queue) => self.causes[index].mask().into(),
                _ if offset == regs::hold_ns(queue) => self.hold_ns[index].into(),
                _ if offset == regs::rx_ring(queue) => self.rx[index].format.base,
                _ if offset == regs::tx_ring(queue) => self.tx.queue(queue).format.base,
                _ => continue,
            };
            return value;
        }
        0
    }

    fn write_queue(&mut self, cx: &mut NicContext<'_>, queue: u16, offset: u64, value: u64) {
        let word = value as u32;
        let base = value & !(regs::RING_ALIGNMENT - 1);
        let index = usize::from(queue);
        if offset == regs::status(queue) {
            self.causes[index].acknowledge(cx, word);
        } else if offset == regs::mask(queue) {
            self.causes[index].set_mask(cx, word);
        } else if offset == regs::hold_ns(queue) {
            self.hold_ns[index] = word;
            self.causes[index].moderate(cx, 0, Span::from_ns(word.into()), 0);
        } else if offset == regs::rx_ring(queue) {
            self.rx[index].restart(cx);
            self.rx[index].format.base = base;
        } else if offset == regs::tx_ring(queue) {
            self.tx.restart_queue(queue);
            self.tx.queue_mut(queue).format.base = base;
        }
    }

    fn doorbell(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        self.tx.check_doorbell(cx, queue);
        if self.tx.is_open() && self.tx.doorbell(cx, queue) {
            self.transmit(cx);
        }
    }
}

/// Whether frames for this address are taken: the station's own, broadcast and multicast.
fn admits(destination: &[u8; 6]) -> bool {
    destination[0] & 1 != 0 || destination[..] == regs::STATION.to_le_bytes()[..6]
}

impl NicModel for Duo {
    fn info(&self) -> &'static ModelInfo {
        &INFO
    }

    fn config_space(&self) -> ConfigSpace {
        let identity = Identity {
            vendor: 0x1234,
            device: 0x0d02,
            revision: 1,
            class: 0x02_0000,
            subsystem_vendor: 0x1234,
            subsystem: 0x0d02,
        };
        let msix = MsixLayout {
            vectors: regs::QUEUES,
            table: (regs::DOORBELL_BAR, regs::TABLE),
            pending: (regs::DOORBELL_BAR, regs::PENDING),
        };
        ConfigSpace::builder(identity)
            .bar(regs::BAR, BarKind::Memory32, 4_096)
            .bar(regs::DOORBELL_BAR, BarKind::Memory64, 4_096)
            .capability_at(0x50, Capability::msi(regs::MESSAGES, true))
            .capability_at(0x70, Capability::msix(msix))
            .build()
    }

    fn reg_read(&mut self, _cx: &mut NicContext<'_>, bar: u8, offset: u64, width: Width) -> u64 {
        regs::find(bar, offset, width)
            .map_or(0, |(row, shift)| self.value(bar, row.offset.into()) >> shift)
    }

    fn reg_write(
        &mut self,
        cx: &mut NicContext<'_>,
        bar: u8,
        offset: u64,
        width: Width,
        value: u64,
    ) {
        let Some((row, shift)) = regs::find(bar, offset, width) else { return };
        let offset = u64::from(row.offset);
        if bar == regs::DOORBELL_BAR {
            return self.doorbell(cx, (offset / 4) as u16);
        }
        let kept = self.value(bar, offset) & !(width.mask() << shift);
        let value = kept | (value & width.mask()) << shift;
        if offset == regs::CONTROL {
            return self.set_control(cx, value as u32);
        }
        (0..regs::QUEUES).for_each(|queue| self.write_queue(cx, queue, offset, value));
    }

    fn frame_rx(&mut self, cx: &mut NicContext<'_>, frame: Frame<'_>) -> Reception {
        self.receive(cx, frame, None)
    }

    fn frame_rx_faulty(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: Frame<'_>,
        fault: RxFault,
    ) -> Reception {
        self.receive(cx, frame, Some(fault))
    }

    fn timer(&mut self, cx: &mut NicContext<'_>, tag: u32) {
        match tag {
            TIMER_TX if self.tx.timer(cx) => self.transmit(cx),
            TIMER_HOLD..TIMER_LATE => self.causes[(tag - TIMER_HOLD) as usize].timer(cx),
            TIMER_LATE => self.complete_late(cx, 0),
            tag if tag == TIMER_LATE + 1 => self.complete_late(cx, 1),
            _ => {}
        }
    }

    fn reset(&mut self, cx: &mut NicContext<'_>, kind: ResetKind) {
        match kind {
            ResetKind::PowerOn => self.power_on(cx),
            ResetKind::Soft => self.soft_reset(cx),
        }
    }

    fn set_link(&mut self, cx: &mut NicContext<'_>, link: Link) {
        let up = link != Link::Down;
        if up != self.link {
            self.link = up;
            self.report(cx, 0, regs::LINK_CHANGED);
        }
    }

    fn offered_link(&self) -> Link {
        Link::Up { mbps: 1_000 }
    }

    fn has_link(&self) -> bool {
        self.link
    }

    fn rx_progress(&mut self, cx: &mut NicContext<'_>, queue: u16, limit: usize) -> RxCounters {
        let ring = &mut self.rx[usize::from(queue)];
        ring.progress(cx, limit);
        ring.counters()
    }

    fn receiving(&self) -> bool {
        self.rx[0].is_open() && self.link && self.causes.iter().any(Causes::is_asked_for)
    }

    fn mac_address(&self) -> [u8; 6] {
        let [a, b, c, d, e, f, ..] = regs::STATION.to_le_bytes();
        [a, b, c, d, e, f]
    }

    fn rx_free(&mut self, cx: &mut NicContext<'_>, queue: u16, limit: usize) -> usize {
        self.rx[usize::from(queue)].free(cx, limit)
    }

    fn inspect(&mut self, cx: &mut NicContext<'_>) {
        RxQueue::inspect_all(&mut self.rx, cx);
        self.tx.inspect(cx);
    }

    fn rx_look_ahead(
        &mut self,
        cx: &NicContext<'_>,
        queue: u16,
        frames: usize,
        bytes: usize,
    ) -> usize {
        self.rx[usize::from(queue)].look_ahead(cx, frames, bytes)
    }
}
