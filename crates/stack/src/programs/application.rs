//! The application's process: receives, accounts for what it gets, and answers requests.

use std::net::Ipv4Addr;
use std::time::Duration;

use warikomi_clock::{Span, Time, read_tsc};
use warikomi_guest::answers::Transmitted;
use warikomi_guest::commands::Transmit;
use warikomi_guest::payload::{HEAD_BYTES, Head};
use warikomi_shared::SharedWords;

use super::agent::{Agent, LOOKED_AT_BYTES, Port};
use crate::datagram::{Content, HEADROOM_BYTES, parse};
use crate::entry::{Destination, Slice, flags};
use crate::invitation::Waiting;
use crate::socket::{OrdersWords, Socket, SocketCounters, SocketOrders};
use crate::vi::CHECK_INTERVAL;
use crate::{Invitation, StackError, Vi};

/// Completions taken at once.
const BATCH: usize = 64;

/// The longest sleep: requests and ends of neighbours end it sooner.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// How long the stack may take to follow orders.
const ORDERS_TIMEOUT: Span = Span::from_ms(2_000);

/// A part of the buffers that is kept for sending, one in so many.
const SENDING_PART: u32 = 16;

/// Runs until a neighbour ends, or the support side says that it is over.
pub fn main() -> Result<(), StackError> {
    run(Invitation::accept("application")?)
}

