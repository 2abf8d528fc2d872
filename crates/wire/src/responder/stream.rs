//! Bytes that are known by their place in a stream: byte i is i modulo 251.

use warikomi_protocol::payload::{FILLER_PERIOD as PERIOD, filler};

/// Two periods: a whole one from any place in the first.
const BYTES: [u8; 2 * PERIOD] = {
    let mut bytes = [0; 2 * PERIOD];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = filler(at);
        at += 1;
    }
    bytes
};

/// What belongs in the period's worth of bytes from byte `from` on.
fn expected(from: u64) -> &'static [u8] {
    let first = (from % PERIOD as u64) as usize;
    &BYTES[first..first + PERIOD]
}

/// The bytes from byte `from` on.
pub(super) fn fill(from: u64, into: &mut [u8]) {
    // The period is the same everywhere, so the first one's place is that of all.
    let period = expected(from);
    for part in into.chunks_mut(PERIOD) {
        part.copy_from_slice(&period[..part.len()]);
    }
}

/// How many of these bytes, which came as those from byte `from` on, are others.
pub(super) fn wrong(from: u64, bytes: &[u8]) -> u64 {
    let period = expected(from);
    let wrong_in = |part: &[u8]| {
        let expected = &period[..part.len()];
        if part == expected {
            return 0;
        }
        part.iter().zip(expected).filter(|(byte, expected)| byte != expected).count() as u64
    };
    bytes.chunks(PERIOD).map(wrong_in).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_is_known_by_its_place(from: u64, length in 0usize..2_000, damaged in prop::collection::btree_set(0usize..2_000, 0..20)) {
            let from = from >> 1;
            let mut bytes = vec![0; length];
            fill(from, &mut bytes);
            for (at, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(u64::from(*byte), (from + at as u64) % 251);
            }
            prop_assert_eq!(wrong(from, &bytes), 0);
            let damaged: Vec<usize> = damaged.into_iter().filter(|&at| at < length).collect();
            damaged.iter().for_each(|&at| bytes[at] ^= 1);
            prop_assert_eq!(wrong(from, &bytes), damaged.len() as u64);
        }
    }
}
