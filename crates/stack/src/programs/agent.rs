//! Requests of the support side, answered by whoever holds the socket: the same protocol as the agent
//! in a kernel target speaks.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use warikomi_clock::read_tsc;
use warikomi_guest::answers::{Alive, Done, ReceiveStarted, ReceiveTotals, Transmitted};
use warikomi_guest::commands::{ReceiveStart, Transmit};
use warikomi_guest::lines::{Line, Splitter};
use warikomi_guest::payload::HEAD_BYTES;
use warikomi_guest::record::{MOST_RUNS, Record};
use warikomi_guest::{Envelope, Outcome, Request, Response};

use crate::StackError;
use crate::socket::SocketCounters;

/// How long the support side may take to read an answer before it counts as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a datagram that are looked at where it lies; its head must be among them.
pub(super) const LOOKED_AT_BYTES: usize = 128;

/// What is below the agent.
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
    control: UnixStream,
    splitter: Splitter,
    reception: Option<Reception>,
    /// A request to stop whose answer waits until what has come is in the record.
    stopping: Option<u64>,
    /// The support side has closed the control socket.
    over: bool,
}

impl Agent {
    pub(super) fn new(control: OwnedFd) -> Result<Agent, StackError> {
        let control = UnixStream::from(control);
        control.set_nonblocking(true)?;
        control.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Agent {
            control,
            splitter: Splitter::default(),
            reception: None,
            stopping: None,
            over: false,
        })
    }

    /// Whether the support side will ask nothing more.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The control socket.
    pub(super) fn control(&self) -> &UnixStream {
        &self.control
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
            self.send(&response(id, outcome).to_line())?;
        }
        let mut buffer = [0; 4_096];
        loop {
            while let Some(line) = self.splitter.next() {
                if let Some(response) = self.answer(&line, port) {
                    self.send(&response.to_line())?;
                } else {
                    return Ok(true);
                }
            }
            match self.control.read(&mut buffer) {
                Ok(0) => {
                    self.over = true;
                    return Ok(false);
                }
                Ok(count) => self.splitter.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn send(&mut self, line: &str) -> Result<(), StackError> {
        // An answer may be longer than the socket's buffer; the support side is reading it.
        self.control.set_nonblocking(false)?;
        self.control.write_all(line.as_bytes())?;
        Ok(self.control.set_nonblocking(true)?)
    }

    /// `None` if the answer comes later.
    fn answer(&mut self, line: &Line, port: &mut impl Port) -> Option<Response> {
        match line.parse() {
            Ok(Envelope { id, request: Request::ReceiveStop(_) }) if self.reception.is_some() => {
                port.open(0, 0);
                self.stopping = Some(id);
                None
            }
            Ok(envelope) => Some(response(envelope.id, self.execute(&envelope.request, port))),
            Err((id, text)) => Some(response(id, Err(text))),
        }
    }

    fn execute(&mut self, request: &Request, port: &mut impl Port) -> Result<Value, String> {
        match request {
            Request::PingAgent(_) => json(&Alive { tsc: read_tsc(), uptime_ms: uptime_ms() }),
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
            Request::PowerOff(_) => {
                self.over = true;
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

fn response(id: u64, outcome: Result<Value, String>) -> Response {
    let outcome = match outcome {
        Ok(value) => Outcome::Ok(value),
        Err(text) => Outcome::Error(text),
    };
    Response { id, outcome }
}

fn json(answer: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

fn none_started() -> String {
    "there was no reception; send receive_start first".to_owned()
}

fn uptime_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}
