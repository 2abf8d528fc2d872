//! What is sent: messages of one length, or of several.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use warikomi_sim::transmit::SIZES_BYTES;
use warikomi_stack::send::{LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES};

use crate::error::Error;

/// The most blocks in a round of a mixture: as many lengths as a plan has.
const MOST_BLOCKS: u64 = 64;

/// What is sent in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Messages of this many bytes.
    Size(u32),
    /// Messages of several lengths.
    Mixture(Mixture),
}

impl Traffic {
    /// Lengths in bytes, in turn.
    pub fn sizes_bytes(&self) -> &[u32] {
        match self {
            Traffic::Size(bytes) => std::slice::from_ref(bytes),
            Traffic::Mixture(mixture) => &mixture.sizes_bytes,
        }
    }

    /// Messages of one length before the next length's turn; 0 for a random length each time.
    pub fn block(&self) -> u64 {
        match self {
            Traffic::Size(_) => 1,
            Traffic::Mixture(mixture) => mixture.block,
        }
    }

    /// The mean length in bytes.
    pub fn mean_bytes(&self) -> u64 {
        let sizes = self.sizes_bytes();
        let sum: u64 = sizes.iter().map(|&bytes| u64::from(bytes)).sum();
        sum / (sizes.len() as u64).max(1)
    }

    /// The length of all messages in bytes, if they have the same.
    pub fn size(&self) -> Option<u32> {
        match self {
            Traffic::Size(bytes) => Some(*bytes),
            Traffic::Mixture(_) => None,
        }
    }

    /// The mixture, as it is written.
    pub fn mixture(&self) -> Option<String> {
        match self {
            Traffic::Size(_) => None,
            Traffic::Mixture(mixture) => Some(mixture.to_string()),
        }
    }
}

/// Messages of several lengths: so many of one, then so many of the next, and over again (`64x10,1472x5`);
/// or of a random length each time (`random:64,1472`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Mixture {
    sizes_bytes: Vec<u32>,
    block: u64,
}

impl From<Mixture> for String {
    fn from(mixture: Mixture) -> String {
        mixture.to_string()
    }
}

impl FromStr for Mixture {
    type Err = Error;

    fn from_str(text: &str) -> Result<Mixture, Error> {
        let form = || {
            Error::impossible(format!(
                "'{}' is no mixture; write SIZExCOUNT,... (64x10,1472x5: ten messages of 64 bytes, five of \
                 1,472, and over again) or random:SIZE,... (random:64,1472: any of these lengths each time)",
                text.trim()
            ))
        };
        if let Some(sizes) = text.trim().strip_prefix("random:") {
            let sizes: Vec<u64> = sizes
                .split(',')
                .map(|size| whole(size).ok_or_else(form))
                .collect::<Result<_, _>>()?;
            return Mixture::of(&sizes.into_iter().map(|size| (size, 1)).collect::<Vec<_>>(), 0);
        }
        let part = |part: &str| {
            let (size, count) = part.split_once('x').ok_or_else(form)?;
            let count = whole(count).filter(|&count| count > 0).ok_or_else(form)?;
            Ok::<(u64, u64), Error>((whole(size).ok_or_else(form)?, count))
        };
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for part in text.split(',').map(part) {
            let (size, count) = part?;
            match parts.last_mut() {
                Some(last) if last.0 == size => last.1 = last.1.saturating_add(count),
                _ => parts.push((size, count)),
            }
        }
        let block = parts.iter().fold(0, |divisor, &(_, count)| common_divisor(divisor, count));
        let blocks: Vec<(u64, u64)> = parts.iter().map(|&(size, n)| (size, n / block)).collect();
        Mixture::of(&blocks, block)
    }
}

impl Mixture {
    /// Any of these lengths each time: those of [`SIZES_BYTES`] that are no longer than this.
    pub fn random(longest_bytes: u32) -> Mixture {
        let sizes_bytes = SIZES_BYTES.into_iter().filter(|&bytes| bytes <= longest_bytes).collect();
        Mixture { sizes_bytes, block: 0 }
    }

    /// Lengths in bytes with their numbers of blocks.
    fn of(sizes: &[(u64, u64)], block: u64) -> Result<Mixture, Error> {
        let blocks = sizes.iter().fold(0u64, |sum, &(_, blocks)| sum.saturating_add(blocks));
        if blocks > MOST_BLOCKS {
            return Err(Error::impossible(format!(
                "the mixture has {blocks} blocks of messages, and up to {MOST_BLOCKS} are possible: give fewer \
                 lengths, or counts that have a larger divisor in common (640x10 and 64x5 are 3 blocks of 5)"
            )));
        }
        let mut sizes_bytes = Vec::new();
        for &(size, blocks) in sizes {
            let possible = (LEAST_MESSAGE_BYTES.into()..=MOST_MESSAGE_BYTES.into()).contains(&size);
            let bytes = u32::try_from(size).ok().filter(|_| possible);
            let bytes = bytes.ok_or_else(|| {
                Error::impossible(format!(
                    "messages of {size} bytes are not possible in a mixture: from {LEAST_MESSAGE_BYTES} to \
                     {MOST_MESSAGE_BYTES}"
                ))
            })?;
            sizes_bytes.extend(std::iter::repeat_n(bytes, blocks as usize));
        }
        Ok(Mixture { sizes_bytes, block })
    }
}

impl fmt::Display for Mixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = if self.block == 0 { "random:" } else { "" };
        for same in self.sizes_bytes.chunk_by(|a, b| self.block > 0 && a == b) {
            write!(f, "{separator}{}", same.first().copied().unwrap_or_default())?;
            if self.block > 0 {
                write!(f, "x{}", same.len() as u64 * self.block)?;
            }
            separator = ",";
        }
        Ok(())
    }
}

fn whole(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mixture(text: &str) -> Mixture {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_are_as_long_as_all_counts_allow() {
        let two = mixture("64x10, 1472x5");
        assert_eq!((two.sizes_bytes.as_slice(), two.block), (&[64, 64, 1_472][..], 5));
        assert_eq!(two.to_string(), "64x10,1472x5");
        assert_eq!(Traffic::Mixture(two).mean_bytes(), (2 * 64 + 1_472) / 3);
        let random = mixture("random:64,64,9000");
        assert_eq!((random.sizes_bytes.as_slice(), random.block), (&[64, 64, 9_000][..], 0));
        assert_eq!(random.to_string(), "random:64,64,9000");
        assert_eq!(Mixture::random(200).sizes_bytes, [16, 64, 128]);
    }

    #[test]
    fn what_is_no_mixture_is_refused_with_what_would_be() {
        for (text, said) in [
            ("64", "SIZExCOUNT"),
            ("64x0", "SIZExCOUNT"),
            ("random", "random:SIZE"),
            ("random:", "random:SIZE"),
            ("15x1", "from 16 to 65507"),
            ("64x1,65508x1", "from 16 to 65507"),
            ("64x100,128x1", "101 blocks"),
        ] {
            let error = text.parse::<Mixture>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back(parts in prop::collection::vec((16u32..65_508, 1u64..9), 1..8)) {
            let text: Vec<_> = parts.iter().map(|(size, count)| format!("{size}x{count}")).collect();
            let read = mixture(&text.join(","));
            prop_assert_eq!(mixture(&read.to_string()), read.clone());
            let all: u64 = parts.iter().map(|part| part.1).sum();
            prop_assert_eq!(read.sizes_bytes.len() as u64 * read.block, all);
        }

        #[test]
        fn never_panics_on_any_text(text in ".*") {
            let _ = text.parse::<Mixture>();
        }
    }
}
