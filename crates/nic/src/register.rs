//! Registers as rows of a table.

/// What reading and writing a register does (the usual letters of datasheets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only; a write is dropped.
    ReadOnly,
    /// Reads give what was written.
    ReadWrite,
    /// Write only; reads give 0.
    WriteOnly,
    /// Writing a 1 clears the bit.
    Write1Clear,
    /// Writing a 1 sets the bit.
    Write1Set,
    /// Reading clears it.
    ReadClear,
    /// A written bit goes back to 0 by itself when its work is done.
    SelfClearing,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// The datasheet's name.
    pub name: &'static str,
    /// Offset in bytes into the register BAR.
    pub offset: u16,
    /// Width in bytes.
    pub width: u16,
    /// Value at power-on.
    pub reset: u64,
    /// What an access does.
    pub access: Access,
    /// Where it is described: document and section.
    pub source: &'static str,
}
