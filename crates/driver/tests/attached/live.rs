//! Drivers that follow one another while packets come.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use warikomi_driver::run::store::Message;
use warikomi_driver::state::{Baton, How, Turn};
use warikomi_driver::strategy::Strategy;
use warikomi_pci::attach::area;
use warikomi_pci::attach::layout::{orders, report, state, times, way};
use warikomi_shared::{SharedWords, Words};

use super::support::Support;
use super::{Outcome, driver_of_version};

/// A support side and its drivers.
struct Line {
    support: Support,
    baton: Baton<SharedWords>,
    drivers: Vec<Option<JoinHandle<Outcome>>>,
}

impl Line {
    /// With one driver, that has been given the baton.
    fn new(strategy: Strategy, way: u64) -> Line {
        let support = Support::of(strategy, Some(way));
        let words = support.state.as_ref().unwrap().0.clone();
        let mut line = Line { support, baton: Baton::new(words), drivers: Vec::new() };
        line.prepare(area::VERSION, None);
        line.give(1, How::Start);
        line.wait(1, state::READY);
        line
    }

    /// Starts a driver more, until it is warm; its generation.
    fn prepare(&mut self, version: u64, store: Option<File>) -> u32 {
        let socket = self.support.seat(store);
        self.drivers.push(Some(driver_of_version(socket, version)));
        let generation = self.drivers.len() as u32;
        self.wait(generation, state::WARM);
        generation
    }

    fn give(&mut self, generation: u32, how: How) {
        self.baton.give(Turn { generation, how });
        self.support.state.as_ref().unwrap().0.wake(area::BATON);
    }

    fn word(&self, generation: u32, at: usize) -> u64 {
        self.support.seats[generation as usize - 1].words.load(at, Acquire)
    }

    /// Serves until a driver has reported so many packets.
    fn received(&mut self, generation: u32, packets: u64) {
        let words = self.support.seats[generation as usize - 1].words.clone();
        let what = format!("generation {generation} to report {packets} packets");
        self.support.serve_until(&what, |_| words.load(report::RX_PACKETS, Acquire) == packets);
    }

    /// Serves until the driver says that it is in that state.
    fn wait(&mut self, generation: u32, state: u64) {
        let words = self.support.seats[generation as usize - 1].words.clone();
        let what = format!("generation {generation} to be in state {state}");
        self.support.serve_until(&what, |_| words.load(report::STATE, Acquire) == state);
    }

    fn order(&mut self, to: u32) {
        let seat = self.support.served();
        seat.words.store(orders::HAND_OVER, to.into(), Release);
        seat.line.bell.ring();
    }

    /// Lets the served driver and a warm one know that the device goes from one to the other, and waits until both have
    /// heeded it.
    fn alert(&mut self, from: u32, to: u32) {
        for generation in [from, to] {
            let seat = &mut self.support.seats[generation as usize - 1];
            seat.words.store(orders::ALERT, to.into(), Release);
            seat.line.bell.ring();
        }
        let words = self.support.state.as_ref().unwrap().0.clone();
        words.wake(area::BATON);
        self.wait(to, state::ALERT);
        let recorded =
            |_: &mut Support| words.load(area::record::GENERATION, Acquire) == u64::from(from);
        self.support.serve_until("the record of a rehearsal", recorded);
    }

    /// Has the served driver replaced by a warm one.
    fn replace(&mut self, to: u32) {
        self.order(to);
        let baton = self.baton.clone();
        self.support.serve_until("the baton", |_| baton.turn().unwrap().generation == to);
        self.support.served = to as usize;
        self.wait(to, state::READY);
    }

    /// Ends a driver, and says what became of it.
    fn end(&mut self, generation: u32) -> Outcome {
        let words = self.support.seats[generation as usize - 1].words.clone();
        words.store(orders::STOP, 1, Release);
        self.support.seats[generation as usize - 1].line.bell.ring();
        self.support.state.as_ref().unwrap().0.wake(area::BATON);
        let driver = self.drivers[generation as usize - 1].take().unwrap();
        self.support.serve_until("a driver to end", |_| driver.is_finished());
        driver.join().unwrap()
    }
}

