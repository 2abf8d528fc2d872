//! What is run in virtual time.

use serde::{Deserialize, Serialize};
use warikomi_clock::{Seed, Span};
use warikomi_driver::DriverInfo;
use warikomi_driver::strategy::Strategy;
use warikomi_inject::Fault;
use warikomi_nic::LONGEST_FRAME_BYTES;

use crate::costs::{CostModel, SchedulerModel};
use crate::outcome::VirtualError;
use crate::trace::Part;
use crate::traffic::Traffic;

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
pub enum Trigger {
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

/// Faults, kills, orders and stalls of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbances {
    /// Faults of the device and of its interrupts.
    pub faults: Vec<Fault>,
    /// They strike this long, from the first burst on.
    pub until: Span,
    /// Parts that die, in this order.
    pub kills: Vec<(Trigger, Part)>,
    /// A part that died is started again after this time.
    pub restart: Span,
    /// What is ordered, and when, from the first burst on.
    pub orders: Vec<(Span, Order)>,
    /// When the driver's process is held, from the first burst on, and for how long.
    pub stalls: Vec<(Span, Span)>,
    /// When the core is taken from all parts without real-time priority, from the first burst on, and for how long.
    pub core_taken: Vec<(Span, Span)>,
    /// The longest that anything may take once nothing goes wrong any more and no frame comes; for each round, if more
    /// frames wait in the card than there are buffers.
    pub bound: Span,
}

impl Default for Disturbances {
    fn default() -> Self {
        Disturbances {
            faults: Vec::new(),
            until: Span::ZERO,
            kills: Vec::new(),
            restart: Span::from_us(500),
            orders: Vec::new(),
            stalls: Vec::new(),
            core_taken: Vec::new(),
            bound: Span::from_ms(200),
        }
    }
}

/// Options of a run in virtual time.
#[derive(Clone, Debug)]
pub struct Options {
    /// Frames that arrive.
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
    /// Whether what receives has real-time priority: it comes before the job, and before what takes the core away.
    pub real_time: bool,
    /// Costs of what the processes do.
    pub costs: CostModel,
    /// The scheduler.
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
    /// Faults, kills, orders and stalls.
    pub disturbances: Disturbances,
}

/// The most memory that receive buffers may take.
const MAX_BUFFER_MEMORY_BYTES: u64 = 1 << 30;

const MOST_FRAMES: u64 = 50_000_000;

impl Options {
    /// Checks what could not work with this driver.
    pub fn validate(&self, driver: &DriverInfo) -> Result<(), VirtualError> {
        let refuse = |what, got: String, range| Err(VirtualError::Range { what, got, range });
        let Traffic { burst_bytes, frame_bytes, line_rate_bps, load_share, bursts, .. } =
            self.traffic;
        if !(60..=LONGEST_FRAME_BYTES).contains(&frame_bytes) {
            return refuse("frame_bytes", frame_bytes.to_string(), "60 to 65549");
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
        let longest = driver.max_buffer_bytes;
        if !(frame_bytes + 4..=longest).contains(&(self.buffer_bytes as usize)) {
            let range = "a frame and its check sequence of 4 bytes, and no more than the driver's descriptors name \
                         (rtl8168: 16383, oc48: 65549)";
            return refuse("buffer_bytes", self.buffer_bytes.to_string(), range);
        }
        let memory = (self.buffers as u64).saturating_mul(self.buffer_bytes.into());
        if self.buffers == 0 || memory > MAX_BUFFER_MEMORY_BYTES {
            return refuse("buffers", self.buffers.to_string(), "1 or more, of 1 GiB in all");
        }
        Ok(())
    }
}
