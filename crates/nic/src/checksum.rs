//! Internet checksums (RFC 1071), and where in a frame they are.
//!
//! Sums are kept as they come out of little-endian words: a one's complement sum is the same in
//! either byte order but for the order of its two bytes, and this way a pass over the payload needs
//! no byte to be moved.

/// Offset of the Ethernet type in an untagged frame.
pub(crate) const ETHER_TYPE: usize = 12;
pub(crate) const VLAN_TYPE: [u8; 2] = [0x81, 0x00];
/// The type of a service's tag, in front of a customer's (IEEE 802.1Q, table 9-1; Linux ETH_P_8021AD).
const SERVICE_TYPE: [u8; 2] = [0x88, 0xa8];
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const SCTP: u8 = 132;

/// The sum of the 16-bit words of `bytes`, not yet folded; a last odd byte counts as if a zero
/// followed.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let whole: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    let mut tail = [0; 4];
    tail[..rest.len()].copy_from_slice(rest);
    whole + u64::from(u32::from_le_bytes(tail))
}

/// Folds a sum into 16 bits, in the byte order of the bytes that it came from.
#[inline]
pub(crate) fn fold(sum: u64) -> u16 {
    // As often as the largest sum needs it, and no branch.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Whether a sum over bytes with their checksum folds to all ones: the checksum is right.
#[inline]
fn is_right(sum: u64) -> bool {
    // What is folded away is multiples of this.
    sum != 0 && sum.is_multiple_of(0xffff)
}

/// The two bytes to be put into a checksum field.
pub(crate) fn field(sum: u64) -> [u8; 2] {
    (!fold(sum)).to_le_bytes()
}

/// Where the Ethernet type is, behind at most one VLAN tag.
#[inline(always)]
pub(crate) fn type_behind_tag(frame: &[u8]) -> Option<usize> {
    let tagged = frame.get(ETHER_TYPE..ETHER_TYPE + 2)? == VLAN_TYPE;
    Some(if tagged { ETHER_TYPE + 4 } else { ETHER_TYPE })
}

/// The same behind up to two tags, of a service or a customer: in a frame that a driver has put together.
pub(crate) fn type_behind_tags(frame: &[u8]) -> Option<usize> {
    let mut places = (ETHER_TYPE..).step_by(4).take(3);
    places.find(|&at| {
        let kind = frame.get(at..at + 2);
        kind.is_some_and(|kind| kind != VLAN_TYPE && kind != SERVICE_TYPE)
    })
}

/// The network layer of a frame: where it starts and ends, and its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) version: u8,
    /// Offset of the IP header.
    pub(crate) start: usize,
    /// Offset of what follows the fixed header and its IPv4 options.
    pub(crate) payload: usize,
    /// Offset just behind the packet, where padding begins.
    pub(crate) end: usize,
    /// The protocol, or next header, that follows.
    pub(crate) protocol: u8,
    /// It is a fragment, so its payload cannot be judged alone.
    pub(crate) fragment: bool,
}

impl Network {
    /// Finds the IP packet in a frame, behind at most one VLAN tag. `None` if there is none that
    /// is complete.
    ///
    /// Inlined, like what it calls for IPv4, because it runs for every frame: returned through
    /// memory, the result would be read back in larger pieces than it was written in, and the
    /// processor would wait for every store before it.
    #[inline(always)]
    pub(crate) fn find(frame: &[u8]) -> Option<Network> {
        Network::behind(frame, type_behind_tag(frame)?)
    }

    /// The same behind all tags of a frame that a driver has put together.
    pub(crate) fn find_behind_tags(frame: &[u8]) -> Option<Network> {
        Network::behind(frame, type_behind_tags(frame)?)
    }

    /// The packet behind the Ethernet type that is here.
    #[inline(always)]
    fn behind(frame: &[u8], at: usize) -> Option<Network> {
        match *frame.get(at..at + 2)? {
            [0x08, 0x00] => Network::ipv4(frame, at + 2),
            [0x86, 0xdd] => Network::ipv6(frame, at + 2),
            _ => None,
        }
    }

