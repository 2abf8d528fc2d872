//! What a driver is told when it starts.

use warikomi_driver::strategy::{DEFAULT_BUDGET, Strategy};

/// The generation of a device's first driver.
pub(crate) const FIRST_GENERATION: u32 = 1;

/// How a driver shall receive: what its page of orders says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// When it looks at its ring, and when it sleeps.
    pub strategy: Strategy,
    /// Receive buffers on the ring; 0 for as many as the driver likes.
    pub buffers: u64,
    /// Bytes of each; 0 for what the driver likes.
    pub buffer_bytes: u64,
}

impl Default for Orders {
    fn default() -> Self {
        Orders { strategy: Strategy::Napi { budget: DEFAULT_BUDGET }, buffers: 0, buffer_bytes: 0 }
    }
}
