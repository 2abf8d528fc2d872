//! The whole way, from a NIC's model through a driver process to an application that accounts for
//! what it gets, in each topology.
//!
//! The support side here is the least that can serve a driver; the real one is `warikomi-target`'s.

#[path = "../parts/mod.rs"]
mod parts;
mod traffic;
mod world;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

use warikomi_driver::strategy::Strategy;
use warikomi_pci::attach::layout::{orders, report, state};
use warikomi_process::programs;
use warikomi_protocol::commands::{ReceiveStart, ReceiveStatus, ReceiveStop};
use warikomi_shared::Words;
use warikomi_stack::Topology;

use parts::{PATIENCE, PORT};
use world::World;

const RUN: u32 = 7;

/// Not a test: what the re-executed binary runs.
#[test]
#[ignore = "another test starts it, in a process of its own"]
fn part() {
    parts::run_if_asked(&[
        ("application", programs::application::main),
        ("echo", programs::echo::main),
        ("stack", programs::stack::main),
        ("driver", || programs::driver::main("rtl8168")),
    ]);
}

fn every_datagram_arrives(topology: Topology, strategy: Strategy) {
    const PACKETS: u64 = 20_000;
    let mut world = World::start(topology, strategy);
    world.serve_until("the driver to be ready", |world| {
        world.words.load(report::STATE, Acquire) == state::READY
    });
    world.ask(ReceiveStart::on_port(PORT, RUN));
    world.inject(PACKETS);
    let begun = Instant::now();
    while world.ask(ReceiveStatus {}).delivered < PACKETS {
        assert!(begun.elapsed() < PATIENCE, "{:?}", world.ask(ReceiveStatus {}));
    }
    let totals = world.ask(ReceiveStop {});
    assert_eq!((totals.delivered, totals.datagrams), (PACKETS, PACKETS), "{totals:?}");
    assert_eq!((totals.duplicates, totals.out_of_order, totals.socket_drops), (0, 0, 0));
    world.words.store(orders::STOP, 1, Release);
    world.bell.ring();
    world.serve_until("the driver to stop", |world| {
        world.words.load(report::STATE, Acquire) == state::STOPPED
    });
    assert_eq!(world.words.load(report::RX_DROPPED, Acquire), 0);
    assert_eq!(world.words.load(report::RX_PACKETS, Acquire), PACKETS);
    let mut driver = world.children.0.pop().unwrap();
    assert!(driver.wait().unwrap().success());
}

fn strategies() -> [Strategy; 2] {
    ["interrupt", "hybrid"].map(|name| name.parse().unwrap())
}

#[test]
fn an_application_in_the_drivers_process_gets_every_datagram() {
    for strategy in strategies() {
        every_datagram_arrives(Topology::Direct, strategy);
    }
}

#[test]
fn an_application_above_the_driver_gets_every_datagram() {
    for strategy in strategies() {
        every_datagram_arrives(Topology::Application, strategy);
    }
}

#[test]
fn an_application_above_stack_and_driver_gets_every_datagram() {
    for strategy in strategies() {
        every_datagram_arrives(Topology::Stack, strategy);
    }
}

#[test]
fn a_driver_whose_application_was_killed_says_so_in_its_last_words() {
    for strategy in strategies() {
        let mut world = World::start(Topology::Application, strategy);
        world.serve_until("the driver to be ready", |world| {
            world.words.load(report::STATE, Acquire) == state::READY
        });
        world.children.0[0].kill().unwrap();
        let begun = Instant::now();
        while world.words.load(report::STATE, Acquire) != state::FAILED {
            world.poll();
            assert!(begun.elapsed() < PATIENCE, "the driver does not notice");
            std::thread::yield_now();
        }
        let bytes = world.words.load(report::LAST_WORDS_LEN, Acquire) as usize;
        let words = (0..bytes.div_ceil(8)).map(|at| report::LAST_WORDS + at);
        let text: Vec<u8> =
            words.flat_map(|at| world.words.load(at, Relaxed).to_le_bytes()).collect();
        let text = String::from_utf8_lossy(&text[..bytes]).into_owned();
        assert!(text.contains("the application is gone"), "{text}");
    }
}
