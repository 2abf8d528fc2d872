//! What was published of receiving, as questions: each is one command, and its answer says whether the same is found
//! here.

use std::ops::RangeInclusive;

use clap::ValueEnum;
use serde::Serialize;
use warikomi_measure::layout::size;
use warikomi_measure::published;

use super::row::Row;

/// The poll time in microseconds below which losses were published for every buffer.
const BELOW_US: u64 = 100;
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

/// Whether each poll time below the limit lost something with each buffer, and those above it did not: what is lost with
/// any poll time says nothing about short ones.
fn below(rows: &[Row]) -> (Found, String) {
    let (short, long) = (tried(rows, |us| us < BELOW_US), tried(rows, |us| us >= BELOW_US));
    let said = |all: &[Tried], loses: bool| {
        let of = all.iter().filter(|tried| tried.loses == loses);
        let of = of.map(|it| format!("T = {} us, {}", it.poll_us, size(it.buffer_bytes as f64)));
        of.collect::<Vec<_>>().join("; ")
    };
    if short.is_empty() || long.is_empty() {
        let text = "poll times below 100 us and of 100 us or more must be tried";
        return (Found::NotShown, text.to_owned());
    }
    let every = "every poll time below 100 us loses with every buffer, with some length of messages and load";
    let lossless = said(&short, false);
    if !lossless.is_empty() {
        let losing = said(&short, true);
        let losing = if losing.is_empty() { "none".to_owned() } else { losing };
        let text = format!(
            "no message of any length is lost with: {lossless}; packets are lost with: {losing}"
        );
        return (Found::Different, text);
    }
    match said(&long, false) {
        none if none.is_empty() => {
            let text =
                format!("{every}; but so does every other poll time, so it is not what decides");
            (Found::Different, text)
        }
        some => (Found::Same, format!("{every}; nothing is lost with: {some}")),
    }
}

/// What messages of all lengths and loads did with one poll time and one buffer.
struct Tried {
    poll_us: u64,
    buffer_bytes: u64,
    loses: bool,
}

fn tried(rows: &[Row], is_asked: impl Fn(u64) -> bool) -> Vec<Tried> {
    let mut all: Vec<Tried> = Vec::new();
    for row in rows {
        let (Some(poll_us), Some(lost)) = (row.poll_us, row.lost) else { continue };
        if !is_asked(poll_us) {
            continue;
        }
        let buffer_bytes = row.asked_buffer_bytes.unwrap_or(row.buffer_bytes);
        let same = |it: &&mut Tried| (it.poll_us, it.buffer_bytes) == (poll_us, buffer_bytes);
        match all.iter_mut().find(same) {
            Some(known) => known.loses |= lost > 0,
            None => all.push(Tried { poll_us, buffer_bytes, loses: lost > 0 }),
        }
    }
    all
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
    fn below_100_us_every_poll_time_must_lose_with_every_buffer_and_some_message_and_others_not() {
        let found = |rows: &[&[Row]]| judge(Claim::Below100us, &rows.concat());
        let losing = [row(50, 7, 1_000, 0), row(50, 7, 50_000, 3), row(50, 15, 1_000, 1)];
        let long = [row(100, 7, 1_000, 1), row(100, 15, 1_000, 0)];
        assert_eq!(found(&[&losing, &long]).verdict, Found::Same);
        let every = found(&[&losing, &long[..1]]);
        assert_eq!(every.verdict, Found::Different, "all poll times lose: {every:?}");
        let verdict = found(&[&losing, &long, &[row(25, 7, 1_000, 0)]]);
        assert_eq!(verdict.verdict, Found::Different);
        assert!(verdict.found.contains("T = 25 us"), "{verdict:?}");
        assert_eq!(found(&[&long]).verdict, Found::NotShown);
        assert_eq!(found(&[&losing]).verdict, Found::NotShown);
        assert_eq!(found(&[]).claim, "below-100us");
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
