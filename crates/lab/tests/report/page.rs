//! The page: everything in one file, figures in full behind those that are shown, nothing that a
//! file could smuggle in.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use warikomi_measure::layout::{Column, Headline, Map, Mark, Unit};
use warikomi_report::html::{Section, page};
use warikomi_report::read::Run;

use crate::{charts_of, fixtures};

fn page_of(paths: &[&Path]) -> String {
    let sections: Vec<_> = paths
        .iter()
        .map(|path| Section { run: Run::load(path).unwrap(), charts: charts_of(path) })
        .collect();
    page(&sections)
}

/// Everything between two texts, as often as they come.
fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> Vec<&'a str> {
    text.split(start).skip(1).map(|rest| rest.split_once(end).unwrap().0).collect()
}

fn downloads(html: &str) -> Vec<String> {
    between(html, "href=\"data:text/csv;charset=utf-8;base64,", "\"")
        .into_iter()
        .map(|data| String::from_utf8(STANDARD.decode(data).unwrap()).unwrap())
        .collect()
}

#[test]
fn each_figure_of_the_rows_is_in_the_page_in_full() {
    let runs = tempfile::tempdir().unwrap();
    for run in [
        fixtures::sweep(runs.path(), 1, 1.0),
        fixtures::accuracy(runs.path()),
        fixtures::cost(runs.path()),
    ] {
        let html = page_of(&[run.path()]);
        let result = Run::load(run.path()).unwrap().result;
        let rows = result.rows.unwrap();
        let table = downloads(&html).into_iter().find(|csv| {
            let head = csv.lines().next().unwrap();
            rows[0].keys().all(|name| head.split(',').any(|column| column == name))
        });
        let table = table.expect("the rows can be downloaded");
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let header = reader.headers().unwrap().clone();
        let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), rows.len());
        for (line, row) in lines.iter().zip(&rows) {
            for (name, cell) in header.iter().zip(line) {
                let value = row.get(name).cloned().unwrap_or_default();
                assert_eq!(cell.parse::<f64>().ok(), value.as_f64(), "{name}");
                if value.is_number() {
                    assert!(html.contains(&format!("<data value=\"{cell}\"")), "{name} {cell}");
                }
            }
        }
        for (name, value) in &result.figures {
            assert!(html.contains(&format!("<data value=\"{value}\"")), "{name} {value}");
        }
    }
}

#[test]
fn parts_of_a_distribution_have_columns_of_their_own_and_a_reason_is_text() {
    let runs = tempfile::tempdir().unwrap();
    let html = page_of(&[fixtures::receive(runs.path()).path()]);
    let downloads = downloads(&html);
    let table = downloads.iter().find(|csv| csv.starts_with("strategy,")).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let header = reader.headers().unwrap().clone();
    let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
    let rows = fixtures::receive_rows();
    assert_eq!(lines.len(), rows.len());
    let column = |name: &str| {
        header.iter().position(|head| head == name).unwrap_or_else(|| panic!("no {name}"))
    };
    for (line, row) in lines.iter().zip(&rows) {
        for part in ["p50", "p90", "p99", "max"] {
            let delay = row.get("delay_us").map(|delay| delay[part].to_string());
            assert_eq!(line[column(&format!("delay_us.{part}"))], delay.unwrap_or_default());
        }
    }
    assert!(html.contains("the kernel &lt;refuses&gt;") && !html.contains("<refuses>"));
    for expected in ["Giganet", "proportional to link bandwidth", "<data value=\"0.0000025\""] {
        assert!(html.contains(expected), "{expected} is not in the page");
    }
}

#[test]
fn ways_to_send_are_beside_what_was_published() {
    let runs = tempfile::tempdir().unwrap();
    let html = page_of(&[fixtures::transmit(runs.path()).path()]);
    let downloads = downloads(&html);
    let published = downloads.iter().find(|csv| csv.starts_with("figure,published_share")).unwrap();
    let line = published.lines().find(|line| line.contains("scattered DMA")).unwrap();
    assert!(line.ends_with(",0.17,0.15"), "{line}");
    let keys = "size_bytes,mixture,buffers,completion,bounce,";
    let rows = downloads.iter().find(|csv| csv.starts_with(keys)).expect("keys come first");
    assert_eq!(rows.lines().count(), 1 + fixtures::transmit_rows().len());
    assert!(html.contains("OC-48c card") && html.contains("no gain, or a loss"));
}

#[test]
fn each_chart_is_in_the_page_with_its_numbers() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::accuracy(runs.path());
    let html = page_of(&[run.path()]);
    let downloads = downloads(&html);
    for chart in charts_of(run.path()) {
        assert!(html.contains(&chart.svg()), "{}", chart.name);
        assert!(downloads.contains(&chart.csv()), "{}", chart.name);
    }
}

