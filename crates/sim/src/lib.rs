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
mod arrivals;
mod bed;
pub mod calibrate;
pub mod checkers;
mod costs;
mod costs_file;
mod cpu;
mod deadline;
mod device;
mod driver_steps;
mod event_loop;
pub mod history;
mod known_frames;
mod options;
mod outcome;
mod pair;
pub mod planted;
mod pool;
mod process;
pub mod receive;
mod recorder;
pub mod round_trip;
mod session;
mod stage;
mod stage_steps;
mod succession;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;
pub mod transmit;
mod world;

pub use costs::{CostModel, SchedulerModel};
pub use costs_file::{CostsFile, CostsFileError};
pub use options::{Disturbances, Options, Order, Sends, Topology, Trigger, Way};
pub use outcome::{Counts, Outcome, VirtualError};
pub use pair::Pair;
pub use trace::{Event, Observer, Part, Parting};
pub use traffic::{Bursts, Traffic};

/// Ignores all events.
struct NoObserver;

impl Observer for NoObserver {
    fn event(&mut self, _: warikomi_clock::Time, _: &Event) {}
}

/// Runs with the card and the driver of that name.
pub fn run(options: &Options, name: &str) -> Result<Outcome, VirtualError> {
    let pair = Pair::by_name(name).ok_or_else(|| VirtualError::Driver(name.to_owned()))?;
    run_observed(options, &pair, &mut NoObserver)
}

/// Runs with this card and drivers for it, and tells `observer` of every event.
pub fn run_observed(
    options: &Options,
    pair: &Pair,
    observer: &mut dyn Observer,
) -> Result<Outcome, VirtualError> {
    options.validate(pair.driver().info())?;
    world::World::new(options, pair, observer)?.run()
}
