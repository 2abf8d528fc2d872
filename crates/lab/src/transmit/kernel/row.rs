//! A row of a kernel's comparison.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Span, Time};
use warikomi_measure::{Samples, Warning};
use warikomi_nic::{FunctionCounters, InterruptRecord};
use warikomi_wire::peer::in_turn::Seen;

use super::super::row::Row as CommonRow;
use super::options::{Case, Sender};

/// What one sender did with one size: the repetition of which the rate is the median. What does not apply,
/// or could not be had, is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// What it has in common with other targets' rows. Its transfers are descriptors.
    #[serde(flatten)]
    pub common: CommonRow,
    /// What sends: pktgen, udp, tcp.
    pub sender: String,
    /// How often pktgen hands each packet over.
    pub burst: Option<u32>,
    /// Whether the device segments (TSO).
    pub tso: Option<bool>,
    /// Messages that were sent: frames, datagrams, or writes to the connection.
    pub messages: Option<u64>,
    /// Frames on the wire, for each message.
    pub frames_per_packet: Option<f64>,
    /// Doorbells that the driver rang, for each message.
    pub doorbells_per_packet: Option<f64>,
    /// Processor time of the guest, for each message, in nanoseconds.
    pub cpu_ns_per_packet: Option<f64>,
    /// Frames of TCP whose bytes the kernel had sent before, in all repetitions: its timer fired, because no ACK was
    /// back in time.
    pub sent_again: Option<u64>,
    /// From an interrupt's rise to its handler, in microseconds: half took no longer.
    pub interrupt_delay_p50_us: Option<f64>,
    /// Why the guest cannot do it, in its own words.
    pub not_available: Option<String>,
}

/// What one run of a sender came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) messages: u64,
    /// Messages in a second, by the wire's clock.
    pps: Option<f64>,
    cpu_share: Option<f64>,
    frames: u64,
    sent_again: u64,
    doorbells: u64,
    interrupts: u64,
    descriptors: u64,
    interrupt_delay_p50_us: Option<f64>,
}

impl Outcome {
    /// Of messages that the guest says it has sent; `nic` is what the NIC did meanwhile, and `interrupts`
    /// are as many as were logged.
    pub(super) fn of(
        messages: u64,
        seen: &Seen,
        cpu_share: Option<f64>,
        nic: &FunctionCounters,
        interrupts: &[InterruptRecord],
    ) -> Outcome {
        let span = seen.began.zip(seen.ended).map(|(began, ended)| ended.since(began));
        let seconds = span.map(Span::as_secs).filter(|&seconds| seconds > 0.0);
        Outcome {
            messages,
            pps: seconds.map(|seconds| messages as f64 / seconds),
            cpu_share,
            frames: seen.frames,
            sent_again: seen.sent_again,
            doorbells: nic.doorbells,
            interrupts: nic.interrupts,
            descriptors: nic.tx_descriptors,
            interrupt_delay_p50_us: delay_p50_us(interrupts),
        }
    }
}

/// What is to be said of frames that a kernel has sent again.
pub(super) fn sent_again(rows: &[Row]) -> Option<Warning> {
    let frames: u64 = rows.iter().filter_map(|row| row.sent_again).sum();
    (frames > 0).then(|| Warning {
        what: format!(
            "{frames} frames of TCP were sent again by the kernel: no ACK was back in time"
        ),
        hint: "repeat when nothing else runs on these cores".to_owned(),
    })
}

fn delay_p50_us(interrupts: &[InterruptRecord]) -> Option<f64> {
    let mut delays = Samples::new();
    for record in interrupts.iter().filter(|record| record.handled != Time::NEVER) {
        delays.record(record.handled.since(record.raised));
    }
    delays.summary().map(|ns| ns.p50 / 1e3)
}

