//! `warikomi export`.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use warikomi_lab::record::{FormatName, NotExported, write_export};

/// Turn a trace into a file for Wireshark or for a timeline viewer
///
/// The trace is one of `warikomi record`. pcapng has the frames that arrived, with nanoseconds; those that
/// did not get onto the ring have a comment. Open it with Wireshark or tshark. perfetto has packets,
/// interrupts, register accesses by their names and DMA on a timeline, in the Trace Event Format: open it
/// at ui.perfetto.dev or chrome://tracing.
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

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (trace, format) = (&arguments.trace, arguments.to);
    let output = arguments.output.clone();
    let output = output.unwrap_or_else(|| trace.with_extension(format.extension()));
    // Complete or not at all: a trace may be damaged at its end only.
    let folder = output.parent().filter(|path| !path.as_os_str().is_empty());
    let name = || format!("cannot write {}", output.display());
    let file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(name)?;
    let mut file = BufWriter::new(file);
    let written = write_export(trace, format, &mut file).map_err(|error| match error {
        NotExported::Write(error) => anyhow::Error::from(error).context(name()),
        damaged => anyhow::Error::from(damaged).context(trace.display().to_string()),
    })?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error).with_context(name)?;
    file.persist(&output).map_err(|error| error.error).with_context(name)?;
    eprintln!("{written} events in {}", output.display());
    Ok(ExitCode::SUCCESS)
}
