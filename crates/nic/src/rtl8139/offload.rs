//! What a transmit descriptor of the C+ mode asks for before its frame goes out: VLAN tag, checksums, segmentation.
//!
//! Unlike those of later chips it does not say where the headers are: the chip looks for itself (Linux 6.1
//! 8139cp.c, cp_start_xmit).

use crate::checksum::{Network, TCP, UDP};
use crate::realtek::sender::Work;
use crate::strict::{FindingKind, Misuse};

// First word.
const LARGE_SEND: u32 = 1 << 27;
const MSS_SHIFT: u32 = 16;
const MSS_MAX: u32 = 0x7ff;
const CHECKSUM_IPV4: u32 = 1 << 18;
const CHECKSUM_UDP: u32 = 1 << 17;
const CHECKSUM_TCP: u32 = 1 << 16;
const CHECKSUMS: u32 = CHECKSUM_IPV4 | CHECKSUM_UDP | CHECKSUM_TCP;
/// Between the checksums and the mark of a large send, in a descriptor that is none.
const RESERVED_1: u32 = 0x07f8_0000;
/// The requests of the first word.
const REQUESTS_1: u32 = 0x0fff_0000;

// Second word.
const ADD_TAG: u32 = 1 << 17;
const RESERVED_2: u32 = 0xfffd_0000;

/// The tag to insert, as its two bytes stand in the frame.
pub(super) fn tag(opts2: u32) -> Option<[u8; 2]> {
    (opts2 & ADD_TAG != 0).then(|| (opts2 as u16).to_le_bytes())
}

/// What the first word of a frame's first descriptor asks for. Nothing is done to a frame that is no IP packet.
pub(super) fn work(opts1: u32, frame: &[u8]) -> Work {
    if opts1 & (LARGE_SEND | CHECKSUMS) == 0 {
        return Work::Nothing;
    }
    let Some(ip) = Network::find_behind_tags(frame) else { return Work::Nothing };
    if opts1 & LARGE_SEND != 0 {
        let mss = (opts1 >> MSS_SHIFT & MSS_MAX) as usize;
        return Work::Segment { transport: ip.payload, mss };
    }
    let protocol = match opts1 & (CHECKSUM_TCP | CHECKSUM_UDP) {
        CHECKSUM_TCP => Some(TCP),
        CHECKSUM_UDP => Some(UDP),
        _ => None,
    };
    let ipv4 = opts1 & CHECKSUM_IPV4 != 0;
    Work::Checksum { transport: ip.payload, ipv4, protocol }
}

/// What a driver must not write into the first two words of a descriptor. `before` are those of the one before it in
/// its frame, whose requests are the same.
pub(super) fn misuse([opts1, opts2]: [u32; 2], before: Option<[u32; 2]>) -> Option<Misuse> {
    const SOURCE: &str = "Linux 6.1 8139cp.c, cp_start_xmit";
    let found = |kind, what| Some(Misuse { kind, what, source: SOURCE });
    let large = opts1 & LARGE_SEND != 0;
    match () {
        () if opts2 & RESERVED_2 != 0 || !large && opts1 & RESERVED_1 != 0 => {
            found(FindingKind::ReservedBits, "has reserved bits set")
        }
        () if before.is_some_and(|[a, b]| (a ^ opts1) & REQUESTS_1 != 0 || b != opts2) => {
            let what = "has other requests than the one before it in its frame";
            found(FindingKind::OffloadFlags, what)
        }
        () if before.is_some() => None,
        () if large && opts1 >> MSS_SHIFT & MSS_MAX == 0 => {
            found(FindingKind::OffloadFlags, "is to be cut into segments of 0 bytes")
        }
        () if !large && opts1 & (CHECKSUM_TCP | CHECKSUM_UDP) == CHECKSUM_TCP | CHECKSUM_UDP => {
            found(FindingKind::OffloadFlags, "is to get checksums of TCP and of UDP")
        }
        () => None,
    }
}
