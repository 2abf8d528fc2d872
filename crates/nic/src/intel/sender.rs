//! What leaves the card for the descriptors that its engine has transferred.

use super::offload::{self, Request, Work};
use super::regs::{self, Registers};
use super::stamps::{self, SystemTime};
use super::stats;
use super::tx_ring::{TAG_BYTES, TxRing, TxWords};
use crate::queue::Outgoing;
use crate::segment::Segmenter;
use crate::{FCS_BYTES, MIN_FRAME_BYTES, NicContext};

/// What leaves the card for the descriptors that the engine has transferred.
pub(crate) struct Sender<'a, 'b, W: TxWords> {
    pub(crate) out: &'a mut Outgoing<'b, TxRing<W>>,
    pub(crate) file: &'a mut Registers,
    pub(crate) time: &'a SystemTime,
    /// The longest frame.
    pub(crate) limit: usize,
}

impl<W: TxWords> Sender<'_, '_, W> {
    /// Sends the frame of `bytes` bytes that stands in `buffer` behind room for a tag.
    fn put_on_wire(
        &mut self,
        cx: &mut NicContext<'_>,
        buffer: &mut [u8],
        bytes: usize,
        tag: Option<[u8; 2]>,
    ) {
        const ADDRESSES: usize = 12;
        let (mut start, mut end) = (TAG_BYTES, TAG_BYTES + bytes);
        if let (Some(tag), true) = (tag, bytes >= ADDRESSES) {
            start = 0;
            buffer.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES, 0);
            let kind = self.file.get(regs::VET) as u16;
            buffer[ADDRESSES..ADDRESSES + 2].copy_from_slice(&kind.to_be_bytes());
            buffer[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tag);
        }
        let shortest = start + MIN_FRAME_BYTES;
        if end < shortest && self.file.get(regs::TCTL) & regs::TCTL_PAD != 0 {
            buffer[end..shortest].fill(0);
            end = shortest;
        }
        let frame = &buffer[start..end];
        stats::sent(self.file, frame);
        self.out.send(cx, frame);
    }

    /// Sends the `bytes` bytes in the buffer as the driver wants it. The number of frames that went out,
    /// or `None` if it could not be sent.
    pub(crate) fn send(
        &mut self,
        cx: &mut NicContext<'_>,
        (buffer, segment): (&mut [u8], &mut Vec<u8>),
        bytes: usize,
        request: Request,
    ) -> Option<usize> {
        let Request { tag, work, has_fcs, stamp } = request;
        let tag = tag.filter(|_| self.file.get(regs::CTRL) & regs::CTRL_VLAN != 0);
        let bytes = if has_fcs { bytes.checked_sub(FCS_BYTES)? } else { bytes };
        let frame = &mut buffer[TAG_BYTES..TAG_BYTES + bytes];
        let sent = match work {
            Work::Impossible => return None,
            Work::Segment { headers, mss, udp } => {
                let segmenter = match udp {
                    true => Segmenter::udp(frame, headers, mss),
                    false => Segmenter::new(frame, headers, mss),
                };
                self.send_segments(cx, frame, (segmenter, tag), segment)?
            }
            _ if bytes == 0 || bytes > self.limit => return None,
            work => {
                match work {
                    Work::Checksums { ip, transport, udp } => {
                        offload::insert(frame, ip, transport, udp);
                    }
                    Work::Crc32c { ip, start } => offload::insert_crc32c(frame, ip, start),
                    _ => {}
                }
                self.put_on_wire(cx, buffer, bytes, tag);
                1
            }
        };
        if stamp {
            stamps::sent(self.file, self.time, self.out.at);
        }
        Some(sent)
    }

    fn send_segments(
        &mut self,
        cx: &mut NicContext<'_>,
        frame: &[u8],
        (segmenter, tag): (Option<Segmenter>, Option<[u8; 2]>),
        segment: &mut Vec<u8>,
    ) -> Option<usize> {
        let possible = segmenter.filter(|segmenter| segmenter.most_bytes(frame) <= self.limit);
        let Some(segmenter) = possible else {
            stats::add(self.file, regs::TSCTFC, 1);
            return None;
        };
        stats::add(self.file, regs::TSCTC, 1);
        let count = segmenter.count(frame);
        for index in 0..count {
            segmenter.segment(frame, index, TAG_BYTES, segment);
            let bytes = segment.len() - TAG_BYTES;
            segment.resize(segment.len().max(TAG_BYTES + MIN_FRAME_BYTES), 0);
            self.put_on_wire(cx, segment, bytes, tag);
        }
        Some(count)
    }
}
