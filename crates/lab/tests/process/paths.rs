//! Packets through a driver, and through what stands above it.

use warikomi_clock::Span;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Plan, Receiver};
use warikomi_lab::inject::{Application, inject};
use warikomi_stack::Topology;

use crate::{along, injected, perfect, plan, started};

const PATHS: [(Topology, usize); 4] = [
    (Topology::DriverAlone, 1),
    (Topology::Direct, 1),
    (Topology::Application, 2),
    (Topology::Stack, 3),
];

fn receiver_of(topology: Topology) -> Receiver {
    match topology {
        Topology::DriverAlone => Receiver::Driver,
        _ => Receiver::Application,
    }
}

#[test]
fn every_path_delivers_every_packet() {
    const COUNT: u64 = 3_000;
    let mut repeated = Vec::new();
    for (topology, processes) in PATHS {
        for strategy in Strategy::ALL {
            let mut session = started(&along(topology, strategy));
            let case = format!("{topology:?}, {strategy}");
            assert_eq!(session.target.process_ids().len(), processes, "{case}");
            let receiver = receiver_of(topology);
            assert_eq!(session.target.has_application(), receiver == Receiver::Application);
            let plan = Plan { receiver, ..plan(1_500, Span::from_us(50), COUNT) };
            println!("{case}");
            let Some(run) = perfect(&mut session, &plan, &mut repeated) else { return };
            let totals = run.ledger.totals();
            assert_eq!((totals.injected, totals.unaccounted), (COUNT, 0), "{case}");
            assert_eq!(totals.lost, 0, "{case}: what has a buffer arrives: {totals:?}");
            let arrived = match receiver {
                Receiver::Application => totals.delivered,
                Receiver::Driver => totals.accepted,
                Receiver::SecondCard => unreachable!("there is one card"),
            };
            assert_eq!((arrived, totals.no_descriptor), (COUNT, 0), "{case}: {totals:?}");
            session.stop().unwrap_or_else(|error| panic!("{case}: {error}"));
        }
    }
}

#[test]
fn a_path_that_is_saturated_has_an_account_of_every_packet() {
    const COUNT: u64 = 50_000;
    for (topology, _) in PATHS {
        let mut options = along(topology, Strategy::Interrupt);
        options.orders.buffers = 32;
        let mut session = started(&options);
        let receiver = receiver_of(topology);
        let plan = Plan { receiver, ..plan(1_500, Span::ZERO, COUNT) };
        for _ in 0..2 {
            let totals = injected(&mut session, &plan).ledger.totals();
            assert_eq!((totals.injected, totals.unaccounted), (COUNT, 0), "{topology:?}");
            assert_eq!(totals.accepted + totals.no_descriptor, COUNT, "{topology:?}: {totals:?}");
            assert!(totals.accepted > 0, "{topology:?}: {totals:?}");
        }
        session.stop().unwrap();
    }
}

#[test]
fn lengths_and_bursts_arrive_through_the_whole_path() {
    let strategy = Strategy::Hybrid { poll_time: Span::from_us(100) };
    let mut session = started(&along(Topology::Stack, strategy));
    for size in [64, 1_514, 9_000] {
        let receiver = Receiver::Application;
        let burst = Plan { packets_per_interrupt: 8, ..plan(size, Span::from_us(200), 1_000) };
        let totals = injected(&mut session, &Plan { receiver, ..burst }).ledger.totals();
        assert_eq!((totals.unaccounted, totals.lost), (0, 0), "{size} bytes: {totals:?}");
        assert_eq!(totals.delivered + totals.no_descriptor, 1_000, "{size} bytes: {totals:?}");
    }
    session.stop().unwrap();
}

#[test]
fn flows_on_a_card_with_one_queue_change_nothing_but_the_ports() {
    for (topology, _) in PATHS {
        let mut session = started(&along(topology, Strategy::Interrupt));
        let receiver = receiver_of(topology);
        let plan = Plan { receiver, flows: 16, ..plan(1_500, Span::from_us(50), 1_000) };
        let run = injected(&mut session, &plan);
        let totals = run.ledger.totals();
        assert_eq!((totals.unaccounted, totals.lost), (0, 0), "{topology:?}: {totals:?}");
        let arrived = match receiver {
            Receiver::Application => totals.delivered,
            Receiver::Driver => totals.accepted,
            Receiver::SecondCard => unreachable!("there is one card"),
        };
        assert_eq!(arrived + totals.no_descriptor, 1_000, "{topology:?}: {totals:?}");
        assert!(arrived > 0, "{topology:?}: {totals:?}");
        assert_eq!(run.result.queues, None, "one queue is the ledger itself");
        assert!(run.result.interrupts.unwrap().vectors.is_empty());
        session.stop().unwrap();
    }
}

#[test]
fn a_fault_on_a_vector_that_the_card_does_not_have_is_refused() {
    let mut session = started(&along(Topology::DriverAlone, Strategy::Interrupt));
    let faults = vec!["interrupt-spurious:at=1ms,vector=1".parse().unwrap()];
    let plan = Plan { faults, ..plan(1_500, Span::from_us(50), 10) };
    let refused = inject(&mut session, &plan, Application::default(), 1, &mut |_| ());
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("vector 1, and this NIC has vector 0 only"), "{error}");
    session.stop().unwrap();
}
