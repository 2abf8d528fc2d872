//! The seam between a NIC and what drives it.
//!
//! A target sees a [`PciFunction`]: configuration space and BARs that answer every access. A
//! function sees a [`Host`]: the time, the memory that it may reach by DMA, and a line for its
//! interrupts. Neither knows what stands behind the other, so every model runs under every target.

pub mod attach;
mod config;
mod dma;
mod function;
mod interrupt;
mod mmio;
mod shared_memory;
mod vector;
mod width;

pub use config::{
    Bar, BarKind, Capability, Command, ConfigBuilder, ConfigSpace, Identity, MsiState, MsixLayout,
    MsixState, Vectors,
};
pub use dma::{Descriptor, DmaError, DmaMemory, Pieces};
pub use function::{Host, PciFunction};
pub use interrupt::{Interrupt, InterruptState, IntrLine};
pub use mmio::{Mmio, MmioError};
pub use shared_memory::SharedMemory;
pub use vector::{MsiMessage, Vector};
pub use width::Width;
