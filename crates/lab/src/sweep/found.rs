//! What a sweep finds out about a length, and the figures that follow from it.

use serde_json::{Map, Value, json};
use warikomi_measure::{Repeat, median, published};

use super::cycle::Cycle;

/// What a sweep has found out about one length; `NaN` is what was not found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) send_ns: f64,
    pub(super) saturated_bps: Vec<f64>,
    pub(super) driver: Vec<Shortest>,
    pub(super) end_to_end: Option<Vec<Shortest>>,
    pub(super) on_line: Option<Cycle>,
    /// The cycles of growing intervals, several of each.
    pub(super) curve: Vec<Cycle>,
}

/// The shortest interval without loss, as one search found it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shortest {
    pub(super) interval_ns: f64,
    /// Bits of frames in a second that were seen in the cycle there, not those that its interval stands for: the
    /// last packets take their time, too.
    pub(super) bps: f64,
}

impl Shortest {
    pub(super) const NONE: Shortest = Shortest { interval_ns: f64::NAN, bps: f64::NAN };
}

fn intervals(found: &[Shortest]) -> Vec<f64> {
    found.iter().map(|shortest| shortest.interval_ns).collect()
}

fn rates(found: &[Shortest]) -> Vec<f64> {
    found.iter().map(|shortest| shortest.bps).collect()
}

pub(super) fn row(size_bytes: usize, found: &Found) -> Map<String, Value> {
    let shortest_ns = median(intervals(&found.driver));
    let saturated_bps = median(found.saturated_bps.iter().copied());
    let loss_free_bps = median(rates(&found.driver));
    let mut row = Map::new();
    let mut put = |name: &str, value: f64| {
        // What was not found, or not published, is absent.
        if value.is_finite() {
            row.insert(name.to_owned(), json!(value));
        }
    };
    put("size_bytes", size_bytes as f64);
    put("shortest_loss_free_ns", shortest_ns);
    put("loss_free_bps", loss_free_bps);
    let injection = published::injection();
    put("published_bps", injection.throughput_bps(size_bytes).unwrap_or(f64::NAN));
    put("saturated_bps", saturated_bps);
    put("share_of_saturated", loss_free_bps / saturated_bps);
    if let Some(end_to_end) = &found.end_to_end {
        put("end_to_end_loss_free_ns", median(intervals(end_to_end)));
        put("end_to_end_loss_free_bps", median(rates(end_to_end)));
    }
    put("send_ns", found.send_ns);
    put("published_send_ns", injection.send_ns(size_bytes).unwrap_or(f64::NAN));
    if let Some(on_line) = &found.on_line {
        put("line_rate_bps", on_line.line_rate_bps.map_or(f64::NAN, |rate| rate as f64));
        put("on_line_bps", on_line.throughput_bps);
        put("on_line_driver_share", on_line.driver_share);
        put("published_real_nic_bps", injection.real_nic_bps(size_bytes).unwrap_or(f64::NAN));
    }
    row.insert("size_bytes".into(), json!(size_bytes));
    row
}

pub(super) fn repeats(size_bytes: usize, found: &Found) -> Vec<Repeat> {
    let mut figures = vec![
        ("shortest_loss_free_ns", intervals(&found.driver)),
        ("loss_free_bps", rates(&found.driver)),
        ("saturated_bps", found.saturated_bps.clone()),
    ];
    if let Some(end_to_end) = &found.end_to_end {
        figures.push(("end_to_end_loss_free_ns", intervals(end_to_end)));
        figures.push(("end_to_end_loss_free_bps", rates(end_to_end)));
    }
    let repeats = figures.into_iter().flat_map(|(figure, values)| {
        values.into_iter().zip(1..).map(move |(value, repeat)| Repeat {
            figure: figure.to_owned(),
            size_bytes: Some(size_bytes),
            repeat,
            value,
        })
    });
    repeats.filter(|repeat| repeat.value.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortest(interval_ns: f64, bps: f64) -> Shortest {
        Shortest { interval_ns, bps }
    }

    fn found() -> Found {
        Found {
            send_ns: 110.0,
            saturated_bps: vec![20e9, 30e9, 25e9],
            driver: vec![shortest(600.0, 19.5e9), shortest(800.0, 14e9), shortest(500.0, 21e9)],
            end_to_end: Some(vec![Shortest::NONE, shortest(3_000.0, 4e9), shortest(3_000.0, 4e9)]),
            on_line: None,
            curve: Vec::new(),
        }
    }

    #[test]
    fn a_row_holds_medians_and_what_follows_from_them() {
        let row = row(1_500, &found());
        assert_eq!(row["size_bytes"], json!(1_500));
        assert_eq!(row["shortest_loss_free_ns"], json!(600.0));
        assert_eq!(row["loss_free_bps"], json!(19.5e9), "as it was measured");
        assert_eq!(row["share_of_saturated"], json!(0.78));
        assert_eq!(row["end_to_end_loss_free_ns"], json!(3_000.0));
        assert_eq!(row["published_bps"], json!(6.3e9));
        assert!(!row.contains_key("on_line_bps"));
    }

    #[test]
    fn what_was_not_found_is_absent() {
        let row = row(60, &Found { driver: vec![Shortest::NONE], ..found() });
        assert!(!row.contains_key("loss_free_bps") && !row.contains_key("published_bps"));
    }

    #[test]
    fn every_repetition_is_kept() {
        let repeats = repeats(1_500, &found());
        let of = |figure: &str| repeats.iter().filter(|r| r.figure == figure).count();
        assert_eq!((of("shortest_loss_free_ns"), of("end_to_end_loss_free_ns")), (3, 2));
    }
}
