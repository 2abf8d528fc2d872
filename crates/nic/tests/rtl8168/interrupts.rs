use warikomi_clock::Span;
use warikomi_nic::{Link, Nic};
use warikomi_pci::{Interrupt, Width};

use super::driver::{Lab, STATION, frame_to};

const MESSAGE: Interrupt = Interrupt::Msi(warikomi_testbench::MESSAGE);

fn inject(lab: &mut Lab, frames: usize) {
    for _ in 0..frames {
        lab.receive(&frame_to(STATION, 100));
    }
}

/// rtl8169_interrupt: read, mask, acknowledge. Returns the status.
fn handle(lab: &mut Lab) -> u16 {
    let status = lab.r16(0x3e);
    lab.w16(0x3c, 0);
    lab.w16(0x3e, status);
    status
}

#[test]
fn the_level_is_worked_out_after_every_write() {
    let mut lab = Lab::open();
    inject(&mut lab, 2);
    assert_eq!(lab.line.interrupts(), [MESSAGE], "one message for one rise");
    assert_eq!(handle(&mut lab), 1);
    inject(&mut lab, 1);
    assert_eq!(lab.raised(), 1, "masked");
    // Between acknowledge and unmask a frame has come: unmasking must raise again.
    lab.w16(0x3c, 0x3f);
    assert_eq!(lab.line.interrupts(), [MESSAGE; 2]);
    // Acknowledging alone lowers the level, and the next frame raises it.
    lab.w16(0x3e, 0xffff);
    inject(&mut lab, 1);
    assert_eq!(lab.line.interrupts(), [MESSAGE; 3]);
}

/// rtl8169_poll looks at the ring behind the acknowledgement, which the card has not seen then.
#[test]
fn an_acknowledgement_that_was_on_its_way_is_not_one_of_what_came_meanwhile() {
    let mut lab = Lab::open();
    lab.looks = Some(1);
    inject(&mut lab, 1);
    let status = lab.r16(0x3e);
    lab.w16(0x3c, 0);
    // The driver has acknowledged, and found nothing more on its ring.
    inject(&mut lab, 1);
    lab.looks = Some(2);
    lab.w16(0x3e, status);
    lab.w16(0x3c, 0x3f);
    assert_eq!(lab.line.interrupts(), [MESSAGE; 2], "the second frame has an interrupt");
    // What the driver has seen it can acknowledge, however little time has passed.
    handle(&mut lab);
    lab.w16(0x3c, 0x3f);
    assert_eq!(lab.line.interrupts(), [MESSAGE; 2]);
    // One that it has not seen is reported again, with another interrupt.
    inject(&mut lab, 1);
    lab.w16(0x3e, 0xffff);
    assert_eq!(lab.line.interrupts(), [MESSAGE; 4]);
    // It can acknowledge that, too, if this was not on its way.
    lab.looks = Some(500);
    lab.w16(0x3e, 0xffff);
    assert_eq!(lab.line.interrupts(), [MESSAGE; 4]);
    inject(&mut lab, 1);
    lab.looks = Some(1_000);
    lab.w16(0x3e, 0xffff);
    assert_eq!(lab.r16(0x3e), 0);
    // Where the driver stands still, nothing is on its way: its next acknowledgement is one of all that came before.
    inject(&mut lab, 1);
    lab.looks = None;
    inject(&mut lab, 1);
    lab.looks = Some(1_001);
    lab.w16(0x3e, 0xffff);
    assert_eq!(lab.r16(0x3e), 0);
}

#[test]
fn status_and_mask_take_any_width() {
    let mut lab = Lab::open();
    inject(&mut lab, 1);
    assert_eq!(lab.r32(0x3c), 0x0001_003f, "both at once");
    lab.w8(0x3f, 0xff);
    assert_eq!(lab.r16(0x3e), 1, "the upper byte's acknowledgement leaves the lower alone");
    lab.w8(0x3c, 0);
    assert_eq!(lab.r16(0x3c), 0);
    lab.write(0x3c, Width::B4, 0xffff_0020);
    assert_eq!((lab.r16(0x3c), lab.r16(0x3e)), (0x20, 0), "mask, and acknowledge, in one write");
    lab.write(0x3b, Width::B2, 0x3f00);
    assert_eq!(lab.r16(0x3c), 0x3f, "unaligned");
}

#[test]
fn the_probe_sees_the_handlers_first_look() {
    let mut lab = Lab::open();
    lab.nic.probe().restart(8);
    inject(&mut lab, 1);
    let raised = lab.now;
    lab.now += Span::from_us(20);
    lab.r32(0x3c);
    let record = lab.nic.probe().records()[0];
    assert_eq!((record.raised, record.handled), (raised, lab.now));
}

