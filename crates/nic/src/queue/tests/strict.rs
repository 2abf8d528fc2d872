//! What a strict card sees of its descriptors.

use super::super::{Arbitration, Engine, Placement, RxQueue, TxEngine, TxLimits};
use super::*;
use crate::strict::{FindingKind, Place, Strict};

const TAG: u32 = 3;
const BUFFER_BYTES: u32 = 64;

impl Bench {
    fn strict() -> Bench {
        let mut bench = Bench::new();
        let registers = crate::descriptor_fifo::OC48.info.registers;
        bench.lent.strict = Some(Box::new(Strict::new(registers)));
        bench
    }

    /// What was found so far: kinds, and how often.
    fn found(&self) -> Vec<(FindingKind, u64)> {
        let findings = self.lent.strict.as_ref().expect("a strict card").findings();
        findings.list().iter().map(|finding| (finding.kind, finding.count)).collect()
    }
}

struct Receiving {
    bench: Bench,
    queue: RxQueue<Ring<true>>,
}

impl Receiving {
    /// A queue that is on, and all of its descriptors the card's.
    fn open() -> Receiving {
        let (bench, queue) = (Bench::strict(), RxQueue::new(Ring { base: 0 }, TAG));
        let mut card = Receiving { bench, queue };
        (0..RING).for_each(|place| card.give(place, place));
        card.bench.with(|cx| card.queue.enable(cx, true));
        card
    }

    /// The driver gives a descriptor to the card, with the buffer of that number.
    fn give(&self, place: u16, buffer: u16) {
        let buffer = BUFFERS + 0x100 * u32::from(buffer);
        self.bench.put(16 * u32::from(place), &[OWN | BUFFER_BYTES, buffer]);
    }

    fn inspect(&mut self) -> Vec<(FindingKind, u64)> {
        self.bench.with(|cx| self.queue.inspect(cx));
        self.bench.found()
    }

    fn receive(&mut self, bytes: usize) -> Placement {
        self.inspect();
        self.bench.with(|cx| self.queue.place(cx, &Pieces::whole(&vec![1; bytes]), 0)).unwrap()
    }
}

#[test]
fn a_driver_that_gives_back_what_it_has_taken_is_in_order() {
    let mut card = Receiving::open();
    for lap in 0..5 {
        for place in 0..RING {
            assert_eq!(card.receive(50), Placement::Completed, "lap {lap}");
            card.give(place, place);
        }
        // All at once, in one frame and in several.
        assert_eq!(card.receive(200), Placement::Completed);
        (0..RING).for_each(|place| card.give(place, (place + lap) % RING));
        (0..RING).for_each(|_| assert_eq!(card.receive(64), Placement::Completed));
        (0..RING).for_each(|place| card.give(place, place));
    }
    assert_eq!(card.inspect(), []);
}

#[test]
fn a_descriptor_is_not_changed_while_it_is_the_card_s() {
    let mut card = Receiving::open();
    assert_eq!(card.inspect(), []);
    card.give(2, 9);
    assert_eq!(card.inspect(), [(FindingKind::DescriptorChanged, 1)]);
    assert_eq!(card.inspect(), [(FindingKind::DescriptorChanged, 1)], "once");
    card.bench.put(16, &[0]);
    assert_eq!(card.inspect(), [(FindingKind::DescriptorChanged, 2)], "taken back");
    card.give(1, 1);
    assert_eq!(card.inspect(), [(FindingKind::DescriptorChanged, 2)], "and given again");
}

#[test]
fn a_queue_that_is_off_is_the_driver_s() {
    let mut card = Receiving::open();
    card.inspect();
    card.bench.with(|cx| card.queue.enable(cx, false));
    card.give(0, 5);
    assert_eq!(card.inspect(), []);
    card.bench.with(|cx| card.queue.enable(cx, true));
    assert_eq!(card.inspect(), []);
}

#[test]
fn a_buffer_is_in_one_descriptor() {
    let mut card = Receiving::open();
    card.receive(50);
    card.give(0, 2);
    assert_eq!(card.inspect(), [(FindingKind::GivenTwice, 1)]);
    // They are used, and given again as they should have been.
    (0..RING).for_each(|_| assert_eq!(card.receive(50), Placement::Completed));
    (1..RING).chain([0]).for_each(|place| card.give(place, place));
    assert_eq!(card.inspect(), [(FindingKind::GivenTwice, 1)]);
}

#[test]
fn a_buffer_that_reaches_into_another_is_given_twice() {
    let mut card = Receiving::open();
    card.bench.put(16, &[OWN | BUFFER_BYTES, BUFFERS + 0x200 - 1]);
    assert_eq!(card.inspect(), [(FindingKind::GivenTwice, 1)]);
}

/// Two queues that are on, and all of their descriptors the card's, with buffers of their own.
struct Both {
    bench: Bench,
    queues: [RxQueue<Ring<true>>; 2],
}

