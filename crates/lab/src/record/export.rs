//! What a trace can be turned into.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use clap::ValueEnum;
use warikomi_trace::Reader;
use warikomi_trace::export::{ExportError, Format, export};

/// Forms in which other programs open a trace.
#[derive(Clone, Copy, ValueEnum)]
pub enum FormatName {
    /// The frames, for Wireshark
    Pcapng,
    /// A timeline, for ui.perfetto.dev and chrome://tracing
    Perfetto,
}

impl FormatName {
    /// What a file of it is called, behind the dot.
    pub fn extension(self) -> &'static str {
        match self {
            FormatName::Pcapng => "pcapng",
            FormatName::Perfetto => "json",
        }
    }

    fn format(self) -> Format {
        match self {
            FormatName::Pcapng => Format::Pcapng,
            FormatName::Perfetto => Format::Perfetto,
        }
    }
}

/// Why a trace was not exported.
#[derive(Debug, thiserror::Error)]
pub enum NotExported {
    /// The trace cannot be read.
    #[error("cannot read it: {0}")]
    Open(io::Error),
    /// It is damaged.
    #[error(transparent)]
    Trace(#[from] warikomi_trace::TraceError),
    /// The other file cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes a trace in another form; returns how many events that has.
pub fn write_export(
    trace: &Path,
    format: FormatName,
    to: &mut dyn Write,
) -> Result<u64, NotExported> {
    let from = File::open(trace).map_err(NotExported::Open)?;
    let reader = Reader::new(BufReader::with_capacity(1 << 20, from))?;
    export(reader, format.format(), to).map_err(|error| match error {
        ExportError::Write(error) => NotExported::Write(error),
        ExportError::Trace(error) => NotExported::Trace(error),
    })
}
