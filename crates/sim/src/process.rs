//! A driver's process: its loop, its words, and what it is at.

use warikomi_clock::Span;
use warikomi_driver::NicDriver;
use warikomi_driver::device::Window;
use warikomi_driver::run::{DriverLoop, Lineage};
use warikomi_driver::state::LocalWords;
use warikomi_pci::attach::layout::{self, bells, orders, report};
use warikomi_shared::{Bell, MessageSender, Words};

use super::Options;
use super::above::Channel;
use super::cpu::TaskId;
use super::session::Ring;

/// What the process does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Start,
    Step,
    /// It is on its way to sleep, for so long at most.
    GoingToSleep(Span),
    Asleep,
    /// It is on its way to wait for the baton while it is this generation's, or waits.
    GoingToAwaitBaton(u32),
    AwaitsBaton,
}

/// A driver's process in virtual time.
pub(super) struct Process {
    pub(super) id: TaskId,
    pub(super) generation: u32,
    /// `None` before it begins, and when it is over.
    pub(super) driving: Option<DriverLoop>,
    pub(super) driver: Box<dyn NicDriver>,
    pub(super) channel: Option<Channel>,
    pub(super) window: Window<LocalWords>,
    words: LocalWords,
    pub(super) interrupts: MessageSender<LocalWords>,
    pub(super) bell: Bell<LocalWords, Ring>,
    pub(super) call: Ring,
    pub(super) lineage: Option<Lineage>,
    pub(super) state: State,
    /// Sleeps so far, this one included.
    pub(super) sleeps: u64,
    /// What a pass that found nothing took.
    pub(super) idle_pass: Span,
    pub(super) held: bool,
    pub(super) over: bool,
}

impl Process {
    pub(super) fn new(
        id: TaskId,
        generation: u32,
        driver: Box<dyn NicDriver>,
        channel: Option<Channel>,
        lineage: Option<Lineage>,
    ) -> Process {
        let words = LocalWords::of(layout::WINDOW_BYTES as usize / size_of::<u64>());
        let call = Ring::default();
        Process {
            id,
            generation,
            driving: None,
            driver,
            channel,
            window: Window::new(words.clone()),
            interrupts: MessageSender::new(words.clone(), layout::INTERRUPTS),
            bell: Bell::new(words.clone(), bells::SLEEPING, call.clone()),
            call,
            lineage,
            state: State::Start,
            sleeps: 0,
            idle_pass: Span::ZERO,
            held: false,
            over: false,
            words,
        }
    }

    /// Writes the orders that a driver finds when it begins.
    pub(super) fn order_all(&mut self, options: &Options, strategy: [u64; 4]) {
        self.order(orders::BUFFERS, options.buffers as u64);
        self.order_strategy(strategy);
    }

    pub(super) fn order_strategy(&mut self, words: [u64; 4]) {
        let at = [orders::STRATEGY, orders::POLL_NS, orders::BUDGET, orders::CPU_BUDGET_PPM];
        at.into_iter().zip(words).for_each(|(at, word)| self.order(at, word));
    }

    /// Writes a word of the orders, and rings.
    pub(super) fn order(&mut self, at: usize, value: u64) {
        self.words.store(at, value, std::sync::atomic::Ordering::Release);
        self.bell.ring();
    }

    pub(super) fn report(&self, at: usize) -> u64 {
        self.words.load(at, std::sync::atomic::Ordering::Acquire)
    }

    /// Whether it serves its device.
    pub(super) fn is_ready(&self) -> bool {
        !self.over && self.driving.as_ref().is_some_and(DriverLoop::is_ready)
    }

    /// Whether it has the device, or takes it.
    pub(super) fn is_driving(&self) -> bool {
        !self.over && self.driving.as_ref().is_some_and(DriverLoop::is_driving)
    }

    /// What it reports of itself.
    pub(super) fn reported_state(&self) -> u64 {
        self.report(report::STATE)
    }
}
