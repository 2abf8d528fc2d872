//! Figures as people read them.

/// Nanoseconds in the largest unit that leaves at least 1, to four significant digits: `38.02 µs`.
pub(crate) fn time(ns: f64) -> String {
    match ns.abs() {
        small if small < 999.95 => format!("{} ns", significant(ns)),
        small if small < 999_950.0 => format!("{} µs", significant(ns / 1e3)),
        small if small < 999_950_000.0 => format!("{} ms", significant(ns / 1e6)),
        _ => format!("{} s", significant(ns / 1e9)),
    }
}

/// Bits per second: `12.04 Gbit/s`.
pub(crate) fn rate(bps: f64) -> String {
    match bps {
        small if small < 1e3 => format!("{} bit/s", significant(bps)),
        small if small < 1e6 => format!("{} kbit/s", significant(bps / 1e3)),
        small if small < 1e9 => format!("{} Mbit/s", significant(bps / 1e6)),
        _ => format!("{} Gbit/s", significant(bps / 1e9)),
    }
}

/// A share of 0 to 1 in percent. Never rounded up to 100% or down to 0%: one packet lost of a
/// million is not none.
pub(crate) fn percent(share: f64) -> String {
    let shown = format!("{:.2}%", 100.0 * share);
    match shown.as_str() {
        "100.00%" if share < 1.0 => "> 99.99%".to_owned(),
        "0.00%" if share > 0.0 => "< 0.01%".to_owned(),
        "100.00%" => "100%".to_owned(),
        "0.00%" => "0%".to_owned(),
        _ => shown,
    }
}

/// A whole number with its thousands apart: `1,000,000`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut apart = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        big if big >= 100.0 => 1,
        some if some >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_fit_the_figure() {
        let shown = [0.0, 205.5, 1_000.0, 38_016.0, 1_353_000.0, 999_999.0, 2e9].map(time);
        assert_eq!(shown, ["0 ns", "205.5 ns", "1 µs", "38.02 µs", "1.353 ms", "1 ms", "2 s"]);
        assert_eq!(
            [12.0e9, 315.8e6, 5e3, 7.0].map(rate),
            ["12 Gbit/s", "315.8 Mbit/s", "5 kbit/s", "7 bit/s"]
        );
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn nearly_all_is_not_all() {
        let shown = [0.0, 1e-6, 0.5, 0.996, 0.999_999, 1.0].map(percent);
        assert_eq!(shown, ["0%", "< 0.01%", "50.00%", "99.60%", "> 99.99%", "100%"]);
    }

    proptest! {
        #[test]
        fn never_panics_on_any_figure(value: f64, number: u64) {
            let _ = (time(value), rate(value), percent(value));
            prop_assert_eq!(count(number).replace(',', "").parse::<u64>().unwrap(), number);
        }
    }
}
