//! Requests of the support side, answered by the process that holds the socket: the same protocol as the agent
//! in a kernel target speaks.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use serde_json::Value;
use warikomi_clock::read_tsc;
use warikomi_protocol::answers::{
    Done, ReceiveStarted, ReceiveTotals, RoundTripsTotals, Transmitted, WorkTotals,
};
use warikomi_protocol::commands::{ReceiveStart, RoundTripsStart, Transmit, WorkStart};
use warikomi_protocol::lines::Line;
use warikomi_protocol::payload::HEAD_BYTES;
use warikomi_protocol::record::{MOST_RUNS, Record};
use warikomi_protocol::{Envelope, Request};
use warikomi_stack::{SocketCounters, StackError};

use super::line::{ControlLine, alive, json};

/// Bytes of a datagram that are looked at where it lies; its head must be among them.
pub(super) const LOOKED_AT_BYTES: usize = 128;

/// The network that the agent uses.
pub(super) trait Port {
    /// Takes datagrams for this UDP port from now on (0: none), and lets so many bytes wait; how many
    /// there is room for.
    fn open(&mut self, port: u16, buffer_bytes: u64) -> u64;

    /// What became of the datagrams so far.
    fn counters(&self) -> SocketCounters;

    /// Sends datagrams.
    fn transmit(
        &mut self,
        command: &Transmit,
        destination: (Ipv4Addr, u16),
    ) -> Result<Transmitted, String>;

    /// Begins to work.
    fn start_work(&mut self, command: &WorkStart) -> Result<Done, String> {
        let _ = command;
        Err("only an application above a stack works".to_owned())
    }

    /// How far the work is; ends it if it shall `stop`.
    fn work(&mut self, stop: bool) -> Result<WorkTotals, String> {
        let _ = stop;
        Err("there was no work".to_owned())
    }

    /// Begins to send messages that are answered, one after the other.
    fn start_round_trips(&mut self, command: &RoundTripsStart) -> Result<Done, String> {
        let _ = command;
        Err("only an application in the driver's process counts round trips".to_owned())
    }

    /// What became of them, and how long each took from this one on.
    fn round_trips(&mut self, from: u64) -> Result<RoundTripsTotals, String> {
        let _ = from;
        Err("there were no round trips".to_owned())
    }
}

/// The reception that runs, or the last one.
struct Reception {
    record: Record,
    running: bool,
    /// Datagrams that had found the socket full when it began.
    full_before: u64,
}

/// The agent.
pub(super) struct Agent {
    line: ControlLine,
    reception: Option<Reception>,
    /// A request to stop whose answer waits until what has come is in the record.
    stopping: Option<u64>,
}

impl Agent {
    pub(super) fn new(control: OwnedFd) -> Result<Agent, StackError> {
        Ok(Agent { line: ControlLine::new(control)?, reception: None, stopping: None })
    }

    /// Whether the support side will ask nothing more.
    pub(super) fn is_over(&self) -> bool {
        self.line.is_over()
    }

    /// The control socket.
    pub(super) fn control(&self) -> &UnixStream {
        self.line.control()
    }

    /// The record to enter datagrams in, while a reception runs.
    #[inline]
    pub(super) fn record(&mut self) -> Option<&mut Record> {
        self.reception.as_mut().filter(|reception| reception.running).map(|it| &mut it.record)
    }

    /// Answers what has been asked. Does not wait for questions. `true` if it wants to be called
    /// again as soon as everything that has come is in the record.
    pub(super) fn serve(&mut self, port: &mut impl Port) -> Result<bool, StackError> {
        if let Some(id) = self.stopping.take() {
            let outcome = self.totals(port).and_then(|totals| json(&totals));
            if let Some(reception) = &mut self.reception {
                reception.running = false;
            }
            self.line.answer(id, outcome)?;
        }
        while let Some(line) = self.line.next()? {
            let Some((id, outcome)) = self.answer(&line, port) else { return Ok(true) };
            self.line.answer(id, outcome)?;
        }
        Ok(false)
    }

