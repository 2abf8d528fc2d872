use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use warikomi_pci::attach::area::{
    self, BATON, MOST_SLOTS, PRESENT, RX_SLOTS, TX_SLOTS, header, record,
};
use warikomi_shared::Words;

use super::*;

const SETTINGS: Settings = Settings {
    device: (0x10ec, 0x8168),
    rings: 0x3_0000_0000,
    rx_slots: 7,
    tx_slots: 5,
    mac_address: [2, 3, 4, 5, 6, 7],
};

fn area() -> StateArea {
    StateArea::new(Rc::new(LocalWords::new()))
}

/// Puts the buffers of these counts on a ring of which `at` is the index of the first ever; tokens are ten
/// times the count.
fn put(slots: &Slots, counts: Range<u64>, at: usize) {
    for (number, count) in counts.enumerate() {
        slots.set((at + number) % slots.len(), count, 10 * count as u32).unwrap();
    }
}

fn in_use(first: u64, index: usize, tokens: &[u32]) -> InUse {
    InUse { first, index, tokens: tokens.to_vec() }
}

#[test]
fn settings_are_read_as_they_were_written_by_every_version() {
    let area = area();
    assert!(matches!(area.settings(), Err(StateError::Unreadable(_))), "nobody has set it up");
    for (writer, reader) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let version = |version| area.clone().of_version(version).unwrap();
        version(writer).write_settings(&SETTINGS, "a driver of a long name");
        assert_eq!(version(reader).settings(), Ok(SETTINGS));
    }
    area.forget();
    assert!(matches!(area.settings(), Err(StateError::Unreadable(_))), "it is being set up");
    assert!(area.clone().of_version(0).is_err() && area.of_version(3).is_err());
}

/// Writes a word of the header, and the checksum that it then has.
fn forge(area: &StateArea, at: usize, value: u64) {
    area.words.store(at, value, Relaxed);
    let checksum = area::checksum((0..header::CHECKSUM).map(|at| area.word(at)));
    area.words.store(header::CHECKSUM, checksum, Relaxed);
}

