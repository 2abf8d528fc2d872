use super::*;
use proptest::prelude::*;

const OUTCOMES: [Outcome; 7] = [
    Outcome::NoDescriptor,
    Outcome::Filtered,
    Outcome::NotReceiving,
    Outcome::DmaError,
    Outcome::OnRing,
    Outcome::OnRingDamaged,
    Outcome::NotCompleted,
];

fn at(ns: u64) -> Time {
    Time::from_ps(ns * 1_000)
}

fn packet(sequence: u64, outcome: Outcome) -> Packet {
    let planned = at(sequence * 100);
    Packet {
        sequence,
        planned,
        injected: planned + Span::from_ns(7),
        took: Span::from_ns(3),
        queue: 0,
        outcome,
    }
}

fn ledger(outcomes: &[Outcome]) -> Ledger {
    let mut ledger = Ledger::new(outcomes.len() as u64);
    for (sequence, &outcome) in outcomes.iter().enumerate() {
        ledger.injected(&packet(sequence as u64, outcome));
    }
    ledger
}

fn fates(ledger: &Ledger) -> Vec<Fate> {
    ledger.rows().map(|row| row.fate).collect()
}

#[test]
fn a_count_of_accepted_frames_belongs_to_the_first_on_the_ring() {
    use Outcome::{NoDescriptor, OnRing};
    let mut ledger = ledger(&[OnRing, NoDescriptor, OnRing, OnRing]);
    ledger.progress(0, 2, 0, at(1_000));
    ledger.delivered(Delivery { first: 2, count: 1, at: at(1_500) });
    let expected = [Fate::LostInStack, Fate::NoDescriptor, Fate::Delivered, Fate::LostOnRing];
    assert_eq!(fates(&ledger), expected);
    let row = ledger.rows().nth(2).unwrap();
    assert_eq!(
        (row.planned, row.injected, row.took),
        (Some(at(200)), Some(at(207)), Some(Span::from_ns(3)))
    );
    assert_eq!((row.accepted, row.delivered), (Some(at(1_000)), Some(at(1_500))));
    assert_eq!(ledger.check(), Ok(()));
}

#[test]
fn frames_of_others_take_their_turn() {
    let mut ledger = Ledger::new(3);
    ledger.foreign_on_ring(0, 2);
    ledger.injected(&packet(0, Outcome::OnRing));
    ledger.foreign_on_ring(0, 1);
    ledger.injected(&packet(1, Outcome::OnRing));
    ledger.progress(0, 3, 0, at(900));
    assert_eq!(fates(&ledger), [Fate::LostInStack, Fate::LostOnRing, Fate::NotInjected]);
    ledger.progress(0, 5, 0, at(901));
    assert_eq!((ledger.foreign_accepted(), ledger.totals().accepted), (3, 2));
    ledger.driver_counter(5);
    assert_eq!(ledger.check(), Ok(()));
    ledger.driver_counter(4);
    assert!(ledger.check().unwrap_err().to_string().contains("driver's own counter: 1"));
}

#[test]
fn what_went_with_the_ring_is_lost_there() {
    let mut ledger = ledger(&[Outcome::OnRing; 4]);
    ledger.progress(0, 1, 2, at(5_000));
    ledger.progress(0, 2, 2, at(6_000));
    let totals = ledger.totals();
    assert_eq!((totals.accepted, totals.lost_on_ring, totals.lost_in_stack), (2, 2, 2));
    assert_eq!(ledger.rows().nth(1).unwrap().accepted, None);
    assert_eq!(ledger.rows().nth(3).unwrap().accepted, Some(at(6_000)));
}

#[test]
fn a_packet_that_arrived_was_accepted_whatever_the_count_says() {
    let mut ledger = ledger(&[Outcome::OnRing; 2]);
    ledger.delivered(Delivery { first: 0, count: 2, at: at(1_000) });
    let totals = ledger.totals();
    assert_eq!((totals.accepted, totals.delivered, totals.unaccounted), (2, 2, 0));
    ledger.progress(0, 2, 0, at(2_000));
    assert_eq!(ledger.totals(), totals, "the count may come later");
}

