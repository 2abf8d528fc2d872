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
use warikomi_nic::{Reception, RxOutcome};

use super::error::ExportError;
use crate::{EventKind, Frames, Reader};

/// Times in units of 10^-9 s (pcapng, 4.2, if_tsresol).
const NANOSECONDS: u8 = 9;
/// The packet came in (pcapng, 4.3.1, epb_flags).
const INBOUND: u32 = 1;

/// Times count from the clock's epoch, so an export starts early in 1970. A comment says which receive
/// queue a frame was for, of a NIC with more than one, and why it did not get onto the ring, if so.
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
    let model = warikomi_nic::MODELS.iter().find(|info| info.name == header.model);
    let several = model.is_some_and(|info| info.rx_queues > 1);
    let mut frames = Frames::default();
    let mut waiting: Option<(Duration, Vec<u8>)> = None;
    let mut written = 0;
    while let Some(event) = trace.next_event()? {
        match event.what {
            EventKind::Arrived { frame, .. } => {
                let at = Duration::from_nanos(event.at.as_ps() / Span::from_ns(1).as_ps());
                waiting = Some((at, frames.bytes(&frame).to_vec()));
            }
            EventKind::Placed(Reception { queue, outcome }) => {
                let Some((timestamp, data)) = waiting.take() else { continue };
                let mut options = vec![EnhancedPacketOption::Flags(INBOUND)];
                let comment = comment(queue, several, outcome);
                options.extend(comment.map(|text| EnhancedPacketOption::Comment(text.into())));
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

/// What is to be said of a frame of this queue, one of `several` perhaps.
fn comment(queue: u16, several: bool, outcome: RxOutcome) -> Option<String> {
    match (several || queue > 0, outcome) {
        (false, RxOutcome::OnRing) => None,
        (false, missed) => Some(missed.to_string()),
        (true, RxOutcome::OnRing) => Some(format!("queue {queue}")),
        (true, missed) => Some(format!("queue {queue}: {missed}")),
    }
}

fn failed(error: PcapError) -> ExportError {
    ExportError::Write(match error {
        PcapError::IoError(error) => error,
        other => std::io::Error::other(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_says_the_queue_where_there_is_more_than_one() {
        use RxOutcome::{NoDescriptor, OnRing};
        let said = |queue, several, outcome| comment(queue, several, outcome).unwrap_or_default();
        assert_eq!(comment(0, false, OnRing), None);
        assert_eq!(said(0, false, NoDescriptor), "no descriptor");
        assert_eq!(
            (said(0, true, OnRing), said(1, false, OnRing)),
            ("queue 0".into(), "queue 1".into())
        );
        assert_eq!(said(1, true, NoDescriptor), "queue 1: no descriptor");
    }
}
