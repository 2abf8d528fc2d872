//! `warikomi export`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use warikomi_trace::Reader;
use warikomi_trace::export::{ExportError, Format, export};

/// Turns a trace of `warikomi record` into a file that other programs open.
///
/// pcapng has the frames that arrived, with nanoseconds; those that did not get onto the ring have a
/// comment. Open it with Wireshark or tshark. perfetto has packets, interrupts, register accesses by
/// their names and DMA on a timeline, in the Trace Event Format: open it at ui.perfetto.dev or
/// chrome://tracing.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The trace, such as runs/RUN/trace.wkt
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// What to make of it
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: FormatName,
    /// The file to write; one that exists is replaced [default: the trace's name with .pcapng or .json]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum FormatName {
    /// The frames, for Wireshark
    Pcapng,
    /// A timeline, for ui.perfetto.dev and chrome://tracing
    Perfetto,
}

impl FormatName {
    pub(crate) fn extension(self) -> &'static str {
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

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let format = arguments.to;
    let output = arguments.output.clone();
    let output = output.unwrap_or_else(|| arguments.trace.with_extension(format.extension()));
    let written = write_export(&arguments.trace, format, |write| {
        // Complete or not at all: a trace may be damaged at its end only.
        let folder = output.parent().filter(|path| !path.as_os_str().is_empty());
        let name = || format!("cannot write {}", output.display());
        let file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .with_context(name)?;
        let mut file = BufWriter::new(file);
        write(&mut file).with_context(name)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error).with_context(name)?;
        file.persist(&output).map_err(|error| error.error).with_context(name)?;
        Ok(())
    })?;
    eprintln!("{written} events in {}", output.display());
    Ok(ExitCode::SUCCESS)
}

/// What writes a file's contents.
type Writing<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// Exports `trace` into what `file` makes; returns how many events that has.
pub(crate) fn write_export(
    trace: &Path,
    format: FormatName,
    file: impl FnOnce(Writing<'_>) -> Result<()>,
) -> Result<u64> {
    let name = || trace.display().to_string();
    let from = File::open(trace).with_context(name)?;
    let mut reader = Some(Reader::new(BufReader::with_capacity(1 << 20, from)).with_context(name)?);
    let (mut written, mut bad_trace) = (0, None);
    let kept = file(&mut |to| {
        let Some(reader) = reader.take() else { return Ok(()) };
        match export(reader, format.format(), to) {
            Ok(events) => written = events,
            Err(ExportError::Write(error)) => return Err(error),
            Err(ExportError::Trace(error)) => {
                bad_trace = Some(error);
                return Err(io::Error::other("the trace is damaged"));
            }
        }
        Ok(())
    });
    match bad_trace {
        Some(error) => Err(error).with_context(name),
        None => kept.map(|()| written),
    }
}