#[test]
fn the_page_has_plan_machine_warnings_and_published_figures_and_needs_no_network() {
    let runs = tempfile::tempdir().unwrap();
    let (sweep, cost) = (fixtures::sweep(runs.path(), 1, 1.0), fixtures::cost(runs.path()));
    let html = page_of(&[sweep.path(), cost.path()]);
    for expected in [
        "sizes = [1024, 1500]",
        "An invented processor",
        "these figures are made up",
        "run the experiment",
        "<data value=\"30600000000",
        "30.6 Gbit/s",
        "prefers-color-scheme: dark",
        "width=device-width",
        "id=\"run-2\"",
    ] {
        assert!(html.contains(expected), "{expected} is not in the page");
    }
    let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
    let rest = html.replace(namespace, "");
    assert_eq!(rest.matches("<script").count(), 1, "only our script");
    assert!(rest.contains("default-src 'none'") && rest.contains("script-src 'sha256-"));
    for outside in ["http:", "https:", "src=", "<link", "@import", "url("] {
        assert!(!rest.contains(outside), "{outside} is in the page");
    }
}

#[test]
fn each_line_of_a_map_is_coloured_by_its_class_with_its_text_and_figures() {
    let runs = tempfile::tempdir().unwrap();
    let html = page_of(&[fixtures::explore(runs.path()).path()]);
    let maps = between(&html, "<table class=\"map\">", "</table>");
    assert_eq!(maps.len(), 2, "one for each file");
    let count = |class: &str| maps[0].matches(&format!("<tr class=\"{class}")).count();
    assert_eq!(["bad", "good", "unknown", "between"].map(count), [2, 4, 1, 2]);
    // Lines that do not follow each other.
    assert_eq!(maps[0].matches(" gap\"").count(), 2);
    let lines = between(maps[0], "<tr ", "</tr>");
    let line = |number: u32| {
        let is_it = |line: &&&str| line.contains(&format!("<td>{number}</td>"));
        *lines.iter().find(is_it).unwrap_or_else(|| panic!("no line {number}"))
    };
    assert!(line(4642).contains("--heat:80%") && line(4640).contains("--heat:35%"));
    assert!(line(4642).contains("<code>\trtl_ack_events(tp, status);</code>"));
    assert!(line(4700).contains("status &lt; 0 &amp;&amp; status &gt; &quot;&lt;b&gt;&quot;"));
    assert!(!maps[1].contains("source") && maps[1].contains("<data value=\"2\""));
    // The first is open, and what has nothing wrong behind it has to be opened.
    assert!(html.contains("<details open><summary>realtek/r8169_main.c: 7 lines"), "{html}");
    assert!(html.contains("<details><summary>linux/netdevice.h: 1 line"), "{html}");
    let csv = downloads(&html).into_iter().find(|csv| csv.starts_with("file,line,class,value,"));
    assert_eq!(csv.expect("the lines can be downloaded").lines().count(), 1 + 8);
}

#[test]
fn what_comes_from_files_is_text_and_never_markup() {
    const EVIL: &str = "<script>alert(\"1\")</script>'&\u{7}";
    let runs = tempfile::tempdir().unwrap();
    let run = warikomi_measure::RunDirectory::create(runs.path(), 0, "x").unwrap();
    run.write_plan(&format!("# {EVIL}")).unwrap();
    let mut intervals = fixtures::intervals();
    intervals.iter_mut().for_each(|interval| interval.place = EVIL);
    run.write_table("intervals", intervals).unwrap();
    let mut result = fixtures::result("accuracy");
    warikomi_lab::describe(&mut result);
    result.experiment = EVIL.to_owned();
    let layout = &mut result.layout;
    layout.asked = Some(EVIL.to_owned());
    layout.say(EVIL, EVIL);
    layout.tables[0].title = EVIL.to_owned();
    layout.tables[0].notes.push(EVIL.to_owned());
    layout.headline.push(Headline {
        title: EVIL.to_owned(),
        value: 1.0,
        unit: Unit::Ns,
        published: None,
        of: EVIL.to_owned(),
    });
    layout.columns.push(Column { unit: Unit::Plain, ..Column::parameter(EVIL, EVIL) });
    let map = Map::of_figures("lines", EVIL, "lines", vec![Column::figure("of", EVIL)]);
    layout.maps.push(map.note(EVIL));
    for chart in &mut layout.charts {
        chart.title = format!("{} {EVIL}", chart.title);
        chart.x.title = EVIL.to_owned();
        chart.notes.push(EVIL.to_owned());
        chart.marks.push(Mark { name: EVIL.to_owned(), at: 1.0 });
    }
    result.target.driver = EVIL.to_owned();
    result.machine.cpu_model = Some(EVIL.to_owned());
    result.warnings[0].what = EVIL.to_owned();
    let row = serde_json::json!({ (EVIL): EVIL, "size_bytes": EVIL });
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    result.figures.insert(EVIL.to_owned(), EVIL.into());
    let line = serde_json::json!({
        "file": EVIL, "line": EVIL, "text": EVIL, "class": EVIL, "value": EVIL, "of": EVIL,
    });
    result.figures.insert("lines".to_owned(), vec![line].into());
    result.plan.insert(EVIL.to_owned(), EVIL.into());
    result.target.settings.insert(EVIL.to_owned(), EVIL.into());
    fixtures::keep(&run, result);
    let html = page_of(&[run.path()]);
    assert!(html.contains("<table class=\"map\">"));
    assert_eq!(html.matches("<script").count(), 1, "only our script");
    assert!(html.contains("&lt;script&gt;") && !html.contains("alert(\"1\")"));
    for chart in charts_of(run.path()) {
        let svg = chart.svg();
        assert!(!svg.contains("<script") && svg.contains("&lt;script"), "{svg}");
        assert!(!svg.contains('\u{7}'), "which no SVG may contain");
    }
}
