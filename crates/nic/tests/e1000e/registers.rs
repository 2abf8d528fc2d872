use warikomi_pci::Width;

use super::driver::{Lab, Mode, STATION};

/// e1000e_read_nvm_eerd.
fn nvm_word(lab: &mut Lab, word: u32) -> u16 {
    lab.w32(0x14, word << 2 | 1);
    let answer = lab.r32(0x14);
    assert_ne!(answer & 2, 0, "done");
    (answer >> 16) as u16
}

#[test]
fn a_probe_finds_what_it_looks_for() {
    let mut lab = Lab::new(Mode::Intx);
    assert_eq!(lab.config_read(0, Width::B4), 0x10d3_8086);
    lab.reset_hw();
    let sum = (0..64).fold(0_u16, |sum, word| sum.wrapping_add(nvm_word(&mut lab, word)));
    assert_eq!(sum, 0xbaba, "e1000e_validate_nvm_checksum_generic");
    assert_ne!(nvm_word(&mut lab, 3) & 1, 0, "the checksum is valid");
    assert_eq!(nvm_word(&mut lab, 0xf) & 0x6000, 0, "no manageability");
    let address: Vec<u8> = (0..3).flat_map(|word| nvm_word(&mut lab, word).to_le_bytes()).collect();
    assert_eq!(address, STATION);
    assert_ne!(lab.r32(0x1010) & 1 << 18, 0, "e1000_get_cfg_done_82571");
    let id = [2, 3].map(|register| u32::from(lab.mdio_read(register)));
    assert_eq!(id[0] << 16 | id[1], 0x0141_0cb1, "BME1000_E_PHY_ID_R2");
}

#[test]
fn a_word_of_the_eeprom_can_be_written_and_a_reset_loads_it() {
    let mut lab = Lab::new(Mode::Intx);
    lab.w32(0x102c, 0x0900_0009);
    assert_eq!(lab.r32(0x102c) & 3, 2, "done");
    assert_eq!(nvm_word(&mut lab, 2), 0x0900);
    lab.reset_hw();
    assert_eq!(lab.r32(0x5404), 0x8000_0900);
}

#[test]
fn the_eeprom_is_granted_to_who_asks() {
    let mut lab = Lab::new(Mode::Intx);
    let eecd = lab.r32(0x10);
    lab.w32(0x10, eecd | 0x40);
    assert_eq!(lab.r32(0x10), eecd | 0xc0);
    lab.w32(0x10, eecd);
    assert_eq!(lab.r32(0x10), eecd);
}

#[test]
fn a_semaphore_is_taken_by_reading_it() {
    let mut lab = Lab::new(Mode::Intx);
    assert_eq!([lab.r32(0x5b50) & 1, lab.r32(0x5b50) & 1], [0, 1]);
    lab.w32(0x5b50, 0);
    assert_eq!(lab.r32(0x5b50) & 1, 0);
}

#[test]
fn registers_are_reached_through_the_window_of_ports() {
    let mut lab = Lab::new(Mode::Intx);
    lab.config(4, Width::B2, 7);
    lab.bar_write(2, 0, Width::B4, 0x38);
    assert_eq!(lab.bar_read(2, 4, Width::B4), 0x8100);
    lab.bar_write(2, 4, Width::B4, 0x88a8);
    assert_eq!(lab.r32(0x38), 0x88a8);
    lab.bar_write(2, 0, Width::B4, 0xffff_ffff);
    assert_eq!(lab.bar_read(2, 4, Width::B4), 0);
}

#[test]
fn a_part_of_a_register_is_read_and_not_written() {
    let mut lab = Lab::new(Mode::Intx);
    assert_eq!(lab.read(0x39, Width::B1), 0x81);
    lab.write(0x38, Width::B2, 0x1234);
    assert_eq!(lab.r32(0x38), 0x8100);
}

#[test]
fn a_counter_is_read_once() {
    let mut lab = Lab::open(Mode::Msix);
    for _ in 0..3 {
        lab.receive(&[0xff; 60]);
    }
    assert_eq!([lab.r32(0x4074), lab.r32(0x4074)], [3, 0], "GPRC");
    assert_eq!(lab.r32(0x4078), 3, "BPRC");
    assert_eq!(lab.r32(0x405c), 3, "PRC64");
    // A driver reads the lower half, then the upper one.
    assert_eq!([lab.r32(0x4088), lab.r32(0x408c), lab.r32(0x4088)], [192, 0, 0], "GORC");
}

#[test]
fn what_ethtool_writes_to_the_receive_registers_is_read_back() {
    // reg_pattern_test of e1000_reg_test.
    let mut lab = Lab::new(Mode::Intx);
    let all = 0xffff_ffff_u32;
    let tested = [
        (0x28, all, all),
        (0x2c, 0x0000_ffff, all),
        (0x30, 0x0000_ffff, all),
        (0x38, 0x0000_ffff, all),
        (0x2820, 0x0000_ffff, 0x7fff_ffff),
        (0x2804, all, all),
        (0x2808, 0x000f_ff80, 0x000f_ffff),
        (0x2810, 0x0000_ffff, 0x0000_ffff),
        (0x2818, 0x0000_ffff, 0x0000_ffff),
        (0x2168, 0x0000_fff8, 0x0000_fff8),
        (0x170, 0x0000_ffff, 0x0000_ffff),
        (0x410, 0x3fff_ffff, 0x3fff_ffff),
        (0x3804, all, all),
        (0x3808, 0x000f_ff80, 0x000f_ffff),
        (0x2800, 0xffff_fff0, all),
        (0x178, 0xc000_ffff, 0x0000_ffff),
        (0x3800, 0xffff_fff0, all),
        (0x3820, 0x0000_ffff, 0x0000_ffff),
        (0x5404, 0x8003_ffff, all),
        (0x547c, 0x8003_ffff, all),
        (0x5200, all, all),
        (0x53fc, all, all),
    ];
    for (offset, mask, write) in tested {
        for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, 0, all] {
            lab.w32(offset, pattern & write);
            assert_eq!(lab.r32(offset), pattern & write & mask, "{offset:#x}");
        }
    }
}