    /// Whom to answer, and what; `None` if the answer comes later.
    fn answer(
        &mut self,
        line: &Line,
        port: &mut impl Port,
    ) -> Option<(u64, Result<Value, String>)> {
        match line.parse() {
            Ok(Envelope { id, request: Request::ReceiveStop(_) }) if self.reception.is_some() => {
                port.open(0, 0);
                self.stopping = Some(id);
                None
            }
            Ok(envelope) => Some((envelope.id, self.execute(&envelope.request, port))),
            Err((id, text)) => Some((id, Err(text))),
        }
    }

    fn execute(&mut self, request: &Request, port: &mut impl Port) -> Result<Value, String> {
        match request {
            Request::PingAgent(_) => json(&alive()),
            Request::ReceiveStart(command) => json(&self.start(command, port)?),
            Request::ReceiveStatus(_) => json(&self.totals(port)?),
            Request::ReceiveStop(_) => Err(none_started()),
            Request::ReceiveRuns(command) => match &self.reception {
                Some(reception) if reception.running => {
                    Err("the reception is running; send receive_stop first".to_owned())
                }
                Some(reception) => json(&reception.record.answer(command)),
                None => Err(none_started()),
            },
            Request::Transmit(command) => {
                let destination = command
                    .destination
                    .parse::<SocketAddrV4>()
                    .map_err(|_| format!("{} is no address and port", command.destination))?;
                json(&port.transmit(command, (*destination.ip(), destination.port()))?)
            }
            Request::WorkStart(command) => json(&port.start_work(command)?),
            Request::WorkStatus(_) => json(&port.work(false)?),
            Request::WorkStop(_) => json(&port.work(true)?),
            Request::RoundTripsStart(command) => json(&port.start_round_trips(command)?),
            Request::RoundTripsStatus(command) => json(&port.round_trips(command.from)?),
            Request::PowerOff(_) => {
                self.line.close();
                json(&Done {})
            }
            _ => Err("the application of a process target does not know this request".to_owned()),
        }
    }

    fn start(
        &mut self,
        command: &ReceiveStart,
        port: &mut impl Port,
    ) -> Result<ReceiveStarted, String> {
        if self.reception.as_ref().is_some_and(|reception| reception.running) {
            return Err("a reception is running; send receive_stop first".to_owned());
        }
        let most_offset = (LOOKED_AT_BYTES - HEAD_BYTES) as u32;
        if command.port == 0 || command.sequence_offset_bytes > most_offset {
            return Err(format!(
                "port {} and sequence_offset_bytes {} are not 1 to 65535 and 0 to {most_offset}",
                command.port, command.sequence_offset_bytes
            ));
        }
        if !(1..=MOST_RUNS).contains(&command.max_runs) {
            return Err(format!("max_runs {} is not 1 to {MOST_RUNS}", command.max_runs));
        }
        // The last record's memory goes before the next one's comes.
        self.reception = None;
        let record = Record::new(command);
        let full_before = port.counters().buffer_full;
        self.reception = Some(Reception { record, running: true, full_before });
        let buffer_bytes = port.open(command.port, u64::from(command.buffer_bytes));
        let tsc = read_tsc();
        Ok(ReceiveStarted { buffer_bytes, max_runs: command.max_runs, tsc, polls_by: None })
    }

    fn totals(&self, port: &impl Port) -> Result<ReceiveTotals, String> {
        let reception = self.reception.as_ref().ok_or_else(none_started)?;
        let socket_drops = port.counters().buffer_full.saturating_sub(reception.full_before);
        let totals = reception.record.totals();
        Ok(ReceiveTotals { socket_drops, saturated: socket_drops > 0, ..totals })
    }
}

fn none_started() -> String {
    "there was no reception; send receive_start first".to_owned()
}
