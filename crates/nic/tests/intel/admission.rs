//! Which frames both Intel cards let in, and what they count: the models share that, and so do their tests.

use warikomi_nic::{RxError, RxFault, RxOutcome};

use crate::driver::{Lab, Mode, STATION, frame_to};

#[test]
fn a_damaged_frame_is_counted_once_whether_it_is_stored_or_not() {
    let mut lab = Lab::open(Mode::Msix);
    let frame = frame_to(STATION, 46);
    let (reported, too_long) =
        (RxFault::Reported(RxError::Crc), RxFault::Reported(RxError::TooLong));
    for store in [4, 0] {
        let rctl = lab.r32(0x100);
        lab.w32(0x100, rctl & !4 | store);
        for (fault, counts) in [
            (RxFault::Crc, [1, 0, 0]),
            (RxFault::Alignment, [0, 1, 0]),
            (reported, [1, 0, 0]),
            (too_long, [0, 0, 1]),
        ] {
            lab.receive_faulty(&frame, fault);
            let counted = [0x4000, 0x4004, 0x400c].map(|at| lab.r32(at));
            assert_eq!(counted, counts, "CRCERRS, ALGNERRC, RXERRC of {fault:?}");
        }
    }
}

/// A frame of flow control, by its opcode and what follows.
fn control(destination: [u8; 6], opcode: u8, time: u8) -> Vec<u8> {
    let mut frame = frame_to(destination, 46);
    frame[12..18].copy_from_slice(&[0x88, 0x08, 0, opcode, 0, time]);
    frame
}

#[test]
fn frames_of_flow_control_are_the_macs_if_it_looks_at_them() {
    const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 1];
    let counts = |lab: &mut Lab| [0x4048, 0x4050, 0x4058, 0x4074].map(|at| lab.r32(at));
    let mut lab = Lab::open(Mode::Msix);
    // e1000e_setup_link_generic, igb_setup_link, and a multicast filter that lets all in.
    for (at, value) in [(0x28, 0x00c2_8001), (0x2c, 0x0100), (0x30, 0x8808)] {
        lab.w32(at, value);
    }
    let (ctrl, rctl) = (lab.r32(0), lab.r32(0x100) | 0x10);
    lab.w32(0x100, rctl);
    // 82575, 9.3.4: with RFCE clear they are "parsed as regular packets".
    for destination in [STATION, GROUP] {
        assert_eq!(lab.receive(&control(destination, 1, 9)), RxOutcome::OnRing);
    }
    assert_eq!(counts(&mut lab), [0, 0, 0, 2], "XONRXC, XOFFRXC, FCRUC, GPRC");
    lab.w32(0, ctrl | 1 << 27);
    for (bits, pause, other) in [
        (0, RxOutcome::OnRing, RxOutcome::Filtered),
        (1 << 22, RxOutcome::Filtered, RxOutcome::Filtered),
        (3 << 22, RxOutcome::Filtered, RxOutcome::OnRing),
    ] {
        lab.w32(0x100, rctl | bits);
        for destination in [STATION, GROUP] {
            assert_eq!(lab.receive(&control(destination, 1, 9)), pause, "DPF");
            assert_eq!(lab.receive(&control(destination, 1, 0)), pause);
            assert_eq!(lab.receive(&control(destination, 2, 0)), other, "PMCF");
        }
        let good = if other == RxOutcome::OnRing { 2 } else { 0 };
        assert_eq!(counts(&mut lab), [2, 2, 2, good], "{bits:#x}");
    }
    // For the station only if its filter lets them in, and the MAC counts them all the same.
    lab.w32(0x100, rctl & !0x10);
    assert_eq!(lab.receive(&control(GROUP, 1, 9)), RxOutcome::Filtered);
    assert_eq!(counts(&mut lab), [0, 1, 0, 0]);
    assert_eq!(lab.receive(&control([0xff; 6], 1, 9)), RxOutcome::OnRing, "to another address");
    assert_eq!(counts(&mut lab), [0, 0, 0, 1]);
}
