//! A driver's loop that stays awake, step by step, at times that the test says.

use std::sync::atomic::Ordering::Relaxed;

use warikomi_clock::Span;
use warikomi_driver::device::Window;
use warikomi_driver::run::{Attachment, DriverLoop, Parts, Step};
use warikomi_driver::state::LocalWords;
use warikomi_driver::strategy::Strategy;
use warikomi_driver::{NicDriver, OwnPool};
use warikomi_nic::Link;
use warikomi_pci::attach::layout::{self, orders};
use warikomi_pci::{Mmio, Width};
use warikomi_shared::{Message, MessageSender};
use warikomi_testbench::cards::{TestCard, duo};
use warikomi_testbench::{Bench, DUO, OC48, Rig, Subject, frame};

/// Less than what a loop calls idle.
const INTERVAL: Span = Span::from_us(20);

/// A card on a bench as a loop's device: accesses take effect at once.
struct Attached {
    bench: Bench,
    window: Window<LocalWords>,
    messages: MessageSender<LocalWords>,
    /// The card's interrupts that are among these messages.
    sent: u64,
}

impl Attachment for Attached {
    type Words = LocalWords;

    fn registers(&mut self) -> &mut dyn Mmio {
        &mut self.bench
    }
    fn window(&self) -> &Window<LocalWords> {
        &self.window
    }
    fn take_interrupt(&mut self) -> Option<Message> {
        let sent = self.bench.line.messages();
        (self.sent..sent).for_each(|_| self.messages.send(0));
        self.sent = sent;
        self.window.take_interrupt(|| 0)
    }
    fn dma(&self) -> (u64, u64) {
        (Rig::RINGS, Rig::TX_BUFFERS - Rig::RINGS)
    }
}

/// The loop with all that it works on.
struct Running {
    device: Attached,
    driver: Box<dyn NicDriver>,
    pool: OwnPool,
    machine: DriverLoop,
}

impl Running {
    fn new(card: &'static dyn TestCard, strategy: Strategy) -> Running {
        let Rig { bench, mut driver, .. } = Rig::new(&Subject::of(card), 1, 2_048);
        let words = LocalWords::of(layout::WINDOW_BYTES as usize / 8);
        let [code, poll_ns, budget, ppm] = strategy.to_orders();
        for (at, value) in [
            (orders::STRATEGY, code),
            (orders::POLL_NS, poll_ns),
            (orders::BUDGET, budget),
            (orders::CPU_BUDGET_PPM, ppm),
        ] {
            warikomi_shared::Words::store(&words, at, value, Relaxed);
        }
        let messages = MessageSender::new(words.clone(), layout::INTERRUPTS);
        let mut device = Attached { bench, window: Window::new(words), messages, sent: 0 };
        let room = Rig::TX_BUFFERS - Rig::BUFFERS;
        let mut pool = OwnPool::new(Rig::BUFFERS, room, 64, 2_048).unwrap();
        let (now, memory) = (device.bench.now, device.bench.memory.clone());
        let mut parts =
            Parts { device: &mut device, memory: &memory, driver: &mut *driver, upper: &mut pool };
        let machine = DriverLoop::new(&mut parts, now).unwrap();
        Running { device, driver, pool, machine }
    }

    /// A frame comes, and the loop looks around until the next one is due.
    fn frame(&mut self) {
        self.device.bench.receive(&frame(60, 0));
        self.look_around();
    }

    fn look_around(&mut self) {
        for _ in 0..10 {
            self.device.bench.wait(Span::from_ps(INTERVAL.as_ps() / 10));
            let (now, memory) = (self.device.bench.now, self.device.bench.memory.clone());
            let Running { device, driver, pool, machine } = self;
            let mut parts = Parts { device, memory: &memory, driver: &mut **driver, upper: pool };
            assert_eq!(machine.step(&mut parts, now).unwrap(), Step::Again);
        }
    }

    /// Frames come for so long; whether each has interrupted.
    fn frames(&mut self, span: Span) -> bool {
        let (count, before) = (span.as_ps() / INTERVAL.as_ps(), self.device.bench.line.messages());
        (0..count).for_each(|_| self.frame());
        self.device.bench.line.messages() - before == count
    }
}

/// Longer than the time between two looks at the link.
const A_WHILE: Span = Span::from_ms(100);

#[test]
fn a_change_of_the_link_silences_no_interrupt_for_long_though_frames_never_pause() {
    let mut running = Running::new(OC48, Strategy::Awake);
    running.frames(A_WHILE);
    assert!(running.frames(A_WHILE));
    for link in [Link::Down, Link::Up { mbps: 2_500 }] {
        running.device.bench.plug(link);
    }
    running.frames(A_WHILE);
    assert!(running.frames(A_WHILE));
}

/// The interrupt status of the test card's second vector.
const SECOND_STATUS: u64 = 0x30;
const RX_DONE: u64 = 1;

#[test]
fn a_vector_whose_only_message_was_written_over_is_handled() {
    let mut running = Running::new(DUO, Strategy::Awake);
    running.look_around();
    let bench = &mut running.device.bench;
    let port = duo::port_of(1, |frame| bench.host(|nic, host| nic.receive(host, frame).queue));
    running.look_around();
    running.device.bench.receive(&duo::datagram(port));
    assert_ne!(running.device.bench.read(SECOND_STATUS, Width::B4) & RX_DONE, 0);
    running.device.messages.send(1);
    (0..layout::MESSAGES_CAPACITY).for_each(|_| running.device.messages.send(0));
    running.look_around();
    assert!(!running.device.window.interrupt_pending());
    assert_eq!(running.device.bench.read(SECOND_STATUS, Width::B4) & RX_DONE, 0);
}
