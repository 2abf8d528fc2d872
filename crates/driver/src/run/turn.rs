//! How a driver comes by its device, and how it leaves it.

use warikomi_clock::Time;
use warikomi_pci::attach::layout::{orders, report, state, times};

use super::RunError;
use super::attachment::Attachment;
use super::look::ordered;
use super::machine::{DriverLoop, Parts, Phase, Step, hardware};
use super::succession::Waited;
use crate::state::{Counters, Held, Predecessor};
use crate::strategy::Receiver;
use crate::{Buffer, Hardware, Received, RxSink, Upper};

/// Whoever takes buffers that go back in another way.
struct DiscardSink;

impl RxSink for DiscardSink {
    fn buffer(&mut self) -> Option<Buffer> {
        None
    }

    fn received(&mut self, _: Buffer, _: Received) {}

    fn returned(&mut self, _: Buffer) {}
}

impl DriverLoop {
    /// Waits until the device is ours.
    pub(super) fn wait<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Step, RunError> {
        self.phase = Phase::Waiting;
        let Some(succession) = &self.succession else { return Ok(Step::Ended { waiting: true }) };
        match succession.wait(on.device, self.alert)? {
            Waited::Turn(opening) => self.phase = Phase::Opening(opening),
            Waited::Stop => {
                self.phase = Phase::Ended;
                self.end(on, now);
                return Ok(Step::Ended { waiting: true });
            }
            Waited::Alert(order) => {
                self.alert = order;
                self.rehearse(on);
                on.report(report::STATE, state::ALERT);
            }
            Waited::Other { generation } => return Ok(Step::AwaitBaton { generation }),
        }
        Ok(Step::Again)
    }

    /// Brings code and memory that will be needed close to the processor.
    fn rehearse<A: Attachment, U: Upper>(&mut self, on: &mut Parts<'_, A, U>) {
        let Some(succession) = &self.succession else { return };
        let shown = on.upper.shown();
        if succession.keep_state(on.driver, shown).is_ok() {
            let held = on.driver.rehearse(hardware!(on), shown);
            on.upper.rehearse(&held);
        }
    }

