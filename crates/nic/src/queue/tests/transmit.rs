use proptest::prelude::*;

use super::super::{Arbitration, Engine, Line, TxEngine, TxLimits, TxRun};
use super::*;
use crate::bus::Bus;
use warikomi_wire::bytes_time;

const TAG: u32 = 5;
const PAUSE: Span = Span::from_us(3);
const UNLIMITED: TxLimits =
    TxLimits { chains: 1_000, descriptors: 1_000, frames: 1_000, pause: PAUSE };

/// Two rings; every chain that makes a frame is sent.
struct Card<const MANY: bool> {
    bench: Bench,
    engine: TxEngine<Ring<MANY>>,
    /// The next descriptor of the driver, for each ring.
    next: [u16; 2],
    unusable: usize,
}

fn bus() -> Option<Bus> {
    Some("pci-64-66".parse().unwrap())
}

/// A byte a nanosecond.
fn line() -> Option<Line> {
    let frame_time = |bytes, bps| bytes_time(bytes as u64, bps);
    Some(Line { bits_per_second: 8_000_000_000, frame_time })
}

fn slow() -> Option<Engine> {
    Some(Engine::new(bus(), line(), 2_000))
}

impl<const MANY: bool> Card<MANY> {
    fn open(engine: Option<Engine>, limits: TxLimits, arbitration: Arbitration) -> Self {
        let rings = [Ring { base: 0 }, Ring { base: 0x100 }];
        let mut engine = TxEngine::new(rings, arbitration, engine, limits, TAG);
        engine.enable(true);
        Card { bench: Bench::new(), engine, next: [0; 2], unusable: 0 }
    }

    fn simple(engine: Option<Engine>) -> Self {
        Card::open(engine, UNLIMITED, Arbitration::Strict)
    }

    /// The driver hands a piece over, of bytes that are all `content`.
    fn queue(&mut self, ring: usize, marks: u32, bytes: usize, content: u8) {
        let place = self.next[ring];
        self.next[ring] = next(place);
        let buffer = BUFFERS + 0x4000 * ring as u32 + 0x400 * u32::from(place);
        self.bench.memory.write(buffer.into(), &vec![content; bytes]).unwrap();
        let at = 0x100 * ring as u32 + 16 * u32::from(place);
        self.bench.put(at, &[OWN | marks | bytes as u32, buffer]);
    }

    fn queue_frame(&mut self, ring: usize, bytes: usize, content: u8) {
        self.queue(ring, FIRST | LAST, bytes, content);
    }

    /// Descriptors of a ring that are the card's.
    fn owned(&self, ring: u32) -> usize {
        let words = (0..u32::from(RING)).map(|place| self.bench.word(0x100 * ring + 16 * place));
        words.filter(|word| word & OWN != 0).count()
    }

    fn doorbell(&mut self, ring: u16) -> Option<TxRun> {
        let at_once = self.bench.with(|cx| self.engine.doorbell(cx, ring));
        at_once.then(|| self.run_engine())
    }

    fn run_engine(&mut self) -> TxRun {
        let unusable = &mut self.unusable;
        self.bench.with(|cx| {
            self.engine.run(cx, |cx, out| {
                if !out.usable {
                    *unusable += 1;
                    return Ok(0);
                }
                let mut buffer = [0; 1_000];
                let bytes = out.collect(cx, &mut buffer)?;
                out.send(cx, &buffer[..bytes]);
                Ok(1)
            })
        })
    }

    /// One timer's event, if the engine rings.
    fn timer(&mut self) -> Option<TxRun> {
        assert_eq!(self.bench.next_timer(), Some(TAG));
        let rings = self.bench.with(|cx| self.engine.timer(cx));
        rings.then(|| self.run_engine())
    }

    fn run_all(&mut self) {
        while self.bench.next_due() != Time::NEVER {
            self.timer();
        }
    }
}

#[test]
fn without_an_engine_everything_is_sent_within_the_doorbell() {
    let mut card = Card::<true>::simple(None);
    card.queue(0, FIRST, 10, 1);
    card.queue(0, 0, 0, 0);
    card.queue(0, LAST, 20, 2);
    card.queue_frame(0, 30, 3);
    let run = card.doorbell(0).unwrap();
    assert_eq!((run.frames, run.ended), (2, Ok(true)));
    let first = [vec![1; 10], vec![2; 20]].concat();
    assert_eq!(card.bench.sent(), [(card.bench.now, first), (card.bench.now, vec![3; 30])]);
    assert_eq!((card.owned(0), card.bench.lent.counters.tx_descriptors), (0, 4));
    assert_eq!(card.bench.next_due(), Time::NEVER);
}

