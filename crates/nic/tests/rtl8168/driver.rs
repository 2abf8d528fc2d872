//! The chip from the other side: what Linux's r8169 does to it, in the same order and with
//! constants of its own, so that a wrong constant in the model does not cancel out.

use std::ops::{Deref, DerefMut};

use warikomi_clock::Time;
use warikomi_nic::NicFunction;
use warikomi_nic::rtl8168::Rtl8168;
use warikomi_pci::Width;
use warikomi_testbench::Bench;

pub(crate) const BAR: u8 = 2;
pub(crate) const OWN: u32 = 0x8000_0000;
pub(crate) const EOR: u32 = 0x4000_0000;
pub(crate) const FS: u32 = 0x2000_0000;
pub(crate) const LS: u32 = 0x1000_0000;
pub(crate) const STATION: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];

pub(crate) const RX_RING: u64 = 0x1_0000;
pub(crate) const TX_RING: u64 = 0x2_0000;
pub(crate) const HIGH_RING: u64 = 0x3_0000;
pub(crate) const TALLY: u64 = 0x4_0000;
pub(crate) const RX_BUFFERS: u64 = 0x10_0000;
pub(crate) const TX_BUFFERS: u64 = 0x60_0000;
/// Distance of buffers.
pub(crate) const STRIDE: u64 = 0x4000;
pub(crate) const MEMORY: usize = 0x80_0000;

/// A driver with its chip on the bench.
pub(crate) struct Lab {
    bench: Bench<NicFunction<Rtl8168>>,
    pub(crate) rx_len: u16,
    pub(crate) tx_len: u16,
    pub(crate) cur_rx: u16,
    pub(crate) cur_tx: u16,
}

impl Deref for Lab {
    type Target = Bench<NicFunction<Rtl8168>>;
    fn deref(&self) -> &Self::Target {
        &self.bench
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bench
    }
}

impl Lab {
    /// A chip with memory decoding, bus mastering and MSI on, and nothing else done to it.
    pub(crate) fn new() -> Lab {
        Lab::around(Rtl8168::new())
    }

    fn around(chip: Rtl8168) -> Lab {
        let bench = Bench::cabled(|wire| Box::new(NicFunction::new(chip, wire)))
            .with_memory(0, MEMORY)
            .at(Time::from_ps(1_000_000_000_000))
            .enabled();
        Lab { bench, rx_len: 256, tx_len: 256, cur_rx: 0, cur_tx: 0 }
    }

    /// A chip that has been opened as r8169 opens it.
    pub(crate) fn open() -> Lab {
        Lab::open_with(Rtl8168::new())
    }

    /// The same with this chip.
    pub(crate) fn open_with(chip: Rtl8168) -> Lab {
        let mut lab = Lab::around(chip);
        lab.init_rings();
        lab.reset_work();
        lab
    }

    pub(crate) fn r8(&mut self, offset: u64) -> u8 {
        self.read(offset, Width::B1) as u8
    }
    pub(crate) fn r16(&mut self, offset: u64) -> u16 {
        self.read(offset, Width::B2) as u16
    }
    pub(crate) fn r32(&mut self, offset: u64) -> u32 {
        self.read(offset, Width::B4) as u32
    }
    pub(crate) fn w8(&mut self, offset: u64, value: u8) {
        self.write(offset, Width::B1, value.into());
    }
    pub(crate) fn w16(&mut self, offset: u64, value: u16) {
        self.write(offset, Width::B2, value.into());
    }
    pub(crate) fn w32(&mut self, offset: u64, value: u32) {
        self.write(offset, Width::B4, value.into());
    }

    pub(crate) fn mdio_write(&mut self, register: u32, value: u16) {
        self.w32(0x60, 0x8000_0000 | register << 16 | u32::from(value));
        assert_eq!(self.r32(0x60) & 0x8000_0000, 0, "PHYAR's flag clears when the write is done");
    }

    pub(crate) fn mdio_read(&mut self, register: u32) -> u16 {
        self.w32(0x60, register << 16);
        let value = self.r32(0x60);
        assert_ne!(value & 0x8000_0000, 0, "PHYAR's flag is set when the data is there");
        value as u16
    }

    /// rtl8169_rx_fill, and an empty transmit ring.
    pub(crate) fn init_rings(&mut self) {
        for i in 0..self.rx_len {
            let end = if i + 1 == self.rx_len { EOR } else { 0 };
            let buffer = RX_BUFFERS + STRIDE * u64::from(i);
            let at = RX_RING + 16 * u64::from(i);
            self.put(at, &[OWN | end | 16_383, 0, buffer as u32, (buffer >> 32) as u32]);
        }
        for i in 0..self.tx_len {
            self.put(TX_RING + 16 * u64::from(i), &[0; 4]);
        }
        (self.cur_rx, self.cur_tx) = (0, 0);
    }

    /// rtl8169_cleanup: mask and acknowledge, close the receiver, reset.
    pub(crate) fn cleanup(&mut self) {
        self.w16(0x3c, 0);
        self.w16(0x3e, 0xffff);
        self.r8(0x37);
        let config = self.r32(0x44);
        self.w32(0x44, config & !0x3f);
        let command = self.r8(0x37);
        self.w8(0x37, command | 0x80);
        self.w8(0x37, 0x10);
        assert_eq!(self.r8(0x37) & 0x10, 0, "reset is over");
    }

