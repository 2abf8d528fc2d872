//! Two cards of different models in one guest: cabled to each other, each in a network namespace of its own; and joined
//! to a bond whose cables are pulled.

use std::time::Duration;

use warikomi_inject::{NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET};
use warikomi_nic::Link;
use warikomi_protocol::answers::{Pinged, Transmitted};
use warikomi_protocol::commands::{
    BondAdd, BondMode, LinkUp, NamespaceAdd, NamespaceEnter, NamespaceMove, Neighbour, Ping,
    RouteAdd, Transmit,
};
use warikomi_protocol::payload::Head;
use warikomi_target::CardId;
use warikomi_testbench::JudgingWire;
use warikomi_wire::Cable;

use crate::bring::{image_with_more_drivers, options_with};
use crate::guest::{Guest, nic};

const CARDS: [CardId; 2] = [CardId(0), CardId(1)];
const MODELS: [&str; 2] = ["rtl8168", "e1000e"];
const DRIVERS: [&str; 2] = ["r8169", "e1000e"];

fn up(guest: &mut Guest, interface: &str, address: &str) {
    let address_cidr = Some(address.to_owned());
    guest.ask(LinkUp { interface: Some(interface.into()), address_cidr, timeout_ms: 5_000 });
}

fn ping(guest: &mut Guest, address: &str) -> Pinged {
    guest.ask(Ping {
        address: address.into(),
        count: 20,
        interval_ms: 0,
        payload_bytes: 1_000,
        timeout_ms: 1_000,
    })
}

#[test]
fn cards_in_two_namespaces_reach_each_other_by_the_cable_between_them() {
    let Some(image) = image_with_more_drivers() else { return };
    let [left, right] = Cable::pair();
    let nics = vec![nic(MODELS[0], left), nic(MODELS[1], right)];
    let mut guest = Guest::start(options_with(&image), nics);
    let spaces = ["left", "right"];
    let mut interfaces = Vec::new();
    for (driver, card) in DRIVERS.into_iter().zip(CARDS) {
        guest.load(driver, &[]);
        interfaces.push(guest.interface_of(driver, card));
    }
    for (space, interface) in spaces.into_iter().zip(&interfaces) {
        guest.ask(NamespaceAdd { namespace: space.into() });
        guest.ask(NamespaceMove { interface: interface.clone(), namespace: space.into() });
    }
    let enter = |guest: &mut Guest, space: &str| {
        guest.ask(NamespaceEnter { namespace: Some(space.into()) });
    };
    for (space, address, interface) in
        [("left", "10.9.0.1/24", &interfaces[0]), ("right", "10.9.0.2/24", &interfaces[1])]
    {
        enter(&mut guest, space);
        // With both ends up there is a carrier; the cable is there from the beginning.
        up(&mut guest, interface, address);
    }
    // A network behind the right one, which only a route leads to.
    up(&mut guest, "lo", "10.9.3.1/24");
    let there = ping(&mut guest, "10.9.0.1");
    assert_eq!((there.received, there.corrupted), (20, 0));
    let received = guest.counter(&interfaces[1], "rx_packets");
    assert!(received >= 20, "the answers came over the cable: {received}");
    enter(&mut guest, "left");
    let hidden = guest.target.ask(
        LinkUp { interface: Some(interfaces[1].clone()), address_cidr: None, timeout_ms: 0 },
        Duration::ZERO,
    );
    assert!(hidden.is_err(), "each namespace has its own interface only");
    let back = ping(&mut guest, "10.9.0.2");
    assert_eq!((back.received, back.corrupted), (20, 0));
    let nowhere = Ping {
        address: "10.9.3.1".into(),
        count: 1,
        interval_ms: 0,
        payload_bytes: 56,
        timeout_ms: 50,
    };
    assert!(guest.target.ask(nowhere, Duration::ZERO).is_err(), "there is no route yet");
    let gateway = "10.9.0.2".into();
    guest.ask(RouteAdd { destination_cidr: "10.9.3.0/24".into(), gateway });
    assert_eq!(ping(&mut guest, "10.9.3.1").received, 20);
    guest.ask(NamespaceEnter { namespace: None });
    guest.stop();
}

/// A bond of both cards, and what is at the end of their cables.
struct Bond {
    guest: Guest,
    wires: [JudgingWire; 2],
    slaves: [String; 2],
}

/// Datagrams that are sent while a cable is pulled, one a millisecond.
const SENT: u64 = 1_000;
const BEFORE: usize = 100;
const RUN: u32 = 7;
/// The most that are lost between the pull of a driver's cable and the failover: the bond looks every 10 ms, and a machine
/// may pause. e1000e resets its card when it finds the link gone and packets queued (`e1000_watchdog_task`), sleeps for some
/// 90 ms meanwhile, and the bond waits for it, because both need RTNL.
const MOST_LOST: [u64; 2] = [100, 400];

