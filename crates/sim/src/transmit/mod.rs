//! Transmitting in virtual time: NIC model, bus, driver, completion strategy, bounce buffer, buffers and
//! sender are the very code that runs in real time; what they take is declared ([`SendCosts`]).
//!
//! There is one thread and one clock. It moves on with every work and every register access of the sender,
//! and the device does meanwhile what it would do by then.

mod costs;
mod machine;
#[cfg(test)]
mod mixed_tests;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use warikomi_clock::{Span, Time};
use warikomi_driver::transmit::Bounce;
use warikomi_driver::{DriverError, Hardware, NicDriver, OwnPool};
use warikomi_inject::{
    Addresses, FrameTemplate, GUEST_IP, NETWORK_IP, NETWORK_MAC, PlanError as FrameError, UDP_PORT,
};
use warikomi_nic::{NicError, NicOptions};
use warikomi_pci::SharedMemory;
use warikomi_protocol::answers::Sent;
use warikomi_stack::Station;
use warikomi_stack::send::{PlanError, RECEIVED_FRAME_BYTES, SendPlan, Sender, SenderError, Step};

pub use costs::{PRESETS, SIZES_BYTES, SendCosts};
use machine::{Machine, Registers, VirtualCostClock};
use warikomi_wire::peer::numbered::{Look, Numbered, Seen};
use warikomi_wire::peer::talker::{Talk, Talker};

use crate::recorder::RINGS;

const PAGE_BYTES: u64 = 4_096;
/// Whom nothing is sent has a buffer for it nevertheless, because its driver wants one.
const RX_BUFFERS: usize = 1;
/// Buffers of a sender that receives.
const RX_BUFFERS_RECEIVING: usize = 64;
const RX_BUFFER_BYTES: u32 = 2_048;
const NETWORK_PREFIX_BITS: u8 = 24;

/// Something stands still for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// From when on, in virtual time since the device was set up.
    pub at: Span,
    /// How long the sender is held.
    pub held: Span,
    /// The device; otherwise the sender.
    pub device: bool,
}

/// Options of a sender's run in virtual time.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is sent, and how.
    pub plan: SendPlan,
    /// The NIC.
    pub nic: NicOptions,
    /// The driver's name.
    pub driver: String,
    /// Costs of the sender's work.
    pub costs: SendCosts,
    /// What stands still when, in order of time.
    pub stalls: Vec<Stall>,
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The sender's account.
    pub sent: Sent,
    /// What was seen on the wire, the warm-up included.
    pub seen: Seen,
    /// BLAKE3 of all register accesses, interrupts, sleeps and frames, with their times, in hexadecimal
    /// digits.
    pub digest: String,
    /// Of these, how many there were.
    pub events: u64,
    /// Virtual time in all.
    pub elapsed: Span,
}

/// Why a run could not take place, or not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum TransmitError {
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is no such NIC.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// There is no such driver.
    #[error("there is no driver called {0}")]
    NoDriver(String),
    /// The system gave no memory.
    #[error("cannot get {bytes} bytes of memory for buffers: {error}")]
    Memory {
        /// Bytes that were asked for.
        bytes: u64,
        /// The system's error.
        error: std::io::Error,
    },
    /// There are no such frames for it.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// The driver gave up.
    #[error("the driver gave up: {0}")]
    Driver(#[from] DriverError),
    /// Nothing will ever happen again, and the sender waits for it.
    #[error(
        "the sender waits for an interrupt at {at_us:.1} us, and none is on its way: a bug of driver or model"
    )]
    Stuck {
        /// When, in microseconds of virtual time.
        at_us: f64,
    },
}

impl From<SenderError> for TransmitError {
    fn from(error: SenderError) -> Self {
        match error {
            SenderError::Plan(error) => error.into(),
            SenderError::Driver(error) => error.into(),
        }
    }
}

/// Runs a plan. A [dead-lock](Step::DeadLocked) is an outcome, not an error.
pub fn run(options: &Options) -> Result<Outcome, TransmitError> {
    let plan = &options.plan;
    let mut driver = warikomi_driver::by_name(&options.driver)
        .ok_or_else(|| TransmitError::NoDriver(options.driver.clone()))?;
    let info = driver.info();
    plan.validate_for(info)?;
    let layout = Layout::new(plan, &*driver);
    let memory = SharedMemory::anonymous(RINGS, layout.bytes as usize)
        .map_err(|error| TransmitError::Memory { bytes: layout.bytes, error })?;
    let (wire, judge) = Numbered::sink();
    let look = if plan.bounce == Bounce::Dummy { Look::Head } else { Look::Whole };
    judge.lock().begin(plan.run_id, plan.warmup.saturating_add(plan.count), look);
    judge.lock().expect_checksums(plan.checksum);
    judge.lock().expect_stream(plan.segment_bytes());
    let (wire, talk) = Talker::new(wire);
    let nic = warikomi_nic::build(&options.nic, Box::new(wire))?;
    let machine = Machine::new(nic, memory.clone(), options.costs, plan.buffers);
    let machine = RefCell::new(machine);
    let running = Running { driver: &mut *driver, memory, machine: &machine, talk: &talk };
    let sent = running.run(options, &layout)?;
    let machine = machine.into_inner();
    let (events, elapsed) = (machine.digest.events(), machine.now().since(Time::ZERO));
    Ok(Outcome {
        sent,
        seen: judge.lock().seen(),
        digest: machine.digest.finish(),
        events,
        elapsed,
    })
}

