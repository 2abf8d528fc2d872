//! Which way to send the rows of a comparison recommend, for this machine, card and traffic.

use serde::Serialize;
use warikomi_driver::transmit::{Bounce, Completion};

use super::row::Row;

/// Ways whose mean rates differ by less than this share are taken for equally fast.
const EQUAL_SHARE: f64 = 0.01;

/// The best way to send from one kind of buffers, of those that were tried with all traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Advice {
    /// The card, where several are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// The buffers: which a system has is rarely a matter of choice.
    pub buffers: String,
    /// The completion strategy.
    pub completion: String,
    /// The bounce buffer.
    pub bounce: String,
    /// By how much it is behind the fastest way from these buffers for each traffic, in the mean of all
    /// traffic, as a share (0 to 1).
    pub behind_mean_share: f64,
    /// The same where it is most.
    pub behind_most: At,
    /// By how much it is ahead of interrupts without a bounce buffer, in the mean, as a share; absent if that
    /// was not tried with all traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_mean_share: Option<f64>,
    /// The same where it is most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_most: Option<At>,
    /// The processor's share that sending takes, in the mean.
    pub cpu_share: f64,
    /// No other buffers were faster, in the mean of all traffic.
    pub fastest_buffers: bool,
}

/// A share, and the traffic that it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct At {
    /// The share.
    pub share: f64,
    /// Length of the messages in bytes; the mean of a mixture.
    pub size_bytes: u64,
    /// The mixture's lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixture: Option<String>,
}

/// Advice for each card, and each kind of buffers, in the order of the rows. Of the ways that came to no dead-lock with any
/// traffic, the one with the greatest geometric mean of rates; of equally fast ones, the one that takes the
/// least of the processor. Dummy drivers do not count; nor is plain interrupt-free completion advised, which may
/// dead-lock with other messages, and which adaptive completion is otherwise.
pub(super) fn advise(rows: &[Row]) -> Vec<Advice> {
    let mut cards: Vec<&Option<String>> = Vec::new();
    for row in rows {
        if !cards.contains(&&row.card) {
            cards.push(&row.card);
        }
    }
    let of_card = |card: &Option<String>| {
        let rows: Vec<Row> = rows.iter().filter(|row| row.card == *card).cloned().collect();
        advise_on_a_card(&rows)
    };
    cards.into_iter().flat_map(of_card).collect()
}

fn advise_on_a_card(rows: &[Row]) -> Vec<Advice> {
    let mut kinds: Vec<&str> = Vec::new();
    for row in rows {
        if !kinds.contains(&row.buffers.as_str()) {
            kinds.push(&row.buffers);
        }
    }
    let mut found: Vec<(f64, Advice)> =
        kinds.into_iter().filter_map(|buffers| advise_for(rows, buffers)).collect();
    let fastest = found.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
    for (rate, advice) in &mut found {
        advice.fastest_buffers = *rate >= fastest * (1.0 - EQUAL_SHARE);
    }
    found.into_iter().map(|(_, advice)| advice).collect()
}

/// The rows of one way to send, with their rates in bit/s: one for each traffic, in one order.
struct Way<'a> {
    rows: Vec<(&'a Row, f64)>,
    mean_bps: f64,
    cpu_share: f64,
}

impl<'a> Way<'a> {
    fn name(&self) -> (&'a str, &'a str) {
        self.rows.first().map_or(("", ""), |(row, _)| (&row.completion, &row.bounce))
    }

    /// Where and by how much this is more than another way, at most; and in the mean.
    fn ahead_of(&self, other: &Way<'_>) -> Option<(f64, At)> {
        let pairs = self.rows.iter().zip(&other.rows);
        let most = pairs.map(|((row, rate), (_, other))| at(row, rate / other - 1.0));
        let most = most.max_by(|a, b| a.share.total_cmp(&b.share))?;
        Some((self.mean_bps / other.mean_bps - 1.0, most))
    }
}

