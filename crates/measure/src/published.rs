//! The figures published for the systems behind this project, to be shown beside what is measured.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// Frame lengths in bytes, by the names that the publications have for them. The longest frame that
/// a NIC here takes is 5 bytes short of 16 KB.
pub const SIZES: [(&str, usize); 6] = [
    ("1.0KB", 1_024),
    ("1.5KB", 1_500),
    ("4KB", 4_096),
    ("8KB", 8_192),
    ("12KB", 12_288),
    ("16KB", 16_379),
];

/// Injection of packets and interrupts into a Linux NIC driver, without a hypervisor.
#[derive(Debug, Deserialize)]
pub struct Injection {
    /// What it was measured on.
    pub environment: String,
    send_processing_time_us: BTreeMap<String, f64>,
    throughput_gbps: BTreeMap<String, f64>,
    receive_breakdown_us: BTreeMap<String, Breakdown>,
    /// How exact intervals were.
    pub interval_accuracy: IntervalAccuracy,
}

/// What a packet costs the receiving side, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Breakdown {
    /// Copying it.
    #[serde(rename = "copy")]
    pub copy_us: f64,
    /// Processing its protocols.
    #[serde(rename = "protocol")]
    pub protocol_us: f64,
}

/// How exact intervals were.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct IntervalAccuracy {
    /// The interval that was asked for.
    pub requested_us: f64,
    /// How many.
    pub count: u64,
    /// Share (0 to 1) of intervals that were exact.
    pub exact_share: f64,
    /// The largest error, as a share of the interval.
    pub worst_error_share: f64,
    /// How far the intervals of a real NIC always spread, to either side.
    pub real_nic_jitter_us: f64,
    /// The longest interval of a real NIC.
    pub real_nic_worst_outlier_s: f64,
    /// The smallest interval that could be kept.
    pub smallest_interval_us: f64,
}

#[derive(Deserialize)]
struct File {
    mint_injection: Injection,
}

static FILE: LazyLock<File> = LazyLock::new(|| {
    toml::from_str(include_str!("published.toml")).expect("a test reads this file")
});

/// What was published about injection.
pub fn injection() -> &'static Injection {
    &FILE.mint_injection
}

fn name_of(size_bytes: usize) -> Option<&'static str> {
    SIZES.iter().find(|(_, bytes)| *bytes == size_bytes).map(|(name, _)| *name)
}

impl Injection {
    /// Time to send a packet of this length (update descriptor, place packet, request interrupt), in
    /// nanoseconds; `None` for lengths that were not published.
    pub fn send_ns(&self, size_bytes: usize) -> Option<f64> {
        self.send_processing_time_us.get(name_of(size_bytes)?).map(|us| us * 1e3)
    }

    /// Throughput at the shortest interval without loss, in bit/s.
    pub fn throughput_bps(&self, size_bytes: usize) -> Option<f64> {
        self.throughput_gbps.get(name_of(size_bytes)?).map(|gbps| gbps * 1e9)
    }

    /// The same of a real NIC on a line of 1 Gbit/s; published for one length.
    pub fn real_nic_bps(&self, size_bytes: usize) -> Option<f64> {
        let name = format!("{} real NIC", name_of(size_bytes)?);
        self.throughput_gbps.get(&name).map(|gbps| gbps * 1e9)
    }

    /// What a packet costs the receiving side.
    pub fn receive_breakdown(&self, size_bytes: usize) -> Option<Breakdown> {
        self.receive_breakdown_us.get(name_of(size_bytes)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_are_found_by_length() {
        let injection = injection();
        for (name, bytes) in SIZES {
            assert!(injection.send_ns(bytes).is_some(), "{name}");
            assert!(injection.throughput_bps(bytes).is_some(), "{name}");
        }
        assert_eq!(injection.send_ns(1_500), Some(205.0));
        assert_eq!(injection.throughput_bps(16_379), Some(30.6e9));
        assert_eq!(injection.real_nic_bps(1_500), Some(0.92e9));
        let breakdown = injection.receive_breakdown(8_192).unwrap();
        assert_eq!((breakdown.copy_us, breakdown.protocol_us), (1.32, 1.63));
        assert_eq!((injection.send_ns(60), injection.real_nic_bps(8_192)), (None, None));
        assert_eq!(injection.interval_accuracy.requested_us, 38.0);
    }
}
