//! An echo service above the stack, over TCP and UDP (RFC 862): what comes goes back from the very buffer
//! that it came in.

use std::time::Duration;

use serde_json::Value;
use warikomi_clock::Time;
use warikomi_protocol::{Envelope, Request};
use warikomi_stack::{
    CHECK_INTERVAL, Invitation, Slice, SocketOrders, StackError, Vi, Waiting, flags,
};

use super::line::{ControlLine, alive, json};

/// Where the service is, for TCP as for UDP. The stack has to be told to accept connections there.
pub const PORT: u16 = 7;

/// Completions taken at once.
const BATCH: usize = 64;
/// The longest sleep: requests and ends of neighbours end it sooner.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Runs in the place of an application until a neighbour ends, or the support side says that it is over.
pub fn main() -> Result<(), StackError> {
    run(Invitation::accept("application")?)
}

/// Runs with this invitation.
pub fn run(invitation: Invitation) -> Result<(), StackError> {
    let (vi, mut invitation) = Vi::accept(invitation)?;
    let line = ControlLine::new(invitation.file("the control socket")?)?;
    let waiting = invitation.settings.waiting;
    let mut echo = Echo { vi, line, waiting, next_look: Time::ZERO };
    echo.begin()?;
    while !echo.line.is_over() {
        echo.step()?;
    }
    Ok(())
}

struct Echo {
    vi: Vi,
    line: ControlLine,
    waiting: Waiting,
    next_look: Time,
}

impl Echo {
    fn begin(&mut self) -> Result<(), StackError> {
        for token in 0..self.vi.buffers() {
            self.vi.post(token);
        }
        self.vi.flush();
        // What waits is bounded by the buffers: each that waits is one less to receive into.
        if self.vi.order(SocketOrders { port: PORT, buffer_bytes: u64::MAX }) {
            return Ok(());
        }
        self.vi.check()?;
        Err(StackError::Invitation("an echo service needs a stack that takes orders".to_owned()))
    }

    fn step(&mut self) -> Result<(), StackError> {
        let mut next = match self.waiting {
            Waiting::Poll => self.vi.recv_poll()?,
            Waiting::Wait | Waiting::Hybrid { .. } => self.vi.wait_for_any(Some(LONGEST_SLEEP))?,
        };
        let idle = next.is_none();
        for _ in 0..BATCH {
            let Some(slice) = next else { break };
            self.send_back(slice);
            next = self.vi.recv_poll()?;
        }
        if let Some(last) = next {
            self.send_back(last);
        }
        while let Some(sent) = self.vi.sent()? {
            self.vi.post(sent.token);
        }
        self.vi.flush();
        if idle && self.waiting == Waiting::Poll {
            // The neighbours may be on this very core.
            rustix::thread::sched_yield();
        }
        self.answer()
    }

    /// What cannot go back is dropped: its buffer is posted again.
    fn send_back(&mut self, slice: Slice) {
        let sent = if slice.has(flags::STREAM) {
            self.vi.send_stream(slice.token, slice.offset, slice.length, None)
        } else {
            slice.has(flags::UDP) && self.vi.send_back(&slice)
        };
        if !sent {
            self.vi.post(slice.token);
        }
    }

    /// Answers what the support side has asked, now and then.
    fn answer(&mut self) -> Result<(), StackError> {
        let now = self.vi.clock().now();
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + CHECK_INTERVAL;
        while let Some(line) = self.line.next()? {
            let (id, outcome) = match line.parse() {
                Ok(Envelope { id, request }) => (id, self.execute(&request)),
                Err((id, text)) => (id, Err(text)),
            };
            self.line.answer(id, outcome)?;
        }
        Ok(())
    }

    fn execute(&mut self, request: &Request) -> Result<Value, String> {
        match request {
            Request::PingAgent(_) => json(&alive()),
            Request::PowerOff(_) => {
                self.line.close();
                json(&warikomi_protocol::answers::Done {})
            }
            _ => Err("an echo service does not know this request".to_owned()),
        }
    }
}
