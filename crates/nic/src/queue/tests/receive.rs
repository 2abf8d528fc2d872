use proptest::prelude::*;
use warikomi_clock::Span;

use super::super::{Placement, RxQueue};
use super::*;
use crate::{RxCounters, RxFault};

const TAG: u32 = 7;
const STATUS: u32 = 1 << 20;
const BUFFER_BYTES: u32 = 64;

struct Card<const MANY: bool> {
    bench: Bench,
    queue: RxQueue<Ring<MANY>>,
}

impl<const MANY: bool> Card<MANY> {
    /// A queue that is on, and all of its descriptors the card's.
    fn open() -> Self {
        let mut card = Card { bench: Bench::new(), queue: RxQueue::new(Ring { base: 0 }, TAG) };
        (0..RING).for_each(|place| card.give(place));
        card.bench.with(|cx| card.queue.enable(cx, true));
        card
    }

    fn buffer(place: u16) -> u32 {
        BUFFERS + 0x100 * u32::from(place)
    }

    /// The driver gives a descriptor to the card.
    fn give(&self, place: u16) {
        self.bench.put(16 * u32::from(place), &[OWN | BUFFER_BYTES, Self::buffer(place)]);
    }

    fn first_word(&self, place: u16) -> u32 {
        self.bench.word(16 * u32::from(place))
    }

    fn place(&mut self, bytes: &[u8]) -> Placement {
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        self.bench
            .with(|cx| self.queue.place(cx, &Pieces { parts: [head, tail], fcs: None }, STATUS))
            .unwrap()
    }

    fn place_with_fault(&mut self, bytes: &[u8], fault: RxFault) -> Placement {
        self.bench
            .with(|cx| self.queue.place_with_fault(cx, &Pieces::whole(bytes), STATUS, fault))
            .unwrap()
    }

    /// `on_ring`, `accepted` and `abandoned`.
    fn counts(&mut self) -> [u64; 3] {
        let counters = self.bench.with(|cx| self.queue.progress(cx, usize::MAX));
        let RxCounters { on_ring, accepted, abandoned } = counters;
        [on_ring, accepted, abandoned]
    }

    fn free(&mut self) -> usize {
        self.bench.with(|cx| self.queue.free(cx, usize::MAX))
    }

    /// The timer: the status of each late frame that was completed now.
    fn timer(&mut self) -> Vec<Result<u32, DmaError>> {
        let mut done = Vec::new();
        while self.bench.next_due() <= self.bench.now {
            assert_eq!(self.bench.next_timer(), Some(TAG));
            if self.bench.with(|cx| self.queue.timer(cx)) {
                done.extend(std::iter::from_fn(|| {
                    self.bench.with(|cx| self.queue.complete_late(cx))
                }));
            }
        }
        done
    }
}

fn frame(bytes: u8) -> Vec<u8> {
    (0..bytes).collect()
}

#[test]
fn frames_go_into_one_descriptor_after_the_other_until_there_is_none() {
    let mut card = Card::<true>::open();
    for place in 0..RING {
        assert_eq!(card.free(), usize::from(RING - place));
        let bytes = 20 + place as u8;
        assert_eq!(card.place(&frame(bytes)), Placement::Completed);
        assert_eq!(card.first_word(place), FIRST | LAST | STATUS | u32::from(bytes));
        let buffer = Card::<true>::buffer(place);
        assert_eq!(card.bench.bytes(buffer, bytes.into()), frame(bytes));
    }
    assert_eq!((card.place(&frame(20)), card.free()), (Placement::NoDescriptor, 0));
    assert_eq!(card.counts(), [4, 0, 0]);
}

#[test]
fn accepted_are_those_that_were_given_back_in_order_and_within_the_limit() {
    let mut card = Card::<true>::open();
    (0..RING).for_each(|_| assert_eq!(card.place(&frame(20)), Placement::Completed));
    card.give(1);
    assert_eq!(card.counts(), [4, 0, 0], "the first one is not given back");
    card.give(0);
    assert_eq!(card.bench.with(|cx| card.queue.progress(cx, 1)).accepted, 1);
    assert_eq!(card.counts(), [4, 2, 0]);
    assert_eq!(card.free(), 2);
}

#[test]
fn a_descriptor_that_comes_round_again_was_taken() {
    let mut card = Card::<true>::open();
    for lap in 0..3 {
        for place in 0..RING {
            assert_eq!(card.place(&frame(20)), Placement::Completed);
            let taken = (lap * u64::from(RING) + u64::from(place) + 1).saturating_sub(4);
            assert_eq!(card.queue.counters().accepted, taken, "without a look");
            if place + 1 == RING {
                (0..RING).for_each(|place| card.give(place));
            }
        }
    }
}

