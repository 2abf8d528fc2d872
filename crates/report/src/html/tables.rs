//! The tables of a page. A cell has the figure as people read it and as the result has it.

use warikomi_measure::layout::{Column, Map, Object, Source, Unit, count, percent, raw, time};
use warikomi_measure::{FaultReport, IntervalStats, Intervals, Machine, RunResult, Totals};

use crate::columns;
use crate::figures::single_figures;

/// The most rows that are shown; nothing here makes nearly so many.
const MAX_ROWS: usize = 2_000;

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// The value as it is shown.
    pub(super) shown: String,
    /// The value with all its digits.
    pub(super) raw: String,
    /// How much of its column it is, of 100, if it has a bar.
    pub(super) bar: Option<u32>,
}

impl Cell {
    fn word(word: &str) -> Cell {
        Cell { shown: word.to_owned(), raw: word.to_owned(), bar: None }
    }

    fn number(value: f64, unit: Unit) -> Cell {
        Cell { shown: unit.show(value), raw: value.to_string(), bar: None }
    }

    fn count(value: u64) -> Cell {
        Cell { shown: count(value), raw: value.to_string(), bar: None }
    }

    pub(super) fn of(column: &Column, row: &Object, all: f64) -> Cell {
        let raw = column.value(row).map(raw).unwrap_or_default();
        let part = column.number(row).filter(|_| column.unit == Unit::Bar && all > 0.0);
        let bar = part.map(|part| (100.0 * part / all).clamp(0.0, 100.0).round() as u32);
        Cell { shown: column.cell(row), raw, bar }
    }
}

/// A table of the page.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Name of the table's CSV file.
    pub(super) name: String,
    /// Title of the table.
    pub(super) title: String,
    pub(super) header: Vec<Cell>,
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) notes: Vec<String>,
}

impl Table {
    /// A table without rows yet, its columns by their keys.
    fn new(name: &str, title: &str, header: &[&str]) -> Table {
        let header = header.iter().map(|key| head(&Column::of(key))).collect();
        Table { name: name.to_owned(), title: title.to_owned(), header, ..Table::default() }
    }

    fn of_rows(name: &str, title: &str, columns: &[Column], rows: &[&Object]) -> Table {
        let header = columns.iter().map(head).collect();
        let all = |column: &Column| rows.iter().filter_map(|row| column.number(row)).sum();
        let alls: Vec<f64> = columns.iter().map(all).collect();
        let cells = |row: &&Object| {
            columns.iter().zip(&alls).map(|(column, all)| Cell::of(column, row, *all)).collect()
        };
        let (name, title) = (name.to_owned(), title.to_owned());
        let lines = rows.iter().take(MAX_ROWS).map(cells).collect();
        let mut table = Table { name, title, header, rows: lines, notes: Vec::new() };
        if rows.len() > MAX_ROWS {
            table.notes.push(format!("The first {MAX_ROWS} rows."));
        }
        table
    }

