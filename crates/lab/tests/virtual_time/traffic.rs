//! Receiving and sending: what declared costs make of them, the same each time.

use warikomi_lab::Conclusion;
use warikomi_lab::receive::Receive;
use warikomi_lab::transmit::Transmit;
use warikomi_measure::TimeBase;

use crate::try_run;

fn received(flags: &[&str]) -> Conclusion {
    let usual = ["--strategies", "interrupt", "--buffers", "7MB", "--duration", "20ms"];
    let flags = [&usual[..], &["--calibration", "50ms", "--frame-cost", "8us"], flags].concat();
    let conclusion = try_run::<Receive>(&flags).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(conclusion.result.time_base, TimeBase::Virtual);
    conclusion
}

fn figure(conclusion: &Conclusion, name: &str) -> f64 {
    let rows = conclusion.result.rows.as_ref().unwrap();
    rows[0]
        .get(name)
        .and_then(serde_json::Value::as_f64)
        .unwrap_or_else(|| panic!("no {name}: {rows:?}"))
}

#[test]
fn what_receiving_takes_from_a_computing_program_is_what_was_declared() {
    let (first, again) = (received(&[]), received(&[]));
    assert_eq!(first.result.rows, again.result.rows);
    // Of 20 ms; besides, system calls that fail take 1 us, and the program loses at most a unit to each of ten bursts.
    let declared = figure(&first, "planned") * 8e-6 / 20e-3;
    let share = figure(&first, "cpu_share");
    assert!((declared..declared + 0.02).contains(&share), "{share}, declared were {declared}");
    assert_eq!(figure(&first, "lost_share"), 0.0);

    let faster = received(&["--cpu-speed", "2"]);
    let ratio = figure(&faster, "cpu_share") / share;
    assert!((0.45..0.65).contains(&ratio), "{ratio}");
}

#[test]
fn what_is_sent_goes_by_the_declared_costs() {
    let sent = |flags: &[&str]| {
        let usual = ["--target", "kernel", "--sizes", "1024", "--count", "500", "--repeat", "1"];
        let which = ["--senders", "udp", "--interrupts", "napi"];
        let flags = [&usual[..], &which, flags].concat();
        try_run::<Transmit>(&flags).unwrap_or_else(|error| panic!("{error}"))
    };
    let costs = ["--frame-cost", "2us", "--byte-cost", "1ns"];
    let (first, again) = (sent(&costs), sent(&costs));
    assert_eq!(first.result.rows, again.result.rows);
    // A datagram is 1,066 bytes of frame, and each is fetched once.
    let each_us = 1e6 / figure(&first, "pps");
    assert!((2.98..3.6).contains(&each_us), "{each_us} us");
    let without = sent(&["--frame-cost", "2us"]);
    let each_us = 1e6 / figure(&without, "pps");
    assert!((1.98..2.4).contains(&each_us), "{each_us} us");
}