#[test]
fn settings_that_cannot_be_are_refused_each_with_its_reason() {
    for (at, value, reason) in [
        (header::VERSION, 0, "version 0"),
        (header::READABLE_FROM, 3, "readable from version 3"),
        (header::BYTES, 4_096, "4096 bytes"),
        (header::RX_SLOTS, 0, "a ring of 0 slots"),
        (header::TX_SLOTS, 1_025, "a ring of 1025 slots"),
        (header::DEVICE, 1 << 32, "too long"),
        (header::MAC_ADDRESS, 1 << 48, "too long"),
    ] {
        let area = area();
        area.write_settings(&SETTINGS, "");
        forge(&area, at, value);
        let text = area.settings().unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_newer_area_is_refused_unless_it_says_that_it_can_be_read() {
    let area = area();
    area.write_settings(&SETTINGS, "");
    forge(&area, header::VERSION, 3);
    assert_eq!(area.settings(), Ok(SETTINGS), "newer parts are left aside");
    forge(&area, header::READABLE_FROM, 3);
    let text = area.settings().unwrap_err().to_string();
    assert!(text.contains("this one knows version 2"), "{text}");
}

#[test]
fn after_a_death_the_slots_tell_what_is_in_use() {
    let area = area();
    let slots = area.rx_slots(7);
    assert_eq!(slots.search(40), Ok(in_use(40, 0, &[])), "nothing was ever put there");
    put(&slots, 40..44, 0);
    assert_eq!(slots.search(40), Ok(in_use(40, 0, &[400, 410, 420, 430])));
    assert_eq!(slots.search(44), Ok(in_use(44, 4, &[])));
    put(&slots, 44..50, 4);
    assert_eq!(slots.search(48), Ok(in_use(48, 1, &[480, 490])));
    // One that could not be sent has no slot.
    assert_eq!(slots.search(51), Ok(in_use(51, 3, &[])));
    put(&slots, 51..52, 3);
    assert_eq!(slots.search(51), Ok(in_use(51, 3, &[510])));
    assert!(slots.search(49).is_err(), "51 does not follow 49");
    slots.clear();
    assert_eq!(slots.search(52), Ok(in_use(52, 0, &[])));
}

#[test]
fn counts_may_pass_the_end_of_their_32_bits() {
    let slots = area().rx_slots(7);
    let first = (1 << 32) - 3;
    for (number, count) in (first..first + 6).enumerate() {
        slots.set(number, count, number as u32).unwrap();
    }
    assert_eq!(slots.search(first + 2), Ok(in_use(first + 2, 2, &[2, 3, 4, 5])));
    assert_eq!(slots.search(first + 6), Ok(in_use(first + 6, 6, &[])));
}

#[test]
fn tokens_that_are_too_long_are_not_noted() {
    assert!(area().rx_slots(7).set(0, 0, 1 << 24).is_err());
}

fn handed_over(area: &StateArea) -> Result<[InUse; 2], StateError> {
    let shown = Shown { given: 100, sent: 200 };
    area.in_use(Predecessor::HandedOver, &SETTINGS, shown)
}

/// An area whose driver has handed over.
fn with_record() -> StateArea {
    let area = area();
    area.write_settings(&SETTINGS, "");
    put(&area.rx_slots(7), 100..105, 4);
    put(&area.tx_slots(5), 200..203, 4);
    write_record(&area);
    area
}

/// Writes the record of these buffers, whatever their slots say.
fn write_record(area: &StateArea) {
    let record = Record {
        generation: 3,
        rx: Progress { given: 100, taken: 105, index: 4 },
        tx: Progress { given: 200, taken: 203, index: 4 },
    };
    area.write_record(&record, &area.rx_slots(7), &area.tx_slots(5));
}

#[test]
fn a_record_tells_what_is_in_use() {
    let area = with_record();
    let rx = in_use(100, 4, &[1_000, 1_010, 1_020, 1_030, 1_040]);
    let tx = in_use(200, 4, &[2_000, 2_010, 2_020]);
    assert_eq!(handed_over(&area), Ok([rx.clone(), tx.clone()]));
    let shown = Shown { given: 100, sent: 200 };
    assert_eq!(area.in_use(Predecessor::Died, &SETTINGS, shown), Ok([rx, tx]), "as the slots do");
    for shown in [Shown { given: 101, sent: 200 }, Shown { given: 100, sent: 199 }] {
        let text = area.in_use(Predecessor::HandedOver, &SETTINGS, shown).unwrap_err().to_string();
        assert!(text.contains("of another time"), "{text}");
    }
}

#[test]
fn any_word_of_a_record_that_changes_is_noticed() {
    let slots = [RX_SLOTS + 4, RX_SLOTS, TX_SLOTS + 4, TX_SLOTS + 1];
    for at in (record::CHECKSUM..record::END).chain(slots) {
        let area = with_record();
        area.words.store(at, area.word(at) ^ 1, Relaxed);
        assert!(handed_over(&area).is_err(), "word {at}");
    }
}

#[test]
fn a_record_whose_slots_say_otherwise_is_refused_also_if_its_checksum_is_right() {
    for (at, value, reason) in [
        (RX_SLOTS + 5, 0, "descriptor 1 from 4 on in use, but its slot says None"),
        (RX_SLOTS, 99 << 32 | PRESENT, "descriptor 3 from 4 on in use"),
        (TX_SLOTS + 4, 200 << 32, "is no slot"),
    ] {
        let area = with_record();
        area.words.store(at, value, Relaxed);
        write_record(&area);
        let text = handed_over(&area).unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_buffer_that_is_on_the_rings_twice_is_refused() {
    let area = area();
    area.rx_slots(7).set(0, 100, 9).unwrap();
    area.tx_slots(5).set(0, 200, 9).unwrap();
    let shown = Shown { given: 100, sent: 200 };
    let refused = area.in_use(Predecessor::Died, &SETTINGS, shown).unwrap_err();
    assert!(refused.to_string().contains("the buffer 9 is on the rings twice"), "{refused}");
}

#[test]
fn counters_are_carried_over_by_drivers_that_know_of_them() {
    let counted = Counters {
        rx_packets: 1,
        rx_bytes: 2,
        rx_errors: 3,
        tx_packets: 4,
        tx_bytes: 5,
        tx_errors: 6,
    };
    let area = area();
    let older = area.clone().of_version(1).unwrap();
    assert_eq!(area.counters(), None);
    older.set_counters(&counted);
    assert_eq!(area.counters(), None);
    area.set_counters(&counted);
    assert_eq!((area.counters(), older.counters()), (Some(counted), None));
    older.write_record(&Record::default(), &older.rx_slots(7), &older.tx_slots(5));
    assert_eq!(area.counters(), None, "the last driver has not counted");
}

#[test]
fn a_copy_is_the_same_for_a_successor() {
    let (area, copy) = (with_record(), area());
    let words = area.snapshot();
    assert_eq!(words.len(), SNAPSHOT_WORDS);
    copy.restore(&words).unwrap();
    assert_eq!(copy.settings(), Ok(SETTINGS));
    assert_eq!(handed_over(&copy), handed_over(&area));
    assert!(copy.restore(&words[1..]).is_err());
}

#[test]
fn the_baton_is_read_as_it_was_given() {
    let words = LocalWords::new();
    words.store(BATON, 3 << 32 | 7, Relaxed);
    let baton = Baton::new(words);
    assert!(baton.turn().is_err(), "there is no such way");
    for how in [How::HandedOver, How::Died, How::Start] {
        let turn = Turn { generation: 7, how };
        baton.give(turn);
        assert_eq!(baton.turn(), Ok(turn));
    }
    assert_eq!(baton.owner(), 0);
    baton.accept(7);
    assert_eq!(baton.owner(), 7);
}

/// What is in use keeps to the bounds of the rings, whatever the words said.
fn makes_sense(found: &InUse, slots: usize) -> bool {
    found.index < slots
        && found.tokens.len() <= slots
        && found.tokens.iter().all(|it| *it < 1 << 24)
}

proptest! {
    /// Any words, also under a right checksum, are refused or make sense.
    #[test]
    fn whatever_is_written_there_is_refused_or_makes_sense(
        writes in prop::collection::vec((0usize..area::WORDS, any::<u64>()), 0..200),
        near in prop::collection::vec((0usize..24, 0u64..240, any::<bool>()), 0..40),
        shown: (u64, u64),
        sealed: bool,
    ) {
        let area = with_record();
        for (at, value) in writes {
            // Header and record, where it matters, as often as everything else.
            let at = if value % 3 == 0 { at % record::END } else { at };
            area.words.store(at, value, Relaxed);
        }
        for (index, count, tx) in near {
            let first = if tx { TX_SLOTS } else { RX_SLOTS };
            let word = Slot { count: count as u32, token: index as u32 }.to_word().unwrap();
            area.words.store(first + index, word, Relaxed);
        }
        if sealed {
            let rx = Progress { given: 100, taken: 100 + shown.0 % 9, index: shown.1 as usize % 9 };
            let record = Record { generation: 1, rx, tx: Progress::default() };
            area.write_record(&record, &area.rx_slots(7), &area.tx_slots(5));
        }
        if let Ok(settings) = area.settings() {
            prop_assert!((1..=MOST_SLOTS).contains(&settings.rx_slots));
            prop_assert!((1..=MOST_SLOTS).contains(&settings.tx_slots));
        }
        let moments = [shown, (100, 200), (100, 0), (shown.0 % 240, shown.1 % 240)];
        for (given, sent) in moments {
            for predecessor in [Predecessor::HandedOver, Predecessor::Died] {
                if let Ok([rx, tx]) = area.in_use(predecessor, &SETTINGS, Shown { given, sent }) {
                    prop_assert!(makes_sense(&rx, 7) && makes_sense(&tx, 5));
                    prop_assert_eq!((rx.first, tx.first), (given, sent));
                    let mut all = [rx.tokens, tx.tokens].concat();
                    let before = all.len();
                    all.sort_unstable();
                    all.dedup();
                    prop_assert_eq!(all.len(), before);
                }
            }
        }
    }

    /// However many buffers came and went, the slots tell which are there.
    #[test]
    fn the_slots_of_any_moment_are_found(
        len in 1usize..20,
        base: u64,
        steps in prop::collection::vec((0usize..20, 0usize..20), 0..30),
    ) {
        let base = base >> 1;
        let slots = area().rx_slots(len);
        let (mut given, mut taken) = (base, base);
        for (more, less) in steps {
            for _ in 0..more.min(len - (taken - given) as usize) {
                let index = (taken - base) as usize % len;
                slots.set(index, taken, (taken - base) as u32).unwrap();
                taken += 1;
            }
            given += (less as u64).min(taken - given);
            let tokens: Vec<u32> = (given..taken).map(|count| (count - base) as u32).collect();
            let index = (given - base) as usize % len;
            prop_assert_eq!(slots.search(given), Ok(InUse { first: given, index, tokens }));
        }
    }
}