    #[inline(always)]
    fn ipv4(frame: &[u8], start: usize) -> Option<Network> {
        let header = frame.get(start..)?;
        let fixed: &[u8; 20] = header.first_chunk()?;
        let header_bytes = usize::from(fixed[0] & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if fixed[0] >> 4 != 4 || header_bytes < 20 || total < header_bytes || total > header.len() {
            return None;
        }
        Some(Network {
            version: 4,
            start,
            payload: start + header_bytes,
            end: start + total,
            protocol: fixed[9],
            fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0,
        })
    }

    fn ipv6(frame: &[u8], start: usize) -> Option<Network> {
        let header = frame.get(start..)?;
        let fixed: &[u8; 40] = header.first_chunk()?;
        let total = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        if fixed[0] >> 4 != 6 || total > header.len() {
            return None;
        }
        Some(Network {
            version: 6,
            start,
            payload: start + 40,
            end: start + total,
            protocol: fixed[6],
            fragment: false,
        })
    }

    /// The sum over an IPv4 header with its checksum field; folds to all ones if it is right.
    #[inline(always)]
    pub(crate) fn header_sum(self, frame: &[u8]) -> u64 {
        let header = &frame[self.start..self.payload];
        // A length that the compiler knows needs no loop, and nearly every header is without options.
        match <&[u8; 20]>::try_from(header) {
            Ok(plain) => sum(plain),
            Err(_) => sum(header),
        }
    }

    /// The source's address and the destination's.
    #[inline(always)]
    pub(crate) fn addresses(self, frame: &[u8]) -> &[u8] {
        if self.version == 4 {
            &frame[self.start + 12..self.start + 20]
        } else {
            &frame[self.start + 8..self.start + 40]
        }
    }

    /// The sum over the pseudo header for a transport segment of `bytes` bytes.
    pub(crate) fn pseudo_sum(self, frame: &[u8], protocol: u8, bytes: usize) -> u64 {
        pseudo_sum(self.addresses(frame), protocol, bytes)
    }
}

/// The sum over the pseudo header with these addresses, the source's and the destination's.
fn pseudo_sum(addresses: &[u8], protocol: u8, bytes: usize) -> u64 {
    let length = (bytes as u32).to_be_bytes();
    sum(addresses) + sum(&length) + sum(&[0, protocol])
}

/// What receive checksum offload finds in an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// [`TCP`] or [`UDP`], if the packet is one of these and whole.
    pub(crate) transport: Option<u8>,
    /// The IPv4 header's checksum is wrong.
    pub(crate) header_wrong: bool,
    /// The transport's checksum is wrong, or its header makes no sense.
    pub(crate) transport_wrong: bool,
}

impl Verdict {
    /// Every checksum was looked at, and is right.
    pub(crate) fn is_good(self) -> bool {
        self.transport.is_some() && !self.header_wrong && !self.transport_wrong
    }
}

/// What was said of the last frame, which holds for the next one, too, if that is as long and has the same headers of
/// UDP without a checksum: the frames of a run mostly differ in their payload alone.
#[derive(Debug, Default)]
pub(crate) struct LastSaid<T> {
    bytes: usize,
    headers: [u8; HEADERS.end - HEADERS.start],
    said: T,
}

/// The headers of UDP over IPv4 without options, untagged: from the Ethernet type on.
const HEADERS: std::ops::Range<usize> = ETHER_TYPE..42;

impl<T: Copy> LastSaid<T> {
    /// What `judge` says of a frame, by its checksums.
    #[inline]
    pub(crate) fn of(&mut self, frame: &[u8], judge: impl FnOnce(&[u8]) -> T) -> T {
        match frame.get(HEADERS) {
            Some(headers) if frame.len() == self.bytes && headers == self.headers => self.said,
            Some(_) => self.anew(frame, judge),
            None => judge(frame),
        }
    }

