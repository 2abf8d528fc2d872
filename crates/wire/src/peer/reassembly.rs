//! Datagrams that IP has cut, put together again (RFC 791, 3.2). Their fragments come in order, one datagram behind the
//! other, as one host sends them over one wire: anything else is no datagram.

use etherparse::{IpNumber, NetSlice, SlicedPacket};

use super::packet::headers_sound;
use crate::{HEADER_BYTES, MIN_FRAME_BYTES};

/// Ethernet's and IP's headers.
const HEADERS_BYTES: usize = HEADER_BYTES + 20;
/// Words of an IPv4 header without options.
const IPV4_WORDS: u8 = 5;
/// Where IP's header has its length, and its flags with the offset (RFC 791, 3.1).
const LENGTH: usize = HEADER_BYTES + 2;
const FLAGS: usize = HEADER_BYTES + 6;
const CHECKSUM: usize = HEADER_BYTES + 10;
/// The longest IP packet.
const MOST_BYTES: usize = 65_535;

/// A fragment or segment that does not go on where its datagram or stream was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfPlace;

/// A fragment's own.
struct Fragment<'a> {
    headers: &'a [u8],
    identification: u16,
    offset: usize,
    more: bool,
    data: &'a [u8],
}

/// The datagram whose fragments come at present.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// As a frame that was not cut: headers, and the data so far; empty if there is none.
    frame: Vec<u8>,
    identification: u16,
}

impl Reassembly {
    /// Takes a frame: gives it back if it is no fragment, and the whole datagram with its last one; `None` before. What
    /// was begun and does not go on is dropped: its message is lost.
    pub(super) fn take<'a>(&'a mut self, frame: &'a [u8]) -> Result<Option<&'a [u8]>, OutOfPlace> {
        if !is_fragment(frame) {
            self.frame.clear();
            return Ok(Some(frame));
        }
        let added = fragment(frame).filter(|fragment| self.add(fragment));
        match added {
            None => {
                self.frame.clear();
                Err(OutOfPlace)
            }
            Some(Fragment { more: true, .. }) => Ok(None),
            Some(_) => {
                self.seal();
                Ok(Some(&self.frame))
            }
        }
    }

    /// Whether a fragment is the next one.
    fn add(&mut self, fragment: &Fragment<'_>) -> bool {
        if fragment.offset == 0 {
            self.frame.clear();
            self.frame.extend_from_slice(fragment.headers);
            self.identification = fragment.identification;
        }
        let goes_on = self.frame.len() == HEADERS_BYTES + fragment.offset
            && self.identification == fragment.identification
            && self.frame.get(..FLAGS - 4) == fragment.headers.get(..FLAGS - 4)
            && self.frame.len() + fragment.data.len() <= HEADER_BYTES + MOST_BYTES;
        self.frame.extend_from_slice(fragment.data);
        goes_on
    }

    /// Makes the headers those of a datagram that was not cut.
    fn seal(&mut self) {
        let length = (self.frame.len() - HEADER_BYTES) as u16;
        self.frame[LENGTH..LENGTH + 2].copy_from_slice(&length.to_be_bytes());
        self.frame[FLAGS..FLAGS + 2].fill(0);
        let checksum = SlicedPacket::from_ethernet(&self.frame).ok().and_then(|packet| {
            let Some(NetSlice::Ipv4(ip)) = packet.net else { return None };
            Some(ip.header().to_header().calc_header_checksum())
        });
        let checksum = checksum.unwrap_or_default();
        self.frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Whether a frame claims to be a fragment.
fn is_fragment(frame: &[u8]) -> bool {
    const MORE_AND_OFFSET: [u8; 2] = [0x3f, 0xff];
    let word = frame.get(FLAGS..FLAGS + 2);
    super::packet::claims_ipv4(frame)
        && word.is_some_and(|word| word[0] & MORE_AND_OFFSET[0] | word[1] & MORE_AND_OFFSET[1] != 0)
}

/// A fragment from the target to the network whose headers are as they should be, and whose frame ends with it but for
/// padding.
fn fragment(frame: &[u8]) -> Option<Fragment<'_>> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { return None };
    let header = ip.header();
    let bytes = HEADER_BYTES + usize::from(header.total_len());
    let ends = frame.len() == bytes || (frame.len() == MIN_FRAME_BYTES && bytes < frame.len());
    let data = frame.get(HEADERS_BYTES..bytes)?;
    let more = header.more_fragments();
    let sound = headers_sound(frame, ip)
        && header.ihl() == IPV4_WORDS
        && header.protocol() == IpNumber::UDP
        && !header.dont_fragment()
        && !data.is_empty()
        && (!more || data.len().is_multiple_of(8))
        && ends;
    sound.then_some(Fragment {
        headers: &frame[..HEADERS_BYTES],
        identification: header.identification(),
        offset: 8 * usize::from(header.fragments_offset().value()),
        more,
        data,
    })
}
