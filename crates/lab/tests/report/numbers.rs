//! The numbers behind each plot are those of the run's files.

use std::fs;
use std::path::Path;

use warikomi_clock::{Span, Time};
use warikomi_measure::{Fate, Row, RunDirectory, published};

use crate::{chart, charts_of, fixtures, numbers};

type Points = Vec<(f64, f64)>;

fn sorted(mut points: Points) -> Points {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn with_thousands(bytes: usize) -> String {
    let (thousands, rest) = (bytes / 1_000, bytes % 1_000);
    format!("{thousands},{rest:03} bytes")
}

#[test]
fn curves_of_success_are_the_cycles() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::sweep(runs.path(), 1, 1.0);
    let (driver, end_to_end) =
        (chart(run.path(), "success-driver"), chart(run.path(), "success-end-to-end"));
    let overlaid = chart(run.path(), "success-overlaid");
    for (_, bytes) in published::SIZES {
        let cycles = fixtures::cycles();
        let of_size = || cycles.iter().filter(|c| c.size_bytes == bytes && c.interval_ns > 0.0);
        let name = with_thousands(bytes);
        let at_driver = sorted(of_size().map(|c| (c.interval_ns, c.driver_share)).collect());
        let at_end = sorted(of_size().map(|c| (c.interval_ns, c.end_to_end_share)).collect());
        assert_eq!(numbers(&driver, &name), at_driver);
        assert_eq!(numbers(&end_to_end, &name), at_end);
        if bytes == 1_500 {
            assert_eq!(numbers(&overlaid, "driver"), at_driver);
            assert_eq!(numbers(&overlaid, "end to end"), at_end);
        }
        let mark = driver.marks.iter().find(|mark| mark.name.ends_with(&name)).unwrap();
        assert_eq!(mark.at, of_size().next().unwrap().send_ns);
        assert!(driver.csv().contains(&format!("\"{}\",{},", mark.name, mark.at)));
    }
    assert!(driver.title.contains("driver") && overlaid.title.contains("1,500"));
}

#[test]
fn throughput_is_that_of_the_rows_beside_the_published() {
    let runs = tempfile::tempdir().unwrap();
    let throughput = chart(fixtures::sweep(runs.path(), 1, 1.0).path(), "throughput");
    let rows = fixtures::sweep_rows();
    let column = |name: &str, on_a_line: bool| -> Points {
        let rows = rows.iter().filter(|row| row.contains_key("line_rate_bps") == on_a_line);
        let pair = |row: &serde_json::Map<_, serde_json::Value>| {
            Some((row["size_bytes"].as_f64()?, row[name].as_f64()?))
        };
        rows.filter_map(pair).collect()
    };
    assert_eq!(numbers(&throughput, "without loss"), column("loss_free_bps", false));
    assert_eq!(numbers(&throughput, "as fast as possible"), column("saturated_bps", false));
    let published = numbers(&throughput, "published, without loss");
    assert_eq!(published, column("published_bps", false));
    assert_eq!(published[1], (1_500.0, 6.3e9));
    assert_eq!(numbers(&throughput, "over a line, without loss"), [(1_500.0, 0.975e9)]);
    assert_eq!(numbers(&throughput, "published, real NIC"), [(1_500.0, 0.92e9)]);
}

#[test]
fn a_row_may_have_figures_of_a_line_besides_others() {
    let runs = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(runs.path(), 0, "sweep").unwrap();
    let mut result = fixtures::result("sweep");
    let row = serde_json::json!({
        "size_bytes": 1_500, "loss_free_bps": 12e9, "line_rate_bps": 1e9, "on_line_bps": 0.9e9,
        "published_bps": 6.3e9, "published_real_nic_bps": 0.92e9,
    });
    result.rows = Some(vec![row.as_object().unwrap().clone()]);
    fixtures::keep(&run, result);
    let throughput = chart(run.path(), "throughput");
    for (series, bps) in [
        ("without loss", 12e9),
        ("published, without loss", 6.3e9),
        ("over a line, without loss", 0.9e9),
        ("published, real NIC", 0.92e9),
    ] {
        assert_eq!(numbers(&throughput, series), [(1_500.0, bps)], "{series}");
    }
}

