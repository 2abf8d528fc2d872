//! The hash by which a frame finds its queue (82574, 7.1.10; 82576, 7.1.1.7; registers MRQC, RETA and RSSRK).

use super::regs::{self, Registers};
use crate::checksum::{Network, TCP, UDP};
use crate::queue::{KEY_BYTES, toeplitz};

/// Hashes that MRQC can switch on.
pub(crate) mod field {
    pub(crate) const TCP_IPV4: u32 = 1 << 16;
    pub(crate) const IPV4: u32 = 1 << 17;
    pub(crate) const IPV6: u32 = 1 << 20;
    pub(crate) const TCP_IPV6: u32 = 1 << 21;
    /// The 82576 has these, too.
    pub(crate) const UDP_IPV4: u32 = 1 << 22;
    pub(crate) const UDP_IPV6: u32 = 1 << 23;
}
use field::{IPV4, IPV6, TCP_IPV4, TCP_IPV6, UDP_IPV4, UDP_IPV6};

// Types of hashes in a descriptor.
const TYPE_TCP_IPV4: u32 = 1;
const TYPE_IPV4: u32 = 2;
const TYPE_TCP_IPV6: u32 = 3;
const TYPE_IPV6: u32 = 5;
const TYPE_UDP_IPV4: u32 = 7;
const TYPE_UDP_IPV6: u32 = 8;

/// The type of a frame's hash, and the hash; `None` if it has none of those in `fields`.
pub(crate) fn hash(file: &Registers, fields: u32, frame: &[u8]) -> Option<(u32, u32)> {
    let network = Network::find(frame)?;
    let (address, transport) = match (network.version, network.protocol) {
        (4, UDP) => ((IPV4, TYPE_IPV4), (UDP_IPV4, TYPE_UDP_IPV4)),
        (4, _) => ((IPV4, TYPE_IPV4), (TCP_IPV4, TYPE_TCP_IPV4)),
        (_, UDP) => ((IPV6, TYPE_IPV6), (UDP_IPV6, TYPE_UDP_IPV6)),
        _ => ((IPV6, TYPE_IPV6), (TCP_IPV6, TYPE_TCP_IPV6)),
    };
    let on = |(bit, kind)| (fields & bit != 0).then_some(kind);
    let segment = frame.get(network.payload..network.end)?.first_chunk::<4>();
    let has_ports = matches!(network.protocol, TCP | UDP) && !network.fragment;
    let (kind, ports) = match (on(transport), segment.filter(|_| has_ports)) {
        (Some(kind), Some(ports)) => (kind, Some(ports)),
        _ => (on(address)?, None),
    };
    let input = network.addresses(frame).iter().chain(ports.into_iter().flatten());
    Some((kind, toeplitz(&key(file), input.copied())))
}

/// The entry of the redirection table for a hash.
pub(crate) fn entry(file: &Registers, hash: u32) -> u8 {
    let index = (hash & 0x7f) as u16;
    file.get(regs::RETA + index / 4 * 4).to_le_bytes()[usize::from(index % 4)]
}

fn key(file: &Registers) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    for (at, word) in (regs::RSSRK..).step_by(4).zip(key.as_chunks_mut().0) {
        *word = file.get(at).to_le_bytes();
    }
    key
}
