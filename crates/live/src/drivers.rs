//! What a supervisor does to the drivers of a device, wherever it runs itself.

use warikomi_clock::Time;
use warikomi_process::{Baton, How, ProcessTarget, Program, Seat, Wanted};
use warikomi_target::{Target, TargetError};

/// The drivers of a device, and what can be done to them.
pub trait Drivers {
    /// The time.
    fn now(&mut self) -> Time;
    /// See [`ProcessTarget::prepare`].
    fn prepare(&mut self, driver: &Program, wanted: Wanted) -> Result<u32, TargetError>;
    /// See [`ProcessTarget::hasten`].
    fn hasten(&mut self, generation: u32, wanted: Wanted);
    /// See [`ProcessTarget::seat`].
    fn seat(&mut self, generation: u32) -> Option<Seat>;
    /// See [`ProcessTarget::next_generation`].
    fn next_generation(&mut self) -> u32;
    /// See [`ProcessTarget::served`].
    fn served(&mut self) -> u32;
    /// See [`ProcessTarget::alert`].
    fn alert(&mut self, generation: u32, to: u32);
    /// See [`ProcessTarget::order_hand_over`].
    fn order_hand_over(&mut self, to: u32);
    /// See [`ProcessTarget::order_stop`].
    fn order_stop(&mut self, generation: u32);
    /// See [`ProcessTarget::baton`].
    fn baton(&mut self) -> Baton;
    /// See [`ProcessTarget::give_baton`].
    fn give_baton(&mut self, to: u32, how: How);
    /// See [`ProcessTarget::serve_seat`].
    fn serve_seat(&mut self, generation: u32);
    /// See [`ProcessTarget::end_seat`].
    fn end_seat(&mut self, generation: u32) -> bool;
    /// See [`ProcessTarget::fenced_accesses`].
    fn fenced_accesses(&mut self) -> u64;
    /// See [`Target::process_id`].
    fn process_id(&mut self) -> u32;
    /// See [`ProcessTarget::work_waits`].
    fn work_waits(&mut self) -> bool;
}

impl Drivers for ProcessTarget {
    fn now(&mut self) -> Time {
        Target::clock(self).now()
    }
    fn prepare(&mut self, driver: &Program, wanted: Wanted) -> Result<u32, TargetError> {
        ProcessTarget::prepare(self, driver, wanted)
    }
    fn hasten(&mut self, generation: u32, wanted: Wanted) {
        ProcessTarget::hasten(self, generation, wanted);
    }
    fn seat(&mut self, generation: u32) -> Option<Seat> {
        ProcessTarget::seat(self, generation)
    }
    fn next_generation(&mut self) -> u32 {
        ProcessTarget::next_generation(self)
    }
    fn served(&mut self) -> u32 {
        ProcessTarget::served(self)
    }
    fn alert(&mut self, generation: u32, to: u32) {
        ProcessTarget::alert(self, generation, to);
    }
    fn order_hand_over(&mut self, to: u32) {
        ProcessTarget::order_hand_over(self, to);
    }
    fn order_stop(&mut self, generation: u32) {
        ProcessTarget::order_stop(self, generation);
    }
    fn baton(&mut self) -> Baton {
        ProcessTarget::baton(self)
    }
    fn give_baton(&mut self, to: u32, how: How) {
        ProcessTarget::give_baton(self, to, how);
    }
    fn serve_seat(&mut self, generation: u32) {
        ProcessTarget::serve_seat(self, generation);
    }
    fn end_seat(&mut self, generation: u32) -> bool {
        ProcessTarget::end_seat(self, generation)
    }
    fn fenced_accesses(&mut self) -> u64 {
        ProcessTarget::fenced_accesses(self)
    }
    fn process_id(&mut self) -> u32 {
        Target::process_id(self)
    }
    fn work_waits(&mut self) -> bool {
        ProcessTarget::work_waits(self)
    }
}
