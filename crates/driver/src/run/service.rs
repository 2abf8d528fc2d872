//! A driver's turns at its device.

use warikomi_clock::Time;
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::layout::{orders, report, state, times};

use super::RunError;
use super::look::{Counts, ordered};
use super::pass::Counted;
use super::succession::{AWAKE_FOR, Opening, Succession, Waited};
use crate::device::Device;
use crate::state::{Counters, Predecessor};
use crate::strategy::{Next, Receiver};
use crate::{Hardware, NicDriver, Transmit, Upper};

pub(super) struct Service<'a, U> {
    pub(super) device: &'a mut Device,
    pub(super) memory: SharedMemory,
    pub(super) driver: &'a mut dyn NicDriver,
    pub(super) sink: Counted<'a, U>,
    pub(super) receiver: Receiver,
    pub(super) counts: Counts,
    /// A frame that is not on the ring yet: there is no room, or it cannot be sent and others are before it.
    pub(super) waiting: Option<Transmit>,
    /// Frames that are on the ring.
    pub(super) unsent: u64,
    pub(super) link_changed: bool,
    pub(super) passes: u64,
    /// The end of the last pass, and what it had to do.
    pub(super) passed: Time,
    pub(super) worked: u64,
    pub(super) active: Time,
    pub(super) reported: Time,
    pub(super) looked: Time,
    /// Others drive the device before and after; `None` if nobody else does.
    succession: Option<Succession>,
    /// The last order to hand over that was looked at, and the last to be awake.
    answered: u64,
    alert: u64,
    /// Until then it does not sleep, because of that.
    awake_until: Time,
}

/// The device for one call of the driver.
macro_rules! hardware {
    ($service:ident) => {
        &mut Hardware { mmio: &mut *$service.device, memory: &$service.memory }
    };
}
pub(super) use hardware;

/// How a turn ends.
enum End {
    /// The orders say stop.
    Stop,
    /// The device is another driver's.
    HandedOver,
}

impl<'a, U: Upper> Service<'a, U> {
    /// Everything but the device's own registers and memory is ready.
    pub(super) fn new(
        device: &'a mut Device,
        driver: &'a mut dyn NicDriver,
        upper: &'a mut U,
    ) -> Result<Self, RunError> {
        let (memory, (_, bytes)) = (device.memory(), device.dma());
        let needed = driver.info().ring_bytes;
        if needed as u64 > bytes {
            return Err(RunError::NoRoom { needed, bytes });
        }
        let strategy = ordered(device)?;
        let succession = Succession::of(device, driver.info())?;
        let now = device.now();
        let mut service = Service {
            device,
            memory,
            driver,
            sink: Counted { upper, packets: 0, bytes: 0 },
            receiver: Receiver::new(strategy, now),
            counts: Counts::default(),
            waiting: None,
            unsent: 0,
            link_changed: false,
            passes: 0,
            passed: now,
            worked: 0,
            active: now,
            reported: now,
            looked: now,
            succession,
            answered: 0,
            alert: 0,
            awake_until: Time::ZERO,
        };
        if service.succession.is_some() {
            service.device.warm(needed);
            service.sink.upper.warm();
            service.report(now);
            service.device.report(report::STATE, state::WARM);
        }
        Ok(service)
    }

    /// Until the orders say stop.
    pub(super) fn run(mut self) -> Result<(), RunError> {
        let ended = self.turns();
        self.report(self.device.now());
        ended?;
        self.device.report(report::STATE, state::STOPPED);
        Ok(())
    }

    fn turns(&mut self) -> Result<(), RunError> {
        while let Some(opening) = self.next_turn()? {
            self.begin(opening)?;
            match self.work() {
                Ok(End::HandedOver) => self.device.report(report::STATE, state::HANDED_OVER),
                // What a driver leaves as it is when it fails, its successor goes on with.
                Err(error) if self.succession.is_some() => return Err(error),
                ended => {
                    let quiesced = self.quiesce();
                    return ended.and(quiesced);
                }
            }
        }
        Ok(())
    }

    /// Waits until the device is ours; `None` if the orders say stop before.
    fn next_turn(&mut self) -> Result<Option<Opening>, RunError> {
        loop {
            let Some(succession) = &self.succession else { return Ok(Some(Opening::Start)) };
            match succession.wait(self.device, self.alert)? {
                Waited::Turn(opening) => return Ok(Some(opening)),
                Waited::Stop => return Ok(None),
                Waited::Alert(order) => self.alert = order,
            }
            self.rehearse();
            self.device.report(report::STATE, state::ALERT);
        }
    }

    /// Brings code and memory that will be needed close to the processor.
    fn rehearse(&mut self) {
        let Some(succession) = &self.succession else { return };
        let shown = self.sink.upper.shown();
        if succession.keep_state(self.driver, shown).is_ok() {
            let held = self.driver.rehearse(hardware!(self), shown);
            self.sink.upper.rehearse(&held);
        }
    }

    /// Takes the device, and serves it for the first time.
    fn begin(&mut self, opening: Opening) -> Result<(), RunError> {
        match opening {
            Opening::Start => self.start()?,
            Opening::After(predecessor) => self.take_over(predecessor)?,
            Opening::GoOn => {}
        }
        self.device.stamp(times::ACCEPTED);
        let now = self.device.now();
        self.receiver = Receiver::new(ordered(self.device)?, now);
        (self.passed, self.active) = (now, now);
        self.pass()?;
        self.device.stamp(times::SERVED);
        if self.succession.is_some() {
            self.sink.upper.wake();
        }
        self.look_at_link()?;
        self.report(self.passed);
        self.device.report(report::STATE, state::READY);
        Ok(())
    }

