//! The network as the application has it: buffers, a socket, and what it sends.

use std::net::Ipv4Addr;

use warikomi_clock::Span;
use warikomi_protocol::answers::Transmitted;
use warikomi_protocol::commands::Transmit;
use warikomi_protocol::payload::{HEAD_BYTES, Head, filler};
use warikomi_stack::{
    Content, Destination, HEADROOM_BYTES, Slice, Socket, SocketCounters, SocketOrders, StackError,
    Vi, flags, parse,
};

/// A part of the buffers that is kept for sending, one in so many.
const SENDING_PART: u32 = 16;

/// What a buffer is being sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A datagram that was asked for by itself.
    Transmit,
    /// The work's connection.
    Stream,
    /// The end of that connection.
    End,
    /// A datagram of the work beside the connection.
    Beside,
}

/// Buffers that have come back from being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) sent: u64,
    pub(super) failed: u64,
}

/// The network as the application has it.
pub(super) struct Network {
    pub(super) vi: Vi,
    address: Ipv4Addr,
    /// Without a stack below: the application's own.
    socket: Socket,
    /// Buffers to post; the rest wait here, and are sent from.
    posted_most: u32,
    spare: Vec<u32>,
    /// What each buffer was last sent for.
    purposes: Box<[Purpose]>,
    /// How many were handed over, for each purpose, and what has come back.
    handed: [u64; 4],
    returned: [Returned; 4],
    /// The end of the work's connection is to be said, and waits for a buffer: nothing of another work's
    /// may go over this connection.
    end_owed: bool,
}

