//! The head of every UDP payload that Warikomi accounts for.
//!
//! | offset (bytes) | size | what |
//! |---|---|---|
//! | 0 | 4 | magic, `0x4b49_5257` little-endian ("WRIK") |
//! | 4 | 4 | run id, little-endian: tells this run's frames from stragglers of the last |
//! | 8 | 8 | sequence number, little-endian |

/// First four bytes of a payload, little-endian: the letters "WRIK".
pub const MAGIC: u32 = 0x4b49_5257;

/// Length of the head, in bytes.
pub const HEAD_BYTES: usize = 16;

/// The longest payload of a UDP datagram, in bytes: an IPv4 packet has 65,535 bytes (RFC 791, 3.1), of
/// which 28 are headers.
pub const MOST_BYTES: u32 = 65_507;

/// The bytes of a payload, and of a stream, repeat with this period.
pub const FILLER_PERIOD: usize = 251;

/// Byte `at` of a payload, behind its head: not all zeros, so that a byte that is not copied shows.
#[inline]
pub const fn filler(at: usize) -> u8 {
    (at % FILLER_PERIOD) as u8
}

/// What the head of a payload says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Which run the datagram belongs to.
    pub run_id: u32,
    /// Its sequence number in that run.
    pub sequence: u64,
}

impl Head {
    /// The bytes that start a payload.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.run_id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// The head at the start of `payload`; `None` if it is too short or is not one of ours.
    #[inline]
    pub fn from_bytes(payload: &[u8]) -> Option<Self> {
        let (magic, rest) = payload.split_first_chunk::<4>()?;
        let (run_id, rest) = rest.split_first_chunk::<4>()?;
        let sequence = rest.first_chunk::<8>()?;
        (u32::from_le_bytes(*magic) == MAGIC).then(|| Self {
            run_id: u32::from_le_bytes(*run_id),
            sequence: u64::from_le_bytes(*sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_the_way_through_bytes() {
        let head = Head { run_id: 0xdead_beef, sequence: u64::MAX - 1 };
        let bytes = head.to_bytes();
        assert_eq!(&bytes[0..4], b"WRIK");
        assert_eq!(Head::from_bytes(&bytes), Some(head));
    }

    #[test]
    fn short_or_foreign_payloads_have_no_head() {
        let bytes = Head { run_id: 1, sequence: 2 }.to_bytes();
        for length in 0..HEAD_BYTES {
            assert_eq!(Head::from_bytes(&bytes[..length]), None);
        }
        let mut other = bytes;
        other[0] ^= 1;
        assert_eq!(Head::from_bytes(&other), None);
    }
}
