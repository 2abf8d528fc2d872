//! Directories of runs in the forms that the experiments leave, with figures that are made up but
//! shaped like real ones.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};
use warikomi_measure::{Machine, Repeat, RunDirectory, RunResult, TimeBase, Warning, published};

/// A line of `cycles.csv`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cycle {
    pub(crate) size_bytes: usize,
    pub(crate) line_rate_bps: Option<f64>,
    pub(crate) phase: &'static str,
    pub(crate) interval_ns: f64,
    pub(crate) injected: u64,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
    pub(crate) driver_share: f64,
    pub(crate) end_to_end_share: f64,
    pub(crate) send_ns: f64,
    pub(crate) unaccounted: u64,
    pub(crate) stolen_percent: f64,
}

/// A line of `intervals.csv`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Interval {
    pub(crate) place: &'static str,
    pub(crate) index: u64,
    pub(crate) at_ns: f64,
    pub(crate) interval_ns: f64,
    pub(crate) error_ns: f64,
    pub(crate) in_hiccup: bool,
}

/// A line of `smallest.csv`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Kept {
    pub(crate) interval_ns: f64,
    pub(crate) kept_share: f64,
}

/// A line of `calls.csv`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Call {
    pub(crate) size_bytes: usize,
    pub(crate) call: u64,
    pub(crate) send_ns: f64,
}

/// Numbers of 0 to 1 without order, the same in every run (Knuth's constants).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A result with a machine and a target that do not exist.
pub(crate) fn result(experiment: &str) -> RunResult {
    let machine = Machine {
        cpu_model: Some("An invented processor at 3.00 GHz".to_owned()),
        logical_cores: Some(2),
        virtualised: Some(true),
        support_cores: vec![0],
        target_cores: vec![1],
        stolen_percent: Some(0.4),
        tsc_hz: Some(3e9),
        ..Machine::default()
    };
    let mut result = RunResult::new(experiment, TimeBase::Real, machine);
    result.target.driver = "r8169".to_owned();
    result.target.model = "rtl8168".to_owned();
    result.target.kind = "kernel".to_owned();
    result.target.kernel = Some("6.12.0".to_owned());
    result.warnings.push(Warning {
        what: "these figures are made up".to_owned(),
        hint: "run the experiment".to_owned(),
    });
    result
}

/// Writes a result as an experiment does: with what it says of itself.
pub(crate) fn keep(run: &RunDirectory, mut result: RunResult) {
    warikomi_lab::describe(&mut result);
    run.write_result(&result).unwrap();
}

fn row(value: Value) -> Map<String, Value> {
    value.as_object().expect("a row is an object").clone()
}

/// A length, its send time and its shortest interval without loss, in bytes and nanoseconds.
fn sizes() -> impl Iterator<Item = (usize, f64, f64)> {
    published::SIZES.into_iter().map(|(_, bytes)| {
        let send = 90.0 + 0.11 * bytes as f64;
        (bytes, send, 2.2 * send + 400.0)
    })
}

/// The cycles of a sweep.
pub(crate) fn cycles() -> Vec<Cycle> {
    let mut noise = Noise(7);
    let mut cycles = Vec::new();
    for (size_bytes, send_ns, free_ns) in sizes() {
        for step in 0..24u32 {
            let interval_ns = 0.25 * send_ns * 1.26f64.powi(step as i32) + 60.0;
            let full = (interval_ns / free_ns).min(1.0);
            let driver = if full < 1.0 { (full - 0.04 * noise.next()).max(0.02) } else { 1.0 };
            let dip = if step % 7 == 5 { 0.12 * noise.next() } else { 0.01 * noise.next() };
            let end_to_end =
                if interval_ns < 1.6 * free_ns { (0.82 * driver - dip).max(0.0) } else { 1.0 };
            let packets = |share: f64| (5_000.0 * share).round() as u64;
            let (accepted, delivered) = (packets(driver), packets(end_to_end));
            cycles.push(Cycle {
                size_bytes,
                line_rate_bps: None,
                phase: if step == 0 { "saturated" } else { "coarse" },
                interval_ns: if step == 0 { 0.0 } else { interval_ns },
                injected: 5_000,
                accepted,
                delivered,
                driver_share: accepted as f64 / 5_000.0,
                end_to_end_share: delivered as f64 / 5_000.0,
                send_ns,
                unaccounted: 0,
                stolen_percent: 0.0,
            });
        }
    }
    cycles
}

