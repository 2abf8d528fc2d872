//! A driver at work in a process of its own.
//!
//! One loop: take the interrupts that have come, look at the ring, transmit, ask the strategy what comes
//! next. A pass that finds nothing looks at the interrupt's count, the first descriptor, and the clock,
//! and nothing else. What takes longer (a register read, a system call) waits for an idle moment, because
//! while the driver waits, interrupts that follow each other closely would become one.

pub mod store;

use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use warikomi_clock::{Span, Time};
use warikomi_pci::SharedMemory;
use warikomi_pci::attach::layout::{orders, report, state};
use warikomi_shared::Woken;

use crate::device::{AttachError, Device, SupportGone};
use crate::strategy::{Next, Receiver, Strategy};
use crate::{
    Buffer, DriverError, Hardware, Link, NicDriver, OwnPool, PoolError, Received, RxSink, Transmit,
    TxFrame, Upper,
};

/// Why a driver process ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No driver of that name.
    #[error("there is no driver called '{0}'")]
    UnknownDriver(String),
    /// No device to drive.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The driver gave up.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Its own receive buffers do not fit.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Nobody is there any more.
    #[error(transparent)]
    SupportGone(#[from] SupportGone),
    /// Whoever the frames are for cannot go on.
    #[error("{0}")]
    Upper(String),
    /// Nonsense in the orders page.
    #[error("the orders of the support side are no receive strategy: {0:?}")]
    BadOrders([u64; 4]),
    /// The region is too small.
    #[error("the rings take {needed} bytes of DMA memory, and there are {bytes}")]
    NoRoom {
        /// Bytes of the rings.
        needed: usize,
        /// Bytes of DMA memory.
        bytes: u64,
    },
}

/// Two passes further apart than this, with nothing to do in between, are a hiccup.
const HICCUP: Span = Span::from_us(2);
/// What a packet may add to that.
const WORK_PER_PACKET: Span = Span::from_ns(250);
/// Frames transmitted in a pass.
const TRANSMIT_BUDGET: usize = 64;
/// How often the report is brought up to date while the driver is busy.
const REPORT_EVERY: Span = Span::from_us(100);
/// How long nothing must have happened before the driver does what takes long.
const IDLE: Span = Span::from_us(200);
/// How often the link and the support side are looked at, when idle.
const LOOK_EVERY: Span = Span::from_ms(50);
/// The longest part of a sleep in which nobody sees that the driver lives.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Of so many sleeps, the processor time of one is measured.
const MEASURED_SLEEP: u64 = 16;

/// Buffers of a driver alone, unless the orders say otherwise.
const POOL_BUFFERS: usize = 256;

/// The program of a driver alone: attaches to the device that the environment names, and drives it with
/// the driver called `name` until it is told to stop. Errors go to the standard error.
pub fn main(name: &str) -> ExitCode {
    match alone(name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("driver {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn alone(name: &str) -> Result<(), RunError> {
    let mut driver =
        crate::by_name(name).ok_or_else(|| RunError::UnknownDriver(name.to_owned()))?;
    let mut device = Device::from_environment()?;
    let mut pool = match own_pool(&device, driver.as_ref()) {
        Ok(pool) => pool,
        Err(error) => return Err(fail(&device, error)),
    };
    serve(&mut device, driver.as_mut(), &mut pool)
}

/// The buffers that the orders ask for, behind the rings.
pub fn own_pool(device: &Device, driver: &dyn NicDriver) -> Result<OwnPool, RunError> {
    let (address, bytes) = device.dma();
    let info = driver.info();
    let needed = info.ring_bytes;
    let room = bytes.checked_sub(needed as u64).ok_or(RunError::NoRoom { needed, bytes })?;
    let longest = info.max_buffer_bytes as u64;
    let buffer_bytes = match device.order(orders::BUFFER_BYTES) {
        0 => longest as u32,
        bytes => bytes.min(longest) as u32,
    };
    let fit = room / u64::from(buffer_bytes.max(1)).next_multiple_of(64);
    let buffers = match device.order(orders::BUFFERS) {
        0 => (fit as usize).min(POOL_BUFFERS),
        buffers => usize::try_from(buffers).unwrap_or(usize::MAX),
    };
    Ok(OwnPool::new(address + needed as u64, room, buffers, buffer_bytes)?)
}

/// Drives the device, with `upper` above, until the orders say stop. The report page says how it went,
/// too.
pub fn serve<U: Upper>(
    device: &mut Device,
    driver: &mut dyn NicDriver,
    upper: &mut U,
) -> Result<(), RunError> {
    device.report(report::STATE, state::STARTING);
    let served = Service::start(device, driver, upper).and_then(Service::run);
    served.map_err(|error| fail(device, error))
}

/// Leaves the last words.
fn fail(device: &Device, error: RunError) -> RunError {
    device.last_words(&error.to_string());
    device.report(report::STATE, state::FAILED);
    error
}

/// Counts what goes up.
struct Counted<'a, U> {
    upper: &'a mut U,
    packets: u64,
    bytes: u64,
}

impl<U: Upper> RxSink for Counted<'_, U> {
    #[inline]
    fn buffer(&mut self) -> Option<Buffer> {
        self.upper.buffer()
    }

    #[inline]
    fn received(&mut self, frame: Received) {
        self.packets += 1;
        self.bytes += u64::from(frame.bytes);
        self.upper.received(frame);
    }

    fn returned(&mut self, buffer: Buffer) {
        self.upper.returned(buffer);
    }
}