impl Both {
    fn open() -> Both {
        let queues = [0, SECOND].map(|base| RxQueue::new(Ring { base }, TAG));
        let mut card = Both { bench: Bench::strict(), queues };
        for queue in 0..2 {
            (0..RING).for_each(|place| card.give(queue, place, queue as u16 * RING + place));
            card.bench.with(|cx| card.queues[queue].enable(cx, true));
        }
        assert_eq!(card.inspect(), []);
        card
    }

    fn give(&self, queue: usize, place: u16, buffer: u16) {
        let buffer = BUFFERS + 0x100 * u32::from(buffer);
        let ring = self.queues[queue].format.base;
        self.bench.put(ring + 16 * u32::from(place), &[OWN | BUFFER_BYTES, buffer]);
    }

    fn inspect(&mut self) -> Vec<(FindingKind, u64)> {
        self.bench.with(|cx| RxQueue::inspect_all(&mut self.queues, cx));
        self.bench.found()
    }

    fn receive(&mut self, queue: usize) {
        let placed =
            self.bench.with(|cx| self.queues[queue].place(cx, &Pieces::whole(&[1; 50]), 0));
        assert_eq!(placed.unwrap(), Placement::Completed);
    }
}

#[test]
fn a_buffer_is_in_one_queue() {
    for (queue, other) in [(0, 1), (1, 0)] {
        let mut card = Both::open();
        card.receive(queue);
        card.give(queue, 0, other as u16 * RING + 2);
        assert_eq!(card.inspect(), [(FindingKind::GivenTwice, 1)]);
        assert_eq!(card.inspect(), [(FindingKind::GivenTwice, 1)], "once");
        let findings = card.bench.lent.strict.as_ref().unwrap().findings();
        let [found] = findings.list() else { panic!("one place") };
        assert_eq!(found.place, Place::RxQueue(queue as u16));
        assert!(found.what.ends_with(&format!("2 of receive queue {other} too")), "{found:?}");
    }
}

#[test]
fn what_the_card_has_used_may_go_to_another_queue() {
    let mut card = Both::open();
    [0, 1].into_iter().for_each(|queue| card.receive(queue));
    card.give(0, 0, RING);
    card.give(1, 0, 0);
    assert_eq!(card.inspect(), []);
    // A queue that is off has none.
    card.bench.with(|cx| card.queues[0].enable(cx, false));
    card.receive(1);
    card.give(1, 1, 2);
    assert_eq!(card.inspect(), []);
}

#[test]
fn a_descriptor_without_bytes_is_none() {
    let mut card = Receiving::open();
    card.bench.put(16, &[OWN]);
    assert_eq!(card.inspect(), [(FindingKind::Descriptor, 1)]);
}

struct Transmitting<const MANY: bool> {
    bench: Bench,
    engine: TxEngine<Ring<MANY>>,
}

type Whole = Transmitting<true>;

/// Where the second queue's ring is.
const SECOND: u32 = 0x100;

impl<const MANY: bool> Transmitting<MANY> {
    fn open(slow: bool) -> Self {
        let limits = TxLimits { chains: 9, descriptors: 99, frames: 9, pause: Span::from_us(1) };
        let engine = slow.then(|| Engine::new(Some("pci-64-66".parse().unwrap()), None, 2_000));
        let rings = [Ring { base: 0 }, Ring { base: SECOND }];
        let mut engine = TxEngine::new(rings, Arbitration::Strict, engine, limits, TAG);
        engine.enable(true);
        Transmitting { bench: Bench::strict(), engine }
    }

    fn put(&self, place: u16, marks: u32, bytes: u32) {
        self.bench.put(16 * u32::from(place), &[OWN | marks | bytes, BUFFERS]);
    }

    /// A frame on the second queue.
    fn put_second(&self, place: u16, bytes: u32) {
        let at = SECOND + 16 * u32::from(place);
        self.bench.put(at, &[OWN | FIRST | LAST | bytes, BUFFERS]);
    }

    /// The driver writes the doorbell: what comes before, and what comes of it.
    fn ring(&mut self) -> Vec<(FindingKind, u64)> {
        self.ring_of(0)
    }

    fn ring_of(&mut self, queue: u16) -> Vec<(FindingKind, u64)> {
        let Transmitting { bench, engine } = self;
        bench.with(|cx| {
            engine.inspect(cx);
            engine.check_doorbell(cx, queue);
            if engine.doorbell(cx, queue) {
                engine.run(cx, |_, _| Ok(1)).ended.unwrap();
            }
        });
        self.bench.found()
    }

    fn timer(&mut self) -> Vec<(FindingKind, u64)> {
        self.bench.next_timer();
        let Transmitting { bench, engine } = self;
        bench.with(|cx| {
            engine.inspect(cx);
            if engine.timer(cx) {
                engine.run(cx, |_, _| Ok(1)).ended.unwrap();
            }
        });
        self.bench.found()
    }
}