#[test]
fn ten_drivers_after_each_other_take_every_packet_once() {
    for strategy in [Strategy::Poll, Strategy::Interrupt, Strategy::Napi { budget: 64 }] {
        let mut line = Line::new(strategy, way::SHARED_STATE);
        for round in 0..9_u64 {
            line.support.inject(500);
            let from = line.support.served as u32;
            // Every other one is of a version that knows no counters.
            let to = line.prepare(if round % 4 == 1 { 1 } else { 2 }, None);
            line.replace(to);
            line.wait(from, state::HANDED_OVER);
            let [seen, given] = [times::ORDER_SEEN, times::HANDED_OVER]
                .map(|step| line.word(from, report::TIMES + step));
            let [awake, accepted, served] = [times::AWAKE, times::ACCEPTED, times::SERVED]
                .map(|step| line.word(to, report::TIMES + step));
            assert!(0 < seen && seen <= given, "{strategy}");
            assert!(awake > 0 && awake <= accepted && accepted <= served, "{strategy}");
            line.end(from).0.unwrap();
        }
        line.support.inject(500);
        let served = line.support.served as u32;
        let progress = line.support.progress();
        assert_eq!((progress.on_ring, progress.accepted), (5_000, 5_000), "{strategy}");
        let counted = line.support.state.as_ref().unwrap().0.load(area::ALONE_GIVEN, Acquire);
        assert_eq!(counted, 5_000, "{strategy}");
        let (ended, free) = line.end(served);
        ended.unwrap();
        assert_eq!(free, 64, "{strategy}: every buffer came back");
    }
}

#[test]
fn what_a_rehearsal_has_left_is_not_what_a_successor_goes_on_with() {
    for strategy in [Strategy::Poll, Strategy::Interrupt] {
        let mut line = Line::new(strategy, way::SHARED_STATE);
        let mut packets = 0;
        for from in 1..6 {
            line.support.inject(100);
            let to = line.prepare(area::VERSION, None);
            line.alert(from, to);
            // The record is out of date from here on.
            line.support.inject(70);
            line.replace(to);
            packets += 170;
            line.received(to, packets);
            line.end(from).0.unwrap();
        }
        let (ended, free) = line.end(6);
        ended.unwrap();
        assert_eq!(free, 64, "{strategy}: every buffer came back");
    }
}

#[test]
fn counters_go_from_driver_to_driver() {
    let mut line = Line::new(Strategy::Poll, way::SHARED_STATE);
    line.support.inject(300);
    let to = line.prepare(area::VERSION, None);
    line.replace(to);
    line.received(to, 300);
    assert_eq!(line.word(to, report::LINK_MBPS), 1_000);
    line.support.inject(200);
    let old = line.prepare(1, None);
    line.replace(old);
    // A driver of version 1 takes none over.
    assert!(line.word(old, report::RX_PACKETS) < 300);
    line.end(1).0.unwrap();
    line.end(2).0.unwrap();
    line.end(3).0.unwrap();
}

#[test]
fn a_driver_that_gets_the_device_back_goes_on_where_it_was() {
    for strategy in [Strategy::Poll, Strategy::Interrupt] {
        let mut line = Line::new(strategy, way::SHARED_STATE);
        for nobody in 90..95 {
            line.support.inject(300);
            // Nobody has that generation: as if it had died before it accepted.
            line.order(nobody);
            line.wait(1, state::HANDED_OVER);
            line.give(1, How::HandedOver);
            line.wait(1, state::READY);
            // The order stands as it was, and is not followed again.
        }
        line.support.inject(300);
        line.received(1, 1_800);
        let (ended, free) = line.end(1);
        ended.unwrap();
        assert_eq!(free, 64);
    }
}

