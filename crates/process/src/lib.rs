//! A driver in a process of its own, as in a microkernel system, with our NIC as its device.
//!
//! The two sides share a window and memory ([`warikomi_pci::attach`]) and a pipe, handed over a
//! socket; nothing else. The support side spins: it serves the ring of register accesses, and counts
//! interrupts in a word that the driver looks at. Only a driver that sleeps costs a system call, the
//! write to the pipe.
//!
//! What the driver does to them can cost the support side nothing but an error ([`port`],
//! [`report`]); what becomes of its process, and of those of the parts above it, is seen by
//! [`Target::housekeep`].

mod application;
mod creation;
pub mod dispatches;
mod launch;
mod line;
mod live;
mod orders;
mod parts;
mod port;
mod priority;
pub mod programs;
mod region;
mod report;
mod request_log;
mod resident;
mod seat;
mod seats;
mod served;
mod starter;
mod store;
mod succession;
mod way;

use std::time::{Duration, Instant};

use serde_json::Value;
use warikomi_clock::{Clock, TscClock};
use warikomi_nic::{InterruptRecord, Nic};
use warikomi_pci::attach::layout::{self, state};
use warikomi_pci::{Host, SharedMemory};
use warikomi_protocol::Request;
use warikomi_shared::SharedWords;
use warikomi_stack::{Chain, ChannelPlace, PacketMemory};
use warikomi_target::agent::AgentLine;
use warikomi_target::console::Console;
use warikomi_target::request::over_line;
use warikomi_target::{
    Agent, CardId, ConsoleTail, Handlers, Interrupted, Pass, Slot, Target, TargetCounters,
    TargetError, wait,
};

use self::application::OwnApplication;
use self::parts::{APPLICATION, PartFailure, Parts};
use self::port::Port;
use self::region::{DeviceMemory, WindowOptions};
use self::report::Report;
use self::seats::{Seats, SeatsOptions};
use self::store::Store;
pub use application::APPLICATION_TIMEOUT;
pub use creation::{MOST_READS, can_be_read};
pub use live::Seat;
use orders::FIRST_GENERATION;
pub use orders::Orders;
pub use parts::Program;
pub use priority::{NICE, Priorities, Wanted, claim_for_this_thread, may_be_raised};
pub use request_log::StoreRequest;
pub use served::ServedWindow;
pub use succession::{
    MOST_STORE_CLIENTS, ParseStateIoError, StateIo, StoreOptions, Succession, USUAL_STORE_INTERVAL,
};
pub use way::{Baton, How, ParseWayError, Way};

/// How long a driver may take from its start until it reports that its device receives.
pub const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a driver may take to quiesce its device when it is told to.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the counts of a driver may be behind what it does.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// What stands above a driver.
#[derive(Debug)]
pub struct Above {
    /// Its memory, and what its processes are handed.
    pub chain: Chain,
    /// What runs the part of that name.
    pub program: fn(&str) -> Program,
    /// What runs the application, if that is the user's own: it answers no requests, and is let end before it is
    /// killed.
    pub application: Option<Program>,
}

/// What a process target is started with.
#[derive(Debug)]
pub struct ProcessOptions {
    /// The driver.
    pub driver: Program,
    /// Memory for its rings and, if there is no packet memory, its buffers.
    pub dma_bytes: u64,
    /// Orders for the driver, such as its receive strategy.
    pub orders: Orders,
    /// What stands above it; nothing if `None`: it counts frames, and gives their buffers back.
    pub above: Option<Above>,
    /// The core that the parts run on; anywhere if `None`.
    pub core: Option<usize>,
    /// Yield instead of spin while waiting: for both sides on one core.
    pub shared_core: bool,
    /// How the driver can be replaced while it runs; not at all if `None`: its end is the target's.
    pub live: Option<Succession>,
    /// Whether its processes are confined, but for an application of the user's own.
    pub confined: bool,
}

/// A running driver process with a NIC.
pub struct ProcessTarget {
    nic: Slot,
    clock: TscClock,
    interrupted: Interrupted,
    parts: Parts,
    seats: Seats,
    store: Option<Store>,
    port: Port,
    /// Of the driver that is served, or was last.
    report: Report,
    console: Console,
    requests: Option<AgentLine>,
    /// What the user's own application says, if there is one.
    application: Option<OwnApplication>,
    shared_core: bool,
    /// The end of a driver is not the target's.
    live: bool,
    stopped: bool,
    /// Interrupts sent up to the last pass: each may have woken a driver.
    sent_seen: u64,
}

