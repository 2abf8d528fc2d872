//! A process target whose driver is replaced at given times, whatever else is done with it meanwhile.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use warikomi_clock::TscClock;
use warikomi_guest::Request;
use warikomi_live::Supervisor;
use warikomi_nic::{InterruptRecord, Nic};
use warikomi_pci::{Host, SharedMemory};
use warikomi_process::ProcessTarget;
use warikomi_target::{ConsoleTail, Pass, Target, TargetCounters, TargetError};

use super::course::Course;

/// Steps the supervisor with every poll, and asks it for what its course says.
pub(super) struct Supervised {
    target: ProcessTarget,
    supervisor: Supervisor,
    course: Rc<RefCell<Course>>,
}

impl Supervised {
    pub(super) fn new(
        target: ProcessTarget,
        supervisor: Supervisor,
        course: Rc<RefCell<Course>>,
    ) -> Supervised {
        Supervised { target, supervisor, course }
    }
}

impl Target for Supervised {
    #[inline]
    fn poll(&mut self) -> Result<Pass, TargetError> {
        let pass = self.target.poll()?;
        let event = self.supervisor.step(&mut self.target)?;
        let mut course = self.course.borrow_mut();
        if let Some(event) = event {
            course.event(event);
        }
        course.pass(pass.at, &mut self.target, &mut self.supervisor)?;
        Ok(pass)
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        // It takes microseconds, as many as a replacement: the next time will do.
        if self.course.borrow().is_at_it(self.target.clock().now()) {
            return Ok(());
        }
        self.target.housekeep()
    }

    #[inline]
    fn nic(&mut self) -> (&mut dyn Nic, Host<'_>) {
        self.target.nic()
    }

    fn clock(&self) -> TscClock {
        self.target.clock()
    }

    fn console(&self) -> ConsoleTail {
        self.target.console()
    }

    fn counters(&self) -> TargetCounters {
        self.target.counters()
    }

    fn stop(&mut self) -> Result<(), TargetError> {
        self.target.stop()
    }

    fn request(&mut self, request: Request, allowance: Duration) -> Result<Value, TargetError> {
        self.target.request(request, allowance)
    }

    fn shared_memory(&self) -> Option<&SharedMemory> {
        self.target.shared_memory()
    }

    fn change_nic(&mut self, change: &mut dyn FnMut(Box<dyn Nic>) -> Box<dyn Nic>) {
        self.target.change_nic(change);
    }

    fn has_application(&self) -> bool {
        self.target.has_application()
    }

    fn shares_a_core(&self) -> bool {
        self.target.shares_a_core()
    }

    fn process_id(&self) -> u32 {
        self.target.process_id()
    }

    fn process_ids(&self) -> Vec<u32> {
        self.target.process_ids()
    }

    fn note_handlers(&mut self) {
        self.target.note_handlers();
    }

    fn log_messages(&mut self, capacity: usize) {
        self.target.log_messages(capacity);
    }

    fn handled_count(&self) -> u64 {
        self.target.handled_count()
    }

    fn take_messages(&mut self) -> Option<Vec<InterruptRecord>> {
        self.target.take_messages()
    }
}