#[test]
fn a_long_frame_takes_several_descriptors_or_none() {
    let mut card = Card::<true>::open();
    assert_eq!(card.place(&frame(200)), Placement::Completed);
    let words: Vec<_> = (0..RING).map(|place| card.first_word(place)).collect();
    assert_eq!(words, [FIRST | STATUS | 64, STATUS | 64, STATUS | 64, LAST | STATUS | 8]);
    let bytes: Vec<_> =
        (0..RING).flat_map(|place| card.bench.bytes(Card::<true>::buffer(place), 64)).collect();
    assert_eq!(bytes[..200], frame(200));
    assert_eq!(card.counts(), [1, 0, 0]);
    (0..3).for_each(|place| card.give(place));
    assert_eq!(card.counts(), [1, 0, 0], "its last descriptor counts");
    assert_eq!(card.place(&frame(193)), Placement::NoDescriptor);
    assert_eq!(card.first_word(0), OWN | 64, "nothing is written of what has no room");
    card.give(3);
    assert_eq!(card.counts(), [1, 1, 0]);
    // More than the whole ring has room for.
    let longest = vec![1; 4 * 64 + 1];
    assert_eq!(card.place(&longest), Placement::NoDescriptor);
    assert_eq!(card.place(&longest[1..]), Placement::Completed);
}

#[test]
fn a_card_that_cuts_frames_off_says_so() {
    let mut card = Card::<false>::open();
    assert_eq!(card.place(&frame(200)), Placement::Completed);
    assert_eq!(card.first_word(0), FIRST | LAST | 1 << 16 | STATUS | 64);
    assert_eq!(card.bench.bytes(Card::<false>::buffer(0), 64), frame(64));
    assert_eq!((card.first_word(1), card.counts()), (OWN | 64, [1, 0, 0]));
}

#[test]
fn what_the_driver_throws_away_is_abandoned_and_counts_never_go_back() {
    let mut card = Card::<true>::open();
    (0..3).for_each(|_| assert_eq!(card.place(&frame(20)), Placement::Completed));
    card.give(0);
    card.bench.with(|cx| card.queue.reset(cx));
    assert_eq!(card.counts(), [3, 1, 2]);
    assert!(!card.queue.is_open() && card.queue.head() == 0);
    let mut after = RxQueue::new(Ring { base: 0 }, TAG);
    after.keep_counters(&card.queue);
    assert_eq!(after.counters(), card.queue.counters());
    // A queue that is switched off settles as well; one that is halted keeps what it has.
    card.bench.with(|cx| card.queue.enable(cx, true));
    (0..RING).for_each(|place| card.give(place));
    assert_eq!(card.place(&frame(20)), Placement::Completed);
    card.queue.halt();
    assert_eq!((card.queue.is_open(), card.counts()), (false, [4, 1, 2]));
    card.bench.with(|cx| card.queue.enable(cx, false));
    assert_eq!(card.counts(), [4, 1, 3]);
}

#[test]
fn a_transfer_that_fails_is_an_error_and_moves_nothing() {
    let mut card = Card::<true>::open();
    card.bench.put(0, &[OWN | 64, 0xffff_0000]);
    let placed = card.bench.with(|cx| card.queue.place(cx, &Pieces::whole(&frame(20)), STATUS));
    assert!(matches!(placed, Err(DmaError::NotShared { .. })));
    assert_eq!((card.queue.head(), card.counts()), (0, [0, 0, 0]));
}

#[test]
fn a_wrong_length_and_a_completion_that_never_comes_are_placed_all_the_same() {
    let mut card = Card::<true>::open();
    let placed = card.place_with_fault(&frame(20), RxFault::Length(0x123));
    assert_eq!((placed, card.first_word(0)), (Placement::Completed, FIRST | LAST | STATUS | 0x123));
    let placed = card.place_with_fault(&frame(30), RxFault::NeverCompleted);
    assert_eq!((placed, card.first_word(1)), (Placement::NeverCompleted, OWN | 64));
    assert_eq!(card.bench.bytes(Card::<true>::buffer(1), 30), frame(30));
    assert_eq!((card.counts(), card.queue.head()), ([1, 0, 0], 2));
    // Other faults are not of the completion, and a frame that is too long for one buffer is completed.
    assert_eq!(card.place_with_fault(&frame(40), RxFault::Crc), Placement::Completed);
    card.give(0);
    assert_eq!(card.place_with_fault(&frame(65), RxFault::NeverCompleted), Placement::Completed);
    assert_eq!(card.counts(), [3, 1, 0]);
}

#[test]
fn late_frames_are_completed_when_they_are_due_and_are_neither_free_nor_taken_before() {
    let mut card = Card::<true>::open();
    let late = |us| RxFault::CompletedLate(Span::from_us(us));
    assert_eq!(card.place_with_fault(&frame(20), late(20)), Placement::CompletedLate);
    assert_eq!(card.place_with_fault(&frame(21), late(10)), Placement::CompletedLate);
    assert_eq!(card.place(&frame(22)), Placement::Completed);
    assert_eq!((card.first_word(0), card.first_word(1)), (OWN | 64, OWN | 64));
    card.give(2);
    assert_eq!((card.counts(), card.free()), ([3, 0, 0], 1), "not the first one");
    assert_eq!(card.place(&frame(23)), Placement::Completed);
    card.give(3);
    assert_eq!(card.place(&frame(24)), Placement::NoDescriptor, "the first one is not free");

    let begun = card.bench.now;
    assert_eq!(card.bench.next_due(), begun + Span::from_us(10));
    card.bench.now = begun + Span::from_us(10);
    assert_eq!(card.timer(), [Ok(STATUS)]);
    assert_eq!((card.first_word(0), card.first_word(1)), (OWN | 64, FIRST | LAST | STATUS | 21));
    card.bench.now = begun + Span::from_us(20);
    assert_eq!(card.timer(), [Ok(STATUS)]);
    assert_eq!(card.first_word(0), FIRST | LAST | STATUS | 20);
    (0..2).for_each(|place| card.give(place));
    assert_eq!((card.counts(), card.free()), ([4, 4, 0], 4));
}

