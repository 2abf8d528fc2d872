//! What pieces and bytes cost, learned from what they took.

use warikomi_clock::Span;

/// The most by which an observation may differ from what was expected: what is far off was disturbed.
const FAR_OFF: f64 = 4.0;
/// How strongly an estimate stays where it was if the observations do not tell its two parts apart.
const INERTIA: f64 = 0.002;
/// How unlike observations must be, for pieces to be told from bytes.
const UNLIKE: f64 = 0.003;
/// Bytes are counted in units of this many, so that both parts are numbers of like size.
const UNIT_BYTES: f64 = 1_024.0;

/// An amount of work: pieces (of a packet, or whatever is counted besides bytes), and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) pieces: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, pieces: u64, bytes: u64) {
        self.pieces += pieces;
        self.bytes += bytes;
    }
}

/// What a piece and a byte take: the least squares of errors relative to what was expected, the newest
/// observations first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// How much an observation still counts after the next.
    fades: f64,
    piece_ps: f64,
    unit_ps: f64,
    /// Fading sums over the observations, each divided by what was expected: of squares and of products.
    squares: [f64; 2],
    product: f64,
    sums: [f64; 2],
    resolved: bool,
}

impl Cost {
    /// Nothing is known; an observation counts so much after the next, 0 to 1.
    pub(crate) fn new(fades: f64) -> Cost {
        Cost {
            fades,
            piece_ps: 0.0,
            unit_ps: 0.0,
            squares: [0.0; 2],
            product: 0.0,
            sums: [0.0; 2],
            resolved: false,
        }
    }

    /// What so much takes, in picoseconds.
    #[inline]
    pub(crate) fn of(&self, pieces: f64, bytes: f64) -> f64 {
        self.piece_ps * pieces + self.unit_ps * bytes / UNIT_BYTES
    }

    /// Whether observations have ever told what a piece takes from what a byte takes.
    pub(crate) fn is_resolved(&self) -> bool {
        self.resolved
    }

    /// Takes an observation: `amount` took the device this time.
    pub(crate) fn observe(&mut self, amount: Amount, took: Span) {
        let took_ps = took.as_ps() as f64;
        if took_ps <= 0.0 || amount == Amount::default() {
            return;
        }
        let (pieces, bytes) = (amount.pieces as f64, amount.bytes as f64);
        let expected_ps = self.of(pieces, bytes);
        // Not by what it took: after a sudden change old observations would count for more than new ones.
        let scale_ps = if expected_ps > 0.0 { expected_ps } else { took_ps };
        let (x, y) = (pieces / scale_ps, bytes / UNIT_BYTES / scale_ps);
        let time = (took_ps / scale_ps).clamp(1.0 / FAR_OFF, FAR_OFF);
        let fades = self.fades;
        let fade = |sum: &mut f64, term: f64| *sum = *sum * fades + term;
        fade(&mut self.squares[0], x * x);
        fade(&mut self.squares[1], y * y);
        fade(&mut self.product, x * y);
        fade(&mut self.sums[0], x * time);
        fade(&mut self.sums[1], y * time);
        self.solve();
    }

    /// The normal equations, with what holds the estimate in place, in units in which both parts weigh the
    /// same.
    fn solve(&mut self) {
        let scale = self.squares.map(|square| square.sqrt().max(1e-100));
        let before = [self.piece_ps * scale[0], self.unit_ps * scale[1]];
        let between = self.product / (scale[0] * scale[1]);
        self.resolved |= between * between < 1.0 - UNLIKE;
        let right = [0, 1].map(|part| self.sums[part] / scale[part] + INERTIA * before[part]);
        let there = self.squares.map(|square| f64::from(u8::from(square > 0.0)) + INERTIA);
        let determinant = there[0] * there[1] - between * between;
        let mut part = [
            (right[0] * there[1] - right[1] * between) / determinant,
            (right[1] * there[0] - right[0] * between) / determinant,
        ];
        // Nothing takes less than no time: then it is all the other part's.
        for (one, other) in [(0, 1), (1, 0)] {
            if part[one] < 0.0 {
                part[one] = 0.0;
                part[other] = right[other] / there[other];
            }
        }
        self.piece_ps = part[0] / scale[0];
        self.unit_ps = part[1] / scale[1];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn observe(cost: &mut Cost, pieces: u64, bytes: u64, piece_ns: u64, byte_ps: u64) {
        let took = Span::from_ps(pieces * piece_ns * 1_000 + bytes * byte_ps);
        cost.observe(Amount { pieces, bytes }, took);
    }

    fn close(seen: f64, expected: f64) -> bool {
        (seen - expected).abs() <= 0.03 * expected.max(1_000.0)
    }

    proptest! {
        #[test]
        fn both_parts_are_found_from_two_shapes_of_packets(
            piece_ns in 1u64..5_000, byte_ps in 1u64..20_000, pieces in 2u64..40, bytes in 1_000u64..60_000,
        ) {
            let mut cost = Cost::new(0.97);
            for _ in 0..200 {
                observe(&mut cost, pieces, bytes, piece_ns, byte_ps);
                observe(&mut cost, 1, bytes, piece_ns, byte_ps);
            }
            for pieces in [1, pieces / 2, pieces] {
                let expected = (pieces * piece_ns * 1_000 + bytes * byte_ps) as f64;
                let seen = cost.of(pieces as f64, bytes as f64);
                prop_assert!(close(seen, expected), "{seen} {expected}");
            }
            prop_assert!(cost.is_resolved());
        }

        #[test]
        fn one_shape_is_told_right_whatever_its_parts(
            piece_ns in 1u64..5_000, byte_ps in 1u64..20_000, pieces in 1u64..40, bytes in 100u64..60_000,
        ) {
            let mut cost = Cost::new(0.97);
            for _ in 0..100 {
                observe(&mut cost, pieces, bytes, piece_ns, byte_ps);
            }
            let expected = (pieces * piece_ns * 1_000 + bytes * byte_ps) as f64;
            prop_assert!(close(cost.of(pieces as f64, bytes as f64), expected));
            prop_assert!(!cost.is_resolved());
        }

        #[test]
        fn no_part_is_ever_negative_or_no_number(
            observed in prop::collection::vec((0u64..100, 0u64..100_000, 0u64..10_000_000), 1..100),
        ) {
            let mut cost = Cost::new(0.97);
            for (pieces, bytes, ps) in observed {
                cost.observe(Amount { pieces, bytes }, Span::from_ps(ps));
                prop_assert!(cost.of(1.0, 0.0) >= 0.0 && cost.of(0.0, 1.0) >= 0.0, "{cost:?}");
                prop_assert!(cost.of(1e3, 1e6).is_finite());
            }
        }
    }

    #[test]
    fn a_sudden_change_is_followed() {
        let mut cost = Cost::new(0.97);
        for (piece_ns, byte_ps) in [(100, 3_000), (2_000, 500)] {
            for _ in 0..300 {
                observe(&mut cost, 9, 16_000, piece_ns, byte_ps);
                observe(&mut cost, 1, 16_000, piece_ns, byte_ps);
            }
            assert!(close(cost.of(1.0, 0.0), piece_ns as f64 * 1_000.0), "{cost:?}");
            assert!(close(cost.of(0.0, 1_000.0), byte_ps as f64 * 1_000.0), "{cost:?}");
        }
    }
}
