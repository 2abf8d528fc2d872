use warikomi_nic::RxOutcome;

use super::driver::{DATA, IFCS, Lab, Mode, STATION, frame_to};

fn pair(lab: &mut Lab, low: u64) -> u64 {
    u64::from(lab.r32(low)) | u64::from(lab.r32(low + 4)) << 32
}

/// A message of the precision time protocol, version 2, in a frame of its own.
fn message(kind: u8) -> Vec<u8> {
    let mut frame = frame_to(STATION, 46);
    frame[12..15].copy_from_slice(&[0x88, 0xf7, kind]);
    frame
}

#[test]
fn messages_of_either_direction_get_the_time_at_which_they_passed() {
    let mut lab = Lab::open(Mode::Msix);
    // igb_ptp_init and igb_ptp_set_timestamp_mode, for events of version 2.
    lab.w32(0xb608, 1 << 24 | 16 << 19);
    lab.w32(0xb600, 0);
    lab.w32(0xb604, 0);
    lab.w32(0xb614, 0x10);
    lab.w32(0xb620, 0x1a);
    lab.w32(0x5cb0 + 4 * 3, 0x4400_88f7);
    lab.us(3);
    assert_eq!(lab.receive(&message(0x0b)), RxOutcome::OnRing);
    assert_eq!(lab.rx(0)[0].status & 0x1_0000, 0, "an announcement is no event");
    lab.receive(&message(0));
    assert_eq!(lab.rx(0)[0].status & 0x1_0000, 0x1_0000, "TS");
    assert_eq!(lab.r32(0xb620) & 1, 1, "a stamp is there");
    lab.receive(&message(0));
    assert_eq!(lab.rx(0)[0].status & 0x1_0000, 0, "until it is read there is no other");
    assert_eq!(pair(&mut lab, 0xb624) >> 19, 2_992, "in whole ticks of 16 ns");
    assert_eq!(lab.r32(0xb620) & 1, 0);
    lab.us(2);
    lab.queue(0, &[&frame_to([0xff; 6], 46)], DATA | IFCS | 0x0008_0000, 0);
    lab.ring(0);
    assert_eq!(lab.r32(0xb614) & 1, 1);
    assert_eq!(pair(&mut lab, 0xb618) >> 19, 4_992);
    assert_eq!(lab.r32(0xb614) & 1, 0);
}

#[test]
fn messages_in_datagrams_are_known_by_their_port() {
    let mut lab = Lab::open(Mode::Msix);
    lab.w32(0xb620, 0x1a);
    lab.w32(0x5a80 + 4 * 3, u32::from(319_u16.to_be()));
    let mut event = Vec::new();
    etherparse::PacketBuilder::ethernet2([2; 6], STATION)
        .ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        .udp(319, 319)
        .write(&mut event, &[0; 44])
        .unwrap();
    let stamped = |lab: &mut Lab| {
        lab.receive(&event);
        lab.rx(0)[0].status & 0x1_0000 != 0
    };
    assert!(!stamped(&mut lab), "no filter stamps");
    lab.w32(0x59e0 + 4 * 3, 0x6800_8011);
    assert!(stamped(&mut lab));
}
