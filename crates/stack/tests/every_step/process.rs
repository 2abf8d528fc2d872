//! A driver process, without the process: the very loop of a driver, the very driver, end of the channel, and
//! baton, over words, memory and registers that a dead process cannot store to.

use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use warikomi_clock::{Span, Time};
use warikomi_driver::device::Window;
use warikomi_driver::rtl8168::Rtl8168;
use warikomi_driver::run::{Attachment, DriverLoop, Lineage, Parts, RunError, Step};
use warikomi_driver::state::{LocalWords, StateError};
use warikomi_driver::strategy::Strategy;
use warikomi_driver::{DriverError, Forgotten};
use warikomi_pci::attach::area;
use warikomi_pci::attach::layout::{self, DMA_BUS_ADDRESS, bells, orders, report, way};
use warikomi_pci::{Mmio, SharedMemory};
use warikomi_shared::{Message, MessageSender, SharedWords, Woken, Words};
use warikomi_stack::{ChannelUpper, Event, Watch};

use crate::mortal::{Life, Mortal, Registers};
use crate::user::Quiet;
use crate::world::{DMA_BYTES, World};

/// Frames that one look takes at most: fewer than a ring has descriptors.
const BUDGET: usize = 4;
/// Every so many looks there is an interrupt.
const LOOKS_BETWEEN_INTERRUPTS: u64 = 4;
/// From one step to the next.
const STEP: Span = Span::from_us(1);

/// The device as this process sees it. Only the process reads its window.
struct Attached {
    registers: Mortal<Registers>,
    window: Window<LocalWords>,
    lineage: Lineage,
}

impl Attachment for Attached {
    type Words = LocalWords;
    fn registers(&mut self) -> &mut dyn Mmio {
        &mut self.registers
    }
    fn window(&self) -> &Window<LocalWords> {
        &self.window
    }
    fn take_interrupt(&mut self) -> Option<Message> {
        self.window.take_interrupt(|| 0)
    }
    fn dma(&self) -> (u64, u64) {
        (DMA_BUS_ADDRESS, DMA_BYTES as u64)
    }
    fn lineage(&self) -> Option<Lineage> {
        Some(self.lineage.clone())
    }
}

pub(crate) struct Process {
    pub(crate) generation: u32,
    pub(crate) life: Rc<Life>,
    driving: DriverLoop,
    driver: Rtl8168,
    upper: ChannelUpper<Mortal<SharedWords>, Quiet>,
    device: Attached,
    memory: Mortal<SharedMemory>,
    interrupts: MessageSender<LocalWords>,
    now: Time,
}

/// What a step works on.
macro_rules! parts {
    ($process:ident) => {
        &mut Parts {
            device: &mut $process.device,
            memory: &$process.memory,
            driver: &mut $process.driver,
            upper: &mut $process.upper,
        }
    };
}

impl Process {
    /// One that has everything in reach, and waits for its turn.
    pub(crate) fn new(
        world: &Rc<World>,
        generation: u32,
        stores: u64,
        descriptors: usize,
    ) -> Process {
        let life = Life::new(world, stores);
        let words = Mortal::new(world.packets.words().clone(), &life);
        let watch = Watch::new(Event::create().expect("an event"), Vec::new(), None);
        let upper = ChannelUpper::through(&words, world.packets.clone(), Quiet, watch);
        let area = Rc::new(Mortal::new(world.area.clone(), &life));
        let state_version = area::VERSION;
        let lineage = Lineage { area, generation, way: way::SHARED_STATE, state_version };
        let window = LocalWords::of(layout::WINDOW_BYTES as usize / size_of::<u64>());
        window.store(orders::BUFFERS, descriptors as u64, Release);
        let at = [orders::STRATEGY, orders::POLL_NS, orders::BUDGET, orders::CPU_BUDGET_PPM];
        let strategy = Strategy::Napi { budget: BUDGET }.to_orders();
        at.into_iter().zip(strategy).for_each(|(at, word)| window.store(at, word, Release));
        let registers = Mortal::new(Registers(world.clone()), &life);
        let interrupts = MessageSender::new(window.clone(), layout::INTERRUPTS);
        let mut device = Attached { registers, window: Window::new(window), lineage };
        let memory = Mortal::new(world.memory.clone(), &life);
        let mut upper = upper.expect("a watch").expect("a channel");
        let (mut driver, now) = (Rtl8168::new(), Time::ZERO);
        let parts = &mut Parts {
            device: &mut device,
            memory: &memory,
            driver: &mut driver,
            upper: &mut upper,
        };
        let driving = DriverLoop::new(parts, now).expect("a driver can begin");
        Process { generation, life, driving, driver, upper, device, memory, interrupts, now }
    }

