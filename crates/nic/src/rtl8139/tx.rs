//! What leaves the chip.
//!
//! A doorbell is a write that gives a slot to the chip, or, in C+ mode, TPPoll. It makes the chip go through its slots
//! in turn, or its rings, until it comes to one that it does not own: within the register write, or with an engine
//! when the transfers are completed ([`crate::queue`]).

use super::device::Rtl8139;
use super::tx_queue::Transmitter;
use super::{offload, regs};
use crate::NicContext;
use crate::queue::TxRun;
use crate::realtek::sender::{Sender, TAG_BYTES};

impl Rtl8139 {
    /// The driver has given a slot to the chip.
    pub(super) fn transmit_slot(&mut self, cx: &mut NicContext<'_>) {
        if cx.is_strict() {
            // It may be used before there is another look.
            self.tx.slots.inspect(cx);
        }
        self.tx.slots.check_doorbell(cx, 0);
        if self.tx.slots.doorbell(cx, 0) {
            self.run_slots(cx);
        }
    }

    /// Handles a write to TPPoll.
    pub(super) fn transmit_ring(&mut self, cx: &mut NicContext<'_>, queue: u16) {
        self.tx.rings.check_doorbell(cx, queue);
        if self.tx.rings.is_open() && self.tx.rings.doorbell(cx, queue) {
            self.run_rings(cx);
        }
    }

    /// The timer of the slots: takes up what takes its time.
    pub(super) fn slots_rest(&mut self, cx: &mut NicContext<'_>) {
        if self.tx.slots.timer(cx) {
            self.run_slots(cx);
        }
    }

    /// The timer of the rings: the same, or what a bounded walk has left.
    pub(super) fn rings_rest(&mut self, cx: &mut NicContext<'_>) {
        if self.tx.rings.timer(cx) {
            self.run_rings(cx);
        }
    }

    /// The transmitter is switched on: what was given to it before goes out.
    pub(super) fn start_slots(&mut self, cx: &mut NicContext<'_>) {
        if self.tx.slots.start(cx) {
            self.run_slots(cx);
        }
    }

    /// Sends what is due from the slots, as it is: the chip does not pad (8139too.c, rtl8139_start_xmit).
    fn run_slots(&mut self, cx: &mut NicContext<'_>) {
        let limit = self.setup.max_frame_bytes;
        let Rtl8139 { tx, tally, phy, .. } = self;
        let Transmitter { slots, buffer, .. } = tx;
        let (link, mut errors) = (phy.mode().is_some(), false);
        let run = slots.run(cx, |cx, out| {
            let mut sent = 0;
            if out.usable {
                let bytes = out.collect(cx, buffer)?;
                if link && bytes <= limit {
                    out.send(cx, &buffer[..bytes]);
                    sent = 1;
                }
            }
            tally.tx_packets += sent as u64;
            tally.tx_errors += u64::from(sent == 0);
            errors |= sent == 0;
            Ok(sent)
        });
        self.report_sent(cx, run, errors, 0);
    }

    /// Sends what is due from the rings.
    fn run_rings(&mut self, cx: &mut NicContext<'_>) {
        let limit = self.setup.max_frame_bytes;
        let Rtl8139 { tx, tally, phy, .. } = self;
        let Transmitter { rings, buffer, segment, .. } = tx;
        let (link, mut errors) = (phy.mode().is_some(), false);
        let run = rings.run(cx, |cx, out| {
            let mut sent = 0;
            if out.usable {
                let bytes = out.collect(cx, &mut buffer[TAG_BYTES..])?;
                let [opts1, opts2] = out.chain[0].words;
                if link {
                    let work = offload::work(opts1, &buffer[TAG_BYTES..TAG_BYTES + bytes]);
                    let mut sender = Sender { out, limit, tag: offload::tag(opts2) };
                    sent = sender.send(cx, (buffer, segment), bytes, work).unwrap_or(0);
                }
            }
            tally.tx_packets += sent as u64;
            tally.tx_errors += u64::from(sent == 0);
            errors |= sent == 0;
            Ok(sent)
        });
        self.report_sent(cx, run, errors, regs::TX_DESC_UNAVAIL);
    }

    /// Reports what a run has done; `at_end` is for one that has come to the end of its queues.
    fn report_sent(&mut self, cx: &mut NicContext<'_>, run: TxRun, errors: bool, at_end: u32) {
        let mut report = if run.frames > 0 { regs::TX_OK } else { 0 };
        report |= if errors { regs::TX_ERR } else { 0 };
        match run.ended {
            Ok(true) => report |= at_end,
            Ok(false) => {}
            Err(_) => {
                self.tx.halt();
                report |= regs::SYS_ERR;
            }
        }
        self.intr.report(cx, report);
    }
}
