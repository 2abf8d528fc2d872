//! Which frames a receiver lets in: addresses, VLANs, what is for the MAC itself (sections of 82574, 317694; the 82576
//! has the same, and eight addresses more).

use super::regs::{self, Registers};
use crate::checksum::ETHER_TYPE;

/// Whom a frame is for that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Unicast,
    Multicast,
    Broadcast,
    /// The MAC; the station sees it too.
    Mac,
}

/// Registers with addresses of the station: where the first is, and where there are no more.
pub(crate) type Places = (u16, u16);

/// Whether a table of words has this bit.
fn has_bit(file: &Registers, table: u16, bit: u16) -> bool {
    file.get(table + 4 * (bit / 32)) >> (bit % 32) & 1 != 0
}

/// Where an address is in the multicast table: 12 bits of its last two bytes, which ones RCTL says
/// (10.2.5.1, MO; Linux e1000_hash_mc_addr_generic).
fn hash(address: [u8; 6], rctl: u32) -> u16 {
    let shift = [4, 3, 2, 0][(rctl >> regs::RCTL_OFFSET_SHIFT & 3) as usize];
    u16::from_le_bytes([address[4], address[5]]) >> shift & 0xfff
}

/// Whether one of the addresses that are switched on is this one (10.2.5.15).
fn is_own(file: &Registers, addresses: &[Places], address: [u8; 6]) -> bool {
    const VALID: u64 = 1 << 63;
    let [a, b, c, d, e, f] = address;
    let wanted = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let places = addresses.iter().flat_map(|&(first, end)| (first..end).step_by(8));
    places
        .map(|at| file.pair(at))
        .any(|entry| entry & VALID != 0 && entry & 0xffff_ffff_ffff == wanted)
}

/// Whom a frame with this destination is for; `None` if it is not let in (7.1.1). The station's addresses are
/// in these registers, two each.
#[inline]
pub(crate) fn admits(
    file: &Registers,
    addresses: &[Places],
    address: [u8; 6],
) -> Option<Destination> {
    let rctl = file.get(regs::RCTL);
    let on = |bit| rctl & bit != 0;
    match address {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => {
            on(regs::RCTL_BROADCAST | regs::RCTL_ALL_MULTICAST).then_some(Destination::Broadcast)
        }
        [first, ..] if first & 1 != 0 => {
            let listed = || has_bit(file, regs::MTA, hash(address, rctl));
            let in_table =
                on(regs::RCTL_ALL_MULTICAST) || is_own(file, addresses, address) || listed();
            in_table.then_some(Destination::Multicast)
        }
        _ => (on(regs::RCTL_ALL_UNICAST) || is_own(file, addresses, address))
            .then_some(Destination::Unicast),
    }
}

/// The tag of a frame, if its type is that of VET.
#[inline]
pub(crate) fn tag(file: &Registers, frame: &[u8]) -> Option<u16> {
    let [a, b, tag_high, tag_low] = *frame.get(ETHER_TYPE..ETHER_TYPE + 4)?.first_chunk()?;
    let is_tag = u16::from_be_bytes([a, b]) == file.get(regs::VET) as u16;
    is_tag.then(|| u16::from_be_bytes([tag_high, tag_low]))
}

/// Whether a frame with this tag is let in (7.4.5).
#[inline]
pub(crate) fn admits_tag(file: &Registers, tag: u16) -> bool {
    let rctl = file.get(regs::RCTL);
    let canonical =
        rctl & regs::RCTL_CFI_ENABLE == 0 || (tag >> 12 & 1 != 0) == (rctl & regs::RCTL_CFI != 0);
    let filtered = rctl & regs::RCTL_VLAN_FILTER != 0;
    !filtered || canonical && has_bit(file, regs::VFTA, tag & 0xfff)
}

/// Whether the MAC looks at a frame as one of flow control, for which the driver has it look (CTRL.RFCE): it has the
/// type of FCT, and is to the address of FCA or to the station's first (8254x, 8.7.3; i210, 3.7.5.1). Otherwise it is a
/// frame like others (82575, 9.3.4).
#[inline]
pub(crate) fn is_control(file: &Registers, frame: &[u8]) -> bool {
    file.get(regs::CTRL) & regs::CTRL_RECEIVE_PAUSE != 0 && is_of_flow_control(file, frame)
}

fn is_of_flow_control(file: &Registers, frame: &[u8]) -> bool {
    const ADDRESS: u64 = 0xffff_ffff_ffff;
    let Some(&[a, b, c, d, e, f, .., high, low]) = frame.first_chunk::<14>() else { return false };
    let kind = file.get(regs::FCT) as u16;
    let destination = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    kind != 0
        && u16::from_be_bytes([high, low]) == kind
        && [regs::FCAL, regs::RAL].iter().any(|&at| file.pair(at) & ADDRESS == destination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e1000e::regs::TABLE;

    const OWN: [Places; 1] = [(regs::RAL, regs::RA_END)];

    const STATION: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];
    const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0xab, 0xcd];

    #[test]
    fn the_first_address_is_that_of_the_eeprom_and_others_are_switched_on_by_their_bit() {
        let mut file = Registers::new(&TABLE);
        assert_eq!(admits(&file, &OWN, STATION), Some(Destination::Unicast));
        let other = [0x02, 0, 0, 0, 0, 9];
        assert_eq!(admits(&file, &OWN, other), None);
        file.set_pair(regs::RAL + 8 * 15, u64::from_le_bytes([2, 0, 0, 0, 0, 9, 0, 0]));
        assert_eq!(admits(&file, &OWN, other), None);
        file.change(regs::RAH + 8 * 15, 0, 1 << 31);
        assert_eq!(admits(&file, &OWN, other), Some(Destination::Unicast));
    }

    #[test]
    fn a_group_is_found_by_its_hash_wherever_rctl_takes_that_from() {
        // What Linux computes: (last but one >> (8 - shift)) | last << shift, with the shifts 4, 5, 6 and 8.
        for (kind, shift) in [(0_u32, 4_u32), (1, 5), (2, 6), (3, 8)] {
            let expected =
                (u32::from(GROUP[4]) >> (8 - shift) | u32::from(GROUP[5]) << shift) & 0xfff;
            let mut file = Registers::new(&TABLE);
            file.set(regs::RCTL, kind << regs::RCTL_OFFSET_SHIFT);
            assert_eq!(admits(&file, &OWN, GROUP), None);
            file.set(regs::MTA + 4 * (expected / 32) as u16, 1 << (expected % 32));
            assert_eq!(admits(&file, &OWN, GROUP), Some(Destination::Multicast), "{kind}");
        }
    }

    #[test]
    fn a_filter_of_vlans_lets_in_those_of_its_table() {
        let mut file = Registers::new(&TABLE);
        let mut frame = [0; 60];
        frame[12..16].copy_from_slice(&[0x81, 0, 0x60, 5]);
        assert_eq!(tag(&file, &frame), Some(0x6005));
        assert!(admits_tag(&file, 0x6005));
        file.set(regs::RCTL, regs::RCTL_VLAN_FILTER);
        assert!(!admits_tag(&file, 0x6005));
        file.set(regs::VFTA, 1 << 5);
        assert!(admits_tag(&file, 0x6005) && !admits_tag(&file, 0x6006));
    }
}
