//! What was published of receiving, as questions: each is one command, and its answer says whether the same is found
//! here.

use std::ops::RangeInclusive;

use clap::ValueEnum;
use serde::Serialize;
use warikomi_measure::layout::size;
use warikomi_measure::published;

use super::row::Row;

/// The poll time in microseconds below which losses were published for every buffer.
const BELOW_US: u32 = 100;
/// How far a need may be from the one that was expected and still be the same, as a share of that.
const SAME: RangeInclusive<f64> = 0.75..=1.25;
/// What is less than this share of another need is less; a search in real time ends within a tenth.
const LESS: f64 = 0.85;

/// A published conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Claim {
    /// With a poll time below 100 us there is loss with any receive buffer
    #[value(name = "below-100us")]
    Below100us,
    /// With real-time priority a receiver needs less buffer
    RealTimePriority,
    /// Twice the line needs twice the buffer
    LineDoubled,
    /// A processor half as fast needs the same buffer (with --virtual)
    CpuHalved,
}

impl Claim {
    /// Whether it is about the smallest buffer without loss.
    pub fn is_about_need(self) -> bool {
        self != Claim::Below100us
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn published(self) -> String {
        let hybrid = published::hybrid_receive();
        match self {
            Claim::Below100us => format!("below 100 us: {}", hybrid.below_100us),
            Claim::RealTimePriority => format!(
                "delays of an ordinary scheduler, some {} ms, are what the buffer must bridge: a receiver of real-time \
                 priority needs less",
                hybrid.scheduling_delay_ms
            ),
            Claim::LineDoubled | Claim::CpuHalved => hybrid.scaling_rule.clone(),
        }
    }

    /// How much of the usual need there should be, where that was said as a figure.
    fn expected_ratio(self) -> Option<f64> {
        match self {
            Claim::LineDoubled => Some(2.0),
            Claim::CpuHalved => Some(1.0),
            Claim::Below100us | Claim::RealTimePriority => None,
        }
    }
}

/// Whether the same was found as was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// The same.
    Same,
    /// Something else.
    Different,
    /// What was measured does not say: the largest buffer that was tried lost packets.
    NotShown,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's name.
    pub claim: String,
    /// What was published, in words.
    pub published: String,
    /// Whether the same was found.
    pub verdict: Found,
    /// What was found, in words.
    pub found: String,
}

/// What the rows say of a claim.
pub fn judge(claim: Claim, rows: &[Row]) -> Verdict {
    let (verdict, found) = match claim {
        Claim::Below100us => below(rows),
        _ => needs(claim, rows),
    };
    Verdict { claim: claim.name(), published: claim.published(), verdict, found }
}

/// Whether each poll time below the limit lost something with each buffer.
fn below(rows: &[Row]) -> (Found, String) {
    let short = |row: &&Row| row.poll_us.is_some_and(|us| us < BELOW_US.into());
    let mut tried: Vec<(u64, u64, bool)> = Vec::new();
    for row in rows.iter().filter(short) {
        let Some(lost) = row.lost else { continue };
        let (poll, buffer) = (row.poll_us.unwrap_or(0), row.buffer_bytes);
        match tried.iter_mut().find(|(us, bytes, _)| (*us, *bytes) == (poll, buffer)) {
            Some(known) => known.2 |= lost > 0,
            None => tried.push((poll, buffer, lost > 0)),
        }
    }
    let said = |loses: bool| {
        let of = tried.iter().filter(|known| known.2 == loses);
        of.map(|(us, bytes, _)| format!("T = {us} us, {}", size(*bytes as f64))).collect::<Vec<_>>()
    };
    let (losing, lossless) = (said(true), said(false));
    if tried.is_empty() {
        return (Found::NotShown, "no poll time below 100 us was tried".to_owned());
    }
    if lossless.is_empty() {
        let text = "every poll time below 100 us loses with every buffer, with some length of messages and load";
        return (Found::Same, text.to_owned());
    }
    let also = match losing.is_empty() {
        true => "nothing was lost with any".to_owned(),
        false => format!("packets were lost with: {}", losing.join("; ")),
    };
    (
        Found::Different,
        format!("no message of any length is lost with: {}; {also}", lossless.join("; ")),
    )
}