/// What is counted besides.
#[derive(Default)]
struct Counts {
    tx_packets: u64,
    tx_bytes: u64,
    tx_errors: u64,
    polls: u64,
    empty_polls: u64,
    sleeps: u64,
    slept: Span,
    hiccups: u64,
    hiccup_time: Span,
}

struct Service<'a, U> {
    device: &'a mut Device,
    memory: SharedMemory,
    driver: &'a mut dyn NicDriver,
    sink: Counted<'a, U>,
    receiver: Receiver,
    counts: Counts,
    /// A frame for which the ring had no room.
    waiting: Option<Transmit>,
    unsent: u64,
    link_changed: bool,
    passes: u64,
    /// The end of the last pass, and what it had to do.
    passed: Time,
    worked: u64,
    active: Time,
    reported: Time,
    looked: Time,
}

/// The device for one call of the driver.
macro_rules! hardware {
    ($service:ident) => {
        &mut Hardware { mmio: &mut *$service.device, memory: &$service.memory }
    };
}

impl<'a, U: Upper> Service<'a, U> {
    fn start(
        device: &'a mut Device,
        driver: &'a mut dyn NicDriver,
        upper: &'a mut U,
    ) -> Result<Self, RunError> {
        let (memory, (rings, bytes)) = (device.memory(), device.dma());
        let needed = driver.info().ring_bytes;
        if needed as u64 > bytes {
            return Err(RunError::NoRoom { needed, bytes });
        }
        let strategy = ordered(device)?;
        let most = driver.info().rx_descriptors;
        let buffers = match device.order(orders::BUFFERS) {
            0 => most,
            buffers => usize::try_from(buffers).map_or(most, |buffers| buffers.min(most)),
        };
        let mut hw = Hardware { mmio: &mut *device, memory: &memory };
        driver.init(&mut hw, rings, buffers, upper)?;
        let now = device.now();
        let sink = Counted { upper, packets: 0, bytes: 0 };
        let mut service = Service {
            device,
            memory,
            driver,
            sink,
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
        };
        service.look_at_link()?;
        service.report(now);
        service.device.report(report::STATE, state::READY);
        Ok(service)
    }

    fn run(mut self) -> Result<(), RunError> {
        let served = self.work();
        let quiesced = self.quiesce();
        let now = self.device.now();
        self.report(now);
        served?;
        quiesced?;
        self.device.report(report::STATE, state::STOPPED);
        Ok(())
    }

    /// Until the orders say stop.
    fn work(&mut self) -> Result<(), RunError> {
        self.passed = self.device.now();
        loop {
            match self.pass()? {
                Next::Poll { .. } => {}
                Next::Yield { .. } => {
                    std::thread::yield_now();
                    self.passed = self.device.now();
                }
                Next::Arm { budget } if self.rest(budget)? => return Ok(()),
                Next::Arm { .. } => {}
            }
            if self.passes.is_multiple_of(64) && self.housekeep()? {
                return Ok(());
            }
        }
    }

    /// One look at everything.
    #[inline]
    fn pass(&mut self) -> Result<Next, RunError> {
        self.passes += 1;
        let begun = self.device.now();
        self.watch(begun);
        let interrupts = self.handle_interrupts()?;
        let found = self.look(self.receiver.budget())?;
        let sent = self.transmit()?;
        self.worked = found as u64 + sent + interrupts;
        // With nothing found, the time has hardly changed.
        let now = if self.worked > 0 { self.device.now() } else { begun };
        if self.worked > 0 {
            self.active = now;
        }
        Ok(self.receiver.next(now, found))
    }

