//! Which queue a frame is for (82576, 7.1.1; registers MRQC, RETA and RSSRK in 8.11).

use super::regs::{self, Registers};
use crate::intel::hash::{self, field};

// MRQC: what counts, the queue of what has no hash, and which hashes are on.
const MODE: u32 = 7;
const MODE_RSS: u32 = 2;
const DEFAULT_SHIFT: u32 = 3;
const DEFAULT: u32 = 7;
const FIELDS: u32 = field::TCP_IPV4
    | field::IPV4
    | field::IPV6
    | field::TCP_IPV6
    | field::UDP_IPV4
    | field::UDP_IPV6;
/// An entry of the redirection table.
const QUEUE: u8 = 0xf;

/// A frame's queue, and what the descriptor says of its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steered {
    pub(super) queue: u16,
    /// The hash's type.
    pub(super) kind: u32,
    pub(super) hash: u32,
}

fn default_queue(mrqc: u32) -> u16 {
    (mrqc >> DEFAULT_SHIFT & DEFAULT) as u16
}

/// Where a frame goes.
#[inline]
pub(super) fn steer(file: &Registers, frame: &[u8]) -> Steered {
    let mrqc = file.get(regs::MRQC);
    let hashed = match mrqc & MODE {
        MODE_RSS => hash::hash(file, mrqc & FIELDS, frame),
        _ => None,
    };
    let Some((kind, hash)) = hashed else {
        return Steered { queue: default_queue(mrqc), ..Steered::default() };
    };
    Steered { queue: (hash::entry(file, hash) & QUEUE).into(), kind, hash }
}

/// The queues that frames can go to, a bit each.
pub(super) fn reached(file: &Registers) -> u16 {
    let mrqc = file.get(regs::MRQC);
    let mut queues = 1 << default_queue(mrqc);
    if mrqc & MODE == MODE_RSS {
        let words = (regs::RETA..=regs::RETA_LAST).step_by(4).map(|at| file.get(at).to_le_bytes());
        words.flatten().for_each(|entry| queues |= 1 << (entry & QUEUE));
    }
    queues
}
