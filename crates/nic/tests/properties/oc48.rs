//! What an orderly driver of the oc48 does.

use warikomi_nic::Link;
use warikomi_pci::{DmaMemory, Width};

use super::steps::Step;
use super::world::{BUFFER, RX_RING, World};

const CONTROL: u64 = 0x04;
const FIRST: u32 = 1 << 31;
const LAST: u32 = 1 << 30;
const DONE: u32 = 1 << 31;

impl World {
    /// What an orderly driver of this card does.
    pub(crate) fn drive_oc48(&mut self, step: &Step) {
        match step {
            Step::Open { length, size } => self.open_oc48(*length, *size),
            Step::GiveBack => self.give_back_oc48(),
            Step::Transmit { opts, pieces, bytes } => self.transmit_oc48(*opts, *pieces, *bytes),
            _ => {}
        }
    }

    fn open_oc48(&mut self, length: u64, size: u32) {
        self.apply(&Step::Config { offset: 4, width: Width::B2, value: 0x0406 });
        self.apply(&Step::Plug(Link::Up { mbps: 2_400 }));
        self.write(CONTROL, Width::B4, 1);
        (0..256).for_each(|n| self.word(RX_RING + 4 * n, 0));
        self.write(0x68, Width::B8, RX_RING);
        (0..length).for_each(|_| self.push_buffer(size));
        self.write(CONTROL, Width::B4, 6);
        self.write(0x14, Width::B4, 0x3f);
    }

    fn push_buffer(&mut self, size: u32) {
        self.write(0x50, Width::B8, BUFFER);
        self.write(0x58, Width::B4, size.into());
    }

    fn give_back_oc48(&mut self) {
        for n in 0..256 {
            if self.memory.memory.load_u32(RX_RING + 4 * n).is_ok_and(|entry| entry & DONE != 0) {
                self.word(RX_RING + 4 * n, 0);
                self.push_buffer(2_000);
            }
        }
    }

    /// Of the requests of other chips one has a meaning: a packet that lacks a mark.
    fn transmit_oc48(&mut self, opts: [u32; 2], pieces: u64, bytes: u32) {
        for i in 0..pieces {
            let first = if i == 0 && opts[0] == 0 { FIRST } else { 0 };
            let last = if i + 1 == pieces { LAST } else { 0 };
            self.write(0x30, Width::B8, BUFFER + i);
            self.write(0x38, Width::B4, (bytes | first | last).into());
        }
    }
}
