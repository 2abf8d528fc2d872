//! What leaves the card.
//!
//! The tail is the doorbell: it makes the card walk the ring up to there, within the register write, or with an
//! engine when the transfers are completed ([`crate::queue`]).

use super::device::Igb;
use super::offload;
use super::regs;
use super::tx_queue::{Transmitter, take_over};
use crate::NicContext;
use crate::intel::sender::Sender;
use crate::intel::stats;
use crate::intel::tx_ring::{TAG_BYTES, TxWords};
use crate::queue::TxRun;

impl Igb {
    /// The driver moves the tail of a ring.
    pub(super) fn transmit(&mut self, cx: &mut NicContext<'_>, queue: u16, tail: u16) {
        self.tx.engine.queue_mut(queue).format.ring.tail = tail;
        if cx.is_strict() {
            // What is handed over by the tail is looked at before it is carried out.
            self.tx.engine.inspect(cx);
        }
        if self.tx.engine.is_open() && self.tx.engine.queue(queue).format.enabled {
            // Drivers write the tail while the queue is off, to set the ring up.
            self.tx.engine.check_doorbell(cx, queue);
        }
        if self.tx.engine.doorbell(cx, queue) {
            self.run_transmit(cx);
        }
    }

    /// TXDCTL of a queue.
    pub(super) fn control_transmit_queue(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        let ring = &mut self.tx.engine.queue_mut(queue).format;
        let before = ring.enabled;
        take_over(ring, &self.file, queue);
        if ring.enabled && !before && self.tx.engine.doorbell(cx, queue) {
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

    /// The link has come or gone. Without one there is no DMA: what is queued waits for it, or for a reset (Linux
    /// igb_watchdog_task, "We've lost link, so the controller stops DMA"; i210, 8.18.11: a frame is deferred if the link
    /// is not up).
    pub(super) fn transmit_by_link(&mut self, cx: &mut NicContext<'_>) {
        if self.tx.engine.set_link(cx, self.link) {
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
        let octets_before = self.file.pair(regs::GOTCL);
        let Igb { tx, file, time, .. } = self;
        let Transmitter { engine, contexts, buffer, segment } = tx;
        let limit = self.setup.max_frame_bytes;
        // A bit for each queue.
        let mut told: u16 = 0;
        let TxRun { frames, ended } = engine.run(cx, |cx, out| {
            let queue = usize::from(out.queue);
            if out.chain.iter().any(|descriptor| descriptor.words.reports()) {
                told |= 1 << queue;
            }
            let (first, last) = (out.chain[0].words, out.chain[out.chain.len() - 1].words);
            if last.is_context() {
                if out.chain.len() == 1 {
                    offload::keep(&mut contexts[queue], first);
                }
                return Ok(0);
            }
            if !out.usable {
                return Ok(0);
            }
            let bytes = out.collect(cx, &mut buffer[TAG_BYTES..])?;
            let request = offload::request(first, &contexts[queue]);
            let mut sender = Sender { out, file, time, limit };
            Ok(sender.send(cx, (buffer, segment), bytes, request).unwrap_or(0))
        });
        // All that goes out is the host's (i210, 8.18.64 and 8.18.68).
        let octets = self.file.pair(regs::GOTCL).wrapping_sub(octets_before);
        stats::add(&mut self.file, regs::HGPTC, frames);
        stats::add_bytes(&mut self.file, regs::HGOTCL, octets as usize);
        for queue in (0..regs::QUEUES).filter(|queue| told >> queue & 1 != 0) {
            self.intr.report_sent(cx, queue);
        }
        if ended.is_err() {
            self.tx.engine.halt();
        }
    }
}
