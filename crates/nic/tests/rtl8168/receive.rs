use super::driver::{FS, LS, Lab, STATION, frame_to};
use warikomi_nic::{Nic, RxOutcome, fcs};

#[test]
fn a_frame_arrives_as_r8169_expects_it() {
    let mut lab = Lab::open();
    assert!(lab.nic.receiving());
    let frame = frame_to(STATION, 1_000);
    assert_eq!(lab.inject(&frame), RxOutcome::OnRing);
    assert_eq!(lab.interrupts(), 1);
    assert_eq!(lab.r16(0x3e), 0x0001);
    let got = lab.rx();
    let (opts1, opts2, bytes) = &got[0];
    assert_eq!(opts1 & (FS | LS), FS | LS);
    assert_eq!(bytes[..frame.len()], frame);
    assert_eq!(bytes[frame.len()..], fcs(&frame).to_le_bytes());
    assert_eq!((*opts2, got.len()), (0, 1));
}
#[test]
fn smoke_tx() {
    let mut lab = Lab::open();
    let frame = frame_to([0xff; 6], 100);
    lab.xmit(&[&frame[..30], &frame[30..]], [0, 0]);
    assert_eq!(lab.sent(), [frame]);
    assert_eq!(lab.r16(0x3e), 0x84);
}
