//! Drivers with a bug in them, so that it is known that the checkers find it.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::Ordering;
#[cfg(test)]
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use warikomi_driver::run::Lineage;
use warikomi_driver::state::{Held, Predecessor, Shown, StateArea, StateWords};
use warikomi_driver::{
    Buffer, Causes, DriverError, DriverInfo, Hardware, Link, NicDriver, Received, RxSink, TxFrame,
};
use warikomi_inject::{SEQUENCE_BYTES, SEQUENCE_OFFSET};
use warikomi_pci::DmaMemory;
use warikomi_pci::attach::area;
use warikomi_shared::Words;
#[cfg(test)]
use warikomi_stack::{Slice, flags, words};

use super::pair::Pair;
#[cfg(test)]
use super::session::Session;

/// What is wrong with a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// It arms its interrupt and sleeps without looking at the ring once more.
    NoLastLook,
    /// The buffer of a damaged frame does not come back.
    LeaksRefused,
    /// Every 50th frame is given up twice.
    DeliversTwice,
    /// Every 50th frame is refused, though nothing is wrong with it.
    DropsGood,
    /// Every 50th frame, if it is long, is given up with a byte changed, in the middle of what is behind its number.
    Changes,
    /// Of two frames in one look, the second comes first.
    Swaps,
    /// Every 10th frame to be sent is taken, and not sent.
    LosesSent,
    /// Every 10th frame to be sent is said to be sent, and is not.
    ClaimsSent,
    /// Every 10th frame to be sent is sent twice.
    SendsTwice,
    /// Behind its 20th frame it takes no more buffers.
    StopsRefilling,
    /// Frames from every 4th buffer are refused, though the device could send them.
    RefusesSent,
    /// It hands its device over without a record.
    NoRecord,
    /// It goes on behind a dead driver with one frame less than there was.
    MissesOne,
    /// It keeps a buffer when it stops its device.
    KeepsStopped,
    /// It resets the device, with which it ought to go on.
    StartsAnew,
    /// It never hands its device over, and so no history ends in which it ought to.
    #[cfg(test)]
    KeepsDevice,
}

impl Bug {
    /// Each that checkers find.
    pub const ALL: [Bug; 15] = [
        Bug::NoLastLook,
        Bug::LeaksRefused,
        Bug::DeliversTwice,
        Bug::DropsGood,
        Bug::Changes,
        Bug::Swaps,
        Bug::LosesSent,
        Bug::ClaimsSent,
        Bug::SendsTwice,
        Bug::StopsRefilling,
        Bug::RefusesSent,
        Bug::NoRecord,
        Bug::MissesOne,
        Bug::KeepsStopped,
        Bug::StartsAnew,
    ];

    /// Whether it shows only where faults strike or parts die.
    pub fn needs_faults(self) -> bool {
        matches!(self, Bug::LeaksRefused | Bug::MissesOne)
    }

    /// The same card, with drivers that have this bug.
    pub fn planted_in(self, pair: Pair) -> Pair {
        let pair = pair.with(move |driver| Box::new(Planted::new(driver, self)));
        match self {
            Bug::StartsAnew => pair.with_lineage(starts_anew),
            _ => pair,
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bug::NoLastLook => "a driver that sleeps without a last look",
            Bug::LeaksRefused => "a driver that leaks the buffers of damaged frames",
            Bug::DeliversTwice => "a driver that delivers twice",
            Bug::DropsGood => "a driver that drops a good frame",
            Bug::Changes => "a driver that changes a byte of a frame",
            Bug::Swaps => "a driver that swaps two frames",
            Bug::LosesSent => "a driver that loses a frame to be sent",
            Bug::ClaimsSent => "a driver that says of a frame that it is sent, which is not",
            Bug::SendsTwice => "a driver that sends twice",
            Bug::StopsRefilling => "a driver that takes no more buffers",
            Bug::RefusesSent => "a driver that refuses a frame that could be sent",
            Bug::NoRecord => "a driver that hands over without a record",
            Bug::MissesOne => "a driver that goes on wrongly behind a dead one",
            Bug::KeepsStopped => "a driver that stops its device and keeps a buffer",
            Bug::StartsAnew => "a successor that starts anew",
            #[cfg(test)]
            Bug::KeepsDevice => "a driver that keeps its device",
        })
    }
}

/// What a driver sees of its predecessors: they never leave anything to go on with.
fn starts_anew(lineage: Lineage) -> Lineage {
    Lineage { area: Rc::new(Anew(lineage.area)), ..lineage }
}

/// A state area whose baton was always given for a start.
struct Anew(StateWords);

impl Words for Anew {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn load(&self, at: usize, order: Ordering) -> u64 {
        let word = self.0.load(at, order);
        let generation = u64::from(word as u32);
        if at == area::BATON { area::how::START << 32 | generation } else { word }
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0.store(at, value, order);
    }

    fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        self.0.swap(at, value, order)
    }

    fn fence(&self) {
        self.0.fence();
    }
}

/// Names the buffers that a dead driver had by the order in which they were posted: those posted last, as if
/// every one before had been given back. The channel itself names none.
#[cfg(test)]
pub(super) fn forgets_by_order(session: &Session, buffers: u64) {
    let (channel, place) = (session.packets.words(), session.place);
    let ring = |head: usize| {
        place.first_word + words::ENTRIES + head / words::COMPLETIONS * 2 * place.capacity
    };
    let end = channel[place.first_word + words::COMPLETIONS].load(Acquire);
    for count in end - buffers..end {
        let entry = (count as usize & (place.capacity - 1)) * 2;
        let posted = channel[ring(words::POSTS) + entry].load(Relaxed);
        let token = Slice::from_entry([posted, 0]).token;
        let [word, extra] = Slice { flags: flags::RETURNED, ..Slice::posted(token) }.to_entry();
        channel[ring(words::COMPLETIONS) + entry].store(word, Relaxed);
        channel[ring(words::COMPLETIONS) + entry + 1].store(extra, Relaxed);
    }
}

/// A driver around a driver, with a bug.
struct Planted {
    driver: Box<dyn NicDriver>,
    bug: Bug,
    just_armed: bool,
    frames: u64,
    sent: u64,
    /// Frames that it will say to be sent.
    claimed: Vec<u32>,
}

impl Planted {
    fn new(driver: Box<dyn NicDriver>, bug: Bug) -> Planted {
        Planted { driver, bug, just_armed: false, frames: 0, sent: 0, claimed: Vec::new() }
    }
}

/// What the driver gives up passes here.
struct BadSink<'a> {
    sink: &'a mut dyn RxSink,
    memory: &'a dyn DmaMemory,
    bug: Bug,
    frames: &'a mut u64,
    held: Option<(Buffer, Received)>,
}

impl BadSink<'_> {
    fn change_middle_of(&self, buffer: Buffer, frame: Received) {
        let (mut byte, middle) = ([0], (BEHIND_NUMBER + u64::from(frame.bytes)) / 2);
        let middle = buffer.address + middle;
        // A frame that cannot be reached is another bug, and others find it.
        let _ = self.memory.read(middle, &mut byte);
        let _ = self.memory.write(middle, &[!byte[0]]);
    }
}

/// In a frame that is no longer than this there is little behind its number.
const SHORT_BYTES: u32 = 64;
/// Where a frame goes on behind its number.
const BEHIND_NUMBER: u64 = (SEQUENCE_OFFSET + SEQUENCE_BYTES) as u64;
const EVERY: u64 = 50;
const EVERY_SENT: u64 = 10;
const EVERY_BUFFER: u32 = 4;
const LAST_REFILLED: u64 = 20;

impl RxSink for BadSink<'_> {
    fn buffer(&mut self) -> Option<Buffer> {
        if self.bug == Bug::StopsRefilling && *self.frames >= LAST_REFILLED {
            return None;
        }
        self.sink.buffer()
    }

    fn received(&mut self, buffer: Buffer, frame: Received) {
        *self.frames += 1;
        let struck = self.frames.is_multiple_of(EVERY);
        match self.bug {
            Bug::DropsGood if struck => self.sink.returned(buffer),
            Bug::DeliversTwice if struck => {
                self.sink.received(buffer, frame);
                self.sink.received(buffer, frame);
            }
            Bug::Changes if struck && frame.bytes > SHORT_BYTES => {
                self.change_middle_of(buffer, frame);
                self.sink.received(buffer, frame);
            }
            Bug::Swaps if self.held.is_none() => self.held = Some((buffer, frame)),
            _ => {
                self.sink.received(buffer, frame);
                if let Some((buffer, frame)) = self.held.take() {
                    self.sink.received(buffer, frame);
                }
            }
        }
    }

    fn returned(&mut self, buffer: Buffer) {
        if self.bug != Bug::LeaksRefused {
            self.sink.returned(buffer);
        }
    }

    fn named(&self, token: u32) -> Option<Buffer> {
        self.sink.named(token)
    }
}

/// What the driver gives back when it stops its device passes here, but for the first buffer.
struct KeepingSink<'a> {
    sink: &'a mut dyn RxSink,
    kept: bool,
}

impl RxSink for KeepingSink<'_> {
    fn buffer(&mut self) -> Option<Buffer> {
        self.sink.buffer()
    }

    fn received(&mut self, buffer: Buffer, frame: Received) {
        self.sink.received(buffer, frame);
    }

    fn returned(&mut self, buffer: Buffer) {
        if std::mem::replace(&mut self.kept, true) {
            self.sink.returned(buffer);
        }
    }

    fn named(&self, token: u32) -> Option<Buffer> {
        self.sink.named(token)
    }
}

