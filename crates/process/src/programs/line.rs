//! The line to the support side: requests in, answers out, as the agent in a kernel target speaks.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use warikomi_clock::read_tsc;
use warikomi_protocol::answers::Alive;
use warikomi_protocol::lines::{Line, Splitter};
use warikomi_protocol::{Outcome, Response};
use warikomi_stack::StackError;

/// How long the support side may take to read an answer before it counts as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The control socket.
pub(super) struct ControlLine {
    control: UnixStream,
    splitter: Splitter,
    /// The support side has closed the control socket, or will ask nothing more.
    over: bool,
}

impl ControlLine {
    pub(super) fn new(control: OwnedFd) -> Result<ControlLine, StackError> {
        let control = UnixStream::from(control);
        control.set_nonblocking(true)?;
        control.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(ControlLine { control, splitter: Splitter::default(), over: false })
    }

    /// Whether the support side will ask nothing more.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// It will not, from now on.
    pub(super) fn close(&mut self) {
        self.over = true;
    }

    /// The control socket.
    pub(super) fn control(&self) -> &UnixStream {
        &self.control
    }

    /// The next line, if one has come. Does not wait.
    pub(super) fn next(&mut self) -> Result<Option<Line>, StackError> {
        let mut buffer = [0; 4_096];
        loop {
            if let Some(line) = self.splitter.next() {
                return Ok(Some(line));
            }
            match self.control.read(&mut buffer) {
                Ok(0) => {
                    self.over = true;
                    return Ok(None);
                }
                Ok(count) => self.splitter.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers the request of this number.
    pub(super) fn answer(
        &mut self,
        id: u64,
        outcome: Result<Value, String>,
    ) -> Result<(), StackError> {
        let outcome = match outcome {
            Ok(value) => Outcome::Ok(value),
            Err(text) => Outcome::Error(text),
        };
        let line = Response { id, outcome }.to_line();
        // An answer may be longer than the socket's buffer; the support side is reading it.
        self.control.set_nonblocking(false)?;
        self.control.write_all(line.as_bytes())?;
        Ok(self.control.set_nonblocking(true)?)
    }
}

/// An answer as it goes over the line.
pub(super) fn json(answer: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

/// The answer to whether we live.
pub(super) fn alive() -> Alive {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let uptime_ms = now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000;
    Alive { tsc: read_tsc(), uptime_ms }
}
