use warikomi_nic::{Frame, RxOutcome};
use warikomi_pci::Width;

use super::*;
use crate::testing::trace_of;

/// What a driver does in a run.
#[derive(Clone, Copy)]
enum Do {
    Packet(u8),
    Read(u64),
    Write(u64, u64),
}
use Do::{Packet, Read as Get, Write as Put};

/// Interrupt mask and status, and the chip command (Linux, r8169_main.c, enum rtl_registers).
const MASK: u64 = 0x3c;
const STATUS: u64 = 0x3e;
const COMMAND: u64 = 0x37;

fn trace(run: &[Do]) -> Vec<u8> {
    trace_of((0..).zip(run), |step, nic, host| match *step {
        Packet(fill) => {
            nic.receive(host, Frame::new(&[fill; 60]));
        }
        Get(offset) => {
            nic.bar_read(host, 2, offset, Width::B2);
        }
        Put(offset, value) => nic.bar_write(host, 2, offset, Width::B2, value),
    })
}

fn learned(run: &[Do]) -> Behaviour {
    let mut behaviour = Behaviour::new("rtl8168");
    for event in Reader::new(&trace(run)[..]).unwrap() {
        behaviour.record(event.unwrap());
    }
    behaviour
}

fn compared(recorded: &[Do], replayed: &[Do]) -> Comparison {
    learned(recorded).compare(Reader::new(&trace(replayed)[..]).unwrap()).unwrap()
}

const HANDLER: [Do; 4] = [Get(STATUS), Put(MASK, 0), Put(STATUS, 1), Put(MASK, 0x3f)];

fn run(parts: &[&[Do]]) -> Vec<Do> {
    parts.concat()
}

#[test]
fn how_many_packets_share_an_interrupt_is_no_difference() {
    let each = run(&[&[Packet(1)], &HANDLER, &[Packet(2)], &HANDLER, &[Packet(3)], &HANDLER]);
    let together = run(&[&[Packet(1), Packet(2)], &HANDLER, &[Packet(3)], &HANDLER]);
    let found = compared(&each, &together);
    assert_eq!(found, Comparison { arrivals: 3, ..Comparison::default() });
}

#[test]
fn a_step_that_was_never_taken_is_the_first_difference_and_is_named() {
    let recorded = run(&[&[Packet(1)], &HANDLER, &[Packet(2)], &HANDLER]);
    let odd = [Get(STATUS), Put(MASK, 0), Get(COMMAND), Put(MASK, 0x3f)];
    let replayed = run(&[&[Packet(1)], &HANDLER, &[Packet(2)], &odd]);
    let found = compared(&recorded, &replayed);
    let first = found.first.unwrap();
    assert_eq!((first.packet, found.new_steps, found.different_outcomes), (2, 2, 0));
    assert!(first.what.contains("IntrMask = 0x0 to read"), "{}", first.what);
    assert!(first.what.contains("write IntrStatus = 0x1 (2 times)"), "{}", first.what);
    assert_eq!(first.before.last().unwrap(), "write IntrMask = 0x0");
    assert_eq!(first.before.len(), SHOWN_BEFORE);
}

#[test]
fn other_packets_and_missing_ones_are_told() {
    let recorded = [Packet(1), Packet(2), Packet(3)];
    let found = compared(&recorded, &[Packet(1), Packet(9)]);
    assert_eq!((found.arrivals, found.different_arrivals), (2, 2));
    assert_eq!(found.first.unwrap().packet, 2);
}

#[test]
fn another_queue_is_a_difference() {
    let mut behaviour = learned(&[Packet(1), Packet(2)]);
    behaviour.outcomes[1].queue = 3;
    let found =
        behaviour.compare(Reader::new(&trace(&[Packet(1), Packet(2)])[..]).unwrap()).unwrap();
    assert_eq!((found.different_outcomes, found.different_arrivals), (1, 0));
    let what = found.first.unwrap().what;
    assert!(what.contains("queue 0 ") && what.contains("was of queue 3"), "{what}");
}

#[test]
fn another_outcome_is_a_difference() {
    let mut behaviour = learned(&[Packet(1), Packet(2)]);
    behaviour.outcomes[1].outcome = RxOutcome::OnRing;
    let found =
        behaviour.compare(Reader::new(&trace(&[Packet(1), Packet(2)])[..]).unwrap()).unwrap();
    assert_eq!((found.different_outcomes, found.different_arrivals), (1, 0));
    let what = found.first.unwrap().what;
    assert!(what.contains("\"not receiving\", and was \"on the ring\""), "{what}");
}

#[test]
fn a_register_has_its_name_and_a_place_without_one_its_offset() {
    let name = |bar, offset| register_name("rtl8168", Access { bar, offset, width_bytes: 1 });
    assert_eq!(name(None, 4), "configuration 0x4");
    assert_eq!(name(Some(2), 0x10_0000), "BAR 2 0x100000");
    assert!(name(Some(2), 0x3f).ends_with("+1"));
}