#[test]
fn the_line_is_at_the_median_of_undisturbed_cycles_and_dots_are_all_of_them() {
    let runs = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(runs.path(), 0, "sweep").unwrap();
    let table = "size_bytes,interval_ns,driver_share,end_to_end_share,disturbed\n\
                 1500,900,0.5,0.4,false\n1500,900,0.75,0.6,false\n1500,900,0.25,0.2,false\n\
                 1500,900,0.125,0.1,true\n1500,800,0.1,0.1,true\n1500,1000,1,,false\n";
    fs::write(run.path().join("cycles.csv"), table).unwrap();
    fixtures::keep(&run, fixtures::result("sweep"));
    let driver = chart(run.path(), "success-driver");
    assert_eq!(numbers(&driver, "1,500 bytes"), [(900.0, 0.5), (1_000.0, 1.0)]);
    let cycles =
        [(800.0, 0.1), (900.0, 0.125), (900.0, 0.25), (900.0, 0.5), (900.0, 0.75), (1_000.0, 1.0)];
    assert_eq!(numbers(&driver, "1,500 bytes, each"), cycles);
    let overlaid = chart(run.path(), "success-overlaid");
    assert_eq!(numbers(&overlaid, "end to end"), [(900.0, 0.4)]);
}

/// Counts the raw values again into the bins that a chart has, by comparing only.
fn assert_counted(bins: &Points, raw: &[f64]) {
    let hair = 1.0 - 1e-9;
    let total: f64 = bins.iter().map(|(_, count)| count).sum();
    assert_eq!(total, raw.len() as f64, "each value is in one bin");
    for (at, &(from, count)) in bins.iter().enumerate() {
        let until = bins.get(at + 1).map_or(f64::INFINITY, |(from, _)| *from);
        let inside = |ns: &&f64| (from * hair..until * hair).contains(&ns.max(1.0));
        assert_eq!(count, raw.iter().filter(inside).count() as f64, "bin from {from} ns");
    }
}

#[test]
fn accuracy_is_that_of_the_intervals() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::accuracy(runs.path());
    let errors = chart(run.path(), "errors");
    let places: Vec<_> = errors.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(places, ["injected", "raised", "handler"], "in the order of things");
    for place in places {
        let all = fixtures::intervals();
        let here = || all.iter().filter(|interval| interval.place == place);
        let raw: Vec<f64> = here().map(|interval| interval.error_ns.abs()).collect();
        assert_counted(&numbers(&errors, place), &raw);
        let course = chart(run.path(), &format!("intervals-{place}"));
        for (series, in_hiccup) in [("interval", false), ("in a hiccup", true)] {
            let raw = here().filter(|interval| interval.in_hiccup == in_hiccup);
            let raw: Points = raw.map(|interval| (interval.at_ns, interval.interval_ns)).collect();
            assert_eq!(numbers(&course, series), raw, "{place}, {series}");
        }
        assert_eq!(numbers(&course, "asked for"), [(38_000.0, 38_000.0), (38e6, 38_000.0)]);
    }
    let marks: Vec<_> = errors.marks.iter().map(|mark| mark.at).collect();
    assert_eq!(marks, [16.5, 380.0, 2_375.0]);
    let kept: Points = fixtures::kept().iter().map(|k| (k.interval_ns, k.kept_share)).collect();
    let smallest = chart(run.path(), "smallest");
    assert_eq!(numbers(&smallest, "kept"), kept);
    assert_eq!(smallest.marks[0].at, 500.0);
}

#[test]
fn cost_is_that_of_rows_and_calls() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::cost(runs.path());
    let send = chart(run.path(), "send");
    assert_eq!(numbers(&send, "measured")[1], (1_500.0, 90.0 + 0.11 * 1_500.0));
    assert_eq!(numbers(&send, "published")[1], (1_500.0, 205.0));
    let fitted = numbers(&send, "fitted line");
    assert_eq!(fitted, [(0.0, 90.0), (16_379.0, 90.0 + 0.11 * 16_379.0)]);
    let receive = chart(run.path(), "receive");
    assert_eq!(numbers(&receive, "copy")[3], (8_192.0, 0.06 * 8_192.0 + 40.0));
    assert_eq!(numbers(&receive, "protocol")[3], (8_192.0, 900.0 + 0.01 * 8_192.0));
    assert_eq!(numbers(&receive, "copy, published")[1], (8_192.0, 1_320.0));
    assert_eq!(numbers(&receive, "protocol, published")[1], (8_192.0, 1_630.0));
    let calls = chart(run.path(), "calls");
    for (_, bytes) in published::SIZES {
        let raw = fixtures::calls().into_iter().filter(|call| call.size_bytes == bytes);
        let raw: Vec<f64> = raw.map(|call| call.send_ns).collect();
        assert_counted(&numbers(&calls, &with_thousands(bytes)), &raw);
    }
}

