//! Random moments, which a seed repeats.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use warikomi_clock::Seed;

/// Places in a run, as shares of it.
pub(super) struct Places(ChaCha8Rng);

impl Places {
    /// Streams of one seed are independent of each other.
    pub(super) fn new(seed: Seed, stream: u64) -> Places {
        let mut generator = seed.generator();
        generator.set_stream(stream);
        Places(generator)
    }

    /// So many places, in order: one in each of as many equal parts, anywhere in it.
    pub(super) fn some(&mut self, count: u64) -> Vec<f64> {
        let part = 1.0 / count.max(1) as f64;
        (0..count).map(|at| (at as f64 + self.one()) * part).collect()
    }

    /// One place: 0 to 1, without 1.
    pub(super) fn one(&mut self) -> f64 {
        // As many bits as a double has digits.
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_in_order_within_their_parts_and_repeat(seed in any::<u64>(), count in 0u64..50) {
            let places = Places::new(Seed(seed), 3).some(count);
            prop_assert_eq!(&places, &Places::new(Seed(seed), 3).some(count));
            prop_assert!(count == 0 || places != Places::new(Seed(seed), 4).some(count));
            for (at, place) in places.iter().enumerate() {
                let from = at as f64 / count as f64;
                prop_assert!((from..=from + 1.0 / count as f64).contains(place));
            }
        }
    }
}
