//! The application in the driver's own process: the NIC's ring is its own, nothing is between.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use warikomi_clock::{Time, TscClock, read_tsc};
use warikomi_driver::{Buffer, Received, RxSink, Transmit, Upper};
use warikomi_protocol::answers::{Done, RoundTripsTotals, Transmitted};
use warikomi_protocol::commands;
use warikomi_stack::{
    CHECK_INTERVAL, Content, Invitation, PacketMemory, Socket, SocketCounters, SocketOrders,
    StackError,
};

use super::agent::{Agent, LOOKED_AT_BYTES, Port};
use super::pinger::Pinger;

/// An application that the driver's loop calls.
///
/// The way to wait is the driver's strategy: it polls the ring, or sleeps until the interrupt.
pub struct DirectUpper {
    memory: PacketMemory,
    buffers: Buffers,
    agent: Agent,
    clock: TscClock,
    next_look: Time,
    /// Frames that have come, and the tokens of their buffers.
    arrived: Vec<(u32, Received)>,
    /// Where payloads are copied to, if they shall be.
    copy: Option<Vec<u8>>,
    /// The beginning of one that is not.
    looked_at: [u8; LOOKED_AT_BYTES],
    failure: Option<StackError>,
}

/// Buffers, and what becomes of the datagrams in them.
struct Buffers {
    address: Ipv4Addr,
    socket: Socket,
    free: Vec<u32>,
    on_ring: u32,
    most_on_ring: u32,
    buffer_bytes: u32,
    /// Buffers that the driver gave back without having them.
    strays: u64,
    with_driver: Box<[bool]>,
    pinger: Pinger,
}

impl Buffers {
    #[inline]
    fn take_back(&mut self, token: u32) -> bool {
        match self.with_driver.get_mut(token as usize) {
            Some(with_driver @ true) => {
                *with_driver = false;
                self.on_ring -= 1;
                self.free.push(token);
                true
            }
            _ => {
                self.strays += 1;
                false
            }
        }
    }
}

impl DirectUpper {
    /// The application that the invitation describes.
    pub fn new(memory: PacketMemory, mut invitation: Invitation) -> Result<Self, StackError> {
        let agent = Agent::new(invitation.file("the control socket")?)?;
        let shape = *memory.shape();
        let count = shape.application_buffers;
        let buffers = Buffers {
            address: invitation.settings.station.address,
            socket: Socket::new(count),
            free: (0..count).rev().collect(),
            on_ring: 0,
            most_on_ring: count,
            buffer_bytes: shape.buffer_bytes,
            strays: 0,
            with_driver: vec![false; count as usize].into_boxed_slice(),
            pinger: Pinger::new(&invitation.settings),
        };
        Ok(DirectUpper {
            memory,
            buffers,
            agent,
            clock: TscClock::with_frequency(read_tsc(), shape.tsc_hz as f64),
            next_look: Time::ZERO,
            arrived: Vec::with_capacity(count as usize),
            copy: invitation.settings.copy_out.then(|| vec![0; shape.buffer_bytes as usize]),
            looked_at: [0; LOOKED_AT_BYTES],
            failure: None,
        })
    }

    fn serve(&mut self) {
        // What has come is in the record already: it is entered at once.
        loop {
            match self.agent.serve(&mut self.buffers) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.failure = Some(error);
                    return;
                }
            }
        }
    }

    #[inline]
    fn take(&mut self, token: u32, frame: Received, tsc: u64) {
        let Some(arrived) = self.memory.frame(token, frame.bytes) else { return };
        let socket = &mut self.buffers.socket;
        match arrived.content(frame.checksums_good) {
            Content::Datagram(found) if found.destination == self.buffers.address => {
                // It is used up at once: no room is asked for.
                if !socket.passed(found.destination_port) {
                    return;
                }
                let (at, length) = (found.payload_offset.into(), found.payload_bytes.into());
                self.buffers.pinger.take(&arrived, at..at + length, &self.clock);
                if let Some(record) = self.agent.record() {
                    let seen = match &mut self.copy {
                        Some(copy) => arrived.copy_out(at, length, copy),
                        None => {
                            let wanted = record.looked_at_bytes().min(length);
                            arrived.look(at, wanted, &mut self.looked_at)
                        }
                    };
                    record.in_place(seen, length, tsc);
                }
            }
            Content::Malformed(_) => socket.malformed(),
            Content::Datagram(_) | Content::Other => socket.counters.other += 1,
        }
    }
}

