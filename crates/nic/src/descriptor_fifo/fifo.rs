//! A FIFO of descriptors on the card.

use warikomi_clock::Time;

use super::regs;
use crate::strict::Look;

/// A descriptor, as the driver has pushed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pushed {
    pub(super) address: u64,
    /// Length and marks.
    pub(super) command: u32,
    /// What TX_SEGMENT held, of a packet's first descriptor.
    pub(super) segment: u32,
    pub(super) at: Time,
}

impl Pushed {
    pub(super) fn bytes(self) -> usize {
        (self.command & regs::LENGTH) as usize
    }

    pub(super) fn has(self, mark: u32) -> bool {
        self.command & mark != 0
    }
}

/// The FIFO, and the registers with the address of the next descriptor to be pushed and with what its packet asks for. Descriptors are
/// numbered as they are pushed; `head` is the number of the first that is still in it.
#[derive(Debug)]
pub(super) struct Fifo {
    pub(super) address: u64,
    pub(super) segment: u32,
    slots: Box<[Option<Pushed>]>,
    pushed: u64,
}

impl Fifo {
    pub(super) fn new() -> Self {
        Fifo { address: 0, segment: 0, slots: vec![None; regs::FIFO].into(), pushed: 0 }
    }

    pub(super) fn reset(&mut self) {
        (self.address, self.segment, self.pushed) = (0, 0, 0);
    }

    /// Descriptors in it.
    pub(super) fn remaining(&self, head: u64) -> usize {
        self.pushed.saturating_sub(head) as usize
    }

    /// Pushes a descriptor; whether there was room.
    pub(super) fn push(&mut self, head: u64, command: u32, at: Time) -> bool {
        let room = self.remaining(head) < regs::FIFO;
        if room {
            let slot = &mut self.slots[self.pushed as usize % regs::FIFO];
            let first = command & regs::FIRST != 0;
            let segment = if first { std::mem::take(&mut self.segment) } else { 0 };
            *slot = Some(Pushed { address: self.address, command, segment, at });
            self.pushed += 1;
        }
        room
    }

    /// The same for a strict card, which cannot see it change: it is on the card.
    pub(super) fn look(&self, number: u64) -> Option<Look<u64>> {
        self.get(number).map(|pushed| Look {
            next: number + 1,
            buffer: pushed.address,
            bytes: pushed.bytes(),
            first: pushed.has(regs::FIRST),
            last: pushed.has(regs::LAST),
            words: [
                pushed.command,
                pushed.segment,
                pushed.address as u32,
                (pushed.address >> 32) as u32,
            ],
        })
    }

    /// The descriptor with this number, if it has been pushed.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<Pushed> {
        if number < self.pushed { self.slots[number as usize % regs::FIFO] } else { None }
    }
}
