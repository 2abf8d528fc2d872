//! The application's process: receives, accounts for what it gets, and answers requests.

use std::time::Duration;

use warikomi_clock::{Span, Time, read_tsc};
use warikomi_stack::{CHECK_INTERVAL, Invitation, Slice, StackError, Vi, Waiting};

use super::agent::{Agent, LOOKED_AT_BYTES};
use super::port::ViPort;

/// Completions taken at once.
const BATCH: usize = 64;

/// The longest sleep: requests and ends of neighbours end it sooner.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Beside work, a shorter sleep than this is not worth it: a timer may be as late.
const SHORTEST_SLEEP: Span = Span::from_us(100);

/// Runs until a neighbour ends, or the support side says that it is over.
pub fn main() -> Result<(), StackError> {
    run(Invitation::accept("application")?)
}

/// Runs with this invitation.
pub fn run(invitation: Invitation) -> Result<(), StackError> {
    let (vi, mut invitation) = Vi::accept(invitation)?;
    let agent = Agent::new(invitation.file("the control socket")?)?;
    let mut application = Application {
        port: ViPort::new(vi, invitation.settings.station.address),
        agent,
        waiting: invitation.settings.waiting,
        copy: vec![0; usize::from(u16::MAX)],
        copy_out: invitation.settings.copy_out,
        next_look: Time::ZERO,
    };
    while !application.agent.is_over() {
        application.step()?;
    }
    Ok(())
}

struct Application {
    port: ViPort,
    agent: Agent,
    waiting: Waiting,
    copy: Vec<u8>,
    copy_out: bool,
    next_look: Time,
}

impl Application {
    /// Goes on with the work, receives once, as it was told to wait, and answers what was asked.
    fn step(&mut self) -> Result<(), StackError> {
        let first = match self.port.continue_work()? {
            None => self.receive()?,
            Some(idle) => self.receive_beside(idle)?,
        };
        if let Some(first) = first {
            self.batch(first)?;
        }
        let now = self.port.network.vi.clock().now();
        let resting = self.waiting != Waiting::Poll && self.port.is_idle();
        if now >= self.next_look || (first.is_none() && resting) {
            self.next_look = now + CHECK_INTERVAL;
            self.drain_before_answers()?;
            while self.agent.serve(&mut self.port)? {
                self.drain_before_answers()?;
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Slice>, StackError> {
        let vi = &mut self.port.network.vi;
        let first = match self.waiting {
            Waiting::Wait => vi.recv_wait(Some(LONGEST_SLEEP))?,
            Waiting::Hybrid { poll_ns } => {
                vi.recv_hybrid(Duration::from_nanos(poll_ns), Some(LONGEST_SLEEP))?
            }
            Waiting::Poll => vi.recv_poll()?,
        };
        if first.is_none() && self.waiting == Waiting::Poll {
            // The neighbours may be on this very core.
            rustix::thread::sched_yield();
        }
        Ok(first)
    }

    /// While there is work, which has nothing to do for `idle` unless something comes.
    fn receive_beside(&mut self, idle: Span) -> Result<Option<Slice>, StackError> {
        let computes = self.port.only_computes() && self.waiting != Waiting::Poll;
        let vi = &mut self.port.network.vi;
        if idle > SHORTEST_SLEEP && self.waiting != Waiting::Poll {
            let longest = Duration::from_nanos(idle.as_ps() / 1_000).min(LONGEST_SLEEP);
            return vi.wait_for_any(Some(longest));
        }
        let first = vi.recv_poll()?;
        // The neighbours may be on this very core: the work's steps are short for their sake. To compute is to keep it.
        if first.is_none() && !computes {
            rustix::thread::sched_yield();
        }
        Ok(first)
    }

    /// What has come belongs into the answers.
    fn drain_before_answers(&mut self) -> Result<(), StackError> {
        for _ in 0..self.port.network.vi.buffers().div_ceil(BATCH as u32) {
            let Some(first) = self.port.network.vi.recv_poll()? else { break };
            self.batch(first)?;
        }
        Ok(())
    }

    fn batch(&mut self, first: Slice) -> Result<(), StackError> {
        let mut batch = [first; BATCH];
        let mut count = 1;
        while count < BATCH
            && let Some(slice) = self.port.network.vi.recv_poll()?
        {
            batch[count] = slice;
            count += 1;
        }
        let tsc = read_tsc();
        if let Some(record) = self.agent.record() {
            record.begin_batch(count, BATCH, tsc);
        }
        for slice in &batch[..count] {
            self.take(slice, tsc);
        }
        self.port.network.vi.flush();
        Ok(())
    }

    #[inline]
    fn take(&mut self, slice: &Slice, tsc: u64) {
        if let Some(payload) = self.port.network.payload(slice)
            && let Some(record) = self.agent.record()
        {
            let length = usize::from(payload.length);
            if self.copy_out {
                self.port.network.vi.copy_out(&payload, &mut self.copy);
                record.in_place(&self.copy[..length], length, tsc);
            } else {
                let mut head = [0; LOOKED_AT_BYTES];
                let wanted = record.looked_at_bytes().min(LOOKED_AT_BYTES);
                let seen = self.port.network.vi.copy_out(&payload, &mut head[..wanted]);
                record.in_place(&head[..seen], length, tsc);
            }
        }
        self.port.network.again(slice.token);
    }
}
