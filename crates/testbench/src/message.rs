//! Messages as a sender makes them, by code that is not ours.

use etherparse::PacketBuilder;
use warikomi_protocol::payload::{HEAD_BYTES, Head};
use warikomi_wire::{GUEST_IP, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET, UDP_PORT};

/// The frame of a numbered datagram whose payload has so many bytes, head included.
pub fn message(run_id: u32, sequence: u64, bytes: usize) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    payload[..HEAD_BYTES].copy_from_slice(&Head { run_id, sequence }.to_bytes());
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], NETWORK_MAC)
        .ipv4(GUEST_IP.octets(), NETWORK_IP.octets(), 64)
        .udp(UDP_PORT, UDP_PORT)
        .write(&mut frame, &payload)
        .expect("memory takes it");
    frame[PAYLOAD_OFFSET - 2..PAYLOAD_OFFSET].fill(0);
    frame
}

/// The frames of a numbered message in a TCP stream, from byte `first` on, in segments of so many bytes.
pub fn segments(
    run_id: u32,
    sequence: u64,
    bytes: usize,
    (first, segment_bytes): (u32, usize),
) -> Vec<Vec<u8>> {
    let mut payload: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    payload[..HEAD_BYTES].copy_from_slice(&Head { run_id, sequence }.to_bytes());
    let count = payload.chunks(segment_bytes).count();
    let segment = |(index, part): (usize, &[u8])| {
        let number = first.wrapping_add((index * segment_bytes) as u32);
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], NETWORK_MAC)
            .ipv4(GUEST_IP.octets(), NETWORK_IP.octets(), 64)
            .tcp(UDP_PORT, UDP_PORT, number, 65_535)
            .ack(1);
        let builder = if index + 1 == count { builder.psh() } else { builder };
        let mut frame = Vec::new();
        builder.write(&mut frame, part).expect("memory takes it");
        frame
    };
    payload.chunks(segment_bytes).enumerate().map(segment).collect()
}
