//! The last look, and sleep.

use std::cell::RefCell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use warikomi_clock::Span;
use warikomi_pci::attach::layout::{orders, report};
use warikomi_shared::Woken;

use super::RunError;
use super::look::ordered;
use super::service::{Service, hardware};
use crate::strategy::Strategy;
use crate::{Hardware, Upper};

/// The longest part of a sleep in which nobody sees that the driver lives.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(100);
/// Of so many sleeps, the processor time of one is measured.
const MEASURED_SLEEP: u64 = 16;

impl<U: Upper> Service<'_, U> {
    /// Arms the interrupt, looks once more, and sleeps if there is nothing. Whether the orders say stop.
    #[cold]
    pub(super) fn rest(&mut self, budget: usize) -> Result<bool, RunError> {
        let from = self.device.now();
        self.report(from);
        self.note();
        let strategy = self.receiver.strategy();
        let measure = matches!(strategy, Strategy::Auto { .. })
            && (self.counts.sleeps < MEASURED_SLEEP
                || self.counts.sleeps.is_multiple_of(MEASURED_SLEEP));
        let cpu_before = measure.then(thread_time);
        let (mut found, mut slept) = (0, false);
        let mut sleeper = self.device.sleeper();
        // Shared by the two parts, of which the second only looks.
        let service = RefCell::new(&mut *self);
        let woken = sleeper.sleep_unless(
            || service.borrow_mut().nothing_to_do(budget, &mut found).map(|nothing| !nothing),
            || {
                slept = strategy != Strategy::Awake;
                service.borrow_mut().sleep(strategy)
            },
        );
        self.sink.upper.awake();
        woken?;
        self.look_above()?;
        let to = self.device.now();
        if slept {
            self.counts.sleeps += 1;
            self.counts.slept = self.counts.slept + to.since(from);
            if let Some(before) = cpu_before {
                self.receiver.sleep_cost(Span::from_ns(thread_time().saturating_sub(before)));
            }
            self.receiver.slept(from, to);
        } else {
            self.receiver.next(to, found);
        }
        // An interrupt's handler masks; without one, nobody else does.
        if !self.receiver.stays_armed() && !self.device.interrupt_pending() {
            self.driver.disarm(hardware!(self))?;
        }
        (self.passed, self.active) = (self.device.now(), to);
        self.worked = found as u64;
        self.look_if_changed()?;
        self.housekeep_orders()
    }

    /// The last look before a sleep; from here on, whatever comes ends the sleep.
    fn nothing_to_do(&mut self, budget: usize, found: &mut usize) -> Result<bool, RunError> {
        self.driver.arm(hardware!(self))?;
        self.receiver.armed();
        *found = self.look(budget)?;
        let above = self.sink.upper.prepare_to_sleep();
        let outstanding = self.unsent > 0 || self.waiting.is_some();
        let transmit = outstanding && self.transmit()? > 0;
        let ordered = self.device.order(orders::STOP) != 0
            || self.is_ordered_away()
            || ordered(self.device).ok() != Some(self.receiver.strategy());
        Ok(*found == 0 && !above && !transmit && !ordered && !self.device.interrupt_pending())
    }

    fn sleep(&mut self, strategy: Strategy) -> Result<Woken, RunError> {
        if strategy == Strategy::Awake {
            return Ok(Woken::Called);
        }
        self.device.report(report::ASLEEP, 1);
        let woken = self.sleep_on(strategy);
        self.device.report(report::ASLEEP, 0);
        woken
    }

    fn sleep_on(&mut self, strategy: Strategy) -> Result<Woken, RunError> {
        loop {
            let alerted = self.is_alerted();
            let longest = if alerted { Duration::ZERO } else { HEARTBEAT };
            let woken = self.device.wait(self.sink.upper.wakeup(), longest)?;
            self.passes += 1;
            self.device.report(report::HEARTBEAT, self.passes);
            let stop = self.device.order(orders::STOP) != 0;
            self.look_above()?;
            if woken == Woken::Called || stop || ordered(self.device).ok() != Some(strategy) {
                return Ok(Woken::Called);
            }
        }
    }
}

/// Processor time that this thread has taken, in nanoseconds.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
