//! Why a driver's loop ended.

use super::store::StoreError;
use crate::device::{AttachError, SupportGone};
use crate::state::{How, StateError};
use crate::{DriverError, PoolError};

/// Why a driver process ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No driver of that name.
    #[error("there is no driver called '{0}'")]
    UnknownDriver(String),
    /// The process cannot attach to its device.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The driver gave up.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Its own receive buffers do not fit.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Nobody is there any more.
    #[error(transparent)]
    SupportGone(#[from] SupportGone),
    /// What a predecessor has left is nothing to go on with.
    #[error(transparent)]
    State(#[from] StateError),
    /// The data store has not what a predecessor has left.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A way in which nothing is left for a successor.
    #[error(
        "generation {generation} cannot go on where another driver stopped ({how:?}): by way {way}, nothing \
         of it is left; the device has to be reset"
    )]
    NothingLeft {
        /// Generation of the driver that owns the device.
        generation: u32,
        /// How that driver got the device.
        how: How,
        /// How this device's drivers follow one another.
        way: u64,
    },
    /// The layer that the frames are for cannot go on.
    #[error("{0}")]
    Upper(String),
    /// Nonsense in the orders page.
    #[error("the orders of the support side are no receive strategy: {0:?}")]
    BadOrders([u64; 4]),
    /// The region is too small.
    #[error("the rings take {needed} bytes of DMA memory, and there are {bytes}")]
    NoRoom {
        /// Bytes that the rings need.
        needed: usize,
        /// Bytes of DMA memory that there are.
        bytes: u64,
    },
}
