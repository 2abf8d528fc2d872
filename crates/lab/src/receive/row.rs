//! A row of a comparison, and what is worked out of the packets of one.

use serde::{Deserialize, Serialize};
use warikomi_clock::Time;
use warikomi_inject::{Plan, Receiver};
use warikomi_measure::{Delay, Ledger, Samples, published};

use crate::Error;

/// What one strategy did with one poll time, buffer and burst. What does not apply, or could not be
/// had, is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The strategy's name.
    pub strategy: String,
    /// How long it polls before it waits for an interrupt, in microseconds.
    pub poll_us: Option<u64>,
    /// The receive buffer that there was, in bytes: as much of what was asked for as whole buffers make up.
    pub buffer_bytes: u64,
    /// What was asked for, if that is no number of whole buffers.
    pub asked_buffer_bytes: Option<u64>,
    /// Length of a burst in bytes.
    pub burst_bytes: u64,
    /// The share of the line (0 to 1) that bursts take up in the mean.
    pub load_share: Option<f64>,
    /// The line in bit/s, where rows differ in it.
    pub line_rate_bps: Option<u64>,
    /// How many times as fast as declared the processor is, where rows differ in it.
    pub cpu_speed: Option<f64>,
    /// Whether what receives has real-time priority, where that was asked for.
    pub real_time: Option<bool>,
    /// For how many milliseconds something had the core that was to take it away.
    pub stalled_ms: Option<f64>,
    /// With what claim on the core it did.
    pub stalled_by: Option<String>,
    /// The share of the target's processor time (0 to 1) that receiving took from the compute job.
    pub cpu_share: Option<f64>,
    /// The published share of user-level polling with this poll time.
    pub published_cpu_share: Option<f64>,
    /// The share of packets (0 to 1) that did not reach the application.
    pub lost_share: Option<f64>,
    /// The published share of user-level polling with this poll time, buffer and length of messages.
    pub published_lost_share: Option<f64>,
    /// From the deadline of a burst's last packet until the application has it (the driver,
    /// if there is no application).
    pub delay_us: Option<Delay>,
    /// Interrupts that the device raised.
    pub interrupts: Option<u64>,
    /// Times that the receiver went to sleep.
    pub sleeps: Option<u64>,
    /// Times that it looked whether something had come.
    pub polls: Option<u64>,
    /// The poll time that it had chosen at the end, in microseconds, where it chooses.
    pub poll_now_us: Option<f64>,
    /// Packets that were to be injected.
    pub planned: Option<u64>,
    /// Packets that reached the application.
    pub delivered: Option<u64>,
    /// Packets that did not.
    pub lost: Option<u64>,
    /// Of these, those for which the device had no descriptor.
    pub lost_no_descriptor: Option<u64>,
    /// Of these, those for which the application's buffer had no room.
    pub lost_in_stack: Option<u64>,
    /// Messages that an application of the user's says it has received, those of the warm-up included.
    pub application_messages: Option<u64>,
    /// Bytes in these.
    pub application_bytes: Option<u64>,
    /// What the driver accepted, if that is something else.
    pub application_differs: Option<String>,
    /// In virtual time, the digest of the history.
    pub digest: Option<String>,
    /// By what the application polled.
    pub polls_by: Option<String>,
    /// Why the strategy cannot be had, in the target's own words.
    pub not_available: Option<String>,
}

/// A line of `bursts.csv`: one burst of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Which row, from 0.
    pub row: usize,
    /// Its strategy.
    pub strategy: String,
    /// See [`Row::poll_us`].
    pub poll_us: Option<u64>,
    /// See [`Row::buffer_bytes`].
    pub buffer_bytes: u64,
    /// See [`Row::burst_bytes`].
    pub burst_bytes: u64,
    /// The deadline of its last packet, since the first of the run, in nanoseconds.
    pub at_ns: f64,
    /// How long that packet took to the application, in nanoseconds; empty if it was lost.
    pub delay_ns: Option<f64>,
    /// Packets of it that were lost.
    pub lost: u64,
}

impl Row {
    /// A row of which nothing is known yet but its parameters, and what was published about them.
    pub fn new(strategy: &str, poll_us: Option<u64>, buffer_bytes: u64, burst_bytes: u64) -> Row {
        let hybrid = published::hybrid_receive();
        Row {
            strategy: strategy.to_owned(),
            poll_us,
            buffer_bytes,
            burst_bytes,
            published_cpu_share: poll_us.and_then(|us| hybrid.cpu_share(us, burst_bytes)),
            published_lost_share: Row::published_loss(poll_us, buffer_bytes, burst_bytes),
            ..Row::default()
        }
    }