impl RxSink for DirectUpper {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        if self.buffers.on_ring >= self.buffers.most_on_ring {
            return None;
        }
        let token = self.buffers.free.pop()?;
        self.buffers.on_ring += 1;
        self.buffers.with_driver[token as usize] = true;
        self.memory.buffer(token)
    }

    #[inline]
    fn received(&mut self, buffer: Buffer, frame: Received) {
        if self.buffers.with_driver.get(buffer.token() as usize) != Some(&true) {
            self.buffers.strays += 1;
        } else if self.arrived.len() < self.arrived.capacity() {
            // Its first line is on its way from the other core while the driver looks at the next descriptors.
            self.memory.expect_read(buffer.token());
            self.arrived.push((buffer.token(), frame));
        }
    }

    fn returned(&mut self, buffer: Buffer) {
        self.buffers.take_back(buffer.token());
    }
}

impl Upper for DirectUpper {
    #[inline]
    fn flush(&mut self) {
        if !self.arrived.is_empty() {
            let arrived = std::mem::take(&mut self.arrived);
            let tsc = read_tsc();
            if let Some(record) = self.agent.record() {
                record.begin_batch(arrived.len(), arrived.capacity(), tsc);
            }
            for &(token, frame) in &arrived {
                self.take(token, frame, tsc);
                self.buffers.take_back(token);
            }
            self.arrived = arrived;
            self.arrived.clear();
        }
        let now = self.clock.now();
        self.buffers.pinger.look(now);
        if now >= self.next_look {
            self.next_look = now + CHECK_INTERVAL;
            self.serve();
        }
    }

    #[inline]
    fn next_transmit(&mut self) -> Option<Transmit> {
        self.buffers.pinger.next_transmit(&self.memory, &self.clock)
    }

    fn sent(&mut self, token: u32) {
        if !self.buffers.pinger.sent(token) {
            self.buffers.strays += 1;
        }
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.buffers.pinger.has_something_to_send()
    }

    fn awake(&mut self) {
        self.buffers.pinger.look(self.clock.now());
        self.serve();
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.agent.control().as_fd())
    }

    fn failure(&mut self) -> Option<String> {
        match self.failure.take() {
            Some(error) => Some(error.to_string()),
            None if self.agent.is_over() => Some(StackError::Gone("the support side").to_string()),
            None => None,
        }
    }

    fn dropped(&self) -> u64 {
        self.buffers.strays
    }
}

impl Port for Buffers {
    /// The receive buffer is what the NIC's ring holds.
    fn open(&mut self, port: u16, buffer_bytes: u64) -> u64 {
        let each = u64::from(self.buffer_bytes);
        self.socket.follow(SocketOrders { port, buffer_bytes: u64::MAX });
        if port != 0 {
            let wanted = u32::try_from(buffer_bytes / each).unwrap_or(u32::MAX);
            self.most_on_ring = wanted.clamp(1, self.with_driver.len() as u32);
        }
        u64::from(self.most_on_ring) * each
    }

    fn counters(&self) -> SocketCounters {
        self.socket.counters
    }

    fn transmit(
        &mut self,
        _command: &commands::Transmit,
        _destination: (Ipv4Addr, u16),
    ) -> Result<Transmitted, String> {
        Err("only a topology with a stack sends datagrams".to_owned())
    }

    fn start_round_trips(&mut self, command: &commands::RoundTripsStart) -> Result<Done, String> {
        let port = self.pinger.begin(command, &mut self.free)?;
        self.socket.follow(SocketOrders { port, buffer_bytes: u64::MAX });
        Ok(Done {})
    }

    fn round_trips(&mut self, from: u64) -> Result<RoundTripsTotals, String> {
        self.pinger.totals(from)
    }
}
