//! What the driver pushes, and what the engine sends of it.
//!
//! The bytes of a descriptor are moved when its transfer is completed, so the driver may not touch them
//! before.

use super::card::Framing;
use super::device::DescriptorFifo;
use super::fifo::Fifo;
use super::regs;
use super::tx_queue::{Packet, Request, Transmitter};
use crate::NicContext;
use crate::checksum::{TCP, type_behind_tag};
use crate::queue::{Outgoing, TxFormat};
use crate::segment::{Headers, Segmenter};
use crate::strict::{FindingKind, Place};

impl DescriptorFifo {
    /// TX_PUSH: the driver pushes a descriptor. One for which there is no room is lost.
    #[inline]
    pub(super) fn push_transmit(&mut self, cx: &mut NicContext<'_>, command: u32) {
        let head = self.tx.engine.queue(0).head();
        if self.tx.fifo_mut().push(head, command, cx.now()) {
            self.tx.engine.doorbell(cx, 0);
        } else {
            let which = (FindingKind::FifoFull, Place::TxQueue(0));
            cx.note(which, Fifo::SOURCE, || {
                "a descriptor was pushed, and there was no room".into()
            });
            self.intr.report(cx, regs::TX_OVERRUN);
        }
    }

    /// The alarm: completes the transfers that are due.
    pub(super) fn complete_transfers(&mut self, cx: &mut NicContext<'_>) {
        let Transmitter { engine, packet, buffer, segment, max_frame_bytes } = &mut self.tx;
        if !engine.timer(cx) {
            return;
        }
        let (link, mut report) = (self.link, 0);
        let mut sender = Sender {
            framing: self.card.sheet.framing,
            link,
            max_frame_bytes: *max_frame_bytes,
            segment,
        };
        let run = engine.run(cx, |cx, out| {
            let cut_off = out.chain[0].first && *packet != Packet::None;
            *packet = packet.collect(cx, out, buffer, sender.max_frame_bytes)?;
            report |= if cut_off { regs::TX_OVERRUN } else { 0 };
            if out.chain[0].last {
                report |= regs::TX_DONE;
                let whole = std::mem::replace(packet, Packet::None);
                report |= if sender.send(cx, out, whole, buffer) { 0 } else { regs::TX_OVERRUN };
            }
            out.hold(if let Packet::Good(bytes, _) = packet { *bytes } else { 0 });
            Ok(0)
        });
        if run.ended.is_err() {
            self.system_error(cx);
        }
        self.intr.report(cx, report);
    }
}

/// What makes frames of the packets that have been transferred.
struct Sender<'a> {
    framing: Framing,
    link: bool,
    max_frame_bytes: usize,
    segment: &'a mut Vec<u8>,
}

impl Sender<'_> {
    /// Sends a packet, which stands in `buffer`; `false`, and nothing sent, if it makes no frame.
    fn send(
        &mut self,
        cx: &mut NicContext<'_>,
        out: &mut Outgoing<'_, Fifo>,
        packet: Packet,
        buffer: &mut [u8],
    ) -> bool {
        match packet {
            Packet::Good(bytes, Request::Whole) if bytes > 0 => {
                let padded = self.framing.padded_bytes(bytes);
                buffer[bytes..padded].fill(0);
                self.put_on_line(cx, out, &buffer[..padded], bytes);
                true
            }
            Packet::Good(bytes, Request::Segments { transport, mss }) => {
                self.send_segments(cx, out, &buffer[..bytes], (transport, mss))
            }
            _ => false,
        }
    }

    /// Cuts a packet into segments and sends these.
    fn send_segments(
        &mut self,
        cx: &mut NicContext<'_>,
        out: &mut Outgoing<'_, Fifo>,
        packet: &[u8],
        (transport, mss): (usize, usize),
    ) -> bool {
        let ether_type = type_behind_tag(packet);
        let headers = ether_type.and_then(|at| Headers::find(packet, at, transport));
        let headers = headers.filter(|headers| headers.lead_to(packet, TCP));
        let segmenter = headers.and_then(|headers| Segmenter::new(packet, headers, mss));
        let Some(segmenter) = segmenter.map(|it| it.with_sums_of_its_own(packet)) else {
            return false;
        };
        if segmenter.most_bytes(packet) > self.max_frame_bytes {
            return false;
        }
        let mut segment = std::mem::take(self.segment);
        for index in 0..segmenter.count(packet) {
            segmenter.segment(packet, index, 0, &mut segment);
            let bytes = segment.len();
            segment.resize(self.framing.padded_bytes(bytes), 0);
            self.put_on_line(cx, out, &segment, bytes);
        }
        *self.segment = segment;
        true
    }

    /// Sends a frame of so many bytes, which has been padded; it is lost if the link is down.
    fn put_on_line(
        &self,
        cx: &mut NicContext<'_>,
        out: &mut Outgoing<'_, Fifo>,
        padded: &[u8],
        bytes: usize,
    ) {
        if self.link {
            out.send(cx, padded);
        } else {
            out.complete(bytes);
        }
    }
}