#[test]
fn what_faults_did_has_columns_of_its_own() {
    use Outcome::{NotCompleted, OnRing, OnRingDamaged};
    let mut ledger =
        ledger(&[OnRing, NotCompleted, OnRingDamaged, OnRing, OnRingDamaged, OnRingDamaged]);
    ledger.progress(0, 3, 1, at(9));
    let expected = [
        Fate::LostInStack,
        Fate::NotCompleted,
        Fate::Refused,
        Fate::LostInStack,
        Fate::LostOnRing,
        Fate::LostOnRing,
    ];
    assert_eq!(fates(&ledger), expected);
    let totals = ledger.totals();
    assert_eq!((totals.not_completed, totals.refused, totals.accepted), (1, 1, 2));
    ledger.driver_counter(2);
    ledger.driver_errors(1);
    assert_eq!(ledger.check(), Ok(()));
    ledger.driver_errors(2);
    assert!(ledger.check().unwrap_err().to_string().contains("counter of errors: 1"));
    ledger.delivered(Delivery { first: 2, count: 1, at: at(10) });
    assert_eq!(ledger.totals().contradictions.delivered_never_on_ring, 1);
}

#[test]
fn every_contradiction_is_named() {
    let mut ledger = ledger(&[Outcome::OnRing, Outcome::Filtered]);
    ledger.injected(&packet(0, Outcome::OnRing));
    ledger.injected(&packet(9, Outcome::OnRing));
    ledger.progress(0, 3, 0, at(1));
    ledger.progress(0, 2, 0, at(1));
    ledger.delivered(Delivery { first: 0, count: 1, at: at(1) });
    ledger.delivered(Delivery { first: 0, count: u64::MAX, at: at(1) });
    let totals = ledger.totals();
    let expected = Contradictions {
        injected_out_of_order: 2,
        counter_went_back: 1,
        accepted_never_on_ring: 2,
        delivered_out_of_range: u64::MAX - 2,
        delivered_never_on_ring: 1,
        delivered_twice: 1,
        ..Contradictions::default()
    };
    assert_eq!(totals.contradictions, expected);
    assert_eq!(totals.unaccounted, u64::MAX, "stops at the top");
    assert!(totals.adds_up() && totals.check().is_err());
}

#[test]
fn a_packet_that_comes_again_stays_delivered() {
    let mut ledger = ledger(&[Outcome::OnRing, Outcome::Filtered]);
    for again in 0..3 {
        ledger.delivered(Delivery { first: 0, count: 1, at: at(1) });
        assert_eq!(fates(&ledger), [Fate::Delivered, Fate::Filtered]);
        assert_eq!(ledger.totals().contradictions.delivered_twice, again);
    }
    ledger.delivered_again(7);
    assert_eq!(ledger.totals().contradictions.delivered_twice, 9);
}

#[test]
fn which_nonsense_it_is_matters_up_to_one_more_than_there_are_packets() {
    let mut ledger = ledger(&[Outcome::OnRing, Outcome::Filtered]);
    let mut found = |first| {
        ledger.delivered(Delivery { first, count: 1, at: at(1) });
        let found = ledger.totals().contradictions;
        (found.delivered_twice, found.delivered_never_on_ring)
    };
    assert_eq!([0, 0, 0, 1, 1].map(&mut found), [(0, 0), (1, 0), (2, 0), (2, 1), (3, 1)]);
}

#[test]
fn frames_of_others_are_remembered_at_65536_places() {
    let places = 65_536;
    let mut ledger = Ledger::new(places + 2);
    ledger.injected(&packet(0, Outcome::OnRing));
    // None takes no place.
    ledger.foreign_on_ring(0, 0);
    for sequence in 1..=places {
        ledger.injected(&packet(sequence, Outcome::OnRing));
        ledger.foreign_on_ring(0, 1);
        ledger.foreign_on_ring(0, 1);
    }
    assert_eq!(ledger.totals().contradictions, Contradictions::default());
    ledger.injected(&packet(places + 1, Outcome::OnRing));
    ledger.foreign_on_ring(0, 3);
    let unaccounted = ledger.check().unwrap_err();
    assert_eq!(unaccounted.kinds, "frames of others at too many places: 3");
    assert_eq!(unaccounted.count, 3);
    ledger.progress(0, 4, 0, at(1));
    assert_eq!(ledger.foreign_accepted(), 2, "behind two packets");
}

