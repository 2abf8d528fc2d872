use warikomi_pci::Width;

use super::driver::{Lab, Mode, STATION};

/// igb_read_nvm_eerd.
fn nvm_word(lab: &mut Lab, word: u32) -> u16 {
    lab.w32(0x14, word << 2 | 1);
    let answer = lab.r32(0x14);
    assert_ne!(answer & 2, 0, "done");
    (answer >> 16) as u16
}

/// igb_get_hw_semaphore and igb_put_hw_semaphore.
fn with_semaphore<T>(lab: &mut Lab, work: impl FnOnce(&mut Lab) -> T) -> T {
    assert_eq!(lab.r32(0x5b50) & 1, 0, "free");
    let swsm = lab.r32(0x5b50);
    assert_eq!(swsm & 1, 1, "taken by the read");
    lab.w32(0x5b50, swsm | 2);
    assert_eq!(lab.r32(0x5b50) & 2, 2);
    let done = work(lab);
    lab.w32(0x5b50, 0);
    done
}

#[test]
fn a_probe_finds_what_it_looks_for() {
    let mut lab = Lab::new(Mode::Intx);
    assert_eq!(lab.config_read(0, Width::B4), 0x10c9_8086);
    assert_eq!(lab.r32(0x18) & 0x00c0_0000, 0, "CTRL_EXT: copper");
    assert_eq!(lab.r32(8) & 0xc, 0, "STATUS: the first port");
    lab.reset_hw();
    let sum = (0..64).fold(0_u16, |sum, word| sum.wrapping_add(nvm_word(&mut lab, word)));
    assert_eq!(sum, 0xbaba, "igb_validate_nvm_checksum");
    assert_eq!(nvm_word(&mut lab, 0x37), 0xffff, "no alternate address");
    let address: Vec<u8> = (0..3).flat_map(|word| nvm_word(&mut lab, word).to_le_bytes()).collect();
    assert_eq!(address, STATION);
    assert_eq!((lab.r32(0x5400), lab.r32(0x5404)), (0x004b_5702, 0x8000_0100));
    assert_ne!(lab.r32(0x1010) & 1 << 18, 0, "igb_get_cfg_done_82575");
    let id = [2, 3].map(|register| u32::from(lab.mdio_read(register)));
    assert_eq!((id[0] << 16 | id[1]) & 0xffff_fff0, 0x02a8_0390, "IGP03E1000_E_PHY_ID");
}

#[test]
fn the_semaphores_keep_what_the_driver_says() {
    let mut lab = Lab::new(Mode::Intx);
    for held in [2, 0] {
        with_semaphore(&mut lab, |lab| {
            let sync = lab.r32(0x5b5c);
            assert_eq!(sync >> 16, 0, "no firmware has anything");
            lab.w32(0x5b5c, held);
        });
        assert_eq!(lab.r32(0x5b5c), held);
    }
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
fn a_counter_is_read_once() {
    let mut lab = Lab::open(Mode::Msix);
    for _ in 0..3 {
        lab.receive(&[0xff; 60]);
    }
    assert_eq!([lab.r32(0x4074), lab.r32(0x4074)], [3, 0], "GPRC");
    assert_eq!(
        (lab.r32(0x4078), lab.r32(0x405c), lab.r32(0x4104)),
        (3, 3, 3),
        "BPRC, PRC64, RPTHC"
    );
    for low in [0x4088, 0x4128] {
        let read = [lab.r32(low), lab.r32(low + 4), lab.r32(low)];
        assert_eq!(read, [192, 0, 0], "GORC and HGORC: a driver reads the lower half first");
    }
    assert_eq!(lab.r32(0x4100), 1, "IAC: one interrupt, until the vector is unmasked");
}

#[test]
fn what_ethtool_writes_is_read_back() {
    // reg_test_82576.
    let mut lab = Lab::new(Mode::Intx);
    let mut tested = vec![
        (0x28, 0xffff_ffff_u32),
        (0x2c, 0x0000_ffff),
        (0x30, 0x0000_ffff),
        (0x38, 0xffff_ffff),
        (0x2160, 0x8000_fff8),
        (0x2168, 0x0000_fff0),
        (0x170, 0x0000_ffff),
        (0x410, 0x3fff_ffff),
        (0x5800, 0x2),
    ];
    for queue in 0..16 {
        for (at, mask) in [(0, 0xffff_ff80), (4, 0xffff_ffff), (8, 0x000f_fff0), (0x18, 0xffff)] {
            tested.push((super::driver::rx(queue, at), mask));
            tested.push((super::driver::tx(queue, at), mask));
        }
    }
    for index in 0..24 {
        let low = if index < 16 { 0x5400 + 8 * index } else { 0x54e0 + 8 * (index - 16) };
        tested.extend([(low, 0xffff_ffff), (low + 4, 0x83ff_ffff)]);
    }
    tested.extend((0..128).map(|index| (0x5200 + 4 * index, 0xffff_ffff)));
    for (offset, mask) in tested {
        for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, 0, 0xffff_ffff] {
            lab.w32(offset, pattern);
            assert_eq!(lab.r32(offset) & mask, pattern & mask, "{offset:#x}");
        }
    }
}

#[test]
fn a_part_of_a_register_is_read_and_not_written() {
    let mut lab = Lab::new(Mode::Intx);
    assert_eq!(lab.read(0x39, Width::B1), 0x81);
    lab.write(0x38, Width::B2, 0x1234);
    assert_eq!(lab.r32(0x38), 0x8100);
}
