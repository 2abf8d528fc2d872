//! A chip that completes descriptors wrongly, late or never.

use warikomi_clock::Span;
use warikomi_nic::{Frame, Nic, RxCounters, RxError, RxFault, RxOutcome};

use super::driver::{FS, LS, Lab, OWN, RX_BUFFERS, RX_RING, STATION, STRIDE, frame_to};

const ERROR: u32 = 1 << 21;

fn inject(lab: &mut Lab, fault: RxFault) -> RxOutcome {
    let bytes = frame_to(STATION, 200);
    lab.host(|nic, host| nic.receive_faulty(host, Frame::new(&bytes), fault).outcome)
}

fn counts(on_ring: u64, accepted: u64, abandoned: u64) -> RxCounters {
    RxCounters { on_ring, accepted, abandoned }
}

fn later(lab: &mut Lab, us: u64) {
    lab.wait(Span::from_us(us));
}

#[test]
fn an_error_is_reported_whether_or_not_the_driver_wants_such_frames() {
    let errors = [(RxError::Crc, 1 << 19), (RxError::Runt, 1 << 20), (RxError::TooLong, 1 << 22)];
    for (error, bit) in errors {
        let mut lab = Lab::open();
        assert_eq!(inject(&mut lab, RxFault::Reported(error)), RxOutcome::OnRingDamaged);
        let opts1 = lab.word(RX_RING);
        assert_eq!(opts1 & (OWN | FS | LS | 0xf << 19), FS | LS | ERROR | bit, "{error:?}");
        assert_eq!(lab.r16(0x3e), 0x0002, "RxErr");
        assert_eq!(lab.progress(), counts(1, 0, 0));
        lab.rx();
        assert_eq!(lab.progress(), counts(1, 1, 0));
    }
    let mut lab = Lab::open();
    // Everything is let in, errors and runts too.
    lab.w32(0x44, 0xc73f);
    assert_eq!(inject(&mut lab, RxFault::Reported(RxError::Crc)), RxOutcome::OnRing, "wanted");
}

#[test]
fn a_length_is_what_the_descriptor_says_and_the_bytes_are_what_they_are() {
    let mut lab = Lab::open();
    assert_eq!(inject(&mut lab, RxFault::Length(77)), RxOutcome::OnRing);
    assert_eq!(lab.word(RX_RING) & 0x3fff, 77);
    assert_eq!(lab.bytes(RX_BUFFERS, 214), frame_to(STATION, 200));
    assert_eq!(inject(&mut lab, RxFault::Length(u16::MAX)), RxOutcome::OnRing);
    assert_eq!(lab.word(RX_RING + 16) & (OWN | 0x3fff), 0x3fff, "no more than has room");
}

#[test]
fn what_is_never_completed_is_in_memory_and_the_next_frame_behind_it() {
    let mut lab = Lab::open();
    assert_eq!(inject(&mut lab, RxFault::NeverCompleted), RxOutcome::NotCompleted);
    assert_eq!(lab.word(RX_RING) & OWN, OWN);
    assert_eq!(lab.bytes(RX_BUFFERS, 214), frame_to(STATION, 200));
    assert_eq!((lab.raised(), lab.r16(0x3e)), (0, 0));
    let frame = frame_to(STATION, 100);
    assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    assert_eq!(lab.word(RX_RING + 16) & OWN, 0);
    assert_eq!(lab.progress(), counts(1, 0, 0));
    assert!(lab.rx().is_empty(), "the driver waits for the first");
    for _ in 0..255 {
        assert_eq!(lab.receive(&frame), RxOutcome::OnRing);
    }
    assert_eq!(lab.receive(&frame), RxOutcome::NoDescriptor);
    assert_eq!(lab.rx().len(), 256, "until the ring has come round");
    assert_eq!(lab.progress(), counts(256, 256, 0));
}

#[test]
fn what_is_completed_late_is_neither_free_nor_taken_until_then() {
    let mut lab = Lab::open();
    let late = |us| RxFault::CompletedLate(Span::from_us(us));
    assert_eq!(inject(&mut lab, late(50)), RxOutcome::OnRing);
    assert_eq!(inject(&mut lab, late(20)), RxOutcome::OnRing);
    assert_eq!((lab.word(RX_RING) & OWN, lab.raised()), (OWN, 0));
    assert_eq!(lab.progress(), counts(2, 0, 0), "its ownership bit is not the driver's doing");
    let free = lab.host(|nic, host| nic.rx_free(host, 1_000));
    assert_eq!(free, 254);
    later(&mut lab, 19);
    assert_eq!(lab.word(RX_RING + 16) & OWN, OWN);
    later(&mut lab, 1);
    assert_eq!(lab.word(RX_RING + 16) & (OWN | 0x3fff), 218);
    assert_eq!((lab.word(RX_RING) & OWN, lab.raised()), (OWN, 1));
    assert!(lab.rx().is_empty());
    later(&mut lab, 30);
    assert_eq!(lab.rx().len(), 2);
    assert_eq!(lab.progress(), counts(2, 2, 0));
    assert_eq!(lab.bytes(RX_BUFFERS + STRIDE, 214), frame_to(STATION, 200));
}

#[test]
fn a_ring_that_goes_away_takes_late_frames_along() {
    let mut lab = Lab::open();
    assert_eq!(inject(&mut lab, RxFault::CompletedLate(Span::from_us(50))), RxOutcome::OnRing);
    lab.reset_work();
    lab.init_rings();
    let before = lab.word(RX_RING);
    later(&mut lab, 100);
    assert_eq!(lab.word(RX_RING), before, "nothing is written into the new ring");
    let seen = lab.progress();
    assert_eq!((seen.on_ring, seen.accepted + seen.abandoned), (1, 1));
}
