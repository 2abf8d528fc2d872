use warikomi_pci::Vector;

use super::super::{Causes, Moderation};
use super::*;

const US: Span = Span::from_us(1);

#[test]
fn what_is_off_holds_nothing_back() {
    let mut held = Moderation::off();
    assert!(held.hold(Time::ZERO, 1));
    assert_eq!((held.due(), held.release_due(Time::ZERO + US)), (Time::NEVER, false));
    assert!(!held.set(Span::ZERO, 5), "nothing was held");
    assert!(held.hold(Time::ZERO, 1), "without a time the number means nothing");
}

#[test]
fn a_wait_ends_by_time_counted_from_the_first_frame() {
    let mut held = Moderation::off();
    assert!(!held.set(US * 10, 0));
    let begun = Time::ZERO + US;
    for i in 0..10 {
        assert!(!held.hold(begun + US * i, 1_000), "{i}");
        assert_eq!(held.due(), begun + US * 10);
    }
    assert!(!held.release_due(begun + US * 9));
    assert!(held.release_due(begun + US * 10));
    assert!(!held.release_due(begun + US * 11), "once");
    assert_eq!(held.due(), Time::NEVER);
}

#[test]
fn a_wait_ends_by_number() {
    let mut held = Moderation::off();
    assert!(!held.set(US * 10, 4));
    assert!(!held.hold(Time::ZERO, 3));
    assert!(held.hold(Time::ZERO + US, 1));
    assert_eq!(held.due(), Time::NEVER);
    assert!(!held.hold(Time::ZERO + US * 2, 1), "the next wait begins");
    assert_eq!(held.due(), Time::ZERO + US * 12);
    assert!(held.hold(Time::ZERO + US * 2, u32::MAX));
}

#[test]
fn another_setting_lets_go_of_what_is_held_and_the_same_one_does_not() {
    let mut held = Moderation::off();
    assert!(!held.set(US * 10, 4));
    assert!(!held.hold(Time::ZERO, 1));
    assert!(!held.set(US * 10, 4));
    assert_eq!(held.due(), Time::ZERO + US * 10);
    assert!(held.set(US * 20, 4));
    assert_eq!(held.due(), Time::NEVER);
}

#[test]
fn causes_are_held_each_by_itself_and_others_are_not() {
    let mut bench = Bench::new();
    let mut causes = Causes::new(Vector(0), 0xf, [1, 2], 3);
    bench.with(|cx| {
        causes.moderate(cx, 0, US * 10, 2);
        causes.moderate(cx, 1, US * 5, 0);
        causes.report_frames(cx, 0, 1);
        causes.report_frames(cx, 1, 1);
        assert_eq!(causes.status(), 0);
        causes.report(cx, 8);
        assert_eq!(causes.status(), 8);
        causes.report_frames(cx, 0, 1);
        assert_eq!(causes.status(), 9, "two have come together");
    });
    assert_eq!(bench.next_due(), bench.now + US * 5);
    assert_eq!(bench.next_timer(), Some(3));
    bench.with(|cx| causes.timer(cx));
    assert_eq!(causes.status(), 11);
}

#[test]
fn the_level_follows_status_and_mask() {
    let mut bench = Bench::new();
    let mut causes = Causes::new(Vector(0), 0x3, [], 3);
    bench.with(|cx| causes.report(cx, 1));
    assert!(!bench.lent.interrupts.is_asserted() && !causes.is_asked_for());
    bench.with(|cx| causes.set_mask(cx, 0xff));
    assert!(bench.lent.interrupts.is_asserted() && causes.is_asked_for());
    assert_eq!(causes.mask(), 0x3, "there are no others");
    bench.with(|cx| causes.acknowledge(cx, 2));
    assert!(bench.lent.interrupts.is_asserted());
    bench.with(|cx| causes.acknowledge(cx, 1));
    assert!(!bench.lent.interrupts.is_asserted());
    bench.with(|cx| causes.report(cx, 2));
    bench.with(|cx| causes.reset(cx));
    assert!(!bench.lent.interrupts.is_asserted() && !causes.is_asked_for());
    assert_eq!((causes.status(), causes.mask()), (0, 0));
}
