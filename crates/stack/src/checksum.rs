//! The Internet checksum (RFC 1071) of bytes that come in pieces.

/// A one's complement sum of 16-bit words. Pieces may have any length: one that begins at an odd place counts
/// with its bytes exchanged, which is the same sum (RFC 1071, 2 (B)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// In this machine's byte order; each piece adds at most 16 bits.
    words: u64,
    /// An odd number of bytes is in it.
    odd: bool,
}

impl Sum {
    /// The next bytes.
    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let sum = fold(sum(bytes));
        let sum = if self.odd { sum.swap_bytes() } else { sum };
        self.words += u64::from(sum);
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// The bytes of another sum, behind an even number of bytes or none.
    #[inline]
    pub(crate) fn join(self, other: Sum) -> Sum {
        Sum { words: self.words + other.words, odd: other.odd }
    }

    /// The checksum: the complement, as it stands in a header. A sum that has a right checksum in it has 0.
    #[inline]
    pub(crate) fn checksum(self) -> [u8; 2] {
        (!fold(self.words)).to_ne_bytes()
    }
}

/// Words of four bytes are summed up, several of them at a time, and folded in the end: the sum is the same
/// (RFC 1071, 2 (C)).
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let all: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    all + u64::from(u32::from_ne_bytes(last))
}

#[inline]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The same word by word, as RFC 1071 has it first: for tests.
#[cfg(test)]
pub(crate) fn plain(bytes: &[u8]) -> [u8; 2] {
    let mut sum = 0_u64;
    for word in bytes.chunks(2) {
        sum += u64::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u64::from(low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_the_rfc_has_its_checksum() {
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.checksum(), (!0xddf2_u16).to_be_bytes());
        assert_eq!(Sum::default().checksum(), [0xff; 2]);
    }

    proptest! {
        #[test]
        fn bytes_have_one_checksum_however_they_are_cut(
            bytes in prop::collection::vec(any::<u8>(), 0..5_000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut sum = Sum::default();
            cuts.windows(2).for_each(|piece| sum.add(&bytes[piece[0]..piece[1]]));
            prop_assert_eq!(sum.checksum(), plain(&bytes));
            let mut whole = Sum::default();
            whole.add(&bytes);
            prop_assert_eq!(Sum::default().join(whole).checksum(), plain(&bytes));
        }
    }
}
