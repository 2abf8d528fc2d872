//! Real traffic, as pcap and pcapng files have it.
//!
//! `pcap-file` splits the file into packets; what is in them is judged here. Times keep the
//! resolution that the file says it has. The error about a damaged file names the first byte of the
//! record or block that makes no sense: neither format has check sequences.

use std::io;

use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, PcapError, TsResolution};
use warikomi_clock::Span;
use warikomi_inject::{Schedule, ScheduleError};
use warikomi_wire::{HEADER_BYTES, MAX_FRAME_BYTES, MIN_FRAME_BYTES, fcs};

/// The longest file that is read, in bytes: all of it is held in memory.
pub const MAX_CAPTURE_BYTES: u64 = 2 << 30;

const PICOSECONDS: u128 = 1_000_000_000_000;
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const PCAP_MAGICS: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];

/// Why a file is not a capture that can be replayed. Offsets count bytes from the file's beginning.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Neither pcap nor pcapng.
    #[error("this is neither a pcap nor a pcapng file: byte 0 is already another")]
    Foreign,
    /// The end is missing.
    #[error(
        "this capture is cut off: the record at byte {begin} is not whole, and byte {offset}, and \
         all behind it, is missing; copy it again"
    )]
    Truncated {
        /// Where the record begins.
        begin: u64,
        /// The file's length.
        offset: u64,
    },
    /// A record or block that makes no sense.
    #[error("this capture is damaged: the record at byte {offset} makes no sense ({what})")]
    Damaged {
        /// Where it begins.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Not Ethernet.
    #[error(
        "these frames are not Ethernet (link type {0}), and the NIC takes no other; capture on an \
         Ethernet interface, not on 'any'"
    )]
    NotEthernet(u32),
    /// Too long.
    #[error(
        "this capture has more than {} MB; cut it into parts, for example with editcap -c",
        MAX_CAPTURE_BYTES >> 20
    )]
    TooBig,
    /// Nothing to replay, or too much.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The file could not be read.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

/// What was done to the frames of a capture, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Frames in the file.
    pub frames: u64,
    /// Left out: longer than any that the NIC takes.
    pub too_long: u64,
    /// Left out: shorter than an Ethernet header.
    pub too_short: u64,
    /// Filled up with zeros to the shortest frame, as the NIC that sent it did.
    pub padded: u64,
    /// The capture does not have all of their bytes; the rest is zeros.
    pub cut: u64,
    /// Earlier than the frame before them: they come at the same time.
    pub out_of_order: u64,
}

/// A capture that is ready to be replayed.
#[derive(Debug)]
pub struct Capture {
    /// When each frame arrives.
    pub schedule: Schedule,
    /// Counts of frames that could not be taken as they are.
    pub counts: CaptureCounts,
}

/// Whether a file that begins like this is a capture.
pub fn is_capture(begin: &[u8]) -> bool {
    let Some(Ok(magic)) = begin.get(..4).map(<[u8; 4]>::try_from) else { return false };
    let pcap = |number| PCAP_MAGICS.contains(&number);
    magic == PCAPNG_MAGIC || pcap(u32::from_le_bytes(magic)) || pcap(u32::from_be_bytes(magic))
}

/// Reads a capture. Times count from the first frame's.
pub fn read(file: &[u8]) -> Result<Capture, CaptureError> {
    if file.len() as u64 > MAX_CAPTURE_BYTES {
        return Err(CaptureError::TooBig);
    }
    let mut frames = Collected::default();
    match file.get(..4) {
        Some(magic) if magic == PCAPNG_MAGIC => read_pcapng(file, &mut frames)?,
        Some(_) if is_capture(file) => read_pcap(file, &mut frames)?,
        _ => return Err(CaptureError::Foreign),
    }
    Ok(Capture { schedule: frames.schedule, counts: frames.counts })
}

/// Turns the library's error about what begins at `rest` into ours.
fn wrong(file: &[u8], rest: &[u8], error: &PcapError) -> CaptureError {
    let offset = (file.len() - rest.len()) as u64;
    match error {
        PcapError::IncompleteBuffer => {
            CaptureError::Truncated { begin: offset, offset: file.len() as u64 }
        }
        other => CaptureError::Damaged { offset, what: other.to_string() },
    }
}

fn ethernet(link: DataLink) -> Result<(), CaptureError> {
    if link == DataLink::ETHERNET { Ok(()) } else { Err(CaptureError::NotEthernet(link.into())) }
}

