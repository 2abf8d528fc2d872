use warikomi_pci::{Interrupt, Width};

use super::driver::{IDE, IFCS, Lab, Mode};

const BROADCAST: [u8; 60] = [0xff; 60];

#[test]
fn each_vector_has_its_causes_which_its_message_clears_and_masks() {
    let mut lab = Lab::open(Mode::Msix);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0xd0) & 0x0010_0000, 0, "masked until the handler has polled");
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty());
    assert_eq!(lab.rx().len(), 2);
    // e1000e_poll: the cause that came meanwhile interrupts at once.
    lab.us(1);
    lab.w32(0xd0, 0x0010_0000);
    assert_eq!(lab.messages(), [0]);
    lab.xmit(&[&BROADCAST]);
    assert_eq!(lab.messages(), [1]);
    lab.w32(0xc8, 0x0100_0004);
    assert_eq!(lab.messages(), [2], "e1000e_trigger_lsc");
    assert_eq!(lab.r32(0xc0), 0x8100_0006, "the other handler reads what it was; and TXQE");
    assert_eq!(lab.r32(0xd0) & 0x0100_0004, 4, "only what has a vector was masked");
    lab.w32(0xd0, 0x0157_0244);
    assert!(lab.messages().is_empty());
}

#[test]
fn a_look_at_the_causes_loses_nothing_that_was_not_told() {
    let mut lab = Lab::open(Mode::Msix);
    lab.receive(&BROADCAST);
    lab.r32(0xc0);
    lab.receive(&BROADCAST);
    assert_eq!(lab.r32(0xc0) & 0x0010_0000, 0x0010_0000, "not asserted, so not cleared");
    assert_eq!(lab.messages(), [0]);
    lab.us(1);
    lab.w32(0xd0, 0x0010_0000);
    assert_eq!(lab.messages(), [0]);
}

#[test]
fn a_message_that_the_table_masks_comes_when_it_does_not_and_clears_its_cause_then() {
    let mut lab = Lab::open(Mode::Msix);
    lab.bar_write(3, 12, Width::B4, 1);
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty());
    assert_eq!(lab.bar_read(3, 0x2000, Width::B4), 1, "it is pending");
    assert_ne!(lab.r32(0xd0) & 0x0010_0000, 0);
    lab.bar_write(3, 12, Width::B4, 0);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.bar_read(3, 0x2000, Width::B4), 0);
    assert_eq!(lab.r32(0xd0) & 0x0010_0000, 0, "masked by its message");
    lab.receive(&BROADCAST);
    lab.us(1);
    lab.w32(0xd0, 0x0010_0000);
    assert_eq!(lab.messages(), [0], "the level had fallen, so that there is another");
}

#[test]
fn a_vector_interrupts_no_more_often_than_its_throttle_says() {
    let mut lab = Lab::open(Mode::Msix);
    // 195 * 256 ns: some 20,000 a second.
    lab.w32(0xe8, 195);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    for _ in 0..4 {
        lab.us(10);
        lab.receive(&BROADCAST);
        lab.w32(0xd0, 0x0010_0000);
        assert!(lab.messages().is_empty());
    }
    lab.us(9);
    assert!(lab.messages().is_empty());
    lab.us(1);
    assert_eq!(lab.messages(), [0]);
    // The others have throttles of their own.
    lab.xmit(&[&BROADCAST]);
    assert_eq!(lab.messages(), [1]);
}

#[test]
fn by_msi_everything_is_one_interrupt_and_reading_the_causes_acknowledges_it() {
    let mut lab = Lab::open(Mode::Msi);
    lab.receive(&BROADCAST);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0xc0), 0x8000_0080, "RXT0");
    assert_eq!(lab.r32(0xd0), 0, "e1000_intr_msi: masked by IAM at the read");
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty());
    lab.w32(0xd0, 0x9d);
    assert_eq!(lab.messages(), [0]);
}

#[test]
fn the_wire_is_released_when_the_causes_are_read() {
    let mut lab = Lab::open(Mode::Intx);
    lab.receive(&BROADCAST);
    assert_eq!(lab.line.take(), [Interrupt::Intx(true)]);
    assert_eq!(lab.r32(0xc0), 0x8000_0080);
    assert_eq!(lab.line.take(), [Interrupt::Intx(false)]);
    assert_eq!(lab.r32(0xc0), 0, "not our interrupt");
}

#[test]
fn the_one_interrupt_has_a_throttle_too() {
    let mut lab = Lab::open(Mode::Msi);
    lab.w32(0xc4, 195);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    lab.r32(0xc0);
    lab.w32(0xd0, 0x9d);
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty());
    lab.us(50);
    assert_eq!(lab.messages(), [0]);
}

#[test]
fn a_transmission_may_be_told_late_and_a_flush_tells_it() {
    let mut lab = Lab::open(Mode::Msi);
    lab.queue(&[&BROADCAST], IFCS | IDE, 0);
    lab.w32(0x3818, lab.tx_next);
    lab.us(8);
    assert!(lab.messages().is_empty(), "8 * 1.024 us");
    lab.us(1);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0xc0) & 1, 1, "TXDW");
    assert_eq!(lab.r32(0x410c), 1, "ICTXPTC");
    lab.w32(0xd0, 0x9d);
    lab.queue(&[&BROADCAST], IFCS | IDE, 0);
    lab.w32(0x3818, lab.tx_next);
    assert!(lab.messages().is_empty());
    lab.w32(0x3820, 8 | 1 << 31);
    assert_eq!(lab.messages(), [0], "e1000e_flush_descriptors");
    assert_eq!(lab.r32(0x3820), 8);
}

#[test]
fn frames_are_told_late_if_the_driver_wants_that() {
    let mut lab = Lab::open(Mode::Msi);
    lab.w32(0x2820, 10);
    lab.w32(0x282c, 20);
    for _ in 0..3 {
        lab.receive(&BROADCAST);
        lab.us(6);
        assert!(lab.messages().is_empty());
    }
    lab.us(3);
    assert_eq!(lab.messages(), [0], "20.48 us since the first");
    assert_eq!(lab.r32(0x4108), 1, "ICRXATC");
}

#[test]
fn the_handler_of_a_self_test_gets_each_cause_that_it_sets() {
    // e1000_intr_test.
    let mut lab = Lab::open(Mode::Intx);
    for bit in 0..10 {
        lab.w32(0xd8, 0xffff_ffff);
        lab.r32(0xc0);
        lab.line.take();
        let cause = 1 << bit;
        lab.w32(0xc8, cause);
        assert_eq!(lab.line.take().last(), None, "masked");
        lab.r32(0xc0);
        lab.w32(0xd0, cause);
        lab.w32(0xc8, cause);
        assert!(!lab.line.take().is_empty(), "{bit}");
        assert_eq!(lab.r32(0xc0) & cause, cause);
    }
}
