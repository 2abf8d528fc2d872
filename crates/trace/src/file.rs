//! A tape as a file.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use warikomi_inject::Plan;
use warikomi_wire::WireKind;

use super::tape::Tape;
use super::{BLOCK_MARK, END_MARK, MAGIC, VERSION};

/// Header of a trace: what was recorded, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of Warikomi that wrote it.
    pub version: String,
    /// The driver that was recorded.
    pub driver: String,
    /// The NIC's model.
    pub model: String,
    /// The version of the kernel that ran the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The NIC's hardware address.
    pub mac: [u8; 6],
    /// What tells the packets of this run from those of another.
    pub run_id: u32,
    /// What the NIC was cabled to, as `--wire` takes it.
    pub wire: String,
    /// What was injected, if it was a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

impl Header {
    /// The wire by its name, without a file that it wrote.
    pub fn wire_kind(&self) -> Option<WireKind> {
        match self.wire.parse().ok()? {
            WireKind::Pcap { inner, .. } => Some(*inner),
            other => Some(other),
        }
    }
}

impl Tape {
    /// Writes everything on the tape as a trace.
    pub fn write_to(&self, header: &Header, to: &mut dyn Write) -> io::Result<()> {
        let header = serde_json::to_vec(header)?;
        let mut front = VERSION.to_le_bytes().to_vec();
        front.extend((header.len() as u32).to_le_bytes());
        front.extend(crc32fast::hash(&header).to_le_bytes());
        front.extend(crc32fast::hash(&front).to_le_bytes());
        to.write_all(&MAGIC)?;
        to.write_all(&front)?;
        to.write_all(&header)?;
        self.finished(|inner| {
            let mut start = 0;
            for block in &inner.blocks {
                write_block(to, BLOCK_MARK, block.events, &inner.bytes[start..block.end])?;
                start = block.end;
            }
            let counts = [inner.events.to_le_bytes(), inner.dropped.to_le_bytes()].concat();
            write_block(to, END_MARK, 0, &counts)
        })
    }
}

fn write_block(to: &mut dyn Write, mark: [u8; 4], events: u32, payload: &[u8]) -> io::Result<()> {
    let mut head = mark.to_vec();
    head.extend((payload.len() as u32).to_le_bytes());
    head.extend(events.to_le_bytes());
    head.extend(crc32fast::hash(payload).to_le_bytes());
    head.extend(crc32fast::hash(&head).to_le_bytes());
    to.write_all(&head)?;
    to.write_all(payload)
}
