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

/// The system that injects packets and interrupts, and the years of its publications, as tables name them.
pub const INJECTION: &str = "Mint, 2015 and 2016";
/// The one that polls first and waits then.
pub const HYBRID_RECEIVE: &str = "user-level network interface, 2000";
/// The one that transmits adaptively.
pub const ADAPTIVE_TRANSMIT: &str = "adaptive BSD driver, 2004";
/// Those that replace a driver while it sends.
pub const DRIVER_REPLACEMENT: &str = "MINIX 3 and AnT, 2012";

/// Injection of packets and interrupts into a Linux NIC driver, without a hypervisor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// What it was measured on.
    pub environment: String,
    /// What the memory of that machine gave, in Gbit/s: the ceiling of the throughput.
    pub memory_bandwidth_gbps: f64,
    send_processing_time_us: BTreeMap<String, f64>,
    throughput_gbps: BTreeMap<String, f64>,
    receive_breakdown_us: BTreeMap<String, Breakdown>,
    /// How exact intervals were.
    pub interval_accuracy: IntervalAccuracy,
    /// What was said in words.
    pub findings: InjectionFindings,
}

/// What was said of injection in words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectionFindings {
    /// How success depends on the interval.
    pub success_vs_interval: String,
    /// How an application's success differs from the driver's.
    pub end_to_end_vs_driver: String,
}

/// What a packet costs the receiving side, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub struct IntervalAccuracy {
    /// The interval that was asked for.
    pub requested_us: f64,
    /// Number of intervals.
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

/// The burst, in bytes, for which CPU use was published.
pub const HYBRID_BURST_BYTES: u64 = 50_000;

/// Receiving in user space: poll for a time, then wait for an interrupt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HybridReceive {
    /// What it was measured on.
    pub environment: String,
    /// What a small message took on its network interface, in microseconds.
    pub small_message_us: f64,
    #[serde(rename = "cpu_use_at_50KB")]
    cpu_use: BTreeMap<String, f64>,
    loss: Vec<HybridLoss>,
    /// What was said of poll times below 100 µs.
    pub below_100us: String,
    /// How the needed buffer scales.
    pub scaling_rule: String,
    /// The order of the delays that an ordinary scheduler imposes.
    pub scheduling_delay_ms: u64,
}

/// What was lost with one poll time and one receive buffer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HybridLoss {
    /// The poll time in microseconds.
    pub poll_us: u64,
    /// The receive buffer in MB of 1,000,000 bytes.
    pub buffer_mb: u64,
    /// The share (0 to 1) that was lost.
    #[serde(rename = "lost")]
    pub lost_share: f64,
    /// The lengths of messages with which it was lost, as published: `"10-15KB"`; absent where nothing was.
    pub at: Option<String>,
}

impl HybridLoss {
    /// Whether it was published of messages of this length: what was lost, of some only, and that nothing was, of all.
    fn is_of(&self, message_bytes: u64) -> bool {
        let Some(at) = &self.at else { return true };
        let range = at.strip_suffix("KB").and_then(|range| range.split_once('-'));
        let kb = |text: &str| text.parse::<u64>().ok().map(|kb| kb * 1_000);
        let bounds = range.and_then(|(least, most)| Some(kb(least)?..=kb(most)?));
        bounds.is_some_and(|bounds| bounds.contains(&message_bytes))
    }
}

impl HybridReceive {
    /// The share of the CPU (0 to 1) that receiving took with this poll time and bursts of this many
    /// bytes; `None` where that was not published.
    pub fn cpu_share(&self, poll_us: u64, burst_bytes: u64) -> Option<f64> {
        let published = burst_bytes == HYBRID_BURST_BYTES;
        self.cpu_use.get(&format!("{poll_us}us")).copied().filter(|_| published)
    }

    /// What was lost with this poll time and receive buffer.
    pub fn loss(&self, poll_us: u64, buffer_bytes: u64) -> Option<&HybridLoss> {
        let same =
            |row: &&HybridLoss| row.poll_us == poll_us && row.buffer_mb * 1_000_000 == buffer_bytes;
        self.loss.iter().find(same)
    }