#[test]
fn a_frame_that_is_not_complete_waits_for_its_end() {
    let mut card = Card::<true>::simple(None);
    card.queue(0, FIRST, 10, 1);
    assert_eq!(card.doorbell(0).unwrap().frames, 0);
    assert_eq!(card.owned(0), 1);
    card.queue(0, LAST, 10, 1);
    assert_eq!(card.doorbell(0).unwrap().frames, 1);
    assert_eq!((card.owned(0), card.bench.sent_frames()), (0, vec![vec![1; 20]]));
}

#[test]
fn what_makes_no_frame_is_given_back_and_said_so() {
    let bad: [&[(u32, usize)]; 5] = [
        &[(LAST, 10)],
        &[(FIRST | LAST, 0)],
        &[(FIRST, 900), (LAST, 101)],
        &[(FIRST | LAST, 1_001)],
        &[(FIRST, 1), (0, 1), (0, 1), (0, 1)],
    ];
    for pieces in bad {
        let mut card = Card::<true>::simple(None);
        for &(marks, bytes) in pieces {
            card.queue(0, marks, bytes, 1);
        }
        let run = card.doorbell(0).unwrap();
        assert_eq!((run.frames, run.ended, card.unusable), (0, Ok(true), 1), "{pieces:?}");
        assert_eq!(
            (card.owned(0), card.bench.lent.counters.tx_descriptors),
            (0, pieces.len() as u64)
        );
        card.queue_frame(0, 1_000, 7);
        assert_eq!(card.doorbell(0).unwrap().frames, 1, "{pieces:?}");
        assert_eq!(card.bench.sent_frames(), [vec![7; 1_000]]);
    }
}

#[test]
fn one_by_one_each_descriptor_goes_to_the_model() {
    let mut card = Card::<false>::simple(None);
    card.queue(0, FIRST, 10, 1);
    card.queue(0, LAST, 0, 0);
    assert_eq!(card.doorbell(0).unwrap().frames, 2);
    assert_eq!((card.unusable, card.bench.sent_frames()), (0, vec![vec![1; 10], vec![]]));
}

#[test]
fn every_limit_leaves_the_rest_to_the_timer() {
    for limits in [
        TxLimits { chains: 2, ..UNLIMITED },
        TxLimits { descriptors: 2, ..UNLIMITED },
        TxLimits { frames: 2, ..UNLIMITED },
    ] {
        let mut card = Card::<true>::open(None, limits, Arbitration::Strict);
        (0..4).for_each(|i| card.queue_frame(0, 10, i));
        let run = card.doorbell(0).unwrap();
        assert_eq!((run.frames, run.ended), (2, Ok(false)));
        assert_eq!(card.bench.next_due(), card.bench.now + PAUSE);
        let run = card.timer().unwrap();
        assert_eq!(run.frames, 2);
        card.run_all();
        assert_eq!(card.bench.sent_frames().len(), 4, "in order, each once");
        assert_eq!(card.owned(0), 0);
    }
}

#[test]
fn with_an_engine_nothing_happens_within_the_doorbell() {
    let mut card = Card::<true>::simple(slow());
    card.queue(0, FIRST, 100, 1);
    card.queue(0, LAST, 50, 1);
    assert!(card.doorbell(0).is_none());
    assert_eq!((card.owned(0), card.bench.next_due()), (2, card.bench.now));
    let begun = card.bench.now;
    assert_eq!(card.timer().unwrap().ended, Ok(false));
    let takes = |bytes| bus().unwrap().transfer_time(bytes, true);
    let due = begun + takes(100) + takes(50);
    assert_eq!((card.owned(0), card.bench.next_due(), card.bench.sent().len()), (2, due, 0));
    let run = card.timer().unwrap();
    assert_eq!((run.frames, run.ended), (1, Ok(true)));
    assert_eq!((card.owned(0), card.bench.sent()), (0, vec![(due, vec![1; 150])]));
    assert_eq!(card.bench.next_due(), Time::NEVER);
}

#[test]
fn the_lowest_number_goes_first_or_they_take_turns() {
    for (arbitration, order) in
        [(Arbitration::Strict, [1, 2, 11, 12]), (Arbitration::RoundRobin, [11, 1, 12, 2])]
    {
        let mut card = Card::<true>::open(slow(), UNLIMITED, arbitration);
        for ring in [1, 0] {
            (1..3).for_each(|i| card.queue_frame(ring, 60, 10 * ring as u8 + i));
            card.doorbell(ring as u16);
        }
        card.run_all();
        let sent: Vec<_> = card.bench.sent().iter().map(|(_, frame)| frame[0]).collect();
        assert_eq!(sent, order, "{arbitration:?}");
    }
}