/// Runs with this invitation.
pub fn run(invitation: Invitation) -> Result<(), StackError> {
    let (vi, mut invitation) = Vi::accept(invitation)?;
    let agent = Agent::new(invitation.file("the control socket")?)?;
    let mut application = Application {
        port: ViPort::new(vi, invitation.settings.station.address)?,
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
    /// Receives once, as it was told to wait, and answers what was asked.
    fn step(&mut self) -> Result<(), StackError> {
        let vi = &mut self.port.vi;
        let first = match self.waiting {
            Waiting::Wait => vi.recv_wait(Some(LONGEST_SLEEP))?,
            Waiting::Hybrid { poll_ns } => {
                vi.recv_hybrid(Duration::from_nanos(poll_ns), Some(LONGEST_SLEEP))?
            }
            Waiting::Poll => vi.recv_poll()?,
        };
        if let Some(first) = first {
            self.batch(first)?;
        } else if self.waiting == Waiting::Poll {
            // The neighbours may be on this very core.
            rustix::thread::sched_yield();
        }
        let now = self.port.vi.clock().now();
        if now >= self.next_look || (first.is_none() && self.waiting != Waiting::Poll) {
            self.next_look = now + CHECK_INTERVAL;
            self.drain_before_answers()?;
            while self.agent.serve(&mut self.port)? {
                self.drain_before_answers()?;
            }
        }
        Ok(())
    }

    /// What has come belongs into the answers.
    fn drain_before_answers(&mut self) -> Result<(), StackError> {
        for _ in 0..self.port.vi.buffers().div_ceil(BATCH as u32) {
            let Some(first) = self.port.vi.recv_poll()? else { break };
            self.batch(first)?;
        }
        Ok(())
    }

    fn batch(&mut self, first: Slice) -> Result<(), StackError> {
        let mut batch = [first; BATCH];
        let mut count = 1;
        while count < BATCH
            && let Some(slice) = self.port.vi.recv_poll()?
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
        self.port.vi.flush();
        Ok(())
    }

    #[inline]
    fn take(&mut self, slice: &Slice, tsc: u64) {
        if let Some(payload) = self.port.payload(slice)
            && let Some(record) = self.agent.record()
        {
            let length = usize::from(payload.length);
            if self.copy_out {
                self.port.vi.copy_out(&payload, &mut self.copy);
                record.in_place(&self.copy[..length], length, tsc);
            } else {
                let mut head = [0; LOOKED_AT_BYTES];
                let wanted = record.looked_at_bytes().min(LOOKED_AT_BYTES);
                let seen = self.port.vi.copy_out(&payload, &mut head[..wanted]);
                record.in_place(&head[..seen], length, tsc);
            }
        }
        self.port.again(slice.token);
    }
}

/// The network as the application has it.
struct ViPort {
    vi: Vi,
    address: Ipv4Addr,
    /// With a stack below: what it is told, and where it counts.
    orders: Option<OrdersWords<SharedWords>>,
    /// Without one: the application's own.
    socket: Socket,
    /// Buffers to post; the rest wait here, and are sent from.
    posted_most: u32,
    spare: Vec<u32>,
}

impl ViPort {
    fn new(vi: Vi, address: Ipv4Addr) -> Result<ViPort, StackError> {
        let place = vi.memory().channel(0);
        let with_stack = vi.memory().shape().channels == 2;
        let orders = place
            .filter(|_| with_stack)
            .map(|place| OrdersWords::new(vi.memory().words().clone(), place));
        let buffers = vi.buffers();
        let spare: Vec<u32> = (0..buffers).rev().collect();
        let socket = Socket::new(buffers);
        let mut port = ViPort { vi, address, orders, socket, posted_most: 0, spare };
        port.resize(u32::MAX);
        Ok(port)
    }

    /// Keeps as many buffers posted as are asked for and can be.
    fn resize(&mut self, wanted: u32) {
        let buffers = self.vi.buffers();
        let most = buffers - (buffers / SENDING_PART).min(buffers - 1);
        self.posted_most = wanted.clamp(1, most);
        while self.vi.end().custody().posted() < self.posted_most
            && let Some(token) = self.spare.pop()
        {
            if !self.vi.post(token) {
                self.spare.push(token);
                break;
            }
        }
        self.vi.flush();
    }

    /// Posts a buffer again, or keeps it if enough are posted.
    #[inline]
    fn again(&mut self, token: u32) {
        let enough = self.vi.end().custody().posted() >= self.posted_most;
        if enough || !self.vi.post(token) {
            self.spare.push(token);
        }
    }

    /// The payload of a datagram for us; accounts for what is none.
    #[inline]
    fn payload(&mut self, slice: &Slice) -> Option<Slice> {
        if self.orders.is_some() {
            return slice.has(flags::UDP).then_some(*slice);
        }
        if slice.has(flags::RETURNED) {
            return None;
        }
        let frame = self.vi.bytes(slice)?;
        match parse(&frame, slice.has(flags::CHECKSUMS_GOOD)) {
            Content::Datagram(found) if found.destination == self.address => {
                let ours =
                    self.socket.arrived(slice.token, found.destination_port, found.payload_bytes);
                // It is used up at once.
                self.socket.consumed(slice.token);
                ours.then_some(Slice {
                    offset: slice.offset + found.payload_offset,
                    length: found.payload_bytes,
                    ..*slice
                })
            }
            Content::Malformed(_) => {
                self.socket.malformed();
                None
            }
            Content::Datagram(_) | Content::Other => {
                self.socket.counters.other += 1;
                None
            }
        }
    }

    fn collect_sent(&mut self, outcome: &mut Transmitted) -> Result<(), StackError> {
        while let Some(sent) = self.vi.sent()? {
            if sent.has(flags::FAILED) {
                outcome.errors += 1;
                outcome.sent -= 1;
            }
            self.spare.push(sent.token);
        }
        Ok(())
    }

    fn send_all(&mut self, command: &Transmit, to: Destination) -> Result<Transmitted, StackError> {
        let mut outcome = Transmitted {
            sent: 0,
            errors: 0,
            last_errno: None,
            took_ns: 0,
            late: 0,
            timed_out: false,
        };
        let clock = *self.vi.clock();
        let begin = clock.now();
        let (interval, patience) =
            (Span::from_us(command.interval_us), Span::from_ms(command.timeout_ms));
        let mut progress = begin;
        while outcome.sent + outcome.errors < command.count && !outcome.timed_out {
            let due = begin + interval * (outcome.sent + outcome.errors);
            self.vi.check()?;
            let now = clock.now();
            if now < due {
                continue;
            }
            outcome.late += u64::from(interval > Span::ZERO && now > due + interval);
            self.collect_sent(&mut outcome)?;
            let length = command.payload_bytes as u16;
            let sequence = outcome.sent + outcome.errors;
            if self.send_one(Head { run_id: command.run_id, sequence }, length, to) {
                outcome.sent += 1;
                progress = now;
            } else {
                outcome.timed_out = now.since(progress) > patience;
                rustix::thread::sched_yield();
            }
        }
        outcome.took_ns = clock.now().since(begin).as_ps() / 1_000;
        Ok(outcome)
    }

    fn send_one(&mut self, head: Head, length: u16, to: Destination) -> bool {
        let Some(token) = self.spare.pop() else { return false };
        let place = Slice { offset: HEADROOM_BYTES, length, ..Slice::posted(token) };
        let Some(bytes) = self.vi.bytes(&place) else { return false };
        bytes.copy_from(&head.to_bytes());
        if !self.vi.send(token, HEADROOM_BYTES, length, Some(to)) {
            self.spare.push(token);
            return false;
        }
        self.vi.flush();
        true
    }
}

impl Port for ViPort {
    fn open(&mut self, port: u16, buffer_bytes: u64) -> u64 {
        let orders = SocketOrders { port, buffer_bytes };
        let each = u64::from(self.vi.buffer_bytes());
        let wanted = u32::try_from(buffer_bytes / each).unwrap_or(u32::MAX);
        let Some(words) = &mut self.orders else {
            // The receive buffer is what is posted.
            self.socket.follow(SocketOrders { buffer_bytes: u64::MAX, ..orders });
            if port != 0 {
                self.resize(wanted);
            }
            return u64::from(self.posted_most) * each;
        };
        words.give(orders);
        // The stack may sleep: it is woken as for something to be sent.
        let clock = *self.vi.clock();
        let end = clock.now() + ORDERS_TIMEOUT;
        while !words.followed() && clock.now() < end && self.vi.check().is_ok() {
            self.vi.end().wake_provider();
            rustix::thread::sched_yield();
        }
        buffer_bytes
    }

    fn counters(&self) -> SocketCounters {
        match self.vi.memory().channel(0).filter(|_| self.orders.is_some()) {
            Some(place) => SocketCounters::of_channel(self.vi.memory().words(), place),
            None => self.socket.counters,
        }
    }

    fn transmit(
        &mut self,
        command: &Transmit,
        (address, port): (Ipv4Addr, u16),
    ) -> Result<Transmitted, String> {
        let room = self.vi.buffer_bytes() - u32::from(HEADROOM_BYTES);
        if !(HEAD_BYTES as u32..=room).contains(&command.payload_bytes) {
            return Err(format!("payload_bytes must be {HEAD_BYTES} to {room} here"));
        }
        if self.orders.is_none() {
            return Err("only a topology with a stack sends datagrams".to_owned());
        }
        let to = Destination { address, port, source_port: port };
        self.send_all(command, to).map_err(|error| error.to_string())
    }
}
