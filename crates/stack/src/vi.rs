//! The interface for applications, in the style of the Virtual Interface Architecture: the
//! application posts buffers, and gets them back filled, in order, without a copy and without a system
//! call while both sides are awake.
//!
//! `include/warikomi_vi.h` is the same for C.

use std::time::Duration;

use vm_memory::VolatileSlice;
use warikomi_clock::{Span, Time, TscClock, read_tsc};
use warikomi_shared::{SharedWords, Woken};

use crate::account::Accountant;
use crate::channel::UserEnd;
use crate::datagram::{Content, parse};
use crate::entry::{Destination, Slice, flags};
use crate::memory::PacketMemory;
use crate::receiver::Receiver;
use crate::socket::{OrdersWords, SocketCounters, SocketOrders};
use crate::wait::{Event, Watch};
use crate::{Invitation, StackError};

/// How often a part that polls looks whether its neighbours are there.
pub const CHECK_INTERVAL: Span = Span::from_ms(1);

/// An application's access to the packet path.
///
/// Buffers are named by their tokens, 0 up to [`buffers`](Self::buffers). At first all are the
/// application's. What comes is a part of a buffer ([`Slice`]): with a stack in between the payload of
/// a datagram (`flags::UDP`) or a part of the connection (`flags::STREAM`), else a whole frame.
pub struct Vi {
    memory: PacketMemory,
    receiver: Receiver<SharedWords, Event>,
    watch: Watch,
    clock: TscClock,
    next_check: Time,
    /// With a stack below: what it is told.
    orders: Option<OrdersWords<SharedWords>>,
    account: Accountant<SharedWords>,
}

/// How long the stack may take to follow orders.
const ORDERS_TIMEOUT: Span = Span::from_ms(2_000);

impl Vi {
    /// The application's side of the channel that warikomi has prepared for this process.
    pub fn connect() -> Result<Vi, StackError> {
        let invitation = Invitation::accept("application")?;
        Vi::accept(invitation).map(|(vi, _)| vi)
    }

    /// The same for an invitation that was read already, which is given back.
    pub fn accept(mut invitation: Invitation) -> Result<(Vi, Invitation), StackError> {
        let memory = PacketMemory::map(&invitation.file("packet memory")?.into())?;
        let own = Event::from(invitation.file("the own event")?);
        let neighbour = Event::from(invitation.file("the neighbour's event")?);
        let next = if memory.shape().channels == 1 { "the driver" } else { "the stack" };
        let mut neighbours = vec![invitation.neighbour(next)?];
        neighbours.extend(invitation.support());
        let control = invitation.control()?;
        let vi = Vi::new(memory, &neighbour, Watch::new(own, neighbours, control))?;
        Ok((vi, invitation))
    }

    /// The user's end of the first channel of `memory`; `provider` is the event that wakes whoever is
    /// below, `watch` what a sleeping application waits for.
    pub fn new(memory: PacketMemory, provider: &Event, watch: Watch) -> Result<Vi, StackError> {
        let no_channel = || StackError::Invitation("packet memory has no channel".to_owned());
        let place = memory.channel(0).ok_or_else(no_channel)?;
        let shape = *memory.shape();
        let end = UserEnd::new(
            memory.words(),
            place,
            memory.application_tokens(),
            shape.buffer_bytes,
            provider,
        );
        let clock = TscClock::with_frequency(read_tsc(), shape.tsc_hz as f64);
        let receiver = Receiver::new(end);
        let words = memory.words().clone();
        let orders = (shape.channels == 2).then(|| OrdersWords::new(words, place));
        let account = Accountant::attach(memory.words().clone(), place);
        Ok(Vi { memory, receiver, watch, clock, next_check: Time::ZERO, orders, account })
    }

    /// Whether there is a stack below, or the driver itself.
    pub fn has_stack(&self) -> bool {
        self.orders.is_some()
    }

    /// Tells the stack which datagrams are wanted, and waits until it has taken note, 2 s at most. Whether
    /// it has; without a stack nobody takes note.
    pub fn order(&mut self, orders: SocketOrders) -> bool {
        let Some(words) = &mut self.orders else { return false };
        words.give(orders);
        let end = self.clock.now() + ORDERS_TIMEOUT;
        while !words.followed() && self.clock.now() < end && self.watch.check().is_ok() {
            // The stack may sleep: it is woken as for something to be sent.
            self.receiver.end().wake_provider();
            rustix::thread::sched_yield();
        }
        words.followed()
    }

    /// What became of the datagrams, if there is a stack that counts them.
    pub fn counters(&self) -> Option<SocketCounters> {
        let place = self.memory.channel(0).filter(|_| self.has_stack())?;
        Some(SocketCounters::of_channel(self.memory.words(), place))
    }

    /// How many buffers the application has.
    pub fn buffers(&self) -> u32 {
        self.memory.shape().application_buffers
    }

    /// Bytes of each buffer.
    pub fn buffer_bytes(&self) -> u32 {
        self.memory.shape().buffer_bytes
    }

    /// Packet memory.
    pub fn memory(&self) -> &PacketMemory {
        &self.memory
    }

    /// The clock by which completions are stamped.
    pub fn clock(&self) -> &TscClock {
        &self.clock
    }

    /// The channel below.
    pub fn end(&mut self) -> &mut UserEnd<SharedWords, Event> {
        self.receiver.end()
    }

    /// Posts a buffer to be received into: whoever receives next shows it to the provider, or
    /// [`flush`](Self::flush) does. `false`, and nothing done, if it is not the application's at
    /// present.
    #[inline]
    pub fn post(&mut self, token: u32) -> bool {
        self.receiver.end().post(token)
    }