    /// The share of packets that was lost with this poll time and receive buffer and messages of this length; `None`
    /// where that was not published.
    pub fn lost_share(&self, poll_us: u64, buffer_bytes: u64, message_bytes: u64) -> Option<f64> {
        let loss = self.loss(poll_us, buffer_bytes).filter(|loss| loss.is_of(message_bytes))?;
        Some(loss.lost_share)
    }

    /// All that was published about loss.
    pub fn losses(&self) -> &[HybridLoss] {
        &self.loss
    }
}

/// A card of the published transmit experiments: bits that its line carries in a second.
pub fn line_bps(card: &str) -> Option<u64> {
    match card {
        "oc48" => Some(2_400_000_000),
        "ge10" => Some(10_000_000_000),
        _ => None,
    }
}

/// Length in bytes of the messages for which a bounce buffer's gain was published.
pub const BOUNCE_BYTES: u64 = 4_096;
/// Those for which the gain of one transfer over scattered ones was published: 64 KB, less what UDP takes of it.
pub const DMA_BYTES: u64 = 65_507;
/// Those for which the share of chains was published.
pub const CHAIN_BYTES: u64 = 16_384;

/// An adaptive device driver that transmits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveTransmit {
    /// What it was measured on.
    pub environment: String,
    linux_max_gbps_10gbe: f64,
    freebsd_max_gbps_10gbe: f64,
    linux_max_gbps_oc48: f64,
    freebsd_max_gbps_oc48: f64,
    freebsd_max_gbps_oc48_4kb_clusters: f64,
    /// By how much adaptive completion was ahead of interrupts for short packets, with mbufs, as a share.
    #[serde(rename = "short_packet_gain_freebsd")]
    short_gain_mbuf_share: f64,
    /// The same with contiguous buffers.
    #[serde(rename = "short_packet_gain_linux")]
    short_gain_contiguous_share: f64,
    /// By how much a driver that sends prepared contents from one contiguous piece is ahead of the one that
    /// has them transferred in pieces, at 64 KB, as a share of the latter's throughput.
    #[serde(rename = "dma_gain_at_64KB")]
    pub dma_gain_share: f64,
    /// By how much that driver is behind the system with contiguous buffers at 16 KB, as a share of the
    /// latter's throughput: what chains of mbufs cost.
    #[serde(rename = "mbuf_cost_share_at_16KB")]
    pub mbuf_cost_share: f64,
    /// What a bounce buffer gained at 4 KB, as a share.
    #[serde(rename = "bounce_gain_at_4KB")]
    pub bounce_gain_share: f64,
    /// What was said of bounce buffers at 64 KB.
    #[serde(rename = "bounce_at_64KB")]
    pub bounce_at_64_kb: String,
    /// How many of a packet's first clusters went through a bounce buffer: numbers, and `"all"`.
    pub bounce_cluster_counts: Vec<toml::Value>,
    crossover_bytes: u64,
    linux_gain_below_kb: u64,
    dma_is_main_cause_from_kb: u64,
    oc48_linux_saturates_from_kb: u64,
    freebsd_slower_for_short_packets_on_oc48: bool,
    /// Bytes of a cluster.
    pub mclbytes: u32,
    /// The shortest data that get a cluster, in bytes.
    pub minclsize: u32,
    /// The longest contiguous buffer, in KB of 1,024 bytes.
    pub linux_contiguous_buffer_kb: u64,
    /// Which buffers were copied because of their alignment.
    pub alignment_copies: String,
    /// For which lengths adaptive completion gained.
    pub completion_gain_range: String,
    /// What was to come next.
    pub announced_next: Vec<String>,
    /// The time that a packet takes to the receiver and back.
    pub rtt_us: u64,
}

