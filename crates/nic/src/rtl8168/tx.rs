//! What leaves the chip.
//!
//! A doorbell makes the chip walk its rings until it comes to a descriptor that it does not own: within
//! the register write, or with an engine when the transfers are completed ([`crate::queue`]).

use super::device::Rtl8168;
use super::offload::{Request, Work};
use super::tx_queue::{TAG_BYTES, Transmitter, TxRing};
use super::{intr, regs};
use crate::checksum::VLAN_TYPE;
use crate::queue::{Outgoing, TxRun};
use crate::segment::{Segmenter, fill_checksums};
use crate::{MIN_FRAME_BYTES, NicContext};

/// Unit of MaxTxPacketSize.
const SIZE_UNIT: usize = 128;

/// What leaves the chip for the descriptors that the engine has transferred.
struct Sender<'a, 'b> {
    out: &'a mut Outgoing<'b, TxRing>,
    /// The longest frame.
    limit: usize,
    tag: Option<[u8; 2]>,
}

impl Sender<'_, '_> {
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
    fn send(
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
        let segmenter = Segmenter::new(frame, transport, mss)?;
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

impl Rtl8168 {
    /// Handles a write to the doorbell.
    pub(super) fn transmit(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        self.tx.engine.check_doorbell(cx, queue);
        if self.tx.engine.is_open() && self.tx.engine.doorbell(cx, queue) {
            self.run_transmit(cx);
        }
    }

    /// The timer: takes up what a bounded walk has left, or what takes its time.
    pub(super) fn transmit_rest(&mut self, cx: &mut NicContext<'_>) {
        if self.tx.engine.timer(cx) {
            self.run_transmit(cx);
        }
    }

    /// Sends what is due, and reports it.
    fn run_transmit(&mut self, cx: &mut NicContext<'_>) {
        let Rtl8168 { tx, tally, .. } = self;
        let Transmitter { engine, buffer, segment } = tx;
        let limit = usize::from(self.file.u8(regs::MAX_TX_PACKET_SIZE)) * SIZE_UNIT;
        let limit = limit.min(self.setup.max_frame_bytes);
        let (link, mut errors) = (self.phy.mode().is_some(), false);
        let TxRun { frames, ended } = engine.run(cx, |cx, out| {
            let mut sent = None;
            if out.usable {
                let bytes = out.collect(cx, &mut buffer[TAG_BYTES..])?;
                let [opts1, opts2] = out.chain[0].words;
                let Request { work, tag } = Request::new(opts1, opts2);
                if link {
                    let mut sender = Sender { out, limit, tag };
                    sent = sender.send(cx, (buffer, segment), bytes, work);
                }
                tally.tx_packets += sent.unwrap_or(0) as u64;
            }
            if sent.is_none() {
                tally.tx_errors += 1;
                errors = true;
            }
            Ok(sent.unwrap_or(0))
        });
        if frames > 0 {
            let frames = u32::try_from(frames).unwrap_or(u32::MAX);
            self.intr.report_frames(cx, intr::TX, frames);
        }
        let mut report = if errors { regs::TX_ERR } else { 0 };
        match ended {
            Ok(true) => report |= regs::TX_DESC_UNAVAIL,
            Ok(false) => {}
            Err(_) => {
                self.tx.engine.halt();
                report |= regs::SYS_ERR;
            }
        }
        self.intr.report(cx, report);
    }
}