    /// Resets the device. What predecessors had goes back to whoever is above.
    fn start(&mut self) -> Result<(), RunError> {
        if let Some(succession) = &self.succession {
            let driven = succession.was_driven();
            succession.accept();
            if driven {
                // A device that still runs would write to buffers that go back. One that does not answer is
                // found out below.
                let _ = self.driver.quiesce(hardware!(self), &mut self.sink, &mut |_| ());
            }
            let forgotten = self.sink.upper.forget();
            self.sink.upper.flush();
            self.device.report(report::FORGOTTEN_BUFFERS, forgotten.buffers);
            self.device.report(report::FORGOTTEN_FRAMES, forgotten.frames);
            succession.keep_state(self.driver, self.sink.upper.shown())?;
        }
        (self.waiting, self.unsent) = (None, 0);
        let most = self.driver.info().rx_descriptors;
        let buffers = match self.device.order(orders::BUFFERS) {
            0 => most,
            buffers => usize::try_from(buffers).map_or(most, |buffers| buffers.min(most)),
        };
        let rings = self.device.dma().0;
        Ok(self.driver.init(hardware!(self), rings, buffers, self.sink.upper)?)
    }

    /// Goes on where another driver stopped.
    fn take_over(&mut self, predecessor: Predecessor) -> Result<(), RunError> {
        let Some(succession) = &self.succession else { return Ok(()) };
        succession.fetch()?;
        let shown = self.sink.upper.shown();
        succession.keep_state(self.driver, shown)?;
        let held = self.driver.take_over(hardware!(self), predecessor, shown)?;
        succession.accept();
        self.sink.upper.resume(&held)?;
        (self.waiting, self.unsent) = (None, held.sending.len() as u64);
        if let Some(counted) = succession.counted() {
            self.carry_on(counted);
        }
        Ok(())
    }

    fn work(&mut self) -> Result<End, RunError> {
        self.passed = self.device.now();
        loop {
            if self.is_ordered_away() && self.hand_over() {
                return Ok(End::HandedOver);
            }
            match self.pass()? {
                Next::Poll { .. } => {}
                Next::Yield { .. } => {
                    std::thread::yield_now();
                    self.passed = self.device.now();
                }
                Next::Arm { budget } if self.rest(budget)? => return Ok(End::Stop),
                Next::Arm { .. } => {}
            }
            if self.passes.is_multiple_of(64) && self.housekeep()? {
                return Ok(End::Stop);
            }
        }
    }

    /// Whether there is an order to hand over that was not looked at.
    #[inline]
    pub(super) fn is_ordered_away(&self) -> bool {
        self.device.order(orders::HAND_OVER) != self.answered
    }

    /// Whether the device is about to be handed over, so that a sleep would cost a wake-up.
    pub(super) fn is_alerted(&mut self) -> bool {
        let (order, now) = (self.device.order(orders::ALERT), self.device.now());
        if order != self.alert {
            (self.alert, self.awake_until) = (order, now + AWAKE_FOR);
        }
        now < self.awake_until
    }

    /// Hands the device over; `false` if that was called off, or cannot be, and this driver goes on.
    #[cold]
    fn hand_over(&mut self) -> bool {
        self.answered = self.device.order(orders::HAND_OVER);
        // Word of this very order, which may not have been heeded: it is not about the next turn.
        self.alert = self.device.order(orders::ALERT);
        let Some(succession) = &self.succession else { return false };
        let Some(to) = succession.successor(self.answered) else { return false };
        self.device.stamp(times::ORDER_SEEN);
        self.sink.upper.flush();
        succession.note(&self.totals());
        if let Err(error) = succession.record(self.driver) {
            eprintln!("driver: it keeps its device, which it cannot hand over: {error}");
            return false;
        }
        self.device.stamp(times::HANDED_OVER);
        succession.give(to);
        true
    }

    /// What is counted from driver to driver.
    pub(super) fn totals(&self) -> Counters {
        let counts = &self.counts;
        Counters {
            rx_packets: self.sink.packets,
            rx_bytes: self.sink.bytes,
            rx_errors: counts.rx_errors_before.wrapping_add(self.driver.rx_errors()),
            tx_packets: counts.tx_packets,
            tx_bytes: counts.tx_bytes,
            tx_errors: counts.tx_errors,
        }
    }

    fn carry_on(&mut self, counted: Counters) {
        (self.sink.packets, self.sink.bytes) = (counted.rx_packets, counted.rx_bytes);
        let counts = &mut self.counts;
        counts.rx_errors_before = counted.rx_errors.wrapping_sub(self.driver.rx_errors());
        counts.tx_packets = counted.tx_packets;
        counts.tx_bytes = counted.tx_bytes;
        counts.tx_errors = counted.tx_errors;
    }

    /// Lets a successor know what was counted, as of now. Only while the device is ours.
    pub(super) fn note(&self) {
        if let Some(succession) = &self.succession {
            succession.note(&self.totals());
        }
    }

    /// Whatever happened before: the device is stopped, and everything goes back.
    fn quiesce(&mut self) -> Result<(), RunError> {
        let mut sent = Vec::new();
        let quiesced =
            self.driver.quiesce(hardware!(self), &mut self.sink, &mut |token| sent.push(token));
        let waiting = self.waiting.take().map(|frame| frame.token());
        sent.into_iter().chain(waiting).for_each(|token| self.sink.upper.sent(token));
        self.sink.upper.flush();
        Ok(quiesced?)
    }
}
