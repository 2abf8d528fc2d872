//! Whose turn it is at a device that several drivers drive, one after the other.
//!
//! The baton in the state area says so, and the owner word who has last accepted it; both are there in
//! every way. What a driver knows is noted in the same area, or in words of its own, of which a snapshot
//! goes through the data store, or nowhere: then the device is reset between two drivers.

use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use warikomi_pci::attach::area::{self, counters, how, record};
use warikomi_pci::attach::layout::{orders, times, way};
use warikomi_shared::{SharedWords, Words, create_region};

use super::RunError;
use super::rest::HEARTBEAT;
use super::store::{Snapshot, StoreClient};
use crate::device::{AttachError, Device};
use crate::state::{Predecessor, Shown, StateArea, StateError};
use crate::{DriverError, DriverInfo, NicDriver};

/// How long the data store may take to answer.
const STORE_PATIENCE: Duration = Duration::from_millis(50);
/// Words of the area that go through the store: all that are in use.
const SNAPSHOT_WORDS: usize = area::TX_SLOTS + area::MOST_SLOTS;
/// The weakest claim on a processor.
const LEAST_PRIORITY: i32 = 19;

/// How a turn begins.
pub(super) enum Turn {
    /// With a reset of the device.
    Start,
    /// Where another driver stopped.
    After(Predecessor),
    /// Where this driver stopped: nobody has taken the device meanwhile.
    GoOn,
}

pub(super) struct Succession {
    /// Baton and owner.
    area: SharedWords,
    generation: u32,
    way: u64,
    /// What a successor must know; `None` if it need not know anything.
    state: Option<StateArea>,
    store: Option<StoreClient>,
}

impl Succession {
    /// The driver's part in it, if the device has other drivers before and after.
    pub(super) fn of(
        device: &mut Device,
        driver: &DriverInfo,
    ) -> Result<Option<Succession>, RunError> {
        let Some(area) = device.state().cloned() else { return Ok(None) };
        let way = device.way();
        let own_words = || -> std::io::Result<SharedWords> {
            let file = create_region("warikomi-own-state", area::BYTES)?;
            SharedWords::map(file, 0, area::BYTES as usize)
        };
        let words = match way {
            way::SHARED_STATE => Some(area.clone()),
            way::DATA_STORE => Some(own_words().map_err(AttachError::from)?),
            _ => None,
        };
        // The store keeps one snapshot for each device.
        let (vendor, number) = driver.devices.first().copied().unwrap_or_default();
        let key = u64::from(vendor) << 16 | u64::from(number);
        Ok(Some(Succession {
            area,
            generation: device.generation(),
            way,
            state: words.map(|words| StateArea::new(Rc::new(words))),
            store: device.take_store().map(|socket| StoreClient::new(socket, key, STORE_PATIENCE)),
        }))
    }

    /// Waits for the baton; `None` if the orders say stop before it comes.
    pub(super) fn next_turn(&self, device: &Device) -> Result<Option<Turn>, RunError> {
        loop {
            let baton = self.area.load(area::BATON, Acquire);
            if baton as u32 == self.generation {
                device.stamp(times::AWAKE);
                return self.turn(baton >> 32).map(Some);
            }
            if device.order(orders::STOP) != 0 {
                // Giving memory back takes long, and must not keep whoever has the device waiting.
                let _ = rustix::process::setpriority_process(None, LEAST_PRIORITY);
                return Ok(None);
            }
            device.check_support()?;
            self.area.wait_while(area::BATON, baton as u32, HEARTBEAT);
        }
    }

    fn turn(&self, how: u64) -> Result<Turn, RunError> {
        let ours = self.owner() == u64::from(self.generation);
        let bad = |what| RunError::BadBaton { generation: self.generation, way: self.way, what };
        match how {
            how::START => Ok(Turn::Start),
            how::HANDED_OVER if ours => Ok(Turn::GoOn),
            how::HANDED_OVER if self.state.is_some() => Ok(Turn::After(Predecessor::HandedOver)),
            how::DIED if self.way == way::SHARED_STATE => Ok(Turn::After(Predecessor::Died)),
            how::HANDED_OVER | how::DIED => Err(bad("a predecessor leaves nothing behind")),
            _ => Err(bad("it does not say how it was come by")),
        }
    }

    fn owner(&self) -> u64 {
        self.area.load(area::OWNER, Acquire)
    }

    /// From here on the device is this driver's, and it may store anything.
    pub(super) fn accept(&self) {
        self.area.store(area::OWNER, self.generation.into(), Release);
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
        let (words, by, owner) = (snapshot.words.len(), snapshot.generation, self.owner());
        if words != SNAPSHOT_WORDS || u64::from(by) != owner {
            let what = format!("{words} words of generation {by}, not {SNAPSHOT_WORDS} of {owner}");
            return Err(StateError::Unreadable(format!("the data store has {what}")).into());
        }
        for (at, word) in snapshot.words.into_iter().enumerate() {
            state.words().store(at, word, Relaxed);
        }
        Ok(())
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
            let words = (0..SNAPSHOT_WORDS).map(|at| state.words().load(at, Relaxed)).collect();
            store.put(Snapshot::new(self.generation, words))?;
        }
        Ok(())
    }

    /// Gives the baton away: the last store.
    pub(super) fn give(&self, to: u32) {
        self.area.store(area::BATON, u64::from(to) | how::HANDED_OVER << 32, Release);
        self.area.wake(area::BATON);
    }

    /// Whether counters are carried over by what is written there.
    fn counting(&self) -> Option<&StateArea> {
        let version = |state: &&StateArea| state.words().load(area::header::VERSION, Relaxed);
        self.state.as_ref().filter(|state| version(state) >= 2)
    }

    /// Notes counters for a successor.
    pub(super) fn note(&self, totals: &[u64; counters::COUNT]) {
        let Some(state) = self.counting() else { return };
        for (at, &total) in totals.iter().enumerate() {
            state.words().store(record::COUNTERS + at, total, Relaxed);
        }
    }

    /// The counters that a predecessor noted.
    pub(super) fn totals(&self) -> Option<[u64; counters::COUNT]> {
        let state = self.counting()?;
        Some(std::array::from_fn(|at| state.words().load(record::COUNTERS + at, Relaxed)))
    }
}
