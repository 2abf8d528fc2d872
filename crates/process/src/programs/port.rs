//! What the agent of the application's process reaches: the network, and the work on it.

use std::net::Ipv4Addr;

use warikomi_clock::Span;
use warikomi_protocol::answers::{Done, Transmitted, WorkTotals};
use warikomi_protocol::commands::{Transmit, WorkStart};
use warikomi_stack::{SocketCounters, StackError, Vi};

use super::agent::Port;
use super::network::Network;
use super::work::Work;

/// The network, and the work that goes on over it.
pub(super) struct ViPort {
    pub(super) network: Network,
    work: Option<Work>,
}

impl ViPort {
    pub(super) fn new(vi: Vi, address: Ipv4Addr) -> ViPort {
        ViPort { network: Network::new(vi, address), work: None }
    }

    /// Whether no work is going on.
    pub(super) fn is_idle(&self) -> bool {
        self.work.as_ref().is_none_or(|work| work.totals().over)
    }

    /// Whether the work computes, and there is nothing beside it.
    pub(super) fn only_computes(&self) -> bool {
        self.work.as_ref().is_some_and(Work::only_computes)
    }

    /// Goes on with the work, if there is some: how long nothing is to be done for it, unless something
    /// comes; `None` if it has nothing to do at all.
    pub(super) fn continue_work(&mut self) -> Result<Option<Span>, StackError> {
        self.network.collect()?;
        let Some(mut work) = self.work.take() else { return Ok(None) };
        let idle = work.step(&mut self.network);
        self.work = Some(work);
        self.network.vi.flush();
        Ok(idle)
    }
}

impl Port for ViPort {
    fn open(&mut self, port: u16, buffer_bytes: u64) -> u64 {
        self.network.open(port, buffer_bytes)
    }

    fn counters(&self) -> SocketCounters {
        self.network.counters()
    }

    fn transmit(
        &mut self,
        command: &Transmit,
        destination: (Ipv4Addr, u16),
    ) -> Result<Transmitted, String> {
        self.network.transmit(command, destination)
    }

    fn start_work(&mut self, command: &WorkStart) -> Result<Done, String> {
        if !self.is_idle() {
            return Err("work is going on; send work_stop first".to_owned());
        }
        if let Some(beside) = &command.datagrams {
            self.network.check_datagram(beside.payload_bytes)?;
        }
        let work = Work::new(command, &self.network)?;
        if let Some(mut last) = self.work.replace(work) {
            last.leave(&mut self.network);
        }
        Ok(Done {})
    }

    fn work(&mut self, stop: bool) -> Result<WorkTotals, String> {
        let none = "there was no work; send work_start first";
        let mut work = self.work.take().ok_or(none)?;
        if stop {
            work.stop(&mut self.network);
        }
        let totals = work.totals();
        let send_times = if totals.over { totals.send_times.clone() } else { Vec::new() };
        let totals = WorkTotals { send_times, failure: totals.failure.clone(), ..*totals };
        self.work = Some(work);
        Ok(totals)
    }
}