#[test]
fn a_successor_refuses_what_makes_no_sense_and_the_old_one_goes_on() {
    let mut line = Line::new(Strategy::Poll, way::SHARED_STATE);
    line.support.inject(300);
    let to = line.prepare(area::VERSION, None);
    line.order(90);
    line.wait(1, state::HANDED_OVER);
    let words = line.support.state.as_ref().unwrap().0.clone();
    let good = words.swap(area::record::RX_INDEX, 7, Release);
    line.support.served = to as usize;
    line.give(to, How::HandedOver);
    line.wait(to, state::FAILED);
    let error = line.end(to).0.unwrap_err().to_string();
    assert!(error.contains("makes no sense") || error.contains("checksum"), "{error}");
    assert_eq!(line.baton.owner(), 1, "it was not accepted");
    words.store(area::record::RX_INDEX, good, Release);
    line.support.served = 1;
    line.give(1, How::HandedOver);
    line.wait(1, state::READY);
    line.support.inject(300);
    line.received(1, 600);
    line.end(1).0.unwrap();
}

#[test]
fn after_a_reset_a_driver_begins_anew() {
    let mut line = Line::new(Strategy::Napi { budget: 64 }, way::RELOAD);
    line.support.inject(300);
    // By this way nothing can be handed over.
    line.order(2);
    line.support.inject(300);
    line.end(1).0.unwrap();
    let to = line.prepare(area::VERSION, None);
    line.support.served = to as usize;
    line.give(to, How::Start);
    line.wait(to, state::READY);
    line.support.inject(300);
    line.received(to, 300);
    let other = line.prepare(area::VERSION, None);
    line.end(to).0.unwrap();
    line.support.served = other as usize;
    line.give(other, How::Died);
    line.wait(other, state::FAILED);
    let error = line.end(other).0.unwrap_err().to_string();
    assert!(error.contains("has to be reset"), "{error}");
}

/// A data store for two drivers, which forgets what it has if it is told to.
fn store() -> ([File; 2], JoinHandle<u64>) {
    let pair = || {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    };
    let ((a, b), (c, d)) = (pair(), pair());
    let thread = std::thread::spawn(move || {
        let (mut kept, mut puts, mut open) = (None, 0, vec![b, d]);
        while !open.is_empty() {
            open.retain(|socket: &OwnedFd| match Message::receive(socket) {
                Ok(Some(Message::Put { key, snapshot, .. })) => {
                    puts += 1;
                    let generation = snapshot.generation;
                    kept = Some(snapshot);
                    Message::Stored { key, generation }.send(socket).is_ok()
                }
                Ok(Some(Message::Get { key, .. })) => match kept.clone() {
                    Some(snapshot) => Message::Found { key, snapshot }.send(socket).is_ok(),
                    None => Message::Missing { key }.send(socket).is_ok(),
                },
                Ok(_) => true,
                Err(_) => false,
            });
            std::thread::yield_now();
        }
        puts
    });
    ([a.into(), c.into()], thread)
}

#[test]
fn what_a_driver_knows_goes_through_a_store() {
    let support = Support::of(Strategy::Poll, Some(way::DATA_STORE));
    let words = support.state.as_ref().unwrap().0.clone();
    let mut line = Line { support, baton: Baton::new(words.clone()), drivers: Vec::new() };
    let ([one, two], thread) = store();
    line.prepare(area::VERSION, Some(one));
    line.give(1, How::Start);
    line.wait(1, state::READY);
    line.support.inject(700);
    assert_eq!(words.load(area::header::MAGIC, Acquire), 0, "the shared area knows nothing");
    let to = line.prepare(area::VERSION, Some(two));
    line.replace(to);
    line.support.inject(700);
    line.received(to, 1_400);
    line.end(1).0.unwrap();
    let (ended, free) = line.end(to);
    ended.unwrap();
    assert_eq!((free, thread.join().unwrap()), (64, 1));
}

#[test]
fn without_its_store_a_driver_keeps_the_device() {
    let support = Support::of(Strategy::Poll, Some(way::DATA_STORE));
    let words = support.state.as_ref().unwrap().0.clone();
    let mut line = Line { support, baton: Baton::new(words), drivers: Vec::new() };
    let kind = SocketType::SEQPACKET;
    let (near, far) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    line.prepare(area::VERSION, Some(near.into()));
    line.give(1, How::Start);
    line.wait(1, state::READY);
    line.support.inject(100);
    drop(far);
    line.order(2);
    line.support.inject(100);
    assert_eq!(line.baton.turn().unwrap().generation, 1);
    line.received(1, 200);
    line.end(1).0.unwrap();
}
