//! The chip from the other side: what Linux's 8139too does to it, in the same order and with constants of its own, so
//! that a wrong constant in the model does not cancel out.

use std::ops::{Deref, DerefMut};

use warikomi_clock::Time;
use warikomi_nic::NicFunction;
use warikomi_nic::rtl8139::{RTL8139, Rtl8139};
use warikomi_pci::Width;
use warikomi_testbench::Bench;

pub(crate) const STATION: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];
/// RX_BUF_LEN, and what is behind it for frames that do not wrap.
pub(crate) const RING_BYTES: u32 = 32 << 10;
pub(crate) const RING: u64 = 0x1_0000;
const RING_ROOM: usize = RING_BYTES as usize + 16 + 2_048;
pub(crate) const TX_BUFFERS: u64 = 0x4_0000;
const TX_BUFFER_BYTES: u64 = 1_792;
/// Command register: ports, memory and bus mastering on, INTx as well.
const COMMAND: u64 = 0x0007;

/// What rtl8139_rx finds of a frame: its status, and its bytes with check sequence.
pub(crate) type Found = (u16, Vec<u8>);

/// A driver with its chip on the bench.
pub(crate) struct Too {
    bench: Bench<NicFunction<Rtl8139>>,
    cur_rx: u32,
    cur_tx: u64,
    /// RX_CONFIG without what is accepted.
    pub(crate) rx_config: u32,
}

impl Deref for Too {
    type Target = Bench<NicFunction<Rtl8139>>;
    fn deref(&self) -> &Self::Target {
        &self.bench
    }
}

impl DerefMut for Too {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bench
    }
}

impl Too {
    /// A chip that nothing has been done to.
    pub(crate) fn new() -> Too {
        Too::around(Rtl8139::new(&RTL8139))
    }

    pub(crate) fn around(chip: Rtl8139) -> Too {
        let bench = Bench::cabled(|wire| Box::new(NicFunction::new(chip, wire)))
            .at(Time::from_ps(1_000_000_000_000))
            .commanded(COMMAND);
        Too { bench, cur_rx: 0, cur_tx: 0, rx_config: 0xf780 | 2 << 11 }
    }

    /// A chip that has been opened as 8139too opens it.
    pub(crate) fn open() -> Too {
        Too::open_with(Rtl8139::new(&RTL8139))
    }

    /// The same with this chip.
    pub(crate) fn open_with(chip: Rtl8139) -> Too {
        let mut too = Too::around(chip);
        too.init_board();
        too.hw_start();
        too
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
    /// RTL_W32_F.
    fn w32_f(&mut self, offset: u64, value: u32) {
        self.w32(offset, value);
        self.r32(offset);
    }

    pub(crate) fn chip_reset(&mut self) {
        self.w8(0x37, 0x10);
        assert_eq!(self.r8(0x37) & 0x10, 0, "reset is over");
    }

    /// rtl8139_init_board.
    pub(crate) fn init_board(&mut self) {
        self.w8(0x5b, b'R');
        assert_ne!(self.r32(0x40), u32::MAX, "the chip answers");
        assert_eq!(self.r32(0x40) & 0x7cc0_0000, 0x7400_0000, "an RTL8139C");
        let config = self.r8(0x52);
        assert_eq!(config & 0x11, 0x01, "power management, and LWAKE as it should be");
        assert_eq!(self.r8(0x5a) & 0x04, 0);
        self.chip_reset();
    }

    /// rtl8139_hw_start.
    pub(crate) fn hw_start(&mut self) {
        self.chip_reset();
        self.w8(0x50, 0xc0);
        self.w32_f(0x00, 0x004b_5702);
        self.w32_f(0x04, 0x0000_0100);
        self.w32_f(0x30, RING as u32);
        self.w8(0x37, 0x0c);
        let config = self.rx_config;
        self.w32(0x44, config | 0x0a);
        self.w32(0x40, 0x0300_0680);
        let config3 = self.r8(0x59);
        self.w8(0x59, config3 & !0x20);
        self.w8(0x50, 0x00);
        for slot in 0..4 {
            self.w32_f(0x20 + 4 * slot, (TX_BUFFERS + TX_BUFFER_BYTES * slot) as u32);
        }
        self.w32(0x4c, 0);
        self.set_rx_mode(0x0e, [u32::MAX; 2]);
        let multiple = self.r16(0x5c);
        self.w16(0x5c, multiple & 0xf000);
        assert_eq!(self.r8(0x37) & 0x0c, 0x0c, "receiver and transmitter are on");
        self.w16(0x3c, 0xc07f);
        (self.cur_rx, self.cur_tx) = (0, 0);
    }

    /// __set_rx_mode.
    pub(crate) fn set_rx_mode(&mut self, accept: u32, hash: [u32; 2]) {
        let config = self.rx_config;
        self.w32_f(0x44, config | accept);
        self.w32_f(0x08, hash[0]);
        self.w32_f(0x0c, hash[1]);
    }

    /// rtl8139_rx: takes frames until the buffer is empty, or one has an error; it stays there then.
    pub(crate) fn rx(&mut self) -> Vec<Found> {
        let mut found = Vec::new();
        while self.r8(0x37) & 0x01 == 0 {
            let offset = u64::from(self.cur_rx % RING_BYTES);
            let header = self.word(RING + offset);
            let size = header >> 16;
            if size == 0xfff0 {
                break;
            }
            let bytes = self.bytes(RING + offset + 4, (size as usize).min(RING_ROOM));
            found.push((header as u16, bytes));
            if !(8..=1_796).contains(&size) || header & 1 == 0 {
                break;
            }
            self.cur_rx = (self.cur_rx + size + 4 + 3) & !3;
            let read = (self.cur_rx as u16).wrapping_sub(16);
            self.w16(0x38, read);
            self.isr_ack();
        }
        found
    }

    /// rtl8139_isr_ack.
    fn isr_ack(&mut self) {
        if self.r16(0x3e) & 0x51 != 0 {
            self.w16(0x3e, 0x51);
            self.r16(0x3e);
        }
    }

    /// What rtl8139_rx_err does to the receiver.
    pub(crate) fn rx_err(&mut self) {
        let command = self.r8(0x37);
        self.w8(0x37, command & !0x08);
        self.w8(0x37, command);
        let config = self.rx_config;
        self.w32(0x44, config | 0x0e);
        self.cur_rx = 0;
    }

    /// rtl8139_start_xmit: the slot that the frame is in.
    pub(crate) fn xmit(&mut self, frame: &[u8]) -> u64 {
        let slot = self.cur_tx % 4;
        self.cur_tx += 1;
        self.put_bytes(TX_BUFFERS + TX_BUFFER_BYTES * slot, frame);
        self.w32_f(0x10 + 4 * slot, 0x0008_0000 | frame.len() as u32);
        slot
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
