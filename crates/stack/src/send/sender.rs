//! The sender, a step at a time.

use std::net::Ipv4Addr;

use warikomi_clock::{Span, Time};
use warikomi_driver::transmit::{CostClock, Packet, Transmitter, TransmitterOptions, Work};
use warikomi_driver::{DriverError, Hardware, NicDriver, RxSink};
use warikomi_protocol::answers::Sent;

use super::account::{Account, Fate, together};
use super::application::Application;
use super::receive::{BUDGET, Inbox, Reading};
use super::{PlanError, SendPlan, SendSocket, Transport};
use crate::buffers::{Buffers, MOST_DMA_BYTES, SendBuffers};
use crate::datagram::{ETHERNET_BYTES, Headers, Station};
use crate::entry::Destination;
use crate::fragment::Cut;
use crate::segment::Stream;

/// Memory for buffers begins on a page.
const PAGE_BYTES: u64 = 4_096;

/// How often a sender without interrupts looks at the end whether the last packets are sent.
const LOOK_EVERY: Span = Span::from_us(10);

/// What the caller must do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next step, at once.
    Again,
    /// Nothing can be done before this time (a pace), unless an interrupt comes first.
    Until(Time),
    /// There is no room, interrupts are on and armed, and the device was asked once more: nothing can be
    /// done before the next interrupt.
    Interrupt,
    /// There is no room, and no interrupt will come: nothing will ever be done again.
    DeadLocked,
    /// Everything is sent and reclaimed, and the pools are full.
    Finished,
}

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The driver gave up.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// A message that the driver has, or that waits for it.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Its bytes.
    bytes: u32,
    /// It is no part of the warm-up.
    measured: bool,
    /// Of the frames that carry it, those that are not sent yet.
    frames: usize,
    /// The driver did not take one of them.
    refused: bool,
}

/// The sender.
///
/// The application calls the system (`Work::SystemCall`), the socket takes room and copies the message into buffers,
/// UDP and IP put the headers in front, the driver gathers the pieces, and the transmitter hands them to the device.
/// Each frame goes all the way in one step, unless the device has no room. A message that is longer than the MTU is
/// several, which IP or TCP cuts it into; they have the same token, and its buffers go back with the last of them.
pub struct Sender {
    application: Application,
    socket: SendSocket,
    buffers: Buffers,
    transmitter: Transmitter,
    account: Account,
    station: Station,
    to: Destination,
    to_mac: [u8; 6],
    /// Of TCP.
    stream: Option<Stream>,
    /// Records of messages on their way, by token.
    records: Vec<Record>,
    /// The message of which a frame is to be handed over: the next one, or one for which the device had no room.
    waiting: Option<u32>,
    /// The pieces of the message that was filled last: gathered once, however long it waits.
    pieces: Vec<(u64, u32)>,
    /// Where those of its frames end, and how many frames were handed over.
    ends: Vec<usize>,
    handed: usize,
    mtu_bytes: u32,
    /// Of the next datagram that is cut.
    identification: u16,
    /// UDP has a checksum.
    checksum: bool,
    frame_bytes: u64,
    /// The system call for the next message was made: it waits in there for room.
    called: bool,
    /// It slept, and has to be brought back.
    slept: bool,
    /// Packets that the device is done with, and how long each was in the driver.
    done: Vec<(u32, Span)>,
    /// What comes meanwhile, if anything does.
    inbox: Option<Inbox>,
    /// Of a mixed load, what came of each phase that is over.
    phases: Option<Vec<Sent>>,
}