/// The rows of a sweep.
pub(crate) fn sweep_rows() -> Vec<Map<String, Value>> {
    let injection = published::injection();
    let mut rows: Vec<_> = sizes()
        .map(|(bytes, send, free)| {
            let bps = |ns: f64| bytes as f64 * 8.0 / ns * 1e9;
            row(json!({
                "size_bytes": bytes, "shortest_loss_free_ns": free, "loss_free_bps": bps(free),
                "end_to_end_loss_free_ns": 1.6 * free, "saturated_bps": bps(0.9 * free),
                "share_of_saturated": 0.9, "send_ns": send,
                "published_bps": injection.throughput_bps(bytes),
            }))
        })
        .collect();
    rows.push(row(json!({
        "size_bytes": 1_500, "line_rate_bps": 1e9, "shortest_loss_free_ns": 12_304.0,
        "loss_free_bps": 0.975e9, "published_bps": injection.real_nic_bps(1_500),
    })));
    rows
}

/// Five repetitions of each shortest interval; `slower` times as long as they would be.
pub(crate) fn sweep_repeats(seed: u64, slower: f64) -> Vec<Repeat> {
    let mut noise = Noise(seed);
    let mut repeats = Vec::new();
    for (bytes, _, free) in sizes() {
        for repeat in 1..=5 {
            let figure = "shortest_loss_free_ns".to_owned();
            let value = slower * free * (1.0 + 0.02 * noise.next());
            repeats.push(Repeat { figure, size_bytes: Some(bytes), repeat, value });
        }
    }
    repeats
}

/// The directory of a sweep.
pub(crate) fn sweep(runs: &Path, seed: u64, slower: f64) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_000, "sweep").unwrap();
    run.write_plan("sizes = [1024, 1500]\ncount = 5000\n").unwrap();
    run.write_table("cycles", cycles()).unwrap();
    run.write_table("repeats", sweep_repeats(seed, slower)).unwrap();
    let mut result = result("sweep");
    result.rows = Some(sweep_rows());
    for row in result.rows.iter_mut().flatten() {
        let free = row["shortest_loss_free_ns"].as_f64().unwrap_or_default();
        row.insert("shortest_loss_free_ns".to_owned(), json!(free * slower));
    }
    keep(&run, result);
    run
}

/// 1,000 intervals of 38 µs at each of three places.
pub(crate) fn intervals() -> Vec<Interval> {
    let mut noise = Noise(3);
    let mut intervals = Vec::new();
    for (place, spread) in [("injected", 30.0), ("raised", 120.0), ("handler", 900.0)] {
        for index in 0..1_000u64 {
            let in_hiccup = index % 97 == 50;
            let late = if in_hiccup { 12_000.0 * noise.next() } else { 0.0 };
            let error_ns =
                spread * (noise.next() - 0.5) * (1.0 + 8.0 * noise.next().powi(12)) + late;
            let interval_ns = 38_000.0 + error_ns;
            let at_ns = 38_000.0 * (index + 1) as f64;
            intervals.push(Interval { place, index, at_ns, interval_ns, error_ns, in_hiccup });
        }
    }
    intervals
}

/// How well short intervals were kept.
pub(crate) fn kept() -> Vec<Kept> {
    [50.0, 100.0, 200.0, 300.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0]
        .map(|interval_ns: f64| {
            let kept_share = 1.0 - (-interval_ns / 160.0f64).exp();
            Kept { interval_ns, kept_share }
        })
        .to_vec()
}

/// The directory of a run of `accuracy`.
pub(crate) fn accuracy(runs: &Path) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_000, "accuracy").unwrap();
    run.write_plan("interval_ns = 38000\ncount = 1000\n").unwrap();
    run.write_table("intervals", intervals()).unwrap();
    run.write_table("smallest", kept()).unwrap();
    let mut result = result("accuracy");
    let place = |place: &str, within: f64| {
        row(json!({
            "place": place, "count": 1_000, "exact_share": within / 2.0, "within_1_share": within,
            "within_6_25_share": 0.999, "worst_error_ns": 11_900.5, "worst_error_share": 0.3131,
            "drift_ns": -3.25, "quiet_count": 989, "quiet_within_1_share": within,
        }))
    };
    result.rows =
        Some(vec![place("injected", 0.99), place("raised", 0.97), place("handler", 0.61)]);
    result.figures = row(json!({
        "requested_ns": 38_000.0, "resolution_ns": 16.5, "smallest_interval_ns": 500.0,
    }));
    keep(&run, result);
    run
}

