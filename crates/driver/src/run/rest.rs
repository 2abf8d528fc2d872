//! The last look, and sleep: arm, look once more, sleep, wake up. The window says that the driver sleeps from
//! before the first until after the last, so that whatever comes rings.

use std::time::Duration;

use warikomi_clock::{Span, Time};
use warikomi_pci::attach::layout::{orders, report};
use warikomi_shared::Woken;

use super::attachment::Attachment;
use super::error::RunError;
use super::look::ordered;
use super::machine::{DriverLoop, Parts, Rest, Step, hardware};
use crate::strategy::Strategy;
use crate::{Hardware, Upper};

/// The longest part of a sleep in which nobody sees that the driver lives.
pub const HEARTBEAT: Duration = Duration::from_millis(100);
/// Of so many sleeps, the processor time of one is measured.
const MEASURED_SLEEP: u64 = 16;
/// How long the order to give the baton away is waited for awake.
const AWAKE_FOR: Span = Span::from_ms(1);

impl DriverLoop {
    /// Whatever comes from here on rings; arms the interrupt.
    pub(super) fn arm<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<(), RunError> {
        self.report(on, now);
        self.note(on);
        let measure = matches!(self.receiver.strategy(), Strategy::Auto { .. })
            && (self.counts.sleeps < MEASURED_SLEEP
                || self.counts.sleeps.is_multiple_of(MEASURED_SLEEP));
        let processor_before = measure.then(|| on.device.processor_time());
        self.rest = Rest { from: now, processor_before, ..Rest::default() };
        on.device.window().sleeper().announce();
        on.driver.arm(hardware!(on))?;
        self.receiver.armed();
        Ok(())
    }

    /// The last look before a sleep; the sleep, if there is nothing to do.
    pub(super) fn last_look<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
        budget: usize,
    ) -> Result<Option<Step>, RunError> {
        self.rest.found = self.look(on, budget)?;
        let above = on.upper.prepare_to_sleep();
        let outstanding = self.unsent > 0 || self.waiting.is_some();
        let transmit = outstanding && self.transmit(on)? > 0;
        let ordered = self.is_ordered_otherwise(on) || self.is_ordered_away(on);
        let pending = on.device.window().interrupt_pending();
        if self.rest.found > 0 || above || transmit || ordered || pending {
            return Ok(None);
        }
        if self.receiver.strategy() == Strategy::Awake {
            return Ok(None);
        }
        self.rest.slept = true;
        on.report(report::ASLEEP, 1);
        Ok(Some(self.sleep(on, now)))
    }

    fn sleep<A: Attachment, U>(&mut self, on: &mut Parts<'_, A, U>, now: Time) -> Step {
        self.heed_alert(on, now);
        let longest = if now < self.awake_until {
            Span::ZERO
        } else {
            Span::from_us(HEARTBEAT.as_micros() as u64)
        };
        Step::Sleep { longest }
    }

    /// The wait is over; another one, if only the time was.
    pub(super) fn sleep_on<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Option<Step>, RunError> {
        let woken = self.woken?;
        self.passes += 1;
        on.report(report::HEARTBEAT, self.passes);
        self.look_above(on)?;
        let called = woken == Woken::Called || self.is_ordered_otherwise(on);
        Ok((!called).then(|| self.sleep(on, now)))
    }

    /// Whether the orders say stop, or another strategy.
    fn is_ordered_otherwise<A: Attachment, U>(&self, on: &Parts<'_, A, U>) -> bool {
        on.order(orders::STOP) != 0 || ordered(on).ok() != Some(self.receiver.strategy())
    }

    /// The driver is awake again, or has not slept at all. Whether the orders say stop.
    pub(super) fn wake_up<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<bool, RunError> {
        on.report(report::ASLEEP, 0);
        on.device.window().sleeper().retract();
        on.upper.awake();
        self.look_above(on)?;
        let Rest { from, found, slept, processor_before } = self.rest;
        if slept {
            self.counts.sleeps += 1;
            self.counts.slept += now.since(from);
            if let Some(before) = processor_before {
                let taken = on.device.processor_time().as_ps().saturating_sub(before.as_ps());
                self.receiver.sleep_cost(Span::from_ps(taken));
            }
            self.receiver.slept(from, now);
        } else {
            self.receiver.next(now, found);
        }
        // An interrupt's handler masks; without one, nobody else does.
        if !self.receiver.stays_armed() && !on.device.window().interrupt_pending() {
            on.driver.disarm(hardware!(on))?;
        }
        (self.passed, self.active, self.worked) = (None, now, found as u64);
        self.look_if_changed(on)?;
        self.housekeep_orders(on, now)
    }

    /// Looks for word that the device is about to be handed over: a sleep would cost a wake-up then, and what is needed
    /// is brought near.
    pub(super) fn heed_alert<A: Attachment, U>(&mut self, on: &mut Parts<'_, A, U>, now: Time) {
        let order = on.order(orders::ALERT);
        if order == self.alert {
            return;
        }
        (self.alert, self.awake_until) = (order, now + AWAKE_FOR);
        if let Some(succession) = &self.succession {
            succession.rehearse_record(on.driver);
        }
    }
}
