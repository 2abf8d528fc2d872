//! The place of one driver process: its window, its pipe, its socket, its process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Release};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use warikomi_clock::{Time, TscClock};
use warikomi_pci::attach::layout::{report, times};
use warikomi_shared::SharedWords;

use super::orders::Orders;
use super::parts::Running;
use super::port::WindowEnd;
use super::region::{DeviceMemory, Window, WindowOptions, give};
use super::report::Report;

/// A driver process, and what it shares with us and nobody else.
pub(super) struct DriverSeat {
    pub(super) generation: u32,
    pub(super) part: Running,
    pub(super) report: Report,
    words: SharedWords,
    /// `None` while the driver is served: the port has it then.
    end: Option<WindowEnd>,
    /// It was served and is not any more: what it asks for comes too late.
    fenced: bool,
    /// Since when its socket has been seen to be closed.
    pub(super) hung_up: Option<Time>,
}

impl DriverSeat {
    /// What a new driver of this generation is handed.
    pub(super) fn prepare(
        device: &DeviceMemory,
        options: &WindowOptions,
        given: &Orders,
    ) -> io::Result<StartFiles> {
        let window = Window::new(device, options)?;
        give(&window.words, given);
        let (sleeps_on, wakeup) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        Ok(StartFiles {
            generation: options.generation,
            window,
            sleeps_on,
            wakeup,
            further: Vec::new(),
        })
    }

    pub(super) fn order(&self, given: &Orders) {
        give(&self.words, given);
    }

    /// Writes an order down. The caller rings.
    pub(super) fn write_order(&self, at: usize, value: u64) {
        self.words[at].store(value, Release);
    }

    /// Gives our end of the window away, to be served.
    pub(super) fn take_end(&mut self) -> Option<WindowEnd> {
        self.fenced = false;
        self.end.take()
    }

    /// Keeps our end of the window until it is to be served.
    pub(super) fn keep_end(&mut self, end: WindowEnd) {
        self.end = Some(end);
    }

    /// Takes our end of the window back, which from now on is not served.
    pub(super) fn fence(&mut self, end: WindowEnd) {
        self.fenced = true;
        self.keep_end(end);
    }

    /// Drops what the driver has asked for since it was fenced; how many accesses.
    pub(super) fn discard_late(&mut self) -> u64 {
        if self.fenced { self.discard() } else { 0 }
    }

    /// Drops whatever the driver has asked for and nobody has served.
    pub(super) fn discard(&mut self) -> u64 {
        self.end.as_mut().map_or(0, WindowEnd::discard)
    }

    /// When what happened at the last change of hands, as far as it says and can be.
    pub(super) fn times(&self, clock: &TscClock) -> [Time; times::COUNT] {
        let now = clock.now();
        std::array::from_fn(|index| {
            let ticks = self.words[report::TIMES + index].load(Acquire);
            let at = clock.at(ticks);
            if ticks == 0 || at > now { Time::NEVER } else { at }
        })
    }
}

/// What a driver is handed, before its process is started.
pub(super) struct StartFiles {
    generation: u32,
    window: Window,
    sleeps_on: OwnedFd,
    wakeup: OwnedFd,
    /// Behind the device's own: for whatever is beside or above the driver.
    pub(super) further: Vec<OwnedFd>,
}

impl StartFiles {
    /// The files of the driver's message, in order.
    pub(super) fn files<'a>(&'a self, device: &'a DeviceMemory) -> Vec<BorrowedFd<'a>> {
        let own = [self.window.file.as_fd(), self.sleeps_on.as_fd()];
        let further = self.further.iter().map(AsFd::as_fd);
        own.into_iter().chain(device.files()).chain(further).collect()
    }

    /// The seat of the process that has got all of it, and our end of its window.
    pub(super) fn seat(self, part: Running) -> (DriverSeat, WindowEnd) {
        let words = self.window.words;
        let end = WindowEnd::new(words.clone(), self.wakeup);
        let (generation, report) = (self.generation, Report::new(words.clone()));
        (
            DriverSeat { generation, part, report, words, end: None, fenced: false, hung_up: None },
            end,
        )
    }
}