impl ProcessTarget {
    /// Starts a driver and attaches `nic` to it; returns when the driver reports that its device receives.
    pub fn start(
        options: ProcessOptions,
        nic: Box<dyn Nic>,
        clock: TscClock,
        interrupted: Interrupted,
    ) -> Result<ProcessTarget, TargetError> {
        let mut target = ProcessTarget::launch(options, nic, clock, interrupted)?;
        target.wait_ready()?;
        Ok(target)
    }

    fn launch(
        options: ProcessOptions,
        mut nic: Box<dyn Nic>,
        clock: TscClock,
        interrupted: Interrupted,
    ) -> Result<ProcessTarget, TargetError> {
        let ProcessOptions { driver, dma_bytes, orders, mut above, shared_core, live, .. } =
            options;
        let place = (options.core, options.confined);
        let starter = live.as_ref().and_then(|live| live.starter.as_ref());
        let mut store = data_store(live.as_ref())?;
        let packets = above.as_ref().and_then(|above| above.chain.memory.as_ref());
        let device =
            DeviceMemory::new(dma_bytes, packets.map(|packets| &packets.1), live.is_some())
                .map_err(TargetError::system("cannot make the memory that the driver shares"))?;
        let window = WindowOptions {
            register_bar: nic.info().register_bar,
            tsc_hz: clock.ticks_per_second(),
            generation: FIRST_GENERATION,
            way: live.as_ref().map_or(layout::way::RELOAD, |live| live.way.to_word()),
        };
        let channel = packets.and_then(|(memory, _)| driver_channel(memory));
        let invitation = above.as_mut().and_then(|above| above.chain.driver.take());
        let memory = device.memory.clone();
        let mut seats = Seats::new(device, SeatsOptions { window, orders, invitation, channel });
        seats.give_baton(FIRST_GENERATION, How::Start);
        let socket = store.as_mut().map(|store| store.client(FIRST_GENERATION)).transpose()?;
        let first = seats.prepare(socket)?;
        let (mut parts, part, console) =
            Parts::start((&driver, starter), layout::HELLO, &first.files(&seats.device), place)?;
        let (end, report) = seats.add_first(first, part);
        seats.settle(live.as_ref(), &mut parts);
        let (requests, application) = match above {
            Some(above) => start_above(above, &mut parts)?,
            None => (None, None),
        };
        let mut port = Port::new(end, memory, clock, nic.vectors().count());
        nic.probe().handlers_tell();
        nic.power_on(&mut port.host(clock.now()));
        Ok(ProcessTarget {
            nic: Slot::new(nic),
            clock,
            interrupted,
            parts,
            seats,
            store,
            port,
            report,
            console: Console::new(console),
            requests,
            application,
            shared_core,
            live: live.is_some(),
            stopped: false,
            sent_seen: 0,
        })
    }

    /// Changes how the driver receives, while it runs.
    pub fn order(&mut self, given: &Orders) {
        self.seats.order(given);
        self.port.line.ring();
    }

    fn wait_ready(&mut self) -> Result<(), TargetError> {
        let ready = |target: &mut Self| match target.report.state() {
            state::READY => Some(Ok(())),
            // A first driver that fails leaves nothing that could be gone on with.
            _ if target.live => target.look_at_driver().err().map(Err),
            _ => None,
        };
        let seen = wait::until(self, READY_TIMEOUT, ready)?;
        let never =
            || TargetError::DriverNotReady { within: READY_TIMEOUT, console: self.console() };
        seen.unwrap_or_else(|| Err(never()))?;
        self.wait_for_application()
    }

    /// Waits until the user's own application, if there is one, has buffers to receive into.
    fn wait_for_application(&mut self) -> Result<(), TargetError> {
        let ready = |target: &mut Self| {
            target.application.as_ref().is_none_or(OwnApplication::is_ready).then_some(())
        };
        let (within, seen) = (APPLICATION_TIMEOUT, wait::until(self, APPLICATION_TIMEOUT, ready)?);
        match self.application.as_ref().filter(|_| seen.is_none()).and_then(OwnApplication::missing)
        {
            None => Ok(()),
            Some(missing) => {
                let console = self.console();
                Err(TargetError::ApplicationNotReady { within, missing, console })
            }
        }
    }

    fn look_at_parts(&mut self) -> Result<(), TargetError> {
        self.console.drain();
        if !self.live {
            self.look_at_driver()?;
        }
        let Some(failure) = self.parts.failure_above() else { return Ok(()) };
        Err(self.explain(failure))
    }

    fn look_at_driver(&mut self) -> Result<(), TargetError> {
        if self.report.state() == state::FAILED {
            return Err(self.driver_failed());
        }
        let Some(failure) = self.driver_failure() else { return Ok(()) };
        Err(self.explain(failure))
    }

    fn driver_failure(&mut self) -> Option<PartFailure> {
        let seat = self.seats.served_seat()?;
        self.parts.failure_of(&mut seat.part)
    }

