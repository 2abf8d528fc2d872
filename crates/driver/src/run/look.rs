//! What the loop looks at now and then, and what it tells.

use warikomi_clock::{Span, Time};
use warikomi_pci::attach::layout::{orders, report};

use super::attachment::Attachment;
use super::error::RunError;
use super::machine::{DriverLoop, Parts, hardware};
use crate::strategy::{Receiver, Strategy};
use crate::{Hardware, Link, Upper};

/// Every so many passes it is asked whether something must be done now and then.
pub(super) const HOUSEKEEP_EVERY: u64 = 64;
/// How often the report is brought up to date while the driver is busy.
const REPORT_EVERY: Span = Span::from_us(100);
/// How long nothing must have happened before the driver does what takes long.
const IDLE: Span = Span::from_us(200);
/// How often the link and the support side are looked at, when idle or never asleep.
const LOOK_EVERY: Span = Span::from_ms(50);

impl DriverLoop {
    /// Whether the layer above can go on.
    pub(super) fn look_above<A, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
    ) -> Result<(), RunError> {
        on.upper.failure().map_or(Ok(()), |failure| Err(RunError::Upper(failure)))
    }

    /// When [`housekeep`](Self::housekeep) has something to do.
    pub(super) fn housekeeping_due(&self) -> Time {
        self.reported + REPORT_EVERY
    }

    /// What must be done now and then. Whether the orders say stop.
    #[inline]
    pub(super) fn housekeep<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<bool, RunError> {
        if now < self.housekeeping_due() {
            return Ok(false);
        }
        self.report(on, now);
        self.note(on);
        let idle = now.since(self.active) > IDLE;
        if idle {
            self.look_if_changed(on)?;
        }
        // One that stays awake never arms again, so a change of the link stands, and holds the level up, until it is
        // looked at: also when packets never pause.
        let awake = self.receiver.strategy() == Strategy::Awake;
        if (idle || awake) && now.since(self.looked) > LOOK_EVERY {
            self.looked = now;
            on.device.check_support()?;
            self.look_above(on)?;
            self.look_at_link(on)?;
            self.passed = None;
        }
        self.housekeep_orders(on, now)
    }

    pub(super) fn housekeep_orders<A: Attachment, U>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<bool, RunError> {
        if on.order(orders::STOP) != 0 {
            return Ok(true);
        }
        let strategy = ordered(on)?;
        if strategy != self.receiver.strategy() {
            self.receiver = Receiver::new(strategy, now);
            on.driver.disarm(hardware!(on))?;
        }
        self.heed_alert(on, now);
        Ok(false)
    }

    pub(super) fn look_if_changed<A: Attachment, U>(
        &mut self,
        on: &mut Parts<'_, A, U>,
    ) -> Result<(), RunError> {
        if std::mem::take(&mut self.link_changed) { self.look_at_link(on) } else { Ok(()) }
    }

    pub(super) fn look_at_link<A: Attachment, U>(
        &mut self,
        on: &mut Parts<'_, A, U>,
    ) -> Result<(), RunError> {
        let mbps = match on.driver.link(hardware!(on))? {
            Link::Down => 0,
            Link::Up { mbps } => mbps,
        };
        on.report(report::LINK_MBPS, mbps.into());
        Ok(())
    }

    pub(super) fn report<A: Attachment, U: Upper>(&mut self, on: &Parts<'_, A, U>, now: Time) {
        self.reported = now;
        let ns = |span: Span| span.as_ps() / 1_000;
        let (counts, totals) = (&self.counts, self.totals(on));
        let poll_ns = self.receiver.poll_time().map_or(u64::MAX, ns);
        for (word, value) in [
            (report::RX_PACKETS, totals.rx_packets),
            (report::RX_BYTES, totals.rx_bytes),
            (report::RX_ERRORS, totals.rx_errors),
            (report::RX_DROPPED, on.upper.dropped()),
            (report::TX_PACKETS, totals.tx_packets),
            (report::TX_BYTES, totals.tx_bytes),
            (report::TX_ERRORS, totals.tx_errors),
            (report::INTERRUPTS, on.device.window().interrupts_taken()),
            (report::POLLS, counts.polls),
            (report::EMPTY_POLLS, counts.empty_polls),
            (report::SLEEPS, counts.sleeps),
            (report::SLEPT_NS, ns(counts.slept)),
            (report::POLL_NS, poll_ns),
            (report::HICCUPS, counts.hiccups),
            (report::HICCUP_NS, ns(counts.hiccup_time)),
            // The last: whoever sees it sees the counts of this pass.
            (report::HEARTBEAT, self.passes),
        ] {
            on.report(word, value);
        }
    }
}

/// How the support side wants packets to be received.
#[inline]
pub(super) fn ordered<A: Attachment, U>(on: &Parts<'_, A, U>) -> Result<Strategy, RunError> {
    let words = [orders::STRATEGY, orders::POLL_NS, orders::BUDGET, orders::CPU_BUDGET_PPM];
    let words = words.map(|word| on.order(word));
    Strategy::from_orders(words).ok_or(RunError::BadOrders(words))
}
