//! Any file of the guest, for what has no command of its own.

use std::fs::File;
use std::io::Read;

use warikomi_protocol::answers::{Done, FileText};
use warikomi_protocol::commands::{ReadFile, WriteFile};

use super::error::{self, AgentError, Result};

/// Most that one answer carries, in bytes.
const LIMIT_BYTES: u64 = 64 * 1024;

pub(super) fn read(command: &ReadFile) -> Result<FileText> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(&command.path)?.take(LIMIT_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let mut bytes: Vec<u8> = read().map_err(|source| AgentError::File {
        what: "read",
        path: command.path.clone().into(),
        source,
    })?;
    let truncated = bytes.len() as u64 > LIMIT_BYTES;
    bytes.truncate(LIMIT_BYTES as usize);
    Ok(FileText { text: String::from_utf8_lossy(&bytes).into_owned(), truncated })
}

pub(super) fn write(command: &WriteFile) -> Result<Done> {
    error::write(&command.path, &command.text)?;
    Ok(Done {})
}