#[test]
fn a_late_frame_that_cannot_be_completed_stays_the_cards_and_a_reset_forgets_it() {
    let mut card = Card::<true>::open();
    card.place_with_fault(&frame(20), RxFault::CompletedLate(Span::from_us(5)));
    card.queue.format.base = 0xffff_0000;
    card.bench.now += Span::from_us(5);
    assert!(matches!(card.timer()[..], [Err(DmaError::NotShared { .. })]));
    card.queue.format.base = 0;
    assert_eq!((card.counts(), card.bench.next_due()), ([1, 0, 0], Time::NEVER));
    card.bench.with(|cx| card.queue.reset(cx));
    assert_eq!(card.counts(), [1, 0, 1]);
    card.place_with_fault(&frame(20), RxFault::CompletedLate(Span::from_us(5)));
    card.bench.with(|cx| card.queue.reset(cx));
    card.bench.now += Span::from_us(5);
    assert_eq!(card.timer(), [], "nothing is written into a ring that has gone");
}

/// What happens to a queue.
#[derive(Clone, Copy, Debug)]
enum Step {
    Frame(usize),
    Faulty(usize, RxFault),
    Give(u16),
    Scribble(u16, u32),
    Progress(usize),
    Wait(u64),
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        any::<u16>().prop_map(RxFault::Length),
        Just(RxFault::NeverCompleted),
        (0u64..20).prop_map(|us| RxFault::CompletedLate(Span::from_us(us))),
    ];
    prop_oneof![
        8 => (1usize..300).prop_map(Step::Frame),
        4 => (1usize..100, fault).prop_map(|(bytes, fault)| Step::Faulty(bytes, fault)),
        12 => (0..RING).prop_map(Step::Give),
        2 => (0..RING, any::<u32>()).prop_map(|(place, word)| Step::Scribble(place, word)),
        2 => (0usize..5).prop_map(Step::Progress),
        2 => (0u64..20).prop_map(Step::Wait),
        1 => Just(Step::Reset),
    ]
}

fn apply<const MANY: bool>(card: &mut Card<MANY>, step: Step) -> u64 {
    let on_ring = |placed: Option<Placement>| {
        let counts = [Some(Placement::Completed), Some(Placement::CompletedLate)];
        u64::from(counts.contains(&placed))
    };
    let (bench, queue) = (&mut card.bench, &mut card.queue);
    match step {
        Step::Frame(bytes) => {
            let bytes = vec![1; bytes];
            return on_ring(bench.with(|cx| queue.place(cx, &Pieces::whole(&bytes), 0)).ok());
        }
        Step::Faulty(bytes, fault) => {
            let bytes = vec![1; bytes];
            let placed =
                bench.with(|cx| queue.place_with_fault(cx, &Pieces::whole(&bytes), 0, fault));
            return on_ring(placed.ok());
        }
        Step::Give(place) => card.give(place),
        Step::Scribble(place, word) => bench.put(16 * u32::from(place), &[word, word]),
        Step::Progress(limit) => {
            bench.with(|cx| queue.progress(cx, limit));
        }
        Step::Wait(us) => {
            bench.now += Span::from_us(us);
            card.timer();
        }
        Step::Reset => {
            bench.with(|cx| queue.reset(cx));
            bench.with(|cx| queue.enable(cx, true));
        }
    }
    0
}

fn adds_up<const MANY: bool>(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut card = Card::<MANY>::open();
    let (mut placed, mut before) = (0, [0; 3]);
    for &step in steps {
        placed += apply(&mut card, step);
        let RxCounters { on_ring, accepted, abandoned } = card.queue.counters();
        let now = [on_ring, accepted, abandoned];
        prop_assert_eq!(on_ring, placed);
        prop_assert!(now.iter().zip(before).all(|(now, before)| *now >= before));
        prop_assert!(accepted + abandoned <= on_ring);
        prop_assert!(on_ring - accepted - abandoned <= u64::from(RING));
        prop_assert!(card.free() <= usize::from(RING));
        before = now;
    }
    card.bench.with(|cx| card.queue.reset(cx));
    let RxCounters { on_ring, accepted, abandoned } = card.queue.counters();
    prop_assert_eq!(on_ring, accepted + abandoned, "a reset leaves nothing in the air");
    Ok(())
}

proptest! {
    #[test]
    fn the_account_adds_up_whatever_the_driver_does(steps in prop::collection::vec(step(), 1..200)) {
        adds_up::<true>(&steps)?;
        adds_up::<false>(&steps)?;
    }
}
