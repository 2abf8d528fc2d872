//! Registers as rows of a table.

mod file;
mod table;
mod words;

use warikomi_pci::{Vector, Width};

pub(crate) use self::file::{RegisterFile, Window, WrittenPart};
pub(crate) use self::table::{Span, join, joined_count, lay_out, row_count};
pub(crate) use self::words::{WordFile, WordTable};

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
    /// Reading sets it, as a semaphore is taken.
    ReadSet,
    /// A written bit goes back to 0 by itself when its work is done.
    SelfClearing,
}

impl Access {
    /// Whether a read gives what the register holds, and changes nothing.
    #[inline]
    pub fn is_looked_at(self) -> bool {
        !matches!(self, Access::WriteOnly | Access::ReadClear | Access::ReadSet)
    }
}

/// What a register is for, as far as an observer of the driver must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Interrupt status. A driver's first read of it after an interrupt is taken as the moment at
    /// which the handler ran.
    Status(Vector),
    /// Interrupt mask. It and the status are all that a driver accesses from its handler to the write
    /// that unmasks, unless something special has happened.
    Mask(Vector),
    /// By writing it a driver says that there is something to transmit on this queue.
    Doorbell(u16),
    /// Anything else.
    Other,
}

/// A register: a row of a model's table.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// The BAR that it is in.
    pub bar: u8,
    /// What the register is for.
    pub role: Role,
    /// The datasheet's name.
    pub name: &'static str,
    /// Offset in bytes into its BAR.
    pub offset: u16,
    /// Width in bytes; more than 8 of a place where there is no register ([`Register::is_empty`]).
    pub width: u16,
    /// Value at power-on.
    pub reset: u64,
    /// What reading and writing do.
    pub access: Access,
    /// Bits that a driver must leave as they are, or write as 0.
    pub reserved: u64,
    /// Bits that there are: the others read as 0, whatever is written to them.
    pub bits: u64,
    /// It may be accessed together with its neighbours, by an aligned access that takes in all of each.
    pub joined: bool,
    /// It is a row of bytes, each of which can be read by itself.
    pub bytes: bool,
    /// Where it is described: document and section.
    pub source: &'static str,
}

impl Register {
    /// A register at an offset into a BAR that is for nothing special, holds 0 at power-on and has no reserved
    /// bits, and is accessed by itself.
    pub const fn new(
        name: &'static str,
        (bar, offset): (u8, u16),
        width: u16,
        access: Access,
        source: &'static str,
    ) -> Register {
        let (role, reset, reserved, bits) = (Role::Other, 0, 0, u64::MAX);
        let (joined, bytes) = (false, false);
        Register {
            bar,
            role,
            name,
            offset,
            width,
            reset,
            access,
            reserved,
            bits,
            joined,
            bytes,
            source,
        }
    }

    /// Whether there is no register in these bytes: they read as 0, and a write is dropped.
    pub const fn is_empty(&self) -> bool {
        self.width > 8
    }

    /// The register with this role.
    pub const fn with_role(self, role: Role) -> Register {
        Register { role, ..self }
    }

    /// The register as a row of bytes.
    pub const fn as_bytes(self) -> Register {
        Register { bytes: true, ..self }
    }

    /// The register with these bits reserved.
    pub const fn with_reserved(self, reserved: u64) -> Register {
        Register { reserved, ..self }
    }

    /// Whether an access of `width` bytes at `offset` begins with this register or before it and takes
    /// it in, as a wider one may as well.
    #[inline]
    fn is_taken_in(&self, offset: u64, width: Width) -> bool {
        u64::from(self.offset).wrapping_sub(offset) < width.bytes() as u64
    }
}

/// The roles of the registers that an access takes in, of a table that is in the order of BARs and
/// offsets.
#[inline]
pub(crate) fn roles(
    table: &'static [Register],
    bar: u8,
    offset: u64,
    width: Width,
) -> impl Iterator<Item = Role> {
    let first = table.partition_point(|row| (row.bar, u64::from(row.offset)) < (bar, offset));
    table[first..]
        .iter()
        .take_while(move |row| row.bar == bar && row.is_taken_in(offset, width))
        .map(|row| row.role)
}