#[test]
fn receive_is_that_of_rows_beside_the_published() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::receive(runs.path());
    let rows = fixtures::receive_rows();
    let of = |strategy: &str, poll_us: Option<u64>, buffer_bytes: u64| -> Vec<_> {
        let wanted = |row: &&serde_json::Map<String, serde_json::Value>| {
            row["strategy"] == strategy
                && row["poll_us"].as_u64() == poll_us
                && row["buffer_bytes"] == buffer_bytes
        };
        rows.iter().filter(wanted).collect()
    };
    let number = |row: &serde_json::Map<String, serde_json::Value>, name: &str| -> f64 {
        row[name].as_f64().unwrap()
    };
    for poll in [100, 300] {
        let cpu = chart(run.path(), &format!("cpu-{poll}us"));
        for (strategy, poll_us) in [("interrupt", None), ("busy-poll", Some(poll))] {
            let raw: Points = of(strategy, poll_us, 15_000_000)
                .into_iter()
                .map(|row| (number(row, "burst_bytes"), number(row, "cpu_share")))
                .collect();
            assert_eq!(raw.len(), 3);
            assert_eq!(numbers(&cpu, strategy), raw);
        }
        let published = if poll == 100 { 0.25 } else { 0.5 };
        assert_eq!(numbers(&cpu, "published"), [(50_000.0, published)]);
    }
    let lost = chart(run.path(), "lost");
    assert_eq!(lost.x.names[0], "no T, 7 MB");
    let places = [(100, 7_000_000), (100, 15_000_000), (300, 7_000_000), (300, 15_000_000)];
    let drawn = &lost.series.iter().find(|series| series.name == "busy-poll").unwrap().points;
    for (place, (poll, buffer)) in places.into_iter().enumerate() {
        let most = of("busy-poll", Some(poll), buffer)
            .into_iter()
            .map(|row| number(row, "lost_share"))
            .fold(0.0, f64::max);
        assert_eq!(drawn[place], (place as f64 + 2.0, most));
    }
    let published = &lost.series.iter().find(|series| series.name == "published").unwrap().points;
    assert_eq!(published[..2], [(2.0, 0.002), (3.0, 0.0)]);
    let delay = chart(run.path(), "delay-cpu");
    assert_eq!(numbers(&delay, "busy-poll").len(), 12);
    let p99 = rows[0]["delay_us"]["p99"].as_f64().unwrap() * 1e3;
    let first = (number(&rows[0], "cpu_share"), p99);
    assert!(numbers(&delay, "interrupt").contains(&first));
}

#[test]
fn transmit_is_that_of_rows_beside_the_published() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::transmit(runs.path());
    let rows = fixtures::transmit_rows();
    let of = |mixture: bool, buffers: &str, way: (&str, &str)| -> Points {
        let wanted = |row: &&serde_json::Map<String, serde_json::Value>| {
            (row["buffers"] == buffers && row["completion"] == way.0 && row["bounce"] == way.1)
                && row.contains_key("mixture") == mixture
        };
        let pair = |row: &serde_json::Map<String, serde_json::Value>| {
            Some((row["size_bytes"].as_f64()?, row["bps"].as_f64()?))
        };
        rows.iter().filter(wanted).filter_map(pair).collect()
    };
    let systems = chart(run.path(), "throughput");
    let ways = chart(run.path(), "ways-mbuf-2k");
    for buffers in ["mbuf-2k", "contiguous"] {
        let adaptive = of(false, buffers, ("adaptive", "none"));
        assert_eq!((adaptive.len(), numbers(&systems, buffers)), (3, adaptive));
    }
    let free = of(false, "mbuf-2k", ("interrupt-free", "none"));
    assert_eq!((free.len(), numbers(&ways, "interrupt-free")), (2, free));
    assert!(ways.notes.iter().any(|note| note.contains("dead-lock")));
    let changes = |from: &[(f64, f64)], to: &[(f64, f64)]| -> Points {
        let pairs = to.iter().zip(from);
        pairs.map(|(to, from)| (to.0, to.1 / from.1 - 1.0)).collect()
    };
    let adaptive = of(false, "mbuf-2k", ("adaptive", "none"));
    let gains = changes(&of(false, "mbuf-2k", ("interrupt", "none")), &adaptive);
    let completion = chart(run.path(), "completion");
    assert_eq!(numbers(&completion, "mbuf-2k"), gains);
    assert_eq!(numbers(&completion, "mbuf-2k, published"), [(64.0, 0.7)]);
    let bounce = chart(run.path(), "bounce-mbuf-2k");
    let gains = changes(&adaptive, &of(false, "mbuf-2k", ("adaptive", "auto")));
    assert_eq!(numbers(&bounce, "adaptive, bounce auto"), gains);
    assert_eq!(numbers(&bounce, "published"), [(4_096.0, 0.1)]);
    let shares = chart(run.path(), "shares");
    assert_eq!(numbers(&shares, "one transfer, mbuf-2k"), [(4_096.0, 0.06), (65_507.0, 0.15)]);
    assert_eq!(numbers(&shares, "chains, published"), [(16_384.0, 0.12)]);
    let mixtures = chart(run.path(), "mixtures-contiguous");
    assert_eq!(mixtures.x.names, ["64x10,1472x5"]);
    let drawn = mixtures.series.iter().find(|series| series.name == "adaptive").unwrap();
    let raw = of(true, "contiguous", ("adaptive", "none"));
    assert_eq!(drawn.points, [(0.0, raw[0].1)]);
}

