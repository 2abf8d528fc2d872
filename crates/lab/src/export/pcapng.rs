//! The frames that arrived, as a pcapng file.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, PcapError};
use warikomi_clock::Span;
use warikomi_inject::trace::{Frames, Happening, Reader};
use warikomi_nic::{Reception, RxOutcome};

use super::ExportError;

/// Times in units of 10^-9 s (pcapng, 4.2, if_tsresol).
const NANOSECONDS: u8 = 9;
/// The packet came in (pcapng, 4.3.1, epb_flags).
const INBOUND: u32 = 1;

/// Times count from the clock's epoch, so an export starts early in 1970. A frame that did not get onto
/// the ring has a comment that says why.
pub(super) fn write<R: Read>(mut trace: Reader<R>, to: &mut dyn Write) -> Result<u64, ExportError> {
    let mut file = PcapNgWriter::new(to).map_err(failed)?;
    let header = trace.header();
    let name = format!("{} on {}", header.driver, header.model);
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(name)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ],
    };
    file.write_block(&interface.into_block()).map_err(failed)?;
    let mut frames = Frames::default();
    let mut waiting: Option<(Duration, Vec<u8>)> = None;
    let mut written = 0;
    while let Some(event) = trace.next_event()? {
        match event.what {
            Happening::Arrived { frame, .. } => {
                let at = Duration::from_nanos(event.at.as_ps() / Span::from_ns(1).as_ps());
                waiting = Some((at, frames.bytes(&frame).to_vec()));
            }
            Happening::Placed(Reception { outcome, .. }) => {
                let Some((timestamp, data)) = waiting.take() else { continue };
                let mut options = vec![EnhancedPacketOption::Flags(INBOUND)];
                if outcome != RxOutcome::OnRing {
                    options.push(EnhancedPacketOption::Comment(outcome.to_string().into()));
                }
                let original_len = data.len() as u32;
                let data = Cow::Owned(data);
                let packet =
                    EnhancedPacketBlock { interface_id: 0, timestamp, original_len, data, options };
                file.write_block(&packet.into_block()).map_err(failed)?;
                written += 1;
            }
            _ => {}
        }
    }
    Ok(written)
}

fn failed(error: PcapError) -> ExportError {
    ExportError::Write(match error {
        PcapError::IoError(error) => error,
        other => std::io::Error::other(other),
    })
}
