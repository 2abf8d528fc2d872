//! Transmitting over a bus and a line that take their time.

use warikomi_clock::{Span, Time};
use warikomi_nic::bus::Bus;
use warikomi_nic::rtl8168::Rtl8168;
use warikomi_nic::{Nic, RxOutcome};
use warikomi_pci::PciFunction;
use warikomi_wire::wire_time;

use super::driver::{FS, HIGH_RING, LS, Lab, OWN, TX_BUFFERS, TX_RING, frame_to};

const TX_OK: u16 = 0x04;
const TX_ERR: u16 = 0x08;
const UNAVAILABLE: u16 = 0x80;

fn pci() -> Bus {
    "pci-64-66".parse().unwrap()
}

fn on_a_bus() -> Lab {
    Lab::open_with(Rtl8168::with(Some(pci()), None, None))
}

/// Goes from event to event until nothing is to come.
fn run(lab: &mut Lab) {
    while lab.nic.next_due() != Time::NEVER {
        lab.now = lab.now.max(lab.nic.next_due());
        lab.host(|nic, host| nic.poll(host));
    }
}

#[test]
fn a_frame_is_sent_and_given_back_when_its_transfers_are_completed() {
    let mut lab = on_a_bus();
    let frame = frame_to([0xff; 6], 1_000);
    let pieces = [&frame[..42], &frame[42..700], &frame[700..]];
    lab.xmit(&pieces, [0, 0]);
    assert_eq!(lab.nic.next_due(), lab.now, "not even the descriptor is read in the write");
    lab.wait(Span::ZERO);
    let bus =
        pieces.iter().fold(Span::ZERO, |sum, piece| sum + pci().transfer_time(piece.len(), true));
    assert_eq!(lab.nic.next_due(), lab.now + bus);
    lab.wait(bus);
    assert_eq!(lab.sent(), [frame]);
    for i in 0..3 {
        assert_eq!(lab.word(TX_RING + 16 * i) & OWN, 0);
    }
    assert_eq!(lab.r16(0x3e), TX_OK | UNAVAILABLE);
    assert_eq!((lab.raised(), lab.nic.counters().tx_descriptors), (1, 3));
}

#[test]
fn frames_handed_over_while_one_is_under_way_follow_it() {
    let mut lab = on_a_bus();
    let frames: Vec<_> = (0..600_usize).map(|i| frame_to([i as u8; 6], 46 + i)).collect();
    let mut due = lab.now;
    for some in frames.chunks(200) {
        for (i, frame) in some.iter().enumerate() {
            lab.queue(&[frame], [0, 0]);
            due += pci().transfer_time(frame.len(), true);
            if i % 50 == 0 {
                lab.w8(0x38, 0x40);
                lab.wait(Span::ZERO);
            }
        }
        lab.w8(0x38, 0x40);
        run(&mut lab);
        assert_eq!(lab.now, due, "back to back");
    }
    assert_eq!(lab.sent(), frames);
}

#[test]
fn a_late_call_finishes_each_frame_at_its_time() {
    let mut lab = on_a_bus();
    let frame = frame_to([0xff; 6], 1_000);
    let takes = pci().transfer_time(frame.len(), true);
    for _ in 0..10 {
        lab.queue(&[&frame], [0, 0]);
    }
    lab.w8(0x38, 0x40);
    lab.wait(Span::ZERO);
    let begun = lab.now;
    lab.wait(takes * 7 + takes / 2);
    assert_eq!(lab.sent().len(), 7);
    assert_eq!(lab.nic.next_due(), begun + takes * 8, "the eighth has begun in time");
    run(&mut lab);
    assert_eq!((lab.sent().len(), lab.now), (3, begun + takes * 10));
}

#[test]
fn the_line_holds_back_what_the_chip_has_no_room_for() {
    let mut lab = Lab::open_with(Rtl8168::with(None, Some(1_000_000_000), None));
    let frame = frame_to([0xff; 6], 1_500);
    let begun = lab.now;
    for _ in 0..200 {
        lab.queue(&[&frame], [0, 0]);
    }
    lab.w8(0x38, 0x40);
    assert!(lab.sent().is_empty(), "nothing goes within the register write");
    run(&mut lab);
    assert_eq!(lab.sent().len(), 200);
    let line = wire_time(frame.len(), 1_000_000_000);
    let took = lab.now.since(begun);
    assert!(took <= line * 200 && took >= line * 156, "{took} of {}", line * 200);
}

#[test]
fn the_high_queue_goes_first() {
    let mut lab = on_a_bus();
    lab.w32(0x28, HIGH_RING as u32);
    let (normal, high) = (frame_to([1; 6], 100), frame_to([2; 6], 200));
    lab.queue(&[&normal], [0, 0]);
    lab.put_bytes(TX_BUFFERS + 0x10_0000, &high);
    let address = (TX_BUFFERS + 0x10_0000) as u32;
    lab.put(HIGH_RING, &[OWN | FS | LS | high.len() as u32, 0, address, 0]);
    lab.w8(0x38, 0xc0);
    run(&mut lab);
    assert_eq!(lab.sent(), [high, normal]);
}

#[test]
fn what_makes_no_frame_and_what_is_too_long_is_an_error() {
    let mut lab = Lab::open_with(Rtl8168::with(Some(pci()), None, Some(1_500)));
    lab.xmit(&[&frame_to([1; 6], 1_504)], [0, 0]);
    run(&mut lab);
    assert_eq!(
        (lab.sent().len(), lab.r16(0x3e)),
        (1, TX_OK | UNAVAILABLE),
        "1,518 bytes, with a tag"
    );
    lab.w16(0x3e, 0xffff);
    lab.xmit(&[&frame_to([1; 6], 1_505)], [0, 0]);
    run(&mut lab);
    assert_eq!((lab.sent().len(), lab.r16(0x3e)), (0, TX_ERR | UNAVAILABLE));
    assert_eq!(lab.receive(&frame_to([0xff; 6], 1_504)), RxOutcome::OnRing);
    assert_eq!(lab.receive(&frame_to([0xff; 6], 1_505)), RxOutcome::Filtered);
}

#[test]
fn a_reset_forgets_what_is_under_way() {
    let mut lab = on_a_bus();
    lab.xmit(&[&frame_to([1; 6], 1_000)], [0, 0]);
    lab.wait(Span::ZERO);
    lab.reset_work();
    lab.init_rings();
    lab.wait(Span::from_ms(1));
    assert!(lab.sent().is_empty());
    lab.xmit(&[&frame_to([1; 6], 500)], [0, 0]);
    run(&mut lab);
    assert_eq!(lab.sent(), [frame_to([1; 6], 500)]);
}

#[test]
fn a_buffer_that_is_not_in_memory_stops_the_engine() {
    let mut lab = on_a_bus();
    lab.put(TX_RING, &[OWN | FS | LS | 60, 0, 0xfff0_0000, 0]);
    lab.w8(0x38, 0x40);
    run(&mut lab);
    assert_eq!(lab.r16(0x3e) & 0x8000, 0x8000, "SYSErr");
    lab.w8(0x38, 0x40);
    assert_eq!(lab.nic.next_due(), Time::NEVER);
}
