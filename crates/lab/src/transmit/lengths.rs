//! From which length of message on something holds, beside what was published.

use serde::Serialize;
use warikomi_driver::transmit::Bounce;
use warikomi_measure::published;

use super::beside::OURS;
use super::row::Row;
use super::shares::{CONTIGUOUS, Share};

/// The buffers that were published beside contiguous ones.
const CHAINED: &str = "mbuf-2k";

/// What is less ahead or behind than this is taken for equal: repetitions differ as much.
const EQUAL_SHARE: f64 = 0.02;

/// Something that holds from a length of message on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Length {
    /// The card.
    pub card: String,
    /// What it is.
    pub figure: &'static str,
    /// It, in words.
    pub what: String,
    /// From how many bytes on it was published to hold; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_bytes: Option<u64>,
    /// The shortest length that was tried here from which on it holds for all; absent if it does not for the
    /// longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub here_bytes: Option<u64>,
}

/// All that the rows can say, for each card; `only` is the card of rows that name none.
pub(super) fn lengths(only: &str, rows: &[Row], shares: &[Share]) -> Vec<Length> {
    let mut cards: Vec<Option<&str>> = rows.iter().map(|row| row.card.as_deref()).collect();
    cards.dedup();
    cards.iter().flat_map(|card| of_card(only, *card, rows, shares)).collect()
}

fn of_card(only: &str, card: Option<&str>, rows: &[Row], shares: &[Share]) -> Vec<Length> {
    let name = card.unwrap_or(only);
    let rates = |buffers: &str, completion: &str| {
        let of_card =
            rows.iter().filter(|row| row.card.as_deref() == card && row.mixture.is_none());
        let sent = of_card.filter(|row| row.buffers == buffers && row.completion == completion);
        let sent = sent.filter(|row| row.bounce == Bounce::None.to_string());
        let mut rates: Vec<_> = sent.filter_map(|row| Some((row.size_bytes, row.bps?))).collect();
        rates.sort_by_key(|(bytes, _)| *bytes);
        rates
    };
    let (contiguous, chained) = (rates(CONTIGUOUS, OURS), rates(CHAINED, OURS));
    let interrupts = rates(CONTIGUOUS, "interrupt");
    let most = contiguous.iter().map(|(_, bps)| *bps).fold(0.0, f64::max);
    let saturated =
        contiguous.iter().map(|(bytes, bps)| (*bytes, *bps >= most * (1.0 - EQUAL_SHARE)));
    let of_shares = shares
        .iter()
        .filter(|share| share.card.as_deref() == card && share.buffers == CHAINED)
        .filter(|share| share.mixture.is_none());
    let mut by_transfers: Vec<_> = of_shares
        .map(|share| (share.size_bytes, share.dma_gain_share > share.chain_share))
        .collect();
    by_transfers.sort_by_key(|(bytes, _)| *bytes);
    let ahead = compared(&contiguous, &chained, |rate, other| rate >= other);
    let no_gain =
        compared(&contiguous, &interrupts, |rate, other| rate < other * (1.0 + EQUAL_SHARE));
    let length = |figure: &'static str, what: &str, tried: Vec<(u64, bool)>| {
        (!tried.is_empty()).then(|| Length {
            card: name.to_owned(),
            figure,
            what: what.to_owned(),
            published_bytes: published::adaptive_transmit().holds_from_bytes(name, figure),
            here_bytes: holds_from(&tried),
        })
    };
    let all = [
        length("contiguous_ahead", "contiguous buffers are ahead of mbuf-2k", ahead),
        length(
            "contiguous_saturated",
            "contiguous buffers reach 98% of their most",
            saturated.collect(),
        ),
        length(
            "contiguous_gain_over",
            "adaptive completion gains less than 2%, contiguous",
            no_gain,
        ),
        length("transfers_cost_most", "scattered transfers cost more than chains do", by_transfers),
    ];
    all.into_iter().flatten().collect()
}

/// For each length that both have: whether it `holds` of their rates.
fn compared(
    these: &[(u64, f64)],
    others: &[(u64, f64)],
    holds: impl Fn(f64, f64) -> bool,
) -> Vec<(u64, bool)> {
    let other = |bytes: u64| others.iter().find(|(other, _)| *other == bytes);
    let both = these.iter().filter_map(|(bytes, rate)| Some((*bytes, *rate, other(*bytes)?.1)));
    both.map(|(bytes, rate, other)| (bytes, holds(rate, other))).collect()
}

/// The least length from which on it holds for all.
fn holds_from(tried: &[(u64, bool)]) -> Option<u64> {
    tried.iter().rev().take_while(|(_, holds)| *holds).last().map(|(bytes, _)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(size_bytes: u64, buffers: &str, completion: &str, bps: f64) -> Row {
        Row {
            size_bytes,
            buffers: buffers.into(),
            completion: completion.into(),
            bounce: "none".into(),
            bps: Some(bps),
            ..Row::default()
        }
    }

    fn of(lengths: &[Length], figure: &str) -> (Option<u64>, Option<u64>) {
        let length = lengths.iter().find(|length| length.figure == figure).unwrap();
        (length.published_bytes, length.here_bytes)
    }

    #[test]
    fn a_crossover_is_where_contiguous_buffers_get_ahead_for_good() {
        let mut rows = Vec::new();
        for (bytes, contiguous, chained) in
            [(64, 1.1, 1.0), (1_024, 2.0, 2.5), (2_048, 3.0, 2.9), (65_507, 4.0, 2.5)]
        {
            rows.push(row(bytes, "contiguous", "adaptive", contiguous));
            rows.push(row(bytes, "mbuf-2k", "adaptive", chained));
        }
        let lengths = lengths("ge10", &rows, &[]);
        assert_eq!(of(&lengths, "contiguous_ahead"), (Some(2_048), Some(2_048)));
        assert_eq!(of(&lengths, "contiguous_saturated"), (None, Some(65_507)));
        assert_eq!(lengths.len(), 2, "nothing was sent with interrupts, or by a dummy driver");
    }

    #[test]
    fn a_gain_ends_at_the_length_from_which_on_there_is_none() {
        let mut rows = Vec::new();
        for (bytes, adaptive, interrupt) in [(64, 1.5, 1.0), (4_096, 2.1, 2.0), (16_384, 2.41, 2.4)]
        {
            rows.push(row(bytes, "contiguous", "adaptive", adaptive));
            rows.push(row(bytes, "contiguous", "interrupt", interrupt));
        }
        let lengths = lengths("oc48", &rows, &[]);
        assert_eq!(of(&lengths, "contiguous_gain_over"), (Some(9_216), Some(16_384)));
        assert_eq!(of(&lengths, "contiguous_saturated"), (Some(9_216), Some(16_384)));
    }

    #[test]
    fn what_does_not_hold_for_the_longest_holds_from_no_length_on() {
        assert_eq!(holds_from(&[(64, true), (128, false)]), None);
        assert_eq!(holds_from(&[(64, true), (128, true)]), Some(64));
        assert_eq!(holds_from(&[]), None);
    }
}