impl AdaptiveTransmit {
    /// The most that a system with these buffers (`mbuf-2k`, `mbuf-4k`, `contiguous`) sent over a card (`oc48`,
    /// `ge10`), in bit/s.
    pub fn most_bps(&self, card: &str, buffers: &str) -> Option<f64> {
        let gbps = match (card, buffers) {
            ("oc48", "mbuf-2k") => self.freebsd_max_gbps_oc48,
            ("oc48", "mbuf-4k") => self.freebsd_max_gbps_oc48_4kb_clusters,
            ("oc48", "contiguous") => self.linux_max_gbps_oc48,
            ("ge10", "mbuf-2k") => self.freebsd_max_gbps_10gbe,
            ("ge10", "contiguous") => self.linux_max_gbps_10gbe,
            _ => return None,
        };
        Some(gbps * 1e9)
    }

    /// From how many bytes on something was published to hold over a card; `None` where that was not.
    ///
    /// | figure | what holds |
    /// |---|---|
    /// | `contiguous_ahead` | contiguous buffers are faster than chains |
    /// | `contiguous_saturated` | contiguous buffers fill the line |
    /// | `contiguous_gain_over` | adaptive completion has no effect on contiguous buffers |
    /// | `transfers_cost_most` | scattered transfers, not chains, are most of the loss |
    pub fn holds_from_bytes(&self, card: &str, figure: &str) -> Option<u64> {
        let kb = |kb: u64| kb * 1_024;
        match (card, figure) {
            ("ge10", "contiguous_ahead") => Some(self.crossover_bytes),
            // Ahead for short packets, too.
            ("oc48", "contiguous_ahead") => {
                self.freebsd_slower_for_short_packets_on_oc48.then_some(0)
            }
            ("oc48", "contiguous_saturated") => Some(kb(self.oc48_linux_saturates_from_kb)),
            ("oc48", "contiguous_gain_over") => Some(kb(self.linux_gain_below_kb)),
            ("oc48", "transfers_cost_most") => Some(kb(self.dma_is_main_cause_from_kb)),
            _ => None,
        }
    }

    /// What adaptive completion gained for short packets with these buffers, as a share.
    pub fn short_gain_share(&self, buffers: &str) -> f64 {
        match buffers {
            "contiguous" => self.short_gain_contiguous_share,
            _ => self.short_gain_mbuf_share,
        }
    }
}

/// Replacing the driver of a NIC while it sends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverReplacement {
    /// The workload.
    pub workload: String,
    minix3: ReplacingSystem,
    ant: ReplacingSystem,
    /// The longest time between two sends around a replacement, of MINIX 3.
    pub minix3_longest_send_gap_ms: f64,
    /// What a replacement added to sends, all together, of AnT.
    pub ant_extra_gap_ms: f64,
    /// What each time was measured from and to.
    pub clock: String,
    /// What the longest time between two sends of MINIX 3 is made of: computing, sending, replacing.
    pub minix3_gap_parts_ms: [f64; 3],
    /// How often the application got the processor while a new process was created, of AnT.
    pub ant_dispatches: u32,
    /// Which processes, and which requests, came first.
    pub priorities: String,
}

/// What was published about one system: each the greatest, the mean and the least.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplacingSystem {
    /// Time to replace, without load.
    pub swap_ms_idle: [f64; 3],
    /// The same, with the workload.
    pub swap_ms_busy: [f64; 3],
    /// How long a send took, without a replacement.
    pub send_ms_without: [f64; 3],
    /// The same with a replacement.
    pub send_ms_with: [f64; 3],
}

impl DriverReplacement {
    /// The systems, with the way in which each replaces, as it is called here.
    pub fn systems(&self) -> [(&'static str, &'static str, &ReplacingSystem); 2] {
        [("MINIX 3", "data-store", &self.minix3), ("AnT", "shared-state", &self.ant)]
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mint_injection: Injection,
    hybrid_receive: HybridReceive,
    adaptive_transmit: AdaptiveTransmit,
    driver_replacement: DriverReplacement,
}

static FILE: LazyLock<File> = LazyLock::new(|| {
    toml::from_str(include_str!("published.toml")).expect("a test reads this file")
});

/// What was published about injection.
pub fn injection() -> &'static Injection {
    &FILE.mint_injection
}

/// What was published about polling first and waiting then.
pub fn hybrid_receive() -> &'static HybridReceive {
    &FILE.hybrid_receive
}

