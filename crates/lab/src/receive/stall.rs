//! Delays of a scheduler without guarantees: something takes the target's core away, for so long, so often.
//!
//! In virtual time they are declared, and in real time a thread of higher priority causes them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use warikomi_clock::{Arrivals, Seed, Span};

use crate::Error;

/// Shorter ones are lost in what a wake-up takes.
const SHORTEST: Span = Span::from_us(1);
const LONGEST: Span = Span::from_ms(60_000);

/// For how long, and how often, the core is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// How long each time.
    pub long: Span,
    /// From the beginning of one to the beginning of the next.
    pub every: Span,
    /// Both are means of exponential distributions.
    pub random: bool,
}

/// Why a text is no stall.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseStallError {
    /// Its form is another.
    #[error(
        "'{0}' is not how the core is taken away; write how long and how often, as in 100ms:every=1s, and \
         :random behind it for lengths and gaps that are exponentially distributed"
    )]
    Form(String),
    /// A time in it cannot be.
    #[error(
        "'{0}' is not possible: a stall lasts 1 us or more, and comes no more often than that, and within a minute"
    )]
    Times(String),
}

impl FromStr for Stall {
    type Err = ParseStallError;

    fn from_str(text: &str) -> Result<Stall, ParseStallError> {
        let form = || ParseStallError::Form(text.to_owned());
        let mut parts = text.split(':');
        let long: Span = parts.next().unwrap_or_default().parse().map_err(|_| form())?;
        let every = parts.next().and_then(|part| part.trim().strip_prefix("every="));
        let every: Span = every.ok_or_else(form)?.parse().map_err(|_| form())?;
        let random = match (parts.next().map(str::trim), parts.next()) {
            (None, None) => false,
            (Some("random"), None) => true,
            _ => return Err(form()),
        };
        let possible = (SHORTEST..every).contains(&long) && every <= LONGEST;
        possible
            .then_some(Stall { long, every, random })
            .ok_or_else(|| ParseStallError::Times(text.to_owned()))
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let random = if self.random { ":random" } else { "" };
        write!(f, "{}:every={}{random}", plain(self.long), plain(self.every))
    }
}

/// A time in a form that is read again.
fn plain(span: Span) -> String {
    span.to_string().replace(' ', "")
}

impl Serialize for Stall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Stall {
    /// When the core is taken, from the beginning of a run of this length on, and for how long: first after half of
    /// the time between two.
    pub fn times(&self, duration: Span, seed: Seed) -> Vec<(Span, Span)> {
        let (mut gaps, mut lengths) =
            (self.drawn(self.every, seed, 0), self.drawn(self.long, seed, 1));
        let mut times = Vec::new();
        let mut at = Span::from_ps(gaps.next_gap().as_ps() / 2);
        while at < duration {
            let long = lengths.next_gap().max(SHORTEST);
            times.push((at, long));
            at += gaps.next_gap().max(long);
        }
        times
    }

    /// Spans with this mean, or that are all the same.
    fn drawn(&self, mean: Span, seed: Seed, stream: u64) -> Arrivals {
        let mut generator = Box::new(seed.generator());
        generator.set_stream(stream);
        match self.random {
            true => Arrivals::Poisson { mean, generator },
            false => Arrivals::Constant(mean),
        }
    }

    /// Refuses one of which a run of this length sees nothing.
    pub fn check(&self, duration: Span, seed: Seed) -> Result<(), Error> {
        if self.times(duration, seed).is_empty() {
            return Err(Error::impossible(format!(
                "a run of {duration} ends before its core is first taken away (--stall {self}); give a longer \
                 --duration"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stall_is_read_as_it_is_written() {
        let stall: Stall = "100ms:every=1s".parse().unwrap();
        let expected =
            Stall { long: Span::from_ms(100), every: Span::from_ms(1_000), random: false };
        assert_eq!(stall, expected);
        for text in ["100ms:every=1s", "1.5ms:every=20ms:random"] {
            let stall: Stall = text.parse().unwrap();
            assert_eq!(stall.to_string().parse(), Ok(stall), "{stall}");
        }
        for text in [
            "",
            "100ms",
            "100ms:every",
            "100ms:every=1s:often",
            "1ms:every=2ms:random:",
            "x:every=1s",
        ] {
            assert!(matches!(text.parse::<Stall>(), Err(ParseStallError::Form(_))), "{text}");
        }
        for text in ["0:every=1s", "1s:every=1s", "2s:every=1s", "1ms:every=2min", "1ns:every=1s"] {
            assert!(matches!(text.parse::<Stall>(), Err(ParseStallError::Times(_))), "{text}");
        }
    }

    #[test]
    fn the_core_is_taken_as_often_as_was_said_first_after_half_the_time() {
        let stall: Stall = "100ms:every=1s".parse().unwrap();
        let ms = Span::from_ms;
        assert_eq!(stall.times(ms(2_000), Seed(1)), [(ms(500), ms(100)), (ms(1_500), ms(100))]);
        assert!(stall.check(ms(500), Seed(1)).unwrap_err().to_string().contains("--duration"));
    }

    #[test]
    fn random_stalls_follow_from_the_seed_and_have_the_means_that_were_said() {
        let stall: Stall = "10ms:every=100ms:random".parse().unwrap();
        let times = stall.times(Span::from_ms(1_000_000), Seed(3));
        assert_eq!(times, stall.times(Span::from_ms(1_000_000), Seed(3)));
        assert_ne!(times, stall.times(Span::from_ms(1_000_000), Seed(4)));
        assert!((9_000..11_000).contains(&times.len()), "{}", times.len());
        let mean = times.iter().map(|(_, long)| long.as_us()).sum::<f64>() / times.len() as f64;
        assert!((9_000.0..11_000.0).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_stalls_follow_one_another(text in "[0-9.]{1,4}(us|ms):every=[0-9]{1,3}ms(:random)?") {
            if let Ok(stall) = text.parse::<Stall>() {
                let times = stall.times(Span::from_ms(300), Seed(1));
                prop_assert!(times.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            }
        }
    }
}