#[test]
fn a_ring_without_a_doorbell_is_not_looked_at() {
    let mut card = Card::<true>::simple(None);
    card.queue_frame(1, 60, 1);
    assert_eq!(card.doorbell(0).unwrap().frames, 0);
    assert_eq!(card.doorbell(1).unwrap().frames, 1);
}

#[test]
fn a_ring_that_has_moved_forgets_what_was_under_way_and_the_other_does_not() {
    for (moved, sent) in [(0, vec![]), (1, vec![vec![1; 60]])] {
        let mut card = Card::<true>::simple(slow());
        card.queue_frame(0, 60, 1);
        card.doorbell(0);
        card.timer();
        card.engine.restart_queue(moved);
        card.run_all();
        assert_eq!(card.bench.sent_frames(), sent);
    }
}

#[test]
fn off_nothing_is_sent_and_on_again_what_waits_goes_out() {
    let mut card = Card::<true>::simple(slow());
    card.engine.enable(false);
    card.queue_frame(0, 60, 1);
    assert!(card.doorbell(0).is_none());
    assert_eq!(card.bench.next_due(), Time::NEVER);
    card.engine.enable(true);
    assert!(!card.bench.with(|cx| card.engine.start(cx)));
    card.timer();
    // Off in the midst of it: it begins anew.
    card.engine.enable(false);
    card.engine.stop();
    card.run_all();
    assert_eq!((card.owned(0), card.bench.sent().len()), (1, 0));
    card.engine.enable(true);
    card.bench.with(|cx| card.engine.start(cx));
    card.run_all();
    assert_eq!(card.bench.sent_frames(), [vec![1; 60]]);
    card.queue_frame(0, 60, 2);
    card.doorbell(0);
    card.engine.reset();
    card.run_all();
    assert_eq!((card.bench.sent().len(), card.engine.is_enabled()), (0, false));
}

#[test]
fn what_waits_for_a_link_goes_out_with_it_whatever_was_under_way() {
    for paced in [true, false] {
        let mut card = Card::<true>::simple(slow().filter(|_| paced));
        card.queue_frame(0, 60, 1);
        if paced {
            // Away in the midst of a transfer, which begins anew.
            card.doorbell(0);
            card.timer();
        }
        assert!(!card.bench.with(|cx| card.engine.set_link(cx, false)));
        assert!(card.doorbell(0).is_none());
        card.run_all();
        assert_eq!((card.owned(0), card.bench.sent().len()), (1, 0));
        if card.bench.with(|cx| card.engine.set_link(cx, true)) {
            card.run_engine();
        }
        card.run_all();
        assert_eq!((card.owned(0), card.bench.sent_frames()), (0, vec![vec![1; 60]]));
    }
}

#[test]
fn a_transfer_that_fails_is_told_and_stops_the_engine() {
    let mut card = Card::<true>::simple(None);
    card.queue_frame(0, 60, 1);
    card.bench.put(16, &[OWN | FIRST | LAST | 60, 0xffff_0000]);
    let run = card.doorbell(0).unwrap();
    assert!(matches!(run.ended, Err(DmaError::NotShared { .. })));
    assert_eq!((run.frames, card.owned(0), card.bench.next_due()), (1, 1, Time::NEVER));
    card.engine.halt();
    assert!(card.doorbell(0).is_none() && !card.engine.is_open());
}

/// What goes out, and when, for frames of these lengths, if the card is looked at whenever something is
/// due, or every so often.
fn history(lengths: &[usize], every: Option<Span>) -> Sent {
    let mut card = Card::<false>::simple(slow());
    for (index, &bytes) in lengths.iter().enumerate() {
        card.queue_frame(0, bytes, index as u8);
    }
    card.doorbell(0);
    card.timer();
    while card.bench.next_due() != Time::NEVER {
        card.bench.now += every.unwrap_or(Span::ZERO);
        if every.is_none() || card.bench.next_due() <= card.bench.now {
            card.timer();
        }
    }
    card.bench.sent()
}

proptest! {
    #[test]
    fn times_follow_from_bus_and_line_and_not_from_how_late_we_look(
        lengths in prop::collection::vec(60usize..1_000, 1..4), every_ns in 100u64..5_000,
    ) {
        let punctual = history(&lengths, None);
        prop_assert_eq!(punctual.len(), lengths.len());
        prop_assert_eq!(history(&lengths, Some(Span::from_ns(every_ns))), punctual);
    }
}