impl Row {
    /// The row of a case; each of its runs has an outcome, or the guest's reason why it cannot be had.
    pub(super) fn of<'a>(
        case: &Case,
        runs: impl Iterator<Item = &'a Result<Outcome, String>>,
    ) -> Row {
        let runs: Vec<_> = runs.map(Result::as_ref).collect();
        let reason = runs.iter().rev().find_map(|run| run.err());
        let outcomes: Vec<_> = runs.iter().filter_map(|run| run.ok()).collect();
        let is_tcp = case.sender == Sender::Tcp && !outcomes.is_empty();
        let sent_again = is_tcp.then(|| outcomes.iter().map(|outcome| outcome.sent_again).sum());
        Row { not_available: reason.cloned(), sent_again, ..Row::new(case).with(outcomes) }
    }

    /// A row of which nothing is known yet but what it is of.
    fn new(case: &Case) -> Row {
        Row {
            common: CommonRow {
                size_bytes: case.size_bytes.into(),
                buffers: "skb".to_owned(),
                completion: case.completion.to_string(),
                bounce: "none".to_owned(),
                ..CommonRow::default()
            },
            sender: case.sender.to_string(),
            burst: case.burst,
            tso: case.tso,
            ..Row::default()
        }
    }

    /// The same with the outcome in the middle, by its rate.
    fn with(self, mut outcomes: Vec<&Outcome>) -> Row {
        outcomes.sort_by(|a, b| a.pps.unwrap_or(0.0).total_cmp(&b.pps.unwrap_or(0.0)));
        let Some(outcome) = outcomes.get(outcomes.len().saturating_sub(1) / 2) else { return self };
        let per_packet =
            |what: u64| (outcome.messages > 0).then(|| what as f64 / outcome.messages as f64);
        let pps = outcome.pps;
        Row {
            messages: Some(outcome.messages),
            frames_per_packet: per_packet(outcome.frames),
            doorbells_per_packet: per_packet(outcome.doorbells),
            interrupt_delay_p50_us: outcome.interrupt_delay_p50_us,
            cpu_ns_per_packet: outcome.cpu_share.zip(pps).map(|(share, pps)| share * 1e9 / pps),
            common: CommonRow {
                pps,
                bps: pps.map(|pps| pps * 8.0 * self.common.size_bytes as f64),
                cpu_share: outcome.cpu_share,
                interrupts_per_packet: per_packet(outcome.interrupts),
                transfers_per_packet: per_packet(outcome.descriptors),
                ..self.common
            },
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Completion;
    use super::*;
    use warikomi_pci::Vector;

    const CASE: Case = Case {
        sender: Sender::Pktgen,
        size_bytes: 100,
        completion: Completion::Napi,
        burst: Some(8),
        tso: None,
    };

    fn outcome(took: Span) -> Outcome {
        let seen = Seen {
            frames: 1_000,
            messages: 1_000,
            sent_again: 2,
            began: Some(Time::ZERO),
            ended: Some(Time::ZERO + took),
            wrong: None,
        };
        let nic = FunctionCounters {
            doorbells: 125,
            interrupts: 10,
            tx_descriptors: 2_000,
            ..FunctionCounters::default()
        };
        let record = |handled| InterruptRecord { vector: Vector(0), raised: Time::ZERO, handled };
        let interrupts = [record(Time::ZERO + Span::from_us(20)), record(Time::NEVER)];
        Outcome::of(1_000, &seen, Some(0.5), &nic, &interrupts)
    }

    #[test]
    fn the_repetition_in_the_middle_is_told() {
        let runs = [4, 1, 2].map(|ms| Ok(outcome(Span::from_ms(ms))));
        let row = Row::of(&CASE, runs.iter());
        assert_eq!((row.common.pps, row.common.bps), (Some(500_000.0), Some(400e6)));
        assert_eq!(row.doorbells_per_packet, Some(0.125));
        assert_eq!(row.common.transfers_per_packet, Some(2.0));
        assert_eq!(row.cpu_ns_per_packet, Some(1_000.0));
        let delay_us = row.interrupt_delay_p50_us.unwrap();
        assert!((delay_us - 20.0).abs() < 0.1, "one that was not handled has no delay: {delay_us}");
        assert_eq!(Row::of(&CASE, [].iter()), Row::new(&CASE));
        assert_eq!(row.sent_again, None, "that is of TCP");
        let refused = Row::of(&CASE, [Err("its own words".to_owned())].iter());
        assert_eq!(refused.not_available.as_deref(), Some("its own words"));
    }

    #[test]
    fn what_a_kernel_has_sent_again_is_told_and_said() {
        let case = Case { sender: Sender::Tcp, burst: None, tso: Some(true), ..CASE };
        let row = Row::of(&case, [4, 1].map(|ms| Ok(outcome(Span::from_ms(ms)))).iter());
        assert_eq!(row.sent_again, Some(4), "in all repetitions");
        let warning = sent_again(&[row.clone(), row]).unwrap();
        assert!(warning.what.starts_with("8 frames"), "{warning:?}");
        let refused = Row::of(&case, [Err("its own words".to_owned())].iter());
        assert_eq!((refused.sent_again, sent_again(&[refused])), (None, None));
    }

    #[test]
    fn a_row_is_one_object_with_the_keys_that_all_targets_have() {
        let object =
            warikomi_measure::as_object(&Row::of(&CASE, [Ok(outcome(Span::from_ms(1)))].iter()));
        for name in ["size_bytes", "buffers", "pps", "transfers_per_packet", "sender", "burst"] {
            assert!(object.contains_key(name), "{name} is not in {object:?}");
        }
        assert!(!object.contains_key("tso") && !object.contains_key("not_available"));
    }
}
