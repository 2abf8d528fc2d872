use warikomi_clock::Seed;
use warikomi_nic::wire::CountedSink;
use warikomi_pci::SharedMemory;

use super::*;

/// Interrupts as they come out: at the NIC's own time, or at any.
#[derive(Default)]
struct Line(Vec<(bool, Interrupt)>);

impl IntrLine for Line {
    fn signal(&mut self, interrupt: Interrupt) {
        self.0.push((false, interrupt));
    }
    fn signal_any_time(&mut self, interrupt: Interrupt) {
        self.0.push((true, interrupt));
    }
}

const MESSAGE: MsiMessage = MsiMessage { address: 0xfee0_0000, data: 0x41 };
const SENT: (bool, Interrupt) = (false, Interrupt::Msi(MESSAGE));
const FORCED: (bool, Interrupt) = (true, Interrupt::Msi(MESSAGE));

/// A faulty RTL8168 with nothing set up but its configuration space.
struct Bench {
    nic: Faulty,
    memory: SharedMemory,
    line: Line,
    now: Time,
}

impl Bench {
    fn new(faults: &[&str]) -> Bench {
        let faults: Vec<_> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        let nic = warikomi_nic::build(
            &warikomi_nic::NicOptions::of("rtl8168"),
            Box::new(CountedSink::new()),
        )
        .unwrap();
        let mut bench = Bench {
            nic: Faulty::new(nic, FaultSchedule::new(&faults, Seed(1))),
            memory: SharedMemory::anonymous(0, 0x10000).unwrap(),
            line: Line::default(),
            now: Time::from_ps(1_000_000),
        };
        for (offset, width, value) in [
            (0x54, Width::B4, MESSAGE.address),
            (0x5c, Width::B2, u64::from(MESSAGE.data)),
            (0x52, Width::B2, 1),
            (0x04, Width::B2, 0x0406),
        ] {
            bench.host(|nic, host| nic.config_write(host, offset, width, value));
        }
        bench.nic.schedule().start(bench.now);
        bench
    }

    fn host<R>(&mut self, call: impl FnOnce(&mut Faulty, &mut Host<'_>) -> R) -> R {
        let mut host = Host { now: self.now, memory: &self.memory, interrupts: &mut self.line };
        call(&mut self.nic, &mut host)
    }

    /// Lets the time pass, one poll a microsecond.
    fn wait(&mut self, us: u64) {
        for _ in 0..us {
            self.now += Span::from_us(1);
            self.host(|nic, host| nic.poll(host));
        }
    }

    fn write(&mut self, offset: u64, width: Width, value: u64) {
        self.host(|nic, host| nic.bar_write(host, 2, offset, width, value));
    }

    /// Makes the NIC raise its interrupt anew: unmasked, and asked for by software.
    fn raise(&mut self) {
        self.write(0x3e, Width::B2, 0xffff);
        self.write(0x3c, Width::B2, 0x0100);
        self.write(0x38, Width::B1, 0x01);
    }

    fn receive(&mut self) -> RxOutcome {
        self.host(|nic, host| nic.receive(host, Frame::new(&[0xff; 60]))).outcome
    }
}

#[test]
fn without_an_occasion_it_is_the_nic_in_it() {
    let mut bench = Bench::new(&["interrupt-dropped:at=1ms", "device-gone:at=1ms"]);
    bench.raise();
    bench.wait(10);
    assert_eq!(bench.line.0, [SENT]);
    assert_eq!(bench.nic.config_read(0, Width::B4), 0x8168_10ec);
    assert!(Faulty::of(&mut bench.nic).is_some());
}

#[test]
fn an_interrupt_is_dropped_once_and_the_next_goes_out() {
    let mut bench = Bench::new(&["interrupt-dropped:at=0"]);
    bench.raise();
    assert!(bench.line.0.is_empty());
    bench.raise();
    assert_eq!(bench.line.0, [SENT]);
    assert_eq!(bench.nic.schedule().counts().next().unwrap().1.injected, 1);
}

#[test]
fn a_delayed_interrupt_comes_when_it_should() {
    let mut bench = Bench::new(&["interrupt-delayed:at=0,by=20us"]);
    bench.raise();
    bench.wait(19);
    assert!(bench.line.0.is_empty() && bench.nic.is_busy());
    bench.wait(1);
    assert_eq!(bench.line.0, [FORCED]);
    assert!(!bench.nic.is_busy());
}

#[test]
fn a_double_comes_at_once_and_a_storm_in_its_time() {
    let mut bench =
        Bench::new(&["interrupt-duplicated:at=0", "interrupt-storm:at=5us,count=3,every=10us"]);
    bench.raise();
    assert_eq!(bench.line.0, [SENT, FORCED]);
    bench.wait(5);
    assert_eq!(bench.line.0.len(), 3);
    bench.wait(19);
    assert_eq!(bench.line.0.len(), 4);
    bench.wait(100);
    assert_eq!(bench.line.0[2..], [FORCED; 3]);
    assert!(!bench.nic.is_busy());
}

#[test]
fn nothing_is_sent_to_a_driver_that_has_not_asked_for_messages() {
    let mut bench = Bench::new(&["interrupt-spurious:at=0"]);
    bench.host(|nic, host| nic.config_write(host, 0x52, Width::B2, 0));
    bench.wait(5);
    assert!(bench.line.0.is_empty());
    assert_eq!(bench.nic.schedule().counts().next().unwrap().1.injected, 0, "and it waits");
    bench.host(|nic, host| nic.config_write(host, 0x52, Width::B2, 1));
    bench.wait(5);
    assert_eq!(bench.line.0, [FORCED]);
}

#[test]
fn a_device_that_is_gone_reads_as_ones_and_does_nothing() {
    let mut bench = Bench::new(&["device-gone:at=3us", "interrupt-storm:at=0,count=100,every=1us"]);
    bench.wait(10);
    let sent = bench.line.0.len();
    assert!(bench.nic.is_gone() && !bench.nic.is_busy() && sent < 10);
    assert_eq!(bench.nic.config_read(0, Width::B4), 0xffff_ffff);
    let status = bench.host(|nic, host| nic.bar_read(host, 2, 0x3e, Width::B2));
    assert_eq!(status, 0xffff);
    bench.raise();
    bench.wait(100);
    assert_eq!(bench.line.0.len(), sent);
    assert_eq!(bench.receive(), RxOutcome::NotReceiving);
    assert!(!bench.nic.receiving());
}

#[test]
fn a_fault_that_finds_no_frame_to_hit_waits_for_one() {
    let mut bench = Bench::new(&["dma-error:at=0", "descriptor-crc:at=0"]);
    assert_eq!(bench.receive(), RxOutcome::NotReceiving);
    assert!(bench.nic.schedule().counts().all(|(_, count)| count.injected == 0));
}
