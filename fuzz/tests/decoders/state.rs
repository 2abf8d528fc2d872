//! State areas, in which a driver finds what the one before it has left.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use arbitrary::{Result, Unstructured};
use warikomi_driver::state::{
    Baton, How, InUse, LocalWords, Predecessor, Progress, Record, SNAPSHOT_WORDS, Settings, Shown,
    Slot, StateArea, Turn,
};
use warikomi_pci::attach::area::{
    self, BATON, MOST_SLOTS, RX_SLOTS, TOKEN_MASK, TX_SLOTS, WORDS, header, record,
};
use warikomi_shared::Words;

use crate::harness::{bounded, number, once_in, steps};

/// Where a word that is changed matters.
fn place(from: &mut Unstructured<'_>) -> Result<usize> {
    Ok(match from.int_in_range(0..=4u8)? {
        0 => from.int_in_range(0..=header::CHECKSUM)?,
        1 => from.int_in_range(record::CHECKSUM..=record::END)?,
        2 => RX_SLOTS + from.int_in_range(0..=40)?,
        3 => TX_SLOTS + from.int_in_range(0..=40)?,
        _ => from.int_in_range(0..=WORDS - 1)?,
    })
}

/// What a driver has left that kept to the rules.
fn left(area: &StateArea, from: &mut Unstructured<'_>) -> Result<(Settings, Shown)> {
    let settings = Settings {
        device: (0x10ec, 0x8168),
        rings: from.arbitrary()?,
        rx_slots: from.int_in_range(1..=40)?,
        tx_slots: from.int_in_range(1..=40)?,
        mac_address: from.arbitrary()?,
    };
    let shown = Shown { given: number(from)?, sent: number(from)? };
    let (rx, tx) = (area.rx_slots(settings.rx_slots), area.tx_slots(settings.tx_slots));
    let mut record = Record { generation: from.arbitrary()?, ..Record::default() };
    for (slots, given, token, progress) in
        [(&rx, shown.given, 0, &mut record.rx), (&tx, shown.sent, 5_000, &mut record.tx)]
    {
        let index = from.int_in_range(0..=slots.len() - 1)?;
        let count = from.int_in_range(0..=slots.len())?;
        for more in 0..count {
            let at = (index + more) % slots.len();
            slots.set(at, given.wrapping_add(more as u64), token + more as u32).expect("24 bits");
        }
        *progress = Progress { given, taken: given.wrapping_add(count as u64), index };
    }
    area.write_settings(&settings, "fuzz");
    area.write_record(&record, &rx, &tx);
    let read =
        area.in_use(Predecessor::HandedOver, &settings, shown).expect("it keeps to the rules");
    let counts = [record.rx, record.tx].map(|progress| progress.taken.wrapping_sub(progress.given));
    assert_eq!(read.map(|one| one.tokens.len() as u64), counts);
    assert_eq!(area.settings(), Ok(settings));
    Ok((settings, shown))
}

/// What is in use is on the rings, and nothing twice.
fn check(in_use: &[InUse; 2], settings: &Settings) {
    let mut tokens: Vec<u32> = Vec::new();
    for (one, slots) in in_use.iter().zip([settings.rx_slots, settings.tx_slots]) {
        assert!(one.index < slots && one.tokens.len() <= slots, "{one:?} of {slots}");
        tokens.extend(&one.tokens);
    }
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count, "a buffer is in one place only");
}

fn damaged(area: &StateArea, from: &mut Unstructured<'_>, shown: Shown) {
    let words = Rc::clone(area.words());
    steps(from, 20, |from| {
        let at = place(from)?;
        let present = words.load(at, Relaxed);
        let value = match from.int_in_range(0..=3u8)? {
            // A slot of the same count, with another's buffer.
            0 => present & !TOKEN_MASK | from.int_in_range(0..=8)?,
            1 => present.wrapping_add(from.int_in_range(0..=2)?),
            _ => number(from)?,
        };
        words.store(at, value, Relaxed);
        if !once_in(from, 3)? {
            let sum = area::checksum((0..header::CHECKSUM).map(|at| words.load(at, Relaxed)));
            words.store(header::CHECKSUM, sum, Relaxed);
        }
        if let Ok(settings) = area.settings() {
            assert!((1..=MOST_SLOTS).contains(&settings.rx_slots));
            assert!((1..=MOST_SLOTS).contains(&settings.tx_slots));
            for predecessor in [Predecessor::Died, Predecessor::HandedOver] {
                if let Ok(in_use) = area.in_use(predecessor, &settings, shown) {
                    check(&in_use, &settings);
                }
            }
        }
        let _ = area.counters();
        Ok(())
    });
    let copy = area.snapshot();
    let other = StateArea::new(Rc::new(LocalWords::new()));
    other.restore(&copy).expect("a copy has as many words as a copy has");
    assert_eq!(other.snapshot(), copy);
    let most = from.int_in_range(0..=SNAPSHOT_WORDS).unwrap_or_default();
    assert_eq!(other.restore(&copy[..most]).is_ok(), most == SNAPSHOT_WORDS);
}

#[test]
fn state() {
    bolero::check!().with_max_len(512).for_each(|input: &[u8]| {
        let mut from = Unstructured::new(input);
        let from = &mut from;
        bounded(|| {
            let words = LocalWords::new();
            let baton = Baton::new(words.clone());
            let word = number(from).unwrap_or_default();
            words.store(BATON, word, Relaxed);
            if let Ok(turn) = baton.turn() {
                baton.give(turn);
                assert_eq!(words.load(BATON, Relaxed), word);
            }
            baton.give(Turn { generation: 7, how: How::Died });
            if let Ok(Some(slot)) = Slot::from_word(word) {
                assert_eq!(slot.to_word(), Some(word));
            }
            let area = StateArea::new(Rc::new(words));
            if let Ok((_, shown)) = left(&area, from) {
                damaged(&area, from, shown);
            }
        });
    });
}
