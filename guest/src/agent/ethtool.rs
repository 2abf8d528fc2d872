//! The ethtool ioctls that are used here. Each is an array of 32-bit words that starts with the
//! command and the lengths; the layouts are those of `include/uapi/linux/ethtool.h`.

use std::collections::BTreeMap;
use std::io;

use warikomi_protocol::commands::Coalesce;

use super::error::{AgentError, Context, Result};
use super::netif::Interface;
use super::sys;
use super::sys::ethtool::{
    CHANNELS_WORDS, COALESCE_WORDS, GCHANNELS, GCOALESCE, GFEATURES, GSTATS, GSTRINGS, NWAY_RST,
    SCHANNELS, SCOALESCE, SFEATURES, SRXFH, SS_FEATURES, SS_STATS, SS_TEST, STRING_BYTES, TEST,
};

/// Most strings that a set may have here; the kernel's own sets have some dozens, a driver's
/// statistics some hundreds.
const MOST_STRINGS: u32 = 4096;

/// Indexes of words in `struct ethtool_coalesce`.
const RX_USECS: usize = 1;
const RX_FRAMES: usize = 2;
const TX_USECS: usize = 5;
const TX_FRAMES: usize = 6;

/// Flags of `struct ethtool_test`, which are its second word, and where its results begin.
const TEST_OFFLINE: u32 = 1 << 0;
const TEST_FAILED: u32 = 1 << 1;
const TEST_FLAGS: usize = 1;
const TEST_RESULTS: usize = 4;

/// Index of a word in `struct ethtool_channels`.
const COMBINED: usize = 8;
/// Kinds of flows, and what may count of a packet, of `struct ethtool_rxnfc`.
const UDP_V4: u32 = 2;
const UDP_V6: u32 = 6;
const ADDRESSES: u32 = 1 << 4 | 1 << 5;
const PORTS: u32 = 1 << 6 | 1 << 7;

/// The short names of `ethtool -K`, and what the kernel calls them. A name that ends with a dash
/// stands for every feature that starts so.
const SHORT_NAMES: [(&str, &str); 10] = [
    ("rx", "rx-checksum"),
    ("tx", "tx-checksum-"),
    ("sg", "tx-scatter-gather"),
    ("tso", "tx-tcp"),
    ("gso", "tx-generic-segmentation"),
    ("gro", "rx-gro"),
    ("rxvlan", "rx-vlan-hw-parse"),
    ("txvlan", "tx-vlan-hw-insert"),
    ("rxfcs", "rx-fcs"),
    ("rxall", "rx-all"),
];

/// One word for each block of 32 features, as `struct ethtool_get_features_block`.
struct FeatureBlock {
    available: u32,
    active: u32,
}

/// The ethtool requests of one interface.
pub(super) struct Ethtool<'a> {
    interface: &'a Interface,
}

impl<'a> Ethtool<'a> {
    pub(super) fn new(interface: &'a Interface) -> Self {
        Self { interface }
    }

    fn call(&self, what: &str, data: &mut [u32]) -> Result<()> {
        self.try_call(data).context(|| format!("{what} of {}", self.interface.name))
    }

    fn try_call(&self, data: &mut [u32]) -> io::Result<()> {
        sys::ethtool_ioctl(self.interface.control(), &self.interface.name, data)
    }

    /// Restarts autonegotiation.
    pub(super) fn renegotiate(&self) -> Result<()> {
        self.call("restart the autonegotiation", &mut [NWAY_RST])
    }

    /// `None` where the driver has no such setting.
    pub(super) fn coalesce(&self) -> Result<Option<Coalesce>> {
        Ok(self.coalesce_words()?.map(|words| Coalesce {
            rx_usecs: Some(words[RX_USECS]),
            rx_frames: Some(words[RX_FRAMES]),
            tx_usecs: Some(words[TX_USECS]),
            tx_frames: Some(words[TX_FRAMES]),
        }))
    }

    fn coalesce_words(&self) -> Result<Option<[u32; COALESCE_WORDS]>> {
        self.words(GCOALESCE, "coalescing")
    }

