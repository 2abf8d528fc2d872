use warikomi_clock::Seed;
use warikomi_testbench::{Bench, MESSAGE, RTL8168, Signal, Subject};

use super::*;

const SENT: Signal = Signal { interrupt: Interrupt::Msi(MESSAGE), any_time: false };
const FORCED: Signal = Signal { interrupt: Interrupt::Msi(MESSAGE), any_time: true };

/// A faulty RTL8168 with nothing set up but its configuration space.
fn faulty(faults: &[&str]) -> Bench<Faulty> {
    let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let schedule = FaultSchedule::new(&faults, Seed(1));
    let card = |wire| Box::new(Faulty::new(Subject::of(RTL8168).build(wire), schedule));
    let mut bench = Bench::cabled(card).at(Time::from_ps(1_000_000)).enabled();
    let now = bench.now;
    bench.nic.schedule().start(now);
    bench
}

/// Lets the time pass, one poll a microsecond.
fn wait(bench: &mut Bench<Faulty>, us: u64) {
    (0..us).for_each(|_| bench.wait(Span::from_us(1)));
}

/// Makes the NIC raise its interrupt anew: unmasked, and asked for by software.
fn raise(bench: &mut Bench<Faulty>) {
    bench.write(0x3e, Width::B2, 0xffff);
    bench.write(0x3c, Width::B2, 0x0100);
    bench.write(0x38, Width::B1, 0x01);
}

fn receive(bench: &mut Bench<Faulty>) -> RxOutcome {
    bench.receive(&[0xff; 60])
}

#[test]
fn without_an_occasion_it_is_the_nic_in_it() {
    let mut bench = faulty(&["interrupt-dropped:at=1ms", "device-gone:at=1ms"]);
    raise(&mut bench);
    wait(&mut bench, 10);
    assert_eq!(bench.line.signals(), [SENT]);
    assert_eq!(bench.nic.config_read(0, Width::B4), 0x8168_10ec);
    assert!(Faulty::of(&mut *bench.nic).is_some());
}

#[test]
fn an_interrupt_is_dropped_once_and_the_next_goes_out() {
    let mut bench = faulty(&["interrupt-dropped:at=0"]);
    raise(&mut bench);
    assert!(bench.line.signals().is_empty());
    raise(&mut bench);
    assert_eq!(bench.line.signals(), [SENT]);
    assert_eq!(bench.nic.schedule().counts().next().unwrap().1.injected, 1);
}

#[test]
fn a_delayed_interrupt_comes_when_it_should() {
    let mut bench = faulty(&["interrupt-delayed:at=0,by=20us"]);
    raise(&mut bench);
    wait(&mut bench, 19);
    assert!(bench.line.signals().is_empty() && bench.nic.is_busy());
    wait(&mut bench, 1);
    assert_eq!(bench.line.signals(), [FORCED]);
    assert!(!bench.nic.is_busy());
}

#[test]
fn a_double_comes_at_once_and_a_storm_in_its_time() {
    let mut bench =
        faulty(&["interrupt-duplicated:at=0", "interrupt-storm:at=5us,count=3,every=10us"]);
    raise(&mut bench);
    assert_eq!(bench.line.signals(), [SENT, FORCED]);
    wait(&mut bench, 5);
    assert_eq!(bench.line.signals().len(), 3);
    wait(&mut bench, 19);
    assert_eq!(bench.line.signals().len(), 4);
    wait(&mut bench, 100);
    assert_eq!(bench.line.signals()[2..], [FORCED; 3]);
    assert!(!bench.nic.is_busy());
}

#[test]
fn nothing_is_sent_to_a_driver_that_has_not_asked_for_messages() {
    let mut bench = faulty(&["interrupt-spurious:at=0"]);
    bench.config(0x52, Width::B2, 0);
    wait(&mut bench, 5);
    assert!(bench.line.signals().is_empty());
    assert_eq!(bench.nic.schedule().counts().next().unwrap().1.injected, 0, "and it waits");
    bench.config(0x52, Width::B2, 1);
    wait(&mut bench, 5);
    assert_eq!(bench.line.signals(), [FORCED]);
}

#[test]
fn a_link_that_flaps_announces_work_twice() {
    let mut bench = faulty(&["link-flap:at=5us,for=20us"]);
    wait(&mut bench, 10);
    assert_eq!(bench.line.work_ahead(), 1);
    wait(&mut bench, 20);
    assert_eq!(bench.line.work_ahead(), 2);
    assert!(!bench.nic.is_busy());
}

#[test]
fn a_device_that_is_gone_reads_as_ones_and_does_nothing() {
    let mut bench = faulty(&["device-gone:at=3us", "interrupt-storm:at=0,count=100,every=1us"]);
    wait(&mut bench, 10);
    let sent = bench.line.signals().len();
    assert!(bench.nic.is_gone() && !bench.nic.is_busy() && sent < 10);
    assert_eq!(bench.nic.config_read(0, Width::B4), 0xffff_ffff);
    let status = bench.read(0x3e, Width::B2);
    assert_eq!(status, 0xffff);
    raise(&mut bench);
    wait(&mut bench, 100);
    assert_eq!(bench.line.signals().len(), sent);
    assert_eq!(receive(&mut bench), RxOutcome::NotReceiving);
    assert!(!bench.nic.receiving());
}

#[test]
fn a_card_that_was_pulled_out_comes_back_as_it_is_when_powered_on() {
    let mut bench = faulty(&["device-unplugged:at=3us,for=20us"]);
    raise(&mut bench);
    wait(&mut bench, 5);
    assert!(bench.nic.is_gone() && bench.nic.is_busy());
    assert_eq!(bench.nic.config_read(0, Width::B4), 0xffff_ffff);
    assert_eq!(receive(&mut bench), RxOutcome::NotReceiving);
    assert_eq!((bench.line.presence(), bench.nic.replugs()), (&[false][..], 0));
    assert_eq!(bench.nic.next_due(), Time::from_ps(1_000_000) + Span::from_us(23));
    wait(&mut bench, 20);
    assert!(!bench.nic.is_gone() && !bench.nic.is_busy());
    assert_eq!((bench.line.presence(), bench.nic.replugs()), (&[false, true][..], 1));
    assert_eq!(bench.nic.config_read(0, Width::B4), 0x8168_10ec);
    assert_eq!(bench.nic.config_read(4, Width::B2) & 7, 0, "nothing is enabled");
    assert!(!bench.nic.receiving());
}

#[test]
fn a_fault_that_finds_no_frame_to_hit_waits_for_one() {
    let mut bench = faulty(&["dma-error:at=0", "descriptor-crc:at=0"]);
    assert_eq!(receive(&mut bench), RxOutcome::NotReceiving);
    assert!(bench.nic.schedule().counts().all(|(_, count)| count.injected == 0));
}
