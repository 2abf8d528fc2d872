//! A frame that has been transferred leaves the chip as its descriptor wants it: with a tag, with checksums, or cut
//! into segments.

use crate::checksum::{VLAN_TYPE, type_behind_tags};
use crate::queue::{Outgoing, TxFormat};
use crate::segment::{Headers, Segmenter, fill_checksums};
use crate::{MIN_FRAME_BYTES, NicContext};

/// Room in front of a frame for the tag that the chip puts in.
pub(crate) const TAG_BYTES: usize = 4;

/// What a descriptor asks for, besides a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    #[default]
    Nothing,
    /// Fill in checksums; the transport header starts at `transport`.
    Checksum { transport: usize, ipv4: bool, protocol: Option<u8> },
    /// Cut into segments of `mss` bytes of payload; the TCP header starts at `transport`.
    Segment { transport: usize, mss: usize },
}

/// What cuts a packet whose TCP header starts at `transport`. The chip sums up all of it by itself: of IPv4 the field
/// holds the sum for the whole packet (Linux 6.1, rtl8169_tso_csum_v2).
pub(crate) fn segmenter(frame: &[u8], transport: usize, mss: usize) -> Option<Segmenter> {
    let headers = Headers::find(frame, type_behind_tags(frame)?, transport)?;
    Some(Segmenter::new(frame, headers, mss)?.with_sums_of_its_own(frame))
}

/// What leaves the chip for the descriptors that the engine has transferred.
pub(crate) struct Sender<'a, 'b, F: TxFormat> {
    pub(crate) out: &'a mut Outgoing<'b, F>,
    /// The longest frame.
    pub(crate) limit: usize,
    /// The tag to insert, as its two bytes stand in the frame.
    pub(crate) tag: Option<[u8; 2]>,
}

impl<F: TxFormat> Sender<'_, '_, F> {
    /// Sends the frame of `bytes` bytes that stands in `buffer` behind room for a tag, padded to the
    /// shortest length that Ethernet allows.
    fn put_on_wire(&mut self, cx: &mut NicContext<'_>, buffer: &mut [u8], bytes: usize) {
        const ADDRESSES: usize = 12;
        let (mut start, mut end) = (TAG_BYTES, TAG_BYTES + bytes);
        if let (Some(tag), true) = (self.tag, bytes >= ADDRESSES) {
            start = 0;
            buffer.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES, 0);
            buffer[ADDRESSES..ADDRESSES + 2].copy_from_slice(&VLAN_TYPE);
            buffer[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tag);
        }
        let shortest = start + MIN_FRAME_BYTES;
        if end < shortest {
            buffer[end..shortest].fill(0);
            end = shortest;
        }
        self.out.send(cx, &buffer[start..end]);
    }

    /// Sends the `bytes` bytes in the buffer as the driver wants it. The number of frames that went out,
    /// or `None` if it could not be sent.
    pub(crate) fn send(
        &mut self,
        cx: &mut NicContext<'_>,
        (buffer, segment): (&mut [u8], &mut Vec<u8>),
        bytes: usize,
        work: Work,
    ) -> Option<usize> {
        let frame = &mut buffer[TAG_BYTES..TAG_BYTES + bytes];
        match work {
            Work::Segment { transport, mss } => {
                return self.send_segments(cx, frame, (transport, mss), segment);
            }
            _ if bytes > self.limit => return None,
            Work::Checksum { transport, ipv4, protocol } => {
                fill_checksums(frame, transport, ipv4, protocol);
            }
            _ => {}
        }
        self.put_on_wire(cx, buffer, bytes);
        Some(1)
    }

    fn send_segments(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: &[u8],
        (transport, mss): (usize, usize),
        segment: &mut Vec<u8>,
    ) -> Option<usize> {
        let segmenter = segmenter(frame, transport, mss)?;
        let count = segmenter.count(frame);
        for index in 0..count {
            segmenter.segment(frame, index, TAG_BYTES, segment);
            let bytes = segment.len() - TAG_BYTES;
            if bytes > self.limit {
                return None;
            }
            segment.resize(segment.len().max(TAG_BYTES + MIN_FRAME_BYTES), 0);
            self.put_on_wire(cx, segment, bytes);
        }
        Some(count)
    }
}