    #[inline(never)]
    fn anew(&mut self, frame: &[u8], judge: impl FnOnce(&[u8]) -> T) -> T {
        let said = judge(frame);
        let plain_ipv4 = frame[ETHER_TYPE..ETHER_TYPE + 3] == [0x08, 0x00, 0x45];
        // The protocol, and the checksum of the datagram (RFC 791, 3.1; RFC 768).
        if plain_ipv4 && frame[23] == UDP && frame[40..42] == [0, 0] {
            self.headers.copy_from_slice(&frame[HEADERS]);
            (self.bytes, self.said) = (frame.len(), said);
        }
        said
    }
}

/// Whether a frame has an IP packet, and UDP or TCP in it, of which every checksum is right.
pub fn checksums_good(frame: &[u8]) -> bool {
    judge(frame).is_some_and(Verdict::is_good)
}

/// Looks at a frame's checksums. `None` if it has no complete IP packet.
///
/// The payload is looked at only if it carries a checksum: not for UDP with the checksum 0.
#[inline(always)]
pub(crate) fn judge(frame: &[u8]) -> Option<Verdict> {
    Some(judge_packet(frame, Network::find(frame)?))
}

/// The same of the packet that was found in it.
#[inline(always)]
pub(crate) fn judge_packet(frame: &[u8], ip: Network) -> Verdict {
    let header_wrong = ip.version == 4 && !is_right(ip.header_sum(frame));
    let segment = &frame[ip.payload..ip.end];
    let (transport, right) = match ip.protocol {
        _ if ip.fragment => (None, true),
        UDP => (Some(UDP), udp_is_right(frame, ip, segment)),
        TCP => (
            Some(TCP),
            segment.len() >= 20 && transport_is_right(ip.addresses(frame), TCP, segment),
        ),
        _ => (None, true),
    };
    Verdict { transport, header_wrong, transport_wrong: !right }
}

#[inline]
fn udp_is_right(frame: &[u8], ip: Network, segment: &[u8]) -> bool {
    let Some(header) = segment.first_chunk::<8>() else { return false };
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if length < 8 || length > segment.len() {
        return false;
    }
    if [header[6], header[7]] == [0, 0] {
        return ip.version == 4; // RFC 8200, 8.1: not optional with IPv6
    }
    transport_is_right(ip.addresses(frame), UDP, &segment[..length])
}

