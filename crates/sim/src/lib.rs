//! The process target in virtual time: NIC model, driver, strategy, application, a competing job and
//! the injector in one thread.
//!
//! The model, the driver, its loop with strategy and succession, and the channel above are the very code that
//! runs in real time. What they take is charged by a [`CostModel`], who runs when is decided by a [`SchedulerModel`], and both are in the
//! result. One seed is one history, byte for byte: [`Outcome::digest`] is a digest of all that
//! happened.
//!
//! Every call of the driver takes place at one instant, the beginning of its step, and then keeps the
//! core for as long as the model says; posted writes take effect later. What happens in between
//! happens in between: frames arrive, interrupts travel, processes are preempted in the middle of a
//! step.

mod above;
mod bed;
pub mod calibrate;
pub mod checkers;
mod costs;
mod costs_file;
mod cpu;
mod device;
pub mod history;
#[cfg(test)]
mod planted;
mod pool;
mod process;
pub mod receive;
mod session;
mod stage;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;
pub mod transmit;
mod world;

use serde::{Deserialize, Serialize};
use warikomi_clock::{Seed, Span};
use warikomi_driver::NicDriver;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::{Fault, PlanError};
use warikomi_measure::{Distribution, Samples};
use warikomi_nic::{MAX_FRAME_BYTES, Nic, NicOptions, RxOutcome};
use warikomi_wire::{CountedSink, Wire};

pub use costs::{CostModel, SchedulerModel};
pub use costs_file::{CostsFile, CostsFileError};
pub use trace::{Event, Observer, Part};
pub use traffic::{Bursts, Traffic};

/// Which processes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Driver, protocols and application in one process: a user-level network interface.
    #[default]
    Direct,
    /// The driver in one, protocols and application in another.
    Application,
    /// Each in one of its own.
    StackAndApplication,
}

/// When something is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Behind the event with this number.
    Event(u64),
    /// This long after the first burst began.
    After(Span),
    /// So many steps of drivers after one was ordered to hand its device over; whoever made the last.
    HandOver(u64),
}

/// How the drivers of a device follow one another, unless the application is in the driver's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The device is reset between two drivers.
    #[default]
    Reload,
    /// What a driver knows goes through the data store.
    DataStore,
    /// What a driver knows is in memory that the next one sees.
    SharedState,
}

/// Something that is ordered while everything goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Packets are to be received so.
    Strategy(Strategy),
    /// Another driver is to come into the place of this one.
    Replace,
    /// The driver is to stop, and another one to set the device up.
    Restart,
}

/// What the application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sends {
    /// Length of a frame in bytes, without check sequence.
    pub frame_bytes: usize,
    /// Frames that are on their way at most.
    pub buffers: u32,
    /// Frames that are sent when everything begins.
    pub at_once: u32,
    /// After every so many packets that are delivered, one is sent.
    pub every: u64,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Faults of the device and of its interrupts.
    pub faults: Vec<Fault>,
    /// They strike this long, from the first burst on.
    pub until: Span,
    /// Parts that die, in this order.
    pub kills: Vec<(Moment, Part)>,
    /// A part that died is started again after this time.
    pub restart: Span,
    /// What is ordered, and when, from the first burst on.
    pub orders: Vec<(Span, Order)>,
    /// When the driver's process is held, from the first burst on, and for how long.
    pub stalls: Vec<(Span, Span)>,
    /// The longest that anything may take once nothing goes wrong any more and no frame comes.
    pub bound: Span,
}

impl Default for Trouble {
    fn default() -> Self {
        Trouble {
            faults: Vec::new(),
            until: Span::ZERO,
            kills: Vec::new(),
            restart: Span::from_us(500),
            orders: Vec::new(),
            stalls: Vec::new(),
            bound: Span::from_ms(200),
        }
    }
}

/// A run in virtual time.
#[derive(Clone, Debug)]
pub struct Options {
    /// What arrives.
    pub traffic: Traffic,
    /// How the driver receives.
    pub strategy: Strategy,
    /// Which processes there are.
    pub topology: Topology,
    /// Receive buffers; as many of them as it has descriptors are on the NIC's ring.
    pub buffers: usize,
    /// Length of each in bytes: a frame and its check sequence must fit.
    pub buffer_bytes: u32,
    /// Whether a job that computes all the time competes for the core.
    pub compute: bool,
    /// What everything takes.
    pub costs: CostModel,
    /// Who runs when.
    pub scheduler: SchedulerModel,
    /// The driver wakes up by itself after this time, so that it survives a lost interrupt.
    pub sleep_timeout: Option<Span>,
    /// Every look at the ring of an idle driver is carried out, also where nothing can have changed.
    /// Slower, and nothing else is different.
    pub every_idle_look: bool,
    /// Where all randomness starts from.
    pub seed: Seed,
    /// How drivers follow one another.
    pub way: Way,
    /// What the application sends, if anything.
    pub sends: Option<Sends>,
    /// What goes wrong.
    pub trouble: Trouble,
}

