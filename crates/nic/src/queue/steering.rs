//! Steering: which receive queue a frame is for (receive-side scaling).
//!
//! A hash of a packet's addresses and ports, so that packets of one flow stay in order on one queue,
//! and a table that says which queue a hash stands for. Hash and table are those of Microsoft's
//! "Introduction to Receive Side Scaling" and "RSS Hashing Functions" (Windows network drivers,
//! NDIS 6.0).

use crate::checksum::{Network, TCP, UDP};

/// Bytes of a key: enough for two IPv6 addresses and two ports.
pub const KEY_BYTES: usize = 40;

/// The Toeplitz hash ("RSS Hashing Functions", section "Toeplitz Hash Function"): for each bit of the
/// input that is set, the first bit first, the 32 bits of the key that begin at the same bit. Input
/// beyond the key's length counts as zero.
pub fn toeplitz(key: &[u8; KEY_BYTES], input: impl IntoIterator<Item = u8>) -> u32 {
    let [a, b, c, d, rest @ ..] = key;
    let mut window = u32::from_be_bytes([*a, *b, *c, *d]);
    let mut hash = 0;
    // The last of the input's bytes find no more of the key behind their windows.
    let behind = rest.iter().copied().chain([0; 4]);
    for (byte, behind) in input.into_iter().zip(behind) {
        for bit in (0..8).rev() {
            hash ^= if byte >> bit & 1 != 0 { window } else { 0 };
            window = window << 1 | u32::from(behind >> bit & 1);
        }
    }
    hash
}

/// The steering of one card.
#[derive(Clone, Debug)]
pub struct Steering {
    key: [u8; KEY_BYTES],
    /// The queue for each value of the hash's low bits: a power of two of them.
    table: Vec<u16>,
    udp_ports: bool,
}

impl Steering {
    /// Everything goes to queue 0, until the key and the table of `entries` entries are set.
    ///
    /// # Panics
    ///
    /// If `entries` is no power of two.
    pub fn new(entries: usize) -> Self {
        assert!(entries.is_power_of_two(), "an indirection table of {entries} entries");
        Steering { key: [0; KEY_BYTES], table: vec![0; entries], udp_ports: false }
    }

    /// The driver writes the key.
    pub fn set_key(&mut self, key: [u8; KEY_BYTES]) {
        self.key = key;
    }

    /// The driver writes an entry of the table; one that is not there is left alone. The model sees to it
    /// that there is such a queue.
    pub fn set_entry(&mut self, index: usize, queue: u16) {
        if let Some(entry) = self.table.get_mut(index) {
            *entry = queue;
        }
    }

    /// The queue in an entry of the table; 0 where there is no entry.
    pub fn entry(&self, index: usize) -> u16 {
        self.table.get(index).copied().unwrap_or(0)
    }

    /// Whether the ports of UDP packets count as those of TCP do. Fragments have no ports, so packets
    /// of a flow that are fragmented may overtake others.
    pub fn set_udp_ports(&mut self, on: bool) {
        self.udp_ports = on;
    }

    /// The hash of a frame; `None` if there is no complete IP packet in it. IPv6 extension headers are
    /// not looked behind.
    pub fn hash(&self, frame: &[u8]) -> Option<u32> {
        let network = Network::find(frame)?;
        let has_ports = match network.protocol {
            TCP => true,
            UDP => self.udp_ports,
            _ => false,
        };
        let transport = &frame[network.payload..network.end];
        let ports = transport.first_chunk::<4>().filter(|_| has_ports && !network.fragment);
        let input = network.addresses(frame).iter().chain(ports.into_iter().flatten());
        Some(toeplitz(&self.key, input.copied()))
    }

    /// The queue that a frame is for: the entry that the low bits of its hash name, or 0 if it has none.
    pub fn queue_of(&self, frame: &[u8]) -> u16 {
        self.hash(frame).map_or(0, |hash| self.table[hash as usize & (self.table.len() - 1)])
    }
}