/// What lies where behind [`RINGS`].
struct Layout {
    rx_buffers: usize,
    rx: (u64, u64),
    buffers: (u64, u64),
    bytes: u64,
}

impl Layout {
    fn new(plan: &SendPlan, driver: &dyn NicDriver) -> Layout {
        let info = driver.info();
        let rings = (info.ring_bytes as u64).next_multiple_of(PAGE_BYTES);
        let rx_buffers = if plan.receives() { RX_BUFFERS_RECEIVING } else { RX_BUFFERS };
        let rx = u64::from(RX_BUFFER_BYTES) * rx_buffers as u64;
        let rx = rx.next_multiple_of(PAGE_BYTES);
        let buffers = plan.dma_bytes(info.tx_descriptors, info.max_frame_bytes);
        Layout {
            rx_buffers,
            rx: (RINGS + rings, rx),
            buffers: (RINGS + rings + rx, buffers),
            bytes: rings + rx + buffers,
        }
    }
}

struct Running<'m> {
    driver: &'m mut dyn NicDriver,
    memory: SharedMemory,
    machine: &'m RefCell<Machine>,
    talk: &'m Talk,
}

impl Running<'_> {
    fn run(self, options: &Options, layout: &Layout) -> Result<Sent, TransmitError> {
        let mut registers = Registers(self.machine);
        let mut clock = VirtualCostClock(self.machine);
        let mut hw = Hardware { mmio: &mut registers, memory: &self.memory };
        let (rx, rx_bytes) = layout.rx;
        let mut pool = OwnPool::new(rx, rx_bytes, layout.rx_buffers, RX_BUFFER_BYTES)
            .map_err(|error| DriverError::Invalid(error.to_string()))?;
        self.driver.init(&mut hw, RINGS, layout.rx_buffers, &mut pool)?;
        let station = Station {
            mac: self.driver.mac_address(),
            address: GUEST_IP,
            prefix_bits: NETWORK_PREFIX_BITS,
        };
        let to = (NETWORK_MAC, NETWORK_IP, UDP_PORT);
        let plan = &options.plan;
        let mut sender = Sender::new(plan, station, to, layout.buffers, self.driver, &mut hw)?;
        self.talk(plan)?;
        let mut stalls = Stalls::new(self.machine.borrow().now(), &options.stalls);
        loop {
            stalls.begin_stalls(&mut self.machine.borrow_mut());
            sender.receive(self.driver, &mut hw, &mut clock, &mut pool)?;
            let interrupted = self.machine.borrow_mut().take_interrupt();
            let step = sender.step(self.driver, &mut hw, &mut clock, interrupted)?;
            let mut machine = self.machine.borrow_mut();
            let goes_on = match step {
                Step::Again => true,
                Step::Until(time) => machine.wait(time),
                Step::Interrupt => machine.sleep(),
                Step::DeadLocked | Step::Finished => return Ok(sender.sent()),
            };
            if !goes_on {
                return Err(TransmitError::Stuck { at_us: machine.now().as_ns() / 1e3 });
            }
        }
    }
}

impl Running<'_> {
    /// Frames come from now on, if the plan has any.
    fn talk(&self, plan: &SendPlan) -> Result<(), TransmitError> {
        let Some(mixed) = plan.mixed.as_ref().filter(|_| plan.receives()) else { return Ok(()) };
        let addresses = Addresses::to_guest(self.driver.mac_address());
        let mut template = FrameTemplate::new(&addresses, RECEIVED_FRAME_BYTES, plan.run_id)?;
        let (interval, now) =
            (Span::from_ps(mixed.receive_interval_ps), self.machine.borrow().now());
        let frame = move |number| template.frame(number).bytes.to_vec();
        self.talk.begin(frame, interval, now + interval);
        Ok(())
    }
}

/// Stalls that are to come.
struct Stalls<'o> {
    start: Time,
    rest: std::slice::Iter<'o, Stall>,
}

impl<'o> Stalls<'o> {
    fn new(start: Time, stalls: &'o [Stall]) -> Stalls<'o> {
        Stalls { start, rest: stalls.iter() }
    }

    /// Those whose time has come begin.
    fn begin_stalls(&mut self, machine: &mut Machine) {
        while let Some(Stall { at, held, device }) = self.rest.as_slice().first().copied() {
            if self.start + at > machine.now() {
                return;
            }
            self.rest.next();
            let until = machine.now() + held;
            if device { machine.hold_device(until) } else { machine.hold_sender(until) }
        }
    }
}
