//! What became of each packet, how well intervals were kept, what the driver did about faults.

mod faults;

use warikomi_measure::layout::{count, percent, rate, time};
use warikomi_measure::{
    Distribution, IntervalStats, Intervals, RunResult, Totals, VectorInterrupts,
};

use super::table::Page;

type TableRow = (bool, Vec<String>);

/// All that a result says besides tables of its own.
pub(super) fn sections(page: &mut Page, result: &RunResult) {
    if let Some(ledger) = &result.ledger {
        page.blank();
        page.table(&["Packets", "count", "of injected"], &packets(ledger, result.recipient()));
    }
    if let Some(queues) = &result.queues {
        page.blank();
        page.table(
            &["Queue", "injected", "missed", "on ring", "accepted", "lost"],
            &by_queue(queues),
        );
    }
    if let Some(intervals) = &result.intervals {
        page.blank();
        interval_table(page, intervals);
    }
    let times = [("inject", &result.inject_ns), ("leave the second card", &result.transit_ns)];
    let times =
        times.into_iter().filter_map(|(name, times)| Some((false, spread(name, times.as_ref()?))));
    let times: Vec<_> = times.collect();
    if !times.is_empty() {
        page.blank();
        page.table(&["Time to", "min", "p50", "p99", "p99.9", "max"], &times);
    }
    if let Some(report) = &result.faults {
        page.blank();
        faults::section(page, report);
    }
    let vectors = result.interrupts.as_ref().map_or(&[][..], |interrupts| &interrupts.vectors);
    if !vectors.is_empty() {
        page.blank();
        page.table(&["Vector", "raised", "handled", "unhandled"], &by_vector(vectors));
    }
    let figures = figures(result);
    if !figures.is_empty() {
        page.blank();
        page.table(&["Figure", "value"], &figures);
    }
}

/// What a plan of packets asked for, in a sentence; nothing of another plan.
pub(super) fn asked_for(result: &RunResult) -> Option<String> {
    let number = |name: &str| result.plan_number(name);
    number("packets_per_interrupt")?;
    let whole = |name: &str| number(name).map_or("?".to_owned(), |n| count(n as u64));
    let every = match number("interval_ns") {
        Some(ns) if ns > 0.0 => format!("one interrupt every {}", time(ns)),
        _ => "as fast as possible".to_owned(),
    };
    let each = whole("packets_per_interrupt");
    let arrival = match result.plan.get("arrival").and_then(|arrival| arrival.as_str()) {
        None | Some("constant") => String::new(),
        Some(other) => format!(" on average ({other} arrivals)"),
    };
    let line = number("line_rate_bps").map_or(String::new(), |bps| format!(", {} line", rate(bps)));
    let (packets, size) = (whole("count"), whole("size_bytes"));
    let flows = match number("flows") {
        Some(flows) if flows > 1.0 => format!(" of {} flows", count(flows as u64)),
        _ => String::new(),
    };
    let setting = |name: &str| result.target.settings.get(name).and_then(|value| value.as_str());
    let through = match (setting("through"), setting("second_driver"), setting("second_model")) {
        (Some(how), Some(driver), Some(model)) => format!(", by {how} to {driver} on {model}"),
        _ => String::new(),
    };
    Some(format!(
        "{packets} packets of {size} bytes{flows}, {every}{arrival}, {each} per interrupt{line}{through}"
    ))
}

fn packets(ledger: &Totals, recipient: &str) -> Vec<TableRow> {
    let share = |packets: u64| match ledger.injected {
        0 => String::new(),
        injected => percent(packets as f64 / injected as f64),
    };
    let row =
        |name: &str, packets: u64| (false, vec![name.to_owned(), count(packets), share(packets)]);
    let mut rows = vec![
        (false, vec!["planned".to_owned(), count(ledger.planned), String::new()]),
        row("injected", ledger.injected),
        row("  no descriptor", ledger.no_descriptor),
        row("  filtered", ledger.filtered),
        row("  DMA error", ledger.dma_error),
    ];
    for (name, packets) in
        [("  never completed", ledger.not_completed), ("  refused by the driver", ledger.refused)]
    {
        if packets > 0 {
            rows.push(row(name, packets));
        }
    }
    rows.push(row("  accepted by the driver", ledger.accepted));
    if ledger.unclaimed == 0 {
        rows.push(row(&format!("  delivered to {recipient}"), ledger.delivered));
    }
    rows.push(row("  lost", ledger.lost));
    if ledger.lost > 0 {
        rows.push(row("    on the ring, never taken", ledger.lost_on_ring));
        rows.push(row("    behind the driver", ledger.lost_in_stack));
    }
    if ledger.not_receiving > 0 {
        let detail = row("    while not receiving", ledger.not_receiving);
        rows.insert(4, detail);
    }
    let unaccounted = vec!["unaccounted".to_owned(), count(ledger.unaccounted), String::new()];
    rows.push((ledger.unaccounted > 0, unaccounted));
    rows
}

