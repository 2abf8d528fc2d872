//! Whose turn it is at a device that several drivers drive, one after the other.
//!
//! The baton in the state area says so, and the owner word who has last accepted it; both are there in
//! every way. What a driver knows is noted in the same area, or in words of its own, of which a snapshot
//! goes through the data store, or nowhere: then the device is reset between two drivers.

use std::rc::Rc;

use warikomi_pci::attach::layout::{orders, times, way};
use warikomi_shared::Words;

use super::attachment::{Attachment, Lineage};
use super::error::RunError;
use super::store::{Snapshot, SnapshotStore};
use crate::state::{
    Baton, Counters, How, LocalWords, Predecessor, Shown, StateArea, StateError, StateWords, Turn,
};
use crate::{DriverError, DriverInfo, NicDriver};

/// How a driver gets its device.
pub(super) enum Opening {
    /// With a reset of the device.
    Start,
    /// Where another driver stopped.
    After(Predecessor),
    /// Where this driver stopped: nobody has taken the device meanwhile.
    GoOn,
}

/// How a wait for the baton ended.
pub(super) enum Waited {
    /// The device is ours.
    Turn(Opening),
    /// The orders say stop.
    Stop,
    /// The device will be ours at any moment: this is the word of it.
    Alert(u64),
    /// Nothing has: it is this generation's.
    Other { generation: u32 },
}

pub(super) struct Succession {
    area: StateWords,
    baton: Baton<StateWords>,
    generation: u32,
    way: u64,
    /// What a successor must know; `None` if it need not know anything.
    state: Option<StateArea>,
    store: Option<Box<dyn SnapshotStore>>,
}

impl Succession {
    /// The driver's part in it, if the device has other drivers before and after.
    pub(super) fn of(
        device: &mut impl Attachment,
        driver: &DriverInfo,
    ) -> Result<Option<Succession>, RunError> {
        let Some(lineage) = device.lineage() else { return Ok(None) };
        let Lineage { area, generation, way, state_version } = lineage;
        let words: Option<StateWords> = match way {
            way::SHARED_STATE => Some(area.clone()),
            way::DATA_STORE => Some(Rc::new(LocalWords::new())),
            _ => None,
        };
        let state = words.map(|words| StateArea::new(words).of_version(state_version));
        // The store keeps one snapshot for each device.
        let (vendor, number) = driver.devices.first().copied().unwrap_or_default();
        let key = u64::from(vendor) << 16 | u64::from(number);
        Ok(Some(Succession {
            baton: Baton::new(area.clone()),
            area,
            generation,
            way,
            state: state.transpose()?,
            store: device.take_store(key),
        }))
    }

    /// Looks whether the baton has come, or word that it is about to; `alert` is the last such word.
    pub(super) fn wait(&self, device: &impl Attachment, alert: u64) -> Result<Waited, RunError> {
        let turn = self.baton.turn()?;
        if turn.generation == self.generation {
            device.window().stamp(times::AWAKE, device.ticks());
            return self.opening(turn.how).map(Waited::Turn);
        }
        if device.window().order(orders::STOP) != 0 {
            return Ok(Waited::Stop);
        }
        let order = device.window().order(orders::ALERT);
        if order != alert {
            return Ok(Waited::Alert(order));
        }
        device.check_support()?;
        Ok(Waited::Other { generation: turn.generation })
    }

    fn opening(&self, how: How) -> Result<Opening, RunError> {
        let ours = self.baton.owner() == self.generation;
        match how {
            How::Start => Ok(Opening::Start),
            How::HandedOver if ours => Ok(Opening::GoOn),
            How::HandedOver if self.state.is_some() => Ok(Opening::After(Predecessor::HandedOver)),
            How::Died if self.way == way::SHARED_STATE => Ok(Opening::After(Predecessor::Died)),
            How::HandedOver | How::Died => {
                Err(RunError::NothingLeft { generation: self.generation, how, way: self.way })
            }
        }
    }

    /// Whether some driver has had the device before.
    pub(super) fn was_driven(&self) -> bool {
        self.baton.owner() != 0
    }

    /// From here on the device is this driver's, and it may store anything.
    pub(super) fn accept(&self) {
        self.baton.accept(self.generation);
        self.area.fence();
    }

    /// Tells the driver where to note what a successor must know.
    pub(super) fn keep_state(
        &self,
        driver: &mut dyn NicDriver,
        shown: Shown,
    ) -> Result<(), DriverError> {
        self.state.clone().map_or(Ok(()), |state| driver.keep_state(state, shown))
    }

    /// Gets what a predecessor has left from the store, if that is the way.
    pub(super) fn fetch(&self) -> Result<(), RunError> {
        let (Some(store), Some(state)) = (&self.store, &self.state) else { return Ok(()) };
        let snapshot = store.get()?;
        let (by, owner) = (snapshot.generation, self.baton.owner());
        if by != owner {
            let what = format!("the data store has the state of generation {by}, not of {owner}");
            return Err(StateError::Unreadable(what).into());
        }
        Ok(state.restore(&snapshot.words)?)
    }

    /// The generation that an order to hand over names, if it is one that can be followed.
    pub(super) fn successor(&self, order: u64) -> Option<u32> {
        let to = u32::try_from(order).ok()?;
        (to != 0 && to != self.generation && self.state.is_some()).then_some(to)
    }

    /// Writes what a successor must know where it will find it.
    pub(super) fn record(&self, driver: &mut dyn NicDriver) -> Result<(), RunError> {
        driver.hand_over(self.generation)?;
        if let (Some(store), Some(state)) = (&self.store, &self.state) {
            store.put(Snapshot::new(self.generation, state.snapshot()))?;
        }
        Ok(())
    }

    /// Writes the record as it is now. It counts for nothing, as the baton does not follow it, but memory and code are
    /// near when it counts. An error is told then, too, and not here.
    pub(super) fn rehearse_record(&self, driver: &mut dyn NicDriver) {
        if self.state.is_some() {
            let _ = driver.hand_over(self.generation);
        }
    }

    /// Gives the baton away: the last store.
    pub(super) fn give(&self, to: u32) {
        self.baton.give(Turn { generation: to, how: How::HandedOver });
    }

    /// Notes what was counted, for a successor.
    pub(super) fn note(&self, counted: &Counters) {
        if let Some(state) = &self.state {
            state.set_counters(counted);
        }
    }

    /// What a predecessor noted.
    pub(super) fn counted(&self) -> Option<Counters> {
        self.state.as_ref()?.counters()
    }
}
