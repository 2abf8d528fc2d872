//! Several cards in one guest: each on a bus of its own, with a driver and interrupts of its own.

use std::net::Ipv4Addr;
use std::time::Duration;

use warikomi_inject::{Addresses, FrameTemplate};
use warikomi_nic::{Nic, NicOptions};
use warikomi_protocol::commands::{
    Counters, LinkUp, LoadDriver, Neighbour, ReadFile, WaitInterface, WriteFile,
};
use warikomi_target::kernel::Attachment;
use warikomi_target::{CardId, Target, TargetError, wait};
use warikomi_testbench::JudgingWire;
use warikomi_testbench::cards::duo;

use crate::bring::{by_the_bridge, try_kernel};

const WITHIN: Duration = Duration::from_secs(5);
/// The first two cards, by their numbers.
const NICS: [CardId; 2] = [CardId(0), CardId(1)];
const DUO: CardId = CardId(2);
const FRAME_BYTES: usize = 200;

/// A kernel with two NICs that r8169 drives, and the test card.
struct Bench {
    target: Box<dyn Target>,
    /// What the NICs are cabled to.
    wires: [JudgingWire; 2],
}

impl Bench {
    fn start() -> Bench {
        let wires = [JudgingWire::keeping(), JudgingWire::keeping()];
        let mut nics: Vec<_> = wires.iter().map(nic).collect();
        nics.push(duo::make(&NicOptions::of("duo"), Box::new(JudgingWire::keeping())).unwrap());
        let target = try_kernel(by_the_bridge(), nics).unwrap_or_else(|error| panic!("{error}"));
        let mut bench = Bench { target, wires };
        for name in ["r8169", "warikomi_vectors"] {
            let load = LoadDriver { name: name.into(), params: vec![] };
            bench.target.ask(load, WITHIN).unwrap_or_else(|error| panic!("{error}"));
        }
        let wait = WaitInterface::of("r8169", 5_000);
        bench.target.ask(wait, WITHIN).unwrap();
        bench.wait_until("the test card receives", |bench| bench.receives(DUO));
        for card in NICS {
            let up = LinkUp {
                interface: Some(interface(card)),
                address_cidr: Some(format!("{}/24", address(card, 1))),
                timeout_ms: 5_000,
            };
            bench.target.ask(up, WITHIN).unwrap_or_else(|error| panic!("{error}"));
        }
        // Interrupts of a link that has just come up are past.
        bench.target.serve_for(Duration::from_millis(100)).unwrap();
        bench
    }

    fn receives(&mut self, card: CardId) -> bool {
        self.target.card(card).unwrap().0.receiving()
    }

    fn read(&mut self, path: &str) -> String {
        let read = ReadFile { path: path.into() };
        let file = self.target.ask(read, Duration::ZERO).unwrap_or_else(|error| panic!("{error}"));
        file.text.trim().to_owned()
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, mut done: impl FnMut(&mut Bench) -> bool) {
        for _ in 0..500 {
            if done(self) {
                return;
            }
            self.target.serve_for(Duration::from_millis(10)).unwrap();
        }
        panic!("waited 5 s in vain until {what}; {}", self.target.console());
    }

    /// Frames that have come, and interrupts that were handled.
    fn seen(&mut self, card: CardId) -> (u64, u64) {
        let counters = Counters { interface: Some(interface(card)) };
        let counters = self.target.ask(counters, Duration::ZERO).unwrap();
        let interrupts = counters.interrupts.iter().map(|line| line.count).sum();
        (counters.interface["rx_packets"], interrupts)
    }

    /// Frames for this card to that address, one every 200 µs.
    fn inject(&mut self, card: CardId, destination: Ipv4Addr, count: u64) {
        let mac = self.target.card(card).unwrap().0.mac_address();
        let addresses = Addresses {
            source_ip: address(card, 2),
            destination_ip: destination,
            ..Addresses::to_guest(mac)
        };
        let mut frames = FrameTemplate::new(&addresses, FRAME_BYTES, 1).unwrap();
        for sequence in 0..count {
            let (nic, mut host) = self.target.card(card).unwrap();
            assert!(nic.receive(&mut host, frames.frame(sequence)).outcome.is_on_ring());
            self.target.serve_for(Duration::from_micros(200)).unwrap();
        }
    }