    /// The lines of a map, with their figures and the words that colour them.
    pub(super) fn of_lines(map: &Map, lines: &[&Object]) -> Table {
        let column = |key: &str| Column { key: key.to_owned(), ..Column::default() };
        let own = |keys: &[&str]| keys.iter().map(|key| column(key)).collect::<Vec<_>>();
        let columns =
            [own(&["file", "line", "class", "value"]), map.columns.clone(), own(&["text"])];
        let columns = columns.concat();
        let rows = lines.iter().map(|row| columns.iter().map(|c| Cell::of(c, row, 0.0)).collect());
        let header = columns.iter().map(head).collect();
        Table { header, rows: rows.collect(), ..Table::default() }
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

fn head(column: &Column) -> Cell {
    Cell { shown: column.title.clone(), raw: column.key.clone(), bar: None }
}

/// All tables that a result has.
pub(super) fn tables(result: &RunResult) -> Vec<Table> {
    let mut tables = Vec::new();
    tables.extend(result.rows.as_ref().map(|rows| {
        let rows: Vec<&Object> = rows.iter().collect();
        let columns = columns::of_rows(&result.layout, &rows);
        Table::of_rows("rows", "Results", &columns, &rows)
    }));
    for declared in &result.layout.tables {
        if matches!(declared.source, Source::File(_)) {
            continue;
        }
        let (columns, rows) = columns::of_table(result, declared);
        let mut table = Table::of_rows(&declared.name, &declared.title, &columns, &rows);
        table.notes.extend(declared.notes.iter().cloned());
        tables.push(table);
    }
    tables.extend(result.ledger.as_ref().map(|ledger| packets(ledger, result.recipient())));
    tables.extend(result.faults.as_ref().map(faults));
    tables.extend(result.intervals.as_ref().map(intervals));
    tables.push(figures(result));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn packets(ledger: &Totals, recipient: &str) -> Table {
    let mut table = Table::new("packets", "Packets", &["packets", "count", "of_injected_share"]);
    let mut row = |name: &str, packets: u64, of_injected: bool| {
        let share = (of_injected && ledger.injected > 0)
            .then(|| Cell::number(packets as f64 / ledger.injected as f64, Unit::Share));
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
    row(&format!("delivered to {recipient}"), ledger.delivered, true);
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
            finding.first_ns.map(|ns| Cell::number(ns, Unit::Ns)).unwrap_or_default(),
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
        cells.extend(times.map(|ns| Cell::number(ns, Unit::Ns)));
        let shares = [stats.within_1_percent, stats.within_6_25_percent];
        cells.extend(
            shares.map(|share| share.map_or(Cell::default(), |s| Cell::number(s, Unit::Share))),
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

/// Everything that is a single figure, those of a group each by itself; lists are no figures.
fn figures(result: &RunResult) -> Table {
    let mut table = Table::new("figures", "Figures", &["figure", "value"]);
    let mut add = |key: &str, value: &serde_json::Value| {
        if !value.is_array() && !value.is_null() {
            let column = result.layout.figure(key);
            let row = Object::from_iter([(key.to_owned(), value.clone())]);
            table.rows.push(vec![head(&column), Cell::of(&column, &row, 0.0)]);
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

/// Which sides have real-time priority, or why none has.
fn realtime(machine: &Machine) -> Option<String> {
    match (machine.rt_priority, machine.target_rt_priority, &machine.no_realtime) {
        (Some(ours), None, _) => Some(format!("{ours} (support side)")),
        (Some(ours), Some(theirs), _) => Some(format!("{ours} (support side), {theirs} (target)")),
        (None, _, why) => why.as_ref().map(|why| format!("none: {why}")),
    }
}

/// What is known of the machine, a line each.
pub(super) fn machine(machine: &Machine) -> Vec<(&'static str, String)> {
    let cores = |cores: &[u32]| {
        (!cores.is_empty()).then(|| cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
    };
    let yes_or_no = |yes| if yes { "yes" } else { "no" }.to_owned();
    [
        ("processor", machine.cpu_model.clone()),
        ("logical cores", machine.logical_cores.map(|cores| cores.to_string())),
        ("kernel", machine.kernel.clone()),
        ("virtual machine", machine.virtualised.map(yes_or_no)),
        ("support side's cores", cores(&machine.support_cores)),
        ("target's cores", cores(&machine.target_cores)),
        ("isolated cores", cores(&machine.isolated_cores)),
        ("frequency governor", machine.governor.clone()),
        ("real-time priority", realtime(machine)),
        ("locked memory", machine.memory_locked.then(|| "yes".to_owned())),
        ("huge pages", machine.huge_pages.map(count)),
        ("cores shared by session", machine.sessions_grouped.map(yes_or_no)),
        ("time stamp counter", machine.tsc_hz.map(|hz| format!("{:.3} MHz", hz / 1e6))),
        ("time stolen by the host", machine.stolen_percent.map(|stolen| percent(stolen / 100.0))),
        ("support side waited for its core", machine.support_waited_us.map(|us| time(us * 1e3))),
        ("target waited for its core", machine.target_waited_us.map(|us| time(us * 1e3))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}
