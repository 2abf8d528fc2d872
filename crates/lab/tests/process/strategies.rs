//! `receive` on driver processes. What its figures are depends on the machine; that they are complete
//! and agree with each other does not.

use warikomi_clock::Span;
use warikomi_driver::strategy::{CpuBudget, Strategy};
use warikomi_inject::Receiver;
use warikomi_lab::Watch;
use warikomi_lab::receive::process::{BUFFER_BYTES, Options, receive};
use warikomi_lab::receive::{Received, Row, Traffic};
use warikomi_stack::Topology;
use warikomi_testbench::skipped;

use crate::{along, along_with, try_start};

fn traffic() -> Traffic {
    Traffic {
        bursts_bytes: vec![20_000],
        frame_bytes: 8_000,
        duration: Span::from_ms(100),
        ..Traffic::default()
    }
}

fn received(options: &Options, topology: Topology) -> Received {
    let mut bring_up = |orders: &_, _: &mut Watch| {
        let mut session = along(topology, Strategy::Poll);
        session.orders = *orders;
        Ok(try_start(&session)?)
    };
    let found = receive(options, &mut bring_up, &mut Watch::unobserved());
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// What holds for every row, whatever the machine was doing.
fn must_agree(number: usize, row: &Row, found: &Received) {
    let planned = row.planned.unwrap();
    assert!(planned > 0, "{row:?}");
    assert_eq!(row.delivered.unwrap() + row.lost.unwrap(), planned, "{row:?}");
    let parts = row.lost_no_descriptor.unwrap_or(0) + row.lost_in_stack.unwrap_or(0);
    assert!(parts <= row.lost.unwrap(), "{row:?}");
    let share = row.cpu_share.unwrap();
    assert!((0.0..=1.0).contains(&share), "{row:?}");
    let delay = row.delay_us.unwrap();
    assert!(delay.p50 > 0.0 && delay.max >= delay.p50, "{row:?}");
    assert!(row.polls.unwrap() > 0 && row.not_available.is_none(), "{row:?}");
    let bursts: Vec<_> = found.bursts.iter().filter(|burst| burst.row == number).collect();
    assert_eq!(bursts.iter().map(|burst| burst.lost).sum::<u64>(), row.lost.unwrap(), "{row:?}");
}

#[test]
fn every_strategy_has_a_row_with_all_its_figures() {
    let budget = CpuBudget::from_ppm(250_000);
    let options = Options {
        strategies: vec![
            Strategy::Interrupt,
            Strategy::Poll,
            Strategy::Napi { budget: 64 },
            Strategy::Hybrid { poll_time: Span::from_us(100) },
            Strategy::Auto { cpu_budget: budget },
        ],
        polls_us: vec![100, 300],
        buffers_bytes: vec![7_000_000],
        traffic: traffic(),
        ..Options::default()
    };
    let found = received(&options, Topology::DriverAlone);
    let names: Vec<_> = found.rows.iter().map(|row| (row.strategy.as_str(), row.poll_us)).collect();
    let expected = [
        ("interrupt", None),
        ("poll", None),
        ("napi", None),
        ("hybrid", Some(100)),
        ("hybrid", Some(300)),
        ("auto", None),
    ];
    assert_eq!(names, expected);
    assert_eq!(found.result.rows.as_ref().unwrap().len(), expected.len());
    assert_eq!(
        (found.result.experiment.as_str(), found.result.target.kind.as_str()),
        ("receive", "process")
    );
    for (number, row) in found.rows.iter().enumerate() {
        must_agree(number, row, &found);
        match row.strategy.as_str() {
            "poll" => assert_eq!((row.interrupts, row.sleeps), (Some(0), Some(0)), "{row:?}"),
            // At a load of a quarter it has nothing to do for longer than it polls.
            _ => assert!(row.interrupts > Some(0) && row.sleeps > Some(0), "{row:?}"),
        }
    }
}

#[test]
fn what_reaches_an_application_has_rows_too() {
    let options = Options {
        strategies: vec![Strategy::Hybrid { poll_time: Span::from_us(100) }],
        polls_us: vec![140],
        buffers_bytes: vec![10_000_000],
        traffic: traffic(),
        receiver: Receiver::Application,
        compute: false,
        ..Options::default()
    };
    for topology in [Topology::Direct, Topology::Application, Topology::Stack] {
        let found = received(&options, topology);
        assert_eq!(found.rows.len(), 1, "{topology:?}");
        must_agree(0, &found.rows[0], &found);
        assert_eq!(found.rows[0].poll_us, Some(140));
    }
}

#[test]
fn the_smallest_buffer_is_one_that_loses_nothing() {
    const MOST: u64 = 64;
    let options = Options {
        strategies: vec![Strategy::Poll],
        buffers_bytes: vec![16 * BUFFER_BYTES, MOST * BUFFER_BYTES],
        find_smallest_buffer: true,
        traffic: Traffic { duration: Span::from_ms(30), ..traffic() },
        compute: false,
        ..Options::default()
    };
    let found = received(&options, Topology::DriverAlone);
    let [row] = found.rows.as_slice() else { panic!("{:?}", found.rows) };
    must_agree(0, row, &found);
    let buffers = row.buffer_bytes / BUFFER_BYTES;
    assert_eq!(row.buffer_bytes % BUFFER_BYTES, 0);
    assert!((1..=MOST).contains(&buffers), "{row:?}");
    // A machine that is busy may need them all, and more.
    assert!(row.lost == Some(0) || buffers == MOST, "{row:?}");
}

#[test]
fn what_takes_the_core_away_has_it_and_a_small_buffer_loses_what_arrives_meanwhile() {
    let options = Options {
        strategies: vec![Strategy::Hybrid { poll_time: Span::from_us(100) }],
        polls_us: vec![100],
        buffers_bytes: vec![16 * BUFFER_BYTES],
        stall: Some("100ms:every=200ms".parse().unwrap()),
        traffic: Traffic { duration: Span::from_ms(400), ..traffic() },
        compute: false,
        ..Options::default()
    };
    let found = received(&options, Topology::DriverAlone);
    let [row] = found.rows.as_slice() else { panic!("{:?}", found.rows) };
    must_agree(0, row, &found);
    // Twice 100 ms, of which something else may take some again.
    let stalled_ms = row.stalled_ms.unwrap();
    assert!((20.0..=205.0).contains(&stalled_ms), "{row:?}");
    let by = row.stalled_by.as_deref().unwrap();
    if by == "equal priority" {
        return skipped("no priority may be had: what takes the core shares it");
    }
    // Some 300 packets arrive in 100 ms, and there are 16 buffers.
    assert!(row.lost > Some(50), "{row:?}");
    let losses = found.result.figures["losses"].as_array().unwrap();
    assert_eq!(losses[0]["losing"], 1, "{losses:?}");
}

#[test]
fn a_message_of_65_kb_is_one_packet_in_one_buffer_up_to_the_application() {
    let options = Options {
        strategies: vec![Strategy::Hybrid { poll_time: Span::from_us(100) }],
        polls_us: vec![100],
        buffers_bytes: vec![7_000_000],
        traffic: Traffic { bursts_bytes: vec![1_000, 65_000], ..traffic() },
        whole_messages: true,
        receiver: Receiver::Application,
        compute: false,
        ..Options::default()
    };
    for topology in [Topology::Direct, Topology::Application, Topology::Stack] {
        let mut bring_up = |orders: &_, _: &mut Watch| {
            let mut session = along_with(topology, "oc48");
            session.orders = *orders;
            Ok(try_start(&session)?)
        };
        let found = receive(&options, &mut bring_up, &mut Watch::unobserved());
        let found = found.unwrap_or_else(|error| panic!("{topology:?}: {error}"));
        let [short, long] = found.rows.as_slice() else { panic!("{:?}", found.rows) };
        for (number, row) in [short, long].into_iter().enumerate() {
            must_agree(number, row, &found);
            assert!(row.delivered > Some(0), "{topology:?}: {row:?}");
        }
        // A quarter of 100 MB/s for 100 ms in messages of 65,000 bytes.
        assert_eq!(long.planned, Some(38), "{topology:?}");
    }
}
