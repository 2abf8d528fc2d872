//! A row of the comparison.

use serde::Serialize;
use warikomi_guest::answers::Sent;

/// What one system did with one size, completion strategy and bounce buffer. What does not apply is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Length of the messages in bytes; the mean of a mixture.
    pub size_bytes: u64,
    /// The mixture's lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixture: Option<String>,
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
    /// The share of the time (0 to 1) in which the sender had something to do or to look for.
    pub cpu_share: Option<f64>,
    /// Interrupts, for each message.
    pub interrupts_per_packet: Option<f64>,
    /// DMA transfers, for each message.
    pub transfers_per_packet: Option<f64>,
    /// Bytes that the processor copied, for each message: into buffers, and into bounce buffers.
    pub copied_bytes_per_packet: Option<f64>,
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
    /// In virtual time, the digest of the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Everything that the sender counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
}