impl Sender {
    /// A sender over a device that has been set up, whose buffers are in the DMA memory of so many bytes
    /// from this bus address on ([`SendPlan::dma_bytes`] says how many it needs). It sends to this Ethernet
    /// address, IP address, and UDP port.
    pub fn new(
        plan: &SendPlan,
        station: Station,
        destination: ([u8; 6], Ipv4Addr, u16),
        memory: (u64, u64),
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
    ) -> Result<Sender, SenderError> {
        let info = driver.info();
        let (descriptors, max_frame_bytes) = (info.tx_descriptors, info.max_frame_bytes);
        plan.validate_for(info)?;
        let (address, bytes) = memory;
        let needed = plan.dma_bytes(descriptors, max_frame_bytes);
        if bytes < needed {
            let range = format!("this plan needs {needed} bytes for buffers and bounce buffers");
            return Err(PlanError::new("DMA memory", bytes, range).into());
        }
        let in_buffers = Buffers::dma_bytes(plan.buffers, plan.demand(descriptors));
        if in_buffers > MOST_DMA_BYTES {
            let range = format!("they have addresses of 32 bits, {MOST_DMA_BYTES} bytes at most");
            return Err(PlanError::new("bytes in buffers", in_buffers, range).into());
        }
        let first = address.next_multiple_of(PAGE_BYTES);
        let area_bytes = plan.area_bytes(descriptors, max_frame_bytes);
        let demand = plan.demand(descriptors);
        let options = TransmitterOptions {
            completion: plan.completion,
            bounce: plan.bounce,
            alignment_bytes: plan.alignment_bytes,
            areas: (first, area_bytes),
        };
        let (to_mac, address, port) = destination;
        let to = Destination { address, port, source_port: port };
        Ok(Sender {
            application: Application::new(plan),
            socket: SendSocket::new(plan.send_buffer_bytes),
            records: vec![Record::default(); demand.packets],
            buffers: Buffers::new(plan.buffers, demand, first + area_bytes),
            transmitter: Transmitter::new(options, driver, hw)?,
            account: Account::new(plan.count, plan.warmup),
            station,
            to,
            to_mac,
            stream: plan.transport.is_tcp().then(|| {
                let offload = plan.transport == Transport::TcpTso;
                Stream::new(&station, to, to_mac, plan.mtu_bytes, offload)
            }),
            waiting: None,
            pieces: Vec::new(),
            ends: Vec::new(),
            handed: 0,
            mtu_bytes: plan.mtu_bytes,
            identification: 0,
            checksum: plan.checksum,
            frame_bytes: 0,
            called: false,
            slept: false,
            done: Vec::with_capacity(demand.packets),
            inbox: plan.receives().then(|| Inbox::new(plan.run_id)),
            phases: plan.mixed.as_ref().map(|_| Vec::new()),
        })
    }

