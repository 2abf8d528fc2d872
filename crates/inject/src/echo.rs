//! Echo requests: frames that a target's own kernel answers, without an application.

use etherparse::PacketBuilder;
use warikomi_wire::{ECHO_NUMBER_BYTES, MAX_FRAME_BYTES, MIN_FRAME_BYTES};

use crate::frame::{Addresses, TIME_TO_LIVE};
use crate::plan::PlanError;

/// Ethernet, IPv4 and ICMP headers.
const HEADERS_BYTES: usize = 14 + 20 + 8;

/// An echo request (ICMP, RFC 792) of `size_bytes` without check sequence, with this number in its payload.
pub fn echo_request(
    addresses: &Addresses,
    number: u64,
    size_bytes: usize,
) -> Result<Vec<u8>, PlanError> {
    if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&size_bytes) {
        return Err(PlanError::Size { got: size_bytes, most: MAX_FRAME_BYTES });
    }
    let mut payload: Vec<u8> = (0..size_bytes - HEADERS_BYTES).map(|at| (at % 251) as u8).collect();
    payload[..ECHO_NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
    let builder = PacketBuilder::ethernet2(addresses.source_mac, addresses.destination_mac)
        .ipv4(addresses.source_ip.octets(), addresses.destination_ip.octets(), TIME_TO_LIVE)
        // Identifier and sequence number say the same again: they are what a capture shows.
        .icmpv4_echo_request((number >> 16) as u16, number as u16);
    let mut bytes = Vec::with_capacity(size_bytes);
    let written = builder.write(&mut bytes, &payload);
    written.map_err(|error| PlanError::Malformed(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use etherparse::{Icmpv4Type, SlicedPacket, TransportSlice};

    use super::*;

    #[test]
    fn it_has_its_length_its_number_and_good_checksums() {
        let addresses = Addresses::to_guest([2, 0, 0, 0, 0, 1]);
        for size_bytes in [MIN_FRAME_BYTES, 1_500] {
            let frame = echo_request(&addresses, 0x1_0000_0007, size_bytes).unwrap();
            assert_eq!(frame.len(), size_bytes);
            let packet = SlicedPacket::from_ethernet(&frame).unwrap();
            let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("not ICMP") };
            let Icmpv4Type::EchoRequest(header) = icmp.icmp_type() else { panic!("no request") };
            assert_eq!((header.id, header.seq), (0, 7));
            assert_eq!(icmp.payload()[..8], 0x1_0000_0007_u64.to_le_bytes());
        }
        let size = MIN_FRAME_BYTES - 1;
        assert_eq!(
            echo_request(&addresses, 0, size),
            Err(PlanError::Size { got: size, most: MAX_FRAME_BYTES })
        );
    }
}