/// The calls of a run of `cost`.
pub(crate) fn calls() -> Vec<Call> {
    let mut noise = Noise(11);
    let mut calls = Vec::new();
    for (size_bytes, send, _) in sizes() {
        for call in 0..1_000 {
            let send_ns = send * (0.95 + 0.1 * noise.next() + noise.next().powi(30));
            calls.push(Call { size_bytes, call, send_ns });
        }
    }
    calls
}

/// The directory of a run of `cost`.
pub(crate) fn cost(runs: &Path) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_000, "cost").unwrap();
    run.write_table("calls", calls()).unwrap();
    let injection = published::injection();
    let mut result = result("cost");
    let rows = sizes().map(|(bytes, send, _)| {
        let breakdown = injection.receive_breakdown(bytes);
        let (copy, protocol) = (0.06 * bytes as f64 + 40.0, 900.0 + 0.01 * bytes as f64);
        row(json!({
            "size_bytes": bytes, "send_ns": send, "send_p50_ns": 0.99 * send,
            "send_p99_ns": 1.3 * send, "published_send_ns": injection.send_ns(bytes),
            "receive_ns": copy + 200.0, "copy_ns": copy, "rest_ns": 200.0,
            "path_copy_ns": copy, "path_protocol_ns": protocol,
            "published_copy_ns": breakdown.map(|b| b.copy_us * 1e3),
            "published_protocol_ns": breakdown.map(|b| b.protocol_us * 1e3),
        }))
    });
    result.rows = Some(rows.collect());
    result.figures = row(json!({
        "send_fixed_ns": 90.0, "send_ns_per_byte": 0.11, "send_r_squared": 0.9987,
    }));
    keep(&run, result);
    run
}

/// The rows of a run of `receive`: two ways to receive, of which one polls, and one that cannot be had.
pub(crate) fn receive_rows() -> Vec<Map<String, Value>> {
    let hybrid = published::hybrid_receive();
    let mut noise = Noise(13);
    let mut rows = Vec::new();
    let mut add = |strategy: &str, poll_us: Option<u64>, buffer_bytes: u64, burst_bytes: u64| {
        let cpu = 0.05 + burst_bytes as f64 / 2e5 + 0.1 * noise.next();
        let lost = if buffer_bytes == 7_000_000 { 0.001 * noise.next() } else { 0.0 };
        let p50 = 40.0 + 10.0 * noise.next();
        rows.push(row(json!({
            "strategy": strategy, "poll_us": poll_us, "buffer_bytes": buffer_bytes,
            "burst_bytes": burst_bytes, "cpu_share": cpu, "lost_share": lost,
            "delay_us": {"p50": p50, "p90": 2.0 * p50, "p99": 9.0 * p50, "max": 1e4},
            "interrupts": 12_000, "planned": 33_422, "delivered": 33_400, "lost": 22,
            "published_cpu_share": poll_us.and_then(|us| hybrid.cpu_share(us, burst_bytes)),
            "published_lost_share": poll_us.and_then(|us| hybrid.lost_share(us, buffer_bytes, burst_bytes)),
        })));
    };
    for (strategy, polls) in [("interrupt", &[None][..]), ("busy-poll", &[Some(100), Some(300)])] {
        for poll_us in polls {
            for buffer_bytes in [7_000_000, 15_000_000] {
                for burst_bytes in [1_000, 12_000, 50_000] {
                    add(strategy, *poll_us, buffer_bytes, burst_bytes);
                }
            }
        }
    }
    rows.push(row(json!({
        "strategy": "irq-suspend", "poll_us": 100, "buffer_bytes": 7_000_000,
        "burst_bytes": 50_000, "not_available": "the kernel <refuses>: Operation not supported",
    })));
    rows
}

/// The directory of a run of `receive`.
pub(crate) fn receive(runs: &Path) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_000, "receive").unwrap();
    let mut result = result("receive");
    result.rows = Some(receive_rows());
    keep(&run, result);
    run
}

