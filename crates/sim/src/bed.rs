//! What outlives a driver: who has the device, what was kept for a successor, and how far a replacement is.

use std::rc::Rc;

use warikomi_driver::run::Lineage;
use warikomi_driver::state::{Baton, How, LocalWords, Turn};
use warikomi_pci::attach::area;
use warikomi_pci::attach::layout::way;

use super::Way;
use super::above::Kept;

/// How far a planned replacement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Warming,
    Rehearsing,
    HandingOver,
}

/// A driver that comes into the place of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    pub(super) old: u32,
    pub(super) new: u32,
    pub(super) phase: Phase,
}

/// What outlives a driver, and who has the device.
pub(super) struct Bed {
    pub(super) way: Way,
    area: LocalWords,
    pub(super) baton: Baton<LocalWords>,
    kept: Kept,
    pub(super) generations: u32,
    pub(super) replacement: Option<Replacement>,
    /// How the next driver comes by the device, once it is started.
    pub(super) next: How,
    /// Steps of drivers since the last order to hand over, and whose the last one was.
    pub(super) steps: Option<(u64, u32)>,
    pub(super) strategy: [u64; 4],
}

impl Bed {
    pub(super) fn new(way: Way, strategy: [u64; 4]) -> Bed {
        let area = LocalWords::of(area::WORDS);
        Bed {
            way,
            baton: Baton::new(area.clone()),
            area,
            kept: Kept::default(),
            generations: 0,
            replacement: None,
            next: How::Start,
            steps: None,
            strategy,
        }
    }

    pub(super) fn turn(&self) -> Turn {
        // Only what the drivers and this side give is there.
        self.baton.turn().unwrap_or(Turn { generation: 0, how: How::Start })
    }

    pub(super) fn store(&self) -> Option<Kept> {
        (self.way == Way::DataStore).then(|| self.kept.clone())
    }

    /// Nobody is to follow anybody.
    pub(super) fn is_idle(&self) -> bool {
        self.replacement.is_none()
    }

    /// A driver of this generation has made a step.
    #[inline]
    pub(super) fn stepped(&mut self, generation: u32) {
        if let Some((steps, by)) = &mut self.steps {
            (*steps, *by) = (*steps + 1, generation);
        }
    }

    /// Whose the step was that came so long behind an order to hand over.
    pub(super) fn made_step(&self, number: u64) -> Option<u32> {
        self.steps.filter(|(steps, _)| *steps >= number).map(|(_, by)| by)
    }

    pub(super) fn renew(&mut self) {
        use warikomi_shared::Words;
        (0..area::WORDS)
            .for_each(|at| self.area.store(at, 0, std::sync::atomic::Ordering::Relaxed));
        *self.kept.borrow_mut() = None;
        (self.replacement, self.next) = (None, How::Start);
    }

    pub(super) fn lineage(&mut self, generation: u32) -> Lineage {
        let way = match self.way {
            Way::Reload => way::RELOAD,
            Way::DataStore => way::DATA_STORE,
            Way::SharedState => way::SHARED_STATE,
        };
        Lineage { area: Rc::new(self.area.clone()), generation, way, state_version: area::VERSION }
    }
}
