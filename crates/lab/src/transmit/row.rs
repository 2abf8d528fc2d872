//! A row of the comparison.

use serde::{Deserialize, Serialize};
use warikomi_measure::published;
use warikomi_protocol::answers::Sent;
use warikomi_sim::transmit::SIZES_BYTES;
use warikomi_stack::send::Transport;

use super::options::{Case, Options, Pace};

/// A sender that is busy for more than this share of its time may be waiting for the device.
const MOST_BUSY_SHARE: f64 = 0.98;

/// What one system did with one size, completion strategy and bounce buffer: the repetition of which the rate
/// is the median. What does not apply is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The card, where several are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Length of the messages in bytes; the mean of a mixture.
    pub size_bytes: u64,
    /// The mixture's lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixture: Option<String>,
    /// Of TCP, whether the card cuts segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tso: Option<bool>,
    /// Buffers: mbuf-2k, mbuf-4k, contiguous.
    pub buffers: String,
    /// Completion strategy.
    pub completion: String,
    /// Bounce buffer.
    pub bounce: String,
    /// Messages in a second.
    pub pps: Option<f64>,
    /// Bits of their payload in a second.
    pub bps: Option<f64>,
    /// The lowest rate of all repetitions, in bit/s.
    pub min_bps: Option<f64>,
    /// The highest.
    pub max_bps: Option<f64>,
    /// The share of the time (0 to 1) in which the sender had something to do or to look for.
    pub cpu_share: Option<f64>,
    /// How long that was for each message, in nanoseconds, in the repetition that was disturbed least. Only of
    /// messages that come at a pace, because others also wait for the device.
    pub least_busy_per_packet_ns: Option<f64>,
    /// Of TCP, how long the sender was busy for each byte of messages, in nanoseconds. Without interrupts it is busy
    /// while it waits, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ns_per_byte: Option<f64>,
    /// Of TCP, segments on the line, for each message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_per_packet: Option<f64>,
    /// Interrupts, for each message.
    pub interrupts_per_packet: Option<f64>,
    /// DMA transfers, for each message.
    pub transfers_per_packet: Option<f64>,
    /// Bytes that the processor copied, for each message: into buffers, into bounce buffers, and for alignment.
    pub copied_bytes_per_packet: Option<f64>,
    /// Buffers taken from their pools, for each message: mbufs, clusters, contiguous ones.
    pub buffers_taken_per_packet: Option<f64>,
    /// Buffers that checksums and the driver looked at on the way down, for each message.
    pub buffers_visited_per_packet: Option<f64>,
    /// Bytes summed up for checksums, for each message.
    pub summed_bytes_per_packet: Option<f64>,
    /// Buffers given back, for each message.
    pub buffers_freed_per_packet: Option<f64>,
    /// The share of messages (0 to 1) for which the socket had no room.
    pub socket_drop_share: Option<f64>,
    /// How long packets were in the driver, in microseconds: half no longer.
    pub wait_p50_us: Option<f64>,
    /// 99 of 100 no longer.
    pub wait_p99_us: Option<f64>,
    /// It came to a dead-lock: the send buffer was full before the device was, and nothing freed it.
    pub dead_locked: bool,
    /// What was published for this size and system, in bits in a second.
    pub published_bps: Option<f64>,
    /// The rate of the same row in virtual time, in bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_bps: Option<f64>,
    /// By how much that is more (or, below 0, less) than in real time, as a share of the latter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_difference_share: Option<f64>,
    /// In virtual time, the digest of the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Messages come at a pace.
    #[serde(skip)]
    pub(super) paced: bool,
}

/// What one run of the sender came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) sent: Sent,
    /// Of TCP, segments that the wire has seen for each message, the warm-up included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) segments_per_message: Option<f64>,
    pub(super) digest: Option<String>,
}

impl Outcome {
    /// Messages in a second; `None` of a dead-lock.
    pub(super) fn pps(&self) -> Option<f64> {
        self.rate(self.sent.sent)
    }

    /// Bits of messages in a second.
    fn bps(&self) -> Option<f64> {
        self.rate(self.sent.sent_bytes).map(|bytes| 8.0 * bytes)
    }

    /// What a message took the processor, in nanoseconds; `None` if the sender was never idle, and so waited for the
    /// device.
    fn processor_ns(&self) -> Option<f64> {
        let Sent { sent, busy_ns, took_ns, .. } = self.sent;
        let idle = busy_ns as f64 <= MOST_BUSY_SHARE * took_ns as f64;
        (idle && sent > 0).then(|| busy_ns as f64 / sent as f64)
    }

