use super::driver::{DATA, IFCS, Lab, Mode, STATION, frame_to};

fn pair(lab: &mut Lab, low: u64) -> u64 {
    u64::from(lab.r32(low)) | u64::from(lab.r32(low + 4)) << 32
}

#[test]
fn frames_of_either_direction_get_the_time_at_which_they_passed() {
    let mut lab = Lab::open(Mode::Msix);
    // e1000e_get_base_timinca, e1000e_config_hwtstamp.
    lab.w32(0xb608, 1 << 24 | 40 << 18);
    lab.w32(0xb600, 0);
    lab.w32(0xb604, 0);
    lab.w32(0xb614, 0x10);
    lab.w32(0xb620, 0x18);
    assert_eq!(lab.r32(0xb620) & 0x1e, 0x18);
    lab.us(3);
    lab.receive(&frame_to(STATION, 46));
    assert_eq!(lab.rx()[0].status & 0x100, 0x100, "TST");
    assert_eq!(lab.r32(0xb620) & 1, 1, "a stamp is there");
    lab.receive(&frame_to(STATION, 46));
    assert_eq!(lab.rx()[0].status & 0x100, 0, "until it is read there is no other");
    assert_eq!(pair(&mut lab, 0xb624) >> 18, 3_000);
    assert_eq!(lab.r32(0xb620) & 1, 0);
    lab.us(2);
    lab.queue(&[&frame_to([0xff; 6], 46)], DATA | IFCS, 0x10);
    lab.w32(0x3818, lab.tx_next);
    assert_eq!(lab.r32(0xb614) & 1, 1);
    assert_eq!(pair(&mut lab, 0xb618) >> 18, 5_000);
    assert_eq!(lab.r32(0xb614) & 1, 0);
    assert_eq!(pair(&mut lab, 0xb600) >> 18, 5_000);
}
