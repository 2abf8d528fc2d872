use warikomi_clock::Time;

use crate::{Bar, DmaMemory, IntrLine, MsiMessage, Vector, Vectors, Width};

/// What the outside offers a function during one call.
pub struct Host<'a> {
    /// The time of the call. A function never reads a clock.
    pub now: Time,
    /// The memory that the target shares.
    pub memory: &'a dyn DmaMemory,
    /// Takes the function's interrupts.
    pub interrupts: &'a mut dyn IntrLine,
    /// How often it was looked whether the driver has written something, before this call. `None` if nothing that the
    /// driver writes can be on its way: each write is carried out before the driver goes on, or before it looks at its
    /// ring.
    pub looks: Option<u64>,
}

/// A PCI function: what a target attaches.
///
/// Every access returns at once and with a value, whatever the offset; an access outside of
/// anything that exists reads as zero in configuration space (as a function's unimplemented
/// registers do) and writes to it are dropped.
pub trait PciFunction {
    /// Its base address registers.
    fn bars(&self) -> &[Bar];

    /// How the function can interrupt.
    fn vectors(&self) -> Vectors;

    /// The message that the driver's system has asked for as this interrupt; `None` if it has asked for
    /// none, or has masked it.
    fn message(&self, vector: Vector) -> Option<MsiMessage>;

    /// Reads configuration space.
    fn config_read(&mut self, offset: u16, width: Width) -> u64;

    /// Writes configuration space.
    fn config_write(&mut self, host: &mut Host<'_>, offset: u16, width: Width, value: u64);

    /// Reads `width` bytes at `offset` into base address register `bar`.
    fn bar_read(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width) -> u64;

    /// Writes `width` bytes at `offset` into base address register `bar`.
    fn bar_write(&mut self, host: &mut Host<'_>, bar: u8, offset: u64, width: Width, value: u64);

    /// Does what has become due by `host.now`.
    fn poll(&mut self, host: &mut Host<'_>);
}