    fn rate(&self, what: u64) -> Option<f64> {
        let known = !self.sent.dead_locked && self.sent.took_ns > 0;
        known.then(|| what as f64 * 1e9 / self.sent.took_ns as f64)
    }
}

impl Row {
    /// A row of which nothing is known yet but what it is of, and what was published about that.
    pub(super) fn new(options: &Options, case: &Case) -> Row {
        let buffers = case.buffers.to_string();
        let tso = case.transport.is_tcp().then_some(case.transport == Transport::TcpTso);
        let rate = options.nic.line_rate_bps;
        let as_published = rate
            .is_none_or(|bps| published::line_bps(&options.nic.model) == Some(bps))
            && case.traffic.size() == SIZES_BYTES.last().copied();
        let published_bps = published::adaptive_transmit().most_bps(&options.nic.model, &buffers);
        Row {
            card: options.is_one_of_several.then(|| options.nic.model.clone()),
            size_bytes: case.traffic.mean_bytes(),
            mixture: case.traffic.mixture(),
            completion: case.completion.to_string(),
            bounce: case.bounce.to_string(),
            published_bps: published_bps.filter(|_| as_published && tso.is_none()),
            tso,
            buffers,
            paced: options.pace != Pace::Unbounded,
            ..Row::default()
        }
    }

    /// The same with the repetition that is the median.
    pub(super) fn with(self, outcomes: &[Outcome]) -> Row {
        let mut rates: Vec<f64> = outcomes.iter().filter_map(Outcome::bps).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len().saturating_sub(1) / 2).copied();
        let Some(outcome) = outcomes
            .iter()
            .find(|outcome| outcome.sent.dead_locked)
            .or_else(|| outcomes.iter().find(|outcome| outcome.bps() == median))
        else {
            return self;
        };
        let sent = &outcome.sent;
        let per_packet = |what: u64| (sent.sent > 0).then(|| what as f64 / sent.sent as f64);
        let wait_us = |at: usize| sent.wait_ns.map(|waits| waits[at] as f64 / 1e3);
        Row {
            pps: outcome.pps(),
            bps: outcome.bps(),
            min_bps: rates.first().copied().filter(|_| !sent.dead_locked),
            max_bps: rates.last().copied().filter(|_| !sent.dead_locked),
            cpu_share: (sent.took_ns > 0).then(|| sent.busy_ns as f64 / sent.took_ns as f64),
            least_busy_per_packet_ns: outcomes
                .iter()
                .filter(|_| self.paced)
                .filter_map(Outcome::processor_ns)
                .min_by(f64::total_cmp),
            busy_ns_per_byte: self
                .tso
                .filter(|_| sent.sent_bytes > 0)
                .map(|_| sent.busy_ns as f64 / sent.sent_bytes as f64),
            segments_per_packet: self.tso.and(outcome.segments_per_message),
            interrupts_per_packet: per_packet(sent.interrupts),
            transfers_per_packet: per_packet(sent.transfers),
            copied_bytes_per_packet: per_packet(
                sent.copied_bytes + sent.bounced_bytes + sent.aligned_bytes,
            ),
            buffers_taken_per_packet: per_packet(sent.buffers_taken),
            buffers_visited_per_packet: per_packet(sent.buffers_visited),
            summed_bytes_per_packet: per_packet(sent.summed_bytes),
            buffers_freed_per_packet: per_packet(sent.buffers_freed),
            socket_drop_share: (sent.planned > 0)
                .then(|| sent.socket_drops as f64 / sent.planned as f64),
            wait_p50_us: wait_us(0),
            wait_p99_us: wait_us(1),
            dead_locked: sent.dead_locked,
            digest: outcome.digest.clone(),
            ..self
        }
    }

    /// The same with the rate of its like in virtual time.
    pub(super) fn beside(self, simulated: &Row) -> Row {
        let difference = |real: f64, simulated: f64| simulated / real - 1.0;
        Row {
            virtual_bps: simulated.bps,
            virtual_difference_share: self
                .bps
                .zip(simulated.bps)
                .map(|(real, simulated)| difference(real, simulated)),
            ..self
        }
    }

    /// Which row it is, for people.
    pub(super) fn name(&self) -> String {
        let Row { card, size_bytes, mixture, tso, buffers, completion, bounce, .. } = self;
        let card = card.as_ref().map_or(String::new(), |card| format!("{card}, "));
        let messages = match mixture {
            Some(mixture) => format!("messages of {mixture} bytes"),
            None => format!("messages of {size_bytes} bytes"),
        };
        let tso = match tso {
            None => "",
            Some(true) => ", TSO on",
            Some(false) => ", TSO off",
        };
        format!("{card}{messages}{tso}, {buffers}, {completion}, bounce {bounce}")
    }

    /// Whether another row is of the same traffic over the same card.
    pub(super) fn same_traffic(&self, other: &Row) -> bool {
        let traffic = |row: &Row| (row.card.clone(), row.size_bytes, row.mixture.clone());
        traffic(self) == traffic(other)
    }
}