    /// Shows the provider what was posted and what is to be sent.
    #[inline]
    pub fn flush(&mut self) {
        self.receiver.end().flush();
    }

    /// The next completion, if there is one.
    #[inline]
    pub fn recv_poll(&mut self) -> Result<Option<Slice>, StackError> {
        let completion = self.receiver.poll()?;
        match &completion {
            Some(slice) => self.account.add(slice),
            None => check(&self.watch, &mut self.next_check, self.clock.now())?,
        }
        Ok(completion)
    }

    /// Sleeps until there is a completion, for `timeout` at most. Without one, also when the control
    /// socket, if there is one, has something to say.
    pub fn recv_wait(&mut self, timeout: Option<Duration>) -> Result<Option<Slice>, StackError> {
        let mut sleep = sleeping(&self.watch, self.clock, timeout);
        let completion = self.receiver.wait(&mut sleep)?;
        Ok(completion.inspect(|slice| self.account.add(slice)))
    }

    /// The same, but ends without a completion also when a buffer was sent ([`sent`](Self::sent)).
    pub fn wait_for_any(&mut self, timeout: Option<Duration>) -> Result<Option<Slice>, StackError> {
        let mut sleep = sleeping(&self.watch, self.clock, timeout);
        let completion = self.receiver.wait_for_any(&mut sleep)?;
        Ok(completion.inspect(|slice| self.account.add(slice)))
    }

    /// Polls for `poll`, and if nothing comes meanwhile sleeps as [`recv_wait`](Self::recv_wait)
    /// does. Between two polls others may have the processor.
    pub fn recv_hybrid(
        &mut self,
        poll: Duration,
        timeout: Option<Duration>,
    ) -> Result<Option<Slice>, StackError> {
        let Vi { receiver, watch, clock, next_check, account, .. } = self;
        let begin = clock.now();
        let end = begin + Span::from_ns(u64::try_from(poll.as_nanos()).unwrap_or(u64::MAX));
        let polling = || {
            let now = clock.now();
            check(watch, next_check, now)?;
            rustix::thread::sched_yield();
            Ok(now < end)
        };
        let completion = receiver.hybrid(polling, sleeping(watch, *clock, timeout))?;
        Ok(completion.inspect(|slice| account.add(slice)))
    }

    /// The bytes of a completion, in place.
    #[inline]
    pub fn bytes(&self, slice: &Slice) -> Option<VolatileSlice<'_>> {
        self.memory.bytes(slice.token, u32::from(slice.offset), u32::from(slice.length))
    }

    /// Copies the first bytes of a completion out; how many.
    #[inline]
    pub fn copy_out(&self, slice: &Slice, into: &mut [u8]) -> usize {
        self.bytes(slice).map_or(0, |bytes| bytes.copy_to(into))
    }

    /// Sends `length` bytes from `offset` on in a buffer: as a datagram to `to` (the offset is
    /// [`crate::HEADROOM_BYTES`] at least), or without a destination as a frame. The buffer comes
    /// back by [`sent`](Self::sent). `false`, and nothing done, if it is not the application's.
    pub fn send(&mut self, token: u32, offset: u16, length: u16, to: Option<Destination>) -> bool {
        let (flags, extra) = to.map_or((0, 0), |to| (flags::UDP, to.to_word()));
        if to.is_some() && offset < crate::HEADROOM_BYTES {
            return false;
        }
        self.receiver.end().transmit(Slice { token, offset, length, flags, extra })
    }

    /// Sends a datagram that came ([`crate::flags::UDP`]) back to where it came from, out of the buffer that
    /// it is in. `false`, and nothing done, if it is none, or not the application's any more.
    pub fn send_back(&mut self, datagram: &Slice) -> bool {
        let Some(frame_bytes) = datagram.offset.checked_add(datagram.length) else { return false };
        let Some(frame) = self.memory.bytes(datagram.token, 0, frame_bytes.into()) else {
            return false;
        };
        let Content::Datagram(found) = parse(&frame, true) else { return false };
        let to = Destination {
            address: found.source,
            port: found.source_port,
            source_port: found.destination_port,
        };
        let slice = Slice { flags: flags::UDP, extra: to.to_word(), ..*datagram };
        self.receiver.end().transmit(slice)
    }

    /// Sends bytes over the connection, which is opened to `to` if there is none and `to` is given.
    /// No bytes at all end our half of it.
    pub fn send_stream(
        &mut self,
        token: u32,
        offset: u16,
        length: u16,
        to: Option<Destination>,
    ) -> bool {
        let extra = to.map_or(0, Destination::to_word);
        let slice = Slice { token, offset, length, flags: flags::STREAM, extra };
        self.receiver.end().transmit(slice)
    }

    /// The next buffer that was sent, or with `flags::FAILED` was not.
    pub fn sent(&mut self) -> Result<Option<Slice>, StackError> {
        Ok(self.receiver.sent()?)
    }

    /// Whether the neighbours are there.
    pub fn check(&self) -> Result<(), StackError> {
        self.watch.check()
    }
}

fn check(watch: &Watch, next: &mut Time, now: Time) -> Result<(), StackError> {
    if now >= *next {
        watch.check()?;
        *next = now + CHECK_INTERVAL;
    }
    Ok(())
}

/// Sleeps that together are no longer than `timeout`.
fn sleeping(
    watch: &Watch,
    clock: TscClock,
    timeout: Option<Duration>,
) -> impl FnMut() -> Result<Woken, StackError> {
    let begin = clock.now();
    move || {
        let spent = Duration::from_nanos(clock.now().since(begin).as_ps() / 1_000);
        let left = timeout.map(|timeout| timeout.saturating_sub(spent));
        if left == Some(Duration::ZERO) {
            return Ok(Woken::TimedOut);
        }
        watch.sleep(left)
    }
}
