//! Which way to receive the rows of a comparison recommend, for this traffic and a processor budget.

use serde::Serialize;

use super::Row;

/// The best way to receive of those that were tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The share of the processor (0 to 1) that receiving may take.
    pub cpu_budget_share: f64,
    /// The strategy.
    pub strategy: String,
    /// Its poll time in microseconds, if it has one.
    pub poll_us: Option<u64>,
    /// The smallest receive buffer with which no packet was lost, in bytes.
    pub buffer_bytes: u64,
    /// Its share of the processor.
    pub cpu_share: f64,
    /// 99 of 100 bursts were there within this, in microseconds.
    pub delay_p99_us: f64,
    /// Packets of the longest bursts that this rests on.
    pub packets: u64,
}

/// Why there is nothing to advise.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NoAdvice {
    /// Every row lost packets.
    #[error("every way that was tried lost packets: try larger buffers or a smaller load")]
    AllLose,
    /// Nothing without loss is within the budget.
    #[error(
        "no way without loss is within {:.0}% of the processor: the least took {:.0}%", 100.0 * .budget, 100.0 * .least
    )]
    AllTakeMore {
        /// The budget.
        budget: f64,
        /// The smallest share of a row without loss.
        least: f64,
    },
}

/// A way to receive: strategy, poll time, and the buffer that was asked for, of which there may be less with bursts of
/// another length. Rows that differ in what arrives only are one.
type Way<'a> = (&'a str, Option<u64>, u64);

/// Chooses, for a receiver that may take `cpu_budget_share` (0 to 1) of the processor: of the ways that
/// lost nothing in any burst length and stayed within the budget in all of them, the one whose slowest
/// bursts were the fastest, with the smallest buffer. Ways whose delays differ by less than a
/// twentieth are taken for equally fast, and the cheaper one is chosen.
pub fn advise(rows: &[Row], cpu_budget_share: f64) -> Result<Advice, NoAdvice> {
    let mut ways: Vec<Way<'_>> = rows.iter().map(way).collect();
    ways.sort_unstable();
    ways.dedup();
    let lossless: Vec<Advice> = ways
        .into_iter()
        .filter_map(|of| summary(rows.iter().filter(|row| way(row) == of), cpu_budget_share))
        .collect();
    let least = lossless.iter().map(|way| way.cpu_share).fold(f64::INFINITY, f64::min);
    let fitting: Vec<Advice> =
        lossless.into_iter().filter(|way| way.cpu_share <= cpu_budget_share).collect();
    let fastest = fitting.iter().map(|way| way.delay_p99_us).fold(f64::INFINITY, f64::min);
    fitting
        .into_iter()
        .filter(|way| way.delay_p99_us <= fastest * 1.05)
        .min_by(|a, b| {
            a.cpu_share.total_cmp(&b.cpu_share).then(a.buffer_bytes.cmp(&b.buffer_bytes))
        })
        .ok_or(match least.is_finite() {
            true => NoAdvice::AllTakeMore { budget: cpu_budget_share, least },
            false => NoAdvice::AllLose,
        })
}

fn way(row: &Row) -> Way<'_> {
    (&row.strategy, row.poll_us, row.asked_buffer_bytes.unwrap_or(row.buffer_bytes))
}

/// The worst of a way's rows; `None` if one of them lost something or is not known.
fn summary<'a>(rows: impl Iterator<Item = &'a Row>, cpu_budget_share: f64) -> Option<Advice> {
    let mut worst: Option<Advice> = None;
    for row in rows {
        if row.lost != Some(0) {
            return None;
        }
        let (cpu_share, delay) = (row.cpu_share?, row.delay_us?.p99);
        let advice = worst.get_or_insert(Advice {
            cpu_budget_share,
            strategy: row.strategy.clone(),
            poll_us: row.poll_us,
            buffer_bytes: row.buffer_bytes,
            cpu_share,
            delay_p99_us: delay,
            packets: 0,
        });
        advice.buffer_bytes = advice.buffer_bytes.max(row.buffer_bytes);
        advice.cpu_share = advice.cpu_share.max(cpu_share);
        advice.delay_p99_us = advice.delay_p99_us.max(delay);
        advice.packets += row.planned.unwrap_or(0);
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use warikomi_measure::Delay;

    fn row(strategy: &str, poll_us: u64, buffer_mb: u64, cpu: f64, lost: u64, p99: f64) -> Row {
        Row {
            cpu_share: Some(cpu),
            lost: Some(lost),
            planned: Some(1_000),
            delay_us: Some(Delay { p50: p99, p90: p99, p99, max: p99 }),
            ..Row::new(strategy, Some(poll_us), buffer_mb * 1_000_000, 50_000)
        }
    }

    #[test]
    fn the_fastest_without_loss_within_the_budget_with_the_smallest_buffer() {
        let rows = [
            row("hybrid", 100, 7, 0.20, 3, 90.0),
            row("hybrid", 100, 10, 0.21, 0, 200.0),
            row("hybrid", 140, 7, 0.24, 0, 100.0),
            row("hybrid", 140, 10, 0.24, 0, 101.0),
            row("hybrid", 300, 7, 0.40, 0, 50.0),
        ];
        let advice = advise(&rows, 0.3).unwrap();
        assert_eq!((advice.poll_us, advice.buffer_bytes), (Some(140), 7_000_000));
        assert_eq!(advise(&rows, 0.5).unwrap().poll_us, Some(300));
        let refused = advise(&rows, 0.1).unwrap_err();
        assert!(matches!(refused, NoAdvice::AllTakeMore { least, .. } if least == 0.21));
        assert_eq!(advise(&rows[..1], 0.9), Err(NoAdvice::AllLose));
    }

    #[test]
    fn a_way_is_judged_by_its_worst_burst() {
        let mut rows = [row("hybrid", 100, 7, 0.2, 0, 50.0), row("hybrid", 100, 7, 0.6, 0, 70.0)];
        rows[1].burst_bytes = 1_000;
        assert!(matches!(advise(&rows, 0.5), Err(NoAdvice::AllTakeMore { .. })));
        let advice = advise(&rows, 0.6).unwrap();
        assert_eq!((advice.packets, advice.delay_p99_us), (2_000, 70.0));
    }

    /// Buffers that are as long as a message, or that a search has found, differ with the burst.
    #[test]
    fn a_way_that_loses_long_bursts_is_not_advised_for_its_short_ones() {
        let asked = |buffer_mb: u64, found_mb, lost, p99| Row {
            asked_buffer_bytes: Some(buffer_mb * 1_000_000),
            ..row("hybrid", 100, found_mb, 0.2, lost, p99)
        };
        let rows = [
            asked(7, 2, 0, 10.0),
            asked(7, 6, 3, 90.0),
            asked(10, 3, 0, 20.0),
            asked(10, 9, 0, 95.0),
        ];
        let advice = advise(&rows, 0.5).unwrap();
        assert_eq!((advice.buffer_bytes, advice.delay_p99_us), (9_000_000, 95.0));
        assert_eq!(advise(&rows[..2], 0.5), Err(NoAdvice::AllLose));
    }
}