    /// Steps until this is so, or the process is dead.
    fn step_until(&mut self, is_so: impl Fn(&Process) -> bool) -> Result<(), RunError> {
        while !is_so(self) && !self.life.is_over() {
            self.now += STEP;
            let step = self.driving.step(parts!(self), self.now)?;
            if let Step::Sleep { .. } = step {
                self.driving.woke(Ok(Woken::Called));
            }
        }
        Ok(())
    }

    /// Takes the device, and serves it for the first time. What was forgotten if it is reset.
    pub(crate) fn begin(&mut self) -> Result<Forgotten, RunError> {
        self.step_until(|process| process.driving.is_ready())?;
        let word = |at| self.device.window.words().load(at, std::sync::atomic::Ordering::Acquire);
        Ok(Forgotten {
            buffers: word(report::FORGOTTEN_BUFFERS),
            frames: word(report::FORGOTTEN_FRAMES),
        })
    }

    /// One look at everything.
    pub(crate) fn pass(&mut self) -> Result<(), RunError> {
        let looks = self.driving.looks();
        if looks.is_multiple_of(LOOKS_BETWEEN_INTERRUPTS) {
            self.interrupts.send(0);
        }
        self.step_until(|process| process.driving.looks() > looks)
    }

    /// Gives the core away for `away` between arming the interrupt and the last look, again and again; the hiccups
    /// that the driver reports then.
    pub(crate) fn hiccups_while_it_arms(&mut self, away: Span) -> Result<u64, RunError> {
        let reported =
            |process: &Process| process.device.window.words().load(report::HICCUPS, Relaxed);
        let before = reported(self);
        let looks = self.driving.looks();
        while self.driving.looks() < looks + 20 {
            let arms = self.device.window.words().load(bells::SLEEPING, Relaxed) != 0;
            self.now += if arms { away } else { STEP };
            if let Step::Sleep { .. } = self.driving.step(parts!(self), self.now)? {
                self.now += away;
                self.driving.woke(Ok(Woken::Called));
            }
        }
        Ok(reported(self) - before)
    }

    /// Gives the device to generation `to`.
    pub(crate) fn hand_over(&mut self, to: u32) -> Result<(), RunError> {
        self.device.window.words().store(orders::HAND_OVER, to.into(), Release);
        self.step_until(|process| !process.driving.is_driving())
    }

    /// Goes on until it is about to stop for good.
    pub(crate) fn order_to_stop(&mut self) {
        self.device.window.words().store(orders::STOP, 1, Release);
        self.step_until(|process| process.driving.is_stopping()).expect("the card works");
    }

    /// Stops for good.
    pub(crate) fn stop(mut self) {
        assert_eq!(self.upper.unsent(), 0);
        self.step_until(|process| !process.driving.is_driving()).expect("the card stops");
        assert_eq!(self.upper.strays(), 0);
        assert_eq!(self.upper.refusals().total(), 0);
    }
}

/// Whether a driver could not take over because the settings were not there.
pub(crate) fn is_unreadable(error: &RunError) -> bool {
    matches!(
        error,
        RunError::Driver(DriverError::State(StateError::Unreadable(_)))
            | RunError::State(StateError::Unreadable(_))
    )
}