/// A line of `repetitions.csv`: one repetition of one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Repetition {
    /// Which row, from 0.
    pub row: usize,
    /// See [`Row::card`].
    pub card: Option<String>,
    /// See [`Row::size_bytes`].
    pub size_bytes: u64,
    /// See [`Row::mixture`].
    pub mixture: Option<String>,
    /// See [`Row::tso`].
    pub tso: Option<bool>,
    /// See [`Row::buffers`].
    pub buffers: String,
    /// See [`Row::completion`].
    pub completion: String,
    /// See [`Row::bounce`].
    pub bounce: String,
    /// Which repetition, from 1.
    pub repeat: usize,
    /// Messages that were measured.
    pub messages: u64,
    /// Messages in a second; empty if it came to a dead-lock.
    pub pps: Option<f64>,
    /// Bits of messages in a second.
    pub bps: Option<f64>,
    /// See [`Row::cpu_share`].
    pub cpu_share: Option<f64>,
    /// See [`Row::dead_locked`].
    pub dead_locked: bool,
    /// From the first message to the last one's being reclaimed, in nanoseconds.
    pub took_ns: u64,
    /// Messages for which the socket had no room.
    pub socket_drops: u64,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Times that the sender slept.
    pub sleeps: u64,
    /// Times that the completion strategy switched interrupts on or off.
    pub switches: u64,
    /// Times that the device was asked what it has sent.
    pub asked: u64,
    /// DMA transfers.
    pub transfers: u64,
    /// Bytes copied by the application into buffers.
    pub copied_bytes: u64,
    /// Buffers taken from their pools.
    pub buffers_taken: u64,
    /// Buffers that checksums and the driver looked at.
    pub buffers_visited: u64,
    /// Bytes summed up for checksums.
    pub summed_bytes: u64,
    /// Buffers given back.
    pub buffers_freed: u64,
    /// Bytes copied into bounce buffers.
    pub bounced_bytes: u64,
    /// Packets of which something was copied into a bounce buffer.
    pub bounced_packets: u64,
    /// Bytes copied because they were not aligned.
    pub aligned_bytes: u64,
    /// How long packets were in the driver, in microseconds: half no longer.
    pub wait_p50_us: Option<f64>,
    /// 99 of 100 no longer.
    pub wait_p99_us: Option<f64>,
}

impl Repetition {
    pub(super) fn all(number: usize, row: &Row, outcomes: &[Outcome]) -> Vec<Repetition> {
        let line = |(at, outcome): (usize, &Outcome)| {
            Repetition::of(number, at + 1, row.clone().with(std::slice::from_ref(outcome)), outcome)
        };
        outcomes.iter().enumerate().map(line).collect()
    }

    /// A repetition, and the row that it alone would be.
    fn of(number: usize, repeat: usize, row: Row, outcome: &Outcome) -> Repetition {
        let sent = &outcome.sent;
        Repetition {
            row: number,
            card: row.card,
            size_bytes: row.size_bytes,
            mixture: row.mixture,
            tso: row.tso,
            buffers: row.buffers,
            completion: row.completion,
            bounce: row.bounce,
            repeat,
            messages: sent.sent,
            pps: row.pps,
            bps: row.bps,
            cpu_share: row.cpu_share,
            dead_locked: sent.dead_locked,
            took_ns: sent.took_ns,
            socket_drops: sent.socket_drops,
            interrupts: sent.interrupts,
            sleeps: sent.sleeps,
            switches: sent.switches,
            asked: sent.asked,
            transfers: sent.transfers,
            copied_bytes: sent.copied_bytes,
            buffers_taken: sent.buffers_taken,
            buffers_visited: sent.buffers_visited,
            summed_bytes: sent.summed_bytes,
            buffers_freed: sent.buffers_freed,
            bounced_bytes: sent.bounced_bytes,
            bounced_packets: sent.bounced_packets,
            aligned_bytes: sent.aligned_bytes,
            wait_p50_us: row.wait_p50_us,
            wait_p99_us: row.wait_p99_us,
        }
    }
}
