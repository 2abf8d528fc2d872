//! Whether a frame from the wire is let in: its address, tag, length, and what happened to it on the way.

use super::filter::{self, Destination, Places};
use super::regs::{self, Registers};
use super::stats;
use crate::{FCS_BYTES, Frame, MIN_FRAME_BYTES, RxError, RxFault};
use warikomi_pci::Pieces;
use warikomi_wire::HEADER_BYTES;

/// The longest frame with check sequence that a receiver of usual frames lets in (82574, 10.2.5.1, LPE).
pub(crate) const USUAL_BYTES: usize = 1_522;

// Errors of a receive descriptor.
const CRC: u32 = 1 << 24;
const DATA: u32 = 1 << 31;
pub(crate) const ERRORS: u32 = CRC | DATA;

/// What a receiver takes.
#[derive(Clone, Debug)]
pub(crate) struct Limits<'a> {
    /// The registers with the station's addresses.
    pub(crate) addresses: &'a [Places],
    /// Bytes of the longest frame with check sequence that the driver wants.
    pub(crate) longest: usize,
    /// Bytes without check sequence that the card takes.
    pub(crate) most: usize,
}

/// A frame that was let in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) destination: Destination,
    /// The errors that its descriptor tells.
    pub(crate) errors: u32,
    /// Its tag, if it has one.
    pub(crate) tag: Option<u16>,
}

/// Looks at whether a frame is let in.
#[inline]
pub(crate) fn admit(
    file: &mut Registers,
    limits: &Limits<'_>,
    bytes: &[u8],
    fault: Option<RxFault>,
) -> Option<Admitted> {
    let (Some(&address), true) = (bytes.first_chunk(), bytes.len() >= HEADER_BYTES) else {
        count_length(file, regs::RUC);
        return None;
    };
    let to_mac = match filter::is_control(file, bytes) && fault.is_none() {
        true => control(file, bytes)?,
        false => false,
    };
    let destination = filter::admits(file, limits.addresses, address)?;
    let destination = if to_mac { Destination::Mac } else { destination };
    let tag = filter::tag(file, bytes);
    if tag.is_some_and(|tag| !filter::admits_tag(file, tag))
        || !is_of_possible_length(file, limits, bytes.len())
    {
        return None;
    }
    let errors = match fault {
        None => 0,
        Some(fault) => errors(file, fault)?,
    };
    Some(Admitted { destination, errors, tag })
}

/// Counts a frame of flow control, of which the transmitter takes no notice here. Whether it is a PAUSE; `None` if the
/// station does not see it: a PAUSE as RCTL.DPF says, what has another opcode as RCTL.PMCF says (8254x, 8.7.4 and
/// 13.7.20; i210, 3.7.5.2).
#[cold]
fn control(file: &mut Registers, bytes: &[u8]) -> Option<bool> {
    const PAUSE: [u8; 2] = [0, 1];
    let rctl = file.get(regs::RCTL);
    let body = bytes.get(HEADER_BYTES..).and_then(<[u8]>::first_chunk::<4>);
    let (counter, seen, pause) = match body {
        Some(&[a, b, time @ ..]) if [a, b] == PAUSE => {
            let counter = if time == [0, 0] { regs::XONRXC } else { regs::XOFFRXC };
            (counter, rctl & regs::RCTL_DISCARD_PAUSE == 0, true)
        }
        _ => (regs::FCRUC, rctl & regs::RCTL_PASS_CONTROL != 0, false),
    };
    stats::add(file, counter, 1);
    seen.then_some(pause)
}

/// What is stored of a frame, piece by piece: without its tag if that is `stripped`, without its check sequence if the
/// driver wants none.
#[inline]
pub(crate) fn stored<'a>(file: &Registers, frame: Frame<'a>, stripped: bool) -> Pieces<'a> {
    let bytes = frame.bytes;
    let strip_fcs = file.get(regs::RCTL) & regs::RCTL_STRIP_CRC != 0;
    let fcs = (!strip_fcs).then_some(frame.fcs);
    let parts = if stripped { [&bytes[..12], &bytes[16..]] } else { [bytes, &[]] };
    Pieces { parts, fcs }
}

fn is_of_possible_length(file: &mut Registers, limits: &Limits<'_>, bytes: usize) -> bool {
    let counter = match bytes {
        _ if bytes < MIN_FRAME_BYTES => regs::RUC,
        _ if bytes + FCS_BYTES > limits.longest || bytes > limits.most => regs::ROC,
        _ => return true,
    };
    count_length(file, counter);
    false
}

/// Counts a frame that is too short or too long, in RLEC as well (i210, 8.18.14; 8254x, 13.7.15).
#[cold]
fn count_length(file: &mut Registers, counter: u16) {
    stats::add(file, counter, 1);
    stats::add(file, regs::RLEC, 1);
}

/// The errors that a descriptor tells of a damaged frame; `None` if it is not let in.
#[cold]
fn errors(file: &mut Registers, fault: RxFault) -> Option<u32> {
    let counter = match fault {
        RxFault::Crc => regs::CRCERRS,
        RxFault::Alignment => regs::ALGNERRC,
        RxFault::Reported(RxError::Crc) => return Some(CRC),
        RxFault::Reported(RxError::Runt | RxError::TooLong) => return Some(DATA),
        RxFault::Length(_) | RxFault::NeverCompleted | RxFault::CompletedLate(_) => {
            return Some(0);
        }
    };
    stats::add(file, counter, 1);
    stores_bad(file).then_some(CRC)
}

/// Counts an error that a descriptor was made to tell; one of the wire was counted when its frame was let in. RXERRC is
/// for frames in which the PHY has asserted RX_ER (82575, 14.9.4; 8254x, 13.7.4), and so for none of the wire here.
#[cold]
pub(crate) fn count_reported(file: &mut Registers, fault: Option<RxFault>) {
    match fault {
        Some(RxFault::Reported(RxError::Crc)) => stats::add(file, regs::CRCERRS, 1),
        Some(RxFault::Reported(_)) => stats::add(file, regs::RXERRC, 1),
        _ => {}
    }
}

/// Whether the driver wants frames with errors.
pub(crate) fn stores_bad(file: &Registers) -> bool {
    file.get(regs::RCTL) & regs::RCTL_STORE_BAD != 0
}
