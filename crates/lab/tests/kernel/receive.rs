//! From the wire to the application.

use std::time::Duration;

use warikomi_clock::Span;
use warikomi_inject::{Addresses, Arrival, FrameTemplate, Plan, Receiver, Warmup};
use warikomi_nic::RxOutcome;
use warikomi_protocol::answers::InterruptKind;
use warikomi_protocol::commands::Configure;
use warikomi_target::CardId;
use warikomi_testbench::skipped;

use crate::ask::counters;
use crate::bring::{at_least, options, plan, session, sink, started};
use crate::perfect::{injected, perfect};

#[test]
fn ten_thousand_packets_at_38_us_are_all_accepted_and_delivered_twenty_times() {
    let mut session = session("sink");
    // The ring lasts for 10 ms. A round in which a core of ours was taken away for that long says nothing.
    let mut repeated = Vec::new();
    for _ in 0..20 {
        let plan = plan(1500, Span::from_us(38), 10_000);
        let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
        let ledger = run.ledger.totals();
        assert_eq!((ledger.accepted, ledger.delivered), (10_000, 10_000));
        assert_eq!((ledger.unaccounted, ledger.lost, ledger.no_descriptor), (0, 0, 0));
        let interrupts = run.result.interrupts.as_ref().unwrap();
        assert!(interrupts.raised >= interrupts.handled && interrupts.handled > 0);
        let intervals = run.result.intervals.as_ref().unwrap();
        for place in [&intervals.injected, &intervals.raised, &intervals.handler] {
            assert!(place.is_some(), "intervals are measured at all three places");
        }
    }
    session.stop().unwrap();
}

#[test]
fn the_driver_alone_is_where_packets_for_no_protocol_end() {
    let mut session = session("sink");
    let alone = Plan { receiver: Receiver::Driver, ..plan(1500, Span::from_us(100), 2_000) };
    let Some(run) = perfect(&mut session, &alone, &mut vec![]) else { return };
    let ledger = run.ledger.totals();
    assert_eq!((ledger.accepted, ledger.unclaimed, ledger.delivered), (2_000, 2_000, 0));
    assert_eq!(run.result.success.unwrap().end_to_end, None);
    session.stop().unwrap();
}

#[test]
fn every_size_from_the_shortest_to_the_longest_frame_arrives() {
    let mut session = session("sink");
    for size in [60, 61, 1024, 1514, 1518, 4096, 9000, 16_000, 16_379] {
        let run = injected(&mut session, &plan(size, Span::from_us(100), 200));
        assert_eq!(run.ledger.totals().delivered, 200, "{size} bytes");
    }
    session.stop().unwrap();
}

#[test]
fn the_driver_uses_a_message_interrupt() {
    let mut session = session("sink");
    let counted = counters(&mut session);
    assert_ne!(counted.interrupt_kind, InterruptKind::Intx);
    assert_eq!(session.target.counters().intx_undeliverable, 0);
    session.stop().unwrap();
}

#[test]
fn a_driver_that_may_have_no_message_gets_its_interrupts_by_the_pin() {
    let mut options = options();
    if !options.bridge {
        // `trouble::a_driver_that_cannot_have_its_interrupt_is_an_error` is of that.
        return skipped("virt-pci has no INTx");
    }
    options.kernel_arguments = vec!["pci=nomsi".into()];
    let mut session = started(&options, sink());
    let counted = counters(&mut session);
    assert_eq!(counted.interrupt_kind, InterruptKind::Intx);
    let plan = plan(500, Span::from_us(100), 2_000);
    let Some(run) = perfect(&mut session, &plan, &mut vec![]) else { return };
    assert_eq!(run.ledger.totals().delivered, 2_000);
    assert_eq!(session.target.counters().intx_undeliverable, 0);
    session.stop().unwrap();
}

#[test]
fn several_packets_per_interrupt_raise_fewer_interrupts() {
    let mut session = session("sink");
    let mut each = plan(256, Span::from_us(200), 2_000);
    each.packets_per_interrupt = 10;
    let Some(run) = perfect(&mut session, &each, &mut vec![]) else { return };
    assert_eq!(run.ledger.totals().accepted, 2_000);
    assert!(run.result.interrupts.as_ref().unwrap().raised <= 250, "{:?}", run.result.interrupts);
    session.stop().unwrap();
}

#[test]
fn poisson_arrivals_and_a_slow_line_lose_nothing() {
    let mut session = session("sink");
    let poisson = Plan { arrival: Arrival::Poisson, ..plan(700, Span::from_us(60), 2_000) };
    let Some(run) = perfect(&mut session, &poisson, &mut vec![]) else { return };
    assert_eq!(run.ledger.totals().accepted, 2_000);
    let line = Plan { line_rate_bps: Some(100_000_000), ..plan(1500, Span::ZERO, 1_000) };
    let Some(run) = perfect(&mut session, &line, &mut vec![]) else { return };
    assert_eq!(run.ledger.totals().accepted, 1_000);
    let bps = run.result.throughput_bps.unwrap();
    assert!(bps < 100e6, "{bps} bit/s on a line of 100 Mbit/s");
    session.stop().unwrap();
}