#[test]
fn software_can_raise_one() {
    let mut lab = Lab::open();
    lab.w16(0x3c, 0x0100);
    lab.w8(0x38, 0x01);
    assert_eq!((lab.r16(0x3e), lab.raised(), lab.r8(0x38)), (0x0100, 1, 0));
}

#[test]
fn the_wire_is_used_while_msi_is_off() {
    let mut lab = Lab::new();
    lab.config(0x52, Width::B2, 0);
    lab.config(0x04, Width::B2, 0x0006);
    lab.init_rings();
    lab.reset_work();
    inject(&mut lab, 1);
    handle(&mut lab);
    assert_eq!(lab.line.interrupts(), [Interrupt::Intx(true), Interrupt::Intx(false)]);
}

#[test]
fn bits_that_do_not_exist_read_as_zero() {
    let mut lab = Lab::open();
    lab.w16(0x3c, 0xffff);
    assert_eq!(lab.r16(0x3c), 0xc1ff);
}

#[test]
fn moderation_waits_for_frames_or_for_time() {
    let mut lab = Lab::open();
    // 2 units of 40 µs (CPlusCmd 01), 2 times 4 frames.
    lab.w16(0xe0, 0x2061);
    lab.w16(0xe2, 0x0022);
    inject(&mut lab, 7);
    assert_eq!((lab.r16(0x3e), lab.raised()), (0, 0), "held");
    inject(&mut lab, 1);
    assert_eq!((handle(&mut lab), lab.raised()), (1, 1), "the eighth frame");
    lab.w16(0x3c, 0x3f);
    inject(&mut lab, 3);
    lab.wait(Span::from_us(79));
    assert_eq!(lab.raised(), 1);
    lab.wait(Span::from_us(1));
    assert_eq!((handle(&mut lab), lab.raised()), (1, 2), "80 µs after the first");
    lab.w16(0x3c, 0x3f);
    lab.wait(Span::from_ms(10));
    assert_eq!(lab.raised(), 2, "nothing held, nothing raised");
}

#[test]
fn moderation_works_for_the_transmitter_and_not_for_errors() {
    let mut lab = Lab::open();
    lab.w16(0xe2, 0x1000); // 5 µs at 1,000 Mbit/s
    lab.w16(0x3c, 0xffff);
    lab.xmit(&[&frame_to(STATION, 100)], [0, 0]);
    assert_eq!(lab.r16(0x3e), 0x80, "TxDescUnavail is not held");
    lab.wait(Span::from_us(5));
    assert_eq!(lab.r16(0x3e), 0x84);
}

#[test]
fn switching_moderation_off_lets_go_what_is_held() {
    let mut lab = Lab::open();
    lab.w16(0xe2, 0x00f0);
    inject(&mut lab, 1);
    assert_eq!(lab.raised(), 0);
    lab.w16(0xe2, 0);
    assert_eq!(lab.raised(), 1);
    lab.w16(0x3e, 0xffff);
    lab.wait(Span::from_ms(1));
    assert_eq!(lab.raised(), 1, "and its timer does nothing any more");
}

#[test]
fn the_unit_depends_on_the_speed() {
    let mut lab = Lab::open();
    lab.plug(Link::Up { mbps: 100 });
    lab.wait(Span::from_ms(25));
    lab.w16(0x3e, 0xffff);
    lab.w16(0xe2, 0x0010); // 2.56 µs at 100 Mbit/s
    inject(&mut lab, 1);
    lab.wait(Span::from_ns(2_559));
    assert_eq!(lab.r16(0x3e), 0);
    lab.wait(Span::from_ns(1));
    assert_eq!(lab.r16(0x3e), 1);
}

#[test]
fn the_timer_interrupt_comes_when_the_count_is_reached() {
    let mut lab = Lab::open();
    lab.w32(0x48, 0);
    lab.w32(0x58, 1_000); // 8 µs at 125 MHz
    lab.wait(Span::from_ns(7_999));
    assert_eq!((lab.r16(0x3e), lab.r32(0x48)), (0, 999));
    lab.wait(Span::from_ns(1));
    assert_eq!(lab.r16(0x3e), 0x4000);
    lab.w32(0x58, 0);
    lab.w16(0x3e, 0xffff);
    lab.wait(Span::from_ms(100));
    assert_eq!(lab.r16(0x3e), 0);
}