/// `count` packets, of which every tenth found no descriptor.
fn inject(runs: &Path, count: u64) -> (RunDirectory, Vec<Row>) {
    let run = RunDirectory::create(runs, 0, "inject").unwrap();
    let mut noise = fixtures::Noise(5);
    let start = Time::from_ps(1_000_000);
    let rows: Vec<Row> = (0..count)
        .map(|sequence| {
            let missed = sequence % 10 == 9;
            let planned = start + Span::from_ns(38_000 * sequence);
            let injected = planned + Span::from_ns((200.0 * noise.next()) as u64);
            let later = |ns: f64| {
                (!missed).then(|| {
                    injected + Span::from_ns((ns * (1.0 + noise.0 as f64 / u64::MAX as f64)) as u64)
                })
            };
            Row {
                sequence,
                fate: if missed { Fate::NoDescriptor } else { Fate::Delivered },
                queue: Some(0),
                planned: Some(planned),
                injected: Some(injected),
                took: Some(Span::from_ns(205)),
                accepted: later(5_000.0),
                delivered: later(9_000.0),
            }
        })
        .collect();
    run.write_samples(start, rows.iter().copied()).unwrap();
    let mut result = fixtures::result("inject");
    result.ledger = Some(warikomi_measure::Totals {
        planned: count,
        injected: count,
        no_descriptor: count / 10,
        accepted: count - count / 10,
        delivered: count - count / 10,
        ..Default::default()
    });
    fixtures::keep(&run, result);
    (run, rows)
}

fn ns(from: Option<Time>, to: Option<Time>) -> Option<f64> {
    Some(to?.since(from?).as_ps() as f64 / 1e3)
}

#[test]
fn packets_are_those_of_the_samples() {
    let runs = tempfile::tempdir().unwrap();
    let (run, rows) = inject(runs.path(), 1_000);
    let delay = chart(run.path(), "delay");
    let raw: Vec<f64> = rows.iter().filter_map(|row| ns(row.injected, row.accepted)).collect();
    assert_counted(&numbers(&delay, "to the driver"), &raw);
    let raw: Vec<f64> = rows.iter().filter_map(|row| ns(row.injected, row.delivered)).collect();
    assert_counted(&numbers(&delay, "to the application"), &raw);
    let intervals = numbers(&chart(run.path(), "intervals-injected"), "interval");
    assert_eq!(intervals.len(), 999);
    for (pair, (_, interval)) in rows.windows(2).zip(intervals) {
        assert!((interval - ns(pair[0].injected, pair[1].injected).unwrap()).abs() < 1e-3);
    }
    let fates = chart(run.path(), "fates");
    assert_eq!(
        fates.csv(),
        "series,fate,packets\npackets,no descriptor,100\npackets,delivered,900\n"
    );
    assert_eq!(fates.notes, Vec::<String>::new(), "samples and ledger agree");
}

