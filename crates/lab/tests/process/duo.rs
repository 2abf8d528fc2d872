//! A card with two queues, two vectors and two BARs below a driver process: what is told apart.

use std::collections::BTreeSet;

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Fault, Plan};
use warikomi_lab::inject::{Application, inject};
use warikomi_lab::record::record;
use warikomi_measure::Row;
use warikomi_nic::NicOptions;
use warikomi_pci::{Interrupt, Vector};
use warikomi_session::ProcessSessionOptions;
use warikomi_testbench::cards::duo;
use warikomi_trace::export::{Format, export};
use warikomi_trace::{EventKind, Reader};
use warikomi_wire::WireKind;

use crate::{injected, options, plan, program, started};

fn duo_options(strategy: Strategy) -> ProcessSessionOptions {
    ProcessSessionOptions {
        driver: "duo".into(),
        program: program("driver duo"),
        nic: NicOptions::of("duo"),
        make_nic: duo::make,
        ..options(strategy)
    }
}

#[test]
fn queues_and_vectors_of_a_run_are_told_apart() {
    const COUNT: u64 = 2_000;
    let mut session = started(&duo_options(Strategy::Interrupt));
    let plan = Plan { flows: 32, ..plan(1_500, Span::from_us(100), COUNT) };
    let run = injected(&mut session, &plan);
    let totals = run.ledger.totals();
    assert_eq!((totals.injected, totals.unaccounted, totals.lost), (COUNT, 0, 0), "{totals:?}");
    let queues = run.result.queues.as_deref().unwrap();
    assert_eq!(queues.len(), 2);
    assert!(queues.iter().all(|queue| queue.accepted > 0 && queue.adds_up()), "{queues:?}");
    assert_eq!(queues.iter().map(|queue| queue.accepted).sum::<u64>(), totals.accepted);
    // Packets of one flow go to one queue, and no two packets in a row are of one flow.
    let queue_of = |row: Row| row.queue.unwrap();
    let rows: Vec<_> = run.ledger.rows().map(queue_of).collect();
    assert!(rows.iter().zip(&rows[32..]).all(|(queue, again)| queue == again));
    let interrupts = run.result.interrupts.as_ref().unwrap();
    // It offers four messages, and sends two of them.
    assert_eq!(interrupts.vectors.iter().map(|of| of.vector).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let (vectors, others) = interrupts.vectors.split_at(2);
    assert!(others.iter().all(|of| of.raised == 0 && of.handled == 0), "{others:?}");
    assert!(vectors.iter().all(|of| of.raised > 0 && of.handled > 0), "{vectors:?}");
    assert!(vectors.iter().all(|of| of.raised == of.handled + of.unhandled), "{vectors:?}");
    assert_eq!(vectors.iter().map(|of| of.raised).sum::<u64>(), interrupts.raised);
    session.stop().unwrap();
}

#[test]
fn queues_and_vectors_are_in_a_trace_that_can_be_exported() {
    let mut session = started(&duo_options(Strategy::Interrupt));
    let plan = Plan { flows: 32, ..plan(1_500, Span::from_us(100), 500) };
    let recording =
        record(&mut session, &plan, Application::default(), 7, &WireKind::Sink, &mut |_| ());
    session.stop().unwrap();
    let mut trace = Vec::new();
    recording.unwrap().trace.write_to(&mut trace).unwrap();
    let (mut queues, mut vectors) = (BTreeSet::new(), BTreeSet::new());
    for event in Reader::new(&trace[..]).unwrap() {
        match event.unwrap().what {
            EventKind::Placed(reception) => drop(queues.insert(reception.queue)),
            EventKind::Interrupt(Interrupt::Msi(_), vector) => drop(vectors.insert(vector)),
            _ => {}
        }
    }
    assert_eq!(queues, BTreeSet::from([0, 1]));
    assert_eq!(vectors, BTreeSet::from([Some(Vector(0)), Some(Vector(1))]));
    let mut timeline = Vec::new();
    export(Reader::new(&trace[..]).unwrap(), Format::Perfetto, &mut timeline).unwrap();
    let timeline = String::from_utf8(timeline).unwrap();
    assert!(timeline.contains("interrupts of vector 1") && timeline.contains("\"queue\":1"));
}

fn flows(count: u64) -> Plan {
    Plan { flows: 16, ..plan(200, Span::from_us(200), count) }
}

#[test]
fn every_strategy_takes_every_packet_of_both_queues() {
    for strategy in Strategy::ALL {
        let mut session = started(&duo_options(strategy));
        let run =
            inject(&mut session, &flows(2_000), Application::default(), 1, &mut |_| ()).unwrap();
        let totals = run.ledger.totals();
        assert_eq!((totals.injected, totals.unaccounted, totals.lost), (2_000, 0, 0), "{strategy}");
        assert_eq!(totals.accepted + totals.no_descriptor, 2_000, "{strategy}");
        session.stop().unwrap();
    }
}

#[test]
fn faults_strike_a_card_of_several_queues_and_nothing_is_unaccounted() {
    let faults: Vec<Fault> = [
        "descriptor-crc:probability=0.15",
        "descriptor-completed-late:probability=0.05,by=50us",
        "interrupt-delayed:probability=0.1,by=20us",
        "interrupt-spurious:at=5ms,vector=1",
    ]
    .map(|fault| fault.parse().unwrap())
    .into();
    let mut session = started(&duo_options(Strategy::Interrupt));
    let plan = Plan { faults, ..flows(1_000) };
    let run = inject(&mut session, &plan, Application::default(), 1, &mut |_| ()).unwrap();
    let totals = run.ledger.totals();
    assert_eq!((totals.injected, totals.unaccounted), (1_000, 0), "{totals:?}");
    assert!(totals.refused > 50, "{totals:?}");
    session.stop().unwrap();
}