    /// What this command reads; `None` where the driver has no such setting.
    fn words<const N: usize>(&self, command: u32, what: &str) -> Result<Option<[u32; N]>> {
        let mut words = [0; N];
        words[0] = command;
        match self.try_call(&mut words) {
            Ok(()) => Ok(Some(words)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => {
                Err(error).context(|| format!("read the {what} of {}", self.interface.name))
            }
        }
    }

    /// Pairs of queues in use; `None` where the driver does not tell them.
    pub(super) fn channels(&self) -> Result<Option<u32>> {
        let words: Option<[u32; CHANNELS_WORDS]> = self.words(GCHANNELS, "queues")?;
        Ok(words.map(|words| words[COMBINED]))
    }

    pub(super) fn set_channels(&self, combined: u32) -> Result<()> {
        let words: Option<[u32; CHANNELS_WORDS]> = self.words(GCHANNELS, "queues")?;
        let mut words = words.ok_or_else(|| {
            AgentError::Other(format!(
                "the driver of {} has no number of queues to be set (the setting channels)",
                self.interface.name
            ))
        })?;
        (words[0], words[COMBINED]) = (SCHANNELS, combined);
        self.call(&format!("use {combined} pairs of queues"), &mut words)
    }

    /// Whether the ports of UDP count when the card chooses a queue.
    pub(super) fn steer_by_udp_ports(&self, on: bool) -> Result<()> {
        let counts = ADDRESSES | if on { PORTS } else { 0 };
        for flow in [UDP_V4, UDP_V6] {
            self.call("choose what steers UDP", &mut [SRXFH, flow, counts, 0])?;
        }
        Ok(())
    }

    pub(super) fn set_coalesce(&self, wanted: &Coalesce) -> Result<()> {
        let mut words = self.coalesce_words()?.ok_or_else(|| {
            AgentError::Other(format!(
                "the driver of {} has no interrupt coalescing (the setting coalesce)",
                self.interface.name
            ))
        })?;
        words[0] = SCOALESCE;
        for (index, value) in [
            (RX_USECS, wanted.rx_usecs),
            (RX_FRAMES, wanted.rx_frames),
            (TX_USECS, wanted.tx_usecs),
            (TX_FRAMES, wanted.tx_frames),
        ] {
            words[index] = value.unwrap_or(words[index]);
        }
        self.call(&format!("set the coalescing ({wanted:?})"), &mut words)
    }

    /// The driver's own statistics; empty where it has none.
    pub(super) fn statistics(&self) -> Result<BTreeMap<String, u64>> {
        let names = self.strings(SS_STATS)?;
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut words = vec![0; 2 + 2 * names.len()];
        words[0] = GSTATS;
        words[1] = names.len() as u32;
        self.call("read the statistics", &mut words)?;
        Ok(names.into_iter().zip(numbers(&words[2..])).collect())
    }

    /// Has the driver test its card: whether it passed, and the result of each test. A driver without any passes none.
    pub(super) fn self_test(&self) -> Result<(bool, BTreeMap<String, u64>)> {
        let names = self.strings(SS_TEST)?;
        if names.is_empty() {
            return Ok((true, BTreeMap::new()));
        }
        let mut words = vec![0; TEST_RESULTS + 2 * names.len()];
        words[0] = TEST;
        words[TEST_FLAGS] = TEST_OFFLINE;
        self.call("test the card", &mut words)?;
        let passed = words[TEST_FLAGS] & TEST_FAILED == 0;
        Ok((passed, names.into_iter().zip(numbers(&words[TEST_RESULTS..])).collect()))
    }

    /// Every feature that has a name, and whether it is active.
    pub(super) fn features(&self) -> Result<BTreeMap<String, bool>> {
        let names = self.strings(SS_FEATURES)?;
        let blocks = self.feature_blocks(names.len())?;
        Ok(names
            .into_iter()
            .enumerate()
            .filter(|(_, name)| !name.is_empty())
            .map(|(index, name)| (name, blocks[index / 32].active >> (index % 32) & 1 == 1))
            .collect())
    }

    fn feature_blocks(&self, features: usize) -> Result<Vec<FeatureBlock>> {
        let blocks = features.div_ceil(32);
        let mut words = vec![0; 2 + 4 * blocks];
        words[0] = GFEATURES;
        words[1] = blocks as u32;
        self.call("read the offloads", &mut words)?;
        // available, requested, active, never_changed
        let block = |block: &[u32]| FeatureBlock { available: block[0], active: block[2] };
        Ok(words[2..].chunks_exact(4).map(block).collect())
    }

    /// Sets offloads by short or full name. One that the driver cannot change is an error unless
    /// it already is as asked.
    pub(super) fn set_features(&self, wanted: &BTreeMap<String, bool>) -> Result<()> {
        let names = self.strings(SS_FEATURES)?;
        let blocks = self.feature_blocks(names.len())?;
        // valid and requested, a pair for each block.
        let mut words = vec![0; 2 + 2 * blocks.len()];
        words[0] = SFEATURES;
        words[1] = blocks.len() as u32;
        for (name, &on) in wanted {
            let mut usable = false;
            for index in matching(&names, name) {
                let (block, bit) = (index / 32, 1 << (index % 32));
                let changeable = blocks[block].available & bit != 0;
                usable |= changeable || (blocks[block].active & bit != 0) == on;
                if changeable {
                    words[2 + 2 * block] |= bit;
                    words[3 + 2 * block] |= if on { bit } else { 0 };
                }
            }
            if !usable {
                return Err(AgentError::Other(format!(
                    "the driver of {} cannot turn the offload {name:?} {}",
                    self.interface.name,
                    if on { "on" } else { "off" }
                )));
            }
        }
        self.call("set the offloads", &mut words)
    }

    /// A set of strings of the kernel; empty if there is none.
    fn strings(&self, set: u32) -> Result<Vec<String>> {
        let count = sys::string_count(self.interface.control(), &self.interface.name, set)
            .context(|| format!("read the size of a string set of {}", self.interface.name))?;
        if count == 0 {
            return Ok(Vec::new());
        }
        // The kernel would write all of them, whatever it was told.
        if count > MOST_STRINGS {
            return Err(AgentError::Other(format!(
                "the driver of {} has {count} strings in a set; at most {MOST_STRINGS} are read",
                self.interface.name
            )));
        }
        let mut words = vec![0; 3 + count as usize * STRING_BYTES / 4];
        words[..3].copy_from_slice(&[GSTRINGS, set, count]);
        self.call("read a string set", &mut words)?;
        let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(bytes.chunks_exact(STRING_BYTES).map(text).collect())
    }
}

/// Numbers of 64 bits.
fn numbers(words: &[u32]) -> impl Iterator<Item = u64> + '_ {
    words.chunks_exact(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32)
}

