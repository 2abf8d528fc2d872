//! What descriptors ask for before a frame goes out: VLAN tag, checksums, segmentation, a time stamp.

use crate::checksum;
use crate::segment::Headers;

/// A checksum to be put in: over the bytes from `start` to `end`, at `field`; to the frame's end if `end` is 0. The
/// field holds what the driver has summed up already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) start: usize,
    pub(crate) field: usize,
    pub(crate) end: usize,
}

impl Sum {
    /// What a word of a descriptor says: start and field a byte each, and the end.
    pub(crate) fn new(word: u32) -> Sum {
        let [start, field, low, high] = word.to_le_bytes();
        let end = u16::from_le_bytes([low, high]);
        Sum { start: start.into(), field: field.into(), end: end.into() }
    }

    /// Puts it in. A frame without these bytes is left alone, as one that is not what its descriptor says.
    fn insert(self, frame: &mut [u8], zero_is_none: bool) {
        let end = if self.end == 0 { frame.len() } else { self.end + 1 };
        let Some(summed) = frame.get(self.start..end.min(frame.len())) else { return };
        let mut value = checksum::field(checksum::sum(summed));
        if zero_is_none && value == [0, 0] {
            value = [0xff, 0xff]; // RFC 768: 0 means that there is none
        }
        if let Some(field) = frame.get_mut(self.field..self.field + 2) {
            field.copy_from_slice(&value);
        }
    }
}

/// What a frame's first data descriptor asks for, with the context that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Nothing,
    /// Put these checksums in; whether a transport's 0 becomes 0xffff.
    Checksums {
        ip: Option<Sum>,
        transport: Option<Sum>,
        udp: bool,
    },
    /// Put in the IP header's checksum, and the CRC32c of an SCTP packet, which starts here.
    Crc32c {
        ip: Option<Sum>,
        start: usize,
    },
    /// Cut into segments of `mss` bytes of payload, with headers of TCP, or UDP, that are where the context says.
    Segment {
        headers: Headers,
        mss: usize,
        udp: bool,
    },
    /// Something that the card cannot do.
    Impossible,
}

/// A request for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The tag to insert, as its two bytes stand in the frame.
    pub(crate) tag: Option<[u8; 2]>,
    pub(crate) work: Work,
    /// The driver's frame has its check sequence.
    pub(crate) has_fcs: bool,
    pub(crate) stamp: bool,
}

/// Puts checksums into a frame.
pub(crate) fn insert(frame: &mut [u8], ip: Option<Sum>, transport: Option<Sum>, udp: bool) {
    if let Some(sum) = ip {
        sum.insert(frame, false);
    }
    if let Some(sum) = transport {
        sum.insert(frame, udp);
    }
}

/// Where the checksum of an SCTP packet is, and how long its header is (RFC 9260, 3.1).
const SCTP_CHECKSUM: usize = 8;
const SCTP_HEADER: usize = 12;

/// Puts the checksum of an SCTP packet that starts here into its header, and that of the IP header.
pub(crate) fn insert_crc32c(frame: &mut [u8], ip: Option<Sum>, start: usize) {
    insert(frame, ip, None, false);
    let Some(packet) = frame.get_mut(start..) else { return };
    if let Some(sum) = sctp_checksum(packet) {
        packet[SCTP_CHECKSUM..SCTP_HEADER].copy_from_slice(&sum);
    }
}

/// Whether an SCTP packet has a header, and its checksum is right.
#[cold]
pub(crate) fn is_crc32c_right(packet: &[u8]) -> bool {
    sctp_checksum(packet).is_some_and(|sum| packet[SCTP_CHECKSUM..SCTP_HEADER] == sum)
}

/// The checksum of an SCTP packet, as it stands there; `None` without a header.
fn sctp_checksum(packet: &[u8]) -> Option<[u8; 4]> {
    let (before, after) = (packet.get(..SCTP_CHECKSUM)?, packet.get(SCTP_HEADER..)?);
    Some(crc32c(before.iter().chain(&[0; 4]).chain(after)).to_le_bytes())
}

/// CRC-32C (RFC 9260, appendix A).
fn crc32c<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32| crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
    let all = bytes
        .into_iter()
        .fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)));
    !all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_sctp_is_the_one_of_its_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut frame = vec![7; 60];
        insert_crc32c(&mut frame, None, 34);
        let mut packet = frame[34..].to_vec();
        packet[8..12].fill(0);
        assert_eq!(frame[42..46], crc32c(&packet).to_le_bytes());
        insert_crc32c(&mut frame, None, 50);
        assert_eq!(frame[50..], [7; 10], "too short");
        assert!(is_crc32c_right(&frame[34..]) && !is_crc32c_right(&frame[35..]));
        assert!(!is_crc32c_right(&frame[50..]), "too short");
    }
}
