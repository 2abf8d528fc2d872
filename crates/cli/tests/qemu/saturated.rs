//! Frames a second through a card of ours and through QEMU's own, by the same driver in the same guest: the figures of
//! docs/vm.md. Both cards have the same cable, a pair of sockets whose other end is here.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warikomi_clock::TscClock;
use warikomi_inject::{Addresses, FrameTemplate, NETWORK_IP, UDP_PORT};
use warikomi_measure::{CpuTimes, median};
use warikomi_protocol::commands::{Counters, Transmit};
use warikomi_target::Target;
use warikomi_testbench::{cable_between, card};

use super::Running;
use super::guest::{Card, Common, Guest, Machine, PATIENCE};

/// Rounds, in each of which every card is brought up in turn.
const ROUNDS: usize = 5;
/// Frame lengths in bytes.
const SIZES: [usize; 2] = [64, 1_500];
/// Frames come for this long before they are counted, and while they are.
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(2);
/// Datagrams that the guest sends: some seconds of work.
const SENT: u64 = 20_000;
/// Of a datagram's frame, what is not its payload: Ethernet, IPv4, UDP.
const HEADERS_BYTES: usize = 14 + 20 + 8;

const COMPARED: [Common; 3] = [Common::E1000E, Common::IGB, Common::RTL8139CP];

/// Received and sent frames a second, of each length.
type Rates = [[f64; SIZES.len()]; 2];

/// Our end of the cable.
fn end_of_cable(ours: &Path) -> UnixDatagram {
    let cable = UnixDatagram::bind(ours).unwrap();
    // A sender and a receiver look often enough whether they are to end.
    let look = Some(Duration::from_millis(50));
    cable.set_read_timeout(look).unwrap();
    cable.set_write_timeout(look).unwrap();
    cable
}

/// Sends as fast as the card takes, until it is to end.
fn flood(cable: &UnixDatagram, mut template: FrameTemplate, end: &AtomicBool) {
    let mut sequence = 0;
    while !end.load(Ordering::Relaxed) {
        if cable.send(template.frame(sequence).bytes).is_ok() {
            sequence += 1;
        }
    }
}

/// Takes what comes, until it is to end.
fn drain(cable: &UnixDatagram, end: &AtomicBool) {
    let mut frame = [0; 2_048];
    while !end.load(Ordering::Relaxed) {
        let _ = cable.recv(&mut frame);
    }
}

/// Runs `with` while a thread does `beside`.
fn beside<R>(beside: impl Fn(&AtomicBool) + Sync, with: impl FnOnce() -> R) -> R {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| beside(&end));
        // A thread that goes on would hide a failure.
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _ends = Ends(&end);
        with()
    })
}

/// How many frames the guest's kernel has counted by this name, and when, by the processor's counter.
fn counted(guest: &mut Guest, name: &str) -> (u64, u64) {
    let counters = guest.ask(Counters { interface: None });
    (counters.interface[name], counters.tsc)
}

fn rates(guest: &mut Guest, cable: &UnixDatagram, mac: [u8; 6], ticks_per_second: f64) -> Rates {
    let pps = |from: (u64, u64), until: (u64, u64)| {
        (until.0 - from.0) as f64 * ticks_per_second / (until.1 - from.1) as f64
    };
    let received = SIZES.map(|size| {
        let template = FrameTemplate::new(&Addresses::to_guest(mac), size, 0).unwrap();
        // Its stack has nothing to do with them.
        let template = template.for_no_protocol();
        beside(
            |end| flood(cable, template.clone(), end),
            || {
                guest.serve_for(WARM_UP).unwrap();
                let from = counted(guest, "rx_packets");
                guest.serve_for(MEASURED).unwrap();
                pps(from, counted(guest, "rx_packets"))
            },
        )
    });
    let sent = SIZES.map(|size| {
        let datagrams = Transmit {
            count: SENT,
            payload_bytes: (size - HEADERS_BYTES) as u32,
            destination: format!("{NETWORK_IP}:{UDP_PORT}"),
            run_id: 0,
            interval_us: 0,
            vlan: None,
            timeout_ms: PATIENCE.as_millis() as u64,
        };
        beside(
            |end| drain(cable, end),
            || {
                let from = counted(guest, "tx_packets");
                assert_eq!(guest.ask(datagrams).sent, SENT);
                pps(from, counted(guest, "tx_packets"))
            },
        )
    });
    [received, sent]
}

/// One card in a guest that has just booted.
fn of_one(machine: &Machine, compared: &Common, ours: bool, ticks_per_second: f64) -> Rates {
    let Common { model, modules, device } = *compared;
    let mac = card(model).mac_address();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let [socket, its, here] = ["card", "its", "here"].map(path);
    let cable = end_of_cable(here.as_ref());
    let wire = format!("socket:{its},{here}");
    let serve = ["serve", "--model", model, "--wire", &wire];
    let serving = ours.then(|| Running::start(&serve, socket.as_ref()));
    let network = cable_between(&its, &here);
    let card = match ours {
        true => Card::Ours(socket.as_ref()),
        false => Card::Qemus { device, mac, network: &network },
    };
    let mut guest = machine.boot(card, modules, "");
    cable.connect(&its).unwrap();
    guest.bring_up(modules);
    let rates = rates(&mut guest, &cable, mac, ticks_per_second);
    guest.stop().unwrap();
    if let Some(serving) = serving {
        serving.interrupt();
    }
    rates
}

/// A line for each way and length: ours, QEMU's, and the ratio within a round, each the median of the rounds.
fn print(compared: &Common, rounds: &[[Rates; 2]]) {
    for (way, name) in ["receives", "sends"].into_iter().enumerate() {
        for (at, size) in SIZES.into_iter().enumerate() {
            let of = |figure: &dyn Fn(f64, f64) -> f64| {
                let figures =
                    rounds.iter().map(|[ours, qemus]| figure(ours[way][at], qemus[way][at]));
                figures.collect::<Vec<_>>()
            };
            let ratios = of(&|ours, qemus| ours / qemus);
            let (least, greatest) =
                ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), &ratio| {
                    (low.min(ratio), high.max(ratio))
                });
            println!(
                "{} {name} {size} bytes: ours {:.0}/s, QEMU's {:.0}/s, ratio {:.2} ({least:.2} to {greatest:.2})",
                compared.model,
                median(of(&|ours, _| ours)),
                median(of(&|_, qemus| qemus)),
                median(ratios),
            );
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn frames_a_second_through_our_card_and_qemus() {
    let Some(machine) = Machine::find() else { return };
    let ticks_per_second = TscClock::calibrate().unwrap().ticks_per_second();
    let before = CpuTimes::read(&[]).unwrap();
    for compared in &COMPARED {
        let round =
            |_| [true, false].map(|ours| of_one(&machine, compared, ours, ticks_per_second));
        print(compared, &(0..ROUNDS).map(round).collect::<Vec<_>>());
    }
    let stolen = CpuTimes::read(&[]).unwrap().stolen_percent_since(&before).unwrap();
    println!("stolen: {stolen:.2}%");
}
