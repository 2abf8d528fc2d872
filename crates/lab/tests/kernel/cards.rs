//! Several cards in one guest: each on a bus of its own, with a driver and interrupts of its own.

use std::net::Ipv4Addr;
use std::time::Duration;

use warikomi_inject::{Addresses, FrameTemplate};
use warikomi_nic::NicOptions;
use warikomi_protocol::commands::{Counters, LinkUp, Neighbour, WaitInterface, WriteFile};
use warikomi_target::kernel::Attachment;
use warikomi_target::{CardId, TargetError, wait};
use warikomi_testbench::JudgingWire;
use warikomi_testbench::cards::duo;

use crate::bring::{options, try_kernel};
use crate::guest::{Guest, nic};

const WITHIN: Duration = Duration::from_secs(5);
/// The first two cards, by their numbers.
const NICS: [CardId; 2] = [CardId(0), CardId(1)];
const DUO: CardId = CardId(2);
const FRAME_BYTES: usize = 200;

/// A kernel with two NICs that r8169 drives, and the test card.
struct Bench {
    guest: Guest,
    /// What the NICs are cabled to.
    wires: [JudgingWire; 2],
}

impl Bench {
    fn start() -> Bench {
        let wires = [JudgingWire::keeping(), JudgingWire::keeping()];
        let mut nics: Vec<_> = wires.iter().map(|wire| nic("rtl8168", wire.clone())).collect();
        nics.push(duo::make(&NicOptions::of("duo"), Box::new(JudgingWire::keeping())).unwrap());
        let mut guest = Guest::start(options(), nics);
        guest.load("r8169", &[]);
        guest.load("warikomi_vectors", &[]);
        guest.ask(WaitInterface::of("r8169", 5_000));
        guest.wait_until("the test card receives", |guest| {
            guest.target.card(DUO).unwrap().0.receiving()
        });
        let mut bench = Bench { guest, wires };
        for card in NICS {
            let up = LinkUp {
                interface: Some(interface(card)),
                address_cidr: Some(format!("{}/24", address(card, 1))),
                timeout_ms: 5_000,
            };
            bench.guest.ask(up);
        }
        // Interrupts of a link that has just come up are past.
        bench.guest.target.serve_for(Duration::from_millis(100)).unwrap();
        bench
    }

    /// Frames that have come, and interrupts that were handled.
    fn seen(&mut self, card: CardId) -> (u64, u64) {
        let counters = self.guest.ask(Counters { interface: Some(interface(card)) });
        let interrupts = counters.interrupts.iter().map(|line| line.count).sum();
        (counters.interface["rx_packets"], interrupts)
    }

    /// Frames for this card to that address, one every 200 µs.
    fn inject(&mut self, card: CardId, destination: Ipv4Addr, count: u64) {
        let mac = self.guest.target.card(card).unwrap().0.mac_address();
        let addresses = Addresses {
            source_ip: address(card, 2),
            destination_ip: destination,
            ..Addresses::to_guest(mac)
        };
        let mut frames = FrameTemplate::new(&addresses, FRAME_BYTES, 1).unwrap();
        for sequence in 0..count {
            let (nic, mut host) = self.guest.target.card(card).unwrap();
            assert!(nic.receive(&mut host, frames.frame(sequence)).outcome.is_on_ring());
            self.guest.target.serve_for(Duration::from_micros(200)).unwrap();
        }
    }
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
        let said = bench.guest.read(&format!("/sys/bus/pci/devices/0000:{bus:02x}:00.0/uevent"));
        assert!(said.contains(&format!("DRIVER={driver}")), "{said}");
    }
    for card in NICS {
        let said = bench.guest.read(&format!("/sys/class/net/{}/device/uevent", interface(card)));
        let place = format!("PCI_SLOT_NAME=0000:0{}:00.0", card.0 + 1);
        assert!(said.contains(&place), "{said}");
    }
    let counts = "/sys/bus/pci/devices/0000:03:00.0/counts";
    let of_the_duo = bench.guest.read(counts);
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
    assert_eq!(bench.guest.read(counts), of_the_duo);
    // Frames of several flows, for which the test card has no descriptors: each vector tells of it.
    duo::port_of(1, |frame| {
        let (nic, mut host) = bench.guest.target.card(DUO).unwrap();
        nic.receive(&mut host, frame).queue
    });
    bench.guest.wait_until("its handlers have run", |guest| guest.read(counts) != of_the_duo);
    bench.guest.stop();
}

#[test]
fn the_guest_routes_from_one_card_to_the_other() {
    let mut bench = Bench::start();
    let [here, there] = NICS;
    let forward = WriteFile { path: "/proc/sys/net/ipv4/ip_forward".into(), text: "1".into() };
    bench.guest.ask(forward);
    let mac = [2, 0, 0, 0, 0, 9];
    bench.guest.ask(Neighbour::of(Some(&interface(there)), address(there, 2), mac));
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
        let _ = wait::until(&mut *bench.guest.target, WITHIN, |_| {
            came.extend(forwarded(&bench.wires[1]));
            (came.len() >= sent).then_some(())
        })
        .unwrap();
        assert_eq!(came.len(), sent);
    }
    assert!(came.iter().all(|frame| frame[..6] == mac && frame[22] == 63), "one hop");
    assert_eq!(forwarded(&bench.wires[0]), [[0; 0]; 0], "nothing goes back");
    bench.guest.stop();
}

#[test]
fn virt_pci_takes_no_second_card() {
    let cards = [0, 1].map(|_| nic("rtl8168", JudgingWire::keeping()));
    let refused = try_kernel(Attachment::VirtPci, cards.into());
    assert!(matches!(refused, Err(TargetError::NoRoom { cards: 2 })));
}
