//! The tables of a page. A cell has the figure as people read it and as the result has it.

use serde_json::{Map, Value};
use warikomi_measure::{
    FaultReport, IntervalStats, Intervals, Machine, RunResult, Totals, published,
};

use crate::figures::{shown, single_figures};
use crate::terminal::figures::{count, percent, rate, time};
use crate::transmit::{beside_published, in_kernel};

/// The most rows and columns that are shown; nothing here makes nearly so many.
const MAX_ROWS: usize = 2_000;
const MAX_COLUMNS: usize = 64;

type Row = Map<String, Value>;

/// A figure.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// For people.
    pub(super) shown: String,
    /// In full.
    pub(super) raw: String,
}

impl Cell {
    fn word(word: &str) -> Cell {
        Cell { shown: word.to_owned(), raw: word.to_owned() }
    }

    fn number(value: impl Into<f64>, show: impl Fn(f64) -> String) -> Cell {
        let value = value.into();
        Cell { shown: show(value), raw: value.to_string() }
    }

    fn count(value: u64) -> Cell {
        Cell { shown: count(value), raw: value.to_string() }
    }

    /// A figure whose unit is the end of its name.
    pub(super) fn named(name: &str, value: Option<&Value>) -> Cell {
        let value = match value {
            None | Some(Value::Null) => return Cell::default(),
            Some(value) => value,
        };
        let raw = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shown = value.as_f64().map_or_else(|| raw.clone(), |number| shown(name, number));
        Cell { shown, raw }
    }
}

/// A table.
pub(super) struct Table {
    /// For the name of a file.
    pub(super) name: &'static str,
    /// For people.
    pub(super) title: &'static str,
    pub(super) header: Vec<Cell>,
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) notes: Vec<String>,
}

impl Table {
    fn new(name: &'static str, title: &'static str, header: &[&str]) -> Table {
        let header = header.iter().map(|name| head(name)).collect();
        Table { name, title, header, rows: Vec::new(), notes: Vec::new() }
    }

    /// The figures in full.
    pub(super) fn csv(&self) -> String {
        let mut csv = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        for row in std::iter::once(&self.header).chain(&self.rows) {
            csv.write_record(row.iter().map(|cell| &cell.raw)).expect("memory takes any record");
        }
        String::from_utf8(csv.into_inner().expect("flushing memory does not fail"))
            .expect("what was text is text")
    }
}

/// A column's head: its name without the unit, which the figures have.
fn head(name: &str) -> Cell {
    const UNITS: [&str; 6] = ["_ns", "_us", "_bps", "_pps", "_share", "_percent"];
    let stem = match name {
        "size_bytes" => "length in bytes",
        _ if name.contains("within_") => {
            let shown = name.replace("_share", "%").replace("6_25", "6.25").replace('_', " ");
            return Cell { shown, raw: name.to_owned() };
        }
        _ => UNITS.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name),
    };
    Cell { shown: stem.replace('_', " "), raw: name.to_owned() }
}

