//! Programs above a stack that send as well, with a host at the other end of the cable.

use std::sync::atomic::Ordering::Acquire;

use warikomi_clock::Span;
use warikomi_pci::attach::layout::{report, state};
use warikomi_process::programs;
use warikomi_protocol::answers::WorkTotals;
use warikomi_protocol::commands::{PingAgent, WorkDatagrams, WorkStart, WorkStatus, WorkStop};
use warikomi_shared::Words;
use warikomi_stack::Topology;
use warikomi_wire::{EchoPlan, Responder};

use super::parts::GUEST;
use super::strategies;
use super::world::World;

fn ready(world: &mut World) {
    world.serve_until("the driver to be ready", |world| {
        world.words.load(report::STATE, Acquire) == state::READY
    });
}

/// 300 sends, with datagrams beside them.
fn work() -> WorkStart {
    WorkStart {
        destination: format!("{}:{}", Responder::ADDRESS, Responder::TCP_PORT),
        sends: 300,
        // Several buffers each.
        send_bytes: 5_000,
        compute_us: 30,
        datagrams: Some(WorkDatagrams {
            destination: format!("{}:{}", Responder::ADDRESS, Responder::UDP_PORT),
            payload_bytes: 100,
            run_id: 3,
            interval_us: 50,
        }),
        timeout_ms: 60_000,
    }
}

/// Begins work that comes after other work, of which a buffer may still be on its way back.
fn begin_next(world: &mut World, command: WorkStart) {
    let begun = std::time::Instant::now();
    while let Err(refusal) = world.try_ask(command.clone()) {
        assert!(refusal.contains("still waits"), "{refusal}");
        assert!(begun.elapsed() < super::PATIENCE, "{refusal}");
    }
}

fn until_over(world: &mut World) -> WorkTotals {
    let begun = std::time::Instant::now();
    loop {
        let totals = world.ask(WorkStatus {});
        if totals.over {
            return totals;
        }
        assert!(begun.elapsed() < super::PATIENCE, "{totals:?}");
    }
}

#[test]
fn what_an_application_at_work_sends_reaches_the_other_host_twice_in_a_row() {
    for strategy in strategies() {
        let host = Responder::default();
        let responses = host.responses();
        let mut world = World::cabled(Topology::Stack, strategy, Box::new(host), "application");
        ready(&mut world);
        let mut datagrams = 0;
        for round in 1..=2 {
            world.ask(work());
            let totals = until_over(&mut world);
            assert_eq!(totals.failure, None);
            assert_eq!((totals.sends, totals.sent_bytes), (300, 1_500_000));
            assert_eq!(totals.send_times.len(), 300);
            assert!(totals.send_times.windows(2).all(|two| two[0].0 < two[1].0));
            assert!(totals.datagrams > 0 && totals.datagram_errors == 0, "{totals:?}");
            datagrams += totals.datagrams;
            world.serve_until("all of it", |_| {
                responses.tcp_bytes() == round * 1_500_000 && responses.udp_datagrams() == datagrams
            });
        }
        assert_eq!(responses.tcp_wrong_bytes(), 0);
    }
}

#[test]
fn work_is_stopped_and_work_that_nobody_takes_fails() {
    let mut world =
        World::cabled(Topology::Stack, strategies()[0], Box::<Responder>::default(), "application");
    ready(&mut world);
    world.ask(WorkStart { sends: 0, send_bytes: 1_024, ..work() });
    while world.ask(WorkStatus {}).sends < 20 {}
    let totals = world.ask(WorkStop {});
    assert!(totals.over && totals.failure.is_none() && totals.sends >= 20, "{totals:?}");
    assert_eq!(world.ask(WorkStop {}), totals);
    // Nobody listens there.
    let nobody = format!("{}:{}", Responder::ADDRESS, Responder::TCP_PORT + 1);
    begin_next(&mut world, WorkStart { destination: nobody, ..work() });
    let failure = until_over(&mut world).failure.unwrap();
    assert!(failure.contains("refused"), "{failure}");
}

#[test]
fn work_begun_while_the_last_ones_end_waits_for_a_buffer_has_a_connection_of_its_own() {
    let host = Responder::default();
    let responses = host.responses();
    let mut world = World::cabled(Topology::Stack, strategies()[0], Box::new(host), "application");
    ready(&mut world);
    // As many datagrams as there are buffers: none is left to say an end.
    let flood = WorkDatagrams { interval_us: 1, ..work().datagrams.unwrap() };
    for round in 1..=100 {
        let endless = WorkStart { sends: 0, send_bytes: 64, compute_us: 0, ..work() };
        world.ask(WorkStart { datagrams: Some(flood.clone()), ..endless });
        while world.ask(WorkStatus {}).sends < 3 {}
        world.ask(WorkStop {});
        let nobody = format!("{}:{}", Responder::ADDRESS, Responder::TCP_PORT + 1);
        begin_next(&mut world, WorkStart { destination: nobody, datagrams: None, ..work() });
        let totals = until_over(&mut world);
        let failure = totals.failure.unwrap_or_else(|| panic!("round {round}: not refused"));
        assert!(failure.contains("refused"), "{failure}");
    }
    assert_eq!(responses.tcp_wrong_bytes(), 0);
}

#[test]
fn an_echo_service_gives_everything_back_once_and_in_order() {
    for strategy in strategies() {
        let (host, echoes) = Responder::default().with_echo_client(EchoPlan {
            address: GUEST,
            port: programs::echo::PORT,
            interval: Span::from_us(100),
            block_bytes: 700,
        });
        let mut world = World::cabled(Topology::Stack, strategy, Box::new(host), "echo");
        ready(&mut world);
        // It answers when its socket is open: what comes before is for nobody.
        world.ask(PingAgent {});
        echoes.set_active(true);
        world.serve_until("echoes", |_| {
            echoes.tcp_back_bytes() > 1_000_000 && echoes.udp_back() > 1_000
        });
        echoes.set_active(false);
        // Datagrams are lost only where the NIC missed frames, because a busy machine did not let the driver
        // run for as long as its ring lasts.
        world.serve_until("the rest", |world| {
            echoes.tcp_back_bytes() == echoes.tcp_sent_bytes()
                && echoes.udp_sent() - echoes.udp_back() <= world.missed()
        });
        assert_eq!((echoes.tcp_connections(), echoes.tcp_lost()), (1, 0));
        assert_eq!((echoes.tcp_wrong_bytes(), echoes.udp_wrong()), (0, 0));
        assert!(echoes.udp_missing() <= world.missed(), "{echoes:?}");
        assert_eq!(echoes.udp_repeated(), 0);
        assert!(echoes.take_longest_round_trip() > Span::ZERO);
    }
}
