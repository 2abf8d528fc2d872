//! What scattered transfers cost, and what chained buffers cost besides.

use serde::Serialize;
use warikomi_driver::transmit::Bounce;
use warikomi_measure::published;

use super::row::Row;

/// The buffers that chains are compared with.
pub(super) const CONTIGUOUS: &str = "contiguous";

/// Where the throughput goes that mbufs are behind a contiguous buffer, for one size. Both are shares of the
/// contiguous buffer's throughput, so they add up to all that is lost.
///
/// A dummy driver has the mbufs' work on the processor, but hands over one contiguous piece instead of the
/// contents. So what it is ahead of mbufs is what scattered transfers cost, and what it is behind a
/// contiguous buffer is what chains cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Share {
    /// The card, where several are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Length of the messages in bytes; the mean of a mixture.
    pub size_bytes: u64,
    /// The mixture's lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixture: Option<String>,
    /// Buffers: mbuf-2k, mbuf-4k.
    pub buffers: String,
    /// By how much a dummy driver, which sends prepared contents from one contiguous piece, is ahead of the
    /// driver that has the pieces of an mbuf chain transferred, as a share (0 to 1) of the latter's throughput:
    /// what scattered transfers cost. Below 0 if these are ahead.
    pub dma_gain_share: f64,
    /// By how much the dummy driver is behind contiguous buffers, as a share of their throughput: what chains
    /// of mbufs cost. Below 0 if it is ahead.
    pub chain_share: f64,
    /// By how much chains of mbufs would lower a throughput that the processor alone limits, as a share of the
    /// contiguous buffers': by the least time that a message took the processor, with both kinds of buffers sent by a
    /// dummy driver, so that no contents are transferred. Absent unless messages came at a pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_processor_share: Option<f64>,
    /// The gain that was published, for clusters of 2 KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_dma_gain_share: Option<f64>,
    /// What was published for chains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_chain_share: Option<f64>,
}

/// The shares of each traffic that was sent with contiguous buffers, with mbufs, and with mbufs by a dummy
/// driver, all with the same completion strategy.
pub(super) fn shares(rows: &[Row]) -> Vec<Share> {
    let dummies = rows.iter().filter(|row| row.bounce == Bounce::Dummy.to_string());
    let dummies = dummies.filter(|row| row.buffers != CONTIGUOUS);
    dummies.filter_map(|dummy| share(rows, dummy)).collect()
}

fn share(rows: &[Row], dummy: &Row) -> Option<Share> {
    let plain = Bounce::None.to_string();
    let row = |buffers: &str, bounce: &str| {
        let same = |row: &&Row| {
            row.same_traffic(dummy)
                && row.completion == dummy.completion
                && row.buffers == buffers
                && row.bounce == bounce
        };
        rows.iter().find(same)
    };
    let rate = |buffers: &str| row(buffers, &plain)?.bps.filter(|&bps| bps > 0.0);
    let (contiguous, scattered) = (rate(CONTIGUOUS)?, rate(&dummy.buffers)?);
    let processor_ns = [row(CONTIGUOUS, &dummy.bounce), Some(dummy)]
        .map(|row| row.and_then(|row| row.least_busy_per_packet_ns));
    let transmit = published::adaptive_transmit();
    let of = |bytes, share| {
        let here = dummy.mixture.is_none() && dummy.size_bytes == bytes;
        (here && dummy.buffers == "mbuf-2k").then_some(share)
    };
    Some(Share {
        card: dummy.card.clone(),
        size_bytes: dummy.size_bytes,
        mixture: dummy.mixture.clone(),
        buffers: dummy.buffers.clone(),
        dma_gain_share: dummy.bps? / scattered - 1.0,
        chain_share: (contiguous - dummy.bps?) / contiguous,
        chain_processor_share: match processor_ns {
            [Some(contiguous), Some(chain)] if chain > 0.0 => Some(1.0 - contiguous / chain),
            _ => None,
        },
        published_dma_gain_share: of(published::DMA_BYTES, transmit.dma_gain_share),
        published_chain_share: of(published::CHAIN_BYTES, transmit.mbuf_cost_share),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(size_bytes: u64, buffers: &str, bounce: &str, bps: f64) -> Row {
        Row {
            size_bytes,
            buffers: buffers.into(),
            completion: "adaptive".into(),
            bounce: bounce.into(),
            bps: Some(bps),
            ..Row::default()
        }
    }

    #[test]
    fn the_gain_is_of_the_scattered_rate_and_the_loss_of_the_contiguous_one() {
        let rows = [
            row(65_507, "contiguous", "none", 2.4e9),
            row(65_507, "mbuf-2k", "none", 1.8e9),
            row(65_507, "mbuf-2k", "dummy", 2.1e9),
            row(64, "mbuf-2k", "dummy", 1e9),
        ];
        let shares = shares(&rows);
        let [share] = shares.as_slice() else { panic!("{shares:?}") };
        assert!((share.dma_gain_share - 1.0 / 6.0).abs() < 1e-12, "{share:?}");
        assert!((share.chain_share - 0.125).abs() < 1e-12, "{share:?}");
        assert_eq!(
            (share.published_dma_gain_share, share.published_chain_share),
            (Some(0.17), None)
        );
    }

    #[test]
    fn the_processors_share_is_of_two_dummies_that_were_idle_now_and_then() {
        let paced = |buffers, bounce, least_busy_per_packet_ns| Row {
            least_busy_per_packet_ns,
            ..row(16_384, buffers, bounce, 1e9)
        };
        let of = |contiguous_ns| {
            let rows = [
                paced("contiguous", "none", Some(9_000.0)),
                paced("mbuf-2k", "none", Some(9_900.0)),
                paced("contiguous", "dummy", contiguous_ns),
                paced("mbuf-2k", "dummy", Some(4_000.0)),
            ];
            let shares = shares(&rows);
            assert_eq!(shares.len(), 1, "a contiguous dummy is no chain: {shares:?}");
            shares[0].chain_processor_share
        };
        assert_eq!((of(Some(3_000.0)), of(None)), (Some(0.25), None));
    }

    #[test]
    fn a_row_of_another_completion_strategy_is_no_match() {
        let mut rows = [
            row(64, "contiguous", "none", 2.0),
            row(64, "mbuf-2k", "none", 1.0),
            row(64, "mbuf-2k", "dummy", 1.0),
        ];
        assert_eq!(shares(&rows).len(), 1);
        rows[0].completion = "interrupt".into();
        assert!(shares(&rows).is_empty());
    }
}
