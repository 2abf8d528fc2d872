//! INTx, and several vectors: that each reaches its driver, and waits while it is masked.
//!
//! The card is the test card duo, whose registers `warikomi_testbench::cards::duo` describes. Its drivers are
//! the kernel's `uio_pci_generic`, which uses INTx, and a module of ours, `kernel/bridge/warikomi_vectors.c`,
//! which uses two vectors of MSI-X, or two of the messages of MSI.

use std::time::Duration;

use warikomi_nic::{Frame, Link, Nic, NicOptions, RxOutcome};
use warikomi_pci::{Host, Width};
use warikomi_protocol::commands::{LoadDriver, ReadFile, UnloadDriver, WriteFile};
use warikomi_target::kernel::Attachment;
use warikomi_target::{CardId, Target, wait};
use warikomi_testbench::cards::duo;

use crate::bring::{by_the_bridge, kernel_with, options};

const INTR_STATUS0: u64 = 0x20;
const INTR_MASK0: u64 = 0x24;
const LINK_CHANGED: u64 = 8;
/// The BAR that has the MSI-X table, and where in it.
const TABLE_BAR: u8 = 2;
const TABLE: u64 = 0x800;
const PENDING: u64 = 0xc00;

const EVENTS: &str = "/sys/class/uio/uio0/event";

/// A kernel with the test card.
struct Bench {
    target: Box<dyn Target>,
    /// The card's directory in the guest.
    card: &'static str,
}

impl Bench {
    fn start(attachment: Attachment) -> Bench {
        let nic = |wire| duo::make(&NicOptions::of("duo"), wire).unwrap();
        let card = match attachment {
            Attachment::VirtPci => "/sys/bus/pci/devices/0000:00:00.0",
            Attachment::Bridge { .. } | Attachment::InStep(_) => {
                "/sys/bus/pci/devices/0000:01:00.0"
            }
        };
        Bench { target: kernel_with(attachment, nic), card }
    }