#[test]
fn a_target_that_claims_everything_for_ever_costs_little() {
    let mut ledger = Ledger::new(2_000_000);
    for sequence in 0..1_000 {
        ledger.injected(&packet(sequence, Outcome::OnRing));
    }
    for _ in 0..100_000 {
        ledger.delivered(Delivery { first: 0, count: 1_000, at: at(1) });
        ledger.delivered(Delivery { first: 1_000, count: u64::MAX, at: at(1) });
    }
    assert!(ledger.check().is_err());
}

#[test]
fn a_long_run_keeps_no_times_and_says_so() {
    assert!(Ledger::new(Ledger::DETAILED_ROWS).is_detailed());
    let mut ledger = Ledger::new(Ledger::DETAILED_ROWS + 1);
    ledger.injected(&packet(0, Outcome::OnRing));
    ledger.progress(0, 1, 0, at(1));
    assert!(!ledger.is_detailed());
    let row = ledger.rows().next().unwrap();
    assert_eq!((row.fate, row.planned, row.accepted), (Fate::LostInStack, None, None));
}

/// What takes longest is what its reader wants to see: neither the greatest of the times nor the packet may be missing.
#[test]
fn a_long_time_is_known_to_half_a_thousandth() {
    let mut ledger = Ledger::new(1);
    ledger.injected(&Packet { took: Span::from_ms(5), ..packet(0, Outcome::OnRing) });
    ledger.progress(0, 1, 0, at(10_000_000_000));
    let row = ledger.rows().next().unwrap();
    assert_eq!(row.fate, Fate::LostInStack);
    let near = |known: Span, exactly: Span| {
        known <= exactly && exactly.as_ns() - known.as_ns() <= exactly.as_ns() / 2_000.0
    };
    assert!(near(row.took.unwrap(), Span::from_ms(5)), "{row:?}");
    let waited = row.accepted.unwrap().since(row.injected.unwrap());
    assert!(near(waited, at(10_000_000_000).since(row.injected.unwrap())), "{row:?}");
    assert!(ledger.inject_times().unwrap().max > 4_995_000.0);
}

#[test]
fn figures_can_be_worked_out_afterwards() {
    let mut ledger = ledger(&[Outcome::OnRing; 10]);
    let mut hiccups = Hiccups::default();
    hiccups.pass(at(0));
    hiccups.pass(at(5_000));
    let stats = ledger.injected_intervals(Some(Span::from_ns(200)), 2, &hiccups).unwrap();
    assert_eq!((stats.all.count, stats.all.max, stats.in_hiccups), (4, 200.0, 4));
    assert_eq!(stats.within_1_percent, Some(1.0));
    assert_eq!(ledger.inject_times().unwrap().p50, 3.0);
    assert_eq!(ledger.delivery_times(), None, "none was delivered");
    ledger.progress(0, 2, 0, at(1_000));
    ledger.delivered(Delivery { first: 0, count: 2, at: at(1_107) });
    let took = ledger.delivery_times().unwrap();
    assert_eq!((took.count, took.min, took.max), (2, 1_000.0, 1_100.0));
    ledger = Ledger::new(3);
    assert_eq!((ledger.injected_intervals(None, 1, &hiccups), ledger.inject_times()), (None, None));
}

#[test]
fn a_count_belongs_to_the_first_on_the_ring_of_its_queue() {
    let mut ledger = Ledger::new(6).with_queues(2);
    for (sequence, queue) in [(0, 0), (1, 1), (2, 1), (3, 0), (4, 1)] {
        ledger.injected(&Packet { queue, ..packet(sequence, Outcome::OnRing) });
    }
    ledger.progress(1, 2, 0, at(900));
    let on_ring = Fate::LostOnRing;
    let taken = Fate::LostInStack;
    assert_eq!(fates(&ledger), [on_ring, taken, taken, on_ring, on_ring, Fate::NotInjected]);
    let queues: Vec<_> = ledger.rows().map(|row| row.queue).collect();
    assert_eq!(queues, [Some(0), Some(1), Some(1), Some(0), Some(1), None]);
    let [first, second] = ledger.queue_totals()[..] else { panic!("two queues") };
    assert_eq!((first.injected, first.accepted, first.lost_on_ring), (2, 0, 2));
    assert_eq!((second.injected, second.accepted, second.lost_on_ring), (3, 2, 1));
    assert!(first.adds_up() && second.adds_up() && ledger.check().is_ok());
}

