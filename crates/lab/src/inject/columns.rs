//! What matters most of an injection. Its tables are those of its ledger.

use warikomi_measure::RunResult;
use warikomi_measure::layout::{Headline, Layout, Unit, count, time};

/// Describes the result.
pub(crate) fn describe(result: &mut RunResult) {
    let figure = |title: &str, value: f64, unit: Unit, of: String| Headline {
        title: title.to_owned(),
        value,
        unit,
        published: None,
        of,
    };
    let mut headline = Vec::new();
    if let (Some(success), Some(ledger)) = (&result.success, &result.ledger) {
        let of = format!("of {} packets", count(ledger.injected));
        headline.push(figure("accepted by the driver", success.driver, Unit::Share, of));
        if let Some(share) = success.end_to_end {
            let of = "of the packets injected".to_owned();
            let title = format!("delivered to {}", result.recipient());
            headline.push(figure(&title, share, Unit::Share, of));
        }
    }
    if let Some(times) = &result.transit_ns {
        let of = "from the injection, half of the packets within".to_owned();
        headline.push(figure("to leave the second card", times.p50, Unit::Ns, of));
    }
    let intervals = result.intervals.as_ref();
    let injected = intervals.and_then(|intervals| intervals.injected.as_ref());
    if let Some((within, requested)) = injected
        .and_then(|stats| stats.within_1_percent)
        .zip(intervals.and_then(|intervals| intervals.requested_ns))
    {
        let of = format!("of {}, at the injection", time(requested));
        headline.push(figure("of the intervals within 1%", within, Unit::Share, of));
    } else if let Some(bps) = result.throughput_bps {
        headline.push(figure("accepted by the driver", bps, Unit::Bps, String::new()));
    }
    result.layout = Layout { headline, ..Layout::default() };
}
