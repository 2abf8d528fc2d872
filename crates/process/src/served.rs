//! Our end of a driver's window without a driver's process at the other end: for tests that play the driver.

use std::os::fd::OwnedFd;

use warikomi_clock::{Time, TscClock};
use warikomi_nic::Nic;
use warikomi_pci::{Host, SharedMemory};
use warikomi_protocol::answers::{Counters, LinkState};
use warikomi_shared::SharedWords;
use warikomi_target::TargetCounters;

use super::port::{Port, WindowEnd};
use super::report::Report;

/// A window that is served, and what its driver reports there.
///
/// It is the way by which a process target serves its driver, without what starts, watches and replaces
/// processes.
pub struct ServedWindow {
    port: Port,
    report: Report,
}

impl ServedWindow {
    /// Serves the window in `words` for a device with this number of vectors that reaches `memory`. Its driver sleeps on
    /// the pipe that `wakeup` is the writing end of.
    pub fn new(
        words: SharedWords,
        wakeup: OwnedFd,
        memory: SharedMemory,
        clock: TscClock,
        vectors: u16,
    ) -> ServedWindow {
        let report = Report::new(words.clone());
        ServedWindow {
            port: Port::new(WindowEnd::new(words, wakeup), memory, clock, vectors),
            report,
        }
    }

    /// Serves what the driver has asked for, a bounded amount of it; how much that was.
    pub fn serve(&mut self, nic: &mut dyn Nic) -> usize {
        self.port.serve(nic)
    }

    /// Takes up at most `limit` times of handlers.
    pub fn take_stamps(&mut self, nic: &mut dyn Nic, limit: u64) {
        self.port.take_some_stamps(nic);
        self.port.take_stamps(nic, limit);
    }

    /// What the card may use during a call at `now`.
    pub fn host(&mut self, now: Time) -> Host<'_> {
        self.port.host(now)
    }

    /// Serves the window in `words` from now on, and this one no more; how many accesses its driver had asked for
    /// and did not get.
    pub fn turn_to(&mut self, words: SharedWords, wakeup: OwnedFd, nic: &mut dyn Nic) -> u64 {
        self.report = Report::new(words.clone());
        self.port.turn_to(WindowEnd::new(words, wakeup), nic).discard()
    }

    /// Counts since the start.
    pub fn counters(&self) -> TargetCounters {
        self.port.counters()
    }

    /// What the driver counts.
    pub fn reported(&self) -> Counters {
        self.report.counters()
    }

    /// What the driver says of the link.
    pub fn link(&self) -> LinkState {
        self.report.link()
    }

    /// Why the driver says that it failed, fit for a terminal.
    pub fn last_words(&self) -> String {
        self.report.last_words()
    }
}