#[test]
fn a_queue_that_is_not_there_is_a_contradiction() {
    for queues in [1, 2, 3] {
        let mut ledger = Ledger::new(2).with_queues(queues);
        ledger.injected(&Packet { queue: queues, ..packet(0, Outcome::OnRing) });
        ledger.progress(queues, 1, 0, at(1));
        ledger.foreign_on_ring(queues, 4);
        let found = ledger.totals().contradictions;
        assert_eq!((found.queue_that_is_not_there, found.foreign_not_placed), (2, 4));
        assert!(ledger.totals().adds_up() && ledger.queue_totals().len() == usize::from(queues));
    }
}

#[test]
fn the_number_of_a_queue_takes_as_few_bits_as_it_can() {
    for (queues, packets_a_word) in
        [(0, None), (1, None), (2, Some(64)), (3, Some(32)), (16, Some(16)), (257, Some(4))]
    {
        let words = packets_a_word.map_or(0, |packets: usize| 1_000_usize.div_ceil(packets));
        assert_eq!(QueueNumbers::new(1_000, queues).words(), words, "{queues} queues");
    }
}

/// Anything that can happen to a ledger, sensible or not.
#[derive(Clone, Debug)]
enum Event {
    Injected(u64, Outcome),
    Next(Outcome),
    Foreign(u64),
    Progress(u64, u64),
    Delivered(u64, u64),
    DriverCounter(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let outcome = || prop::sample::select(OUTCOMES.to_vec());
    let number = || prop_oneof![8 => 0u64..60, 1 => any::<u64>()];
    let event = prop_oneof![
        8 => outcome().prop_map(Event::Next),
        1 => (number(), outcome()).prop_map(|(sequence, outcome)| Event::Injected(sequence, outcome)),
        1 => (0u64..3).prop_map(Event::Foreign),
        3 => (number(), number()).prop_map(|(a, b)| Event::Progress(a, b)),
        3 => (number(), number()).prop_map(|(first, count)| Event::Delivered(first, count)),
        1 => number().prop_map(Event::DriverCounter),
    ];
    prop::collection::vec(event, 0..120)
}

fn apply(ledger: &mut Ledger, event: &Event) {
    match *event {
        Event::Injected(sequence, outcome) => ledger.injected(&packet(sequence % 1_000, outcome)),
        Event::Next(outcome) => ledger.injected(&packet(ledger.injected_count(), outcome)),
        Event::Foreign(count) => ledger.foreign_on_ring(0, count),
        Event::Progress(accepted, abandoned) => ledger.progress(0, accepted, abandoned, at(9_999)),
        Event::Delivered(first, count) => {
            ledger.delivered(Delivery { first, count, at: at(9_999) });
        }
        Event::DriverCounter(packets) => ledger.driver_counter(packets),
    }
}

#[test]
fn without_an_application_the_driver_is_the_end() {
    let mut ledger = Ledger::new(2).without_application();
    for sequence in 0..2 {
        let at = Time::from_ps(sequence);
        let took = Span::ZERO;
        let outcome = Outcome::OnRing;
        ledger.injected(&Packet { sequence, planned: at, injected: at, took, queue: 0, outcome });
    }
    ledger.progress(0, 1, 0, Time::from_ps(5));
    let totals = ledger.totals();
    assert_eq!((totals.accepted, totals.unclaimed, totals.lost_on_ring), (1, 1, 1));
    assert!(totals.adds_up() && ledger.check().is_ok());
}

proptest! {
    #[test]
    fn the_columns_always_add_up(planned in 0u64..50, events in events()) {
        let mut ledger = Ledger::new(planned);
        for event in &events {
            apply(&mut ledger, event);
            prop_assert!(ledger.totals().adds_up(), "after {event:?}: {:?}", ledger.totals());
        }
        let totals = ledger.totals();
        prop_assert_eq!(totals.planned, planned);
        prop_assert_eq!(totals.unaccounted, totals.contradictions.sum());
        prop_assert_eq!(ledger.rows().count() as u64, planned);
        let delivered = ledger.rows().filter(|row| row.fate == Fate::Delivered).count();
        prop_assert_eq!(delivered as u64, totals.delivered);
    }

    #[test]
    fn a_truthful_history_leaves_nothing_unaccounted(
        outcomes in prop::collection::vec(prop::sample::select(OUTCOMES.to_vec()), 1..200),
        taken in 0.0f64..=1.0,
        arrived in prop::collection::vec(any::<bool>(), 200),
    ) {
        let mut ledger = ledger(&outcomes);
        let ring: Vec<u64> = (0..outcomes.len() as u64)
            .filter(|&sequence| {
                matches!(outcomes[sequence as usize], Outcome::OnRing | Outcome::OnRingDamaged)
            })
            .collect();
        let given_back = (ring.len() as f64 * taken) as u64;
        // Counts come little by little, and may be older than the deliveries.
        for count in 0..=given_back / 2 {
            ledger.progress(0, count, 0, at(50_000));
        }
        let (mut delivered, mut refused) = (0, 0);
        for &sequence in &ring[..given_back as usize] {
            if outcomes[sequence as usize] == Outcome::OnRingDamaged {
                refused += 1;
            } else if arrived[sequence as usize] {
                ledger.delivered(Delivery { first: sequence, count: 1, at: at(60_000) });
                delivered += 1;
            }
        }
        ledger.progress(0, given_back, 0, at(70_000));
        ledger.driver_counter(given_back - refused);
        ledger.driver_errors(refused);
        prop_assert_eq!(ledger.check(), Ok(()));
        let totals = ledger.totals();
        prop_assert_eq!((totals.accepted, totals.delivered), (given_back - refused, delivered));
        prop_assert_eq!(totals.refused, refused);
        prop_assert_eq!(totals.on_ring() + refused, ring.len() as u64);
    }
}

/// What happens on the rings of a NIC with several queues.
#[derive(Clone, Debug)]
enum Step {
    Packet(u16, Outcome),
    Foreign(u16, u64),
    /// The driver takes so many frames of a queue, and throws so many away with the ring.
    Progress(u16, usize, usize),
    Deliver(u16),
}

fn steps() -> impl Strategy<Value = (u16, Vec<Step>)> {
    (1u16..=4).prop_flat_map(|queues| {
        let outcome = prop::sample::select(OUTCOMES.to_vec());
        let step = prop_oneof![
            8 => (0..queues, outcome).prop_map(|(queue, outcome)| Step::Packet(queue, outcome)),
            1 => (0..queues, 0u64..3).prop_map(|(queue, frames)| Step::Foreign(queue, frames)),
            3 => (0..queues, 0usize..9, 0usize..3)
                .prop_map(|(queue, taken, thrown)| Step::Progress(queue, taken, thrown)),
            1 => (0..queues).prop_map(Step::Deliver),
        ];
        (Just(queues), prop::collection::vec(step, 0..300))
    })
}

/// One ring as a list of what is on it: packets by number, and frames of others.
#[derive(Clone, Debug, Default)]
struct NaiveRing {
    frames: std::collections::VecDeque<Option<u64>>,
    accepted: u64,
    abandoned: u64,
}

/// A ledger that keeps everything in lists.
struct Naive {
    packets: Vec<(u16, Outcome, Fate)>,
    rings: Vec<NaiveRing>,
    foreign_accepted: u64,
}

impl Naive {
    fn join(&mut self, queue: u16, outcome: Outcome) {
        let fate = match outcome {
            Outcome::NoDescriptor => Fate::NoDescriptor,
            Outcome::Filtered => Fate::Filtered,
            Outcome::NotReceiving => Fate::NotReceiving,
            Outcome::DmaError => Fate::DmaError,
            Outcome::NotCompleted => Fate::NotCompleted,
            Outcome::OnRing | Outcome::OnRingDamaged => {
                let number = self.packets.len() as u64;
                self.rings[usize::from(queue)].frames.push_back(Some(number));
                Fate::LostOnRing
            }
        };
        self.packets.push((queue, outcome, fate));
    }

