//! What leaves the card.
//!
//! The tail is the doorbell: it makes the card walk the ring up to there, within the register write, or with an
//! engine when the transfers are completed ([`crate::queue`]).

use super::device::E1000e;
use super::offload::Context;
use super::regs;
use super::tx_queue::Transmitter;
use crate::NicContext;
use crate::intel::sender::Sender;
use crate::intel::tx_ring::{TAG_BYTES, TxWords};
use crate::queue::TxRun;

/// What was written back on a queue, of which the driver wants to be told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    any: bool,
    at_once: bool,
}

impl E1000e {
    /// The driver moves the tail of a ring.
    pub(super) fn transmit(&mut self, cx: &mut NicContext<'_>, queue: u16, tail: u16) {
        self.tx.engine.queue_mut(queue).format.ring.tail = tail;
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

    /// The link has come or gone. Without one there is no DMA: what is queued waits for it, or for a reset (Linux
    /// e1000_watchdog_task, "If the link is lost the controller stops DMA"; i210, 8.18.11: a frame is deferred if the
    /// link is not up).
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
        let E1000e { tx, file, time, .. } = self;
        let Transmitter { engine, contexts, buffer, segment } = tx;
        let limit = self.setup.max_frame_bytes;
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
            let request = contexts[queue].request(first, last);
            let mut sender = Sender { out, file, time, limit };
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