/// Out of line: it takes as long as the segment is, and what has no such checksum need not keep registers for it.
#[inline(never)]
fn transport_is_right(addresses: &[u8], protocol: u8, segment: &[u8]) -> bool {
    is_right(pseudo_sum(addresses, protocol, segment.len()) + sum(segment))
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    /// An IP frame with right checksums.
    fn frame(v6: bool, udp: bool, payload: &[u8]) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = if v6 {
            ethernet.ipv6([0xfd; 16], [0xfe; 16], 64)
        } else {
            ethernet.ipv4([10, 9, 0, 1], [10, 9, 0, 2], 64)
        };
        let mut frame = Vec::new();
        if udp {
            ip.udp(1, 2).write(&mut frame, payload).unwrap();
        } else {
            ip.tcp(1, 2, 3, 4).write(&mut frame, payload).unwrap();
        }
        frame.resize(frame.len().max(60), 0);
        frame
    }

    proptest! {
        #[test]
        fn right_frames_pass_and_damaged_ones_do_not(
            v6: bool, udp: bool, tagged: bool,
            payload in prop::collection::vec(any::<u8>(), 0..2_000),
            place: prop::sample::Index, flip in 1u8..=255,
        ) {
            let mut frame = frame(v6, udp, &payload);
            let start = if tagged {
                frame.splice(12..12, [0x81, 0x00, 0x20, 0x05]);
                18
            } else {
                14
            };
            let transport = Some(if udp { UDP } else { TCP });
            let good = Verdict { transport, header_wrong: false, transport_wrong: false };
            prop_assert_eq!(judge(&frame), Some(good));
            prop_assert!(good.is_good());
            if !payload.is_empty() {
                let ip = Network::find(&frame).unwrap();
                let at = ip.end - 1 - place.index(payload.len());
                frame[at] ^= flip;
                prop_assert_eq!(judge(&frame), Some(Verdict { transport_wrong: true, ..good }));
                frame[at] ^= flip;
            }
            if !v6 {
                frame[start + 8] ^= flip; // time to live
                prop_assert_eq!(judge(&frame), Some(Verdict { header_wrong: true, ..good }));
            }
        }

        #[test]
        fn a_sum_is_folded_until_no_carry_is_left(
            sum in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), 0xffff_ffff_fffe_0000u64..],
        ) {
            let mut folded = sum;
            while folded >> 16 != 0 {
                folded = (folded & 0xffff) + (folded >> 16);
            }
            prop_assert_eq!(u64::from(fold(sum)), folded);
            prop_assert_eq!(is_right(sum), folded == 0xffff);
            let right = sum - sum % 0xffff;
            prop_assert_eq!(is_right(right), fold(right) == 0xffff);
        }

        #[test]
        fn the_sum_is_that_of_etherparse(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let theirs = etherparse::checksum::Sum16BitWords::new().add_slice(&bytes);
            prop_assert_eq!(u16::from_be_bytes(field(sum(&bytes))), theirs.ones_complement().to_be());
        }
    }

    #[test]
    fn udp_without_a_checksum_passes_with_ipv4_only() {
        for v6 in [false, true] {
            let mut frame = frame(v6, true, &[1, 2, 3]);
            let at = Network::find(&frame).unwrap().payload + 6;
            frame[at..at + 2].fill(0);
            assert_eq!(judge(&frame).unwrap().is_good(), !v6);
        }
    }

    proptest! {
        /// Frames of few lengths and headers, so that many are like the one before; some are damaged.
        #[test]
        fn what_is_said_again_is_what_would_be_said(
            frames in prop::collection::vec(
                (0usize..3, 0u8..3, any::<bool>(), prop::option::weighted(0.3, (12usize..50, any::<u8>()))),
                1..60,
            ),
        ) {
            let mut last = LastSaid::default();
            for (longer, source, summed, damage) in frames {
                let mut frame = frame(false, true, &vec![source; 10 + 20 * longer]);
                if !summed {
                    frame[40..42].fill(0);
                }
                frame[35] = source;
                if let Some((at, value)) = damage {
                    frame[at] = value;
                }
                prop_assert_eq!(last.of(&frame, judge), judge(&frame));
            }
        }
    }

    #[test]
    fn what_is_said_of_a_frame_is_not_asked_again_for_the_next_of_its_run() {
        let (mut first, mut next) = (frame(false, true, &[1; 30]), frame(false, true, &[2; 30]));
        first[40..42].fill(0);
        next[40..42].fill(0);
        let mut last = LastSaid::default();
        assert!(last.of(&first, |_| true));
        assert!(last.of(&next, |_| panic!("asked again")));
        next.push(0);
        assert!(!last.of(&next, |_| false), "it is longer");
        next[40] = 1;
        assert!(last.of(&next, |_| true), "it has a checksum");
        assert!(!last.of(&next, |_| false), "which is of its payload");
    }

    #[test]
    fn a_fragment_is_ip_and_nothing_more() {
        let mut frame = frame(false, true, &[9; 100]);
        frame[20] |= 0x20; // more fragments
        frame[24..26].fill(0);
        let sum = field(Network::find(&frame).unwrap().header_sum(&frame));
        frame[24..26].copy_from_slice(&sum);
        let verdict = judge(&frame).unwrap();
        assert_eq!((verdict.transport, verdict.header_wrong), (None, false));
        assert!(!verdict.is_good());
    }

    #[test]
    fn what_is_not_ip_has_no_protocol() {
        assert_eq!(judge(&[0; 60]), None);
        assert_eq!(judge(&[]), None);
    }
}
