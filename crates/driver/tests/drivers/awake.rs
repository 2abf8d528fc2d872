//! A driver's loop that stays awake, step by step, at times that the test says.

use std::sync::atomic::Ordering::Relaxed;

use warikomi_clock::Span;
use warikomi_driver::device::Window;
use warikomi_driver::run::{Attachment, DriverLoop, Parts, Step};
use warikomi_driver::state::LocalWords;
use warikomi_driver::strategy::Strategy;
use warikomi_driver::{NicDriver, OwnPool};
use warikomi_nic::Link;
use warikomi_pci::Mmio;
use warikomi_pci::attach::layout::{self, orders};
use warikomi_testbench::{Bench, OC48, Rig, Subject, frame};

/// Less than what a loop calls idle.
const INTERVAL: Span = Span::from_us(20);

/// A card on a bench as a loop's device: accesses take effect at once.
struct Attached {
    bench: Bench,
    window: Window<LocalWords>,
    /// Interrupts that the driver has taken.
    taken: u64,
}

impl Attachment for Attached {
    type Words = LocalWords;

    fn registers(&mut self) -> &mut dyn Mmio {
        &mut self.bench
    }
    fn window(&self) -> &Window<LocalWords> {
        &self.window
    }
    fn take_interrupt(&mut self) -> Option<u16> {
        let more = self.bench.line.messages() > self.taken;
        self.taken += u64::from(more);
        more.then_some(0)
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
    fn new(strategy: Strategy) -> Running {
        let Rig { bench, mut driver, .. } = Rig::new(&Subject::of(OC48), 1, 2_048);
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
        let mut device = Attached { bench, window: Window::new(words), taken: 0 };
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
    let mut running = Running::new(Strategy::Awake);
    running.frames(A_WHILE);
    assert!(running.frames(A_WHILE));
    for link in [Link::Down, Link::Up { mbps: 2_500 }] {
        running.device.bench.plug(link);
    }
    running.frames(A_WHILE);
    assert!(running.frames(A_WHILE));
}