impl Network {
    pub(super) fn new(vi: Vi, address: Ipv4Addr) -> Network {
        let buffers = vi.buffers();
        let mut network = Network {
            vi,
            address,
            socket: Socket::new(buffers),
            posted_most: 0,
            spare: (0..buffers).rev().collect(),
            purposes: vec![Purpose::Transmit; buffers as usize].into_boxed_slice(),
            handed: [0; 4],
            returned: [Returned::default(); 4],
            end_owed: false,
        };
        network.resize(u32::MAX);
        network
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
    pub(super) fn again(&mut self, token: u32) {
        let enough = self.vi.end().custody().posted() >= self.posted_most;
        if enough || !self.vi.post(token) {
            self.spare.push(token);
        }
    }

    /// The payload of a datagram for us; accounts for what is none.
    #[inline]
    pub(super) fn payload(&mut self, slice: &Slice) -> Option<Slice> {
        if self.vi.has_stack() {
            return slice.has(flags::UDP).then_some(*slice);
        }
        if slice.has(flags::RETURNED) {
            return None;
        }
        let frame = self.vi.bytes(slice)?;
        match parse(&frame, slice.has(flags::CHECKSUMS_GOOD)) {
            Content::Datagram(found) if found.destination == self.address => {
                // It is used up at once: no room is asked for.
                self.socket.passed(found.destination_port).then_some(Slice {
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

    /// Takes up what has been sent.
    pub(super) fn collect(&mut self) -> Result<(), StackError> {
        while let Some(sent) = self.vi.sent()? {
            // A token of ours: the channel's end gives no others.
            let purpose = self.purposes[sent.token as usize];
            let returned = &mut self.returned[purpose as usize];
            if sent.has(flags::FAILED) {
                returned.failed += 1;
            } else {
                returned.sent += 1;
            }
            self.spare.push(sent.token);
        }
        Ok(())
    }

    /// What has come back since the application began.
    pub(super) fn returned(&self, purpose: Purpose) -> Returned {
        self.returned[purpose as usize]
    }

    /// Buffers that were handed over and have not come back.
    pub(super) fn in_flight(&self, purpose: Purpose) -> u64 {
        let Returned { sent, failed } = self.returned(purpose);
        self.handed[purpose as usize] - sent - failed
    }

    /// Sends a datagram made of these parts. `false` if there is no buffer.
    pub(super) fn send_datagram(
        &mut self,
        purpose: Purpose,
        parts: [&[u8]; 2],
        to: Destination,
    ) -> bool {
        self.send(purpose, HEADROOM_BYTES, parts, |vi, slice| {
            vi.send(slice.token, slice.offset, slice.length, Some(to))
        })
    }

    /// Sends bytes over the connection, which is opened if `to` is given, behind the end of the one
    /// before. `false` if there is no buffer.
    pub(super) fn send_stream(&mut self, bytes: &[u8], to: Option<Destination>) -> bool {
        if self.end_owed && !self.end_stream() {
            return false;
        }
        self.send(Purpose::Stream, 0, [bytes, &[]], |vi, slice| {
            vi.send_stream(slice.token, slice.offset, slice.length, to)
        })
    }

    /// Ends the connection behind what was sent over it. `false` if there is no buffer: then it ends
    /// before anything else is sent over one.
    pub(super) fn end_stream(&mut self) -> bool {
        self.end_owed = !self.send(Purpose::End, 0, [&[], &[]], |vi, slice| {
            vi.send_stream(slice.token, slice.offset, slice.length, None)
        });
        !self.end_owed
    }

    fn send(
        &mut self,
        purpose: Purpose,
        offset: u16,
        parts: [&[u8]; 2],
        hand_over: impl Fn(&mut Vi, Slice) -> bool,
    ) -> bool {
        let Some(token) = self.spare.pop() else { return false };
        let lengths = parts.map(|part| part.len() as u16);
        let mut slice = Slice { offset, ..Slice::posted(token) };
        for (part, length) in parts.into_iter().zip(lengths) {
            let place = Slice { offset: offset + slice.length, length, ..slice };
            if let Some(bytes) = self.vi.bytes(&place) {
                bytes.copy_from(part);
            }
            slice.length += length;
        }
        if !hand_over(&mut self.vi, slice) {
            self.spare.push(token);
            return false;
        }
        self.purposes[token as usize] = purpose;
        self.handed[purpose as usize] += 1;
        true
    }

    /// Takes datagrams for this UDP port from now on (0: none), and lets so many bytes wait; how many there is
    /// room for.
    pub(super) fn open(&mut self, port: u16, buffer_bytes: u64) -> u64 {
        let each = u64::from(self.vi.buffer_bytes());
        let wanted = u32::try_from(buffer_bytes / each).unwrap_or(u32::MAX);
        if !self.vi.has_stack() {
            // The receive buffer is what is posted.
            self.socket.follow(SocketOrders { port, buffer_bytes: u64::MAX });
            if port != 0 {
                self.resize(wanted);
            }
            return u64::from(self.posted_most) * each;
        }
        self.vi.order(SocketOrders { port, buffer_bytes });
        buffer_bytes
    }

    /// What became of the datagrams so far.
    pub(super) fn counters(&self) -> SocketCounters {
        self.vi.counters().unwrap_or(self.socket.counters)
    }

    /// Sends the datagrams of a command.
    pub(super) fn transmit(
        &mut self,
        command: &Transmit,
        (address, port): (Ipv4Addr, u16),
    ) -> Result<Transmitted, String> {
        self.check_datagram(command.payload_bytes)?;
        let to = Destination { address, port, source_port: port };
        self.send_all(command, to).map_err(|error| error.to_string())
    }

    fn send_all(&mut self, command: &Transmit, to: Destination) -> Result<Transmitted, StackError> {
        let clock = *self.vi.clock();
        let begin = clock.now();
        let (interval, patience) =
            (Span::from_us(command.interval_us), Span::from_ms(command.timeout_ms));
        let before = self.returned(Purpose::Transmit);
        let filler: Vec<u8> = (HEAD_BYTES..command.payload_bytes as usize).map(filler).collect();
        let (mut handed, mut late, mut timed_out) = (0, 0, false);
        let mut progress = begin;
        while handed < command.count && !timed_out {
            let due = begin + interval * handed;
            self.vi.check()?;
            let now = clock.now();
            if now < due {
                continue;
            }
            late += u64::from(interval > Span::ZERO && now > due + interval);
            self.collect()?;
            let head = Head { run_id: command.run_id, sequence: handed }.to_bytes();
            if self.send_datagram(Purpose::Transmit, [&head, &filler], to) {
                self.vi.flush();
                handed += 1;
                progress = now;
            } else {
                timed_out = now.since(progress) > patience;
                rustix::thread::sched_yield();
            }
        }
        let errors = self.returned(Purpose::Transmit).failed - before.failed;
        Ok(Transmitted {
            sent: handed - errors,
            errors,
            last_errno: None,
            took_ns: clock.now().since(begin).as_ps() / 1_000,
            late,
            timed_out,
        })
    }
    /// Whether a datagram of that payload can be sent here.
    pub(super) fn check_datagram(&self, payload_bytes: u32) -> Result<(), String> {
        let room = self.vi.buffer_bytes() - u32::from(HEADROOM_BYTES);
        if !(HEAD_BYTES as u32..=room).contains(&payload_bytes) {
            return Err(format!("payload_bytes must be {HEAD_BYTES} to {room} here"));
        }
        if !self.vi.has_stack() {
            return Err("only a topology with a stack sends".to_owned());
        }
        Ok(())
    }
}
