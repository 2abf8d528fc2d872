//! The statistics registers (82574, 10.2.7; 82576, 8.18): each is 0 again when it was read. Those of 64 bits are read with the
//! lower half first, and both are 0 again behind the upper one.

use super::filter::Destination;
use super::regs::{self, Registers};
use crate::FCS_BYTES;

/// Adds to a counter, which stays at its highest value.
pub(crate) fn add(file: &mut Registers, counter: u16, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    file.set(counter, file.get(counter).saturating_add(count));
}

/// Adds a number of bytes to a counter of 64 bits.
pub(crate) fn add_bytes(file: &mut Registers, low: u16, bytes: usize) {
    file.set_pair(low, file.pair(low).saturating_add(bytes as u64));
}

/// The counter of the class that a frame of this length, check sequence included, is in: the first one is at
/// `classes`.
fn class(classes: u16, bytes: usize) -> u16 {
    let class = match bytes {
        0..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1_023 => 4,
        _ => 5,
    };
    classes + 4 * class
}

/// A frame of this length without check sequence was received, and is good. A PAUSE is counted by itself (i210,
/// 8.18.23: without received flow control packets).
pub(crate) fn received(file: &mut Registers, bytes: usize, destination: Destination) {
    if destination == Destination::Mac {
        return;
    }
    let bytes = bytes + FCS_BYTES;
    add(file, class(regs::PRC64, bytes), 1);
    add(file, regs::GPRC, 1);
    add_bytes(file, regs::GORCL, bytes);
    match destination {
        Destination::Unicast | Destination::Mac => {}
        Destination::Multicast => add(file, regs::MPRC, 1),
        Destination::Broadcast => add(file, regs::BPRC, 1),
    }
}

/// A frame of this length was on the wire, whatever became of it.
pub(crate) fn seen(file: &mut Registers, bytes: usize) {
    add(file, regs::TPR, 1);
    add_bytes(file, regs::TORL, bytes + FCS_BYTES);
}

/// This frame was sent.
pub(crate) fn sent(file: &mut Registers, frame: &[u8]) {
    let bytes = frame.len() + FCS_BYTES;
    add(file, class(regs::PTC64, bytes), 1);
    add(file, regs::GPTC, 1);
    add(file, regs::TPT, 1);
    add_bytes(file, regs::GOTCL, bytes);
    add_bytes(file, regs::TOTL, bytes);
    match frame.first_chunk::<6>() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => add(file, regs::BPTC, 1),
        Some([first, ..]) if first & 1 != 0 => add(file, regs::MPTC, 1),
        _ => {}
    }
}

/// The driver reads the counter at `offset`.
pub(crate) fn read(file: &mut Registers, offset: u16) -> u32 {
    let value = file.get(offset);
    match offset - offset % 8 {
        low @ (regs::GORCL
        | regs::GOTCL
        | regs::TORL
        | regs::TOTL
        | regs::HGORCL
        | regs::HGOTCL) => {
            if offset != low {
                file.set_pair(low, 0);
            }
        }
        _ => file.set(offset, 0),
    }
    value
}
