//! What an orderly driver of the rtl8168 does.

use warikomi_nic::Link;
use warikomi_pci::{DmaMemory, Width};

use super::steps::Step;
use super::world::{BUFFER, RX_RING, TX_RING, World};

impl World {
    /// What an orderly driver of this chip does.
    pub(crate) fn drive_rtl8168(&mut self, step: &Step) {
        match step {
            Step::Open { length, size } => self.open_rtl8168(*length, *size),
            Step::GiveBack => self.give_back_rtl8168(),
            Step::Transmit { opts, pieces, bytes } => {
                self.transmit_rtl8168(*opts, *pieces, *bytes);
            }
            _ => {}
        }
    }

    fn open_rtl8168(&mut self, length: u64, size: u32) {
        self.apply(&Step::Config { offset: 4, width: Width::B2, value: 0x0406 });
        self.apply(&Step::Plug(Link::Up { mbps: 1_000 }));
        self.write(0x60, Width::B4, 0x801f_0000);
        self.write(0x60, Width::B4, 0x8000_9340);
        self.apply(&Step::Wait { us: 2_000 });
        self.write(0x37, Width::B1, 0x10);
        let words = [0x8000_0000 | size, 0, BUFFER as u32, 0];
        self.apply(&Step::Ring { address: RX_RING, words, length, end: true });
        self.apply(&Step::Ring { address: TX_RING, words: [0; 4], length: 1_024, end: false });
        // A station that frames of this test are for, whatever was written there before.
        self.write(0x50, Width::B1, 0x40);
        for (offset, width, value) in [
            (0xec, Width::B1, 0x7f),
            (0xe0, Width::B2, 0x2060),
            (0xda, Width::B2, 0x4000),
            (0x20, Width::B8, TX_RING),
            (0xe4, Width::B8, RX_RING),
            (0x37, Width::B1, 0x0c),
            (0x44, Width::B4, 0xc70f),
            (0x3c, Width::B2, 0x003f),
        ] {
            self.write(offset, width, value);
        }
        self.tx_next = 0;
    }

    fn give_back_rtl8168(&mut self) {
        for i in 0..1_024 {
            let at = RX_RING + 16 * i;
            let Ok(opts1) = self.memory.memory.load_u32(at) else { return };
            self.word(at, opts1 & 0x4000_0000 | 0x8000_0000 | 2_000);
            if opts1 & 0x4000_0000 != 0 {
                return;
            }
        }
    }

    fn transmit_rtl8168(&mut self, opts: [u32; 2], pieces: u64, bytes: u32) {
        // Headers in front, so that the requests find something to work on.
        let mut frame = vec![0x5a; 256];
        frame[..15].copy_from_slice(&[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0, 0x45]);
        frame[46] = 0x50;
        self.memory.memory.write(BUFFER, &frame).unwrap();
        for i in 0..pieces {
            let at = TX_RING + 16 * self.tx_next;
            self.tx_next = (self.tx_next + 1) % 1_024;
            let marks = if i == 0 { 0x2000_0000 } else { 0 }
                | if i + 1 == pieces { 0x1000_0000 } else { 0 };
            for (j, word) in [opts[0] | bytes, opts[1], BUFFER as u32, 0].into_iter().enumerate() {
                let word = if j == 0 { word | marks | 0x8000_0000 } else { word };
                self.word(at + 4 * j as u64, word);
            }
        }
        self.write(0x38, Width::B1, 0x40);
    }
}