#[test]
fn an_overrun_is_counted_to_the_packet_and_survived() {
    let mut session = session("sink");
    let flood = Plan { warmup: Warmup::NONE, ..plan(60, Span::ZERO, 200_000) };
    let ledger = injected(&mut session, &flood).ledger.totals();
    assert_eq!(ledger.planned, 200_000);
    assert!(ledger.no_descriptor > 0, "the ring has 256 descriptors: {ledger:?}");
    assert_eq!(ledger.no_descriptor + ledger.accepted + ledger.lost_on_ring, 200_000);
    let missed = counters(&mut session);
    assert!(missed.driver["rx_missed"] > 0, "the driver can read it too: {:?}", missed.driver);
    let after = injected(&mut session, &plan(60, Span::from_us(100), 500)).ledger.totals();
    assert_eq!(after.delivered, 500, "and goes on as before");
    session.stop().unwrap();
}

#[test]
fn frames_for_others_are_filtered_until_the_driver_asks_for_all() {
    let mut session = session("sink");
    let foreign = Addresses::to_guest([0x02, 9, 9, 9, 9, 9]);
    let mut template = FrameTemplate::new(&foreign, 100, 1).unwrap();
    let mut receive = |session: &mut warikomi_session::Session| {
        let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
        nic.receive(&mut host, template.frame(0))
    };
    assert_eq!(receive(&mut session), RxOutcome::Filtered);
    let all = Configure { promiscuous: Some(true), ..Configure::report_only() };
    assert!(session.target.ask(all, Duration::ZERO).unwrap().after.promiscuous);
    assert_eq!(receive(&mut session), RxOutcome::OnRing);
    let own = Configure { promiscuous: Some(false), ..Configure::report_only() };
    session.target.ask(own, Duration::ZERO).unwrap();
    assert_eq!(receive(&mut session), RxOutcome::Filtered);
    session.stop().unwrap();
}

#[test]
fn a_driver_waits_for_its_read_while_our_core_is_taken_from_us() {
    if !at_least(6, 12) {
        return skipped("a kernel before 6.12 gives up after 40 ms and cannot be told otherwise");
    }
    let mut session = session("sink");
    let mut template = FrameTemplate::new(&Addresses::to_guest([0xff; 6]), 100, 1).unwrap();
    for round in 0..4 {
        let (nic, mut host) = session.target.card(CardId::FIRST).unwrap();
        assert_eq!(nic.receive(&mut host, template.frame(round)), RxOutcome::OnRing);
        // The handler reads the status, and nobody answers.
        std::thread::sleep(Duration::from_millis(200));
        session.target.serve_for(Duration::from_millis(100)).unwrap();
    }
    let run = injected(&mut session, &plan(1500, Span::from_us(100), 200));
    let (ledger, counters) = (run.ledger.totals(), session.target.counters());
    let seen = format!("{ledger:?} {counters:?} {:?}", session.target.console());
    assert_eq!(ledger.delivered, 200, "reads are answered in order: {seen}");
    session.stop().unwrap();
}

#[test]
fn deferred_interrupts_are_few_and_the_result_says_so() {
    if !at_least(6, 2) {
        return skipped("an r8169 driver before 6.2 does not defer, and has no say in it");
    }
    let mut options = options();
    options.settings.napi_defer_hard_irqs = Some(100);
    options.settings.gro_flush_timeout_ns = Some(200_000);
    let mut session = started(&options, sink());
    let plan = plan(200, Span::from_us(20), 5_000);
    let Some(run) = perfect(&mut session, &plan, &mut vec![]) else { return };
    assert_eq!(run.ledger.totals().accepted, 5_000);
    let raised = run.result.interrupts.as_ref().unwrap().raised;
    assert!(raised < 1_000, "{raised} interrupts for 5,000 packets");
    assert_eq!(run.result.target.settings["napi_defer_hard_irqs"], 100);
    assert!(run.result.warnings.iter().any(|warning| warning.what.contains("napi_defer")));
    session.stop().unwrap();
}

#[test]
fn a_guest_with_much_memory_is_ready_in_time() {
    let mut options = options();
    options.memory_mb = 1024;
    let mut session = started(&options, sink());
    assert_eq!(
        injected(&mut session, &plan(60, Span::from_us(50), 100)).ledger.totals().delivered,
        100
    );
    session.stop().unwrap();
}