    /// Resets the device. What predecessors had goes back to the layer above.
    pub(super) fn start<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
    ) -> Result<(), RunError> {
        if let Some(succession) = &self.succession {
            let driven = succession.was_driven();
            succession.accept();
            if driven {
                // A device that still runs would write to buffers that go back. One that does not answer is
                // found out below. All buffers go back below, also those that a rehearsal has found.
                let _ = on.driver.quiesce(hardware!(on), &mut DiscardSink, &mut |_| ());
            }
            let forgotten = on.upper.forget();
            on.upper.flush();
            on.report(report::FORGOTTEN_BUFFERS, forgotten.buffers);
            on.report(report::FORGOTTEN_FRAMES, forgotten.frames);
            succession.keep_state(on.driver, on.upper.shown())?;
        }
        (self.waiting, self.unsent) = (None, 0);
        let most = on.driver.info().rx_descriptors;
        let buffers = match on.order(orders::BUFFERS) {
            0 => most,
            buffers => usize::try_from(buffers).map_or(most, |buffers| buffers.min(most)),
        };
        let rings = on.device.dma().0;
        Ok(on.driver.init(hardware!(on), rings, buffers, on.upper)?)
    }

    /// Finds out where another driver stopped, and goes on there: what it had.
    pub(super) fn take_over<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        predecessor: Predecessor,
    ) -> Result<Held, RunError> {
        let Some(succession) = &self.succession else { return Ok(Held::default()) };
        succession.fetch()?;
        let shown = on.upper.shown();
        succession.keep_state(on.driver, shown)?;
        Ok(on.driver.take_over(hardware!(on), predecessor, shown)?)
    }

    /// The device is this driver's now, with what the predecessor had.
    pub(super) fn accept<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        held: &Held,
    ) -> Result<(), RunError> {
        let Some(succession) = &self.succession else { return Ok(()) };
        succession.accept();
        on.upper.resume(held)?;
        (self.waiting, self.unsent) = (None, held.sending.len() as u64);
        if let Some(counted) = succession.counted() {
            self.adopt_counters(on, counted);
        }
        Ok(())
    }

    /// The turn begins.
    pub(super) fn begin<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<(), RunError> {
        on.stamp(times::ACCEPTED);
        self.receiver = Receiver::new(ordered(on)?, now);
        (self.passed, self.active) = (None, now);
        self.phase = Phase::Pass { first: true };
        Ok(())
    }

    /// Serves the device for the first time in this turn.
    pub(super) fn first_pass<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
        now: Time,
    ) -> Result<Step, RunError> {
        self.phase = Phase::Pass { first: false };
        self.passes += 1;
        let handled = self.handle_interrupts(on)?;
        let step = self.look_at_all(on, now, handled)?;
        on.stamp(times::SERVED);
        if self.succession.is_some() {
            on.upper.wake();
        }
        self.look_at_link(on)?;
        self.report(on, now);
        on.report(report::STATE, state::READY);
        Ok(step)
    }

    /// Whether there is an order to hand over that was not looked at.
    #[inline]
    pub(super) fn is_ordered_away<A: Attachment, U>(&self, on: &Parts<'_, A, U>) -> bool {
        on.order(orders::HAND_OVER) != self.answered
    }

    /// Leaves the device as a successor needs it; `false` if that was called off, or cannot be, and this driver
    /// goes on.
    #[cold]
    pub(super) fn hand_over<A: Attachment, U: Upper>(&mut self, on: &mut Parts<'_, A, U>) -> bool {
        self.answered = on.order(orders::HAND_OVER);
        // Word of this very order, which may not have been heeded: it is not about the next turn.
        self.alert = on.order(orders::ALERT);
        let Some(succession) = &self.succession else { return false };
        let Some(to) = succession.successor(self.answered) else { return false };
        on.stamp(times::ORDER_SEEN);
        on.upper.flush();
        self.note(on);
        if let Err(error) = succession.record(on.driver) {
            eprintln!("driver: it keeps its device, which it cannot hand over: {error}");
            return false;
        }
        self.phase = Phase::Giving(to);
        true
    }

    /// Gives the device away.
    pub(super) fn give<A: Attachment, U: Upper>(&mut self, on: &mut Parts<'_, A, U>, to: u32) {
        on.stamp(times::HANDED_OVER);
        if let Some(succession) = &self.succession {
            succession.give(to);
            on.device.wake_successor();
        }
        self.phase = Phase::Waiting;
        on.report(report::STATE, state::HANDED_OVER);
    }

    /// What is counted from driver to driver.
    pub(super) fn totals<A, U>(&self, on: &Parts<'_, A, U>) -> Counters {
        let counts = &self.counts;
        Counters {
            rx_packets: self.received.packets,
            rx_bytes: self.received.bytes,
            rx_errors: counts.rx_errors_before.wrapping_add(on.driver.rx_errors()),
            tx_packets: counts.tx_packets,
            tx_bytes: counts.tx_bytes,
            tx_errors: counts.tx_errors,
        }
    }

    fn adopt_counters<A, U>(&mut self, on: &Parts<'_, A, U>, counted: Counters) {
        (self.received.packets, self.received.bytes) = (counted.rx_packets, counted.rx_bytes);
        let counts = &mut self.counts;
        counts.rx_errors_before = counted.rx_errors.wrapping_sub(on.driver.rx_errors());
        counts.tx_packets = counted.tx_packets;
        counts.tx_bytes = counted.tx_bytes;
        counts.tx_errors = counted.tx_errors;
    }

    /// Lets a successor know what was counted, as of now. Only while the device is ours.
    pub(super) fn note<A, U>(&self, on: &Parts<'_, A, U>) {
        if let Some(succession) = &self.succession {
            succession.note(&self.totals(on));
        }
    }

    /// Whatever happened before: the device is stopped, and everything goes back.
    pub(super) fn quiesce<A: Attachment, U: Upper>(
        &mut self,
        on: &mut Parts<'_, A, U>,
    ) -> Result<(), RunError> {
        let mut sent = Vec::new();
        let mut sink = self.received.counted(on.upper);
        let quiesced = on.driver.quiesce(hardware!(on), &mut sink, &mut |token| sent.push(token));
        let waiting = self.waiting.take().map(|frame| frame.token());
        sent.into_iter().chain(waiting).for_each(|token| on.upper.sent(token));
        on.upper.flush();
        Ok(quiesced?)
    }
}