    /// Whether the core was taken between two passes.
    #[inline]
    fn watch(&mut self, now: Time) {
        let gap = now.since(self.passed);
        if gap > HICCUP && gap > HICCUP + WORK_PER_PACKET * self.worked {
            self.counts.hiccups += 1;
            self.counts.hiccup_time = self.counts.hiccup_time + gap;
        }
        self.passed = now;
    }

    #[inline]
    fn handle_interrupts(&mut self) -> Result<u64, RunError> {
        let mut handled = 0;
        // More than a ring's worth of them at once is a support side that lies.
        while handled < 512 && self.device.take_interrupt() {
            let causes = if self.receiver.stays_armed() {
                self.driver.acknowledge(hardware!(self))?
            } else {
                self.driver.on_interrupt(hardware!(self))?
            };
            self.link_changed |= causes.link;
            handled += 1;
        }
        Ok(handled)
    }

    #[inline]
    fn look(&mut self, budget: usize) -> Result<usize, RunError> {
        let found = self.driver.poll(hardware!(self), budget, &mut self.sink)?;
        self.counts.polls += 1;
        self.counts.empty_polls += u64::from(found == 0);
        self.sink.upper.flush();
        Ok(found)
    }

    /// Frames handed to the device, and frames that it is done with.
    #[inline]
    fn transmit(&mut self) -> Result<u64, RunError> {
        let mut handed = 0;
        while handed < TRANSMIT_BUDGET {
            let Some(frame) = self.waiting.take().or_else(|| self.sink.upper.next_transmit())
            else {
                break;
            };
            let pieces = TxFrame { pieces: frame.pieces(), token: frame.token() };
            match self.driver.transmit(hardware!(self), pieces) {
                Ok(true) => {
                    self.counts.tx_packets += 1;
                    self.counts.tx_bytes += frame.bytes();
                    self.unsent += 1;
                    handed += 1;
                }
                Ok(false) => {
                    self.waiting = Some(frame);
                    break;
                }
                // Whoever is above has made no frame; that ends nothing but the frame.
                Err(DriverError::Invalid(_)) => {
                    self.counts.tx_errors += 1;
                    self.sink.upper.sent(frame.token());
                }
                Err(error) => return Err(error.into()),
            }
        }
        if handed > 0 {
            self.driver.kick(hardware!(self))?;
        }
        if self.unsent == 0 {
            return Ok(0);
        }
        let upper = &mut *self.sink.upper;
        let sent = self.driver.reclaim(hardware!(self), &mut |token| upper.sent(token))? as u64;
        self.unsent = self.unsent.saturating_sub(sent);
        if sent > 0 {
            self.sink.upper.flush();
        }
        Ok(sent + handed as u64)
    }

    /// Arms the interrupt, looks once more, and sleeps if there is nothing. Whether the orders say stop.
    #[cold]
    fn rest(&mut self, budget: usize) -> Result<bool, RunError> {
        let from = self.device.now();
        self.report(from);
        let strategy = self.receiver.strategy();
        let measure = matches!(strategy, Strategy::Auto { .. })
            && (self.counts.sleeps < MEASURED_SLEEP
                || self.counts.sleeps.is_multiple_of(MEASURED_SLEEP));
        let cpu_before = measure.then(thread_time);
        let (mut found, mut slept) = (0, false);
        let mut sleeper = self.device.sleeper();
        // Shared by the two parts, of which the second only looks.
        let service = std::cell::RefCell::new(&mut *self);
        let woken = sleeper.sleep_unless(
            || service.borrow_mut().nothing_to_do(budget, &mut found).map(|nothing| !nothing),
            || {
                slept = true;
                service.borrow_mut().sleep(strategy)
            },
        );
        self.sink.upper.awake();
        woken?;
        self.look_above()?;
        let to = self.device.now();
        if slept {
            self.counts.sleeps += 1;
            self.counts.slept = self.counts.slept + to.since(from);
            if let Some(before) = cpu_before {
                self.receiver.sleep_cost(Span::from_ns(thread_time().saturating_sub(before)));
            }
            self.receiver.slept(from, to);
        } else {
            self.receiver.next(to, found);
        }
        // An interrupt's handler masks; without one, nobody else does.
        if !self.receiver.stays_armed() && !self.device.interrupt_pending() {
            self.driver.disarm(hardware!(self))?;
        }
        (self.passed, self.active) = (self.device.now(), to);
        self.worked = found as u64;
        self.look_if_changed()?;
        self.housekeep_orders()
    }

