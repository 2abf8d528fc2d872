//! What a descriptor asks for before its frame goes out: VLAN tag, checksums, segmentation.
//!
//! The descriptor's layout is the one that Linux calls version 2 (6.1 r8169_main.c, enum
//! rtl_tx_desc_bit_1 and rtl8169_tso_csum_v2): for segmentation the offset of the TCP header
//! stands in the first word and the segment size in the second; for checksums the offset stands in
//! the second.

use crate::checksum::{TCP, UDP};
use crate::realtek::sender::Work;
use crate::strict::{FindingKind, Misuse};

// First word.
const GIANT_SEND_V4: u32 = 1 << 26;
const GIANT_SEND_V6: u32 = 1 << 25;
const GIANT_OFFSET_SHIFT: u32 = 18;
const GIANT_OFFSET_MAX: u32 = 0x7f;

// Second word.
const ADD_TAG: u32 = 1 << 17;
const FIELD_SHIFT: u32 = 18;
const OFFSET_MAX: u32 = 0x3ff;
const MSS_MAX: u32 = 0x7ff;
const CHECKSUM_IPV6: u32 = 1 << 28;
const CHECKSUM_IPV4: u32 = 1 << 29;
const CHECKSUM_TCP: u32 = 1 << 30;
const CHECKSUM_UDP: u32 = 1 << 31;

/// What a descriptor asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The tag to insert, as its two bytes stand in the frame.
    pub(super) tag: Option<[u8; 2]>,
    pub(super) work: Work,
}

impl Request {
    /// Reads a frame's first descriptor.
    pub(super) fn new(opts1: u32, opts2: u32) -> Request {
        let tag = (opts2 & ADD_TAG != 0).then(|| (opts2 as u16).to_le_bytes());
        let work = if opts1 & (GIANT_SEND_V4 | GIANT_SEND_V6) != 0 {
            Work::Segment {
                transport: (opts1 >> GIANT_OFFSET_SHIFT & GIANT_OFFSET_MAX) as usize,
                mss: (opts2 >> FIELD_SHIFT & MSS_MAX) as usize,
            }
        } else if opts2 & (CHECKSUM_IPV4 | CHECKSUM_IPV6 | CHECKSUM_TCP | CHECKSUM_UDP) != 0 {
            let protocol = match opts2 & (CHECKSUM_TCP | CHECKSUM_UDP) {
                CHECKSUM_TCP => Some(TCP),
                CHECKSUM_UDP => Some(UDP),
                _ => None,
            };
            Work::Checksum {
                transport: (opts2 >> FIELD_SHIFT & OFFSET_MAX) as usize,
                ipv4: opts2 & CHECKSUM_IPV4 != 0,
                protocol,
            }
        } else {
            Work::Nothing
        };
        Request { tag, work }
    }
}

/// Bits that no request has: between the length and the offset, and the one in which earlier chips had
/// another request (TD_LSO).
const RESERVED_1: u32 = 3 << 16 | 1 << 27;
/// The requests of the first word: its upper bits without whose it is, end of the ring, begin and end of the
/// frame.
const REQUESTS_1: u32 = 0x0fff_0000;
/// The bit between the tag and the request for it.
const RESERVED_2: u32 = 1 << 16;
/// Where an IP header can end at the earliest: a frame's header, and 20 bytes.
const LEAST_OFFSET: u32 = 34;

