//! What every strict card must find, whatever it models.

// The name of each says what it tests.
#![allow(missing_docs)]

use warikomi_nic::register::{Access, Register};
use warikomi_nic::strict::{Finding, FindingKind, Findings, Place};
use warikomi_pci::Width;

use crate::bench::{Bench, MEMORY_AND_MASTER};
use crate::cards::Subject;
use crate::cards::step::Step;
use crate::history::found_in;

fn bench(subject: &Subject) -> Bench {
    subject.clone().strict().bench().commanded(MEMORY_AND_MASTER)
}

fn findings(bench: &mut Bench) -> Findings {
    bench.nic.strict().expect("a strict card").findings()
}

/// Whether something of this kind was found at this register.
fn has(bench: &mut Bench, kind: FindingKind, row: &Register) -> bool {
    let at = |finding: &Finding| finding.kind == kind && finding.place == Place::from(row);
    findings(bench).list().iter().any(at)
}

/// Every register of a card.
fn registers(subject: &Subject) -> impl Iterator<Item = &'static Register> {
    subject.bench().nic.info().registers.iter().filter(|row| !row.is_empty())
}

/// The width in which a register can be accessed; none of one that has no such place or width.
fn width_of(row: &Register) -> Option<Width> {
    Width::from_bytes(row.width.into()).filter(|_| row.offset.is_multiple_of(row.width))
}

pub fn a_card_that_is_not_strict_finds_nothing(subject: &Subject) {
    let mut bench = subject.bench().commanded(MEMORY_AND_MASTER);
    bench.read(1, Width::B8);
    assert!(bench.nic.strict().is_none());
}

pub fn a_register_may_be_accessed_in_its_own_width(subject: &Subject) {
    let mut bench = bench(subject);
    for row in bench.nic.info().registers {
        let Some(width) = width_of(row) else { continue };
        if row.access != Access::WriteOnly {
            bench.bar_read(row.bar, row.offset.into(), width);
        }
        if row.access != Access::ReadOnly {
            bench.bar_write(row.bar, row.offset.into(), width, row.reset);
        }
    }
    // What such writes do to rings is another matter.
    let at_registers = |one: &&Finding| matches!(one.place, Place::Register { .. } | Place::Bar(_));
    let findings = findings(&mut bench);
    let found: Vec<_> = findings.list().iter().filter(at_registers).collect();
    assert!(found.is_empty(), "{found:?}");
}

pub fn an_access_of_a_part_of_a_register_is_found(subject: &Subject) {
    for row in registers(subject).filter(|row| row.width > 1) {
        let mut bench = bench(subject);
        bench.bar_read(row.bar, row.offset.into(), Width::B1);
        assert_eq!(has(&mut bench, FindingKind::Width, row), !row.bytes, "{}", row.name);
        bench.bar_write(row.bar, row.offset.into(), Width::B1, 0);
        assert!(has(&mut bench, FindingKind::Width, row), "{}: writes", row.name);
    }
}

pub fn an_access_across_registers_is_found_unless_it_takes_in_all_of_each(subject: &Subject) {
    // There is an end to the findings of one card.
    const MOST: usize = 100;
    let (mut bench, registers) = (bench(subject), subject.bench().nic.info().registers);
    for (count, two) in registers.windows(2).enumerate() {
        let [first, second] = two else { continue };
        if first.bar != second.bar {
            continue;
        }
        if count.is_multiple_of(MOST) {
            bench = self::bench(subject);
        }
        let bytes = usize::from(first.width + second.width);
        let aligned = usize::from(first.offset).is_multiple_of(bytes);
        let Some(width) = Width::from_bytes(bytes).filter(|_| aligned) else { continue };
        bench.bar_read(first.bar, first.offset.into(), width);
        let joined = first.joined && second.joined;
        assert_eq!(has(&mut bench, FindingKind::Width, first), !joined, "{}", first.name);
    }
}

pub fn an_access_that_is_not_aligned_is_found(subject: &Subject) {
    let mut bench = bench(subject);
    let bar = bench.register_bar();
    bench.bar_read(bar, 2, Width::B4);
    let findings = findings(&mut bench);
    let first = &findings.list()[0];
    assert_eq!(first.kind, FindingKind::Width);
    assert!(first.what.contains("at 0x2"), "{first:?}");
}

pub fn an_access_of_no_register_is_found(subject: &Subject) {
    let mut bench = bench(subject);
    let bar = bench.register_bar();
    let end = bench.nic.bars().iter().find(|one| one.index == bar).expect("a BAR").bytes;
    for (count, offset) in [(1, end - 8), (2, end), (3, u64::MAX - 7)] {
        bench.bar_read(bar, offset, Width::B4);
        let findings = findings(&mut bench);
        let [found] = findings.list() else { panic!("one place") };
        assert_eq!((found.kind, found.place), (FindingKind::NoRegister, Place::Bar(bar)));
        assert_eq!(found.count, count);
    }
    bench.config(4, Width::B2, 0);
    bench.bar_write(bar, 0, Width::B4, 0);
    assert_eq!(findings(&mut bench).list()[0].count, 4, "while decoding is off");
}

pub fn a_write_of_what_can_only_be_read_is_found_and_the_other_way_round(subject: &Subject) {
    for row in subject.bench().nic.info().registers {
        let mut bench = bench(subject);
        let Some(width) = width_of(row) else { continue };
        match row.access {
            Access::ReadOnly => bench.bar_write(row.bar, row.offset.into(), width, 0),
            Access::WriteOnly => drop(bench.bar_read(row.bar, row.offset.into(), width)),
            _ => continue,
        }
        assert!(has(&mut bench, FindingKind::Direction, row), "{}", row.name);
    }
}

pub fn a_reserved_bit_is_found_unless_it_stands_already(subject: &Subject) {
    for row in subject.bench().nic.info().registers {
        let (Some(width), true) = (width_of(row), row.access != Access::ReadOnly) else { continue };
        let reserved = row.reserved & width.mask();
        for bit in (0..64).map(|bit| 1 << bit).filter(|bit| reserved & bit != 0) {
            let mut bench = bench(subject);
            bench.bar_write(row.bar, row.offset.into(), width, row.reset);
            assert_eq!(findings(&mut bench).list(), [], "{}", row.name);
            let stands = row.access != Access::WriteOnly && row.reset & bit != 0;
            bench.bar_write(row.bar, row.offset.into(), width, row.reset | bit);
            let found = has(&mut bench, FindingKind::ReservedBits, row);
            assert_eq!(found, !stands, "{} {bit:#x}", row.name);
        }
    }
}

pub fn an_orderly_opening_has_no_finding(subject: &Subject) {
    let steps = [Step::Open { length: 1, size: 2_000 }, Step::GiveBack, Step::Wait { us: 10 }];
    assert_eq!(found_in(subject, &steps).list(), []);
}

/// Each is found, with what says so, and nothing else is.
pub fn each_misstep_is_found(subject: &Subject) {
    for (kind, mut steps) in subject.card.missteps() {
        steps.extend([Step::Next, Step::Next]);
        let found = found_in(subject, &steps);
        assert!(!found.is_empty(), "{kind}: nothing was found");
        for finding in found.list() {
            assert_eq!(finding.kind, kind, "{finding:?}");
            assert!(finding.source.len() > 10 && !finding.what.is_empty(), "{finding:?}");
        }
    }
}
