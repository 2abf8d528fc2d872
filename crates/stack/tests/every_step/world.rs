//! Everything that outlives a driver: the card, its memory, the state area, packet memory, and whoever is
//! above. All of it gets a turn between any two stores of a driver; what it then does follows from a seed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use warikomi_clock::{Seed, Span, Time};
use warikomi_nic::{Frame, Nic, NicOptions, RxError, RxFault, RxOutcome};
use warikomi_pci::attach::area;
use warikomi_pci::attach::layout::{DMA_BUS_ADDRESS, PACKET_BUS_ADDRESS};
use warikomi_pci::{Host, SharedMemory, Width};
use warikomi_shared::{SharedWords, create_region};
use warikomi_stack::{PacketMemory, Shape, words};
use warikomi_testbench::Bench;

use crate::frame::{frame, number_of};
use crate::user::User;

/// What happens in a run, apart from kills.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// From which follows what the card and the layer above do, and when.
    pub(crate) seed: u64,
    /// Looks of drivers at the rings before everything comes to rest.
    pub(crate) passes: u64,
    /// Before which of them the device is to be handed over.
    pub(crate) hand_over_before: Vec<u64>,
    /// Frames to be sent.
    pub(crate) frames: u64,
    /// Receive descriptors.
    pub(crate) descriptors: usize,
    /// Buffers of the layer above.
    pub(crate) buffers: u32,
    /// Transfers take their time, by this bus.
    pub(crate) bus: Option<&'static str>,
}

/// How long each turn takes.
const TURN: Span = Span::from_ns(200);
/// The card's command register, and the bit that switches its receiver on.
const CHIP_CMD: u64 = 0x37;
const RECEIVER_ON: u64 = 1 << 3;
pub(crate) const DMA_BYTES: usize = 1 << 16;
const BUFFER_BYTES: u32 = 128;

pub(crate) struct World {
    card: RefCell<Bench>,
    pub(crate) memory: SharedMemory,
    pub(crate) packets: PacketMemory,
    pub(crate) area: SharedWords,
    pub(crate) user: RefCell<User>,
    chances: RefCell<ChaCha8Rng>,
    next_arrival: Cell<u64>,
    /// Frames arrive, and the layer above hands frames over.
    busy: Cell<bool>,
    /// The cable is pulled, but for the card's own view of it.
    deaf: Cell<bool>,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Rc<World> {
        let shape = Shape {
            channels: 1,
            application_buffers: scenario.buffers,
            stack_buffers: 0,
            buffer_bytes: BUFFER_BYTES,
            tsc_hz: 1_000_000_000,
        };
        let (packets, file) = PacketMemory::create(shape).expect("packet memory");
        let bytes = shape.file_bytes() as usize;
        let regions = GuestMemoryMmap::from_ranges_with_files([
            (GuestAddress(DMA_BUS_ADDRESS), DMA_BYTES, None),
            (GuestAddress(PACKET_BUS_ADDRESS), bytes, Some(FileOffset::new(file, 0))),
        ]);
        let mut user = User::new(packets.clone(), scenario.frames);
        user.post(scenario.buffers as usize / 2);
        let area = create_region("state", area::BYTES).expect("a state area");
        let bus = scenario.bus.map(|bus| bus.parse().expect("a bus"));
        let options = NicOptions { bus, ..NicOptions::of("rtl8168") };
        let memory = SharedMemory::new(regions.expect("memory"));
        let card = Bench::cabled(|wire| warikomi_nic::build(&options, wire).expect("a NIC"))
            .sharing(memory.clone())
            .at(Time::from_ps(1_000_000));
        Rc::new(World {
            card: RefCell::new(card),
            memory,
            user: RefCell::new(user),
            packets,
            area: SharedWords::map(area, 0, area::BYTES as usize).expect("a state area"),
            chances: RefCell::new(Seed(scenario.seed).generator()),
            next_arrival: Cell::new(0),
            busy: Cell::new(true),
            deaf: Cell::new(false),
        })
    }