/// The needs of the two rows that differ in nothing but the claim's condition: the usual one comes first.
fn pairs(rows: &[Row]) -> Vec<(&Row, &Row)> {
    let key = |row: &Row| {
        (row.strategy.clone(), row.poll_us, row.burst_bytes, row.load_share.map(f64::to_bits))
    };
    let mut pairs: Vec<(&Row, Option<&Row>)> = Vec::new();
    for row in rows {
        match pairs.iter_mut().find(|(first, second)| second.is_none() && key(first) == key(row)) {
            Some((_, second)) => *second = Some(row),
            None => pairs.push((row, None)),
        }
    }
    pairs.into_iter().filter_map(|(first, second)| Some((first, second?))).collect()
}

fn need(row: &Row) -> Option<f64> {
    (row.lost == Some(0)).then_some(row.buffer_bytes as f64)
}

fn needs(claim: Claim, rows: &[Row]) -> (Found, String) {
    let mut all = Found::Same;
    let mut said = Vec::new();
    let pairs = pairs(rows);
    if pairs.is_empty() {
        all = Found::NotShown;
    }
    for (usual, other) in pairs {
        let found = compared(claim, need(usual), need(other));
        // One that differs decides, whatever is not shown.
        if found == Found::Different || all == Found::Same {
            all = found;
        }
        let bytes = |row| need(row).map_or("more than the largest that was tried".to_owned(), size);
        let poll = usual.poll_us.map(|us| format!(", T = {us} us")).unwrap_or_default();
        let message = size(usual.burst_bytes as f64);
        said.push(format!(
            "{}{poll}, messages of {message}: {} as usual, {} so",
            usual.strategy,
            bytes(usual),
            bytes(other)
        ));
    }
    (all, said.join("; "))
}

/// What two needs, as usual and under the claim's condition, say of it.
fn compared(claim: Claim, usual: Option<f64>, other: Option<f64>) -> Found {
    let same = |yes: bool| if yes { Found::Same } else { Found::Different };
    match (claim.expected_ratio(), usual, other) {
        (Some(ratio), Some(usual), Some(other)) => same(SAME.contains(&(other / (usual * ratio)))),
        (None, Some(usual), Some(other)) => same(other <= LESS * usual),
        // The need as usual is beyond all that was tried, this one is not.
        (None, None, Some(_)) => Found::Same,
        _ => Found::NotShown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(poll_us: u64, buffer_bytes: u64, burst_bytes: u64, lost: u64) -> Row {
        Row { lost: Some(lost), ..Row::new("hybrid", Some(poll_us), buffer_bytes, burst_bytes) }
    }

    #[test]
    fn below_100_us_every_poll_time_must_lose_with_every_buffer_and_some_message() {
        let losing = [
            row(50, 7, 1_000, 0),
            row(50, 7, 50_000, 3),
            row(50, 15, 1_000, 1),
            row(100, 7, 1_000, 0),
        ];
        assert_eq!(judge(Claim::Below100us, &losing).verdict, Found::Same);
        let verdict = judge(Claim::Below100us, &[&losing[..], &[row(25, 7, 1_000, 0)]].concat());
        assert_eq!(verdict.verdict, Found::Different);
        assert!(verdict.found.contains("T = 25 us"), "{verdict:?}");
        assert_eq!(judge(Claim::Below100us, &losing[3..]).verdict, Found::NotShown);
        assert_eq!(judge(Claim::Below100us, &[]).claim, "below-100us");
    }

    #[test]
    fn needs_are_compared_in_pairs_and_one_that_differs_decides() {
        let need = |poll, bytes| row(poll, bytes, 50_000, 0);
        let verdict = |claim, rows: &[Row]| judge(claim, rows).verdict;
        // Rows as usual come first, then those under the condition.
        let doubled = [need(100, 1_000), need(140, 1_000), need(100, 2_100), need(140, 1_900)];
        assert_eq!(verdict(Claim::LineDoubled, &doubled), Found::Same);
        assert_eq!(verdict(Claim::CpuHalved, &doubled), Found::Different);
        assert_eq!(verdict(Claim::RealTimePriority, &doubled), Found::Different);
        let less = [need(100, 1_000), need(100, 200)];
        assert_eq!(verdict(Claim::RealTimePriority, &less), Found::Same);
        let beyond = [row(100, 1_000, 50_000, 7), need(100, 200)];
        assert_eq!(verdict(Claim::RealTimePriority, &beyond), Found::Same);
        assert_eq!(verdict(Claim::LineDoubled, &beyond), Found::NotShown);
        let some = [&doubled[..1], &beyond[..1], &doubled[2..3], &[need(100, 9_000)]].concat();
        assert_ne!(verdict(Claim::LineDoubled, &some), Found::Same);
        assert_eq!(verdict(Claim::LineDoubled, &doubled[..1]), Found::NotShown);
    }
}
