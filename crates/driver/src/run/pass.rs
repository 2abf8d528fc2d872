//! One look at everything.

use warikomi_clock::{Span, Time};

use super::RunError;
use super::service::{Service, hardware};
use crate::strategy::Next;
use crate::{Buffer, DriverError, Hardware, Received, RxSink, TxFrame, Upper};

/// Two passes further apart than this, with nothing to do in between, are a hiccup.
const HICCUP: Span = Span::from_us(2);
/// What a packet may add to that.
const WORK_PER_PACKET: Span = Span::from_ns(250);
/// Frames transmitted in a pass.
const TRANSMIT_BUDGET: usize = 64;

/// Counts what goes up.
pub(super) struct Counted<'a, U> {
    pub(super) upper: &'a mut U,
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl<U: Upper> RxSink for Counted<'_, U> {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        self.upper.buffer()
    }

    #[inline]
    fn received(&mut self, frame: Received) {
        self.packets += 1;
        self.bytes += u64::from(frame.bytes);
        self.upper.received(frame);
    }

    fn returned(&mut self, buffer: Buffer) {
        self.upper.returned(buffer);
    }

    fn named(&self, token: u32) -> Option<Buffer> {
        self.upper.named(token)
    }
}

impl<U: Upper> Service<'_, U> {
    /// One look at everything.
    #[inline]
    pub(super) fn pass(&mut self) -> Result<Next, RunError> {
        self.passes += 1;
        let begun = self.device.now();
        self.watch(begun);
        let interrupts = self.handle_interrupts()?;
        let found = self.look(self.receiver.budget())?;
        let sent = self.transmit()?;
        self.worked = found as u64 + sent + interrupts;
        // With nothing found, the time has hardly changed.
        let now = if self.worked > 0 { self.device.now() } else { begun };
        if self.worked > 0 {
            self.active = now;
        }
        Ok(self.receiver.next(now, found))
    }

    /// Whether the core was taken between two passes.
    #[inline]
    fn watch(&mut self, now: Time) {
        let gap = now.since(self.passed);
        if gap > HICCUP && gap > HICCUP + WORK_PER_PACKET * self.worked {
            self.counts.hiccups += 1;
            self.counts.hiccup_time = self.counts.hiccup_time + gap;
        }
        self.passed = now;
    }

    #[inline]
    fn handle_interrupts(&mut self) -> Result<u64, RunError> {
        let mut handled = 0;
        // More than a ring's worth of them at once is a support side that lies.
        while handled < 512 && self.device.take_interrupt() {
            let causes = if self.receiver.stays_armed() {
                self.driver.acknowledge(hardware!(self))?
            } else {
                self.driver.on_interrupt(hardware!(self))?
            };
            self.link_changed |= causes.link;
            handled += 1;
        }
        Ok(handled)
    }

    #[inline]
    pub(super) fn look(&mut self, budget: usize) -> Result<usize, RunError> {
        let found = self.driver.poll(hardware!(self), budget, &mut self.sink)?;
        self.counts.polls += 1;
        self.counts.empty_polls += u64::from(found == 0);
        self.sink.upper.flush();
        Ok(found)
    }

    /// Frames handed to the device, and frames that it is done with.
    #[inline]
    pub(super) fn transmit(&mut self) -> Result<u64, RunError> {
        let (mut handed, mut refused) = (0, 0);
        while handed + refused < TRANSMIT_BUDGET {
            let Some(frame) = self.waiting.take().or_else(|| self.sink.upper.next_transmit())
            else {
                break;
            };
            let pieces = TxFrame { pieces: frame.pieces(), token: frame.token() };
            match self.driver.transmit(hardware!(self), pieces) {
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
                // Whoever is above has made no frame; that ends nothing but the frame. It goes back behind
                // those before it.
                Err(DriverError::Invalid(_)) if self.unsent > 0 => {
                    self.waiting = Some(frame);
                    break;
                }
                Err(DriverError::Invalid(_)) => {
                    self.counts.tx_errors += 1;
                    self.sink.upper.not_sent(frame.token());
                    self.sink.upper.flush();
                    refused += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if handed > 0 {
            self.driver.kick(hardware!(self))?;
        }
        if self.unsent == 0 {
            return Ok(refused as u64);
        }
        let upper = &mut *self.sink.upper;
        let sent = self.driver.reclaim(hardware!(self), &mut |token| upper.sent(token))? as u64;
        self.unsent = self.unsent.saturating_sub(sent);
        if sent > 0 {
            self.sink.upper.flush();
        }
        Ok(sent + (handed + refused) as u64)
    }
}
