//! A card with two queues, two vectors and two BARs below a driver process: what is told apart.

use std::collections::BTreeSet;
use std::io::Cursor;

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::trace::{Event, Happening, Reader};
use warikomi_inject::{Fault, Plan};
use warikomi_lab::inject::{Application, inject};
use warikomi_lab::record::record;
use warikomi_lab::{ProcessSessionOptions, Session};
use warikomi_nic::wire::WireKind;
use warikomi_nic::{NicOptions, Reception};
use warikomi_pci::Interrupt;
use warikomi_testbench::cards::duo;

use crate::{options, plan, program, started};

fn session(strategy: Strategy) -> Session {
    started(&ProcessSessionOptions {
        driver: "duo".into(),
        program: program("driver duo"),
        nic: NicOptions::of("duo"),
        make_nic: duo::make,
        ..options(strategy)
    })
}

fn flows(count: u64) -> Plan {
    Plan { flows: 16, ..plan(200, Span::from_us(200), count) }
}

#[test]
fn two_queues_and_two_vectors_are_told_apart_in_result_and_trace() {
    let mut session = session(Strategy::Interrupt);
    let wire = "sink".parse::<WireKind>().unwrap();
    let recorded =
        record(&mut session, &flows(400), Application::default(), 1, &wire, &mut |_| ()).unwrap();
    let injected = recorded.injected;
    let totals = injected.ledger.totals();
    assert_eq!((totals.injected, totals.unaccounted, totals.lost), (400, 0, 0));
    assert_eq!(totals.accepted + totals.no_descriptor, 400);
    let interrupts = injected.result.interrupts.unwrap();
    assert_eq!(interrupts.vectors.len(), 2, "{interrupts:?}");
    assert!(interrupts.vectors.iter().all(|vector| vector.raised > 0 && vector.handled > 0));
    let raised: u64 = interrupts.vectors.iter().map(|vector| vector.raised).sum();
    assert_eq!(raised, interrupts.raised);
    let queues = injected.result.queues;
    assert_eq!(queues.len(), 2, "{queues:?}");

    let mut bytes = Vec::new();
    recorded.trace.write_to(&mut bytes).unwrap();
    let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
    let (mut data, mut seen) = (BTreeSet::new(), BTreeSet::new());
    while let Some(Event { what, .. }) = reader.next_event().unwrap() {
        match what {
            Happening::Interrupt(Interrupt::Msi(message)) => drop(data.insert(message.data)),
            Happening::Placed(Reception { queue, .. }) => drop(seen.insert(queue)),
            _ => {}
        }
    }
    assert_eq!((data, seen), (BTreeSet::from([0, 1]), BTreeSet::from([0, 1])));
    session.stop().unwrap();
}

#[test]
fn every_strategy_takes_every_packet_of_both_queues() {
    for strategy in Strategy::ALL {
        let mut session = session(strategy);
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
    let mut session = session(Strategy::Interrupt);
    let plan = Plan { faults, ..flows(1_000) };
    let run = inject(&mut session, &plan, Application::default(), 1, &mut |_| ()).unwrap();
    let totals = run.ledger.totals();
    assert_eq!((totals.injected, totals.unaccounted), (1_000, 0), "{totals:?}");
    assert!(totals.refused > 50, "{totals:?}");
    session.stop().unwrap();
}