impl Bond {
    fn start() -> Option<Bond> {
        let image = image_with_more_drivers()?;
        let wires = [JudgingWire::keeping(), JudgingWire::keeping()];
        let nics = MODELS.into_iter().zip(&wires).map(|(model, wire)| nic(model, wire.clone()));
        let mut guest = Guest::start(options_with(&image), nics.collect());
        let slaves = [0, 1].map(|at| {
            guest.load(DRIVERS[at], &[]);
            guest.interface_of(DRIVERS[at], CARDS[at])
        });
        guest.load("bonding", &["max_bonds=0"]);
        guest.ask(BondAdd {
            bond: "bond0".into(),
            mode: BondMode::ActiveBackup,
            slaves: slaves.to_vec(),
            miimon_ms: 10,
        });
        up(&mut guest, "bond0", "10.9.0.1/24");
        guest.ask(Neighbour::of(Some("bond0"), NETWORK_IP, NETWORK_MAC));
        let mut bond = Bond { guest, wires, slaves };
        bond.wait_for_carriers();
        Some(bond)
    }

    fn wait_for_carriers(&mut self) {
        for slave in self.slaves.clone() {
            let status = format!("/sys/class/net/{slave}/bonding_slave/mii_status");
            self.guest.wait_until("the bond sees a carrier", |guest| guest.read(&status) == "up");
        }
    }

    fn active(&mut self) -> usize {
        let active = self.guest.read("/sys/class/net/bond0/bonding/active_slave");
        self.slaves.iter().position(|slave| *slave == active).expect("one is active")
    }

    /// How often the bond has seen a slave lose its carrier.
    fn failures(&mut self, slave: usize) -> u64 {
        let status = self.guest.read("/proc/net/bonding/bond0");
        let section =
            status.split("Slave Interface: ").find(|part| part.starts_with(&self.slaves[slave]));
        let count = section.and_then(|part| part.split("Link Failure Count: ").nth(1));
        let count = count.and_then(|rest| rest.lines().next()?.trim().parse().ok());
        count.unwrap_or_else(|| panic!("no count in {status}"))
    }

    fn set_cable(&mut self, card: usize, link: Link) {
        let (nic, mut host) = self.guest.target.card(CARDS[card]).unwrap();
        nic.set_link(&mut host, link);
    }

    /// Numbers of the datagrams that have left by each cable since the last time.
    fn left(&self) -> [Vec<u64>; 2] {
        let head = |frame: Vec<u8>| Head::from_bytes(frame.get(PAYLOAD_OFFSET..)?);
        self.wires.each_ref().map(|wire| {
            let heads = wire.sent().into_iter().filter_map(head);
            heads.filter(|head| head.run_id == RUN).map(|head| head.sequence).collect()
        })
    }

    /// Sends, pulls the active cable meanwhile, and returns the numbers that left by each cable.
    fn send_and_pull(&mut self, active: usize) -> [Vec<u64>; 2] {
        let transmit = Transmit {
            count: SENT,
            payload_bytes: 100,
            destination: format!("{NETWORK_IP}:5001"),
            run_id: RUN,
            interval_us: 1_000,
            vlan: None,
            timeout_ms: 5_000,
        };
        let agent = self.guest.target.agent().expect("an agent");
        let request = agent.post(transmit.into()).expect("a request");
        let (mut left, mut pulled, mut answer) = ([Vec::new(), Vec::new()], false, None);
        self.left();
        for _ in 0..5_000 {
            self.guest.target.serve_for(Duration::from_millis(1)).unwrap();
            for (all, new) in left.iter_mut().zip(self.left()) {
                all.extend(new);
            }
            if !pulled && left[active].len() >= BEFORE {
                pulled = true;
                self.set_cable(active, Link::Down);
            }
            answer = self.guest.target.agent().and_then(|agent| agent.answer(request));
            if answer.is_some() {
                break;
            }
        }
        let answer = answer.expect("an answer in time").expect("the guest sends");
        let sent: Transmitted = serde_json::from_value(answer).unwrap();
        assert_eq!((sent.sent, sent.errors), (SENT, 0), "{sent:?}");
        self.guest.target.serve_for(Duration::from_millis(20)).unwrap();
        for (all, new) in left.iter_mut().zip(self.left()) {
            all.extend(new);
        }
        left
    }
}

#[test]
fn a_bond_fails_over_to_the_other_driver_and_back_and_loses_what_was_sent_meanwhile() {
    let Some(mut bond) = Bond::start() else { return };
    let first = bond.active();
    for active in [first, 1 - first] {
        assert_eq!(bond.active(), active);
        let failures = bond.failures(active);
        let left = bond.send_and_pull(active);
        assert_eq!(bond.active(), 1 - active, "it has failed over");
        // The pulled cable has carried the first ones, the other the last, and none is out of turn.
        let (old, new) = (&left[active], &left[1 - active]);
        let until = old.len() as u64;
        let from = *new.first().expect("the other one carries on");
        assert!(old.iter().copied().eq(0..until), "{old:?}");
        assert!(new.iter().copied().eq(from..SENT), "{new:?}");
        let lost = from.checked_sub(until).expect("none has left twice");
        // What was lost was sent between the pull and the bond's next look at carriers.
        let driver = DRIVERS[active];
        assert!(lost <= MOST_LOST[active], "{driver}: packets {until}..{from} were lost");
        assert_eq!(bond.failures(active), failures + 1, "the bond has counted it");
        bond.set_cable(active, Link::Up { mbps: 1_000 });
        bond.wait_for_carriers();
    }
    bond.guest.stop();
}
