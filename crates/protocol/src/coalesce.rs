//! Interrupt coalescing, which is asked for and reported alike.

use serde::{Deserialize, Serialize};

/// Interrupt coalescing, as `ethtool -C` has it. In a request only the fields that are given
/// change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coalesce {
    /// Longest wait for more received frames, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_usecs: Option<u32>,
    /// Received frames an interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_frames: Option<u32>,
    /// Longest wait for more completed frames, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_usecs: Option<u32>,
    /// Completed frames an interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_frames: Option<u32>,
}
