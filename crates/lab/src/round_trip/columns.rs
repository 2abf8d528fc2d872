//! What round trips show.

use warikomi_measure::RunResult;
use warikomi_measure::layout::{Better, Column, Layout, Unit, View, time};
use warikomi_measure::published;

use crate::cells::{headline, number};

/// Describes the result.
pub(super) fn describe(result: &mut RunResult) {
    let rows = result.rows.as_deref().unwrap_or_default();
    let number_of = |name: &str| result.plan_number(name);
    let asked = number_of("payload_bytes").zip(number_of("delay_ns")).map(|(bytes, delay)| {
        format!(
            "messages of {bytes} bytes, and {} for the line both ways and the other end",
            time(delay)
        )
    });
    let mut layout = Layout { asked, columns: columns(), views: vec![view()], ..Layout::default() };
    let p50 = |row: &&_| number(row, "round_trip_ns.p50").unwrap_or(f64::MAX);
    let best = rows.iter().min_by(|one, other| p50(one).total_cmp(&p50(other)));
    if let Some(row) = best {
        let of = layout.column("strategy").name(row);
        let title = "round trip of a small message, p50";
        layout.headline.extend(headline(&layout, row, "round_trip_ns.p50", title, &of));
    }
    result.layout = layout;
}

fn columns() -> Vec<Column> {
    let trip = |part: &str, head: &str| {
        let key = format!("round_trip_ns.{part}");
        Column::figure(&key, &format!("round trip, {part}"))
            .head(head)
            .unit(Unit::Ns)
            .better(Better::Less)
    };
    vec![
        Column::parameter("strategy", "strategy"),
        Column::parameter("poll_us", "poll time T").head("T").word("", "no T").says("T = {}"),
        trip("min", "min"),
        trip("p50", "p50").published("published_ns"),
        trip("p90", "p90"),
        trip("p99", "p99"),
        trip("max", "max"),
        Column::figure("published_ns", "small message, published").head("published"),
        Column::figure("sent", "messages").unit(Unit::Count),
        Column::figure("answered", "answered").unit(Unit::Count),
        Column::figure("lost", "lost").unit(Unit::Count).alarm(),
        Column::figure("strays", "no answers").unit(Unit::Count),
        Column::figure("sleeps", "sleeps").unit(Unit::Count),
        Column::figure("interrupts", "interrupts").head("intr").unit(Unit::Count),
        Column::parameter("digest", "digest"),
    ]
}

fn view() -> View {
    let columns = [
        "strategy",
        "poll_us",
        "round_trip_ns.min",
        "round_trip_ns.p50",
        "round_trip_ns.p99",
        "round_trip_ns.max",
        "published_ns",
        "answered",
        "lost",
        "sleeps",
        "interrupts",
    ];
    View {
        columns: columns.map(str::to_owned).to_vec(),
        notes: vec![
            "from the request to send until the application has the answer; counts are of the warm-up, too".to_owned(),
            format!("published for: {}", published::hybrid_receive().environment),
        ],
        ..View::default()
    }
}
