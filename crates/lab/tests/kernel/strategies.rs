//! Ways to receive: each delivers, and its row adds up. Which is better is for the experiment to tell,
//! on a machine that has nothing else to do.

use serde_json::{Map, Value};
use warikomi_clock::Span;
use warikomi_lab::Watch;
use warikomi_lab::receive::kernel::{Options, Strategy, receive};
use warikomi_lab::receive::{Received, Traffic};

use crate::bring::{at_least, session};

const POLL_US: u32 = 100;

/// A short comparison of one way to receive, with a few dozen bursts.
fn options(strategy: Strategy) -> Options {
    Options {
        strategies: vec![strategy],
        polls_us: vec![POLL_US],
        buffers_bytes: vec![7_000_000],
        traffic: Traffic { loads: vec![0.1], duration: Span::from_ms(300), ..Traffic::default() },
        calibration: Span::from_ms(100),
        ..Options::default()
    }
}

fn received(strategy: Strategy) -> Received {
    let mut session = session("sink");
    let received = receive(&mut session, &options(strategy), &mut Watch::unobserved()).unwrap();
    let console = session.target.console().to_string();
    assert!(!console.contains("is not a head"), "the guest's queue broke: {console}");
    session.stop().unwrap();
    received
}

fn whole(row: &Map<String, Value>, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("no {name} in {row:?}"))
}

/// What holds of each way, however busy the machine is.
fn assert_sound(strategy: Strategy, received: &Received) -> Map<String, Value> {
    let rows = received.result.rows.as_ref().unwrap();
    assert_eq!(rows.len(), 1);
    let row = rows[0].clone();
    assert_eq!(row["strategy"], strategy.name());
    assert_eq!(row.get("poll_us").is_some(), strategy.polls());
    let (planned, delivered) = (whole(&row, "planned"), whole(&row, "delivered"));
    assert_eq!(planned, delivered + whole(&row, "lost"), "{row:?}");
    assert_eq!(planned % 34, 0, "50,000 bytes are 34 frames");
    assert!(delivered > planned / 2, "{row:?}");
    let cpu = row["cpu_share"].as_f64().unwrap();
    assert!((0.0..1.0).contains(&cpu), "{row:?}");
    assert!(whole(&row, "interrupts") > 0, "{row:?}");
    let delay = |part: &str| row["delay_us"][part].as_f64().unwrap();
    assert!(0.0 < delay("p50") && delay("p50") <= delay("p90"), "{row:?}");
    assert!(delay("p90") <= delay("p99") && delay("p99") <= delay("max"), "{row:?}");
    assert_eq!(received.bursts.len() as u64, planned / 34);
    let lost: u64 = received.bursts.iter().map(|burst| burst.lost).sum();
    assert_eq!(lost, whole(&row, "lost"));
    row
}

#[test]
fn asleep_until_an_interrupt() {
    let row = assert_sound(Strategy::Interrupt, &received(Strategy::Interrupt));
    assert!(!row.contains_key("polls_by"));
}

#[test]
fn polled_once_more_before_the_interrupt_is_enabled() {
    assert_sound(Strategy::NapiDefer, &received(Strategy::NapiDefer));
}

#[test]
fn polled_by_the_receiving_call() {
    let row = assert_sound(Strategy::BusyPoll, &received(Strategy::BusyPoll));
    assert_eq!(row["polls_by"], "socket");
    assert_eq!(row["published_cpu_share"], 0.25);
}

#[test]
fn polled_by_the_receiving_call_alone() {
    let row = assert_sound(Strategy::PreferBusyPoll, &received(Strategy::PreferBusyPoll));
    assert_eq!(row["polls_by"], "socket");
}

#[test]
fn polled_by_epoll() {
    let row = assert_sound(Strategy::EpollBusyPoll, &received(Strategy::EpollBusyPoll));
    // Since 6.9 an epoll instance has a setting of its own.
    assert_eq!(row["polls_by"], if at_least(6, 9) { "epoll" } else { "sysctl" });
}

#[test]
fn interrupts_are_suspended_where_the_kernel_can_and_otherwise_it_says_why() {
    let received = received(Strategy::IrqSuspend);
    if at_least(6, 13) {
        assert_sound(Strategy::IrqSuspend, &received);
        return;
    }
    let row = &received.result.rows.as_ref().unwrap()[0];
    let why = row["not_available"].as_str().unwrap();
    assert!(why.contains("netdev") && why.contains("os error"), "{why}");
    for figure in ["cpu_share", "lost_share", "delay_us", "interrupts", "planned"] {
        assert!(!row.contains_key(figure), "{figure} was never measured: {row:?}");
    }
}

#[test]
fn one_way_after_the_other_on_one_session_and_the_link_is_as_before() {
    let mut session = session("sink");
    let both = Options {
        strategies: vec![Strategy::EpollBusyPoll, Strategy::PreferBusyPoll, Strategy::Interrupt],
        ..options(Strategy::Interrupt)
    };
    let received = receive(&mut session, &both, &mut Watch::unobserved()).unwrap();
    let rows = received.result.rows.unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| whole(row, "delivered") > 0), "{rows:?}");
    session.stop().unwrap();
}