impl NicDriver for Planted {
    fn info(&self) -> &'static DriverInfo {
        self.driver.info()
    }

    fn init(
        &mut self,
        hw: &mut Hardware<'_>,
        rings: u64,
        buffers: usize,
        sink: &mut dyn RxSink,
    ) -> Result<(), DriverError> {
        self.driver.init(hw, rings, buffers, sink)
    }

    fn on_interrupt(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError> {
        self.driver.on_interrupt(hw, vector)
    }

    fn acknowledge(&mut self, hw: &mut Hardware<'_>, vector: u16) -> Result<Causes, DriverError> {
        self.driver.acknowledge(hw, vector)
    }

    fn arm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.just_armed = true;
        self.driver.arm(hw)
    }

    fn disarm(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.driver.disarm(hw)
    }

    fn poll(
        &mut self,
        hw: &mut Hardware<'_>,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, DriverError> {
        if std::mem::take(&mut self.just_armed) && self.bug == Bug::NoLastLook {
            return Ok(0);
        }
        let Planted { driver, bug, frames, .. } = self;
        let memory = hw.memory;
        let mut bad = BadSink { sink, memory, bug: *bug, frames, held: None };
        let found = driver.poll(hw, budget, &mut bad);
        if let Some((buffer, frame)) = bad.held.take() {
            bad.sink.received(buffer, frame);
        }
        found
    }

    fn transmit(&mut self, hw: &mut Hardware<'_>, frame: TxFrame<'_>) -> Result<bool, DriverError> {
        self.sent += 1;
        let struck = self.sent.is_multiple_of(EVERY_SENT);
        match self.bug {
            Bug::LosesSent if struck => Ok(true),
            Bug::ClaimsSent if struck => {
                self.claimed.push(frame.token);
                Ok(true)
            }
            Bug::SendsTwice if struck => {
                self.driver.transmit(hw, frame)?;
                self.driver.transmit(hw, frame)
            }
            // By its buffer: what is refused behind others is asked for again, and must be refused again.
            Bug::RefusesSent if frame.token.is_multiple_of(EVERY_BUFFER) => {
                Err(DriverError::Invalid("it does not like this buffer".into()))
            }
            _ => self.driver.transmit(hw, frame),
        }
    }

    fn keep_state(&mut self, area: StateArea, shown: Shown) -> Result<(), DriverError> {
        self.driver.keep_state(area, shown)
    }

    fn take_over(
        &mut self,
        hw: &mut Hardware<'_>,
        predecessor: Predecessor,
        shown: Shown,
    ) -> Result<Held, DriverError> {
        let missed = self.bug == Bug::MissesOne && predecessor == Predecessor::Died;
        let given = shown.given + u64::from(missed);
        self.driver.take_over(hw, predecessor, Shown { given, ..shown })
    }

    fn rehearse(&mut self, hw: &mut Hardware<'_>, shown: Shown) -> Held {
        self.driver.rehearse(hw, shown)
    }

    fn hand_over(&mut self, generation: u32) -> Result<(), DriverError> {
        match self.bug {
            Bug::NoRecord => Ok(()),
            #[cfg(test)]
            Bug::KeepsDevice => Err(DriverError::Invalid("there is no record".into())),
            _ => self.driver.hand_over(generation),
        }
    }

    fn kick(&mut self, hw: &mut Hardware<'_>) -> Result<(), DriverError> {
        self.driver.kick(hw)
    }

    fn reclaim(
        &mut self,
        hw: &mut Hardware<'_>,
        sent: &mut dyn FnMut(u32),
    ) -> Result<usize, DriverError> {
        let claimed = std::mem::take(&mut self.claimed);
        claimed.iter().for_each(|&token| sent(token));
        Ok(claimed.len() + self.driver.reclaim(hw, sent)?)
    }

    fn tx_room(&self) -> usize {
        self.driver.tx_room()
    }

    fn transmit_interrupts(&mut self, hw: &mut Hardware<'_>, on: bool) -> Result<(), DriverError> {
        self.driver.transmit_interrupts(hw, on)
    }

    fn link(&mut self, hw: &mut Hardware<'_>) -> Result<Link, DriverError> {
        self.driver.link(hw)
    }

    fn mac_address(&self) -> [u8; 6] {
        self.driver.mac_address()
    }

    fn rx_errors(&self) -> u64 {
        self.driver.rx_errors()
    }

    fn quiesce(
        &mut self,
        hw: &mut Hardware<'_>,
        sink: &mut dyn RxSink,
        sent: &mut dyn FnMut(u32),
    ) -> Result<(), DriverError> {
        if self.bug != Bug::KeepsStopped {
            return self.driver.quiesce(hw, sink, sent);
        }
        let mut keeping = KeepingSink { sink, kept: false };
        self.driver.quiesce(hw, &mut keeping, sent)
    }
}