    /// A driver also fails for want of a part above it that was killed, and may see that before we do.
    fn driver_failed(&mut self) -> TargetError {
        // What it prints about it may be on its way.
        std::thread::sleep(Duration::from_millis(10));
        if !self.parts.is_driver_alone()
            && let Some(cause) = self.wait_for_cause()
        {
            return self.error(cause);
        }
        self.driver_gave_up()
    }

    fn driver_gave_up(&mut self) -> TargetError {
        let message = self.report.last_words();
        // How it ended that the driver misses says more than that it does.
        if let Some(PartFailure::Ended(part, status)) = self.parts.failure_above()
            && message.starts_with(&format!("the {part} is gone"))
        {
            return self.error(PartFailure::Ended(part, status));
        }
        self.console.drain_all();
        TargetError::DriverFailed { message, console: self.console() }
    }

    /// A process closes its socket a moment before it is seen to have ended, and its status says more;
    /// and what ends for want of another may be seen to have ended before that other.
    fn explain(&mut self, failure: PartFailure) -> TargetError {
        let cause = self.wait_for_cause();
        let cause = cause.or_else(|| self.driver_failure().filter(|_| !self.live));
        let cause = cause.or_else(|| self.parts.failure_above());
        self.error(cause.unwrap_or(failure))
    }

    /// Looks for the cause for as long as the kernel may take to end a process.
    fn wait_for_cause(&mut self) -> Option<PartFailure> {
        const LAST_WORDS: Duration = Duration::from_millis(300);
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            let driver = self.seats.served_seat().filter(|_| !self.live);
            let cause = self.parts.cause(driver.map(|seat| &seat.part));
            if cause.is_some() || self.interrupted.is_set() || Instant::now() >= deadline {
                return cause;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn error(&mut self, failure: PartFailure) -> TargetError {
        if matches!(failure, PartFailure::Ended(parts::DRIVER, _))
            && self.report.state() == state::FAILED
        {
            return self.driver_gave_up();
        }
        self.console.drain_all();
        let console = self.console();
        match failure {
            PartFailure::Ended(part, status) => TargetError::PartEnded { part, status, console },
            PartFailure::HungUp(part) => TargetError::PartHungUp { part, console },
        }
    }

    /// Serves the driver until its counts are those of now: its loop has come by twice, or it sleeps,
    /// which it does with its counts written; or it has given its device away, or is gone without being
    /// missed, and counts no more.
    fn counts_up_to_date(&mut self) -> Result<(), TargetError> {
        let before = self.report.heartbeat();
        let current = |target: &mut Self| {
            let report = &target.report;
            let rounds = report.heartbeat().wrapping_sub(before);
            let over = report.state() == state::HANDED_OVER;
            let current = rounds >= 2 || report.sleeps() || over;
            (current || target.live && target.driver_has_ended()).then_some(())
        };
        wait::until(self, REPORT_TIMEOUT, current)?.ok_or_else(|| TargetError::NoCounts {
            within: REPORT_TIMEOUT,
            console: self.console(),
        })
    }

    /// Lets the driver quiesce its device, for as long as it may take.
    fn quiesce(&mut self) {
        self.order_stop(self.served());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline
            && !matches!(self.report.state(), state::STOPPED | state::FAILED)
            && !self.driver_has_ended()
        {
            for _ in 0..256 {
                self.port.serve(&mut *self.nic);
            }
            if self.shared_core {
                std::thread::yield_now();
            }
        }
    }

    /// The card, and what it is attached to.
    #[inline]
    fn device(&mut self) -> (&mut dyn Nic, Host<'_>) {
        let now = self.clock.now();
        (&mut *self.nic, self.port.host(now))
    }

    fn driver_has_ended(&mut self) -> bool {
        let seat = self.seats.served_seat();
        seat.is_none_or(|seat| self.parts.end_of(&mut seat.part).is_some())
    }
}

/// Starts what stands above the driver: whom to ask, and the user's own application if there is one, which nobody asks.
fn start_above(
    above: Above,
    parts: &mut Parts,
) -> Result<(Option<AgentLine>, Option<OwnApplication>), TargetError> {
    let Above { chain, program, application: own } = above;
    for part in chain.parts {
        let own = own.clone().filter(|_| part.name == APPLICATION);
        let is_own = own.is_some();
        parts.add(&own.unwrap_or_else(|| program(part.name)), part, is_own)?;
    }
    if let Some((packets, _)) = own.and(chain.memory) {
        return Ok((None, OwnApplication::above(&packets, chain.control)));
    }
    let requests = chain.control.map(AgentLine::new).transpose();
    Ok((requests.map_err(TargetError::system("cannot set up a line"))?, None))
}

/// The store, where drivers follow one another by it.
fn data_store(live: Option<&Succession>) -> Result<Option<Store>, TargetError> {
    let Some(Succession { store, .. }) = live.filter(|live| live.way == Way::DataStore) else {
        return Ok(None);
    };
    let missing =
        || std::io::Error::new(std::io::ErrorKind::InvalidInput, "its program is not given");
    let store = store.clone().ok_or_else(missing);
    Ok(Some(Store::new(store.map_err(TargetError::system("cannot start the data store"))?)))
}

/// The words of packet memory, and the channel between the driver and the layer above it.
fn driver_channel(memory: &PacketMemory) -> Option<(SharedWords, ChannelPlace)> {
    let place = memory.channel(memory.shape().channels.checked_sub(1)?)?;
    Some((memory.words().clone(), place))
}

impl Target for ProcessTarget {
    #[inline]
    fn poll(&mut self) -> Result<Pass, TargetError> {
        let now = self.clock.now();
        let sent = self.port.line.sent();
        let signalled = std::mem::replace(&mut self.sent_seen, sent) != sent;
        let served = self.port.serve(&mut *self.nic);
        self.nic.poll(&mut self.port.host(now));
        self.port.take_some_stamps(&mut *self.nic);
        Ok(Pass { at: now, worked: served > 0, signalled })
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        if self.interrupted.is_set() {
            return Err(TargetError::Interrupted);
        }
        self.look_at_parts()?;
        self.note();
        self.seats.discard_late();
        if let Some(store) = &mut self.store {
            store.look(&mut self.parts, &self.seats);
        }
        if let Some(line) = &mut self.requests {
            line.pump();
        }
        Ok(())
    }

    fn cards(&self) -> usize {
        1
    }

    #[inline]
    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        card.among(self.cards())?;
        Ok(self.device())
    }

    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
        card.among(self.cards())?;
        Ok(&mut self.nic)
    }

