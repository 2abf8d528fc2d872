//! One look at everything.

use warikomi_clock::{Span, Time};

use super::attachment::Attachment;
use super::error::RunError;
use super::machine::{DriverLoop, Parts, hardware};
use crate::{DriverError, Hardware, TxFrame, Upper};

/// Two passes further apart than this, with nothing to do in between, are a hiccup.
const HICCUP: Span = Span::from_us(2);
/// What a packet may add to that.
const WORK_PER_PACKET: Span = Span::from_ns(250);
/// The same of the steps by which the driver goes to sleep, or does not: they wait for answers of the device.
const REST_HICCUP: Span = Span::from_us(50);
/// Frames transmitted in a pass.
const TRANSMIT_BUDGET: usize = 64;
/// More interrupts than this at once are those of a support side that lies.
const INTERRUPT_BUDGET: u64 = 512;

impl DriverLoop {
    /// Whether the core was taken between two passes.
    #[inline]
    pub(super) fn watch(&mut self, now: Time) {
        self.watch_for(now, HICCUP);
    }

    /// Whether it was taken since the last pass or step of a rest.
    pub(super) fn watch_rest(&mut self, now: Time) {
        self.watch_for(now, REST_HICCUP);
    }

    #[inline]
    fn watch_for(&mut self, now: Time, longest: Span) {
        let Some(passed) = self.passed.replace(now) else { return };
        let gap = now.since(passed);
        if gap > longest && gap > longest + WORK_PER_PACKET * self.worked {
            self.counts.hiccups += 1;
            self.counts.hiccup_time += gap;
        }
    }

    #[inline]
    pub(super) fn handle_interrupts<A: Attachment, U>(
        &mut self,
        on: &mut Parts<'_, A, U>,
    ) -> Result<u64, RunError> {
        let mut handled = 0;
        while handled < INTERRUPT_BUDGET {
            let Some(message) = on.device.take_interrupt() else { break };
            for vector in on.driver.info().vectors_of(message) {
                let causes = if self.receiver.stays_armed() {
                    on.driver.acknowledge(hardware!(on), vector)?
                } else {
                    on.driver.on_interrupt(hardware!(on), vector)?
                };
                self.link_changed |= causes.link;
            }
            handled += 1;
        }
        Ok(handled)
    }

    #[inline]
    pub(super) fn look<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        budget: usize,
    ) -> Result<usize, RunError> {
        let mut sink = self.received.counted(on.upper);
        let found = on.driver.poll(hardware!(on), budget, &mut sink)?;
        self.counts.polls += 1;
        self.counts.empty_polls += u64::from(found == 0);
        on.upper.flush();
        Ok(found)
    }

    /// Frames handed to the device, and frames that it is done with.
    #[inline]
    pub(super) fn transmit<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
    ) -> Result<u64, RunError> {
        let (mut handed, mut refused) = (0, 0);
        while handed + refused < TRANSMIT_BUDGET {
            let Some(frame) = self.waiting.take().or_else(|| on.upper.next_transmit()) else {
                break;
            };
            let pieces = TxFrame { pieces: frame.pieces(), token: frame.token(), segments: None };
            match on.driver.transmit(hardware!(on), pieces) {
                Ok(true) => {
                    self.counts.tx_packets += 1;
                    self.counts.tx_bytes += frame.bytes();
                    self.unsent += 1;
                    handed += 1;
                }
                Ok(false) => {
                    self.waiting = Some(frame);
                    break;
                }
                // The layer above has made no frame; that ends nothing but the frame. It goes back behind
                // those before it.
                Err(DriverError::Invalid(_)) if self.unsent > 0 => {
                    self.waiting = Some(frame);
                    break;
                }
                Err(DriverError::Invalid(_)) => {
                    self.counts.tx_errors += 1;
                    on.upper.not_sent(frame.token());
                    on.upper.flush();
                    refused += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if handed > 0 {
            // What the device may send has been taken: a driver that is started after this one has died, and
            // knows nothing, does not send it once more.
            on.upper.flush();
            on.driver.kick(hardware!(on))?;
        }
        if self.unsent == 0 {
            return Ok(refused as u64);
        }
        let upper = &mut *on.upper;
        let sent = on.driver.reclaim(hardware!(on), &mut |token| upper.sent(token))? as u64;
        self.unsent = self.unsent.saturating_sub(sent);
        if sent > 0 {
            on.upper.flush();
        }
        Ok(sent + (handed + refused) as u64)
    }
}