    /// The published share of packets lost with this poll time, buffer and length of messages, if there is one.
    pub fn published_loss(
        poll_us: Option<u64>,
        buffer_bytes: u64,
        burst_bytes: u64,
    ) -> Option<f64> {
        poll_us.and_then(|us| published::hybrid_receive().lost_share(us, buffer_bytes, burst_bytes))
    }

    /// The error that the user's application says something else than the driver did.
    pub(super) fn differing_application(&self) -> Option<Error> {
        let what = self.application_differs.clone()?;
        let poll = self.poll_us.map(|us| format!(", T = {us} us")).unwrap_or_default();
        Some(Error::ApplicationDiffers { row: format!("{}{poll}", self.strategy), what })
    }

    /// Takes what became of the packets of `plan`, the first of them due at `start`; returns the
    /// bursts, as those of row 0.
    pub fn account(&mut self, plan: &Plan, ledger: &Ledger, start: Time) -> Vec<Burst> {
        let totals = ledger.totals();
        let to_driver = plan.receiver == Receiver::Driver;
        let delivered = if to_driver { totals.accepted } else { totals.delivered };
        let lost = totals.planned.saturating_sub(delivered);
        self.planned = Some(totals.planned);
        self.delivered = Some(delivered);
        self.lost = Some(lost);
        self.lost_share = (totals.planned > 0).then(|| lost as f64 / totals.planned as f64);
        self.lost_no_descriptor = Some(totals.no_descriptor);
        self.lost_in_stack = Some(totals.lost_in_stack);
        let Some(shape) = plan.burst() else { return Vec::new() };
        let mut bursts = Vec::new();
        let mut delays = Samples::new();
        let mut lost_of_burst = 0;
        for packet in ledger.rows() {
            let delivered = if to_driver { packet.accepted } else { packet.delivered };
            lost_of_burst += u64::from(delivered.is_none());
            let lost = match shape.ends_with(packet.sequence) {
                true => std::mem::take(&mut lost_of_burst),
                false => continue,
            };
            let Some(planned) = packet.planned else { continue };
            let delay = delivered.map(|at| at.since(planned));
            delay.into_iter().for_each(|delay| delays.record(delay));
            bursts.push(Burst {
                row: 0,
                strategy: self.strategy.clone(),
                poll_us: self.poll_us,
                buffer_bytes: self.buffer_bytes,
                burst_bytes: self.burst_bytes,
                at_ns: planned.since(start).as_ns(),
                delay_ns: delay.map(warikomi_clock::Span::as_ns),
                lost,
            });
        }
        self.delay_us = delays.summary().map(Delay::of);
        bursts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_clock::Span;
    use warikomi_inject::Arrival;
    use warikomi_measure::{Delivery, Outcome, Packet};

    #[test]
    fn a_burst_is_as_late_as_its_last_packet_and_a_lost_one_has_no_delay() {
        let plan = Plan {
            arrival: Arrival::Bursts,
            size_bytes: 1_000,
            burst_bytes: Some(3_000),
            line_rate_bps: Some(800_000_000),
            count: 6,
            ..Plan::default()
        };
        let us = |us: u64| Time::ZERO + Span::from_us(us);
        let mut ledger = Ledger::new(6);
        for sequence in 0..6 {
            ledger.injected(&Packet {
                sequence,
                planned: us(10 * sequence),
                injected: us(10 * sequence),
                took: Span::from_ns(1),
                queue: 0,
                outcome: Outcome::OnRing,
            });
        }
        ledger.progress(0, 6, 0, us(100));
        // The last packet of the second burst is lost.
        ledger.delivered(Delivery { first: 0, count: 3, at: us(120) });
        ledger.delivered(Delivery { first: 3, count: 2, at: us(130) });
        let mut row = Row::new("any", Some(100), 7_000_000, 50_000);
        assert_eq!(row.published_lost_share, None, "it was published of other messages");
        let bursts = row.account(&plan, &ledger, Time::ZERO);
        assert_eq!((row.planned, row.delivered, row.lost), (Some(6), Some(5), Some(1)));
        assert_eq!(bursts.len(), 2);
        assert_eq!((bursts[0].delay_ns, bursts[0].lost), (Some(100_000.0), 0));
        assert_eq!((bursts[1].delay_ns, bursts[1].lost), (None, 1));
        let delay = row.delay_us.unwrap();
        assert!((delay.p50 - 100.0).abs() < 0.1 && (delay.max - 100.0).abs() < 0.1, "{delay:?}");
        assert_eq!(
            (row.published_cpu_share, Row::published_loss(Some(100), 7_000_000, 12_000)),
            (Some(0.25), Some(0.002))
        );
    }
}