    fn memory(&self, card: CardId) -> Option<&SharedMemory> {
        card.among(self.cards()).ok()?;
        Some(&self.port.memory)
    }

    fn clock(&self) -> Clock {
        self.clock.into()
    }

    fn console(&self) -> ConsoleTail {
        self.console.tail()
    }

    fn counters(&self) -> TargetCounters {
        self.port.counters()
    }

    fn stop(&mut self) -> Result<(), TargetError> {
        if std::mem::replace(&mut self.stopped, true) {
            return Ok(());
        }
        self.quiesce();
        self.note();
        // What joins the group after its end outlives it.
        self.seats.call_off_starts();
        self.store = None;
        if self.application.take().is_some() {
            self.parts.hang_up(STOP_TIMEOUT);
        }
        self.parts.end()
    }

    fn shares_a_core(&self) -> bool {
        self.shared_core
    }

    fn process_id(&self) -> u32 {
        self.seats.served_process().unwrap_or(0)
    }

    fn process_ids(&self) -> Vec<u32> {
        let drivers = self.seats.iter().filter_map(|seat| seat.part.id());
        let stores = self.store.iter().flat_map(Store::ids);
        drivers.chain(self.parts.ids_above()).chain(stores).collect()
    }

    fn agent(&mut self) -> Option<&mut dyn Agent> {
        Some(self)
    }

    fn handlers(&mut self, card: CardId) -> Option<&mut dyn Handlers> {
        card.among(self.cards()).ok()?;
        Some(self)
    }
}

impl Agent for ProcessTarget {
    fn request(&mut self, request: Request, allowance: Duration) -> Result<Value, TargetError> {
        match &request {
            Request::Counters(_) => {
                self.counts_up_to_date()?;
                Ok(as_value(self.report.counters()))
            }
            Request::LinkState(_) => Ok(as_value(self.report.link())),
            Request::ReceiveStatus(_) if let Some(application) = &self.application => {
                Ok(as_value(application.totals()))
            }
            _ => over_line(self, |target| target.requests.as_mut(), request, allowance),
        }
    }

    fn has_application(&self) -> bool {
        self.requests.is_some()
    }
}

impl Handlers for ProcessTarget {
    fn note(&mut self) {
        self.port.take_stamps(&mut *self.nic, layout::STAMPS_CAPACITY as u64);
    }

    fn log(&mut self, capacity: usize) {
        self.note();
        self.port.line.log(capacity);
    }

    fn handled_count(&self) -> u64 {
        self.port.line.handled_count()
    }

    fn take_log(&mut self) -> Vec<InterruptRecord> {
        self.note();
        self.port.line.take_log()
    }
}

/// An answer as it would come over a line.
fn as_value(answer: impl serde::Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}
