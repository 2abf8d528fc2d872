//! Which queue a frame is for (82574, 7.1.10; registers MRQC, RETA and RSSRK in 10.2.5).

use super::regs::{self, Registers};
use crate::checksum::{Network, TCP};
use crate::queue::{KEY_BYTES, toeplitz};

// MRQC: what counts, and which hashes are on.
const MODE: u32 = 3;
const MODE_RSS: u32 = 1;
const TCP_IPV4: u32 = 1 << 16;
const IPV4: u32 = 1 << 17;
const IPV6: u32 = 1 << 20;
const TCP_IPV6: u32 = 1 << 21;

// Types of hashes in a descriptor.
const TYPE_TCP_IPV4: u32 = 1;
const TYPE_IPV4: u32 = 2;
const TYPE_TCP_IPV6: u32 = 3;
const TYPE_IPV6: u32 = 5;

/// A frame's queue, and what the descriptor says of its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steered {
    pub(super) queue: u16,
    /// The hash's type.
    pub(super) kind: u32,
    pub(super) hash: u32,
}

/// Where a frame goes. Without a hash that is queue 0.
#[inline]
pub(super) fn steer(file: &Registers, frame: &[u8]) -> Steered {
    let mrqc = file.get(regs::MRQC);
    if mrqc & MODE != MODE_RSS || file.get(regs::RXCSUM) & regs::RXCSUM_NO_PACKET_SUM == 0 {
        return Steered::default();
    }
    steer_by_hash(file, mrqc, frame).unwrap_or_default()
}

fn steer_by_hash(file: &Registers, mrqc: u32, frame: &[u8]) -> Option<Steered> {
    let network = Network::find(frame)?;
    let types = match network.version {
        4 => [(TCP_IPV4, TYPE_TCP_IPV4), (IPV4, TYPE_IPV4)],
        _ => [(TCP_IPV6, TYPE_TCP_IPV6), (IPV6, TYPE_IPV6)],
    };
    let segment = frame.get(network.payload..network.end)?.first_chunk::<4>();
    let ports = segment.filter(|_| network.protocol == TCP && !network.fragment);
    let [with_ports, without] = types.map(|(bit, kind)| (mrqc & bit != 0).then_some(kind));
    let (kind, ports) = match (with_ports, ports) {
        (Some(kind), Some(ports)) => (kind, Some(ports)),
        _ => (without?, None),
    };
    let input = network.addresses(frame).iter().chain(ports.into_iter().flatten());
    let hash = toeplitz(&key(file), input.copied());
    // The upper bit of an entry is the queue (10.2.5.22).
    let index = (hash & 0x7f) as u16;
    let entry = file.get(regs::RETA + index / 4 * 4) >> (8 * (index % 4));
    Some(Steered { queue: (entry >> 7 & 1) as u16, kind, hash })
}

fn key(file: &Registers) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    for (at, word) in (regs::RSSRK..).step_by(4).zip(key.as_chunks_mut().0) {
        *word = file.get(at).to_le_bytes();
    }
    key
}
