//! What leaves the chip.
//!
//! A doorbell makes the chip walk its rings until it comes to a descriptor that it does not own: within
//! the register write, or with an engine when the transfers are completed ([`crate::queue`]).

use super::device::Rtl8168;
use super::offload::Request;
use super::tx_queue::Transmitter;
use super::{intr, regs};
use crate::NicContext;
use crate::queue::TxRun;
use crate::realtek::sender::{Sender, TAG_BYTES};

/// Unit of MaxTxPacketSize.
const SIZE_UNIT: usize = 128;

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