    /// Takes frames from a ring, and throws others away; gives the ring's counts.
    fn progress(&mut self, queue: u16, taken: usize, thrown: usize) -> (u64, u64) {
        let ring = &mut self.rings[usize::from(queue)];
        for at in 0..taken + thrown {
            let Some(frame) = ring.frames.pop_front() else { break };
            *(if at < taken { &mut ring.accepted } else { &mut ring.abandoned }) += 1;
            if at >= taken {
                continue;
            }
            match frame {
                None => self.foreign_accepted += 1,
                Some(number) => {
                    let (_, outcome, fate) = &mut self.packets[number as usize];
                    *fate = match (*outcome, *fate) {
                        (Outcome::OnRingDamaged, _) => Fate::Refused,
                        (_, Fate::Delivered) => Fate::Delivered,
                        _ => Fate::LostInStack,
                    };
                }
            }
        }
        (ring.accepted, ring.abandoned)
    }

    /// Delivers the newest packet of a queue that is none of the damaged, and says which.
    fn deliver(&mut self, queue: u16) -> Option<u64> {
        let open = |(of, outcome, fate): &(u16, Outcome, Fate)| {
            *of == queue && *outcome == Outcome::OnRing && *fate != Fate::Delivered
        };
        let newest = self.packets.iter().rposition(open)?;
        self.packets[newest].2 = Fate::Delivered;
        Some(newest as u64)
    }
}

proptest! {
    #[test]
    fn several_queues_are_what_lists_make_of_them((queues, steps) in steps()) {
        let mut naive = Naive {
            packets: Vec::new(),
            rings: vec![NaiveRing::default(); queues.into()],
            foreign_accepted: 0,
        };
        let mut ledger = Ledger::new(steps.len() as u64).with_queues(queues);
        for step in &steps {
            match *step {
                Step::Packet(queue, outcome) => {
                    let sequence = ledger.injected_count();
                    ledger.injected(&Packet { queue, ..packet(sequence, outcome) });
                    naive.join(queue, outcome);
                }
                Step::Foreign(queue, frames) => {
                    ledger.foreign_on_ring(queue, frames);
                    let ring = &mut naive.rings[usize::from(queue)].frames;
                    (0..frames).for_each(|_| ring.push_back(None));
                }
                Step::Progress(queue, taken, thrown) => {
                    let (accepted, abandoned) = naive.progress(queue, taken, thrown);
                    ledger.progress(queue, accepted, abandoned, at(9_999));
                }
                Step::Deliver(queue) => {
                    if let Some(first) = naive.deliver(queue) {
                        ledger.delivered(Delivery { first, count: 1, at: at(9_999) });
                    }
                }
            }
            let seen: Vec<_> = ledger.rows().map(|row| (row.queue, row.fate)).collect();
            let wanted = naive.packets.iter().map(|(queue, _, fate)| (Some(*queue), *fate));
            prop_assert_eq!(&seen[..naive.packets.len()], &wanted.collect::<Vec<_>>()[..]);
        }
        prop_assert_eq!(ledger.check(), Ok(()));
        prop_assert_eq!(ledger.foreign_accepted(), naive.foreign_accepted);
        let totals = ledger.queue_totals();
        for (queue, totals) in (0u16..).zip(&totals) {
            let of_queue = |fate| {
                let same = |packet: &&(u16, Outcome, Fate)| packet.0 == queue && packet.2 == fate;
                naive.packets.iter().filter(same).count() as u64
            };
            prop_assert!(totals.adds_up());
            prop_assert_eq!(totals.no_descriptor, of_queue(Fate::NoDescriptor));
            prop_assert_eq!(totals.refused, of_queue(Fate::Refused));
            prop_assert_eq!(totals.lost_on_ring, of_queue(Fate::LostOnRing));
            let accepted = of_queue(Fate::LostInStack) + of_queue(Fate::Delivered);
            prop_assert_eq!(totals.accepted, accepted);
        }
        let injected: u64 = totals.iter().map(|totals| totals.injected).sum();
        prop_assert_eq!(injected, ledger.injected_count());
    }
}