    fn stop(mut self) {
        let counters = self.target.counters();
        assert_eq!((counters.malformed, counters.corrupt_rings), (0, 0), "{counters:?}");
        let console = self.target.console().to_string();
        assert!(!console.contains("------------[ cut here ]"), "{console}");
        self.target.stop().unwrap();
    }
}

fn nic(wire: &JudgingWire) -> Box<dyn Nic> {
    warikomi_nic::build(&NicOptions::of("rtl8168"), Box::new(wire.clone())).unwrap()
}

/// The interface that the driver makes for it.
fn interface(card: CardId) -> String {
    format!("eth{card}")
}

/// A host of the network that the card is in.
fn address(card: CardId, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, card.0, host)
}

#[test]
fn each_card_has_a_bus_a_driver_and_interrupts_of_its_own() {
    let mut bench = Bench::start();
    for (card, driver) in [(0, "r8169"), (1, "r8169"), (2, "warikomi_vectors")] {
        let bus = card + 1;
        let said = bench.read(&format!("/sys/bus/pci/devices/0000:{bus:02x}:00.0/uevent"));
        assert!(said.contains(&format!("DRIVER={driver}")), "{said}");
    }
    for card in NICS {
        let said = bench.read(&format!("/sys/class/net/{}/device/uevent", interface(card)));
        let place = format!("PCI_SLOT_NAME=0000:0{}:00.0", card.0 + 1);
        assert!(said.contains(&place), "{said}");
    }
    let counts = "/sys/bus/pci/devices/0000:03:00.0/counts";
    let of_the_duo = bench.read(counts);
    for (card, other) in [(NICS[0], NICS[1]), (NICS[1], NICS[0])] {
        let before = [card, other].map(|card| bench.seen(card));
        bench.inject(card, address(card, 1), 100);
        let after = [card, other].map(|card| bench.seen(card));
        assert_eq!(after[0].0, before[0].0 + 100, "frames");
        let interrupts = after[0].1 - before[0].1;
        assert!(interrupts > 10, "{interrupts} interrupts for 100 frames");
        assert_eq!(after[1].0, before[1].0, "frames of the other one");
        // What it sends by itself may interrupt, too.
        let others = after[1].1 - before[1].1;
        assert!(others < 5, "{others} interrupts of the other one");
    }
    assert_eq!(bench.read(counts), of_the_duo);
    // Frames of several flows, for which the test card has no descriptors: each vector tells of it.
    duo::port_of(1, |frame| {
        let (nic, mut host) = bench.target.card(DUO).unwrap();
        nic.receive(&mut host, frame).queue
    });
    bench.wait_until("its handlers have run", |bench| bench.read(counts) != of_the_duo);
    bench.stop();
}

#[test]
fn the_guest_routes_from_one_card_to_the_other() {
    let mut bench = Bench::start();
    let [here, there] = NICS;
    let forward = WriteFile { path: "/proc/sys/net/ipv4/ip_forward".into(), text: "1".into() };
    bench.target.ask(forward, Duration::ZERO).unwrap();
    let mac = [2, 0, 0, 0, 0, 9];
    let neighbour = Neighbour {
        interface: Some(interface(there)),
        ip: address(there, 2).to_string(),
        mac: mac.map(|byte| format!("{byte:02x}")).join(":"),
    };
    bench.target.ask(neighbour, Duration::ZERO).unwrap();
    for wire in &bench.wires {
        wire.sent();
    }
    let forwarded = |wire: &JudgingWire| {
        wire.sent().into_iter().filter(|frame| frame.len() == FRAME_BYTES).collect::<Vec<_>>()
    };
    let mut came = Vec::new();
    // No more at a time than rings and queues hold, if the guest has no processor for a while.
    for sent in [50, 100, 150, 200] {
        bench.inject(here, address(there, 2), 50);
        let _ = wait::until(&mut *bench.target, WITHIN, |_| {
            came.extend(forwarded(&bench.wires[1]));
            (came.len() >= sent).then_some(())
        })
        .unwrap();
        assert_eq!(came.len(), sent);
    }
    assert!(came.iter().all(|frame| frame[..6] == mac && frame[22] == 63), "one hop");
    assert_eq!(forwarded(&bench.wires[0]), [[0; 0]; 0], "nothing goes back");
    bench.stop();
}

#[test]
fn virt_pci_takes_no_second_card() {
    let cards = [0, 1].map(|_| nic(&JudgingWire::keeping()));
    let refused = try_kernel(Attachment::VirtPci, cards.into());
    assert!(matches!(refused, Err(TargetError::NoRoom { cards: 2 })));
}