fn at(row: &Row, share: f64) -> At {
    At { share, size_bytes: row.size_bytes, mixture: row.mixture.clone() }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

fn advise_for(rows: &[Row], buffers: &str) -> Option<(f64, Advice)> {
    let of_buffers: Vec<&Row> = rows.iter().filter(|row| row.buffers == buffers).collect();
    let mut traffic: Vec<&Row> = Vec::new();
    for row in &of_buffers {
        if !traffic.iter().any(|known| known.same_traffic(row)) {
            traffic.push(row);
        }
    }
    let ways = ways(&of_buffers, &traffic);
    let free = Completion::InterruptFree.to_string();
    let safe: Vec<&Way<'_>> = ways.iter().filter(|way| way.name().0 != free).collect();
    let fastest = safe.iter().map(|way| way.mean_bps).fold(0.0, f64::max);
    let equal = safe.into_iter().filter(|way| way.mean_bps >= fastest * (1.0 - EQUAL_SHARE));
    let best = equal.min_by(|a, b| a.cpu_share.total_cmp(&b.cpu_share))?;
    let behind = best.rows.iter().enumerate().map(|(place, (row, rate))| {
        let fastest = ways.iter().map(|way| way.rows[place].1).fold(*rate, f64::max);
        at(row, 1.0 - rate / fastest)
    });
    let behind: Vec<At> = behind.collect();
    let plain = (Completion::Interrupt.to_string(), Bounce::None.to_string());
    let plain = ways.iter().find(|way| way.name() == (plain.0.as_str(), plain.1.as_str()));
    let ahead = plain.and_then(|plain| best.ahead_of(plain));
    let (completion, bounce) = best.name();
    let advice = Advice {
        card: of_buffers.first().and_then(|row| row.card.clone()),
        buffers: buffers.to_owned(),
        completion: completion.to_owned(),
        bounce: bounce.to_owned(),
        behind_mean_share: mean(behind.iter().map(|at| at.share)),
        behind_most: behind.into_iter().max_by(|a, b| a.share.total_cmp(&b.share))?,
        ahead_mean_share: ahead.as_ref().map(|(mean, _)| *mean),
        ahead_most: ahead.map(|(_, most)| most),
        cpu_share: best.cpu_share,
        fastest_buffers: false,
    };
    Some((best.mean_bps, advice))
}

/// The ways that have sent all traffic.
fn ways<'a>(rows: &[&'a Row], traffic: &[&Row]) -> Vec<Way<'a>> {
    let dummy = Bounce::Dummy.to_string();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| row.bounce != dummy) {
        let name = (row.completion.as_str(), row.bounce.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let way = |(completion, bounce): (&str, &str)| {
        let row = |traffic: &&Row| {
            let same = |row: &&&Row| {
                row.same_traffic(traffic) && row.completion == completion && row.bounce == bounce
            };
            let row = *rows.iter().find(same)?;
            Some((row, row.bps.filter(|&bps| bps > 0.0 && !row.dead_locked)?))
        };
        let rows: Vec<(&Row, f64)> = traffic.iter().map(row).collect::<Option<_>>()?;
        let mean_bps = mean(rows.iter().map(|(_, bps)| bps.ln())).exp();
        let cpu_share = mean(rows.iter().map(|(row, _)| row.cpu_share.unwrap_or(1.0)));
        Some(Way { rows, mean_bps, cpu_share })
    };
    names.into_iter().filter_map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(size_bytes: u64, way: (&str, &str, &str), bps: f64, cpu_share: f64) -> Row {
        let (buffers, completion, bounce) = way;
        Row {
            size_bytes,
            buffers: buffers.into(),
            completion: completion.into(),
            bounce: bounce.into(),
            bps: Some(bps),
            cpu_share: Some(cpu_share),
            ..Row::default()
        }
    }

    const PLAIN: (&str, &str, &str) = ("mbuf-2k", "interrupt", "none");
    const FREE: (&str, &str, &str) = ("mbuf-2k", "interrupt-free", "none");
    const AUTO: (&str, &str, &str) = ("mbuf-2k", "adaptive", "auto");

    #[test]
    fn the_fastest_way_over_all_sizes_is_advised_with_the_reason() {
        let rows = [
            row(64, PLAIN, 100.0, 1.0),
            row(64, AUTO, 170.0, 0.9),
            row(4_096, PLAIN, 1_000.0, 0.5),
            row(4_096, AUTO, 950.0, 0.5),
        ];
        let advice = advise(&rows);
        let [advice] = advice.as_slice() else { panic!("{advice:?}") };
        assert_eq!((advice.completion.as_str(), advice.bounce.as_str()), ("adaptive", "auto"));
        assert_eq!((advice.behind_most.size_bytes, advice.fastest_buffers), (4_096, true));
        assert!((advice.behind_most.share - 0.05).abs() < 1e-9);
        assert!((advice.behind_mean_share - 0.025).abs() < 1e-9);
        let ahead = advice.ahead_most.as_ref().unwrap();
        assert!(ahead.size_bytes == 64 && (ahead.share - 0.7).abs() < 1e-9);
        let mean = (1.7f64 * 0.95).sqrt() - 1.0;
        assert!((advice.ahead_mean_share.unwrap() - mean).abs() < 1e-9);
    }

    #[test]
    fn what_may_dead_lock_or_was_not_tried_everywhere_is_not_advised() {
        let all = ("mbuf-2k", "interrupt", "all");
        let mut rows = vec![
            row(64, PLAIN, 100.0, 1.0),
            row(64, FREE, 300.0, 1.0),
            row(64, all, 300.0, 1.0),
            row(64, AUTO, 900.0, 1.0),
            row(64, ("mbuf-2k", "interrupt", "dummy"), 2_000.0, 1.0),
            row(4_096, PLAIN, 100.0, 1.0),
            row(4_096, FREE, 200.0, 1.0),
            row(4_096, ("mbuf-2k", "interrupt", "dummy"), 2_000.0, 1.0),
        ];
        rows.push(Row { dead_locked: true, bps: None, ..row(4_096, all, 0.0, 1.0) });
        let advice = advise(&rows);
        assert_eq!(
            (advice[0].completion.as_str(), advice[0].bounce.as_str()),
            ("interrupt", "none")
        );
        assert_eq!(advice[0].ahead_mean_share, Some(0.0));
        // What is not advised is what the advised way is behind, nevertheless.
        assert!((advice[0].behind_most.share - 2.0 / 3.0).abs() < 1e-9, "{advice:?}");
    }

    #[test]
    fn of_equally_fast_ways_the_cheaper_one_and_each_kind_of_buffers_has_its_own() {
        let rows = [
            row(64, PLAIN, 100.0, 0.6),
            row(64, AUTO, 100.5, 0.9),
            row(64, ("contiguous", "adaptive", "none"), 200.0, 1.0),
        ];
        let advice = advise(&rows);
        assert_eq!(advice[0].completion, "interrupt");
        assert_eq!((advice[0].fastest_buffers, advice[1].fastest_buffers), (false, true));
        assert_eq!(advice[1].ahead_mean_share, None);
        assert!(advise(&[]).is_empty());
    }
}