    fn load(&mut self, name: &str, parameters: &[&str]) {
        let params = parameters.iter().map(ToString::to_string).collect();
        let load = LoadDriver { name: name.into(), params };
        self.target.ask(load, Duration::from_secs(5)).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Loads the test module, and waits for the last write of its start.
    fn load_vectors(&mut self, parameters: &[&str]) {
        self.load("warikomi_vectors", parameters);
        let found = wait::until(&mut *self.target, Duration::from_secs(5), |target| {
            target.card(CardId::FIRST).unwrap().0.receiving().then_some(())
        });
        assert!(found.unwrap().is_some(), "the card is not told to receive within 5 s");
    }

    fn read(&mut self, path: &str) -> String {
        let read = ReadFile { path: path.into() };
        let file = self.target.ask(read, Duration::ZERO).unwrap_or_else(|error| panic!("{error}"));
        file.text.trim().to_owned()
    }

    fn write(&mut self, path: &str, text: &str) {
        let write = WriteFile { path: path.into(), text: text.into() };
        self.target.ask(write, Duration::ZERO).unwrap_or_else(|error| panic!("{error}"));
    }

    fn card<R>(&mut self, act: impl FnOnce(&mut dyn Nic, &mut Host<'_>) -> R) -> R {
        let (nic, mut host) = self.target.card(CardId::FIRST).unwrap();
        act(nic, &mut host)
    }

    fn register(&mut self, bar: u8, offset: u64) -> u64 {
        self.card(|nic, host| nic.bar_read(host, bar, offset, Width::B4))
    }

    fn set_register(&mut self, offset: u64, value: u64) {
        self.card(|nic, host| nic.bar_write(host, 0, offset, Width::B4, value));
    }

    /// As a driver does it: what it has not read it may not have known of, and is reported again.
    fn acknowledge(&mut self) {
        assert_eq!(self.register(0, INTR_STATUS0), LINK_CHANGED);
        self.set_register(INTR_STATUS0, LINK_CHANGED);
    }

    /// Waits until the guest's file has this text, and then for more that may come and should not.
    #[track_caller]
    fn settles(&mut self, path: &str, expected: &str) {
        let mut seen = String::new();
        for _ in 0..500 {
            seen = self.read(path);
            if seen == expected {
                break;
            }
            self.target.serve_for(Duration::from_millis(10)).unwrap();
        }
        assert_eq!(seen, expected, "{path}, within 5 s; {}", self.target.console());
        self.target.serve_for(Duration::from_millis(50)).unwrap();
        assert_eq!(self.read(path), expected, "{path}, a moment later");
    }

    fn stop(mut self) {
        let counters = self.target.counters();
        assert_eq!((counters.malformed, counters.corrupt_rings), (0, 0), "{counters:?}");
        self.target.stop().unwrap();
    }
}

fn as_asked_for() -> Attachment {
    if options().bridge { by_the_bridge() } else { Attachment::VirtPci }
}

/// Whether the command register disables INTx, and whether the status register says that it is wanted.
fn intx(bench: &mut Bench) -> (bool, bool) {
    let word = bench.card(|nic, _| nic.config_read(4, Width::B4));
    (word & 0x400 != 0, word & 0x8_0000 != 0)
}

/// Lets INTx come again, as the driver's documentation has it: by the card's configuration, from user space.
fn enable_intx(bench: &mut Bench) {
    // From the file's begin: the identity, which is read-only, and the command register with nothing but
    // memory decoding.
    bench.write(&format!("{}/config", bench.card), "\x34\x12\x02\x0d\x02\x00");
}

#[test]
fn intx_reaches_a_driver_in_user_space_once_each_time_it_is_enabled() {
    // virt-pci has no INTx.
    let mut bench = Bench::start(by_the_bridge());
    bench.load("uio_pci_generic", &[]);
    bench.write("/sys/bus/pci/drivers/uio_pci_generic/new_id", "1234 0d02");
    bench.settles(EVENTS, "0");
    bench.set_register(INTR_MASK0, LINK_CHANGED);

    bench.card(|nic, host| nic.set_link(host, Link::Down));
    bench.settles(EVENTS, "1");
    assert_eq!(
        intx(&mut bench),
        (true, true),
        "the handler has disabled it, and the card wants it"
    );
    // The driver in user space has not seen to the card: it comes again.
    enable_intx(&mut bench);
    bench.settles(EVENTS, "2");
    assert_eq!(intx(&mut bench), (true, true));
    // It has.
    bench.acknowledge();
    assert_eq!(intx(&mut bench), (true, false));
    enable_intx(&mut bench);
    bench.settles(EVENTS, "2");
    assert_eq!(intx(&mut bench), (false, false));
    // While it is disabled, a rise waits.
    bench.card(|nic, host| nic.set_link(host, Link::Up { mbps: 1_000 }));
    bench.settles(EVENTS, "3");
    bench.acknowledge();
    bench.card(|nic, host| nic.set_link(host, Link::Down));
    bench.settles(EVENTS, "3");
    enable_intx(&mut bench);
    bench.settles(EVENTS, "4");
    bench.stop();
}

/// The test module's card: by vector, what makes the card raise it.
struct Vectors {
    bench: Bench,
    flows: [Vec<u8>; 2],
    /// What the handlers had counted when the test began.
    counted: [u64; 2],
}

impl Vectors {
    fn start(attachment: Attachment, parameters: &[&str]) -> Vectors {
        let mut bench = Bench::start(attachment);
        bench.load_vectors(parameters);
        let flows = [0, 1].map(|queue| flow_of(&mut bench, queue));
        bench.target.serve_for(Duration::from_millis(50)).unwrap();
        let path = format!("{}/counts", bench.card);
        let counts = bench.read(&path);
        let mut counts = counts.split(' ').map(|count| count.parse().unwrap());
        let counted = [0, 1].map(|_| counts.next().unwrap());
        assert!(counted.iter().all(|&count| count > 0), "each has told of a flow: {counted:?}");
        Vectors { bench, flows, counted }
    }

    /// A frame for which there is no descriptor: the vector's level rises, unless it is high.
    fn raise(&mut self, vector: usize) {
        let frame = &self.flows[vector];
        let got = self.bench.card(|nic, host| nic.receive(host, Frame::new(frame)));
        assert_eq!((usize::from(got.queue), got.outcome), (vector, RxOutcome::NoDescriptor));
    }

    #[track_caller]
    fn have_run(&mut self, times: [u64; 2]) {
        let [first, second] = [0, 1].map(|vector| self.counted[vector] + times[vector]);
        self.bench.settles(&format!("{}/counts", self.bench.card), &format!("{first} {second}"));
    }

    /// A bit for each vector.
    fn disable(&mut self, vectors: u8) {
        let path = format!("{}/disabled", self.bench.card);
        self.bench.write(&path, &vectors.to_string());
    }

    /// A bit for each vector whose entry of the table is masked, and one for each that is pending.
    fn masked_and_pending(&mut self) -> (u64, u64) {
        let mut masked = |vector: u64| self.bench.register(TABLE_BAR, TABLE + 16 * vector + 12) & 1;
        let masked = [0, 1].map(&mut masked);
        (masked[0] | masked[1] << 1, self.bench.register(TABLE_BAR, PENDING))
    }
}

/// A datagram that the card steers to this queue.
fn flow_of(bench: &mut Bench, queue: u16) -> Vec<u8> {
    let receive = |frame: Frame<'_>| bench.card(|nic, host| nic.receive(host, frame).queue);
    duo::datagram(duo::port_of(queue, receive))
}

#[test]
fn each_of_two_vectors_reaches_its_own_handler() {
    let mut vectors = Vectors::start(as_asked_for(), &[]);
    assert_eq!(vectors.masked_and_pending(), (0, 0));
    vectors.raise(1);
    vectors.have_run([0, 1]);
    vectors.raise(0);
    vectors.have_run([1, 1]);
    vectors.raise(0);
    vectors.raise(1);
    vectors.have_run([2, 2]);
    vectors.bench.stop();
}

#[test]
fn a_masked_vector_waits_in_the_card_and_comes_once_while_the_other_goes_on() {
    let mut vectors = Vectors::start(as_asked_for(), &[]);
    vectors.disable(0b01);
    assert_eq!(vectors.masked_and_pending(), (0b01, 0));
    (0..3).for_each(|_| vectors.raise(0));
    vectors.raise(1);
    vectors.have_run([0, 1]);
    vectors.raise(1);
    vectors.have_run([0, 2]);
    assert_eq!(vectors.masked_and_pending(), (0b01, 0b01));
    vectors.disable(0b00);
    vectors.have_run([1, 2]);
    assert_eq!(vectors.masked_and_pending(), (0, 0));
    // The other one, and both.
    vectors.disable(0b10);
    vectors.raise(1);
    vectors.raise(0);
    vectors.have_run([2, 2]);
    vectors.disable(0b11);
    vectors.raise(0);
    vectors.have_run([2, 2]);
    assert_eq!(vectors.masked_and_pending(), (0b11, 0b11));
    vectors.disable(0b01);
    vectors.have_run([2, 3]);
    vectors.disable(0b00);
    vectors.have_run([3, 3]);
    vectors.raise(0);
    vectors.have_run([4, 3]);
    vectors.bench.stop();
}

#[test]
fn a_vector_that_comes_although_it_is_disabled_is_masked_then_and_handled_once_when_it_is_enabled()
{
    // As disable_irq() works for a driver that asks for nothing else: the kernel itself must hand the
    // interrupt over again. With virt-pci it is lost.
    let mut vectors = Vectors::start(by_the_bridge(), &["lazy=1"]);
    for round in 0..3 {
        vectors.disable(0b01);
        assert_eq!(vectors.masked_and_pending(), (0, 0));
        vectors.raise(0);
        vectors.have_run([round, round]);
        assert_eq!(
            vectors.masked_and_pending(),
            (0b01, 0),
            "it was sent, and the next will not be"
        );
        vectors.disable(0b00);
        vectors.have_run([round + 1, round]);
        vectors.raise(1);
        vectors.have_run([round + 1, round + 1]);
    }
    vectors.bench.stop();
}

/// Loads the module anew so often that the bridge would have run out of its 64 vectors.
#[track_caller]
fn are_given_back(attachment: Attachment, parameters: &[&str]) {
    let mut vectors = Vectors::start(attachment, parameters);
    for _ in 0..40 {
        let unload = UnloadDriver { name: "warikomi_vectors".into() };
        vectors.bench.target.ask(unload, Duration::from_secs(5)).unwrap();
        vectors.bench.load_vectors(parameters);
    }
    vectors.counted = [0, 0];
    vectors.raise(0);
    vectors.raise(1);
    vectors.have_run([1, 1]);
    vectors.bench.stop();
}

#[test]
fn vectors_are_given_back_when_the_driver_goes() {
    are_given_back(as_asked_for(), &[]);
}

#[test]
fn so_are_messages_of_which_a_power_of_two_is_set_aside_for_fewer() {
    // virt-pci has no such messages.
    are_given_back(by_the_bridge(), &["messages=3"]);
}