#[test]
fn samples_that_contradict_the_ledger_are_noticed() {
    let runs = tempfile::tempdir().unwrap();
    let (run, _) = inject(runs.path(), 100);
    let path = run.path().join("samples.csv");
    let text = fs::read_to_string(&path).unwrap();
    let (cut, _) = text.trim_end().rsplit_once('\n').unwrap();
    fs::write(&path, cut).unwrap();
    assert!(chart(run.path(), "fates").notes[0].contains("contradict"));
}

#[test]
fn many_samples_are_thinned_and_it_says_so() {
    let runs = tempfile::tempdir().unwrap();
    let (run, rows) = inject(runs.path(), 30_000);
    let intervals = chart(run.path(), "intervals-injected");
    let points = numbers(&intervals, "interval");
    assert!(points.len() < 2_500, "{}", points.len());
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let raw = most(&mut rows.windows(2).filter_map(|pair| ns(pair[0].injected, pair[1].injected)));
    assert!((most(&mut points.iter().map(|(_, y)| *y)) - raw).abs() < 1e-3, "the longest is there");
    assert!(intervals.notes[0].contains("Of each 32 neighbours"), "{:?}", intervals.notes);
    assert!(charts_of(run.path()).iter().all(|chart| chart.svg().len() < 1_000_000));
}

#[test]
fn what_a_kernel_sent_is_drawn_by_sender_and_nothing_of_a_process_is() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::kernel_transmit(runs.path());
    let rows = fixtures::kernel_transmit_rows();
    let of = |sender: &str, key: &str, value: serde_json::Value| -> Points {
        let same = |row: &&serde_json::Map<String, serde_json::Value>| {
            row["sender"] == sender && row["completion"] == "napi" && row.get(key) == Some(&value)
        };
        let point = |row: &serde_json::Map<String, serde_json::Value>| {
            (row["size_bytes"].as_f64().unwrap(), row["bps"].as_f64().unwrap())
        };
        rows.iter().filter(same).map(point).collect()
    };
    for (name, series, points) in [
        ("kernel-pktgen", "burst 32, napi", of("pktgen", "burst", 32.into())),
        ("kernel-tcp", "no TSO, napi", of("tcp", "tso", false.into())),
        ("kernel-udp", "napi", of("udp", "buffers", "skb".into())),
    ] {
        assert_eq!(points.len(), 3);
        assert_eq!(numbers(&chart(run.path(), name), series), points);
    }
    let names: Vec<_> = charts_of(run.path()).into_iter().map(|chart| chart.name).collect();
    assert!(names.iter().all(|name| name.starts_with("kernel-")), "{names:?}");
}

#[test]
fn replacements_are_a_share_of_those_that_took_no_longer_and_one_is_shown_step_by_step() {
    let runs = tempfile::tempdir().unwrap();
    let run = fixtures::replace(runs.path());
    let result = warikomi_report::read::Run::load(run.path()).unwrap().result;
    let time = chart(run.path(), "time");
    let idle = numbers(&time, "shared-state, idle, planned, kept");
    let swap = |part: &str| result.rows.as_ref().unwrap()[0]["replace_us"][part].as_f64().unwrap();
    assert_eq!((idle.len(), idle[0].1, idle[199].1), (200, 1.0 / 200.0, 1.0));
    assert!(
        (idle[0].0 - 1e3 * swap("min")).abs() < 1e-6
            && (idle[199].0 - 1e3 * swap("max")).abs() < 1e-6
    );
    let marks: Vec<_> = time.marks.iter().map(|mark| mark.name.as_str()).collect();
    assert_eq!(marks, ["MINIX 3, published mean", "AnT, published mean"]);
    let steps = chart(run.path(), "steps-data-store-busy-planned-kept");
    assert_eq!(steps.y.names[0], "frame arrived", "frames are below");
    assert_eq!(
        steps.y.names[1..],
        ["served", "accepted", "awake", "handed over", "order seen", "request"]
    );
    let drawn = |name: &str| &steps.series.iter().find(|one| one.name == name).unwrap().points;
    assert_eq!(drawn("steps")[0], (0.0, 6.0));
    assert_eq!(drawn("steps")[5], (160_000.0, 1.0));
    // Half of the time between the first and the last step, and 20 µs, to either side.
    let frames = drawn("frames");
    assert!(frames.len() > 5 && frames.iter().all(|(at, _)| (-100_000.0..=260_000.0).contains(at)));
}
