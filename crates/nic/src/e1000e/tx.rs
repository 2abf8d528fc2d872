//! What leaves the card.
//!
//! The tail is the doorbell: it makes the card walk the ring up to there, within the register write, or with an
//! engine when the transfers are completed ([`crate::queue`]).

use super::device::E1000e;
use super::offload::{self, Context, Request, Work};
use super::regs::{self, Registers};
use super::stamps::{self, SystemTime};
use super::stats::{self, FCS_BYTES};
use super::tx_queue::{TAG_BYTES, Transmitter, TxRing};
use crate::queue::{Outgoing, TxRun};
use crate::segment::Segmenter;
use crate::{MIN_FRAME_BYTES, NicContext};

/// What leaves the card for the descriptors that the engine has transferred.
struct Sender<'a, 'b> {
    out: &'a mut Outgoing<'b, TxRing>,
    file: &'a mut Registers,
    time: &'a SystemTime,
    /// The longest frame.
    limit: usize,
    link: bool,
}

impl Sender<'_, '_> {
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
        if self.link {
            stats::sent(self.file, frame);
            self.out.send(cx, frame);
        } else {
            self.out.complete(frame.len());
        }
    }

    /// Sends the `bytes` bytes in the buffer as the driver wants it. The number of frames that went out,
    /// or `None` if it could not be sent.
    fn send(
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
            Work::Segment { transport, mss } => {
                self.send_segments(cx, frame, (transport, mss, tag), segment)?
            }
            _ if bytes == 0 || bytes > self.limit => return None,
            work => {
                if let Work::Checksums { ip, transport, udp } = work {
                    offload::insert(frame, ip, transport, udp);
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
        (transport, mss, tag): (usize, usize, Option<[u8; 2]>),
        segment: &mut Vec<u8>,
    ) -> Option<usize> {
        let segmenter = Segmenter::new(frame, transport, mss)
            .filter(|segmenter| segmenter.most_bytes(frame) <= self.limit);
        let Some(segmenter) = segmenter else {
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

/// What was written back on a queue, of which the driver wants to be told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    any: bool,
    at_once: bool,
}

impl E1000e {
    /// The driver moves the tail of a ring.
    pub(super) fn transmit(&mut self, cx: &mut NicContext<'_>, queue: u16, tail: u16) {
        self.tx.engine.queue_mut(queue).format.tail = tail;
        if cx.is_strict() {
            // What is handed over by the tail is looked at before it is carried out.
            self.tx.engine.inspect(cx);
        }
        if self.tx.engine.is_open() {
            // Drivers write the tail while the transmitter is off, to set the ring up.
            self.tx.engine.check_doorbell(cx, queue);
        }
        if self.tx.engine.doorbell(cx, queue) {
            self.run_transmit(cx);
        }
    }

    /// TCTL's enable bit.
    pub(super) fn enable_transmit(&mut self, cx: &mut NicContext<'_>, on: bool) {
        self.tx.engine.enable(on);
        if on && self.tx.engine.start(cx) {
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
        let E1000e { tx, file, time, .. } = self;
        let Transmitter { engine, contexts, buffer, segment } = tx;
        let (limit, link) = (self.setup.max_frame_bytes, self.link);
        let mut told = [Told::default(); regs::QUEUES as usize];
        let TxRun { frames, ended } = engine.run(cx, |cx, out| {
            let queue = usize::from(out.queue);
            for words in out.chain.iter().map(|descriptor| descriptor.words) {
                told[queue].any |= words.reports();
                told[queue].at_once |= words.reports() && !words.is_delayed();
            }
            let (first, last) = (out.chain[0].words, out.chain[out.chain.len() - 1].words);
            if last.is_context() {
                if out.chain.len() == 1 {
                    contexts[queue] = Context::new(first);
                }
                return Ok(0);
            }
            if !out.usable {
                return Ok(0);
            }
            let bytes = out.collect(cx, &mut buffer[TAG_BYTES..])?;
            let request = Request::new(first, last, &contexts[queue]);
            let mut sender = Sender { out, file, time, limit, link };
            Ok(sender.send(cx, (buffer, segment), bytes, request).unwrap_or(0))
        });
        for (queue, told) in (0..).zip(told) {
            if told.any {
                self.intr.report_sent(cx, queue, told.at_once);
            }
        }
        match ended {
            Ok(true) if frames > 0 => self.intr.report(cx, regs::TXQE),
            Ok(_) => {}
            Err(_) => self.tx.engine.halt(),
        }
    }
}
