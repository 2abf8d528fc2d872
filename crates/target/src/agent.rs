//! Who answers requests; and the line to a guest agent, or to an application that speaks its protocol:
//! requests out, answers in, both without blocking.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use warikomi_protocol::{
    Envelope, Event, FromGuest, MAX_RESPONSE_BYTES, Outcome, Ready, Request, Response,
};

use crate::TargetError;

/// Who answers requests in a target.
pub trait Agent {
    /// Carries out a request of the agent's protocol and gives its answer, serving the driver
    /// meanwhile; `allowance` is how long the command itself may take. `ask` of `dyn Target` knows
    /// the types of the answers.
    fn request(&mut self, request: Request, allowance: Duration) -> Result<Value, TargetError>;

    /// Sends a request and waits for nothing: [`answer`](Agent::answer) gives its answer by this number. `None` if
    /// requests cannot be taken in this way.
    fn post(&mut self, request: Request) -> Option<u64> {
        let _ = request;
        None
    }

    /// The answer to a request that was posted, once it has come: what came of it, or why nothing did.
    fn answer(&mut self, request: u64) -> Option<Result<Value, String>> {
        let _ = request;
        None
    }

    /// Whether there is an application above the driver that receives and answers requests.
    fn has_application(&self) -> bool;

    /// Says that an application in the target polls the device from now on, or does not any more. A
    /// guest's kernel then makes accesses with interrupts enabled at any time, and each interrupt has to
    /// wait for a moment at which it makes none.
    fn set_polled(&mut self, polled: bool) {
        let _ = polled;
    }

    /// From now on the target prints all that it has to say, to its console.
    fn print_all(&mut self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Marks of harm that the driver's system has noticed since it started, as bits of its own; 0 if
    /// there are none, or no system that would notice.
    fn fault_marks(&mut self) -> Result<u64, TargetError> {
        Ok(0)
    }
}

/// Answers kept: one is waited for at a time, and a guest may send more unasked.
const MAX_ANSWERS: usize = 16;

/// Bytes read in one go, and how often in one look: a guest that talks without end keeps nothing else waiting.
const READ_BYTES: usize = 16 * 1024;
const READS_PER_LOOK: usize = 4;

/// The support side's end of the agent's line.
pub struct AgentLine {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
    answers: VecDeque<Response>,
    ready: Option<Ready>,
    garbage: u64,
    next_request: u64,
}

impl AsFd for AgentLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AgentLine {
    /// Over this socket.
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(AgentLine {
            stream,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            answers: VecDeque::new(),
            ready: None,
            garbage: 0,
            next_request: 1,
        })
    }

    /// A number that no request has had.
    pub fn next_id(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request - 1
    }

    /// Queues a line to send.
    pub fn send(&mut self, line: &str) {
        self.outgoing.extend(line.as_bytes());
    }

    /// Queues a request; its number.
    pub fn post(&mut self, request: Request) -> u64 {
        let id = self.next_id();
        self.send(&Envelope::new(id, request).to_line());
        id
    }

    /// Whether something is queued.
    pub fn has_to_send(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Moves bytes in both directions.
    pub fn pump(&mut self) {
        self.speak();
        self.listen();
    }

    /// Says what is queued, as far as there is room.
    pub(crate) fn speak(&mut self) {
        while !self.outgoing.is_empty() {
            let (chunk, _) = self.outgoing.as_slices();
            match self.stream.write(chunk) {
                Ok(0) => break,
                Ok(count) => drop(self.outgoing.drain(..count)),
                // The guest's end may be gone; the process's exit is reported elsewhere.
                Err(_) => break,
            }
        }
    }

    /// Takes what has come, or a bounded part of it.
    pub(crate) fn listen(&mut self) {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..READS_PER_LOOK {
            match self.stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => self.take(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                // An endless line keeps its start and is dropped as garbage at its end.
                if self.incoming.len() < MAX_RESPONSE_BYTES {
                    self.incoming.push(byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.incoming);
            let text = String::from_utf8_lossy(&line);
            match FromGuest::parse(text.trim()) {
                Ok(FromGuest::Event(Event::Ready(ready))) => self.ready = Some(ready),
                Ok(FromGuest::Response(response)) => {
                    if self.answers.len() == MAX_ANSWERS {
                        self.answers.pop_front();
                    }
                    self.answers.push_back(response);
                }
                Err(_) if text.trim().is_empty() => {}
                Err(_) => self.garbage += 1,
            }
        }
    }

    /// The agent's first report, once it has come.
    pub fn ready(&self) -> Option<&Ready> {
        self.ready.as_ref()
    }

    /// The same as plain values: what came of it, or why nothing did.
    pub fn outcome(&mut self, id: u64) -> Option<Result<Value, String>> {
        Some(match self.answer(id)?.outcome {
            Outcome::Ok(value) => Ok(value),
            Outcome::Error(message) => Err(message),
        })
    }

    /// The answer to request `id`, once it has come. Answers to other requests, given up long ago,
    /// are dropped.
    pub fn answer(&mut self, id: u64) -> Option<Response> {
        while let Some(response) = self.answers.pop_front() {
            if response.id == id {
                return Some(response);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_garbage_and_finds_the_answer_behind_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut line = AgentLine::new(ours).unwrap();
        theirs.write_all(b"\xff\xfe{]\n\n{\"id\":1,\"ok\":{}}\n{\"id\":2,\"ok\":{}}\n").unwrap();
        line.pump();
        assert_eq!(line.answer(2).map(|answer| answer.id), Some(2));
        assert_eq!(line.garbage, 1);
    }

    #[test]
    fn a_guest_that_talks_without_end_is_heard_a_part_at_a_time() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut line = AgentLine::new(ours).unwrap();
        let lines = b"x\n".repeat(READ_BYTES / 2);
        for _ in 0..READS_PER_LOOK + 2 {
            theirs.write_all(&lines).unwrap();
        }
        line.pump();
        assert_eq!(line.garbage as usize, READS_PER_LOOK * READ_BYTES / 2);
        line.pump();
        assert_eq!(line.garbage as usize, (READS_PER_LOOK + 2) * READ_BYTES / 2);
    }

    #[test]
    fn an_endless_line_does_not_grow() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut line = AgentLine::new(ours).unwrap();
        for _ in 0..64 {
            theirs.write_all(&[b'x'; 8192]).unwrap();
            line.pump();
        }
        assert_eq!(line.incoming.len(), MAX_RESPONSE_BYTES);
    }
}