/// The rows of a run of `transmit`: two kinds of buffers, four ways, three sizes and a mixture.
pub(crate) fn transmit_rows() -> Vec<Map<String, Value>> {
    let mut noise = Noise(17);
    let mut rows = Vec::new();
    for (size_bytes, mixture) in
        [(64, None), (4_096, None), (65_507, None), (533, Some("64x10,1472x5"))]
    {
        for buffers in ["mbuf-2k", "contiguous"] {
            for (completion, bounce) in [
                ("interrupt", "none"),
                ("interrupt-free", "none"),
                ("adaptive", "none"),
                ("adaptive", "auto"),
            ] {
                let dead_locked = size_bytes == 65_507 && completion == "interrupt-free";
                let bps = (!dead_locked).then(|| {
                    2.4e9 * size_bytes as f64 / (size_bytes as f64 + 900.0 + 400.0 * noise.next())
                });
                let mut one = row(json!({
                    "size_bytes": size_bytes, "buffers": buffers, "completion": completion,
                    "bounce": bounce, "bps": bps, "dead_locked": dead_locked,
                    "pps": bps.map(|bps| bps / 8.0 / size_bytes as f64), "cpu_share": noise.next(),
                }));
                if let Some(mixture) = mixture {
                    one.insert("mixture".to_owned(), json!(mixture));
                }
                rows.push(one);
            }
        }
    }
    rows
}

/// The directory of a run of `transmit`.
pub(crate) fn transmit(runs: &Path) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_000, "transmit").unwrap();
    let mut result = result("transmit");
    result.rows = Some(transmit_rows());
    result.figures = row(json!({"shares": [
        {"size_bytes": 4_096, "buffers": "mbuf-2k", "dma_gain_share": 0.06, "chain_share": 0.015},
        {"size_bytes": 65_507, "buffers": "mbuf-2k", "dma_gain_share": 0.15, "chain_share": 0.02},
    ]}));
    keep(&run, result);
    run
}

/// The rows of a run of `transmit` in a kernel: each sender with each of its ways, three sizes.
pub(crate) fn kernel_transmit_rows() -> Vec<Map<String, Value>> {
    let mut noise = Noise(19);
    let mut rows = Vec::new();
    for size_bytes in [64, 1_472, 65_507] {
        for completion in ["napi", "coalesce:100us/32"] {
            for way in [
                json!({"sender": "pktgen", "burst": 1}),
                json!({"sender": "pktgen", "burst": 32}),
                json!({"sender": "udp"}),
                json!({"sender": "tcp", "tso": true}),
                json!({"sender": "tcp", "tso": false}),
            ] {
                let mut one = row(json!({
                    "size_bytes": size_bytes, "buffers": "skb", "completion": completion,
                    "bounce": "none", "bps": 1e9 * (1.0 + noise.next()), "dead_locked": false,
                }));
                one.extend(row(way));
                rows.push(one);
            }
        }
    }
    rows
}

/// The directory of a run of `transmit` in a kernel.
pub(crate) fn kernel_transmit(runs: &Path) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_001, "transmit").unwrap();
    let mut result = result("transmit");
    result.rows = Some(kernel_transmit_rows());
    keep(&run, result);
    run
}