    /// rtl_reset_work: cleanup, descriptors back to the chip, rtl_hw_start.
    pub(crate) fn reset_work(&mut self) {
        self.cleanup();
        (self.cur_rx, self.cur_tx) = (0, 0);
        for i in 0..self.rx_len {
            self.mark_to_asic(i);
        }
        self.hw_start();
    }

    /// rtl_hw_start for RTL_GIGA_MAC_VER_19.
    pub(crate) fn hw_start(&mut self) {
        self.w8(0x50, 0xc0);
        self.w16(0xe0, 0x2060);
        self.w8(0xec, 0x3f);
        self.w32(0x68, 0xf70c);
        assert_ne!(self.r32(0x68) & 0x8000_0000, 0, "CSIAR answers");
        let csi = self.r32(0x64) & 0x00ff_ffff;
        self.w32(0x64, csi | 0x2700_0000);
        self.w32(0x68, 0x8000_f70c);
        assert_eq!(self.r32(0x68) & 0x8000_0000, 0, "CSIAR has written");
        for register in [2_u32, 3, 6] {
            self.w32(0x80, register << 16);
            let value = self.r32(0x80);
            assert_ne!(value & 0x8000_0000, 0, "EPHYAR answers");
            self.w32(0x80, 0x8000_0000 | register << 16 | (value & 0xffff) | 0x1000);
            assert_eq!(self.r32(0x80) & 0x8000_0000, 0, "EPHYAR has written");
        }
        for config in [0x52, 0x54] {
            let value = self.r8(config);
            self.w8(config, value);
        }
        self.w16(0xe2, 0);
        self.w16(0xda, 0x4000);
        self.w32(0x24, 0);
        self.w32(0x20, TX_RING as u32);
        self.w32(0xe8, 0);
        self.w32(0xe4, RX_RING as u32);
        self.w8(0x50, 0);
        self.w8(0x37, 0x0c);
        self.w32(0x44, 0xc700);
        self.w32(0x40, 0x0300_0700);
        self.w32(0x0c, 0xffff_ffff);
        self.w32(0x08, 0xffff_ffff);
        self.w32(0x44, 0xc700 | 0x0e);
        self.w16(0x3c, 0x003f);
    }

    /// rtl8169_mark_to_asic.
    pub(crate) fn mark_to_asic(&mut self, index: u16) {
        let at = RX_RING + 16 * u64::from(index);
        let end = self.word(at) & EOR;
        self.put(at + 4, &[0]);
        self.put(at, &[OWN | end | 16_383]);
    }

    /// rtl_rx: takes frames off the ring. First and second word, and the bytes with FCS, of each.
    pub(crate) fn rx(&mut self) -> Vec<(u32, u32, Vec<u8>)> {
        let mut frames = Vec::new();
        loop {
            let at = RX_RING + 16 * u64::from(self.cur_rx);
            let opts1 = self.word(at);
            if opts1 & OWN != 0 || frames.len() == 1_024 {
                return frames;
            }
            let buffer = u64::from(self.word(at + 8)) | u64::from(self.word(at + 12)) << 32;
            let bytes = self.bytes(buffer, (opts1 & 0x3fff) as usize);
            frames.push((opts1, self.word(at + 4), bytes));
            self.mark_to_asic(self.cur_rx);
            self.cur_rx = (self.cur_rx + 1) % self.rx_len;
        }
    }

    /// Puts a frame on the transmit ring in pieces, and rings the bell.
    pub(crate) fn xmit(&mut self, pieces: &[&[u8]], opts: [u32; 2]) {
        self.queue(pieces, opts);
        self.w8(0x38, 0x40);
    }

    /// rtl8169_start_xmit without the doorbell.
    pub(crate) fn queue(&mut self, pieces: &[&[u8]], opts: [u32; 2]) {
        let first = self.cur_tx;
        for (i, piece) in pieces.iter().enumerate() {
            let entry = self.cur_tx;
            let buffer = TX_BUFFERS + 0x1000 * u64::from(entry);
            self.put_bytes(buffer, piece);
            let mut opts1 = opts[0] | piece.len() as u32;
            opts1 |= if entry + 1 == self.tx_len { EOR } else { 0 };
            opts1 |= if i > 0 { OWN } else { FS };
            opts1 |= if i + 1 == pieces.len() { LS } else { 0 };
            let at = TX_RING + 16 * u64::from(entry);
            self.put(at, &[opts1, opts[1], buffer as u32, (buffer >> 32) as u32]);
            self.cur_tx = (entry + 1) % self.tx_len;
        }
        let at = TX_RING + 16 * u64::from(first);
        let opts1 = self.word(at);
        self.put(at, &[opts1 | OWN]);
    }
}

/// A frame to `destination` whose payload of `payload` bytes counts up, padded to 60 bytes.
pub(crate) fn frame_to(destination: [u8; 6], payload: usize) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend((0..payload).map(|i| i as u8));
    frame.resize(frame.len().max(60), 0);
    frame
}
