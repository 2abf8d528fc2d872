//! The smallest receive buffer that loses nothing.

use super::bench::Bench;
use super::options::Case;
use crate::error::Error;
use crate::receive::row::{Burst, Row};

/// Halves the interval between what loses and what does not until it is this share of the latter.
const CLOSE_ENOUGH: f64 = 0.1;

/// Looks for the smallest number of buffers with which nothing is lost, up to those of `case`; the row
/// is that of the smallest that lost nothing, or, if the largest loses, that of the largest.
pub(super) fn smallest_buffer(
    bench: &mut Bench<'_, '_>,
    case: &Case,
) -> Result<(Row, Vec<Burst>), Error> {
    let each_bytes = bench.options.buffer_bytes_of(case);
    let with = |buffers: u64| Case { buffer_bytes: buffers * each_bytes, ..*case };
    let mut search = Search::up_to((case.buffer_bytes / each_bytes).max(1));
    let mut best = bench.carry_out(&with(search.enough))?;
    if best.0.lost != Some(0) {
        return Ok(best);
    }
    while let Some(buffers) = search.next() {
        let tried = bench.carry_out(&with(buffers))?;
        let lost_nothing = tried.0.lost == Some(0);
        search.saw(buffers, lost_nothing);
        if lost_nothing {
            best = tried;
        }
    }
    Ok(best)
}

/// Numbers of buffers: one is known to be enough, one is taken to be too few.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Search {
    too_few: u64,
    enough: u64,
}

impl Search {
    fn up_to(most: u64) -> Search {
        Search { too_few: 0, enough: most }
    }

    /// What to try next; the geometric middle, because buffers are a matter of factors.
    fn next(&self) -> Option<u64> {
        let apart = self.enough - self.too_few;
        if apart <= 1 || (apart as f64) <= CLOSE_ENOUGH * self.enough as f64 {
            return None;
        }
        let middle = ((self.too_few.max(1) * self.enough) as f64).sqrt() as u64;
        Some(middle.clamp(self.too_few + 1, self.enough - 1))
    }

    fn saw(&mut self, buffers: u64, lost_nothing: bool) {
        match lost_nothing {
            true => self.enough = buffers,
            false => self.too_few = buffers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ends_soon_and_close_to_what_is_needed(most in 1u64..2_000, needed in 1u64..2_000) {
            let needed = needed.min(most);
            let mut search = Search::up_to(most);
            let mut tries = 0;
            while let Some(buffers) = search.next() {
                search.saw(buffers, buffers >= needed);
                tries += 1;
                prop_assert!(tries < 20);
            }
            prop_assert!(search.enough >= needed);
            prop_assert!(search.enough as f64 <= 1.12 * needed as f64 + 1.0, "{search:?} {needed}");
        }
    }
}