/// The directory of a run of `replace`: two ways under load, 200 replacements of each, one step by step.
pub(crate) fn replace(runs: &Path) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_000, "replace").unwrap();
    let mut noise = Noise(23);
    let (mut rows, mut lines, mut moments) = (Vec::new(), Vec::new(), Vec::new());
    for (way, load, base) in [
        ("shared-state", "idle", 14.0),
        ("shared-state", "busy", 18.0),
        ("data-store", "busy", 160.0),
    ] {
        let swaps: Vec<f64> =
            (0..200).map(|_| base * (0.8 + 0.5 * noise.next() + noise.next().powi(20))).collect();
        let spread = |scale: f64| {
            let mut sorted = swaps.clone();
            sorted.sort_by(f64::total_cmp);
            let mean = sorted.iter().sum::<f64>() / 200.0;
            json!({"min": scale * sorted[0], "mean": scale * mean, "p50": scale * sorted[100],
                "p99": scale * sorted[197], "max": scale * sorted[199]})
        };
        rows.push(row(json!({"way": way, "load": load, "kind": "planned", "spare": "kept",
            "replacements": 200, "resets": 0, "replace_us": spread(1.0), "swap_us": spread(0.9),
            "outage_us": spread(0.8), "send_us": spread(0.5), "send_with_us": spread(0.6), "longest_send_gap_us": 2.0 * base, "received": 400_000,
            "sent": 800_000, "lost": 0, "duplicated": 0, "reordered": 0, "no_descriptor": 0,
            "not_receiving": 0, "retransmitted": 0, "connections_lost": 0})));
        lines.extend(swaps.iter().map(|replace_us| Replacement {
            way,
            load,
            kind: "planned",
            spare: "kept",
            replace_us: *replace_us,
        }));
        let steps = [
            ("request", 0.0),
            ("order seen", 0.1),
            ("handed over", 0.3),
            ("awake", 0.5),
            ("accepted", 0.7),
            ("served", 1.0),
        ];
        let at = |(what, share): (&'static str, f64)| Moment {
            way,
            load,
            kind: "planned",
            spare: "kept",
            what,
            at_us: share * base,
        };
        moments.extend(steps.map(at));
        let frames = (-10..40).map(|n| at(("frame arrived", f64::from(n) * 0.2)));
        moments.extend(frames);
    }
    run.write_table("replacements", lines).unwrap();
    run.write_table("timeline", moments).unwrap();
    let mut result = result("replace");
    result.target.kind = "process".to_owned();
    result.rows = Some(rows);
    keep(&run, result);
    run
}

/// A line of `replacements.csv`, as far as it is drawn.
#[derive(Clone, Debug, Serialize)]
struct Replacement {
    way: &'static str,
    load: &'static str,
    kind: &'static str,
    spare: &'static str,
    replace_us: f64,
}

/// A line of `timeline.csv`.
#[derive(Clone, Debug, Serialize)]
struct Moment {
    way: &'static str,
    load: &'static str,
    kind: &'static str,
    spare: &'static str,
    what: &'static str,
    at_us: f64,
}

/// Lines of `figures.lines` of `explore`: text, and how many places, how many of them reached, how many bad.
const EXPLORED: [(u32, &str, Option<[u64; 3]>); 9] = [
    (4615, "static irqreturn_t rtl8169_interrupt(int irq, void *dev_instance)", Some([5, 5, 0])),
    (4616, "{", None),
    (4617, "\tstruct rtl8169_private *tp = dev_instance;", Some([1, 1, 0])),
    (4618, "\tu32 status = rtl_get_events(tp);", Some([8, 4, 0])),
    (4639, "\trtl_irq_disable(tp);", Some([4, 4, 0])),
    (4640, "\tnapi_schedule(&tp->napi);", Some([9, 8, 2])),
    (4641, "out:", None),
    (4642, "\trtl_ack_events(tp, status);", Some([6, 6, 6])),
    (4700, "\tif (status < 0 && status > \"<b>\")", Some([6, 0, 0])),
];

/// The directory of a run of `explore`: the lines of one file with text, and one without.
pub(crate) fn explore(runs: &Path) -> RunDirectory {
    let run = RunDirectory::create(runs, 1_800_000_000, "explore").unwrap();
    let mut result = result("explore");
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let line = |(number, text, counted): (u32, &str, Option<[u64; 3]>)| {
        let mut line = json!({"file": "realtek/r8169_main.c", "line": number, "text": text});
        if let Some([places, reached, bad]) = counted {
            let (class, value) = match (reached, bad) {
                (0, _) => ("unknown", 0.0),
                (_, 0) => ("good", share(reached, places)),
                _ => ("bad", share(bad, reached)),
            };
            let worst = if bad > 0 { "stuck" } else { "accounted" };
            line.as_object_mut().unwrap().extend(row(json!({"class": class, "value": value,
                "places": places, "reached": reached, "bad": bad,
                "worst": (reached > 0).then_some(worst)})));
        }
        line
    };
    let mut lines: Vec<Value> = EXPLORED.into_iter().map(line).collect();
    lines.push(json!({"file": "linux/netdevice.h", "line": 4, "class": "good", "value": 1.0,
        "places": 2, "reached": 2, "bad": 0, "worst": "accounted"}));
    result.figures.insert("lines".to_owned(), lines.into());
    let all = row(json!({"function": "rtl8169_interrupt", "places": 41, "reached": 30, "bad": 8}));
    result.rows = Some(vec![all]);
    keep(&run, result);
    run
}
