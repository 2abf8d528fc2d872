use super::*;
use crate::{
    HiccupSummary, Hiccupping, Interrupts, IntervalRecorder, IntervalStats, Intervals, Machine,
    Pacing, Totals,
};
use serde_json::json;
use warikomi_clock::{Span, Time};

fn good() -> RunResult {
    let machine = Machine {
        logical_cores: Some(4),
        support_cores: vec![2],
        target_cores: vec![3],
        governor: Some("performance".into()),
        stolen_percent: Some(0.0),
        ..Machine::default()
    };
    let mut result = RunResult::new("inject", TimeBase::Real, machine);
    let totals = Totals { planned: 9, injected: 9, accepted: 9, delivered: 9, ..Totals::default() };
    result.ledger = Some(totals);
    result.intervals = Some(Intervals { requested_ns: Some(38_000.0), ..Intervals::default() });
    result.pacing = Some(Pacing { slack_ns: 1_000.0, ..Pacing::default() });
    result.target.settings =
        json!({"gro": true, "napi_defer_hard_irqs": 0, "gro_flush_timeout_ns": "0"})
            .as_object()
            .unwrap()
            .clone();
    result
}

/// Two intervals of 38 us, of which the second may fall into a hiccup.
fn two_intervals(touched: bool) -> Option<IntervalStats> {
    let mut recorder = IntervalRecorder::new(Some(Span::from_us(38)));
    recorder.seen(Time::ZERO, false);
    recorder.seen(Time::from_ps(38_000_000), touched);
    recorder.stats()
}

/// What is said when `spoil` has happened to a result that there is nothing to say against.
fn said(spoil: impl FnOnce(&mut RunResult)) -> Vec<String> {
    let mut result = good();
    spoil(&mut result);
    let said = warnings(&result, &Thresholds::default());
    assert!(said.iter().all(|warning| !warning.hint.is_empty()), "each says what to do");
    said.into_iter().map(|warning| warning.what).collect()
}

fn only(spoil: impl FnOnce(&mut RunResult)) -> String {
    let said = said(spoil);
    assert_eq!(said.len(), 1, "{said:?}");
    said.into_iter().next().unwrap()
}

#[test]
fn there_is_nothing_to_say_against_a_good_result() {
    assert_eq!(said(|_| ()), Vec::<String>::new());
}

#[test]
fn each_fault_is_named() {
    let core = only(|result| result.machine.target_cores = vec![2]);
    assert!(core.contains("both sides run on core 2"));
    assert!(only(|r| r.machine.support_cores.clear()).contains("not pinned"));
    assert!(only(|r| r.machine.logical_cores = Some(1)).contains("only core"));
    assert!(only(|r| r.machine.stolen_percent = Some(0.5)).contains("0.50%"));
    assert!(only(|r| r.machine.governor = Some("ondemand".into())).contains("ondemand"));
    let missed = only(|r| r.pacing.as_mut().unwrap().missed_deadlines = 3);
    assert!(missed.contains("3 packets (33.33%) went out more than 1.0 µs late"), "{missed}");
    let deferred = only(|r| {
        r.target.settings.insert("napi_defer_hard_irqs".into(), json!(2));
    });
    assert!(deferred.starts_with("napi_defer_hard_irqs is on"));
}

#[test]
fn the_ledger_speaks_first() {
    let lost = |result: &mut RunResult| {
        let ledger = result.ledger.as_mut().unwrap();
        (ledger.delivered, ledger.lost, ledger.lost_in_stack) = (8, 1, 1);
    };
    assert!(only(lost).contains("did not keep up: 1 packet (11.11%)"));
    let cut = only(|result| {
        let ledger = result.ledger.as_mut().unwrap();
        (ledger.planned, ledger.not_injected) = (10, 1);
    });
    assert!(cut.contains("cut short"));
    let wrong = said(|result| {
        result.machine.stolen_percent = Some(3.0);
        let ledger = result.ledger.as_mut().unwrap();
        (ledger.unaccounted, ledger.contradictions.delivered_twice) = (2, 2);
    });
    assert!(wrong[0].contains("bug in Warikomi") && wrong[0].contains("delivered twice: 2"));
    assert_eq!(wrong.len(), 2);
}

#[test]
fn hiccups_that_touch_no_interval_are_not_mentioned() {
    let support = Some(HiccupSummary { count: 1, longest_ns: 5e3, ..HiccupSummary::default() });
    let with = |touched: bool| {
        said(|result| {
            let intervals = result.intervals.as_mut().unwrap();
            (intervals.injected, intervals.handler) =
                (two_intervals(touched), two_intervals(false));
            result.hiccups = Some(Hiccupping { support, target: None });
        })
    };
    assert_eq!(with(false), Vec::<String>::new());
    assert!(with(true)[0].contains("100.00% of the intervals"));
}

#[test]
fn a_result_without_intervals_at_the_handler_says_so_unless_the_driver_was_to_poll() {
    let spoil = |result: &mut RunResult, strategy: &str, raised, handled| {
        result.intervals.as_mut().unwrap().injected = two_intervals(false);
        result.interrupts = Some(Interrupts { raised, handled, ..Interrupts::default() });
        result.target.settings.insert("strategy".into(), json!(strategy));
    };
    let none = only(|result| spoil(result, "awake", 0, 0));
    assert_eq!(
        none,
        "there are no intervals at the handler: 0 interrupts raised, and 0 of them handled"
    );
    let unseen = only(|result| spoil(result, "interrupt", 7, 1));
    assert!(unseen.contains("7 interrupts raised, and 1 of them handled"), "{unseen}");
    let hint = |raised| {
        let mut result = good();
        spoil(&mut result, "poll", raised, 0);
        assert_eq!(warnings(&result, &Thresholds::default()), []);
        no_handler(&result).unwrap().hint
    };
    assert!(hint(1).contains("masked") && hint(2).contains("read the interrupt status"));
    let seen = said(|result| {
        spoil(result, "awake", 9, 9);
        result.intervals.as_mut().unwrap().handler = two_intervals(false);
    });
    assert_eq!(seen, Vec::<String>::new());
    let faulty = said(|result| {
        spoil(result, "awake", 0, 0);
        result.faults = Some(crate::FaultReport::default());
    });
    assert_eq!(faulty, Vec::<String>::new(), "what faults do is told with them");
}

#[test]
fn a_run_with_too_many_packets_says_that_times_are_missing() {
    let many = only(|result| {
        let n = crate::Ledger::DETAILED_ROWS + 1;
        let totals =
            Totals { planned: n, injected: n, accepted: n, delivered: n, ..Totals::default() };
        result.ledger = Some(totals);
    });
    assert!(many.contains("1000001 packets"));
}

#[test]
fn in_virtual_time_the_machine_does_not_matter() {
    let said = said(|result| {
        result.time_base = TimeBase::Virtual;
        result.machine = Machine { stolen_percent: Some(9.0), ..Machine::default() };
    });
    assert_eq!(said, Vec::<String>::new());
}
