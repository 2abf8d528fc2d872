//! One cycle of a sweep.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::counters::GuestCounts;
use crate::error::Error;

/// What a cycle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// As fast as possible.
    Saturated,
    /// Of the pass with growing intervals.
    Coarse,
    /// The same intervals once more, to find dips.
    Curve,
    /// Of the search for the shortest interval at which the driver loses nothing.
    Driver,
    /// The same for the application.
    EndToEnd,
    /// Over the plan's line.
    Line,
}

/// Which cycle is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) size_bytes: usize,
    pub(super) phase: Phase,
    pub(super) repeat: u32,
    pub(super) interval_ns: f64,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { size_bytes, phase, repeat, interval_ns } = self;
        write!(f, "{size_bytes} bytes every {interval_ns} ns ({phase:?} {repeat})")
    }
}

/// A cycle and what it showed; a line of `cycles.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycle {
    /// Frame length in bytes.
    pub size_bytes: usize,
    /// The line that it went over, in bit/s.
    pub line_rate_bps: Option<u64>,
    /// What it was for.
    pub phase: Phase,
    /// Which repetition: 1, 2 and so on.
    pub repeat: u32,
    /// The interval; 0 for as fast as possible.
    pub interval_ns: f64,
    /// Packets injected.
    pub injected: u64,
    /// Of these: accepted by the driver.
    pub accepted: u64,
    /// Of these: delivered to the application; absent where there is none.
    pub delivered: Option<u64>,
    /// `accepted` by `injected`.
    pub driver_share: f64,
    /// `delivered` by `injected`.
    pub end_to_end_share: Option<f64>,
    /// Bits of accepted frames in a second.
    pub throughput_bps: f64,
    /// Median time to inject a packet; absent where none was.
    pub send_ns: Option<f64>,
    /// Packets that are not accounted for; always 0 in a sweep that has a result.
    pub unaccounted: u64,
    /// Time that the host took from the cores.
    pub stolen_percent: Option<f64>,
    /// Whether it lost something while others had the cores, and was made again. Such a cycle
    /// decides nothing.
    pub disturbed: bool,
    /// What the guest's kernel counted meanwhile, with the frames to warm up; absent without a kernel. How often the
    /// soft interrupt for reception ran.
    pub net_rx_softirqs: Option<u64>,
    /// How often it ran out of its budget.
    pub softnet_squeezed: Option<u64>,
    /// How often the thread ran to which the rest is handed then.
    pub ksoftirqd_runs: Option<u64>,
    /// Frames dropped because the backlog was full.
    pub backlog_drops: Option<u64>,
    /// Datagrams dropped because the socket was full.
    pub socket_overflows: Option<u64>,
    /// Context switches.
    pub context_switches: Option<u64>,
}

/// The share of the pace that was asked for that must have been kept; what it lacks is the way of the
/// last packets, which a cycle's time includes.
const PACE_KEPT_SHARE: f64 = 0.9;

impl Cycle {
    /// Whether packets came as closely as they were asked to: at a pace that our own side cannot keep, to
    /// lose nothing shows nothing.
    pub(super) fn kept_pace(&self) -> bool {
        let asked_bits = self.size_bytes as f64 * 8.0;
        let bits = self.throughput_bps * self.interval_ns / 1e9;
        self.interval_ns == 0.0 || bits >= PACE_KEPT_SHARE * asked_bits
    }

    /// A cycle in which nothing has happened yet.
    pub(super) fn of(request: &Request) -> Cycle {
        Cycle {
            size_bytes: request.size_bytes,
            line_rate_bps: None,
            phase: request.phase,
            repeat: request.repeat,
            interval_ns: request.interval_ns,
            injected: 0,
            accepted: 0,
            delivered: None,
            driver_share: 0.0,
            end_to_end_share: None,
            throughput_bps: 0.0,
            send_ns: None,
            unaccounted: 0,
            stolen_percent: None,
            disturbed: false,
            net_rx_softirqs: None,
            softnet_squeezed: None,
            ksoftirqd_runs: None,
            backlog_drops: None,
            socket_overflows: None,
            context_switches: None,
        }
    }

    /// With what the guest's kernel counted.
    pub(super) fn with_counts(self, counts: GuestCounts) -> Cycle {
        let [net_rx_softirqs, softnet_squeezed, ksoftirqd_runs, rest @ ..] = counts;
        let [backlog_drops, socket_overflows, context_switches] = rest;
        Cycle {
            net_rx_softirqs,
            softnet_squeezed,
            ksoftirqd_runs,
            backlog_drops,
            socket_overflows,
            context_switches,
            ..self
        }
    }

    /// What the guest's kernel counted.
    pub(super) fn counts(&self) -> GuestCounts {
        [
            self.net_rx_softirqs,
            self.softnet_squeezed,
            self.ksoftirqd_runs,
            self.backlog_drops,
            self.socket_overflows,
            self.context_switches,
        ]
    }

    pub(super) fn is_perfect(&self) -> bool {
        self.accepted == self.injected
            && self.delivered.is_none_or(|delivered| delivered == self.injected)
    }
}

/// Something that makes cycles.
pub(super) trait Cycles {
    fn run(&mut self, request: Request) -> Result<Cycle, Error>;
}
