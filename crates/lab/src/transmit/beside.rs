//! What each choice changes in the throughput, beside what was published about it.

use serde_json::Value;
use warikomi_measure::layout::Object;
use warikomi_measure::published::{self, BOUNCE_BYTES, CHAIN_BYTES, DMA_BYTES};

use crate::cells::list;

/// The most rows that are looked at, and the most different values of anything.
const MAX_ROWS: usize = 5_000;
const MAX_DIFFERENT: usize = 64;

/// Length in bytes for which the gain of adaptive completion is shown beside the published one, of "short"
/// packets.
pub(super) const SHORT_BYTES: u64 = 64;

/// A completion strategy and a bounce buffer.
pub(super) type Way<'a> = (&'a str, &'a str);

/// A row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    row: &'a Object,
    /// Where several cards are compared.
    pub(super) card: Option<&'a str>,
    pub(super) size_bytes: u64,
    pub(super) mixture: Option<&'a str>,
    pub(super) buffers: &'a str,
    pub(super) completion: &'a str,
    pub(super) bounce: &'a str,
}

impl<'a> Line<'a> {
    fn of(row: &'a Object) -> Option<Line<'a>> {
        let text = |name: &str| row.get(name).and_then(Value::as_str);
        Some(Line {
            row,
            card: text("card"),
            size_bytes: row.get("size_bytes")?.as_u64()?,
            mixture: text("mixture"),
            buffers: text("buffers")?,
            completion: text("completion")?,
            bounce: text("bounce")?,
        })
        .filter(|_| !row.contains_key("sender"))
    }

    /// A figure, if it is a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.row.get(name).and_then(Value::as_f64)
    }

    pub(super) fn way(&self) -> Way<'a> {
        (self.completion, self.bounce)
    }

    /// What is sent, and over which card.
    fn traffic(&self) -> (Option<&'a str>, u64, Option<&'a str>) {
        (self.card, self.size_bytes, self.mixture)
    }

    /// The card, if several are compared, and the buffers.
    pub(super) fn system(&self) -> (Option<&'a str>, &'a str) {
        (self.card, self.buffers)
    }
}

/// All rows that compare ways to send in a process. (A kernel's say who sends.)
pub(super) fn lines(rows: &[Object]) -> Vec<Line<'_>> {
    rows.iter().take(MAX_ROWS).filter_map(Line::of).collect()
}

/// The different values of something, in the order of the rows.
pub(super) fn different<'a, T: PartialEq>(
    lines: &[Line<'a>],
    value: impl Fn(&Line<'a>) -> T,
) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for line in lines {
        let value = value(line);
        if all.len() < MAX_DIFFERENT && !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// The row of the same messages and buffers that were sent in another way.
pub(super) fn sent_as<'a>(
    lines: &[Line<'a>],
    like: &Line<'_>,
    (completion, bounce): Way<'_>,
) -> Option<Line<'a>> {
    let same = |line: &&Line<'_>| {
        line.traffic() == like.traffic()
            && line.buffers == like.buffers
            && line.way() == (completion, bounce)
    };
    lines.iter().find(same).copied()
}

/// By how much one row's throughput is more (or, below 0, less) than another's, as a share of the latter.
pub(super) fn ahead(line: &Line<'_>, other: &Line<'_>) -> Option<f64> {
    let (rate, other) = (line.number("bps")?, other.number("bps")?);
    (other > 0.0).then(|| rate / other - 1.0)
}

/// Adaptive completion of this project; as published it has a name of its own.
pub(super) const OURS: &str = "adaptive";

/// Whether a completion strategy is adaptive, ours or as published, with whatever thresholds.
pub(super) fn is_adaptive(completion: &str) -> bool {
    completion.starts_with(OURS)
}