/// What was published about transmitting.
pub fn adaptive_transmit() -> &'static AdaptiveTransmit {
    &FILE.adaptive_transmit
}

/// What was published about replacing a driver.
pub fn driver_replacement() -> &'static DriverReplacement {
    &FILE.driver_replacement
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
        assert_eq!(injection.memory_bandwidth_gbps, 130.0);
    }

    #[test]
    fn the_published_figures_of_hybrid_receiving_are_found_by_poll_time() {
        let hybrid = hybrid_receive();
        assert_eq!(hybrid.cpu_share(140, 50_000), Some(0.31));
        assert_eq!((hybrid.cpu_share(140, 1_000), hybrid.cpu_share(7, 50_000)), (None, None));
        assert_eq!(hybrid.loss(100, 7_000_000).unwrap().at.as_deref(), Some("10-15KB"));
        let of_7mb = |bytes| hybrid.lost_share(100, 7_000_000, bytes);
        assert_eq!([10_000, 15_000].map(of_7mb), [Some(0.002); 2]);
        assert_eq!([9_999, 15_001, 50_000].map(of_7mb), [None; 3], "it was lost at 10 to 15 KB");
        assert_eq!(hybrid.lost_share(300, 15_000_000, 1_000), Some(0.0));
        assert_eq!((hybrid.lost_share(300, 1, 1_000), hybrid.losses().len()), (None, 9));
        assert_eq!(hybrid.scheduling_delay_ms, 100);
        for loss in hybrid.losses() {
            assert_eq!(loss.lost_share > 0.0, loss.at.is_some(), "{loss:?}");
            assert!((0..66_000).any(|bytes| loss.is_of(bytes)), "{loss:?} is of no message");
        }
    }

    #[test]
    fn the_published_figures_of_transmitting_are_found_by_buffers() {
        let transmit = adaptive_transmit();
        let most = |card| {
            ["mbuf-2k", "mbuf-4k", "contiguous", "skb"].map(|name| transmit.most_bps(card, name))
        };
        assert_eq!(most("oc48"), [Some(1.9e9), Some(2.2e9), Some(2.4e9), None]);
        assert_eq!(most("ge10"), [Some(2.5e9), None, Some(4.0e9), None]);
        assert_eq!(most("oc192"), [None; 4]);
        assert_eq!(transmit.short_gain_share("mbuf-4k"), 0.70);
        assert_eq!(transmit.short_gain_share("contiguous"), 0.50);
        assert_eq!((transmit.dma_gain_share, transmit.mbuf_cost_share), (0.17, 0.12));
        assert!(transmit.bounce_at_64_kb.contains("no gain"));
        let from = |card, figure| transmit.holds_from_bytes(card, figure);
        assert_eq!(from("ge10", "contiguous_ahead"), Some(2_048));
        assert_eq!(
            (from("oc48", "contiguous_ahead"), from("oc192", "contiguous_ahead")),
            (Some(0), None)
        );
        assert_eq!(from("oc48", "transfers_cost_most"), Some(2_048));
        assert_eq!(from("ge10", "contiguous_saturated"), None);
    }

    #[test]
    fn the_published_figures_of_replacing_are_found_by_way() {
        let published = driver_replacement();
        let [(_, store, minix3), (_, shared, ant)] = published.systems();
        assert_eq!((store, shared), ("data-store", "shared-state"));
        assert_eq!((minix3.swap_ms_busy[0], ant.swap_ms_busy[0]), (0.336, 10.331));
        assert_eq!((minix3.send_ms_without[2], ant.send_ms_with[0]), (0.009, 0.114));
        assert_eq!(published.minix3_longest_send_gap_ms, 1.35);
        assert!(published.workload.contains("1024 bytes"));
        let parts: f64 = published.minix3_gap_parts_ms.iter().sum();
        assert!((parts - published.minix3_longest_send_gap_ms).abs() < 0.003);
        assert_eq!(published.ant_dispatches, 10);
        assert!(published.clock.contains("creation included"));
        assert!(published.priorities.contains("state I/O as ordinary ones (first system)"));
    }
}