    /// The card, its BAR and what is around it, for one call.
    pub(crate) fn card<R>(&self, call: impl FnOnce(&mut dyn Nic, u8, &mut Host<'_>) -> R) -> R {
        let card = &mut *self.card.borrow_mut();
        let bar = card.register_bar();
        card.host(|nic, host| call(nic, bar, host))
    }

    /// Lets time pass, and whatever happens then: nothing as long as the card is off.
    pub(crate) fn turn(&self) {
        self.card.borrow_mut().now += TURN;
        let command = self.card(|nic, bar, host| nic.bar_read(host, bar, CHIP_CMD, Width::B1));
        if command & RECEIVER_ON == 0 {
            return;
        }
        self.card(|nic, _, host| {
            if nic.next_due() <= host.now {
                nic.poll(host);
            }
        });
        let number = self.chances.borrow_mut().next_u64();
        let mut user = self.user.borrow_mut();
        match number % 32 {
            0..6 if self.busy.get() && !self.deaf.get() => {
                drop(user);
                self.arrive(number >> 8 & 7 == 0);
            }
            6..10 => user.collect(),
            10..14 => user.post((number >> 8 & 3) as usize),
            14..16 if self.busy.get() => user.send(number >> 8 & 3),
            _ => {}
        }
    }

    /// A frame arrives. If the card has room for it, it must come through.
    fn arrive(&self, damaged: bool) {
        let number = self.next_arrival.get();
        let bytes = frame(number);
        let frame = Frame::new(&bytes);
        let outcome = self.card(|nic, _, host| match damaged {
            true => nic.receive_faulty(host, frame, RxFault::Reported(RxError::Crc)),
            false => nic.receive(host, frame),
        });
        let expected = match outcome.outcome {
            RxOutcome::OnRing => Some(number),
            RxOutcome::OnRingDamaged => None,
            RxOutcome::NoDescriptor | RxOutcome::NotReceiving | RxOutcome::Filtered => return,
            other => panic!("the card cannot take a frame: {other:?}"),
        };
        self.next_arrival.set(number + 1);
        self.user.borrow_mut().expected.push(expected);
    }

    /// Counts of the channel: completions shown, and buffers taken.
    fn counts(&self) -> (u64, u64) {
        let first = self.packets.channel(0).expect("there is a channel").first_word;
        let count = |at: usize| self.packets.words()[first + at].load(Ordering::Relaxed);
        (count(words::COMPLETIONS), count(words::POSTS + words::TAIL))
    }

    /// The card is going to be reset: what it has accepted and nobody has shown is lost. How many frames.
    pub(crate) fn lose(&self) -> u64 {
        self.deaf.set(true);
        let (shown, taken) = self.counts();
        self.user.borrow_mut().expect_reset(shown, taken - shown)
    }

    /// The card receives again.
    pub(crate) fn hear(&self) {
        self.deaf.set(false);
    }

    /// The driver is going to stop: the buffers that it has come back unused.
    pub(crate) fn expect_the_end(&self) {
        let (shown, taken) = self.counts();
        self.user.borrow_mut().expect_returned(taken - shown);
    }

    /// Nothing new begins; what is under way goes on.
    pub(crate) fn calm(&self) {
        self.busy.set(false);
        // What was to be sent is, so that all seeds have sent the same.
        self.user.borrow_mut().send(u64::MAX);
    }

    /// Whether nothing is under way any more.
    pub(crate) fn is_at_rest(&self) -> bool {
        let due = self.card.borrow().nic.next_due();
        let mut user = self.user.borrow_mut();
        user.collect();
        user.send(u64::MAX);
        let sent = self.card.borrow().wire.right();
        due == Time::NEVER && user.is_done() && sent == user.sent.len() as u64
    }

    /// Everything that was handed over was on the wire once, in order.
    pub(crate) fn judge_wire(&self) {
        let sent = self.card.borrow().sent();
        let sent: Vec<u64> = sent.iter().map(|frame| number_of(frame)).collect();
        assert_eq!(sent, self.user.borrow().sent, "on the wire, and handed over");
    }

    /// The card's own account: it has seen every descriptor come back, but for those of frames that were
    /// lost.
    pub(crate) fn judge_account(&self, lost: u64) {
        let counters = self.card.borrow_mut().progress();
        assert_eq!(counters.on_ring, counters.accepted + counters.abandoned);
        assert_eq!(counters.abandoned, lost, "descriptors that never came back");
    }
}
