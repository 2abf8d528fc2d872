//! Everything at once that has ever lost a device: a bulk transfer, interrupts at moments of their own, an
//! application that polls, and a cable that is pulled.
//!
//! `WARIKOMI_STRESS_S` says for how many seconds; `WARIKOMI_TEST_SEED` repeats a run's noise.

use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warikomi_clock::{Span, Time};
use warikomi_inject::{Addresses, FaultSchedule, Faulty, FrameTemplate, UDP_PORT};
use warikomi_protocol::commands::{ReceiveStart, ReceiveStatus, ReceiveStop, TransmitTcp, Wait};
use warikomi_session::Session;
use warikomi_target::CardId;
use warikomi_wire::{Responder, Wire, WireCounters};

use crate::bring::{session_with, wait_until};

const TRANSFER_BYTES: u64 = 400_000_000;
const MEAN_GAP_US: u64 = 60;
/// How long a storm of interrupts is.
const STORM_S: usize = 20;

/// A wire at whose other end a station answers, and frames come at random besides.
struct Noise {
    wire: Responder,
    frames: FrameTemplate,
    random: ChaCha8Rng,
    next: Time,
    sequence: u64,
}

impl Wire for Noise {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.wire.transmit(now, frame);
    }

    fn next_arrival(&self) -> Time {
        self.wire.next_arrival().min(self.next)
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.next > now {
            return self.wire.receive(now);
        }
        let gap_us = u64::from(self.random.next_u32()) % (2 * MEAN_GAP_US);
        self.next = now + Span::from_us(gap_us);
        self.sequence += 1;
        Some(self.frames.frame(self.sequence).bytes.to_vec())
    }

    fn counters(&self) -> WireCounters {
        self.wire.counters()
    }
}

/// Interrupts without a reason, every 37 us, and the link down for 3 ms every 700 ms.
fn disturb(session: &mut Session, seconds: u64) {
    let flaps = (1..seconds * 10 / 7).map(|n| format!("link-flap:at={}ms,for=3ms", n * 700));
    // One storm has a million interrupts at most.
    let storms = (0..seconds).step_by(STORM_S).map(|from| {
        let count = (seconds - from).min(STORM_S as u64) * 1_000_000 / 37;
        format!("interrupt-storm:at={}ms,count={count},every=37us", from * 1_000 + 1)
    });
    let faults: Vec<_> = flaps.chain(storms).map(|fault| fault.parse().expect("a fault")).collect();
    let mut schedule = FaultSchedule::new(&faults, Default::default());
    schedule.start(session.target.clock().now());
    let slot = session.target.slot(CardId::FIRST).unwrap();
    slot.change(|nic| Box::new(Faulty::new(nic, schedule)));
}

fn stress(seconds: u64, seed: u64) {
    println!("WARIKOMI_TEST_SEED={seed} WARIKOMI_STRESS_S={seconds}");
    let responder = Responder::default();
    let responses = responder.responses();
    const RUN: u32 = 7;
    let mut session = session_with(Box::new(Noise {
        wire: responder,
        frames: FrameTemplate::new(&Addresses::to_guest([0xff; 6]), 200, RUN).unwrap(),
        random: ChaCha8Rng::seed_from_u64(seed),
        next: Time::ZERO,
        sequence: 0,
    }));
    let poll = ReceiveStart {
        wait: Wait { busy_poll_us: 50, ..Wait::default() },
        ..ReceiveStart::on_port(UDP_PORT, RUN)
    };
    session.target.agent().unwrap().set_polled(true);
    session.target.ask(poll, Duration::from_secs(5)).unwrap();
    disturb(&mut session, seconds);
    let (begun, mut all) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let send = TransmitTcp {
            count_bytes: TRANSFER_BYTES,
            write_bytes: 65_536,
            destination: "10.9.0.2:5001".into(),
            timeout_ms: 60_000,
        };
        let sent = session.target.ask(send, Duration::from_secs(70)).unwrap();
        all += sent.sent_bytes;
        assert_eq!(sent.sent_bytes, TRANSFER_BYTES, "after {:?}", begun.elapsed());
        let datagrams = session.target.ask(ReceiveStatus {}, Duration::ZERO).unwrap().datagrams;
        println!("{:>4} s: {all} bytes out, {datagrams} datagrams in", begun.elapsed().as_secs());
    }
    wait_until(&mut session, "all of it has arrived", |_| responses.tcp_bytes() >= all);
    assert_eq!((responses.tcp_bytes(), responses.tcp_wrong_bytes()), (all, 0));
    let received = session.target.ask(ReceiveStop {}, Duration::from_secs(5)).unwrap();
    assert!(received.datagrams > 1_000 * seconds, "{}", received.datagrams);
    let (nic, _) = session.target.card(CardId::FIRST).unwrap();
    let faults = Faulty::of(nic).unwrap().schedule().counts();
    faults.for_each(|(fault, count)| assert!(count.injected > 0, "{fault} has not struck"));
    let counters = session.target.counters();
    assert_eq!((counters.malformed, counters.corrupt_rings), (0, 0), "{counters:?}");
    assert_eq!(session.target.agent().unwrap().fault_marks().unwrap(), 0);
    session.stop().unwrap();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

#[test]
fn a_device_stands_everything_at_once() {
    stress(4, number("WARIKOMI_TEST_SEED").unwrap_or(1));
}

#[test]
#[ignore = "takes ten minutes"]
fn a_device_stands_everything_at_once_for_long() {
    let seconds = number("WARIKOMI_STRESS_S").unwrap_or(600);
    let of_the_day = || u64::from(std::process::id());
    stress(seconds, number("WARIKOMI_TEST_SEED").unwrap_or_else(of_the_day));
}
