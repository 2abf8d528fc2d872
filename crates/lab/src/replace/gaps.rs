//! How long nothing happened.

use warikomi_clock::{Span, Time};

/// The longest time between two successive `times` that has a part in common with the time between `from` and
/// `to`; `None` if there are no two such times. `times` are in order.
pub(super) fn longest(times: &[Time], from: Time, to: Time) -> Option<Span> {
    let pairs = times.windows(2).filter(|pair| pair[1] >= from && pair[0] <= to);
    pairs.map(|pair| pair[1].since(pair[0])).max()
}

/// All of `count` times from one of `times` to the next together, from the one that `from` falls into on; `None` if
/// there are not that many. `times` are in order.
pub(super) fn following(times: &[Time], from: Time, count: usize) -> Option<Span> {
    let first = times.partition_point(|&time| time <= from).checked_sub(1)?;
    Some(times.get(first + count)?.since(times[first]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn only_gaps_that_touch_the_time_count() {
        let times = [at(0), at(50), at(60), at(90), at(95), at(500)];
        assert_eq!(longest(&times, at(61), at(92)), Some(Span::from_us(30)));
        assert_eq!(longest(&times, at(61), at(100)), Some(Span::from_us(405)));
        assert_eq!(longest(&times, at(501), at(600)), None);
        assert_eq!(longest(&[at(3)], at(0), at(9)), None);
    }

    #[test]
    fn what_follows_begins_with_the_gap_into_which_the_time_falls() {
        let times = [at(10), at(20), at(50), at(60), at(70)];
        assert_eq!(following(&times, at(25), 2), Some(Span::from_us(40)));
        assert_eq!(following(&times, at(20), 3), Some(Span::from_us(50)));
        assert_eq!(following(&times, at(51), 3), None);
        assert_eq!(following(&times, at(9), 1), None);
        assert_eq!(following(&[], at(9), 1), None);
    }

    proptest! {
        #[test]
        fn no_gap_is_longer_than_all_of_the_time(mut us in prop::collection::vec(0u64..1_000, 0..40),
            from in 0u64..1_000, length in 0u64..1_000) {
            us.sort_unstable();
            let times: Vec<Time> = us.iter().map(|&us| at(us)).collect();
            let all = longest(&times, Time::ZERO, Time::NEVER);
            prop_assert!(longest(&times, at(from), at(from + length)) <= all);
            prop_assert_eq!(all.is_some(), us.len() > 1);
        }
    }
}