/// Packets and whatever else is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames that were to come.
    pub planned: u64,
    /// Frames that came.
    pub injected: u64,
    /// Of these: no descriptor was free.
    pub no_descriptor: u64,
    /// Of these: on the ring.
    pub on_ring: u64,
    /// Of these: on the ring with an error mark, for which the driver refuses them.
    pub damaged: u64,
    /// Of these: the receiver was off, the device at fault, or the filter let them not in.
    pub refused_by_device: u64,
    /// Packets that the application has.
    pub delivered: u64,
    /// Frames on the ring, and packets, that were lost with a part that died.
    pub lost_by_kill: u64,
    /// Interrupts that the NIC sent.
    pub interrupts: u64,
    /// Interrupts that the driver handled.
    pub handled: u64,
    /// Times that the driver slept.
    pub sleeps: u64,
    /// Looks at the ring that found something.
    pub polls_with_frames: u64,
    /// Times that the driver gave up because of what its device reported.
    pub failures: u64,
    /// Parts that were started again.
    pub restarts: u32,
}

impl Counts {
    fn arrived(&mut self, outcome: RxOutcome) {
        self.injected += 1;
        match outcome {
            RxOutcome::OnRing => self.on_ring += 1,
            RxOutcome::OnRingDamaged => {
                self.on_ring += 1;
                self.damaged += 1;
            }
            RxOutcome::NoDescriptor => self.no_descriptor += 1,
            RxOutcome::Filtered
            | RxOutcome::NotReceiving
            | RxOutcome::DmaError
            | RxOutcome::NotCompleted => self.refused_by_device += 1,
        }
    }

