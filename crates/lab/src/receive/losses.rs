//! Where losses begin: for each poll time and receive buffer the lengths of messages that lose, beside the published
//! loss at its own lengths.

use serde::Serialize;
use warikomi_measure::published;

use super::row::Row;

/// What messages of all lengths and loads lost with one poll time and one receive buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Losses {
    /// The way to receive.
    pub strategy: String,
    /// Its poll time in microseconds, if it has one.
    pub poll_us: Option<u64>,
    /// The receive buffer that was asked for, in bytes.
    pub buffer_bytes: u64,
    /// How many lengths of messages, each with each load, were tried.
    pub tried: u64,
    /// With how many of these packets were lost.
    pub losing: u64,
    /// The shortest message of which some were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins_bytes: Option<u64>,
    /// The smallest load with which some were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins_load_share: Option<f64>,
    /// The greatest share that was lost.
    pub lost_share: f64,
    /// The length of message that lost it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_bytes: Option<u64>,
    /// The share that was published for this poll time and buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_lost_share: Option<f64>,
    /// Of which messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
}

/// The losses of rows, in their order.
pub(super) fn losses(rows: &[Row]) -> Vec<Losses> {
    let mut all: Vec<Losses> = Vec::new();
    for row in rows {
        let Some(lost_share) = row.lost_share else { continue };
        let of_row = nothing_yet(row);
        let same = |known: &Losses| {
            (&known.strategy, known.poll_us, known.buffer_bytes)
                == (&of_row.strategy, of_row.poll_us, of_row.buffer_bytes)
        };
        let at = all.iter().position(same).unwrap_or(all.len());
        if at == all.len() {
            all.push(of_row);
        }
        all[at].add(row, lost_share);
    }
    all
}

fn nothing_yet(row: &Row) -> Losses {
    let buffer_bytes = row.asked_buffer_bytes.unwrap_or(row.buffer_bytes);
    let published = row.poll_us.and_then(|us| published::hybrid_receive().loss(us, buffer_bytes));
    Losses {
        strategy: row.strategy.clone(),
        poll_us: row.poll_us,
        buffer_bytes,
        tried: 0,
        losing: 0,
        begins_bytes: None,
        begins_load_share: None,
        lost_share: 0.0,
        worst_bytes: None,
        published_lost_share: published.map(|loss| loss.lost_share),
        published_at: published.and_then(|loss| loss.at.clone()),
    }
}

impl Losses {
    fn add(&mut self, row: &Row, lost_share: f64) {
        self.tried += 1;
        if lost_share <= 0.0 {
            return;
        }
        self.losing += 1;
        let least = self.begins_bytes.unwrap_or(u64::MAX);
        self.begins_bytes = Some(least.min(row.burst_bytes));
        let least = self.begins_load_share.unwrap_or(f64::INFINITY);
        self.begins_load_share = row.load_share.map(|load| load.min(least));
        if lost_share > self.lost_share {
            (self.lost_share, self.worst_bytes) = (lost_share, Some(row.burst_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_all_messages_stand_beside_the_published_one_and_its_messages() {
        let row = |burst_bytes, load, lost| Row {
            load_share: Some(load),
            lost_share: Some(lost),
            asked_buffer_bytes: Some(7_000_000),
            ..Row::new("hybrid", Some(100), 6_990_080 + burst_bytes, burst_bytes)
        };
        let rows = [row(50_000, 0.5, 0.1), row(1_000, 0.9, 0.02), row(5_000, 0.1, 0.0)];
        let found = losses(&rows);
        let [of_7mb] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((of_7mb.buffer_bytes, of_7mb.tried, of_7mb.losing), (7_000_000, 3, 2));
        assert_eq!((of_7mb.begins_bytes, of_7mb.begins_load_share), (Some(1_000), Some(0.5)));
        assert_eq!((of_7mb.lost_share, of_7mb.worst_bytes), (0.1, Some(50_000)));
        let published = (of_7mb.published_lost_share, of_7mb.published_at.as_deref());
        assert_eq!(published, (Some(0.002), Some("10-15KB")));
    }
}