/// What a driver must not write into the first two words of a descriptor. `before` are those of the one before
/// it in its frame, whose requests are the same.
pub(super) fn misuse([opts1, opts2]: [u32; 2], before: Option<[u32; 2]>) -> Option<Misuse> {
    const BITS: &str = "Linux 6.1 r8169_main.c, enum rtl_tx_desc_bit_1";
    const REQUESTS: &str = "Linux 6.1 r8169_main.c, rtl8169_tso_csum_v2";
    let giant = opts1 & (GIANT_SEND_V4 | GIANT_SEND_V6);
    let both = |word: u32, bits: u32| word & bits == bits;
    let any = |bits: u32| opts2 & bits != 0;
    let kind = FindingKind::OffloadFlags;
    let what = match () {
        () if opts1 & RESERVED_1 != 0 || opts2 & RESERVED_2 != 0 => {
            let (kind, what) = (FindingKind::ReservedBits, "has reserved bits set");
            return Some(Misuse { kind, what, source: BITS });
        }
        () if before.is_some_and(|[a, b]| (a ^ opts1) & REQUESTS_1 != 0 || b != opts2) => {
            let what = "has other requests than the one before it in its frame";
            return Some(Misuse { kind, what, source: "RTL8169 Rev. 1.21, section 9.1, page 50" });
        }
        () if before.is_some() => return None,
        () if both(opts1, GIANT_SEND_V4 | GIANT_SEND_V6) => {
            "is to be segmented as IPv4 and as IPv6"
        }
        () if giant != 0 && opts2 >> FIELD_SHIFT & MSS_MAX == 0 => {
            "is to be cut into segments of 0 bytes"
        }
        () if giant != 0 && opts1 >> GIANT_OFFSET_SHIFT & GIANT_OFFSET_MAX < LEAST_OFFSET => {
            "is to be segmented, and its TCP header would begin within the IP header"
        }
        () if giant != 0 && any(CHECKSUM_IPV4 | CHECKSUM_TCP | CHECKSUM_UDP) => {
            "is to be segmented and to get checksums, which segments get in any case"
        }
        () if giant != 0 => return None,
        () if both(opts2, CHECKSUM_TCP | CHECKSUM_UDP) => "is to get checksums of TCP and of UDP",
        () if both(opts2, CHECKSUM_IPV4 | CHECKSUM_IPV6) => {
            "is to get checksums as IPv4 and as IPv6"
        }
        () if any(CHECKSUM_TCP | CHECKSUM_UDP) && !any(CHECKSUM_IPV4 | CHECKSUM_IPV6) => {
            "is to get a checksum of TCP or UDP, neither as IPv4 nor as IPv6"
        }
        () if any(CHECKSUM_TCP | CHECKSUM_UDP)
            && opts2 >> FIELD_SHIFT & OFFSET_MAX < LEAST_OFFSET =>
        {
            "is to get a checksum, and its TCP or UDP header would begin within the IP header"
        }
        () => return None,
    };
    Some(Misuse { kind, what, source: REQUESTS })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum;
    use crate::realtek::sender::segmenter;
    use crate::segment::fill_checksums;
    use crate::segment::testing::{checked, tcp};

    proptest! {
        #[test]
        fn checksums_are_filled_in(v6: bool, payload in prop::collection::vec(any::<u8>(), 0..3_000)) {
            let (mut frame, transport) = tcp(v6, 0, &payload);
            frame.extend([0xaa; 7]); // padding is not part of the packet
            let Work::Checksum { transport, ipv4, protocol } = Request::new(
                0x3000_0000,
                1 << 30 | if v6 { 1 << 28 } else { 1 << 29 } | (transport as u32) << 18,
            ).work else { panic!() };
            fill_checksums(&mut frame, transport, ipv4, protocol);
            prop_assert_eq!(checked(&frame).2, payload);
        }

        #[test]
        fn no_frame_and_no_request_panics(
            mut frame in prop::collection::vec(any::<u8>(), 0..200),
            kind in 0usize..3,
            opts1: u32,
            opts2: u32,
        ) {
            // Most random frames are no IP; make some.
            if frame.len() > 15 && kind > 0 {
                frame[12..15].copy_from_slice(&[[0x08, 0x00, 0x45], [0x86, 0xdd, 0x60]][kind - 1]);
            }
            match Request::new(opts1, opts2).work {
                Work::Nothing => {}
                Work::Checksum { transport, ipv4, protocol } => {
                    fill_checksums(&mut frame, transport, ipv4, protocol);
                }
                Work::Segment { transport, mss } => {
                    if let Some(segmenter) = segmenter(&frame, transport, mss) {
                        let mut segment = Vec::new();
                        for index in 0..segmenter.count(&frame) {
                            segmenter.segment(&frame, index, 4, &mut segment);
                        }
                    }
                }
            }
            checksum::judge(&frame);
        }
    }
}
