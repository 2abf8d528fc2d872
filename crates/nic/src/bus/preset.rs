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

/// What names of presets begin with that follow from a published result, and not from the bus's documents.
pub const FITTED: &str = "fitted-";

/// All of them, the oldest first.
pub const PRESETS: &[Preset] = &[
    Preset { name: "pci-64-66", bus: PCI_64_66 },
    Preset { name: "fitted-2004", bus: FITTED_2004 },
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

/// Bytes that move in a clock of 64 bits.
const WIDTH_BYTES: u64 = 8;

/// What each transaction of PCI takes, in clocks.
mod pci {
    /// A clock at 66 MHz (PCI 2.2, 7.6.4.1).
    pub(super) const CLOCK_PS: u64 = 15_000;
    /// From REQ# to GNT#, on a bus without another master: the arbiter samples the one and drives the other a
    /// clock later (2.2.4, 3.4.1).
    pub(super) const ARBITRATION: u64 = 2;
    /// From FRAME#, so with the address phase, to the first data. A host bridge may take 32 where a cache holds
    /// the line modified (3.5.1.1), and what a driver sends has just been written by the processor.
    pub(super) const INITIAL: u64 = 32;
    /// The bus is turned around before the next transaction (3.3.1).
    pub(super) const IDLE: u64 = 1;
    /// A burst of Memory Read Multiple (3.1.2) lasts as long as the bridge has read ahead: it then disconnects
    /// (3.3.3.2.1). Bridges end reading ahead at 4 KB (DECchip 21154 data sheet, 4.6.3; PI7C8154A data sheet,
    /// 2.7.3: flow-through mode), and insert no wait states up to there. The latency timer ends a burst only when
    /// the arbiter has given the bus to another master (3.3.3.1), and the card is alone.
    pub(super) const BURST_BYTES: u64 = 4_096;
    /// Before the first byte, and again behind each disconnect.
    pub(super) const AROUND_PS: u64 = (ARBITRATION + INITIAL + IDLE) * CLOCK_PS;
}

/// PCI with 64 bits at 66 MHz, from its specification.
const PCI_64_66: Bus = Bus {
    bytes_per_second: per_second(pci::CLOCK_PS),
    descriptor_fetch: Span::from_ps(pci::AROUND_PS + DESCRIPTOR_CLOCKS * pci::CLOCK_PS),
    arbitration: Span::from_ps(pci::AROUND_PS),
    burst_bytes: pci::BURST_BYTES,
    wait: Span::from_ps(pci::AROUND_PS),
    mapping: Span::ZERO,
};

/// The same bus with a card of which a study was published (`[adaptive_transmit]` of the published results),
/// **fitted** to what it found: one transfer of 64 KB, limited by the line's 2.4 Gbit/s, was 17% ahead of 33. A
/// packet in 33 pieces then takes 218.5 us * 1.17, of which bytes and bursts (256 bytes, 360 ns behind each) are
/// 203.6 us, and 1.6 us remain for each transfer.
const FITTED_2004: Bus = Bus {
    bytes_per_second: 533_000_000,
    descriptor_fetch: Span::from_ns(600),
    arbitration: Span::from_ns(1_600),
    burst_bytes: 256,
    wait: Span::from_ns(360),
    mapping: Span::ZERO,
};

/// What each transaction of PCI-X takes, in clocks. A read is split (PCI-X 1.0b, 2.10): a request, and later a
/// completion with its data, for which the host arbitrates. A card with one DMA engine has one read under way.
mod pcix {
    /// A clock at 133 MHz (chapter 9).
    pub(super) const CLOCK_PS: u64 = 7_500;
    /// From REQ# to where FRAME# may fall (4.1): signals are registered at both ends, a clock more each than on PCI.
    pub(super) const ARBITRATION: u64 = 4;
    /// Address, attributes, response, Split Response, and the bus turned around (2.6, 2.10).
    pub(super) const REQUEST: u64 = 5;
    /// Address, attributes and response before the data of a Split Completion, and the bus turned around.
    pub(super) const COMPLETION: u64 = 4;
    /// The host fetches the line from memory or a cache meanwhile. The addendum sets no limit for a split
    /// completion; these are what the bridge may take on PCI, in clocks of PCI.
    pub(super) const HOST_PS: u64 = super::pci::INITIAL * super::pci::CLOCK_PS;
    /// The most that a read asks for, as the PCI-X Command register has it behind a reset (7.2.3). A driver may
    /// set up to 4,096: `pcix-133,burst=4096`. A completion may be cut at each 128 bytes (2.2), which a host that
    /// has the data does not do.
    pub(super) const READ_BYTES: u64 = 512;
    /// Before the first byte of each read.
    pub(super) const AROUND_PS: u64 = (2 * ARBITRATION + REQUEST + COMPLETION) * CLOCK_PS + HOST_PS;
}

/// PCI-X with 64 bits at 133 MHz, from its addendum. What Myricom measured of reads of 4 KB on hosts of 2003
/// lies near what comes out (docs/buses.md).
const PCIX_133: Bus = Bus {
    bytes_per_second: per_second(pcix::CLOCK_PS),
    descriptor_fetch: Span::from_ps(pcix::AROUND_PS + DESCRIPTOR_CLOCKS * pcix::CLOCK_PS),
    arbitration: Span::from_ps(pcix::AROUND_PS),
    burst_bytes: pcix::READ_BYTES,
    wait: Span::from_ps(pcix::AROUND_PS),
    mapping: Span::ZERO,
};

/// Data phases of a descriptor of 16 bytes.
const DESCRIPTOR_CLOCKS: u64 = 16 / WIDTH_BYTES;

const fn per_second(clock_ps: u64) -> u64 {
    WIDTH_BYTES * 1_000_000_000_000 / clock_ps
}

/// Parts of PCI Express (Base Specification 3.0).
mod express {
    /// The usual largest payload of a packet (7.8.4), which a completion of a read has.
    pub(super) const PAYLOAD_BYTES: u64 = 256;
    /// Around it: header of a completion (2.2.9) 12, check (3.5.2) 4, sequence number and framing 4: of generations 1
    /// and 2 a symbol before, two of the number, and a symbol behind (4.2.1.2); of later ones a token that has
    /// the number in it (4.2.2.3).
    pub(super) const AROUND_BYTES: u64 = 20;
    /// The largest read behind a reset (7.8.4).
    pub(super) const READ_BYTES: u64 = 512;
    /// What comes to each read besides, in the direction of its data: Ack of the request (3.5.2) and
    /// UpdateFC with its credits (2.6.1.2, 3.4), of 8 bytes with their framing.
    pub(super) const LINK_BYTES: u64 = 16;
    /// Reads that are under way at a time: tags of 5 bits, with the Extended Tag Field off (2.2.6.2).
    pub(super) const TAGS: u64 = 32;
    /// Behind each payload.
    pub(super) const WAIT_BYTES: u64 = AROUND_BYTES + LINK_BYTES * PAYLOAD_BYTES / READ_BYTES;
}

/// PCI Express. The link has both directions, so requests cost nothing beside completions, and latency is hidden
/// behind other reads as long as there are tags: with all under way one comes to its end in each 1/32 of a round
/// trip, and that is what each transfer and each descriptor takes besides. The specification sets no round trip; 0.5
/// to 0.8 us are the order of what was measured with generation 3 (Neugebauer and others, "Understanding PCIe
/// performance for end host networking", 2018, section 4).
const fn pcie(name: &'static str, lane_mb_per_s: u64, lanes: u64, round_trip_ns: u64) -> Preset {
    use express::{PAYLOAD_BYTES, READ_BYTES, TAGS, WAIT_BYTES};
    const PS_PER_US: u64 = 1_000_000;
    const NS_PER_S: u64 = 1_000_000_000;
    let share = Span::from_ps(round_trip_ns * 1_000 / TAGS);
    let (link, tags) =
        (lane_mb_per_s * lanes * 1_000_000, TAGS * READ_BYTES * NS_PER_S / round_trip_ns);
    let bus = Bus {
        bytes_per_second: if link < tags { link } else { tags },
        descriptor_fetch: share,
        arbitration: share,
        burst_bytes: PAYLOAD_BYTES,
        wait: Span::from_ps(WAIT_BYTES * PS_PER_US / (lane_mb_per_s * lanes)),
        mapping: Span::ZERO,
    };
    Preset { name, bus }
}

impl Bus {
    /// Whether its parts follow from a published result rather than from the bus's documents: the name by which
    /// it is written says so.
    pub fn is_fitted(&self) -> bool {
        self.to_string().starts_with(FITTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ethernet, IPv4 and UDP.
    const HEADER: usize = 42;
    const OC48_BPS: f64 = 2.4e9;

    /// Bits a second of packets in these pieces, as the bus alone lets them through.
    fn bus_bps(bus: &Bus, pieces: &[usize]) -> f64 {
        let seconds: f64 =
            pieces.iter().map(|&bytes| bus.transfer_time(bytes, false).as_secs()).sum();
        8.0 * pieces.iter().sum::<usize>() as f64 / seconds
    }

    /// A message behind its header, in clusters.
    fn clusters(message: usize, cluster: usize) -> Vec<usize> {
        let last = message % cluster;
        let full = std::iter::repeat_n(cluster, message / cluster);
        std::iter::once(HEADER).chain(full).chain((last > 0).then_some(last)).collect()
    }

    #[test]
    fn the_fitted_bus_has_the_gain_that_was_put_in() {
        let bps = |pieces: &[usize]| OC48_BPS.min(bus_bps(&FITTED_2004, pieces));
        let contiguous = bps(&[HEADER + 65_507]);
        assert_eq!(contiguous, OC48_BPS, "one transfer keeps the line busy");
        let small = clusters(65_507, 2_048);
        assert_eq!(small.len(), 33);
        let gain = contiguous / bps(&small) - 1.0;
        assert!((0.16..0.18).contains(&gain), "one transfer gains {gain} over 33");
    }

    /// What the documents of the buses let through, which is nothing that was published of any system. Myricom
    /// measured 716 to 936 MB/s of reads of 4 KB by PCI-X ("Bus Performance of Myrinet-2000/PCI-X NICs", 2003), with
    /// some 60 clocks before the data of each.
    #[test]
    fn the_documents_put_the_limit_of_each_bus_where_hosts_had_it() {
        let mb = |bus: &Bus, bytes| bus_bps(bus, &[bytes]) / 8e6;
        assert!((495.0..500.0).contains(&mb(&PCI_64_66, 1 << 20)), "{}", mb(&PCI_64_66, 1 << 20));
        let most = Bus { burst_bytes: 4_096, ..PCIX_133 };
        assert!((920.0..936.0).contains(&mb(&most, 1 << 20)), "{}", mb(&most, 1 << 20));
        let reset = mb(&PCIX_133, 1 << 20);
        assert!((460.0..475.0).contains(&reset), "{reset}: half of it in reads of 512 bytes");
        // A line of 2.4 Gbit/s is slower than the bus of the documents with either kind of buffers.
        assert!(bus_bps(&PCI_64_66, &clusters(65_507, 2_048)) > OC48_BPS);
    }

    #[test]
    fn a_wide_link_is_as_fast_as_its_tags_let_it_be() {
        let rate = |name| Preset::named(name).unwrap().bus.bytes_per_second;
        assert_eq!(rate("pcie4-x16"), 31_504_000_000);
        let by_tags = 32 * 512 * 1_000_000_000 / 460;
        assert_eq!(rate("pcie5-x16"), by_tags, "32 reads of 512 bytes in 460 ns");
        let wait = Preset::named("pcie1-x1").unwrap().bus.wait;
        assert_eq!(wait, Span::from_ns(112), "28 bytes around 256 at 250 MB/s");
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

    #[test]
    fn what_is_fitted_says_so_by_its_name_also_with_parts_that_differ() {
        let fitted = |text: &str| text.parse::<Bus>().unwrap().is_fitted();
        assert!(fitted("fitted-2004") && fitted("fitted-2004,wait=60ns,rate=400MB"));
        assert!(!fitted("pci-64-66") && !fitted("pcix-133,burst=4096"));
    }
}
