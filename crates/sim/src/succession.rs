//! The support side of a device whose drivers follow one another: who is to have it, in planned replacements
//! and after deaths. In small what `warikomi_live` does with processes.

use warikomi_clock::Span;
use warikomi_driver::run::RunError;
use warikomi_driver::state::{How, Turn};
use warikomi_pci::attach::layout::{orders, state};

use super::bed::{Phase, Replacement};
use super::process::Process;
use super::trace::{Event, Part, Parting};
use super::world::{QueuedEvent, World};
use super::{Order, Topology, VirtualError, Way};

/// How often the support side looks at a replacement.
const LOOK_EVERY: Span = Span::from_us(20);

impl World<'_> {
    /// The process whose the device is, or is to be.
    pub(super) fn current(&self) -> Option<usize> {
        if self.is_direct() {
            return self.drivers.iter().position(|process| !process.over);
        }
        let generation = self.bed.turn().generation;
        self.drivers.iter().position(|process| !process.over && process.generation == generation)
    }

    pub(super) fn is_direct(&self) -> bool {
        self.options.topology == Topology::Direct
    }

    pub(super) fn alive(&self, generation: u32) -> Option<usize> {
        self.drivers.iter().position(|process| !process.over && process.generation == generation)
    }

    /// Starts one more driver; its place.
    pub(super) fn spawn(&mut self) -> Result<usize, VirtualError> {
        self.bed.generations += 1;
        let generation = self.bed.generations;
        let (lineage, channel) = match &self.dma_layout.session {
            Some(session) => {
                let lineage = self.bed.lineage(generation);
                let lineage = self.pair.lineage_bug.map_or(lineage.clone(), |bug| bug(lineage));
                (Some(lineage), Some(session.upper()?))
            }
            None => (None, None),
        };
        let id = self.cpu.add(self.options.real_time);
        let mut process = Process::new(id, generation, self.pair.driver(), channel, lineage);
        process.order_all(self.options, self.bed.strategy);
        if self.is_direct() {
            self.stages[0].id = id;
        }
        self.receivers.push(id);
        self.drivers.retain(|process| !process.over);
        self.drivers.push(process);
        self.recorder.emit(&Event::Started(Part::Driver));
        self.cpu.wake(self.now, id);
        Ok(self.drivers.len() - 1)
    }

    /// The support side gives the device to a driver.
    pub(super) fn give_baton(&mut self, generation: u32, how: How) {
        self.bed.baton.give(Turn { generation, how });
        self.wake_waiting(Span::ZERO);
    }

    /// Carries an order out.
    pub(super) fn order(&mut self, order: Order) -> Result<(), VirtualError> {
        self.orders_left -= 1;
        let Some(at) = self.current().filter(|&at| self.drivers[at].is_ready()) else {
            return Ok(());
        };
        match order {
            Order::Strategy(strategy) => {
                self.bed.strategy = strategy.to_orders();
                let words = self.bed.strategy;
                self.drivers.iter_mut().for_each(|process| process.order_strategy(words));
            }
            Order::Replace if !self.is_direct() && self.bed.way != Way::Reload => {
                if self.bed.replacement.is_none() {
                    let old = self.drivers[at].generation;
                    let at = self.spawn()?;
                    let new = self.drivers[at].generation;
                    self.bed.replacement = Some(Replacement { old, new, phase: Phase::Warming });
                    self.queue.schedule(self.now + LOOK_EVERY, QueuedEvent::Bed);
                }
            }
            Order::Replace | Order::Restart => {
                if self.bed.replacement.is_none() {
                    self.drivers[at].order(orders::STOP, 1);
                }
            }
        }
        self.pass_rings(Span::ZERO);
        Ok(())
    }

    /// A look at the replacement that goes on.
    pub(super) fn look_at_replacement(&mut self) {
        let Some(Replacement { old, new, phase }) = self.bed.replacement else { return };
        let Some(new_at) = self.alive(new) else {
            self.bed.replacement = None;
            return;
        };
        let old_at = self.alive(old);
        let seen = self.drivers[new_at].reported_state();
        let next = match phase {
            Phase::Warming if seen == state::WARM => {
                for at in old_at.into_iter().chain([new_at]) {
                    self.drivers[at].order(orders::ALERT, new.into());
                }
                self.wake_waiting(Span::ZERO);
                Phase::Rehearsing
            }
            Phase::Rehearsing if seen == state::ALERT => {
                if let Some(at) = old_at {
                    self.drivers[at].order(orders::HAND_OVER, new.into());
                    self.bed.steps = Some((0, old));
                }
                Phase::HandingOver
            }
            _ if self.drivers[new_at].is_ready() => {
                if let Some(at) = old_at {
                    self.drivers[at].order(orders::STOP, 1);
                }
                self.wake_waiting(Span::ZERO);
                self.bed.replacement = None;
                return;
            }
            phase => phase,
        };
        self.bed.replacement = Some(Replacement { old, new, phase: next });
        self.pass_rings(Span::ZERO);
        self.queue.schedule(self.now + LOOK_EVERY, QueuedEvent::Bed);
    }

    /// A driver's process has ended as it was told to.
    pub(super) fn driver_ends(&mut self, at: usize, waiting: bool) {
        let process = &mut self.drivers[at];
        process.over = true;
        self.cpu.remove(self.now, process.id);
        if !waiting && !self.ending {
            self.bed.next = How::Start;
            self.restart_later(Part::Driver);
            // It was ordered, and is no death.
            self.counts.restarts -= 1;
        }
    }

    /// A driver's process has given up: the device is at fault, or there is no layer above any more.
    pub(super) fn driver_fails(&mut self, at: usize, error: &RunError) {
        let gone = self.dma_layout.session.as_ref().is_some_and(|session| session.gone);
        if !(gone && matches!(error, RunError::Upper(_))) {
            self.counts.failures += 1;
            self.recorder.emit(&Event::DriverFailed);
        }
        self.driver_dies(at);
    }

    /// A driver's process is dead.
    pub(super) fn driver_dies(&mut self, at: usize) {
        self.leaves(at);
        self.recorder.emit(&Event::Killed(Part::Driver));
        let process = &mut self.drivers[at];
        let (generation, served) = (process.generation, process.is_ready());
        process.over = true;
        self.cpu.remove(self.now, process.id);
        if self.is_direct() {
            self.card_resets();
            return self.restart_later(Part::Driver);
        }
        let (turn, owner) = (self.bed.turn(), self.bed.baton.owner());
        if turn.generation != generation {
            // It had given the device away, or had not got it yet.
            return;
        }
        let predecessor = self.alive(owner).filter(|_| owner != generation);
        if let (Some(_), Some(Replacement { .. })) = (predecessor, self.bed.replacement) {
            // It had not accepted: whoever gave the device to it goes on.
            self.bed.replacement = None;
            return self.give_baton(owner, How::HandedOver);
        }
        let handed_on = owner != generation && self.bed.way != Way::Reload;
        self.bed.next = match self.bed.way {
            _ if handed_on && turn.how == How::HandedOver => How::HandedOver,
            Way::SharedState if served => How::Died,
            _ => How::Start,
        };
        self.restart_later(Part::Driver);
    }

    /// Whatever it was doing, it does nothing to its device any more.
    fn leaves(&mut self, at: usize) {
        if self.drivers[at].is_driving() {
            let generation = self.drivers[at].generation;
            let how = match (self.drivers[at].is_ready(), self.has_accepted(at)) {
                (true, _) => Parting::Died,
                (false, true) => Parting::Failed,
                (false, false) => Parting::Unaccepted,
            };
            self.recorder.emit(&Event::Left { generation, how });
        }
    }

    /// Whether the driver has accepted the device, if it was given it.
    pub(super) fn has_accepted(&self, at: usize) -> bool {
        self.is_direct() || self.bed.baton.owner() == self.drivers[at].generation
    }

    /// The next driver gets the device: one that waits for it, or a new one.
    pub(super) fn next_driver(&mut self) -> Result<(), VirtualError> {
        // Whoever is started together with the application's process comes with that.
        let above = self.dma_layout.session.as_ref().is_some_and(|session| session.gone);
        if above || self.current().is_some() {
            return Ok(());
        }
        let waiting = self.bed.replacement.and_then(|replacement| self.alive(replacement.new));
        let at = match waiting {
            Some(at) => at,
            None => self.spawn()?,
        };
        let generation = self.drivers[at].generation;
        if !self.is_direct() {
            self.give_baton(generation, self.bed.next);
        }
        Ok(())
    }

    /// The card is reset from outside, and with it goes what was on its ring, and everything that is not the
    /// application's.
    pub(super) fn card_resets(&mut self) {
        self.device.power_on(self.now);
        self.recorder.emit(&Event::PoweredOn);
        self.recorder.emit(&Event::Forgotten);
        self.counts.lost_by_kill += std::mem::take(&mut self.in_nic);
        self.counts.lost_by_kill += std::mem::take(&mut self.given).len() as u64;
        if self.is_direct() {
            self.lose_packets_of(0);
        }
        for token in self.pool.reclaim_all() {
            self.recorder.emit(&Event::BufferFreed { token });
        }
        self.lose_outgoing();
    }

    /// Frames of an application that is dead are nobody's.
    pub(super) fn lose_outgoing(&mut self) {
        let Some(outgoing) = &mut self.dma_layout.outgoing else { return };
        for sequence in outgoing.outstanding() {
            self.recorder.emit(&Event::SentBack { sequence: Some(sequence), sent: false });
        }
        outgoing.forget();
    }

    /// Everything is started again behind a channel whose upper end has died.
    pub(super) fn renew_session(&mut self) -> Result<(), VirtualError> {
        for at in 0..self.drivers.len() {
            if !self.drivers[at].over {
                self.leaves(at);
                self.recorder.emit(&Event::Killed(Part::Driver));
                self.drivers[at].over = true;
                self.cpu.remove(self.now, self.drivers[at].id);
            }
        }
        self.card_resets();
        self.bed.renew();
        if let Some(session) = &mut self.dma_layout.session {
            session.renew();
        }
        self.post_free_buffers();
        self.next_driver()
    }
}