    /// The share of the frames that the application never had.
    pub fn lost_share(&self) -> f64 {
        1.0 - self.delivered as f64 / self.planned.max(1) as f64
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// BLAKE3 of all events, in hexadecimal digits.
    pub digest: String,
    /// Events in all.
    pub events: u64,
    /// Virtual time from the first burst to the end.
    pub elapsed: Span,
    /// The share of the core that receiving took: without a competing job, what it used; with one,
    /// what the job did not get.
    pub cpu_share: f64,
    /// Switches between processes.
    pub switches: u64,
    /// What is counted.
    pub counts: Counts,
    /// From the time at which the last frame of a burst is in memory until the application has it.
    pub delays: Samples,
}

impl Outcome {
    /// The delays summed up. Random histories do without: it takes as long as a tenth of one.
    pub fn delay(&self) -> Option<Distribution> {
        self.delays.summary()
    }
}

/// Why a run could not take place, or not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum VirtualError {
    /// The traffic makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No memory.
    #[error("cannot get memory for the receive buffers: {0}")]
    Memory(#[from] std::io::Error),
    /// Something is out of range.
    #[error("{what} = {got} is not possible: choose {range}")]
    Range {
        /// What.
        what: &'static str,
        /// What was asked for.
        got: String,
        /// What is possible.
        range: &'static str,
    },
    /// There is no such driver.
    #[error("there is no card with a driver called {0}")]
    Driver(String),
    /// A driver found nothing that it could drive.
    #[error("a driver cannot begin: {0}")]
    NoStart(#[from] warikomi_driver::run::RunError),
    /// A part dies again and again.
    #[error("a part of the target was started {0} times; its device does not recover")]
    Restarts(u32),
}

/// The most memory that receive buffers may take.
const MAX_BUFFER_MEMORY_BYTES: u64 = 1 << 30;
const MOST_FRAMES: u64 = 50_000_000;

impl Options {
    /// Checks what could not work.
    pub fn validate(&self) -> Result<(), VirtualError> {
        let refuse = |what, got: String, range| Err(VirtualError::Range { what, got, range });
        let Traffic { burst_bytes, frame_bytes, line_rate_bps, load_share, bursts, .. } =
            self.traffic;
        if !(60..=MAX_FRAME_BYTES).contains(&frame_bytes) {
            return refuse("frame_bytes", frame_bytes.to_string(), "60 to 16379");
        }
        if !(60..=16 << 20).contains(&burst_bytes) {
            return refuse("burst_bytes", burst_bytes.to_string(), "60 to 16 MiB");
        }
        if !(1_000_000..=1_000_000_000_000).contains(&line_rate_bps) {
            return refuse("line_rate_bps", line_rate_bps.to_string(), "1 Mbit/s to 1 Tbit/s");
        }
        if !(load_share > 0.0 && load_share <= 1.0) {
            return refuse("load_share", load_share.to_string(), "more than 0, up to 1");
        }
        if bursts == 0 || bursts.saturating_mul(self.traffic.frames_per_burst()) > MOST_FRAMES {
            return refuse("bursts", bursts.to_string(), "1 or more, of 50 million frames in all");
        }
        if (self.buffer_bytes as usize) < frame_bytes + 4 || self.buffer_bytes > 0x3fff {
            let range = "a frame and its check sequence of 4 bytes, up to 16383";
            return refuse("buffer_bytes", self.buffer_bytes.to_string(), range);
        }
        let memory = (self.buffers as u64).saturating_mul(self.buffer_bytes.into());
        if self.buffers == 0 || memory > MAX_BUFFER_MEMORY_BYTES {
            return refuse("buffers", self.buffers.to_string(), "1 or more, of 1 GiB in all");
        }
        Ok(())
    }
}

/// Nobody who wants to know.
struct Nobody;

impl Observer for Nobody {
    fn event(&mut self, _: warikomi_clock::Time, _: &Event) {}
}

type MakeCard = Box<dyn Fn(Box<dyn Wire>) -> Box<dyn Nic>>;
type MakeDriver = Box<dyn Fn() -> Box<dyn NicDriver>>;
/// What is wrong with a channel that has just given back what a dead driver had: so many buffers.
type ChannelBug = fn(&session::Session, u64);

/// A card, and a driver for it: what makes them, again and again.
pub struct Pair {
    card: MakeCard,
    driver: MakeDriver,
    channel_bug: Option<ChannelBug>,
}

impl Pair {
    /// A card that `card` makes, cabled to the wire that it is given, and drivers that `driver` makes.
    pub fn new(
        card: impl Fn(Box<dyn Wire>) -> Box<dyn Nic> + 'static,
        driver: impl Fn() -> Box<dyn NicDriver> + 'static,
    ) -> Pair {
        Pair { card: Box::new(card), driver: Box::new(driver), channel_bug: None }
    }

    /// The NIC model of that name as it is, with the driver of the same name; `None` if there is no such pair.
    pub fn by_name(name: &str) -> Option<Pair> {
        warikomi_driver::by_name(name)?;
        let options = NicOptions::of(name);
        warikomi_nic::build(&options, Box::new(CountedSink::new())).ok()?;
        let name = name.to_owned();
        Some(Pair::new(
            move |wire| warikomi_nic::build(&options, wire).expect("it was made a moment ago"),
            move || warikomi_driver::by_name(&name).expect("it was there a moment ago"),
        ))
    }

    /// The same card, with drivers that `driver` makes of this pair's.
    #[cfg(test)]
    fn with(self, driver: impl Fn(Box<dyn NicDriver>) -> Box<dyn NicDriver> + 'static) -> Pair {
        let make = self.driver;
        Pair { driver: Box::new(move || driver(make())), ..self }
    }

    /// The same, below a channel with a bug.
    #[cfg(test)]
    fn with_channel(self, bug: ChannelBug) -> Pair {
        Pair { channel_bug: Some(bug), ..self }
    }

    /// A card at power-on.
    pub(crate) fn card(&self, wire: Box<dyn Wire>) -> Box<dyn Nic> {
        (self.card)(wire)
    }

    /// A driver.
    pub(crate) fn driver(&self) -> Box<dyn NicDriver> {
        (self.driver)()
    }
}

/// Runs with the card and the driver of that name.
pub fn run(options: &Options, name: &str) -> Result<Outcome, VirtualError> {
    let pair = Pair::by_name(name).ok_or_else(|| VirtualError::Driver(name.to_owned()))?;
    run_observed(options, &pair, &mut Nobody)
}

/// Runs with this card and drivers for it, and tells `observer` of every event.
pub fn run_observed(
    options: &Options,
    pair: &Pair,
    observer: &mut dyn Observer,
) -> Result<Outcome, VirtualError> {
    options.validate()?;
    world::World::new(options, pair, observer)?.run()
}
