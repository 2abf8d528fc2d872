//! What a function counts.

/// What a function counts about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounters {
    /// Register reads.
    pub reads: u64,
    /// Register writes.
    pub writes: u64,
    /// Of these, the doorbells: writes by which the driver said that there is something to transmit.
    pub doorbells: u64,
    /// Transmit descriptors carried out and given back to the driver.
    pub tx_descriptors: u64,
    /// Accesses to a BAR that is not there, beyond its end, or while memory decoding is off.
    pub stray: u64,
    /// DMA transfers that failed.
    pub dma_errors: u64,
    /// Bytes that were copied from and to the target's memory: of frames, and of descriptors but for their words of
    /// ownership.
    pub dma_bytes: u64,
    /// Times that an interrupt's level has risen.
    pub interrupts: u64,
}