/// By how much adaptive completion is ahead of interrupts, without a bounce buffer.
pub(super) fn adaptive_gain(lines: &[Line<'_>], line: &Line<'_>) -> Option<f64> {
    let adaptive = is_adaptive(line.completion) && line.bounce == "none";
    let interrupt = sent_as(lines, line, ("interrupt", "none")).filter(|_| adaptive)?;
    ahead(line, &interrupt)
}

/// By how much a bounce buffer is ahead of none.
pub(super) fn bounce_gain(lines: &[Line<'_>], line: &Line<'_>) -> Option<f64> {
    let bounced = !matches!(line.bounce, "none" | "dummy");
    let none = sent_as(lines, line, (line.completion, "none")).filter(|_| bounced)?;
    ahead(line, &none)
}

/// The card whose gains and losses were published.
pub(super) const PUBLISHED_CARD: &str = "oc48";

/// Whether a card is that one, or the only one of its comparison.
fn is_published(card: Option<&str>) -> bool {
    card.is_none_or(|card| card == PUBLISHED_CARD)
}

/// What scattered transfers and chains of mbufs cost.
struct Share<'a> {
    size_bytes: u64,
    buffers: &'a str,
    /// What one transfer gains over scattered ones.
    dma: f64,
    /// What chains of mbufs lose.
    chain: f64,
    /// What they would lose if the processor alone were the limit.
    processor: Option<f64>,
}

/// The shares of messages of one length.
fn shares(figures: &Object) -> Vec<Share<'_>> {
    list(figures, "shares").take(MAX_ROWS).filter_map(share_of).collect()
}

fn share_of(row: &Object) -> Option<Share<'_>> {
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    let published = is_published(row.get("card").and_then(Value::as_str));
    (published && !row.contains_key("mixture")).then_some(Share {
        size_bytes: row.get("size_bytes")?.as_u64()?,
        buffers: row.get("buffers")?.as_str()?,
        dma: number("dma_gain_share")?,
        chain: number("chain_share")?,
        processor: number("chain_processor_share"),
    })
}

/// A published figure, and the same here: what it is, published, here.
pub(super) type Beside = (String, f64, Option<f64>);

/// Everything that was published as a share, beside what was found.
pub(super) fn beside_published(rows: &[Object], figures: &Object) -> Vec<Beside> {
    let mut lines = lines(rows);
    lines.retain(|line| is_published(line.card));
    let transmit = published::adaptive_transmit();
    let gain = |buffers: &str, bytes: u64, gain: &dyn Fn(&Line<'_>) -> Option<f64>| {
        let here = lines.iter().filter(|line| line.buffers == buffers && line.size_bytes == bytes);
        let here = here.filter(|line| line.mixture.is_none());
        here.filter_map(gain).max_by(f64::total_cmp)
    };
    let mut all: Vec<Beside> = Vec::new();
    let mut strategies = different(&lines, |line| line.completion);
    strategies.retain(|completion| is_adaptive(completion));
    for buffers in different(&lines, |line| line.buffers) {
        for &completion in &strategies {
            let of_strategy = |line: &Line<'_>| {
                adaptive_gain(&lines, line).filter(|_| line.completion == completion)
            };
            let here = gain(buffers, SHORT_BYTES, &of_strategy);
            let what = format!("{completion} ahead of interrupt, short packets, {buffers}");
            all.push((what, transmit.short_gain_share(buffers), here));
        }
    }
    let shares = shares(figures);
    let share = |bytes: u64| {
        shares.iter().find(|share| share.size_bytes == bytes && share.buffers == "mbuf-2k")
    };
    let (dma, chain) = (share(DMA_BYTES), share(CHAIN_BYTES));
    let what = "one transfer ahead of scattered DMA, 64 KB, mbuf-2k".to_owned();
    all.push((what, transmit.dma_gain_share, dma.map(|share| share.dma)));
    let what = "lost to chains of mbufs, 16 KB, mbuf-2k".to_owned();
    all.push((what, transmit.mbuf_cost_share, chain.map(|share| share.chain)));
    if let Some(processor) = chain.and_then(|share| share.processor) {
        let what = "the same of the processor, 16 KB, mbuf-2k".to_owned();
        all.push((what, transmit.mbuf_cost_share, Some(processor)));
    }
    let here = gain("mbuf-2k", BOUNCE_BYTES, &|line| bounce_gain(&lines, line));
    all.push(("bounce buffer, 4 KB, mbuf-2k".to_owned(), transmit.bounce_gain_share, here));
    all
}
