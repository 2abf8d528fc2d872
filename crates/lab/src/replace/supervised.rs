//! A process target whose driver is replaced at given times, whatever else is done with it meanwhile.

use std::cell::RefCell;
use std::rc::Rc;

use warikomi_clock::{Clock, Time};
use warikomi_nic::Nic;
use warikomi_pci::{Host, SharedMemory};
use warikomi_process::ProcessTarget;
use warikomi_target::{
    Agent, CardId, ConsoleTail, Handlers, Pass, Slot, Target, TargetCounters, TargetError,
};

use super::overseer::Overseer;
use super::replacer::Replacer;

/// Steps the supervisor with every poll, and what asks it for replacements.
pub(super) struct Supervised {
    target: ProcessTarget,
    overseer: Overseer,
    replacer: Rc<RefCell<Replacer>>,
}

impl Supervised {
    pub(super) fn new(
        target: ProcessTarget,
        overseer: Overseer,
        replacer: Rc<RefCell<Replacer>>,
    ) -> Supervised {
        Supervised { target, overseer, replacer }
    }
}

impl Target for Supervised {
    #[inline]
    fn poll(&mut self) -> Result<Pass, TargetError> {
        let pass = self.target.poll()?;
        let event = self.overseer.step(&mut self.target)?;
        let mut replacer = self.replacer.borrow_mut();
        if let Some(event) = event {
            replacer.handle_event(event, &mut self.target);
        }
        replacer.step(pass.at, &mut self.target, &mut self.overseer)?;
        Ok(pass)
    }

    fn keep_clear_of(&mut self, due: Time) {
        self.target.keep_clear_of(due);
    }

    fn housekeep(&mut self) -> Result<(), TargetError> {
        // It takes microseconds, as many as a replacement: the next time will do.
        if self.replacer.borrow().is_replacing(self.target.clock().now()) {
            return Ok(());
        }
        self.target.housekeep()
    }

    fn cards(&self) -> usize {
        self.target.cards()
    }

    #[inline]
    fn card(&mut self, card: CardId) -> Result<(&mut dyn Nic, Host<'_>), TargetError> {
        self.target.card(card)
    }

    fn slot(&mut self, card: CardId) -> Result<&mut Slot, TargetError> {
        self.target.slot(card)
    }

    fn memory(&self, card: CardId) -> Option<&SharedMemory> {
        self.target.memory(card)
    }

    fn clock(&self) -> Clock {
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

    fn shares_a_core(&self) -> bool {
        self.target.shares_a_core()
    }

    fn process_id(&self) -> u32 {
        self.target.process_id()
    }

    fn process_ids(&self) -> Vec<u32> {
        self.target.process_ids()
    }

    fn agent(&mut self) -> Option<&mut dyn Agent> {
        self.target.agent()
    }

    fn handlers(&mut self, card: CardId) -> Option<&mut dyn Handlers> {
        self.target.handlers(card)
    }
}