    /// Does the next thing: takes the interrupt, if one has come, and sends at most one message.
    ///
    /// What it does is charged to `clock`, a change of context each time that it falls asleep
    /// ([`Step::Interrupt`]) and wakes up among it. The time from such a step, or [`Step::Until`], to the
    /// next is that in which it is not busy.
    pub fn step<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
        interrupted: bool,
    ) -> Result<Step, DriverError> {
        let idled = self.account.step(|| clock.now());
        self.transmitter.idled(idled);
        if std::mem::take(&mut self.slept) {
            clock.spend(Work::Switch);
        }
        if self.account.is_to_begin() {
            self.account.begin(clock.now(), self.transmitter.counts());
        }
        if interrupted {
            self.account.interrupted();
            let done = &mut self.done;
            let sent = &mut |token, wait| done.push((token, wait));
            self.transmitter.interrupted(driver, hw, clock, sent)?;
            self.take_back(driver, hw, clock)?;
        }
        let step = self.advance(driver, hw, clock)?;
        match step {
            Step::Again => {}
            Step::Until(_) | Step::Interrupt => self.account.rests(clock.now()),
            Step::DeadLocked | Step::Finished => self.end(clock, step == Step::DeadLocked),
        }
        Ok(step)
    }

    /// Everything, or a phase, is over.
    fn end<C: CostClock>(&mut self, clock: &mut C, dead_locked: bool) {
        let pools_full = self.buffers.is_full() && self.buffers.refused() == 0;
        self.account.end(clock.now(), self.transmitter.counts(), dead_locked, pools_full);
        if let Some(phases) = &mut self.phases {
            phases.push(self.account.of_phase());
        }
    }

    /// One pass of the receive side, if anything comes meanwhile: the application reads each frame, and on this
    /// occasion the device may be asked what it has sent. To be called before each step.
    #[inline]
    pub fn receive<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
        pool: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        let Some(inbox) = &mut self.inbox else { return Ok(()) };
        inbox.begin();
        let memory = hw.memory;
        let packets = driver.poll(hw, BUDGET, &mut Reading { inbox, memory, pool })?;
        clock.spend(Work::Receive { packets });
        if packets == 0 {
            return Ok(());
        }
        for _ in 0..inbox.frames {
            clock.spend(Work::SystemCall);
            clock.spend(Work::Copy { bytes: inbox.bytes / inbox.frames as usize });
        }
        self.account.received(inbox.frames, inbox.missing);
        let done = &mut self.done;
        let sent = &mut |token, wait| done.push((token, wait));
        self.transmitter.received(driver, hw, clock, sent)?;
        self.take_back(driver, hw, clock)
    }

    /// What has come of it. Behind [`Step::Finished`] or [`Step::DeadLocked`].
    pub fn sent(&self) -> Sent {
        match &self.phases {
            Some(phases) => together(phases),
            None => self.account.sent().clone(),
        }
    }

    /// Whether frames come meanwhile, which only [`receive`](Self::receive) may take.
    pub fn receives(&self) -> bool {
        self.inbox.is_some()
    }

    /// Frames that it has received.
    pub fn received(&self) -> u64 {
        self.inbox.as_ref().map_or(0, |inbox| inbox.received)
    }

    /// Bytes of the frames that were handed to the device, the warm-up included.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }

    /// Messages that the application has sent so far, or tried to, those of the warm-up among them.
    pub fn tried(&self) -> u64 {
        self.application.tried()
    }

    /// What its transmitter has done, the warm-up included.
    pub fn transmitter(&self) -> &Transmitter {
        &self.transmitter
    }

    #[inline]
    fn advance<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
    ) -> Result<Step, DriverError> {
        if let Some(token) = self.waiting {
            return self.hand_over(driver, hw, clock, token);
        }
        if self.application.is_done(|| clock.now()) {
            return self.finish(driver, hw, clock);
        }
        if !self.called && self.application.computes(clock) {
            return Ok(Step::Again);
        }
        if self.application.has_pace() {
            let now = clock.now();
            let due = self.application.due(now);
            if now < due {
                return Ok(Step::Until(due));
            }
        }
        if !std::mem::replace(&mut self.called, true) {
            clock.spend(Work::SystemCall);
        }
        match self.fill(hw, clock)? {
            Some(token) => self.hand_over(driver, hw, clock, token),
            None => self.no_room(driver, hw, clock),
        }
    }

    /// The next message as a packet, if the socket has room for it.
    #[inline]
    fn fill<C: CostClock>(
        &mut self,
        hw: &mut Hardware<'_>,
        clock: &mut C,
    ) -> Result<Option<u32>, DriverError> {
        let bytes = self.application.length();
        if !self.socket.take(bytes) {
            return Ok(None);
        }
        let before = self.buffers.counts();
        // A card that cuts segments makes their checksums, too.
        let summed = self.stream.is_none_or(|stream| stream.segments().is_none());
        let (message, checksum) = (self.application.message(), self.checksum && summed);
        let Some(token) = self.buffers.fill(clock, hw.memory, message, checksum)? else {
            self.socket.give_back(bytes);
            return Ok(None);
        };
        let frames = self.output(hw, clock, token, bytes)?;
        let measured = self.account.measures(self.application.tried());
        self.records[token as usize] = Record { bytes, measured, frames, refused: false };
        let work = self.buffers.counts().since(before);
        self.account.filled(measured, bytes, self.transmitter.counts(), work);
        self.application.next(true);
        self.called = false;
        Ok(Some(token))
    }

    /// UDP or TCP, IP and the driver: headers are put in front, and the pieces of each frame are gathered; how many
    /// frames there are.
    #[inline]
    fn output<C: CostClock>(
        &mut self,
        hw: &mut Hardware<'_>,
        clock: &mut C,
        token: u32,
        bytes: u32,
    ) -> Result<usize, DriverError> {
        if self.stream.is_some() {
            return self.output_segments(hw, clock, token, bytes);
        }
        let too_long = || DriverError::Invalid(format!("{bytes} bytes are no UDP datagram"));
        let length = u16::try_from(bytes).map_err(|_| too_long())?;
        let headers = Headers::new(&self.station, self.to, self.to_mac, length);
        let headers = headers.ok_or_else(too_long)?.over(self.mtu_bytes, self.identification);
        let frames = headers.cut().count();
        for _ in 0..frames {
            clock.spend(Work::Headers);
        }
        self.identification = self.identification.wrapping_add(u16::from(frames > 1));
        self.buffers.output(clock, hw.memory, token, headers, self.checksum)?;
        self.buffers.gather(clock, hw.memory, token, &mut self.pieces)?;
        self.divide(headers.cut())?;
        Ok(frames)
    }

    /// The same of TCP, whose packets are in one piece each.
    #[inline]
    fn output_segments<C: CostClock>(
        &mut self,
        hw: &mut Hardware<'_>,
        clock: &mut C,
        token: u32,
        bytes: u32,
    ) -> Result<usize, DriverError> {
        let Some(stream) = &mut self.stream else { return Ok(0) };
        self.buffers.output_segments(clock, hw.memory, token, stream)?;
        stream.advance(bytes);
        self.buffers.gather(clock, hw.memory, token, &mut self.pieces)?;
        let frames = self.pieces.len();
        for _ in 0..frames {
            clock.spend(Work::Headers);
        }
        self.handed = 0;
        self.ends.clear();
        self.ends.extend(1..=frames);
        Ok(frames)
    }

    /// Finds where the pieces of each frame end.
    #[inline]
    fn divide(&mut self, cut: Cut) -> Result<(), DriverError> {
        self.handed = 0;
        self.ends.clear();
        if cut.count() == 1 {
            self.ends.push(self.pieces.len());
            return Ok(());
        }
        let mut bytes = 0;
        for (number, &(_, length)) in self.pieces.iter().enumerate() {
            bytes += length as usize;
            if bytes == ETHERNET_BYTES + cut.ip_bytes(self.ends.len()) {
                self.ends.push(number + 1);
                bytes = 0;
            }
        }
        match bytes == 0 && self.ends.len() == cut.count() {
            true => Ok(()),
            false => {
                Err(DriverError::Invalid("a datagram is not cut where its fragments end".into()))
            }
        }
    }

    /// Hands a message's next frame to the device, or keeps it until the device has room.
    #[inline]
    fn hand_over<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
        token: u32,
    ) -> Result<Step, DriverError> {
        let first = self.handed.checked_sub(1).map_or(0, |before| self.ends[before]);
        let pieces = &self.pieces[first..self.ends[self.handed]];
        let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.1)).sum();
        let segments = self.stream.as_ref().and_then(Stream::segments);
        let packet = Packet { pieces, token, segments };
        let done = &mut self.done;
        let sent = &mut |token, wait| done.push((token, wait));
        let handed = match self.transmitter.send(driver, hw, clock, packet, sent) {
            // What the driver does not take ends nothing but the message.
            Err(DriverError::Invalid(_)) => {
                let left = self.ends.len() - self.handed;
                self.handed = self.ends.len();
                self.records[token as usize].refused = true;
                self.frames_gone(hw, clock, token, left, Span::ZERO)?;
                true
            }
            handed => {
                let handed = handed?;
                self.frame_bytes += if handed { bytes } else { 0 };
                self.handed += usize::from(handed);
                handed
            }
        };
        self.waiting = (self.handed < self.ends.len()).then_some(token);
        let moved = handed || !self.done.is_empty();
        self.take_back(driver, hw, clock)?;
        if moved || !self.transmitter.will_be_interrupted() {
            return Ok(Step::Again);
        }
        self.rest(driver, hw, clock)
    }

    /// Gives back what the device is done with, and tells the transmitter how much room there is.
    #[inline]
    fn take_back<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
    ) -> Result<(), DriverError> {
        let mut done = std::mem::take(&mut self.done);
        for (token, wait) in done.drain(..) {
            self.frames_gone(hw, clock, token, 1, wait)?;
        }
        self.done = done;
        if self.account.is_to_begin() {
            self.account.begin(clock.now(), self.transmitter.counts());
        }
        let (free, all) = (self.socket.free_bytes(), self.socket.all_bytes());
        self.transmitter.room(driver, hw, clock, free, all)
    }

    /// So many frames of a message are sent, or will never be; with the last of them the message is over.
    #[inline]
    fn frames_gone<C: CostClock>(
        &mut self,
        hw: &Hardware<'_>,
        clock: &mut C,
        token: u32,
        frames: usize,
        wait: Span,
    ) -> Result<(), DriverError> {
        if let Some(record) = self.records.get_mut(token as usize) {
            record.frames = record.frames.saturating_sub(frames);
            if record.frames > 0 {
                return Ok(());
            }
        }
        if let Some(Record { bytes, measured, refused, .. }) = self.release(hw, clock, token)? {
            let sent = Fate::Sent { bytes, wait };
            self.account.fate(measured, if refused { Fate::Refused } else { sent });
        }
        Ok(())
    }

    /// A message's buffers and its room go back, if there is such a message.
    #[inline]
    fn release<C: CostClock>(
        &mut self,
        hw: &Hardware<'_>,
        clock: &mut C,
        token: u32,
    ) -> Result<Option<Record>, DriverError> {
        let before = self.buffers.counts();
        if !self.buffers.free(clock, hw.memory, token)? {
            return Ok(None);
        }
        let record = self.records[token as usize];
        self.account.freed(record.measured, self.buffers.counts().since(before).freed);
        self.socket.give_back(record.bytes);
        Ok(Some(record))
    }

    /// The socket has no room for the next message.
    fn no_room<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
    ) -> Result<Step, DriverError> {
        if !self.transmitter.will_be_interrupted() {
            return Ok(Step::DeadLocked);
        }
        if !self.application.has_pace() {
            return self.rest(driver, hw, clock);
        }
        let measured = self.account.measures(self.application.tried());
        self.account.fate(measured, Fate::Dropped);
        self.application.next(false);
        self.called = false;
        Ok(Step::Again)
    }

    /// Everything is handed over: waits until the device is done with it.
    fn finish<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
    ) -> Result<Step, DriverError> {
        if self.transmitter.in_flight() == 0 {
            if !self.application.next_phase() {
                return Ok(Step::Finished);
            }
            self.end(clock, false);
            self.account = Account::new(0, 0);
            self.called = false;
            return Ok(Step::Again);
        }
        if self.transmitter.will_be_interrupted() {
            return self.rest(driver, hw, clock);
        }
        let done = &mut self.done;
        let sent = &mut |token, wait| done.push((token, wait));
        let found = self.transmitter.reclaim(driver, hw, clock, sent)?;
        self.take_back(driver, hw, clock)?;
        Ok(if found > 0 { Step::Again } else { Step::Until(clock.now() + LOOK_EVERY) })
    }

    /// Asks the device once more, with its interrupt armed, and sleeps if it is done with nothing.
    fn rest<C: CostClock>(
        &mut self,
        driver: &mut dyn NicDriver,
        hw: &mut Hardware<'_>,
        clock: &mut C,
    ) -> Result<Step, DriverError> {
        let done = &mut self.done;
        let sent = &mut |token, wait| done.push((token, wait));
        let found = self.transmitter.last_look(driver, hw, clock, sent)?;
        self.take_back(driver, hw, clock)?;
        if found > 0 {
            return Ok(Step::Again);
        }
        self.account.sleeps();
        self.slept = true;
        clock.spend(Work::Switch);
        Ok(Step::Interrupt)
    }
}
