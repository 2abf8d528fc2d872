//! A burst: descriptors are read at its beginning, and given to the driver at its end.

use proptest::prelude::*;

use super::super::{Placement, RxQueue};
use super::*;

const BUFFER_BYTES: u32 = 64;

/// What a driver and a card do in turns.
#[derive(Clone, Debug)]
enum Step {
    /// The driver gives a descriptor to the card, with one of more buffers than there are descriptors.
    Give(u16, u32),
    /// Frames of these lengths come in a burst; how many were announced.
    Burst(Vec<usize>, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let give = (0..RING, 0u32..9).prop_map(|(place, buffer)| Step::Give(place, buffer));
    let lengths = prop::collection::vec(prop_oneof![4 => 1usize..64, 1 => 64usize..300], 0..7);
    let burst = (lengths, 0usize..7).prop_map(|(lengths, said)| Step::Burst(lengths, said));
    prop::collection::vec(prop_oneof![3 => give, 2 => burst], 1..40)
}

struct Card<const MANY: bool> {
    bench: Bench,
    queue: RxQueue<Ring<MANY>>,
}

impl<const MANY: bool> Card<MANY> {
    fn open() -> Self {
        let mut card = Card { bench: Bench::new(), queue: RxQueue::new(Ring { base: 0 }, 7) };
        // What lies behind the ring looks like a descriptor, and is none.
        (0..=RING).for_each(|place| card.give(place, place.into()));
        card.bench.with(|cx| card.queue.enable(cx, true));
        card
    }

    fn give(&self, place: u16, buffer: u32) {
        let words = [OWN | BUFFER_BYTES, BUFFERS + 0x100 * buffer];
        self.bench.put(16 * u32::from(place), &words);
    }

    fn place(&mut self, lengths: &[usize]) -> Vec<Placement> {
        let place = |(number, bytes): (usize, &usize)| {
            let frame = vec![number as u8; *bytes];
            self.bench.with(|cx| self.queue.place(cx, &Pieces::whole(&frame), 0)).unwrap()
        };
        lengths.iter().enumerate().map(place).collect()
    }

    fn place_in_burst(&mut self, lengths: &[usize], said: usize) -> Vec<Placement> {
        self.bench.lent.held.open();
        let found = self.bench.with(|cx| self.queue.look_ahead(cx, said, 60));
        assert_eq!(found, self.bench.with(|cx| self.queue.free(cx, said)));
        let placed = self.place(lengths);
        self.bench.lent.held.close();
        self.bench.with(|cx| cx.write_held());
        self.bench.with(|cx| self.queue.look_ahead(cx, 0, 0));
        placed
    }
}

fn are_alike<const MANY: bool>(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut singly, mut together) = (Card::<MANY>::open(), Card::<MANY>::open());
    for step in steps {
        match step {
            Step::Give(place, buffer) => {
                singly.give(*place, *buffer);
                together.give(*place, *buffer);
            }
            Step::Burst(lengths, said) => {
                prop_assert_eq!(singly.place(lengths), together.place_in_burst(lengths, *said));
            }
        }
        prop_assert_eq!(singly.queue.counters(), together.queue.counters());
        prop_assert_eq!(singly.queue.head(), together.queue.head());
        prop_assert!(singly.bench.bytes(0, MEMORY) == together.bench.bytes(0, MEMORY));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_burst_leaves_what_its_frames_leave_one_by_one(steps in steps()) {
        are_alike::<true>(&steps)?;
        are_alike::<false>(&steps)?;
    }
}

/// What is read at the beginning counts, and nothing is given before the end.
#[test]
fn in_a_burst_the_card_goes_by_what_it_has_read() {
    let mut card = Card::<false>::open();
    card.bench.lent.held.open();
    assert_eq!(card.bench.with(|cx| card.queue.look_ahead(cx, 2, 60)), 2);
    card.bench.put(0, &[0]);
    assert_eq!(card.place(&[60, 60]), [Placement::Completed; 2]);
    assert_eq!([card.bench.word(0), card.bench.word(16) & OWN], [0, OWN]);
    // A descriptor that was not read ends that for those before it.
    assert_eq!(card.place(&[60]), [Placement::Completed]);
    assert_eq!([0, 16, 32].map(|at| card.bench.word(at) & OWN), [0, 0, OWN]);
    assert_ne!(card.bench.word(0), 0);
}
