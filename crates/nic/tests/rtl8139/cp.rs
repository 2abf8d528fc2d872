//! The C+ chip from the other side: what Linux's 8139cp does to it, with constants of its own.

use std::ops::{Deref, DerefMut};

use warikomi_clock::Time;
use warikomi_nic::NicFunction;
use warikomi_nic::rtl8139::{RTL8139CP, Rtl8139};
use warikomi_pci::Width;
use warikomi_testbench::Bench;

pub(crate) const OWN: u32 = 0x8000_0000;
const EOR: u32 = 0x4000_0000;
const FS: u32 = 0x2000_0000;
const LS: u32 = 0x1000_0000;
const RING: u64 = 64;
const RX_RING: u64 = 0x1_0000;
const TX_RING: u64 = RX_RING + 16 * RING;
pub(crate) const STATS: u64 = TX_RING + 16 * RING;
const RX_BUFFERS: u64 = 0x2_0000;
const TX_BUFFERS: u64 = 0x8_0000;
const STRIDE: u64 = 0x800;
/// PKT_BUF_SZ.
const BUFFER_BYTES: u32 = 1_536;
const COMMAND: u64 = 0x0017;

/// A driver with its chip on the bench.
pub(crate) struct Cp {
    bench: Bench<NicFunction<Rtl8139>>,
    rx_tail: u64,
    pub(crate) tx_head: u64,
}

impl Deref for Cp {
    type Target = Bench<NicFunction<Rtl8139>>;
    fn deref(&self) -> &Self::Target {
        &self.bench
    }
}

impl DerefMut for Cp {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bench
    }
}

impl Cp {
    /// A chip that has been opened as 8139cp opens it.
    pub(crate) fn open() -> Cp {
        let chip = Rtl8139::new(&RTL8139CP);
        let bench = Bench::cabled(|wire| Box::new(NicFunction::new(chip, wire)))
            .at(Time::from_ps(1_000_000_000_000))
            .commanded(COMMAND);
        let mut cp = Cp { bench, rx_tail: 0, tx_head: 0 };
        cp.stop_hw();
        cp.refill();
        cp.init_hw();
        cp.w16(0x3c, 0x80ff);
        cp
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
    /// cpw32_f.
    fn w32_f(&mut self, offset: u64, value: u32) {
        self.w32(offset, value);
        self.r32(offset);
    }

    /// cp_stop_hw, with its odd way to acknowledge.
    pub(crate) fn stop_hw(&mut self) {
        let status = self.r16(0x3e);
        self.w16(0x3e, !status);
        self.w16(0x3c, 0);
        self.w8(0x37, 0);
        self.w16(0xe0, 0);
        let status = self.r16(0x3e);
        self.w16(0x3e, !status);
        (self.rx_tail, self.tx_head) = (0, 0);
    }

    /// cp_refill_rx, and an empty transmit ring.
    pub(crate) fn refill(&mut self) {
        for index in 0..RING {
            let end = if index + 1 == RING { EOR } else { 0 };
            let buffer = RX_BUFFERS + STRIDE * index;
            self.put(RX_RING + 16 * index, &[OWN | end | BUFFER_BYTES, 0, buffer as u32, 0]);
            self.put(TX_RING + 16 * index, &[end, 0, 0, 0]);
        }
    }

    /// cp_init_hw.
    fn init_hw(&mut self) {
        self.w8(0x37, 0x10);
        assert_eq!(self.r8(0x37) & 0x10, 0, "reset is over");
        self.w8(0x50, 0xc0);
        self.w32_f(0x00, 0x004b_5702);
        self.w32_f(0x04, 0x0000_0100);
        self.start_hw();
        self.w8(0xec, 0x06);
        self.w32_f(0x44, 0xa40e);
        self.w32_f(0x08, u32::MAX);
        self.w32_f(0x0c, u32::MAX);
        self.w32_f(0x40, 0x0300_0600);
        let config = self.r8(0x52);
        self.w8(0x52, config | 0x21);
        self.w8(0x59, 0x40);
        let config = self.r8(0xd8);
        self.w8(0xd8, config & 1);
        self.w16(0x5c, 0);
        self.w8(0x50, 0);
    }

    /// cp_start_hw.
    pub(crate) fn start_hw(&mut self) {
        self.w16(0xe0, 0x007b);
        for (register, value) in
            [(0x28, 0), (0x2c, 0), (0xe4, RX_RING), (0xe8, 0), (0x20, TX_RING), (0x24, 0)]
        {
            self.w32_f(register, value as u32);
        }
        self.w8(0x37, 0x0c);
    }

    /// cp_rx_poll: first and second word, and the bytes with check sequence, of each frame.
    pub(crate) fn rx(&mut self) -> Vec<(u32, u32, Vec<u8>)> {
        self.w16(0x3e, 0x53);
        let mut frames = Vec::new();
        loop {
            let at = RX_RING + 16 * self.rx_tail;
            let opts1 = self.word(at);
            if opts1 & OWN != 0 || frames.len() as u64 == RING {
                return frames;
            }
            let bytes = self.bytes(self.word(at + 8).into(), (opts1 & 0x1fff) as usize);
            frames.push((opts1, self.word(at + 4), bytes));
            let end = if self.rx_tail + 1 == RING { EOR } else { 0 };
            self.put(at + 4, &[0]);
            self.put(at, &[OWN | end | BUFFER_BYTES]);
            self.rx_tail = (self.rx_tail + 1) % RING;
        }
    }

    /// cp_start_xmit of a frame in these pieces: the descriptor of the last.
    pub(crate) fn xmit(&mut self, pieces: &[&[u8]], opts: [u32; 2]) -> u64 {
        let first = TX_RING + 16 * self.tx_head;
        let mut at = first;
        for (index, piece) in pieces.iter().enumerate() {
            at = TX_RING + 16 * self.tx_head;
            let buffer = TX_BUFFERS + 0x1000 * self.tx_head;
            self.put_bytes(buffer, piece);
            let mut opts1 = opts[0] | piece.len() as u32;
            opts1 |= if self.tx_head + 1 == RING { EOR } else { 0 };
            opts1 |= if index > 0 { OWN } else { FS };
            opts1 |= if index + 1 == pieces.len() { LS } else { 0 };
            self.put(at, &[opts1, opts[1], buffer as u32, 0]);
            self.tx_head = (self.tx_head + 1) % RING;
        }
        let opts1 = self.word(first);
        self.put(first, &[opts1 | OWN]);
        self.w8(0xd9, 0x40);
        at
    }
}