/// All tables that a result has.
pub(super) fn tables(result: &RunResult) -> Vec<Table> {
    let mut tables = Vec::new();
    tables.extend(result.ledger.as_ref().map(packets));
    tables.extend(result.faults.as_ref().map(faults));
    tables.extend(result.intervals.as_ref().map(intervals));
    tables.extend(result.rows.as_deref().map(rows));
    tables.extend(beside_the_published(result));
    tables.push(figures(result));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn packets(ledger: &Totals) -> Table {
    let mut table = Table::new("packets", "Packets", &["packets", "count", "of_injected_share"]);
    let mut row = |name: &str, packets: u64, of_injected: bool| {
        let share = (of_injected && ledger.injected > 0)
            .then(|| Cell::number(packets as f64 / ledger.injected as f64, percent));
        table.rows.push(vec![Cell::word(name), Cell::count(packets), share.unwrap_or_default()]);
    };
    row("planned", ledger.planned, false);
    row("not injected", ledger.not_injected, false);
    row("injected", ledger.injected, true);
    row("no descriptor", ledger.no_descriptor, true);
    row("filtered", ledger.filtered, true);
    row("of these: while not receiving", ledger.not_receiving, true);
    row("DMA error", ledger.dma_error, true);
    row("never completed", ledger.not_completed, true);
    row("refused by the driver", ledger.refused, true);
    row("accepted by the driver", ledger.accepted, true);
    row("delivered to the application", ledger.delivered, true);
    row("meant for no application", ledger.unclaimed, true);
    row("lost", ledger.lost, true);
    row("lost on the ring, never taken", ledger.lost_on_ring, true);
    row("lost behind the driver", ledger.lost_in_stack, true);
    row("unaccounted", ledger.unaccounted, false);
    table
}

/// What was made to go wrong, what the driver did, and the evidence.
fn faults(report: &FaultReport) -> Table {
    const HEADER: [&str; 6] =
        ["fault", "injected", "first_ns", "packets_after", "accepted_after", "driver"];
    const CONSOLE_LINES: usize = 6;
    let mut table = Table::new("faults", "Faults", &HEADER);
    for finding in &report.findings {
        let count = |packets: Option<u64>| packets.map(Cell::count).unwrap_or_default();
        table.rows.push(vec![
            Cell::word(&finding.fault),
            Cell::count(finding.injected),
            finding.first_ns.map(|ns| Cell::number(ns, time)).unwrap_or_default(),
            count(finding.packets_after),
            count(finding.accepted_after),
            Cell::word(finding.verdict.words()),
        ]);
    }
    let evidence = &report.evidence;
    table.notes.extend(evidence.ended.iter().map(|ended| format!("The run ended early: {ended}")));
    table.notes.push(format!(
        "Afterwards, without faults, the driver accepted {} of {} packets.",
        evidence.probe_accepted, evidence.probe_packets
    ));
    let console = evidence.console.iter().take(CONSOLE_LINES);
    table.notes.extend(console.map(|line| format!("Console: {line}")));
    table
}

fn intervals(intervals: &Intervals) -> Table {
    const HEADER: [&str; 9] = [
        "place",
        "count",
        "min_ns",
        "p50_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "within_1_share",
        "within_6_25_share",
    ];
    let mut table = Table::new("intervals", "Intervals", &HEADER);
    let mut row = |name: String, stats: &IntervalStats| {
        let all = &stats.all;
        let mut cells = vec![Cell::word(&name), Cell::count(all.count)];
        let times = [all.min, all.p50, all.p99, all.p999, all.max];
        cells.extend(times.map(|ns| Cell::number(ns, time)));
        let shares = [stats.within_1_percent, stats.within_6_25_percent];
        cells.extend(
            shares.map(|share| share.map_or(Cell::default(), |s| Cell::number(s, percent))),
        );
        table.rows.push(cells);
    };
    let places = [
        ("injected", &intervals.injected),
        ("raised", &intervals.raised),
        ("handler", &intervals.handler),
    ];
    for (name, stats) in places {
        let Some(stats) = stats else { continue };
        row(name.to_owned(), stats);
        if let Some(quiet) = &stats.without_hiccups {
            row(format!("{name}, quiet"), quiet);
        }
    }
    table.notes.extend(intervals.requested_ns.map(|ns| format!("Asked for: {}.", time(ns))));
    table.notes.push("Quiet: without the intervals that fall into a hiccup.".to_owned());
    table
}

/// What tells rows apart comes first.
const KEYS: [&str; 15] = [
    "way",
    "load",
    "kind",
    "size_bytes",
    "line_rate_bps",
    "place",
    "fault",
    "strategy",
    "poll_us",
    "buffer_bytes",
    "burst_bytes",
    "mixture",
    "buffers",
    "completion",
    "bounce",
];
/// Published figures that do not have the name of what they stand beside.
const BESIDE: [(&str, &str); 3] = [
    ("published_bps", "loss_free_bps"),
    ("published_send_ns", "send_ns"),
    ("published_real_nic_bps", "on_line_bps"),
];

fn rows(rows: &[Row]) -> Table {
    let rows: Vec<Row> = rows.iter().take(MAX_ROWS + 1).map(flat).collect();
    let columns = columns(&rows);
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("rows", "Results", &names);
    for row in rows.iter().take(MAX_ROWS) {
        table.rows.push(names.iter().map(|name| Cell::named(name, row.get(*name))).collect());
    }
    if rows.len() > MAX_ROWS {
        table.notes.push(format!("The first {MAX_ROWS} rows."));
    }
    table
}

/// A row whose figures are all numbers or words: the parts of a distribution become figures of their
/// own, so that `delay_us` with `p50` in it is `delay_p50_us`.
fn flat(row: &Row) -> Row {
    let mut flat = Row::new();
    for (name, value) in row {
        let Value::Object(parts) = value else {
            flat.insert(name.clone(), value.clone());
            continue;
        };
        let (stem, unit) = name.rsplit_once('_').unwrap_or((name, ""));
        for (part, value) in parts.iter().take(MAX_COLUMNS) {
            flat.insert(format!("{stem}_{part}_{unit}"), value.clone());
        }
    }
    flat
}

/// Keys first, each published figure behind its own.
fn columns(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<String> = KEYS.map(str::to_owned).to_vec();
    for name in rows.iter().take(MAX_ROWS).flat_map(Row::keys) {
        if names.len() < MAX_COLUMNS && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names.retain(|name| rows.iter().any(|row| row.get(name).is_some_and(|value| !value.is_null())));
    let (published, mut names): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.starts_with("published_"));
    for name in published {
        let beside = BESIDE.iter().find(|(one, _)| *one == name).map(|(_, other)| *other);
        let beside = beside.or(name.strip_prefix("published_")).unwrap_or_default();
        let at = names.iter().position(|other| other == beside).map_or(names.len(), |at| at + 1);
        names.insert(at, name);
    }
    names
}

/// Figures that were published for what this experiment does, where its rows do not have them.
fn beside_the_published(result: &RunResult) -> Option<Table> {
    let has_them =
        result.rows.iter().flatten().any(|row| row.keys().any(|key| key.starts_with("published_")));
    let sizes = result.rows.iter().flatten().filter_map(|row| row.get("size_bytes")?.as_u64());
    let mut table = match result.experiment.as_str() {
        "accuracy" => accuracy(result),
        "receive" => return Some(hybrid_receive()),
        "replace" => return Some(driver_replacement(result)),
        "transmit" => return Some(adaptive_transmit(result)).filter(|_| !in_kernel(result)),
        _ if has_them => return None,
        _ => published_by_size(sizes),
    };
    table.notes.push(format!("Published for: {}.", published::injection().environment));
    Some(table).filter(|table| !table.rows.is_empty())
}

fn published_by_size(sizes: impl Iterator<Item = u64>) -> Table {
    let injection = published::injection();
    let header = ["size_bytes", "published_send_ns", "published_loss_free_bps"];
    let mut table = Table::new("published", "Published for these lengths", &header);
    for bytes in sizes.take(MAX_ROWS) {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let send = injection.send_ns(size).map(|ns| Cell::number(ns, time));
        let rates = injection.throughput_bps(size).map(|bps| Cell::number(bps, rate));
        if send.is_some() || rates.is_some() {
            let cells = [Some(Cell::count(bytes)), send, rates];
            table.rows.push(cells.map(Option::unwrap_or_default).to_vec());
        }
    }
    table
}

/// All that was published about polling first and waiting then.
fn hybrid_receive() -> Table {
    let hybrid = published::hybrid_receive();
    let header = ["poll_us", "buffer_bytes", "lost_share", "cpu_at_50KB_share"];
    let mut table = Table::new("published", "Published", &header);
    for loss in hybrid.losses() {
        let cpu = hybrid.cpu_share(loss.poll_us, published::HYBRID_BURST_BYTES);
        table.rows.push(vec![
            Cell::number(loss.poll_us as f64, |us| time(us * 1e3)),
            Cell::count(loss.buffer_mb * 1_000_000),
            Cell::number(loss.lost_share, percent),
            cpu.map(|share| Cell::number(share, percent)).unwrap_or_default(),
        ]);
    }
    table.notes.push(format!("Published for: {}.", hybrid.environment));
    table.notes.push(format!("Below 100 µs: {}.", hybrid.below_100us));
    table.notes.push(format!("How it scales: {}.", hybrid.scaling_rule));
    table
}

/// What was published about transmitting, beside what was found.
fn adaptive_transmit(result: &RunResult) -> Table {
    let header = ["figure", "published_share", "here_share"];
    let mut table = Table::new("published", "Beside what was published", &header);
    for (what, published, here) in beside_published(result) {
        let here = here.map(|share| Cell::number(share, percent)).unwrap_or_default();
        table.rows.push(vec![Cell::word(&what), Cell::number(published, percent), here]);
    }
    let transmit = published::adaptive_transmit();
    table.notes.push(format!("Published for: {}.", transmit.environment));
    table.notes.push(format!("Bounce buffers at 64 KB: {}.", transmit.bounce_at_64_kb));
    table
}

/// What was published about replacing a driver, beside what was found.
fn driver_replacement(result: &RunResult) -> Table {
    let header = ["figure", "published_ns", "here_ns"];
    let mut table = Table::new("published", "Beside what was published", &header);
    for (what, published, here) in crate::replace::beside_published(result) {
        let here = here.map(|ns| Cell::number(ns, time)).unwrap_or_default();
        table.rows.push(vec![Cell::word(&what), Cell::number(published, time), here]);
    }
    let replacement = published::driver_replacement();
    table.notes.push(format!("Published for: {}.", replacement.workload));
    table.notes.push(format!(
        "Longest time between two sends around a replacement: MINIX 3 {}. AnT: {} more, all sends together.",
        time(replacement.minix3_longest_send_gap_ms * 1e6),
        time(replacement.ant_extra_gap_ms * 1e6)
    ));
    table
}

fn accuracy(result: &RunResult) -> Table {
    let published = &published::injection().interval_accuracy;
    let injected =
        result.rows.iter().flatten().find(|row| row.get("place").is_some_and(|p| p == "injected"));
    let of_row = |name: &str| Cell::named(name, injected.and_then(|row| row.get(name)));
    let of_run = |name: &str| Cell::named(name, result.figures.get(name));
    let mut table = Table::new(
        "published",
        "Beside what was published",
        &["figure", "here_at_injection", "published"],
    );
    let mut row = |name: &str, here: Cell, there: f64, show: &dyn Fn(f64) -> String| {
        table.rows.push(vec![Cell::word(name), here, Cell::number(there, show)]);
    };
    row("requested", of_run("requested_ns"), published.requested_us * 1e3, &time);
    row("exact", of_row("exact_share"), published.exact_share, &percent);
    let worst = published.worst_error_share;
    row("worst error", of_row("worst_error_share"), worst, &percent);
    let smallest = published.smallest_interval_us * 1e3;
    row("smallest interval", of_run("smallest_interval_ns"), smallest, &time);
    table
}

/// Everything that is a single figure, those of a group each by itself; lists are no figures.
fn figures(result: &RunResult) -> Table {
    let mut table = Table::new("figures", "Figures", &["figure", "value"]);
    let mut add = |name: &str, value: &Value| {
        if !value.is_array() && !value.is_null() {
            let head = Cell { raw: name.to_owned(), ..head(name) };
            table.rows.push(vec![head, Cell::named(name, Some(value))]);
        }
    };
    for (name, value) in single_figures(result) {
        match value.as_object() {
            Some(group) => group.iter().for_each(|(of, value)| add(&format!("{name}_{of}"), value)),
            None => add(&name, &value),
        }
    }
    table
}

/// What is known of the machine, a line each.
pub(super) fn machine(machine: &Machine) -> Vec<(&'static str, String)> {
    let cores = |cores: &[u32]| {
        (!cores.is_empty()).then(|| cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
    };
    let virtualised = machine.virtualised.map(|yes| if yes { "yes" } else { "no" }.to_owned());
    [
        ("processor", machine.cpu_model.clone()),
        ("logical cores", machine.logical_cores.map(|cores| cores.to_string())),
        ("kernel", machine.kernel.clone()),
        ("virtual machine", virtualised),
        ("support side's cores", cores(&machine.support_cores)),
        ("target's cores", cores(&machine.target_cores)),
        ("isolated cores", cores(&machine.isolated_cores)),
        ("frequency governor", machine.governor.clone()),
        ("real-time priority", machine.rt_priority.map(|priority| priority.to_string())),
        ("huge pages", machine.huge_pages.map(count)),
        ("time stamp counter", machine.tsc_hz.map(|hz| format!("{:.3} MHz", hz / 1e6))),
        ("time stolen by the host", machine.stolen_percent.map(|stolen| percent(stolen / 100.0))),
        ("support side waited for its core", machine.support_waited_us.map(|us| time(us * 1e3))),
        ("target waited for its core", machine.target_waited_us.map(|us| time(us * 1e3))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}