fn by_queue(queues: &[Totals]) -> Vec<TableRow> {
    let row = |(number, queue): (usize, &Totals)| {
        let columns = [queue.injected, queue.missed(), queue.on_ring(), queue.accepted, queue.lost];
        numbered(number as u64, &columns)
    };
    queues.iter().enumerate().map(row).collect()
}

fn by_vector(vectors: &[VectorInterrupts]) -> Vec<TableRow> {
    let row =
        |of: &VectorInterrupts| numbered(of.vector.into(), &[of.raised, of.handled, of.unhandled]);
    vectors.iter().map(row).collect()
}

fn numbered(number: u64, columns: &[u64]) -> TableRow {
    (false, std::iter::once(&number).chain(columns).map(|&column| count(column)).collect())
}

fn interval_table(page: &mut Page, intervals: &Intervals) {
    let places = [
        ("injected", &intervals.injected),
        ("raised", &intervals.raised),
        ("handler", &intervals.handler),
    ];
    let judged = intervals.requested_ns.is_some();
    let mut rows = Vec::new();
    let mut in_hiccups = 0;
    for (name, stats) in places {
        let Some(stats) = stats else { continue };
        rows.push((false, interval_row(name, stats, judged)));
        if let Some(quiet) = &stats.without_hiccups {
            in_hiccups += stats.in_hiccups;
            rows.push((false, interval_row("  quiet", quiet, judged)));
        }
    }
    let mut header = vec!["Interval", "min", "p50", "p99", "p99.9", "max"];
    if judged {
        header.extend(["in 1%", "in 6.25%"]);
    }
    page.table(&header, &rows);
    if let Some(ns) = intervals.requested_ns {
        page.paragraph(" ", &format!("in 1%, in 6.25%: share that near to {}", time(ns)));
    }
    if in_hiccups > 0 {
        let note =
            format!("quiet: without the intervals that fall into a hiccup ({})", count(in_hiccups));
        page.paragraph(" ", &note);
    }
}

fn interval_row(name: &str, stats: &IntervalStats, judged: bool) -> Vec<String> {
    let mut row = spread(name, &stats.all);
    if judged {
        let shares = [stats.within_1_percent, stats.within_6_25_percent];
        row.extend(shares.map(|share| share.map_or(String::new(), percent)));
    }
    row
}

fn spread(name: &str, times: &Distribution) -> Vec<String> {
    let figures = [times.min, times.p50, times.p99, times.p999, times.max].map(time);
    std::iter::once(name.to_owned()).chain(figures).collect()
}

fn figures(result: &RunResult) -> Vec<TableRow> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push((false, vec![name.to_owned(), value]));
    if let Some(success) = &result.success {
        row("success, driver", percent(success.driver));
        if let Some(share) = success.end_to_end {
            row("success, end to end", percent(share));
        }
    }
    if let Some(bps) = result.throughput_bps {
        row("throughput accepted by the driver", rate(bps));
    }
    if let Some(interrupts) = &result.interrupts {
        row("interrupts raised", count(interrupts.raised));
        row("interrupts handled", count(interrupts.handled));
        row("interrupts signalled again", count(interrupts.resignalled));
    }
    if let Some(pacing) = &result.pacing {
        let name = format!("deadlines missed by more than {}", time(pacing.slack_ns));
        row(&name, count(pacing.missed_deadlines));
    }
    if let Some(hiccups) = result.hiccups.as_ref().and_then(|hiccups| hiccups.support.as_ref()) {
        row("hiccups of the support side", count(hiccups.count));
        row("longest hiccup", time(hiccups.longest_ns));
    }
    if let Some(stolen) = result.machine.stolen_percent {
        row("time stolen by the host", percent(stolen / 100.0));
    }
    rows
}

#[cfg(test)]
mod tests;
