use serde::{Deserialize, Serialize};
use warikomi_measure::Samples;

/// What goes on beside the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Nothing: the published measurement without load.
    Idle,
    /// The published workload alone: sends over TCP, with computing between them.
    Busy,
    /// Receiving and transmitting as fast as it goes.
    Heavy,
}

impl Load {
    /// As in a row.
    pub fn name(self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Busy => "busy",
            Load::Heavy => "heavy",
        }
    }
}

/// Of several values, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of spans of time; `None` of nothing.
    pub fn of(samples: &Samples) -> Option<Spread> {
        let ns = samples.summary()?;
        let us = |ns: f64| ns / 1e3;
        Some(Spread {
            min: us(ns.min),
            mean: us(ns.mean),
            p50: us(ns.p50),
            p99: us(ns.p99),
            max: us(ns.max),
        })
    }
}

/// One way under one load: a row of the result. A figure that does not apply is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplaceRow {
    /// `reload`, `data-store`, `shared-state`, or `kernel-module`.
    pub way: String,
    /// See [`Load`].
    pub load: String,
    /// `planned` or `kill`.
    pub kind: String,
    /// Replacements in all.
    pub replacements: u64,
    /// From the order (of a kill: from its being seen) to the new driver's first pass, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_us: Option<Spread>,
    /// How long nobody served the device, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_us: Option<Spread>,
    /// A send without a replacement in it, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_us: Option<Spread>,
    /// A send into which a replacement fell, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_during_us: Option<Spread>,
    /// Between two frames of the workload on the wire, at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_send_gap_us: Option<f64>,
    /// Between two frames taken from the receive ring, at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_receive_gap_us: Option<f64>,
    /// Free receive descriptors when a replacement began, at the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_descriptors: Option<u64>,
    /// Interval between arriving frames, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<f64>,
    /// Frames lost: received by the card and never by the application, or handed over and never sent.
    pub lost: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames that came out of order.
    pub reordered: u64,
    /// TCP segments that were sent again.
    pub retransmitted: u64,
    /// Frames for which the card had no descriptor.
    pub no_descriptor: u64,
    /// Datagrams that the sender's system refused while there was no interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// TCP connections that broke.
    pub connections_lost: u64,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_available: Option<String>,
}