#[test]
fn a_driver_that_transmits_is_in_order_also_once_round_and_with_one_buffer() {
    for slow in [false, true] {
        let mut card = Whole::open(slow);
        for lap in 0..4 {
            card.put(1, 0, 100);
            card.put(2, LAST, 100);
            card.put(3, FIRST | LAST, 100);
            card.put(0, FIRST, 100 + lap);
            assert_eq!(card.ring(), [], "lap {lap}");
            while card.bench.next_due() != Time::NEVER {
                assert_eq!(card.timer(), [], "lap {lap}");
            }
            assert_eq!(card.bench.lent.counters.tx_descriptors, 4 * u64::from(lap + 1));
        }
    }
}

#[test]
fn a_doorbell_needs_something_to_transmit() {
    let mut card = Whole::open(false);
    card.put(0, FIRST | LAST, 100);
    assert_eq!(card.ring(), []);
    let again = (FindingKind::DoorbellAgain, 1);
    assert_eq!(card.ring(), [again], "the driver may have seen the frame while it was the card's");
    assert_eq!(card.ring(), [again, (FindingKind::EmptyDoorbell, 1)]);
}

#[test]
fn what_another_queue_has_sent_is_good_for_no_doorbell() {
    let mut card = Whole::open(false);
    card.put_second(0, 100);
    assert_eq!(card.ring_of(1), []);
    (0..3).for_each(|place| card.put(place, FIRST | LAST, 100));
    assert_eq!(card.ring(), []);
    let again = (FindingKind::DoorbellAgain, 1);
    assert_eq!(card.ring_of(1), [again], "its own frame had its doorbell");
    assert_eq!(card.ring_of(1), [again, (FindingKind::EmptyDoorbell, 1)]);
}

#[test]
fn what_another_queue_has_sent_leaves_the_descriptors_of_this_one_the_card_s() {
    let mut card = Whole::open(false);
    card.put_second(0, 100);
    card.put(0, FIRST | LAST, 100);
    assert_eq!(card.ring(), []);
    card.put_second(0, 200);
    assert_eq!(card.ring_of(1), [(FindingKind::DescriptorChanged, 1)]);
}

/// Writes are posted: by the time of the first doorbell the driver may have handed two frames over.
#[test]
fn each_frame_may_have_a_doorbell_of_its_own() {
    for slow in [false, true] {
        let mut card = Whole::open(slow);
        card.put(0, FIRST | LAST, 100);
        card.put(1, FIRST | LAST, 100);
        assert_eq!(card.ring(), []);
        while card.bench.next_due() != Time::NEVER {
            card.timer();
        }
        assert_eq!(card.ring(), [], "the second frame's");
        assert_eq!(card.ring(), [(FindingKind::DoorbellAgain, 1)]);
    }
}

#[test]
fn a_doorbell_while_a_transfer_is_under_way_is_in_order() {
    let mut card = Whole::open(true);
    card.put(0, FIRST | LAST, 100);
    assert_eq!((card.ring(), card.ring()), (vec![], vec![]));
}

/// As of a FIFO: the card may have used the first piece before the driver hands the second over.
#[test]
fn a_frame_goes_on_where_the_card_has_used_what_came_before() {
    let mut card = Transmitting::<false>::open(false);
    card.put(0, FIRST, 100);
    assert_eq!(card.ring(), []);
    card.put(1, LAST, 100);
    assert_eq!(card.ring(), []);
    card.put(2, LAST, 100);
    assert_eq!(card.ring(), [(FindingKind::Descriptor, 1)]);
}

#[test]
fn a_transmitter_that_is_off_needs_no_doorbell() {
    let mut card = Whole::open(false);
    card.engine.enable(false);
    card.put(0, FIRST | LAST, 100);
    assert_eq!(card.ring(), [(FindingKind::EmptyDoorbell, 1)]);
}

#[test]
fn a_descriptor_stays_as_it_is_while_its_transfer_is_under_way() {
    let mut card = Whole::open(true);
    card.put(0, FIRST | LAST, 100);
    card.ring();
    card.put(0, FIRST | LAST, 200);
    assert_eq!(card.timer(), [(FindingKind::DescriptorChanged, 1)]);
}

#[test]
fn a_frame_begins_and_ends() {
    let mut card = Whole::open(false);
    card.put(0, LAST, 100);
    assert_eq!(card.ring(), [(FindingKind::Descriptor, 1)]);
    card.put(1, FIRST, 100);
    card.put(2, FIRST | LAST, 100);
    assert_eq!(card.ring(), [(FindingKind::Descriptor, 2)]);
    card.put(3, FIRST | LAST, 0);
    assert_eq!(card.ring(), [(FindingKind::Descriptor, 3)]);
}
