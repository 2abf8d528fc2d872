//! A trace in the forms that other programs open.

mod error;
mod pcapng;
mod perfetto;

use std::io::{Read, Write};

pub use self::error::ExportError;
use crate::Reader;

/// Formats to which a trace can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The frames, with nanoseconds, for Wireshark and tshark.
    Pcapng,
    /// Packets, interrupts and register accesses as a timeline, in the Trace Event Format, for
    /// ui.perfetto.dev and chrome://tracing.
    Perfetto,
}

/// Writes the events of a trace in another form; returns how many of them it has.
pub fn export<R: Read>(
    trace: Reader<R>,
    format: Format,
    to: &mut dyn Write,
) -> Result<u64, ExportError> {
    match format {
        Format::Pcapng => pcapng::write(trace, to),
        Format::Perfetto => perfetto::write(trace, to),
    }
}

#[cfg(test)]
mod tests;