fn read_pcap(file: &[u8], frames: &mut Collected) -> Result<(), CaptureError> {
    let (mut rest, parser) = PcapParser::new(file).map_err(|error| wrong(file, file, &error))?;
    let header = parser.header();
    ethernet(header.datalink)?;
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1_000_000,
        TsResolution::NanoSecond => 1_000_000_000,
    };
    while !rest.is_empty() {
        let (behind, packet) =
            parser.next_raw_packet(rest).map_err(|error| wrong(file, rest, &error))?;
        let damaged = |what: &str| CaptureError::Damaged {
            offset: (file.len() - rest.len()) as u64,
            what: what.to_owned(),
        };
        if u64::from(packet.ts_frac) >= unit {
            return Err(damaged("its time has a second's fraction of a second or more"));
        }
        if packet.incl_len > packet.orig_len {
            return Err(damaged("it has more bytes than the frame had"));
        }
        let ps = u128::from(packet.ts_sec) * PICOSECONDS
            + u128::from(packet.ts_frac) * (PICOSECONDS / u128::from(unit));
        frames.add(ps, &packet.data, packet.orig_len)?;
        rest = behind;
    }
    Ok(())
}

fn read_pcapng(file: &[u8], frames: &mut Collected) -> Result<(), CaptureError> {
    let (mut rest, mut parser) =
        PcapNgParser::new(file).map_err(|error| wrong(file, file, &error))?;
    while !rest.is_empty() {
        let (behind, block) = parser.next_block(rest).map_err(|error| wrong(file, rest, &error))?;
        let damaged = |what: &str| CaptureError::Damaged {
            offset: (file.len() - rest.len()) as u64,
            what: what.to_owned(),
        };
        if behind.len() >= rest.len() {
            return Err(damaged("it has no length"));
        }
        match block {
            Block::EnhancedPacket(packet) => {
                let interface = parser
                    .interfaces()
                    .get(packet.interface_id as usize)
                    .ok_or_else(|| damaged("it names an interface that is not described"))?;
                ethernet(interface.linktype)?;
                // The library takes every time for nanoseconds; it is in the interface's own unit.
                let ticks = packet.timestamp.as_nanos();
                let ps = picoseconds(ticks, &interface.options)
                    .ok_or_else(|| damaged("its time does not fit its interface's unit"))?;
                if packet.data.len() as u64 > u64::from(packet.original_len) {
                    return Err(damaged("it has more bytes than the frame had"));
                }
                frames.add(ps, &packet.data, packet.original_len)?;
            }
            Block::SimplePacket(_) | Block::Packet(_) => {
                return Err(damaged(
                    "it is a packet of a kind that has no exact time; convert the file with: \
                     editcap -F nsecpcap",
                ));
            }
            _ => {}
        }
        rest = behind;
    }
    Ok(())
}

/// A time in an interface's unit, which is a millionth of a second unless it says another:
/// 10^-n, or 2^-n if the highest bit is set (pcapng, 4.2, if_tsresol).
fn picoseconds(ticks: u128, options: &[InterfaceDescriptionOption<'_>]) -> Option<u128> {
    let resolution = options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    let resolution = resolution.unwrap_or(6);
    let exponent = u32::from(resolution & 0x7f);
    let per_second = if resolution & 0x80 == 0 {
        10u128.checked_pow(exponent)?
    } else {
        1u128.checked_shl(exponent)?
    };
    Some(ticks.checked_mul(PICOSECONDS)? / per_second)
}

#[derive(Debug, Default)]
struct Collected {
    schedule: Schedule,
    counts: CaptureCounts,
    first_ps: Option<u128>,
    last_ps: u128,
    frame: Vec<u8>,
}

impl Collected {
    fn add(&mut self, ps: u128, data: &[u8], original_len: u32) -> Result<(), ScheduleError> {
        self.counts.frames += 1;
        let len = (original_len as usize).max(data.len());
        if len > MAX_FRAME_BYTES {
            self.counts.too_long += 1;
            return Ok(());
        }
        if data.len() < HEADER_BYTES {
            self.counts.too_short += 1;
            return Ok(());
        }
        self.counts.cut += u64::from(data.len() < len);
        self.counts.padded += u64::from(len < MIN_FRAME_BYTES);
        let first = *self.first_ps.get_or_insert(ps);
        self.counts.out_of_order += u64::from(ps < self.last_ps);
        self.last_ps = self.last_ps.max(ps);
        self.frame.clear();
        self.frame.extend_from_slice(data);
        self.frame.resize(len.max(MIN_FRAME_BYTES), 0);
        let base = self.schedule.add_base(&self.frame)?;
        let after = u64::try_from(ps.saturating_sub(first)).map_err(|_| ScheduleError::TooLong)?;
        self.schedule.add(Span::from_ps(after), base, None, fcs(&self.frame))
    }
}

#[cfg(test)]
mod tests;
