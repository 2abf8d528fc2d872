use warikomi_pci::{Interrupt, Width};

use super::driver::{Lab, Mode};

const BROADCAST: [u8; 60] = [0xff; 60];

#[test]
fn each_vector_has_its_cause_which_its_message_clears_and_masks() {
    let mut lab = Lab::open(Mode::Msix);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [1]);
    assert_eq!((lab.r32(0x1524), lab.r32(0x1580)), (0x3fd, 0), "EIMS and EICR");
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty(), "masked until the handler has polled");
    assert_eq!(lab.rx(0).len(), 2);
    // igb_ring_irq_enable: the cause that came meanwhile interrupts at once.
    lab.w32(0x1524, 2);
    assert_eq!(lab.messages(), [1]);
    lab.xmit(0, &[&BROADCAST]);
    assert_eq!(lab.messages(), [2]);
    lab.w32(0xc8, 4);
    assert_eq!(lab.messages(), [0], "link status change");
    assert_eq!(lab.r32(0xc0) & 0x8000_0004, 0x8000_0004);
    lab.w32(0x1524, 1);
    assert!(lab.messages().is_empty(), "and nothing more");
}

#[test]
fn a_cause_that_is_set_interrupts_its_vector() {
    let mut lab = Lab::open(Mode::Msix);
    // igb_watchdog_task.
    lab.w32(0x1520, 6);
    assert_eq!(lab.messages(), [1, 2]);
    lab.w32(0x1520, 6);
    assert!(lab.messages().is_empty(), "masked");
    lab.w32(0x1528, 0x3ff);
    lab.w32(0x1524, 4);
    assert_eq!(lab.messages(), [2]);
}

#[test]
fn without_auto_clear_and_auto_mask_a_vector_is_acknowledged_by_hand() {
    let mut lab = Lab::open(Mode::Msix);
    lab.w32(0x152c, 0);
    lab.w32(0x1530, 0);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [1]);
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty());
    lab.w32(0x1580, 2);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [1]);
    // i210, 8.8.17: with GPIE.Multiple_MSIX a read of EICR does not clear it.
    assert_eq!([lab.r32(0x1580), lab.r32(0x1580)], [2, 2]);
    lab.w32(0x1580, 2);
    assert_eq!(lab.r32(0x1580), 0);
}

#[test]
fn a_dump_of_registers_sees_the_causes_and_changes_nothing() {
    // igb_get_regs: "Reading EICS for EICR because they read the same but EICS does not clear on read", and so of ICS.
    let mut lab = Lab::open(Mode::Msi);
    lab.w32(0x1700, 0x8280);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    let dump = |lab: &mut Lab| [lab.r32(0x1520), lab.r32(0xc8)];
    let seen = dump(&mut lab);
    assert_eq!((seen[0] & 1, seen[1]), (1, 0x8000_0080), "RTxQ0; asserted, and RXDW");
    assert_eq!(dump(&mut lab), seen);
    assert_eq!([lab.r32(0x1580), lab.r32(0xc0)], [seen[0], seen[1]]);
    assert_eq!(lab.r32(0x1520) & 1, 0, "read and cleared");
    assert_eq!(lab.r32(0xc8), 0);
}

#[test]
fn a_message_that_the_table_masks_comes_when_it_does_not_and_clears_its_cause_then() {
    let mut lab = Lab::open(Mode::Msix);
    lab.bar_write(3, 16 + 12, Width::B4, 1);
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty());
    assert_eq!(lab.bar_read(3, 0x2000, Width::B4), 2, "it is pending");
    assert_eq!(lab.r32(0x1524), 0x3ff);
    lab.bar_write(3, 16 + 12, Width::B4, 0);
    assert_eq!(lab.messages(), [1]);
    assert_eq!(lab.bar_read(3, 0x2000, Width::B4), 0);
    assert_eq!(lab.r32(0x1524), 0x3fd, "masked by its message");
}

#[test]
fn a_vector_interrupts_no_more_often_than_its_throttle_says() {
    let mut lab = Lab::open(Mode::Msix);
    // igb_write_itr: IGB_20K_ITR, 49 us.
    lab.w32(0x1684, 0x8000_00c4);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [1]);
    for _ in 0..4 {
        lab.us(10);
        lab.receive(&BROADCAST);
        lab.w32(0x1524, 2);
        assert!(lab.messages().is_empty());
    }
    lab.us(8);
    assert!(lab.messages().is_empty());
    lab.us(1);
    assert_eq!(lab.messages(), [1]);
    // The others have throttles of their own.
    lab.xmit(0, &[&BROADCAST]);
    assert_eq!(lab.messages(), [2]);
}

#[test]
fn by_msi_everything_is_one_interrupt_and_reading_the_causes_acknowledges_and_masks() {
    let mut lab = Lab::open(Mode::Msi);
    lab.receive(&BROADCAST);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0xc0), 0x8000_0080, "RXDW");
    assert_eq!(lab.r32(0xd0), 0, "igb_intr_msi: masked by IAM at the read");
    lab.xmit(0, &[&BROADCAST]);
    assert!(lab.messages().is_empty());
    lab.irq_enable();
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0xc0), 0x8000_0001, "TXDW");
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
    lab.w32(0x1680, 0x8000_00c4);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    lab.r32(0xc0);
    lab.irq_enable();
    lab.receive(&BROADCAST);
    assert!(lab.messages().is_empty());
    lab.us(49);
    assert_eq!(lab.messages(), [0]);
}

#[test]
fn bits_of_queues_interrupt_where_there_is_one_vector_too() {
    let mut lab = Lab::open(Mode::Msi);
    lab.w32(0xd8, 0xffff_ffff);
    lab.w32(0x1700, 0x8280);
    lab.w32(0x1524, 1);
    lab.receive(&BROADCAST);
    assert_eq!(lab.messages(), [0]);
    assert_eq!(lab.r32(0x1580), 1, "RTxQ0");
    lab.xmit(0, &[&BROADCAST]);
    assert!(lab.messages().is_empty(), "bit 2 is masked");
    assert_eq!(lab.r32(0x1580), 4);
}

#[test]
fn a_look_at_the_causes_loses_nothing_unless_the_driver_wants_that() {
    let mut lab = Lab::open(Mode::Msi);
    lab.w32(0xd8, 0xffff_fffe);
    lab.receive(&BROADCAST);
    assert_eq!([lab.r32(0xc0), lab.r32(0xc0)], [0x80, 0x80], "not told, so not cleared");
    lab.w32(0x1514, 1);
    assert_eq!([lab.r32(0xc0), lab.r32(0xc0)], [0x80, 0], "GPIE.NSICR");
}
