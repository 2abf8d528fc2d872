//! The card from the other side: what Linux's e1000e does to it, in the same order and with constants of its own,
//! so that a wrong constant in the model does not cancel out.

use std::ops::{Deref, DerefMut};

use warikomi_clock::{Span, Time};
use warikomi_nic::NicFunction;
use warikomi_nic::e1000e::E1000e;
use warikomi_pci::{Interrupt, Width};
use warikomi_testbench::{Bench, MEMORY_AND_MASTER, MESSAGE};

pub(crate) const STATION: [u8; 6] = [0x02, 0x57, 0x4b, 0, 0, 1];

pub(crate) const RX_RING: u64 = 0x1_0000;
pub(crate) const TX_RING: u64 = 0x2_0000;
pub(crate) const SECOND_RX_RING: u64 = 0x3_0000;
pub(crate) const RX_BUFFERS: u64 = 0x10_0000;
pub(crate) const TX_BUFFERS: u64 = 0x60_0000;
/// Distance of buffers.
pub(crate) const STRIDE: u64 = 0x4000;
pub(crate) const MEMORY: usize = 0x80_0000;
/// Descriptors of each ring.
pub(crate) const RING: u32 = 256;

// Commands in the third word of a transmit descriptor.
pub(crate) const EOP: u32 = 1 << 24;
pub(crate) const IFCS: u32 = 1 << 25;
pub(crate) const TSE: u32 = 1 << 26;
pub(crate) const RS: u32 = 1 << 27;
pub(crate) const DEXT: u32 = 1 << 29;
pub(crate) const VLE: u32 = 1 << 30;
pub(crate) const IDE: u32 = 1 << 31;
pub(crate) const DATA: u32 = DEXT | 1 << 20;

/// How interrupts reach the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Msix,
    Msi,
    Intx,
}

/// A frame as a driver finds it: status and errors, tag, hash and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) status: u32,
    pub(crate) tag: u16,
    pub(crate) words: [u32; 2],
    pub(crate) bytes: Vec<u8>,
}

/// A driver with its card on the bench.
pub(crate) struct Lab {
    bench: Bench<NicFunction<E1000e>>,
    mode: Mode,
    pub(crate) rx_next: u32,
    pub(crate) tx_next: u32,
}

impl Deref for Lab {
    type Target = Bench<NicFunction<E1000e>>;
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
    /// A card with memory decoding and bus mastering on, and nothing else done to it.
    pub(crate) fn new(mode: Mode) -> Lab {
        let mut bench = Bench::cabled(|wire| Box::new(NicFunction::new(E1000e::new(), wire)))
            .with_memory(0, MEMORY)
            .at(Time::from_ps(1_000_000_000_000))
            .commanded(MEMORY_AND_MASTER);
        match mode {
            Mode::Msix => assert_eq!(bench.enable_msix(MESSAGE), 5),
            Mode::Msi => assert_eq!(bench.enable_msi(MESSAGE), 1),
            Mode::Intx => bench.config(4, Width::B2, 6),
        }
        Lab { bench, mode, rx_next: 0, tx_next: 0 }
    }

    /// One that has been opened as e1000e opens it: e1000e_reset, e1000_configure, e1000_configure_msix,
    /// e1000_irq_enable, and what the watchdog does when there is a link.
    pub(crate) fn open(mode: Mode) -> Lab {
        let mut lab = Lab::new(mode);
        lab.reset_hw();
        lab.w32(0x5008, 0x8000);
        lab.w32(0x0100, 0x0400_8002);
        lab.configure_tx();
        lab.configure_rx();
        if mode == Mode::Msix {
            lab.configure_msix();
        }
        lab.irq_enable();
        let tctl = lab.r32(0x0400);
        lab.w32(0x0400, tctl | 2);
        lab.line.take();
        lab
    }

    pub(crate) fn r32(&mut self, offset: u64) -> u32 {
        self.read(offset, Width::B4) as u32
    }

    pub(crate) fn w32(&mut self, offset: u64, value: u32) {
        self.write(offset, Width::B4, value.into());
    }

    /// e1000e_write_phy_reg_mdic.
    pub(crate) fn mdio_write(&mut self, register: u32, value: u16) {
        self.w32(0x20, 0x0420_0000 | register << 16 | u32::from(value));
        assert_eq!(self.r32(0x20) & 0x5000_0000, 0x1000_0000, "ready, and no error");
    }

    /// e1000e_read_phy_reg_mdic.
    pub(crate) fn mdio_read(&mut self, register: u32) -> u16 {
        self.w32(0x20, 0x0820_0000 | register << 16);
        let answer = self.r32(0x20);
        assert_eq!(answer & 0x5000_0000, 0x1000_0000, "ready, and no error");
        assert_eq!(answer >> 16 & 0x1f, register);
        answer as u16
    }

    /// e1000_reset_hw_82571.
    pub(crate) fn reset_hw(&mut self) {
        let ctrl = self.r32(0);
        self.w32(0, ctrl | 4);
        assert_eq!(self.r32(8) & 0x8_0000, 0, "no requests any more");
        self.w32(0xd8, 0xffff_ffff);
        self.w32(0x100, 0);
        let tctl = self.r32(0x400);
        self.w32(0x400, tctl & !2);
        let owner = self.r32(0xf00);
        self.w32(0xf00, owner | 0x20);
        assert_ne!(self.r32(0xf00) & 0x20, 0, "the management bus is the driver's");
        let ctrl = self.r32(0);
        self.w32(0, ctrl | 0x0400_0000);
        assert_eq!(self.r32(0) & 0x0400_0000, 0, "reset is over");
        let owner = self.r32(0xf00);
        self.w32(0xf00, owner & !0x20);
        assert_ne!(self.r32(0x10) & 0x200, 0, "the EEPROM has been read");
        self.w32(0xd8, 0xffff_ffff);
        self.r32(0xc0);
        assert_eq!(self.r32(0xc0), 0);
    }

