//! What the driver pushes, and what the engine sends of it.
//!
//! The bytes of a descriptor are moved when its transfer is completed, so the driver may not touch them
//! before.

use super::device::DescriptorFifo;
use super::fifo::Fifo;
use super::regs;
use super::tx_queue::{Packet, Transmitter};
use crate::NicContext;
use crate::queue::TxFormat;
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
        let Transmitter { engine, packet, buffer } = &mut self.tx;
        if !engine.timer(cx) {
            return;
        }
        let (link, mut report) = (self.link, 0);
        let framing = self.card.sheet.framing;
        let run = engine.run(cx, |cx, out| {
            let cut_off = out.chain[0].first && *packet != Packet::None;
            *packet = packet.collect(cx, out, buffer)?;
            report |= if cut_off { regs::TX_OVERRUN } else { 0 };
            if out.chain[0].last {
                report |= regs::TX_DONE;
                match std::mem::replace(packet, Packet::None) {
                    Packet::Good(bytes) if bytes > 0 && link => {
                        let padded = framing.padded_bytes(bytes);
                        buffer[bytes..padded].fill(0);
                        out.send(cx, &buffer[..padded]);
                    }
                    Packet::Good(bytes) if bytes > 0 => out.complete(bytes),
                    _ => report |= regs::TX_OVERRUN,
                }
            }
            out.hold(if let Packet::Good(bytes) = packet { *bytes } else { 0 });
            Ok(0)
        });
        if run.ended.is_err() {
            self.system_error(cx);
        }
        self.intr.report(cx, report);
    }
}
