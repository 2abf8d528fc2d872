//! Buses by name.

use warikomi_clock::Span;

use super::Bus;

/// A bus with known figures and a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Such as `pci-64-66` or `pcie3-x8`.
    pub name: &'static str,
    /// The bus's figures.
    pub bus: Bus,
}

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// All of them, the oldest first.
pub const PRESETS: &[Preset] = &[
    Preset { name: "pci-64-66", bus: PCI_64_66 },
    Preset { name: "pcix-133", bus: PCIX_133 },
    pcie("pcie1-x1", 250, 1, 800),
    pcie("pcie1-x4", 250, 4, 800),
    pcie("pcie1-x8", 250, 8, 800),
    pcie("pcie1-x16", 250, 16, 800),
    pcie("pcie2-x1", 500, 1, 700),
    pcie("pcie2-x4", 500, 4, 700),
    pcie("pcie2-x8", 500, 8, 700),
    pcie("pcie2-x16", 500, 16, 700),
    pcie("pcie3-x1", 985, 1, 560),
    pcie("pcie3-x4", 985, 4, 560),
    pcie("pcie3-x8", 985, 8, 560),
    pcie("pcie3-x16", 985, 16, 560),
    pcie("pcie4-x1", 1_969, 1, 500),
    pcie("pcie4-x4", 1_969, 4, 500),
    pcie("pcie4-x8", 1_969, 8, 500),
    pcie("pcie4-x16", 1_969, 16, 500),
    pcie("pcie5-x1", 3_938, 1, 460),
    pcie("pcie5-x4", 3_938, 4, 460),
    pcie("pcie5-x8", 3_938, 8, 460),
    pcie("pcie5-x16", 3_938, 16, 460),
];

/// PCI with 64 bits at 66 MHz: a clock of 15 ns, 8 bytes each.
///
/// A burst is what the usual latency timer of 32 clocks lets through (PCI 2.3, 3.5.4): 256 bytes.
/// The wait behind it is 8 clocks to get the bus again and the 16 that a target may take for its
/// first data (3.5.1.1): 360 ns. What comes before a transfer follows from the published study
/// (`[adaptive_transmit]` of the published results): 64 KB as 33 transfers had 17% less throughput
/// than as one, which was the line's 2.4 Gbit/s. A packet in 33 pieces then takes 218.5 µs / 0.83,
/// of which bytes and bursts are 203.6 µs, and 1.8 µs remain for each transfer. With it come out
/// 2.0 Gbit/s for clusters of 2 KB, and 2.2 for those of 4 KB, as published.
const PCI_64_66: Bus = Bus {
    bytes_per_second: 533_000_000,
    descriptor_fetch: Span::from_ns(600),
    arbitration: Span::from_ns(1_800),
    burst_bytes: 256,
    wait: Span::from_ns(360),
    mapping: Span::ZERO,
};

/// PCI-X with 64 bits at 133 MHz: a clock of 7.5 ns. Reads are split transactions (PCI-X 1.0a)
/// of 512 bytes, the usual largest read, each with 40 clocks until its data come. What comes before
/// a transfer is taken to have shrunk with the clock.
const PCIX_133: Bus = Bus {
    bytes_per_second: 1_066_000_000,
    descriptor_fetch: Span::from_ns(300),
    arbitration: Span::from_ns(900),
    burst_bytes: 512,
    wait: Span::from_ns(300),
    mapping: Span::ZERO,
};

/// PCI Express. Each 256 bytes, the usual largest payload, have 24 bytes of header, sequence number,
/// check and framing around them (PCI Express Base 3.0, chapters 2 to 4); these are the wait. A read
/// has its data after a round trip of 0.5 to 0.8 µs, the order of what was measured with generation 3
/// (Neugebauer and others, "Understanding PCIe performance for end host networking", 2018). Devices
/// keep several reads under way, here four, so a quarter of it remains for each transfer and for each
/// descriptor.
const fn pcie(name: &'static str, lane_mb_per_s: u64, lanes: u64, round_trip_ns: u64) -> Preset {
    const PAYLOAD_BYTES: u64 = 256;
    const AROUND_BYTES: u64 = 24;
    const PS_PER_US: u64 = 1_000_000;
    let quarter = Span::from_ns(round_trip_ns / 4);
    let bus = Bus {
        bytes_per_second: lane_mb_per_s * lanes * 1_000_000,
        descriptor_fetch: quarter,
        arbitration: quarter,
        burst_bytes: PAYLOAD_BYTES,
        wait: Span::from_ps(AROUND_BYTES * PS_PER_US / (lane_mb_per_s * lanes)),
        mapping: Span::ZERO,
    };
    Preset { name, bus }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ethernet, IPv4 and UDP.
    const HEADER: usize = 42;
    const OC48_BPS: f64 = 2.4e9;

    /// Bits a second of packets in these pieces, as bus and line let them through.
    fn bps(pieces: &[usize]) -> f64 {
        let seconds: f64 =
            pieces.iter().map(|&bytes| PCI_64_66.transfer_time(bytes, false).as_secs()).sum();
        let bits = 8.0 * pieces.iter().sum::<usize>() as f64;
        OC48_BPS.min(bits / seconds)
    }

    /// A message behind its header, in clusters.
    fn clusters(message: usize, cluster: usize) -> Vec<usize> {
        let last = message % cluster;
        let full = std::iter::repeat_n(cluster, message / cluster);
        std::iter::once(HEADER).chain(full).chain((last > 0).then_some(last)).collect()
    }

    #[test]
    fn the_published_shape_comes_out() {
        let contiguous = bps(&[HEADER + 65_507]);
        assert_eq!(contiguous, OC48_BPS, "one transfer keeps the line busy");
        let small = clusters(65_507, 2_048);
        assert_eq!(small.len(), 33);
        let lost = 1.0 - bps(&small) / contiguous;
        assert!((0.15..0.19).contains(&lost), "33 transfers lose {lost}");
        assert!((1.9e9..2.05e9).contains(&bps(&small)), "{} bit/s", bps(&small));
        let large = bps(&clusters(65_507, 4_096));
        assert!((2.15e9..2.25e9).contains(&large), "{large} bit/s");
        // The processor's copy takes its share of this.
        let gain = bps(&[HEADER + 4_096]) / bps(&clusters(4_096, 2_048)) - 1.0;
        assert!((0.10..0.25).contains(&gain), "one transfer of 4 KB for three gains {gain}");
    }

    #[test]
    fn every_preset_is_possible_and_has_its_name_once() {
        for preset in PRESETS {
            preset.bus.check().unwrap();
            assert_eq!(Preset::named(preset.name).unwrap().bus, preset.bus);
            assert_eq!(PRESETS.iter().filter(|other| other.name == preset.name).count(), 1);
        }
        assert!(Preset::named("isa").is_none());
    }
}
