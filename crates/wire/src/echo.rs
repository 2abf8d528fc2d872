use warikomi_clock::{Span, Time};

use super::network::{PAYLOAD_OFFSET, UDP_HEADER_BYTES};
use super::{HEADER_BYTES, Loopback, Wire, WireCounters};

/// Where an IPv4 header without options has its first byte, its protocol and its source (RFC 791, 3.1).
const IP: usize = HEADER_BYTES;
const IP_PROTOCOL: usize = IP + 9;
const IP_SOURCE: usize = IP + 12;
/// IPv4, and a header of five words of 32 bits.
const PLAIN_IPV4: u8 = 0x45;
/// The number of UDP (RFC 768).
const UDP: u8 = 17;
const UDP_PORTS: usize = PAYLOAD_OFFSET - UDP_HEADER_BYTES;

/// A host that sends every UDP datagram back to whom it came from (RFC 862), a fixed time after it has come.
///
/// It is no more than that, so that the time which it adds is known: addresses and ports change places in the
/// frame, which leaves both checksums right, and the rest stays as it is. Frames that are no UDP over IPv4 without
/// options are counted and dropped.
#[derive(Debug)]
pub struct Echo {
    answers: Loopback,
    /// Frames that have no answer.
    unanswered: WireCounters,
}

impl Echo {
    /// A host whose answer comes `delay` after the request.
    pub fn new(delay: Span) -> Echo {
        let answers = Loopback::new(delay, Loopback::DEFAULT_CAPACITY);
        Echo { answers, unanswered: WireCounters::default() }
    }
}

impl Wire for Echo {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        match answer(frame) {
            Some(answer) => self.answers.transmit(now, &answer),
            None => {
                self.unanswered.sent(frame);
                self.unanswered.dropped += 1;
            }
        }
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        self.answers.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        self.answers.receive(now)
    }

    fn counters(&self) -> WireCounters {
        self.answers.counters() + self.unanswered
    }
}

/// The frame on its way back; `None` if it is no datagram.
fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let is_datagram = frame.len() >= PAYLOAD_OFFSET
        && frame[HEADER_BYTES - 2..HEADER_BYTES] == [0x08, 0x00]
        && frame[IP] == PLAIN_IPV4
        && frame[IP_PROTOCOL] == UDP;
    if !is_datagram {
        return None;
    }
    let mut answer = frame.to_vec();
    swap_halves(&mut answer[..HEADER_BYTES - 2]);
    swap_halves(&mut answer[IP_SOURCE..IP_SOURCE + 8]);
    swap_halves(&mut answer[UDP_PORTS..UDP_PORTS + 4]);
    Some(answer)
}

/// Source and destination, which stand side by side, change places.
fn swap_halves(bytes: &mut [u8]) {
    let half = bytes.len() / 2;
    bytes.rotate_left(half);
}

#[cfg(test)]
mod tests {
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;

    fn datagram() -> Vec<u8> {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64);
        let mut bytes = Vec::new();
        builder.udp(5_001, 7).write(&mut bytes, b"a small message").unwrap();
        bytes
    }

    #[test]
    fn a_datagram_goes_back_to_whom_it_came_from_with_good_checksums() {
        let mut wire = Echo::new(Span::from_ns(500));
        wire.transmit(Time::ZERO, &datagram());
        assert_eq!(wire.next_arrival(), Time::ZERO + Span::from_ns(500));
        let back = wire.receive(wire.next_arrival()).unwrap();
        assert_eq!((&back[..6], &back[6..12]), (&[2; 6][..], &[4; 6][..]));
        let packet = SlicedPacket::from_ethernet(&back).unwrap();
        let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("{packet:?}") };
        assert_eq!((udp.source_port(), udp.destination_port()), (7, 5_001));
        let ip = etherparse::Ipv4HeaderSlice::from_slice(&back[HEADER_BYTES..]).unwrap();
        assert_eq!((ip.source(), ip.destination()), ([10, 9, 0, 2], [10, 9, 0, 1]));
        assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
        let header = udp.to_header();
        let sum = header.calc_checksum_ipv4_raw(ip.source(), ip.destination(), udp.payload());
        assert_eq!((udp.payload(), sum), (&b"a small message"[..], Ok(header.checksum)));
    }

    #[test]
    fn anything_else_is_dropped_and_counted() {
        let mut wire = Echo::new(Span::ZERO);
        let mut other = datagram();
        other[IP_PROTOCOL] = 6;
        wire.transmit(Time::ZERO, &other);
        wire.transmit(Time::ZERO, &[0; 60]);
        assert_eq!(wire.next_arrival(), Time::NEVER);
        assert_eq!((wire.counters().tx_frames, wire.counters().dropped), (2, 2));
    }

    proptest! {
        #[test]
        fn no_frame_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            answer(&bytes);
        }
    }
}