    /// The last look before a sleep; from here on, whatever comes ends the sleep.
    fn nothing_to_do(&mut self, budget: usize, found: &mut usize) -> Result<bool, RunError> {
        self.driver.arm(hardware!(self))?;
        *found = self.look(budget)?;
        let above = self.sink.upper.prepare_to_sleep();
        let transmit = self.unsent > 0 && self.transmit()? > 0;
        let ordered = self.device.order(orders::STOP) != 0
            || ordered(self.device).ok() != Some(self.receiver.strategy());
        Ok(*found == 0 && !above && !transmit && !ordered && !self.device.interrupt_pending())
    }

    fn sleep(&mut self, strategy: Strategy) -> Result<Woken, RunError> {
        if strategy == Strategy::Awake {
            return Ok(Woken::Called);
        }
        loop {
            let woken = self.device.wait(self.sink.upper.wakeup(), HEARTBEAT)?;
            self.passes += 1;
            self.device.report(report::HEARTBEAT, self.passes);
            let stop = self.device.order(orders::STOP) != 0;
            self.look_above()?;
            if woken == Woken::Called || stop || ordered(self.device).ok() != Some(strategy) {
                return Ok(Woken::Called);
            }
        }
    }

    /// Whether whoever is above can go on.
    fn look_above(&mut self) -> Result<(), RunError> {
        self.sink.upper.failure().map_or(Ok(()), |failure| Err(RunError::Upper(failure)))
    }

    /// What must be done now and then. Whether the orders say stop.
    #[inline]
    fn housekeep(&mut self) -> Result<bool, RunError> {
        let now = self.passed;
        if now.since(self.reported) < REPORT_EVERY {
            return Ok(false);
        }
        self.report(now);
        if now.since(self.active) > IDLE {
            self.look_if_changed()?;
            if now.since(self.looked) > LOOK_EVERY {
                self.looked = now;
                self.device.check_support()?;
                self.look_above()?;
                self.look_at_link()?;
                self.passed = self.device.now();
            }
        }
        self.housekeep_orders()
    }

    fn housekeep_orders(&mut self) -> Result<bool, RunError> {
        if self.device.order(orders::STOP) != 0 {
            return Ok(true);
        }
        let strategy = ordered(self.device)?;
        if strategy != self.receiver.strategy() {
            self.receiver = Receiver::new(strategy, self.device.now());
            self.driver.disarm(hardware!(self))?;
        }
        Ok(false)
    }

    fn look_if_changed(&mut self) -> Result<(), RunError> {
        if std::mem::take(&mut self.link_changed) { self.look_at_link() } else { Ok(()) }
    }

    fn look_at_link(&mut self) -> Result<(), RunError> {
        let mbps = match self.driver.link(hardware!(self))? {
            Link::Down => 0,
            Link::Up { mbps } => mbps,
        };
        self.device.report(report::LINK_MBPS, mbps.into());
        Ok(())
    }

    fn report(&mut self, now: Time) {
        self.reported = now;
        let ns = |span: Span| span.as_ps() / 1_000;
        let counts = &self.counts;
        let poll_ns = self.receiver.poll_time().map_or(u64::MAX, ns);
        for (word, value) in [
            (report::HEARTBEAT, self.passes),
            (report::RX_PACKETS, self.sink.packets),
            (report::RX_BYTES, self.sink.bytes),
            (report::RX_ERRORS, self.driver.rx_errors()),
            (report::RX_DROPPED, self.sink.upper.dropped()),
            (report::TX_PACKETS, counts.tx_packets),
            (report::TX_BYTES, counts.tx_bytes),
            (report::TX_ERRORS, counts.tx_errors),
            (report::INTERRUPTS, self.device.interrupts_taken()),
            (report::POLLS, counts.polls),
            (report::EMPTY_POLLS, counts.empty_polls),
            (report::SLEEPS, counts.sleeps),
            (report::SLEPT_NS, ns(counts.slept)),
            (report::POLL_NS, poll_ns),
            (report::HICCUPS, counts.hiccups),
            (report::HICCUP_NS, ns(counts.hiccup_time)),
        ] {
            self.device.report(word, value);
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

/// How the support side wants packets to be received.
#[inline]
fn ordered(device: &Device) -> Result<Strategy, RunError> {
    let words = [orders::STRATEGY, orders::POLL_NS, orders::BUDGET, orders::CPU_BUDGET_PPM];
    let words = words.map(|word| device.order(word));
    Strategy::from_orders(words).ok_or(RunError::BadOrders(words))
}

/// Processor time that this thread has taken, in nanoseconds.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