    /// e1000_configure_tx.
    fn configure_tx(&mut self) {
        (0..RING).for_each(|i| self.put(TX_RING + 16 * u64::from(i), &[0; 4]));
        self.w32(0x3800, TX_RING as u32);
        self.w32(0x3804, 0);
        self.w32(0x3808, 16 * RING);
        self.w32(0x3810, 0);
        self.w32(0x3818, 0);
        self.w32(0x3820, 8);
        self.w32(0x382c, 32);
        self.w32(0x0400, 0x0103_f0f8);
        self.tx_next = 0;
    }

    /// e1000_configure_rx and e1000e_alloc_rx_buffers.
    fn configure_rx(&mut self) {
        self.w32(0x2820, 0);
        self.w32(0x282c, 8);
        self.w32(0xe0, 0xffff_ffff);
        let ext = self.r32(0x18);
        self.w32(0x18, ext | 1 << 27);
        for i in 0..RING {
            self.refill(i);
        }
        self.w32(0x2800, RX_RING as u32);
        self.w32(0x2804, 0);
        self.w32(0x2808, 16 * RING);
        self.w32(0x2810, 0);
        self.w32(0x2818, 0);
        self.w32(0x5000, 0x2300);
        let rctl = self.r32(0x100);
        self.w32(0x100, rctl | 2);
        self.w32(0x2818, RING - 1);
        self.rx_next = 0;
    }

    fn configure_msix(&mut self) {
        self.w32(0xe8, 1);
        self.w32(0xec, 1);
        self.w32(0xf0, 1);
        self.w32(0xe4, 0x800a_0908);
        let ext = self.r32(0x18) & !(1 << 27);
        self.w32(0x18, ext | 1 << 31 | 1 << 24);
    }

    /// e1000_irq_enable.
    pub(crate) fn irq_enable(&mut self) {
        match self.mode {
            Mode::Msix => {
                self.w32(0xdc, 0x0050_0000);
                self.w32(0xd0, 0x0157_0244);
            }
            _ => self.w32(0xd0, 0x9d),
        }
    }

    fn refill(&mut self, index: u32) {
        let buffer = RX_BUFFERS + STRIDE * u64::from(index);
        self.put(RX_RING + 16 * u64::from(index), &[buffer as u32, (buffer >> 32) as u32]);
    }

    /// e1000_clean_rx_irq: takes frames off the ring, and gives their descriptors back.
    pub(crate) fn rx(&mut self) -> Vec<Received> {
        let mut frames = Vec::new();
        loop {
            let index = self.rx_next;
            let at = RX_RING + 16 * u64::from(index);
            let status = self.word(at + 8);
            if status & 1 == 0 || frames.len() == RING as usize {
                break;
            }
            let words = [self.word(at), self.word(at + 4)];
            let length = self.word(at + 12);
            let bytes =
                self.bytes(RX_BUFFERS + STRIDE * u64::from(index), (length & 0xffff) as usize);
            frames.push(Received { status, tag: (length >> 16) as u16, words, bytes });
            self.put(at + 8, &[status & !0xff]);
            self.refill(index);
            self.rx_next = (index + 1) % RING;
        }
        let tail = (self.rx_next + RING - 1) % RING;
        self.w32(0x2818, tail);
        frames
    }

    /// e1000_xmit_frame of a frame that needs nothing, in pieces.
    pub(crate) fn xmit(&mut self, pieces: &[&[u8]]) {
        self.queue(pieces, IFCS, 0);
        self.w32(0x3818, self.tx_next);
    }

    /// e1000_tx_queue: `command` is in each descriptor, and what an end has besides in the last.
    pub(crate) fn queue(&mut self, pieces: &[&[u8]], command: u32, upper: u32) {
        for (i, piece) in pieces.iter().enumerate() {
            let buffer = TX_BUFFERS + 0x1000 * u64::from(self.tx_next);
            self.put_bytes(buffer, piece);
            let last = if i + 1 == pieces.len() { EOP | RS } else { 0 };
            self.queue_words([
                buffer as u32,
                (buffer >> 32) as u32,
                command | last | piece.len() as u32,
                upper,
            ]);
        }
    }

    pub(crate) fn queue_words(&mut self, words: [u32; 4]) {
        self.put(TX_RING + 16 * u64::from(self.tx_next), &words);
        self.tx_next = (self.tx_next + 1) % RING;
    }

    /// The status of a transmit descriptor.
    pub(crate) fn tx_status(&self, index: u64) -> u32 {
        self.word(TX_RING + 16 * index + 12) & 0xf
    }

    /// Vectors whose messages have come since the last time.
    pub(crate) fn messages(&mut self) -> Vec<u32> {
        let vector = |interrupt| match interrupt {
            Interrupt::Msi(message) => message.data - MESSAGE.data,
            Interrupt::Intx(_) => panic!("messages are on"),
        };
        self.line.take().into_iter().map(vector).collect()
    }

    /// Time passes.
    pub(crate) fn us(&mut self, us: u64) {
        self.wait(Span::from_us(us));
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
