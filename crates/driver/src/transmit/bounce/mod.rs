//! What is copied together before a packet is handed over, so that one transfer replaces several.

mod areas;
mod auto;
mod choose;
mod estimate;

pub(crate) use areas::{Areas, needed_bytes};
pub(crate) use auto::{Auto, Choice};
pub(crate) use estimate::Amount;

use std::fmt;
use std::str::FromStr;

/// What goes through the bounce buffer: the header, and so many of the buffers (clusters) behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounce {
    /// Nothing: the device collects every piece itself.
    #[default]
    None,
    /// The header and the first so many.
    First(u32),
    /// The whole packet.
    All,
    /// Chosen for each packet from what copying and transfers cost, so that it never loses against
    /// [`Bounce::None`].
    Auto,
    /// For finding out what costs how much: the headers and the payload's head as they are, and instead of
    /// the contents one contiguous piece of a buffer that was prepared. What arrives is not what was sent.
    Dummy,
}

/// Why a text says nothing about bounce buffers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no bounce buffer; write none, the number of buffers that are copied together with the header (1 to 64), all, auto or dummy"
)]
pub struct ParseBounceError(String);

/// Most buffers that are copied together.
const MOST_FIRST: u32 = 64;

impl FromStr for Bounce {
    type Err = ParseBounceError;

    fn from_str(text: &str) -> Result<Bounce, ParseBounceError> {
        match text.trim() {
            "none" | "0" => Ok(Bounce::None),
            "all" => Ok(Bounce::All),
            "auto" => Ok(Bounce::Auto),
            "dummy" => Ok(Bounce::Dummy),
            number => match number.parse() {
                Ok(count) if (1..=MOST_FIRST).contains(&count) => Ok(Bounce::First(count)),
                _ => Err(ParseBounceError(number.to_owned())),
            },
        }
    }
}

impl fmt::Display for Bounce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bounce::None => f.write_str("none"),
            Bounce::First(count) => count.fmt(f),
            Bounce::All => f.write_str("all"),
            Bounce::Auto => f.write_str("auto"),
            Bounce::Dummy => f.write_str("dummy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_are_none_are_refused_with_what_is() {
        for text in ["", "some", "-1", "65", "4.5", "99999999999"] {
            let refused = text.parse::<Bounce>().unwrap_err().to_string();
            assert!(refused.contains("1 to 64") && refused.contains("dummy"), "{refused}");
        }
        assert_eq!("0".parse(), Ok(Bounce::None));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(buffers in 1u32..=64) {
            for bounce in
                [Bounce::None, Bounce::First(buffers), Bounce::All, Bounce::Auto, Bounce::Dummy]
            {
                prop_assert_eq!(bounce.to_string().parse(), Ok(bounce));
            }
        }
    }
}
