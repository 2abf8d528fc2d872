use super::*;
use crate::terminal::{Style, page};
use proptest::prelude::*;
use serde_json::json;
use warikomi_clock::{Span, Time};
use warikomi_measure::{
    Evidence, FaultFinding, FaultReport, HiccupSummary, Hiccupping, Interrupts, IntervalRecorder,
    Machine, Pacing, Samples, Success, TargetInfo, Thresholds, TimeBase, Verdict, warnings,
};

fn stats(hiccup_at: Option<u64>) -> Option<IntervalStats> {
    let mut recorder = IntervalRecorder::new(Some(Span::from_us(38)));
    for k in 0..1_000u64 {
        let late = if hiccup_at == Some(k) { 38_000_000 } else { k % 7 * 10_000 };
        recorder.seen(Time::from_ps(k * 38_000_000 + late), hiccup_at == Some(k));
    }
    recorder.stats()
}

fn example() -> RunResult {
    let machine = Machine {
        logical_cores: Some(2),
        support_cores: vec![0],
        target_cores: vec![1],
        stolen_percent: Some(0.4),
        ..Machine::default()
    };
    let mut result = RunResult::new("inject", TimeBase::Real, machine);
    result.target = TargetInfo {
        kind: "kernel".into(),
        driver: "r8169".into(),
        model: "rtl8168".into(),
        kernel: Some("6.1.158".into()),
        ..TargetInfo::default()
    };
    let plan = json!({"size_bytes": 1_500, "interval_ns": 38_000, "count": 1_000,
                      "packets_per_interrupt": 1, "arrival": "constant"});
    result.plan = plan.as_object().unwrap().clone();
    result.ledger = Some(Totals {
        planned: 1_000,
        injected: 1_000,
        no_descriptor: 3,
        accepted: 997,
        delivered: 995,
        lost: 2,
        lost_in_stack: 2,
        ..Totals::default()
    });
    result.success = Success::of(result.ledger.as_ref().unwrap());
    result.intervals = Some(Intervals {
        requested_ns: Some(38_000.0),
        injected: stats(Some(500)),
        raised: stats(None),
        handler: stats(None),
    });
    let mut times = Samples::new();
    (0..1_000u64).for_each(|k| times.record(Span::from_ps(205_000 + k % 10 * 1_000)));
    result.inject_ns = times.summary();
    result.throughput_bps = Some(314.8e6);
    result.interrupts =
        Some(Interrupts { raised: 1_000, handled: 998, resignalled: 2, ..Interrupts::default() });
    result.pacing =
        Some(Pacing { missed_deadlines: 1, slack_ns: 1_000.0, longest_lateness_ns: 38_000.0 });
    let support = Some(HiccupSummary { count: 1, longest_ns: 37_950.0, ..Default::default() });
    result.hiccups = Some(Hiccupping { support, target: None });
    result.warnings = warnings(&result, &Thresholds::default());
    result
}

#[test]
fn the_page_of_a_known_result() {
    let page = page(&example(), Style::default());
    // `UPDATE_GOLDEN=1 cargo test -p warikomi-report` writes the page anew.
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/terminal/ledger/golden.txt");
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(page, include_str!("golden.txt"));
}

#[test]
fn queues_and_vectors_have_a_row_each() {
    let mut result = example();
    assert!(!page(&result, Style::default()).contains("Queue"));
    result.plan.insert("flows".into(), 16.into());
    let whole = result.ledger.unwrap();
    let second =
        Totals { planned: 400, injected: 400, accepted: 400, delivered: 400, ..Totals::default() };
    let first = Totals { planned: 600, injected: 600, accepted: 597, delivered: 595, ..whole };
    result.queues = Some(vec![first, second]);
    let vectors = vec![
        VectorInterrupts { vector: 0, raised: 600, handled: 600, unhandled: 0 },
        VectorInterrupts { vector: 1, raised: 400, handled: 398, unhandled: 2 },
    ];
    result.interrupts = Some(Interrupts { raised: 1_000, handled: 998, resignalled: 2, vectors });
    let page = page(&result, Style::default());
    assert!(page.contains("1,000 packets of 1,500 bytes of 16 flows"), "{page}");
    let row = |numbers: &[&str]| {
        let found = |line: &&str| line.split_whitespace().eq(numbers.iter().copied());
        assert!(page.lines().any(|line| found(&line)), "{numbers:?} in {page}");
    };
    row(&["Queue", "injected", "missed", "on", "ring", "accepted", "lost"]);
    row(&["0", "600", "3", "597", "597", "2"]);
    row(&["1", "400", "0", "400", "400", "0"]);
    row(&["Vector", "raised", "handled", "unhandled"]);
    row(&["1", "400", "398", "2"]);
}

fn with_faults() -> RunResult {
    let finding = FaultFinding {
        fault: "descriptor-never-completed:probability=0.001".into(),
        injected: 2,
        first_ns: Some(5e6),
        last_ns: Some(7e6),
        packets_after: Some(300),
        accepted_after: Some(12),
        verdict: Verdict::Oopsed,
    };
    let never = FaultFinding {
        fault: "dma-error:at=10000ms".into(),
        injected: 0,
        first_ns: None,
        last_ns: None,
        packets_after: None,
        accepted_after: None,
        verdict: Verdict::NotInjected,
    };
    let evidence = Evidence {
        probe_packets: 64,
        probe_accepted: 3,
        hit_packets: 2,
        lost_packets: 9,
        carrier: Some(false),
        tainted: true,
        ended: Some("the guest stopped answering".into()),
        console: vec!["[ 1.0] fine".into(), "[ 2.0] WARNING: CPU: 0".into(), "trace".into()],
        ..Evidence::default()
    };
    let mut result = example();
    let ledger = result.ledger.as_mut().unwrap();
    (ledger.refused, ledger.not_completed) = (1, 2);
    result.faults = Some(FaultReport { findings: vec![finding, never], evidence });
    result
}

#[test]
fn faults_come_with_the_verdict_and_what_it_stands_on() {
    let page = page(&with_faults(), Style::default());
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "12 of 300",
        "oopsed",
        "not injected",
        "3 of 64 packets",
        "hit 2, and 9 more",
        "link is down",
        "marked itself tainted",
        "run ended early: the guest stopped answering",
        "console: [ 2.0] WARNING",
        "refused by the driver 1",
        "never completed 2",
        "met no occasion",
    ] {
        assert!(flat.contains(said), "{said}: {page}");
    }
    assert!(!flat.contains("[ 1.0] fine"), "what matters first: {page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn it_fits_into_80_columns() {
    for line in page(&example(), Style::default()).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn what_was_not_measured_is_not_mentioned() {
    let result = RunResult::new("inject", TimeBase::Virtual, Machine::default());
    let page = page(&result, Style::default());
    assert!(!page.contains("Interval") && !page.contains("throughput"), "{page}");
}

proptest! {
    #[test]
    fn any_width_and_any_figures_make_a_page(width: u16, colour: bool, figure: f64, n: u64) {
        let mut result = example();
        result.throughput_bps = Some(figure);
        result.interrupts = Some(Interrupts { raised: n, handled: n, resignalled: n, ..Interrupts::default() });
        result.ledger.as_mut().unwrap().unaccounted = n;
        result.plan.insert("interval_ns".into(), json!(figure));
        let page = page(&result, Style { colour, width });
        prop_assert!(!page.is_empty());
    }
}
