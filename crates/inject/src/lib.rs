//! What arrives when.
//!
//! A [`Plan`] is data: which frames, how often, how many. [`Pacer`] turns it into absolute
//! deadlines, [`FrameTemplate`] into frames, and [`Injector`] hands one to the NIC whenever the
//! loop that serves everything else comes by and one is due. A [`Schedule`] is the other [`Source`]
//! of frames: arrivals one by one, from a trace or a capture. No clock is read here: the time is an
//! argument, and what happened goes to a [`Recorder`].

mod arrival;
mod burst;
mod echo;
mod fault;
mod forward;
mod frame;
mod injector;
mod pacing;
mod plan;
mod schedule;
mod source;
mod unfinished;
mod units;

pub use arrival::{Arrival, FITTED_JITTER, FITTED_LONGEST_OUTLIER, FITTED_OUTLIER_ONE_IN};
pub use burst::{Burst, MAX_BURST_BYTES};
pub use echo::echo_request;
pub use fault::{
    FAULT_FORMS, Fault, FaultCount, FaultForm, FaultKind, FaultSchedule, FaultTrigger, Faulty,
    MAX_FAULT_LENGTH, MAX_FAULT_TIME, MAX_FAULTS, MAX_STORM, ParseFaultError, Probability, When,
};
pub use forward::{Departed, Departures, FAR_HOST, Forwarding};
pub use frame::{
    Addresses, FrameTemplate, HEADER_BYTES, PAYLOAD_MAGIC, SEQUENCE_BYTES, SEQUENCE_OFFSET,
};
pub use injector::{DEFAULT_SLACK, Injection, Injector, Lateness, Recorder, Step};
pub use pacing::Pacer;
pub use plan::{
    MAX_COUNT, MAX_DURATION, MAX_FLOWS, MAX_INTERVAL, MAX_PACKETS_PER_INTERRUPT,
    MAX_PLAN_TEXT_BYTES, Plan, PlanError, Receiver, Warmup,
};
pub use schedule::{Arriving, Schedule, ScheduleError};
pub use source::{Planned, Source};
pub use unfinished::{Head, Unfinished};
pub use units::{FrameBytes, LineRate, ParseUnitError};
pub use warikomi_wire::{GUEST_IP, NETWORK_IP, NETWORK_MAC, PAYLOAD_OFFSET, UDP_PORT};
