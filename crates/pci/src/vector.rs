//! Vectors, and the messages that stand for them.

/// One of a function's interrupts, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vector(pub u16);

/// A message-signalled interrupt: a memory write that the function makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsiMessage {
    /// Where the write goes, as the driver's system programmed it.
    pub address: u64,
    /// What is written: 16 bits by MSI, 32 by MSI-X.
    pub data: u32,
}