/// A string that ends with its first NUL, or with its field.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).trim().to_owned()
}

/// Indexes of the features that a short or full name stands for.
fn matching(names: &[String], wanted: &str) -> Vec<usize> {
    let full = SHORT_NAMES.iter().find(|(short, _)| *short == wanted).map(|(_, full)| *full);
    let full = full.unwrap_or(wanted);
    let is_match = |name: &str| match full {
        "tx-tcp" => name.starts_with("tx-tcp") && name.ends_with("segmentation"),
        prefix if prefix.ends_with('-') => name.starts_with(prefix),
        exact => name == exact,
    };
    let indexes = names.iter().enumerate().filter(|(_, name)| is_match(name));
    indexes.map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_stand_for_what_ethtool_means_by_them() {
        let names: Vec<String> = [
            "tx-scatter-gather",
            "tx-checksum-ipv4",
            "tx-checksum-ip-generic",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-tcp-ecn-segmentation",
            "rx-checksum",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(matching(&names, "sg"), [0]);
        assert_eq!(matching(&names, "tx"), [1, 2]);
        assert_eq!(matching(&names, "tso"), [3, 4, 5]);
        assert_eq!(matching(&names, "rx"), [6]);
        assert_eq!(matching(&names, "tx-tcp6-segmentation"), [4]);
        assert!(matching(&names, "nonsense").is_empty());
    }

    #[test]
    fn strings_end_with_nul_or_field() {
        assert_eq!(text(b"tx_packets\0\0\0junk"), "tx_packets");
        assert_eq!(text(b"full"), "full");
    }
}
